"""Which hyper-parameters matter? Table 3 of the Transformer in small, and what the notes leave out.

The notes say that only three can be tuned: the number of layers N, the heads h, and the width d_model. Here each of
eight settings of a small Transformer is halved and doubled (or taken away; one layer is only doubled), all others stay.
The effect of a setting is the larger of the two changes of the nll of new pairs:

    effect = max over values of |nll(value) - nll(base)|

The task is reversing digits from a few hundred pairs, one digit in ten being a wrong one, so that a model can learn too
little and can learn the errors by heart. All runs have the same steps, pairs and seeds.
"""

from functools import partial

import torch

from regard.files import JsonObject
from regard.lab.old_form import Effort, Experiment, Panel, Question, Record, Results, Text, Verdict, above, decide
from regard.lab.toy_pairs import SHIFT, pair_batch, translation_loss
from regard.lab.toys import ToyTensors, fit_toy, generator_of, seeded
from regard.models.transformer import Transformer, TransformerSettings

DIGITS, LENGTH, PAIRS, WRONG = 10, 6, 400, 0.1
BASE: JsonObject = {
    "layers": 1, "num_heads": 4, "d_model": 32, "d_ff": 64, "dropout": 0.1, "smoothing": 0.1, "warmup": 20, "rate": 4e-3
}  # fmt: skip
CHANGES: dict[str, tuple[float, ...]] = {
    "layers": (2,),
    "num_heads": (2, 8),
    "d_model": (16, 64),
    "d_ff": (32, 128),
    "dropout": (0.0, 0.2),
    "smoothing": (0.0, 0.2),
    "warmup": (0, 60),
    "rate": (2e-3, 8e-3),
}
NOTES = ("layers", "num_heads", "d_model")
"""The hyper-parameters that matter according to the notes."""
NAMES = {
    "layers": Text("layers N", "层数 N"),
    "num_heads": Text("heads h", "头数 h"),
    "d_model": Text("width d_model", "宽度 d_model"),
    "d_ff": Text("inner width d_ff", "前馈宽度 d_ff"),
    "dropout": Text("dropout", "dropout"),
    "smoothing": Text("label smoothing", "标签平滑"),
    "warmup": Text("warm-up", "预热步数"),
    "rate": Text("learning rate", "学习率"),
    "smaller": Text("halved or none", "减半或不用"),
    "larger": Text("doubled or more", "加倍或更多"),
}


def reversals(generator: torch.Generator, size: int, wrong: float) -> ToyTensors:
    """Random digits; the target is the digits in reverse, of which a share is random."""
    digits = torch.randint(DIGITS, (size, LENGTH), generator=generator)
    errors = torch.rand(size, LENGTH, generator=generator) < wrong
    target = torch.where(errors, torch.randint(DIGITS, (size, LENGTH), generator=generator), digits.flip(1))
    return pair_batch(digits.tolist(), target.tolist())


def chosen(generator: torch.Generator, pairs: ToyTensors, size: int = 32) -> ToyTensors:
    """Random pairs of a fixed set."""
    rows = torch.randint(len(pairs["labels"]), (size,), generator=generator)
    return {key: values[rows] for key, values in pairs.items()}


