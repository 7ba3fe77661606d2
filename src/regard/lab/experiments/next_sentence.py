"""Next sentence prediction: with a sentence of another document as the negative, the topic gives it away.

BERT is asked whether sentence B follows sentence A. Half of the time B is random (Devlin et al. 2018, section 3.1). The
random sentence is of another document, most often of another topic, so a model need not know how sentences are
connected: it compares topics (Lan et al. 2019, ALBERT; Liu et al. 2019, RoBERTa). Three kinds of negatives:

    document   B is of another document
    place      B is of another place in the same document
    swapped    A and B are exchanged

In the small language of the lab a sentence begins with the last noun of the sentence before, so all three can be
predicted. The reader is a Transformer encoder with max pooling, which learns to compare topics within few steps; the
pooling of BERT needs many more.
"""

from functools import partial

import torch
from torch import Tensor, nn

from regard.attention.layouts import Padded
from regard.lab.old_form import Effort, Experiment, Panel, Question, Record, Results, Text, Verdict, above, decide
from regard.lab.small_world import CLS, IDS, PAD, SENTENCE, SEP, World, make_world
from regard.lab.toys import IGNORE, ToyTensors, fit_toy, generator_of, seeded
from regard.losses.crossentropy import Loss, cross_entropy
from regard.models.text_encoder import EncoderWithHead, TransformerEncoder, TransformerEncoderSettings

DOCUMENT, PLACE, SWAPPED = "document", "place", "swapped"
KINDS = (DOCUMENT, PLACE, SWAPPED)
SENTENCES = 6
NAMES = {
    DOCUMENT: Text("of another document", "来自另一篇文档"),
    PLACE: Text("of the same document", "来自同一篇文档"),
    SWAPPED: Text("A and B swapped", "A 与 B 交换"),
}


def negative_rows(kind: str, rows: Tensor, world: World, generator: torch.Generator) -> tuple[Tensor, Tensor]:
    """The rows of A and of a wrong B; `rows` are sentences that have a next one."""
    if kind == SWAPPED:
        return rows + 1, rows
    first = rows - rows % SENTENCES
    if kind == PLACE:  # any sentence of the document but A and the next
        places = torch.randint(SENTENCES - 2, rows.shape, generator=generator)
        return rows, first + torch.where(places < rows - first, places, places + 2)
    others = torch.randint(len(world) - SENTENCES, rows.shape, generator=generator)
    return rows, torch.where(others < first, others, others + SENTENCES)


