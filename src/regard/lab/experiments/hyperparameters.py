"""Which hyper-parameters matter? Table 3 of the Transformer in small, and what the notes leave out.

The notes say that only three can be tuned: the number of layers N, the heads h, and the width d_model. Here each of
eight settings of a small Transformer is halved and doubled (or taken away; one layer is only doubled), all others stay.
The effect of a setting is the larger of the two changes of the nll of new pairs:

    effect = max over values of |nll(value) - nll(base)|

The task is reversing digits from a few hundred pairs, with one digit in ten wrong, so that a model can learn too little
and can learn the errors by heart.
"""

from functools import partial

import torch

from regard.files import JsonObject
from regard.lab.experiment import Effort, Record, Results, Verdict, above, decide
from regard.lab.toy_pairs import SHIFT, reversed_pairs, translation_loss
from regard.lab.toys import ToyTensors, fit_toy, generator_of, random_rows, seeded
from regard.models.transformer import Transformer, TransformerSettings

DIGITS, PAIRS = 10, 400
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


def nll_of(values: JsonObject, pairs: ToyTensors, test: ToyTensors, steps: int, seed: int) -> float:
    """Train a model with these hyper-parameters; the nll per digit of new pairs."""
    seeded(seed, "weights")
    sizes = {name: values[name] for name in ("num_heads", "d_model", "d_ff", "dropout")}
    depth = {"encoder_layers": values["layers"], "decoder_layers": values["layers"]}
    settings = TransformerSettings.model_validate({**sizes, **depth, "norm": "pre"})
    model = Transformer(settings, SHIFT + DIGITS, SHIFT + DIGITS)
    batch, loss = partial(random_rows, rows=pairs), partial(translation_loss, smoothing=values["smoothing"])
    fit_toy(model, batch, loss, steps=steps, rate=values["rate"], warmup=values["warmup"], seed=seed)
    with torch.no_grad():
        found = translation_loss(model, test)
    return float(found.nll / found.count)


def measure(seed: int, effort: Effort, record: Record) -> None:
    batch = partial(reversed_pairs, words=DIGITS, length=6, size=PAIRS, wrong=0.1)
    pairs, test = (batch(generator_of(seed, name)) for name in ("pairs", "test"))
    nll = partial(nll_of, pairs=pairs, test=test, steps=effort.pick(150, 8), seed=seed)
    base = nll(BASE)
    for name, values in CHANGES.items():
        found = [nll(BASE | {name: value}) - base for value in values]
        for value, change in zip(values, found, strict=True):
            record("nll", "smaller" if value < BASE[name] else "larger", name, change)
        record("effect", "effect", name, max(map(abs, found)))


def judge(results: Results) -> Verdict:
    """Compare the three of the notes, which come first, with the others."""
    effects = [results.values("effect", "effect", name) for name in CHANGES]
    pairs = [(one, other) for one in effects[:3] for other in effects[3:]]
    ordered, overtaken = all(above(*pair) for pair in pairs), any(above(other, one) for one, other in pairs)
    return Verdict(decide(ordered, overtaken))
