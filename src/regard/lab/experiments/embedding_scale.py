"""The factor sqrt(d) of the embeddings: it makes words as long as positions, if their rows have length one.

    x = sqrt(d) E[w] + PE(p),   |PE(p)| = sqrt(d / 2)

With E ~ N(0, 1/d), which tied output weights need, a row has the length 1 whatever d is, and sqrt(d) E[w] the length
sqrt(d). With E ~ N(0, 1) a row has the length sqrt(d) by itself: then no factor is needed. So the factor belongs to the
initialisation, not to large d as such. Two small tasks show what it does in training: a word's own answer (content),
and the word at the mirrored place (place).
"""

import torch
from torch import nn

from regard.lab.old_form import Effort, Experiment, Panel, Question, Record, Results, Text, Verdict, above, decide
from regard.lab.toys import ToyTensors, build_tagger, fit_toy, generator_of, seeded, tagging_loss
from regard.layers.embeddings import TokenEmbedding
from regard.layers.positions import sinusoid
from regard.models.text_encoder import TransformerEncoder

WORDS, LENGTH, WIDTH = 16, 8, 64
SCALED, UNSCALED, WIDE = "factor", "no factor", "no factor, N(0, 1)"
TASKS = {
    "content": Text("content: the word itself", "内容：词本身"),
    "place": Text("place: the mirrored word", "位置：镜像处的词"),
}
NAMES = {
    SCALED: Text("N(0, 1/d) with the factor", "N(0, 1/d)，乘以系数"),
    UNSCALED: Text("N(0, 1/d) without the factor", "N(0, 1/d)，不乘系数"),
    WIDE: Text("N(0, 1) without a factor", "N(0, 1)，不乘系数"),
    "positions": Text("positions", "位置向量"),
    **TASKS,
}


def words(generator: torch.Generator, size: int = 32) -> ToyTensors:
    """Random words; each is its own label."""
    ids = torch.randint(WORDS, (size, LENGTH), generator=generator)
    return {"ids": ids, "labels": ids}


def mirrored(generator: torch.Generator, size: int = 32) -> ToyTensors:
    """Random words; the label is the word at the mirrored place."""
    batch = words(generator, size)
    return {"ids": batch["ids"], "labels": batch["ids"].flip(1)}


@torch.no_grad()
def length_of_rows(series: str, width: int, seed: int) -> float:
    """The mean length of an embedded word."""
    seeded(seed, "embedding", width)
    embedding = TokenEmbedding(WORDS, width, scale=None if series == SCALED else 1.0)
    if series == WIDE:
        nn.init.normal_(embedding.weight)
    return float(embedding(torch.arange(WORDS)).norm(dim=1).mean())


class EmbeddingScale(Experiment):
    """Lengths of words and positions over the width, and the loss with and without the factor."""

    name = "embedding-scale"
    topic = "positions"
    title = Text("Why multiply embeddings by the root of d?", "词向量为什么乘以根号 d？")
    questions = (
        Question(
            "001:183, 004:519",
            Text("Why are embeddings multiplied by sqrt(d)?", "为何获取词向量之后要乘以 embedding size 的开方？"),
            Text(
                "In a wide space the values of an embedding are close to zero; without the factor the positions "
                "dominate "
                "and hide the words.",
                "特征维度很大时词向量的值接近 0；不乘系数，位置编码会占据主导，掩盖词本身的信息。",
            ),
        ),
    )
    hypothesis = Text(
        "Without the factor positions are longer than words, and a model learns the words' content more slowly.",
        "不乘系数时位置向量比词向量长，模型学习词的内容更慢。",
    )
    varied = Text("the factor, the initialisation, the width", "系数、初始化方式、宽度")
    measured = Text(
        "lengths of words and positions; loss after a short training, for a task of content and one of place",
        "词向量与位置向量的长度；短训练之后在内容任务和位置任务上的损失",
    )
    refuted_if = Text(
        "positions are not longer, or the loss of content without the factor is not higher",
        "位置向量并不更长，或不乘系数时内容任务的损失并不更高",
    )
    panels = (
        Panel(
            "length",
            Text("words and positions", "词向量与位置向量"),
            Text("width d", "宽度 d"),
            Text("length", "长度"),
            log="xy",
            names=NAMES,
        ),
        Panel(
            "loss",
            Text("after a short training", "短训练之后"),
            Text("task", "任务"),
            Text("nll", "负对数似然"),
            kind="bars",
            names=NAMES,
        ),
    )
    papers = ("Vaswani et al. 2017, section 3.4", "Press & Wolf 2017")
    seconds = 11

    def measure(self, seed: int, effort: Effort, record: Record) -> None:
        for width in (16, 64, 256, 1024):
            for series in (SCALED, UNSCALED, WIDE):
                record("length", series, width, length_of_rows(series, width, seed))
            record("length", "positions", width, float(sinusoid(torch.arange(LENGTH), width).norm(dim=1).mean()))
        for series in (SCALED, UNSCALED, WIDE):
            for task, batch, steps in (
                ("content", words, effort.pick(40, 20)),
                ("place", mirrored, effort.pick(150, 40)),
            ):
                seeded(seed, "weights")
                model = build_tagger(
                    WORDS, WORDS, d_model=WIDTH, scale_embeddings=series == SCALED, positions="sinusoidal"
                )
                if series == WIDE:
                    assert isinstance(model.encoder, TransformerEncoder)
                    nn.init.normal_(model.encoder.words.weight)
                fit_toy(model, batch, tagging_loss, steps=steps, rate=1e-3, seed=seed)
                with torch.no_grad():
                    loss = tagging_loss(model, batch(generator_of(seed, "test"), 500))
                record("loss", series, task, float(loss.nll / loss.count))

    def judge(self, results: Results) -> Verdict:
        width = results.xs("length", "positions")[-1]
        short = above(results.values("length", "positions", width), results.values("length", UNSCALED, width))
        scaled, unscaled = (results.values("loss", series, "content") for series in (SCALED, UNSCALED))
        return Verdict(
            decide(short and above(unscaled, scaled), not short or above(scaled, unscaled)),
            Text(
                "At d = {width:.0f} a position has the length {positions:.1f}, a word whose rows start with length "
                "one {unscaled_length:.1f} "
                "without the factor and {scaled_length:.1f} with it, a word whose components start with variance "
                "one {wide_length:.1f}. Loss with and "
                "without the factor: content {content_scaled:.2f} and {content_unscaled:.2f}, place {place_scaled:.2f} "
                "and {place_unscaled:.2f}.",
                "d = {width:.0f} 时，位置向量的长度为 {positions:.1f}；初始长度为一的词向量不乘系数时为 "
                "{unscaled_length:.1f}，乘系数后为 {scaled_length:.1f}；各分量方差为一的词向量为 {wide_length:.1f}。"
                "乘与不乘系数的损失：内容任务 {content_scaled:.2f} 和 {content_unscaled:.2f}，位置任务 "
                "{place_scaled:.2f} "
                "和 {place_unscaled:.2f}。",
            ),
            {
                "width": float(width),
                "positions": results.mean("length", "positions", width),
                "unscaled_length": results.mean("length", UNSCALED, width),
                "scaled_length": results.mean("length", SCALED, width),
                "wide_length": results.mean("length", WIDE, width),
                "content_scaled": results.mean("loss", SCALED, "content"),
                "content_unscaled": results.mean("loss", UNSCALED, "content"),
                "place_scaled": results.mean("loss", SCALED, "place"),
                "place_unscaled": results.mean("loss", UNSCALED, "place"),
            },
        )