def draw(kind: str, world: World, generator: torch.Generator, size: int = 32) -> ToyTensors:
    """Inputs [CLS] A [SEP] B [SEP], half of them with a wrong B (label 1)."""
    documents = torch.randint(len(world) // SENTENCES, (size,), generator=generator)
    rows = documents * SENTENCES + torch.randint(SENTENCES - 1, (size,), generator=generator)
    labels = torch.randint(2, (size,), generator=generator)
    wrong_a, wrong_b = negative_rows(kind, rows, world, generator)
    a, b = torch.where(labels == 1, wrong_a, rows), torch.where(labels == 1, wrong_b, rows + 1)
    ids = torch.full((size, 2 * SENTENCE + 3), PAD)
    segments, lengths = torch.zeros_like(ids), torch.zeros(size, dtype=torch.long)
    for row, (first, second) in enumerate(zip(a.tolist(), b.tolist(), strict=True)):
        left = world.ids[first, 1 : world.lengths[first] - 1]
        right = world.ids[second, 1 : world.lengths[second] - 1]
        parts = [torch.tensor([CLS]), left, torch.tensor([SEP]), right, torch.tensor([SEP])]
        lengths[row] = len(left) + len(right) + 3
        ids[row, : lengths[row]] = torch.cat(parts)
        segments[row, len(left) + 2 : lengths[row]] = 1
    return {"ids": ids, "segments": segments, "lengths": lengths, "labels": labels}


def build_reader(seed: int) -> EncoderWithHead:
    """A Transformer encoder with two outputs for an input."""
    seeded(seed, "weights")
    settings = TransformerEncoderSettings(layers=2, d_model=32, num_heads=4, d_ff=64, dropout=0.0, pooling="max")
    return EncoderWithHead(TransformerEncoder(settings, len(IDS)), 2, pooled=True, dropout=0.0)


def logits_of(model: nn.Module, batch: ToyTensors) -> Tensor:
    """Logits (B, 2): B follows A, B does not."""
    logits: Tensor = model(Padded.of(batch["ids"], batch["lengths"]), batch["segments"])
    return logits


def loss(model: nn.Module, batch: ToyTensors) -> Loss:
    """Cross-entropy of next sentence prediction."""
    return cross_entropy(logits_of(model, batch), batch["labels"], ignore=IGNORE)


@torch.no_grad()
def accuracy(model: nn.Module, batch: ToyTensors) -> float:
    """Share of the pairs that are judged rightly; half is chance."""
    return float((logits_of(model, batch).argmax(dim=-1) == batch["labels"]).double().mean())


class NextSentence(Experiment):
    """Accuracy for three kinds of negatives, after training with each of two."""

    name = "next-sentence"
    topic = "bert"
    title = Text("What does next sentence prediction teach?", "下一句预测学到了什么？")
    questions = (
        Question(
            "003:250, 003:299",
            Text(
                "Does next sentence prediction teach how sentences are related?", "下一句预测能学到句子之间的关系吗？"
            ),
            Text(
                "Yes: it teaches the relationship between two sentences; half of the time B is a random sentence.",
                "能理解两个句子之间的关系；一半时间 B 是语料中的随机句子。",
            ),
        ),
    )
    hypothesis = Text(
        "A model trained with random sentences also tells sentences of the wrong place or order in the same document.",
        "用随机句子训练的模型也能分辨同一文档中位置或顺序错误的句子。",
    )
    varied = Text("where the wrong sentence comes from, in training and in testing", "训练与测试时错误句子的来源")
    measured = Text("accuracy of next sentence prediction; half is chance", "下一句预测的准确率；一半为随机水平")
    refuted_if = Text(
        "it tells sentences of other documents, and those of the same document no better than chance",
        "它能分辨其他文档的句子，对同一文档的句子却与随机猜测无异",
    )
    panels = (
        Panel(
            "accuracy",
            Text("does B follow A?", "B 是 A 的下一句吗？"),
            Text("the wrong sentence in the test", "测试中的错误句子"),
            Text("accuracy", "准确率"),
            kind="bars",
            names={
                **NAMES,
                f"trained: {DOCUMENT}": Text("trained with other documents", "以其他文档的句子训练"),
                f"trained: {SWAPPED}": Text("trained with swapped sentences", "以交换的句子训练"),
            },
        ),
    )
    papers = ("Devlin et al. 2018, section 3.1", "Lan et al. 2019, section 3.1", "Liu et al. 2019, section 4.2")
    seconds = 45

    def measure(self, seed: int, effort: Effort, record: Record) -> None:
        world = make_world(seed, effort.pick(600, 300), SENTENCES)
        test = make_world(seed, 150, SENTENCES, purpose="test")
        for trained in effort.pick((DOCUMENT, SWAPPED), (DOCUMENT,)):
            model = build_reader(seed)
            batch = partial(draw, trained, world)
            fit_toy(model, batch, loss, steps=effort.pick(450, 60), rate=5e-3, warmup=50, seed=seed)
            for kind in KINDS:
                record(
                    "accuracy",
                    f"trained: {trained}",
                    kind,
                    accuracy(model, draw(kind, test, generator_of(seed, "test"), 800)),
                )

    def judge(self, results: Results) -> Verdict:
        series = f"trained: {DOCUMENT}"
        document, place, swapped = (results.values("accuracy", series, kind) for kind in KINDS)
        learnt = above(document, [0.6])
        order = f"trained: {SWAPPED}"
        numbers = {kind: results.mean("accuracy", series, kind) for kind in KINDS}
        english = (
            "Trained with sentences of other documents, the model is right in {document:.0%} of such pairs, in "
            "{place:.0%} if B is of the same document and in {swapped:.0%} if A and B are swapped; half is chance."
        )
        chinese = (
            "以其他文档的句子训练后，模型对这类句对的准确率为 {document:.0%}；B 来自同一文档时为 {place:.0%}，"
            "A 与 B 交换时为 {swapped:.0%}；一半为随机水平。"
        )
        if order in results.series("accuracy"):
            numbers["trained"] = results.mean("accuracy", order, SWAPPED)
            english += " Trained with swapped sentences as long, it reaches {trained:.0%} on these."
            chinese += "以交换的句子训练同样长时间，对这类句对为 {trained:.0%}。"
        both = [*place, *swapped]
        return Verdict(
            decide(learnt and above(both, [0.6]), learnt and above([0.6], both)), Text(english, chinese), numbers
        )
