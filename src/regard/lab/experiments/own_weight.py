"""The diagonal of the attention weights: a token attends most to itself only where queries and keys are equal.

With Q = K = x the score of a token with itself is x_i^T x_i = |x_i|^2, and for random vectors no other product
x_i^T x_j is as large. But attention has projections: (W_Q x_i)^T (W_K x_i) is a random number before training, as all
other scores are. Training makes a head attend to what the task needs; the token itself comes through the residual
connection anyway.
"""

from collections.abc import Callable
from pydoc_data.topics import topics

import torch
from torch import Tensor

from regard.attention.attend import attend
from regard.lab.experiment import Effort, Experiment, Panel, Question, Record, Results, Text, Verdict, above, decide
from regard.lab.toys import (
    IGNORE,
    ToyTensors,
    build_tagger,
    fit_toy,
    generator_of,
    rectangle,
    seeded,
    tagging_loss,
)
from regard.models.text_encoder import EncoderWithHead, TransformerEncoder

WORDS, LENGTH, WIDTH = 32, 16, 32
EQUAL, UNTRAINED = "Q = K = x", "not trained"
OWN, PREVIOUS, MASKED = "own word", "previous word", "masked letters"
LETTERS = " abcdefghijklmnopqrstuvwxyz"
MASK = len(LETTERS)
SHARE = "share"


def own(generator: torch.Generator, size: int = 32) -> ToyTensors:
    """Random words; the label of a word is the word itself."""
    ids = torch.randint(WORDS, (size, LENGTH), generator=generator)
    return {"ids": ids, "labels": ids}


def previous(generator: torch.Generator, size: int = 32) -> ToyTensors:
    """Random words on a circle; the label of a word is the word before it."""
    ids = torch.randint(WORDS, (size, LENGTH), generator=generator)
    return {"ids": ids, "labels": ids.roll(1, dims=1)}


def prose() -> Tensor:
    """The letters of Python's own documentation, without anything else."""
    text = " ".join(topics[name] for name in sorted(topics)).lower()
    words = "".join(letter if letter in LETTERS else " " for letter in text).split()
    return torch.tensor([LETTERS.index(letter) for letter in " ".join(words)])


def masked(letters: Tensor) -> Callable[..., ToyTensors]:
    """Pieces of the text, with a sixth of their letters masked; the labels are those letters."""

    def batch(generator: torch.Generator, size: int = 32) -> ToyTensors:
        start = torch.randint(len(letters) - LENGTH, (size, 1), generator=generator)
        ids = letters[start + torch.arange(LENGTH)]
        hidden = torch.rand(size, LENGTH, generator=generator) < 1 / 6
        return {"ids": ids.masked_fill(hidden, MASK), "labels": ids.masked_fill(~hidden, IGNORE)}

    return batch


def diagonal_share(weights: Tensor) -> float:
    """Share of the rows of weights (..., T, T) whose largest weight is on the diagonal."""
    return float((weights.argmax(dim=-1) == torch.arange(weights.size(-1))).float().mean())


def model_share(model: EncoderWithHead, ids: Tensor) -> float:
    """The share in all layers and heads of a model."""
    assert isinstance(model.encoder, TransformerEncoder)
    weights = model.encoder.record_attention(rectangle(ids))
    assert weights is not None
    return diagonal_share(weights)


class OwnWeight(Experiment):
    """Share of tokens that attend most to themselves."""

    name = "own-weight"
    topic = "attention"
    title = Text("Does a token attend most to itself?", "词对自己的注意力最高吗？")
    questions = (
        Question(
            "004:494",
            Text("Is the weight of a token on itself the highest?", "自己对自己的注意力是最高的吗？"),
            Text("Surely it is.", "自己对自己的 Attention 肯定是最高的。"),
        ),
    )
    hypothesis = Text("A token attends most to itself.", "每个词对自己的注意力最高。")
    varied = Text("projections of queries and keys, and the task that the model learned", "Q、K 的投影，以及训练的任务")
    measured = Text(
        "share of rows, in all layers and heads, whose largest weight is on the diagonal",
        "所有层和头中，最大权重在对角线上的行的比例",
    )
    refuted_if = Text(
        "in every trained model fewer than half of the tokens do", "在每个训练好的模型中，这样的词都不到一半"
    )
    panels = (
        Panel(
            "share",
            Text("tokens that attend most to themselves", "对自己注意力最高的词"),
            Text("model", "模型"),
            Text("share of rows", "行的比例"),
            kind="bars",
            names={
                SHARE: Text("share", "比例"),
                EQUAL: Text("Q = K = x", "Q = K = x"),
                UNTRAINED: Text("not trained", "未训练"),
                OWN: Text("trained: own word", "训练：词本身"),
                PREVIOUS: Text("trained: previous word", "训练：前一个词"),
                MASKED: Text("trained: masked letters", "训练：被遮住的字母"),
            },
        ),
    )
    papers = ("Vaswani et al. 2017, section 3.2",)
    seconds = 28

    def measure(self, seed: int, effort: Effort, record: Record) -> None:
        generator = generator_of(seed, "test")
        x = torch.randn(100, LENGTH, WIDTH, generator=generator)
        record("share", SHARE, EQUAL, diagonal_share(attend(x, x, x)[1]))
        seeded(seed, "weights", UNTRAINED)
        record("share", SHARE, UNTRAINED, model_share(tagger(), own(generator, 200)["ids"]))
        tasks: dict[str, Callable[..., ToyTensors]] = {OWN: own, PREVIOUS: previous, MASKED: masked(prose())}
        for name, batch in tasks.items():
            seeded(seed, "weights", name)
            model = tagger()
            steps = effort.pick(500 if name == MASKED else 250, 60)
            fit_toy(model, batch, tagging_loss, steps=steps, rate=3e-3, seed=seed)
            record("share", SHARE, name, model_share(model, batch(generator, 200)["ids"]))

    def judge(self, results: Results) -> Verdict:
        trained = [y for name in (OWN, PREVIOUS, MASKED) for y in results.values("share", SHARE, name)]
        return Verdict(
            decide(above(trained, [0.5]), above([0.5], trained)),
            Text(
                "With Q = K = x, {equal:.0%} of the tokens attend most to themselves; with the projections of a model "
                "before training {untrained:.0%} (by chance {chance:.0%}). After training it is {own:.0%} if the task "
                "is the own word, {previous:.0%} for the previous word and {masked:.0%} for masked letters.",
                "Q = K = x 时，{equal:.0%} 的词对自己的注意力最高；有投影而未训练时为 {untrained:.0%}（随机为 "
                "{chance:.0%}）。训练后，任务为词本身时 {own:.0%}，前一个词时 {previous:.0%}，预测被遮住的字母时 "
                "{masked:.0%}。",
            ),
            {
                "equal": results.mean("share", SHARE, EQUAL),
                "untrained": results.mean("share", SHARE, UNTRAINED),
                "own": results.mean("share", SHARE, OWN),
                "previous": results.mean("share", SHARE, PREVIOUS),
                "masked": results.mean("share", SHARE, MASKED),
                "chance": 1 / LENGTH,
            },
        )


def tagger() -> EncoderWithHead:
    """Two Transformer layers of four heads."""
    return build_tagger(max(WORDS, MASK + 1), max(WORDS, MASK), layers=2, d_model=WIDTH)
