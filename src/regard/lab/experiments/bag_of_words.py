"""A bag of words: self-attention without positions does not know the order, but no other Transformer is like that.

A model reads eight words, among them A and B, and says whether A comes before B. Then the words are shuffled. Attention
is a sum over a set: without positions, and without a mask, the mean of the outputs is the same for every order, so the
answer cannot depend on it. Positions change that. A causal mask changes it too, without any positions: word i sees i
words, and can tell its place from that. ALiBi in an encoder is a special case: its bias depends on the absolute value
of the distance, so a sentence and its reverse look the same.

The second panel asks every word for its own place.
"""

import torch
from torch import Tensor

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
    MakeBatch,
    ToyTensors,
    accuracy,
    build_tagger,
    fit_toy,
    generator_of,
    rectangle,
    seeded,
    tagging_loss,
)
from regard.models.text_encoder import EncoderWithHead

FILLERS, LENGTH = 8, 8
FIRST, SECOND, START = FILLERS, FILLERS + 1, FILLERS + 2
VOCABULARY = FILLERS + 3
CAUSAL = "none, causal mask"
ACCURACY, SAME = "right in order", "same answer when shuffled"


def in_random_order(ids: Tensor, generator: torch.Generator) -> Tensor:
    """The words of each row in an order of its own."""
    return ids.gather(1, torch.rand(ids.shape, generator=generator).argsort(dim=1))


def pairs(generator: torch.Generator, size: int = 32) -> ToyTensors:
    """Rows with A, B and fillers in random order; the label is 1 if A comes before B."""
    ids = torch.randint(FILLERS, (size, LENGTH), generator=generator)
    ids[:, 0], ids[:, 1] = FIRST, SECOND
    ids = in_random_order(ids, generator)
    places = torch.arange(LENGTH)
    first, second = (((ids == word) * places).sum(dim=1) for word in (FIRST, SECOND))
    return {"ids": ids, "labels": (first < second).long()}


def places(generator: torch.Generator, size: int = 32) -> ToyTensors:
    """A start symbol and random words; the label of each is its place."""
    ids = torch.randint(FILLERS, (size, LENGTH), generator=generator)
    ids[:, 0] = START
    return {"ids": ids, "labels": torch.arange(LENGTH).expand(size, -1).contiguous()}


@torch.no_grad()
def same_answers(model: EncoderWithHead, ids: Tensor, generator: torch.Generator) -> float:
    """Share of rows whose answer stays the same when their words are shuffled."""
    answers = [model(rectangle(x)).argmax(dim=-1) for x in (ids, in_random_order(ids, generator))]
    return float((answers[0] == answers[1]).float().mean())


class BagOfWords(Experiment):
    """The answer to a question of order before and after shuffling, for each kind of positions."""

    name = "bag-of-words"
    topic = "positions"
    title = Text("Is a Transformer a bag of words?", "Transformer 是词袋模型吗？")
    questions = (
        Question(
            "000:216, 003:190, 004:523",
            Text(
                "Is a Transformer only a more powerful bag of words?", "Transformer 是否只是一个功能更强大的词袋模型？"
            ),
            Text(
                "Yes: however the words of a sentence are shuffled, the result is about the same.",
                "是：无论句子的结构怎么打乱，都会得到类似的结果。",
            ),
        ),
    )
    hypothesis = Text(
        "A Transformer gives the same answer however the words are shuffled.",
        "无论词序怎么打乱，Transformer 的答案都相同。",
    )
    varied = Text("the kind of positions, and a causal mask", "位置的种类，以及因果掩码")
    measured = Text(
        'share of right answers to "does A come before B?", and share of answers that stay when words are shuffled',
        "“A 是否在 B 之前”的准确率，以及打乱词序后答案不变的比例",
    )
    refuted_if = Text("an encoder with positions changes many of its answers", "带位置的编码器改变了很多答案")
    panels = (
        Panel(
            "order",
            Text("does A come before B?", "A 在 B 之前吗？"),
            Text("positions", "位置"),
            Text("share of sentences", "句子的比例"),
            kind="bars",
            names={
                **POSITION_NAMES,
                CAUSAL: Text("none, causal mask", "无位置，因果掩码"),
                ACCURACY: Text("right in order", "原词序下正确"),
                SAME: Text("same answer when shuffled", "打乱后答案不变"),
            },
        ),
        Panel(
            "place",
            Text("which place am I at?", "我在第几个位置？"),
            Text("positions", "位置"),
            Text("accuracy", "准确率"),
            kind="bars",
            names={**POSITION_NAMES, CAUSAL: Text("none, causal mask", "无位置，因果掩码")},
        ),
    )
    papers = ("Vaswani et al. 2017, section 3.5", "Haviv et al. 2022")
    seconds = 50

    def measure(self, seed: int, effort: Effort, record: Record) -> None:
        kinds = ("none", CAUSAL, *(kind for kind in POSITION_NAMES if kind != "none"))
        for kind in effort.pick(kinds, ("none", CAUSAL, "sinusoidal")):
            model = self.trained(seed, kind, pairs, steps=effort.pick(200, 100))
            test = pairs(generator_of(seed, "test"), 1000)
            record("order", ACCURACY, kind, accuracy(model, test))
            record("order", SAME, kind, same_answers(model, test["ids"], generator_of(seed, "shuffle")))
        for kind in effort.pick(("none", CAUSAL, "sinusoidal"), ("none", CAUSAL)):
            model = self.trained(seed, kind, places, steps=effort.pick(200, 40))
            record("place", "accuracy", kind, accuracy(model, places(generator_of(seed, "test"), 1000)))

    def trained(self, seed: int, kind: str, batch: MakeBatch, steps: int) -> EncoderWithHead:
        """A model of two layers, trained on one of the two tasks."""
        seeded(seed, "weights")
        model = build_tagger(
            VOCABULARY,
            LENGTH,
            pooled=batch is pairs,
            layers=2,
            positions="none" if kind == CAUSAL else kind,
            causal=kind == CAUSAL,
        )
        fit_toy(model, batch, tagging_loss, steps=steps, rate=5e-3, schedule="linear", seed=seed)
        return model

    def judge(self, results: Results) -> Verdict:
        same = results.values("order", SAME, "sinusoidal")
        return Verdict(
            decide(above(same, [0.9]), above([0.75], same)),
            Text(
                "An encoder without positions keeps {none:.0%} of its answers when words are shuffled, and is right in "
                "{none_right:.0%} of the sentences; with sinusoidal positions it keeps {sinusoidal:.0%} and is "
                "right in "
                "{sinusoidal_right:.0%}. With a causal mask and no positions it is right in {causal_right:.0%}.",
                "打乱词序后，没有位置的编码器有 {none:.0%} 的答案不变，原词序下的准确率为 {none_right:.0%}；"
                "有正弦位置时 {sinusoidal:.0%} 不变，准确率为 {sinusoidal_right:.0%}。"
                "有因果掩码而没有位置时，准确率为 {causal_right:.0%}。",
            ),
            {
                "none": results.mean("order", SAME, "none"),
                "none_right": results.mean("order", ACCURACY, "none"),
                "sinusoidal": results.mean("order", SAME, "sinusoidal"),
                "sinusoidal_right": results.mean("order", ACCURACY, "sinusoidal"),
                "causal_right": results.mean("order", ACCURACY, CAUSAL),
            },
        )
