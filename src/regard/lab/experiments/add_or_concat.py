"""Positions: added to the embeddings, or concatenated with them.

A Transformer layer needs vectors of the model's width D. So a concatenation [x; p] of embedding and position needs a
linear map W of 2 D to D numbers. Its upper half multiplies the embedding and its lower half the position:

    [x; p] W = x W_x + p W_p

The concatenation is a sum too, of two projections. The plain sum x + p is the case W_x = W_p = I. The two can compute
the same, but concatenation has 2 D^2 weights more, and they can place words and positions in different directions from
the first steps on. A sum with a wider feed-forward layer has as many weights as the concatenation and is compared too.
"""

from collections.abc import Sequence

import torch
from torch import nn

from regard.lab.old_form import (
    POSITION_NAMES,
    Effort,
    Experiment,
    Panel,
    Question,
    Record,
    Results,
    Text,
    Verdict,
    above,
    decide,
)
from regard.lab.toys import (
    ToyTensors,
    accuracy,
    build_tagger,
    fit_toy,
    generator_of,
    seeded,
    tagging_loss,
)
from regard.layers.positions import Concatenated

WORDS, LENGTH, WIDTH = 16, 12, 32
LEARNT = 0.5
"""The task counts as learnt when the nll per word is below."""
LOG_EVERY = 10
SUM, WIDE_SUM, CONCATENATION = "sum", "wide sum", "concatenation"
SETTINGS = {SUM: ("add", 64), WIDE_SUM: ("add", 96), CONCATENATION: ("concat", 64)}
"""How positions are combined, and the width of the feed-forward layers."""
NAMES = {
    SUM: Text("sum", "相加"),
    WIDE_SUM: Text("sum, as many weights as concatenation", "相加（参数量与拼接相同）"),
    CONCATENATION: Text("concatenation and a linear map", "拼接后线性映射"),
    **POSITION_NAMES,
}


def reversal(generator: torch.Generator, size: int = 64) -> ToyTensors:
    """Random words; the labels are the same words from last to first, so only positions tell where to look."""
    ids = torch.randint(WORDS, (size, LENGTH), generator=generator)
    return {"ids": ids, "labels": ids.flip(1)}


@torch.no_grad()
def difference(seed: int) -> float:
    """Largest difference of [x; p] W and x W_x + p W_p in float64, for random numbers of size about one."""
    seeded(seed, "identity")
    split = Concatenated(WIDTH).double()
    whole = nn.Linear(2 * WIDTH, WIDTH, bias=False).double()
    whole.weight.data = torch.cat([split.word.weight, split.position.weight], dim=1)
    x, p = torch.randn(2, LENGTH, WIDTH, generator=generator_of(seed, "vectors"), dtype=torch.float64)
    return float((whole(torch.cat([x, p], dim=1)) - split(x, p)).abs().max())


def steps_to_learn(losses: Sequence[float]) -> int:
    """Steps until the loss is below `LEARNT`; all steps if it never is."""
    first = next((index for index, loss in enumerate(losses) if loss < LEARNT), len(losses) - 1)
    return (first + 1) * LOG_EVERY