class Hyperparameters(Experiment):
    """The effect of eight hyper-parameters on the nll of new pairs."""

    name = "hyperparameters"
    topic = "training"
    title = Text("Which hyper-parameters matter?", "哪些超参数重要？")
    questions = (
        Question(
            "004:368, 004:539-544",
            Text("Which hyper-parameters does a Transformer have?", "Transformer 有哪些可调的超参数？"),
            Text(
                "Three: the number of layers N, the heads h, and the width d_model; the others follow from them.",
                "只有三个：层数 N、头数 h 和特征宽度 d_model；其他的随之变化。",
            ),
        ),
    )
    hypothesis = Text(
        "Layers, heads and width matter more than any other hyper-parameter.",
        "层数、头数和宽度比其他任何超参数都重要。",
    )
    varied = Text(
        "one hyper-parameter at a time: halved and doubled, or taken away", "每次只改一个超参数：减半、加倍或不用"
    )
    measured = Text("change of the nll of new pairs", "新句对负对数似然的变化")
    refuted_if = Text(
        "another hyper-parameter has a larger effect than one of the three", "别的某个超参数的影响大于这三个中的某一个"
    )
    panels = (
        Panel(
            "nll",
            Text("nll of new pairs, one setting changed", "改变一个设置后新句对的负对数似然"),
            Text("hyper-parameter", "超参数"),
            Text("nll, less that of the base model", "负对数似然减去基准模型的值"),
            kind="bars",
            names=NAMES,
        ),
        Panel(
            "effect",
            Text("the larger of the two changes", "两种变化中较大的一个"),
            Text("hyper-parameter", "超参数"),
            Text("effect on the nll", "对负对数似然的影响"),
            kind="bars",
            names=NAMES | {"effect": Text("effect", "影响")},
        ),
    )
    papers = ("Vaswani et al. 2017, table 3",)
    seconds = 50

    def measure(self, seed: int, effort: Effort, record: Record) -> None:
        pairs = reversals(generator_of(seed, "pairs"), PAIRS, WRONG)
        test = reversals(generator_of(seed, "test"), 400, WRONG)
        steps = effort.pick(150, 8)
        base = self.nll_of(BASE, pairs, test, steps, seed)
        for name, values in CHANGES.items():
            found = [self.nll_of(BASE | {name: value}, pairs, test, steps, seed) - base for value in values]
            for value, change in zip(values, found, strict=True):
                record("nll", "smaller" if value < BASE[name] else "larger", name, change)
            record("effect", "effect", name, max(map(abs, found)))

    def nll_of(self, values: JsonObject, pairs: ToyTensors, test: ToyTensors, steps: int, seed: int) -> float:
        """Train a model with these hyper-parameters; the nll per digit of new pairs."""
        seeded(seed, "weights")
        layers = int(values["layers"])
        settings = TransformerSettings(
            encoder_layers=layers, decoder_layers=layers, d_model=int(values["d_model"]), d_ff=int(values["d_ff"]),
            num_heads=int(values["num_heads"]), dropout=values["dropout"], norm="pre",
        )  # fmt: skip
        model = Transformer(settings, SHIFT + DIGITS, SHIFT + DIGITS)
        loss = partial(translation_loss, smoothing=values["smoothing"])
        fit_toy(
            model, partial(chosen, pairs=pairs), loss, steps=steps, rate=values["rate"], warmup=int(values["warmup"]),
            seed=seed,
        )  # fmt: skip
        with torch.no_grad():
            found = translation_loss(model, test)
        return float(found.nll / found.count)

    def judge(self, results: Results) -> Verdict:
        effects = {name: results.values("effect", "effect", name) for name in CHANGES}
        others = [name for name in CHANGES if name not in NOTES]
        ordered = all(above(effects[one], effects[other]) for one in NOTES for other in others)
        overtaken = any(above(effects[other], effects[one]) for one in NOTES for other in others)
        return Verdict(
            decide(ordered, overtaken),
            Text(
                "The nll of new pairs changes by up to {d_model:.2f} with the width, {layers:.2f} with the layers and "
                "{num_heads:.2f} with the heads; by {rate:.2f} with the learning rate, {d_ff:.2f} with the inner "
                "width, "
                "{dropout:.2f} with dropout, {smoothing:.2f} with label smoothing and {warmup:.2f} with the warm-up.",
                "新句对的负对数似然最多变化：宽度 {d_model:.2f}，层数 {layers:.2f}，头数 {num_heads:.2f}；学习率 "
                "{rate:.2f}，"
                "前馈宽度 {d_ff:.2f}，dropout {dropout:.2f}，标签平滑 {smoothing:.2f}，预热 {warmup:.2f}。",
            ),
            {name: results.mean("effect", "effect", name) for name in CHANGES},
        )