class AddOrConcat(Experiment):
    """The identity, final accuracy and speed of learning for sums and concatenations."""

    name = "add-or-concat"
    topic = "positions"
    title = Text("Add positions or concatenate them?", "位置向量：相加还是拼接？")
    questions = (
        Question(
            "003:202-205",
            Text("How are position vectors combined with word vectors?", "位置向量和词向量怎样结合？"),
            Text(
                "Two options: concatenate them to a new vector, or add vectors of equal size, as Google and Facebook "
                "do.",
                "两个可选方案：拼接成一个新向量，或者定义为同样大小后相加（Google 和 Facebook 的选择）。",
            ),
        ),
    )
    hypothesis = Text(
        "Both are possible: a linear map of the concatenation is a sum of two projections, and both models learn.",
        "两者都可行：拼接后的线性映射等于两个投影之和，两种模型都能学会任务。",
    )
    varied = Text(
        "how positions are combined with embeddings, and the kind of positions",
        "位置与词向量的结合方式，以及位置的种类",
    )
    measured = Text(
        "accuracy of reversed sentences, and the steps until the loss is low; the difference of both sides of the "
        "equation",
        "反转句子的准确率，以及损失降低所需的步数；等式两边之差",
    )
    refuted_if = Text(
        "the two sides of the equation differ, or one of the models does not learn the task",
        "等式两边不相等，或其中一种模型学不会任务",
    )
    panels = (
        Panel(
            "loss",
            Text("reversing a sentence, sinusoidal positions", "反转句子（正弦位置）"),
            Text("steps", "训练步数"),
            Text("training loss (nll per word)", "训练损失（每词负对数似然）"),
            names=NAMES,
        ),
        Panel(
            "steps",
            Text("steps until the task is learnt", "学会任务所需的步数"),
            Text("positions", "位置"),
            Text("steps", "步数"),
            kind="bars",
            names=NAMES,
        ),
        Panel(
            "accuracy",
            Text("accuracy at the end", "最终准确率"),
            Text("positions", "位置"),
            Text("accuracy", "准确率"),
            kind="bars",
            names=NAMES,
        ),
        Panel(
            "weights",
            Text("weights of the model", "模型的参数量"),
            Text("positions", "位置"),
            Text("weights", "参数量"),
            kind="bars",
            names=NAMES,
        ),
        Panel(
            "difference",
            Text("difference of [x; p] W and x W_x + p W_p", "[x; p] W 与 x W_x + p W_p 之差"),
            Text("arithmetic", "精度"),
            Text("largest difference", "最大差值"),
            kind="bars",
            names={"difference": Text("largest difference", "最大差值")},
        ),
    )
    papers = ("Vaswani et al. 2017, section 3.5", "Gehring et al. 2017, section 3.1")
    seconds = 33

    def measure(self, seed: int, effort: Effort, record: Record) -> None:
        record("difference", "difference", "float64", difference(seed))
        for positions in effort.pick(("sinusoidal", "learned"), ("sinusoidal",)):
            for name, (combine, d_ff) in SETTINGS.items():
                seeded(seed, "weights")
                model = build_tagger(
                    WORDS, WORDS, d_model=WIDTH, d_ff=d_ff, positions=positions, combine=combine,
                    max_positions=LENGTH,
                )  # fmt: skip
                losses = fit_toy(
                    model,
                    reversal,
                    tagging_loss,
                    steps=effort.pick(250, 130),
                    rate=3e-3,
                    seed=seed,
                    log_every=LOG_EVERY,
                )
                record("weights", name, positions, sum(weight.numel() for weight in model.parameters()))
                record("steps", name, positions, steps_to_learn(losses))
                record("accuracy", name, positions, accuracy(model, reversal(generator_of(seed, "test"), 300)))
                if positions == "sinusoidal":
                    for index, loss in enumerate(losses):
                        record("loss", name, (index + 1) * LOG_EVERY, loss)

    def judge(self, results: Results) -> Verdict:
        kinds = results.xs("accuracy", SUM)
        scores = [value for name in SETTINGS for kind in kinds for value in results.values("accuracy", name, kind)]
        apart = max(results.values("difference", "difference", "float64"))
        faster = above(
            results.values("steps", WIDE_SUM, "sinusoidal"), results.values("steps", CONCATENATION, "sinusoidal")
        )
        speed = (
            Text("Concatenation learns faster", "拼接学得更快")
            if faster
            else Text("The speed does not clearly differ", "学习速度没有明显差别")
        )
        return Verdict(
            decide(apart < 1e-12 and min(scores) > 0.95, apart > 1e-6 or min(scores) < 0.5),
            Text(
                "The two sides of the equation differ by {apart:.0e}, and every model reaches at least {least:.1%}. "
                f"{speed.en}: with sinusoidal positions "
                "the task takes {concatenation:.0f} steps, with a sum {sum:.0f}, and with a sum of as many weights "
                "{wide:.0f}.",
                "等式两边之差为 {apart:.0e}，所有模型的准确率都不低于 {least:.1%}。"
                f"{speed.zh}：正弦位置下，"
                "拼接需要 {concatenation:.0f} 步，相加 {sum:.0f} 步，参数量相同的相加 {wide:.0f} 步。",
            ),
            {
                "apart": apart,
                "least": min(scores),
                "concatenation": results.mean("steps", CONCATENATION, "sinusoidal"),
                "sum": results.mean("steps", SUM, "sinusoidal"),
                "wide": results.mean("steps", WIDE_SUM, "sinusoidal"),
            },
        )
