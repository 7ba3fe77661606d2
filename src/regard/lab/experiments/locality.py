"""Local structure: full attention can learn it, but has to learn what a convolution has built in.

A layer of attention compares all pairs of positions. That the previous word matters must be learnt from examples, by
way of the position vectors. A convolution sees the neighbours only, a window of attention too, and ALiBi lowers the
scores of far words. Such models assume that near words matter. If that is true, they need fewer examples. If a far word
matters, a convolution and a window do not reach it:

    near task    name the previous word
    far task     name the first word of the sentence

Every model is trained for the same number of steps on a fixed set of sentences, and tested on new ones.
"""

from collections.abc import Callable, Mapping

import torch
from torch import Tensor, nn

from regard.attention.layouts import Tokens
from regard.lab.old_form import Effort, Experiment, Panel, Question, Record, Results, Text, Verdict, above, decide
from regard.lab.toys import IGNORE, ToyTensors, accuracy, build_tagger, fit_toy, generator_of, seeded, tagging_loss
from regard.layers.convolution import ConvolutionalEncoderLayer

WORDS, LENGTH, WIDTH = 8, 16, 32
SIZES = (25, 50, 100, 400)
FULL, WINDOW, ALIBI, CONVOLUTION = "full", "window", "alibi", "convolution"
NEAR, FAR = "near", "far"
NAMES = {
    FULL: Text("full attention", "完整注意力"),
    WINDOW: Text("attention in a window", "窗口注意力"),
    ALIBI: Text("attention with ALiBi", "带 ALiBi 的注意力"),
    CONVOLUTION: Text("convolution", "卷积"),
}


class ConvolutionalTagger(nn.Module):
    """Embeddings, one gated convolution of three words, and a linear output."""

    def __init__(self) -> None:
        super().__init__()
        self.words = nn.Embedding(WORDS, WIDTH)
        self.layer = ConvolutionalEncoderLayer(WIDTH, kernel=3, dropout=0.0)
        self.output = nn.Linear(WIDTH, WORDS)

    def forward(self, tokens: Tokens) -> Tensor:
        """ids (B, T) without padding -> logits (B, T, WORDS)."""
        padding = torch.zeros(*tokens.ids.shape, 1, dtype=torch.bool)
        return self.output(self.layer(self.words(tokens.ids), padding))


MODELS: Mapping[str, Callable[[], nn.Module]] = {
    FULL: lambda: build_tagger(WORDS, WORDS, d_model=WIDTH),
    WINDOW: lambda: build_tagger(WORDS, WORDS, d_model=WIDTH, window=2),
    ALIBI: lambda: build_tagger(WORDS, WORDS, d_model=WIDTH, relative_positions="alibi"),
    CONVOLUTION: ConvolutionalTagger,
}


def label(ids: Tensor, task: str) -> ToyTensors:
    """Sentences (B, T) with the previous or the first word as the label of each word; the first word has none."""
    labels = ids.roll(1, dims=1) if task == NEAR else ids[:, :1].expand_as(ids).clone()
    labels[:, 0] = IGNORE
    return {"ids": ids, "labels": labels}


class Locality(Experiment):
    """Accuracy over the number of training sentences, for a near and a far task."""

    name = "locality"
    topic = "positions"
    title = Text("Does attention lose local structure?", "注意力会丢失局部特征吗？")
    questions = (
        Question(
            "000:272",
            Text(
                "Are position vectors enough, or does the model lose the ability to capture local features?",
                "位置向量真的可以吗？会不会使模型丧失捕捉局部特征的能力？",
            ),
            Text("–", "–"),
        ),
        Question(
            "003:223-224",
            Text("Is pure attention good if only local structure matters?", "只依赖局部结构时，纯注意力合适吗？"),
            Text(
                "Positions are not modelled well, and many problems need local structure only; pure attention is not "
                "good there (hence the restricted version).",
                "无法对位置信息进行很好的建模；很多问题只依赖局部结构，"
                "这时用纯注意力也不大好（因此有 restrict 版本）。",
            ),
        ),
    )
    hypothesis = Text(
        "If only neighbours matter, full attention needs more examples than a convolution.",
        "只依赖邻近词时，完整注意力比卷积需要更多样本。",
    )
    varied = Text("the model, the number of training sentences, and the task", "模型、训练句子数和任务")
    measured = Text("accuracy for new sentences after equal training", "同样训练步数后，在新句子上的准确率")
    refuted_if = Text(
        "full attention is as accurate as the convolution with the fewest sentences",
        "句子最少时，完整注意力与卷积一样准确",
    )
    panels = (
        Panel(
            NEAR,
            Text("near: name the previous word", "近：说出前一个词"),
            Text("training sentences", "训练句子数"),
            Text("accuracy", "准确率"),
            log="x",
            names=NAMES,
        ),
        Panel(
            FAR,
            Text("far: name the first word", "远：说出句首的词"),
            Text("training sentences", "训练句子数"),
            Text("accuracy", "准确率"),
            log="x",
            names=NAMES,
        ),
    )
    papers = ("Vaswani et al. 2017, section 4", "Press et al. 2022", "Gehring et al. 2017")
    seconds = 78

    def measure(self, seed: int, effort: Effort, record: Record) -> None:
        test = torch.randint(WORDS, (300, LENGTH), generator=generator_of(seed, "test"))
        for size in effort.pick(SIZES, (SIZES[0],)):
            sentences = torch.randint(WORDS, (size, LENGTH), generator=generator_of(seed, "train", size))
            for task in (NEAR, FAR):

                def batch(generator: torch.Generator, task: str = task, sentences: Tensor = sentences) -> ToyTensors:
                    return label(sentences[torch.randint(len(sentences), (32,), generator=generator)], task)

                for name, build in MODELS.items():
                    seeded(seed, "weights")
                    model = build()
                    fit_toy(model, batch, tagging_loss, steps=effort.pick(150, 40), rate=5e-3, seed=seed)
                    record(task, name, size, accuracy(model, label(test, task)))

    def judge(self, results: Results) -> Verdict:
        few, many = SIZES[0], results.xs(NEAR, FULL)[-1]
        full, convolution = (results.values(NEAR, name, few) for name in (FULL, CONVOLUTION))
        return Verdict(
            decide(above(convolution, full, by=0.05), above(full, convolution, by=-0.02)),
            Text(
                "With {few:.0f} sentences full attention names {full:.0%} of the previous words, a window "
                "{window:.0%}, ALiBi {alibi:.0%} and a convolution {convolution:.0%}; with {many:.0f} sentences "
                "full attention names {full_many:.0%}. Of the first words full attention then names {far:.0%}, "
                "the convolution {far_convolution:.0%}.",
                "{few:.0f} 个句子时，完整注意力说对前一个词的比例为 {full:.0%}，窗口注意力 {window:.0%}，"
                "ALiBi {alibi:.0%}，卷积 {convolution:.0%}；{many:.0f} 个句子时完整注意力为 {full_many:.0%}。"
                "此时说对句首词的比例，完整注意力为 {far:.0%}，卷积为 {far_convolution:.0%}。",
            ),
            {
                "few": few,
                "many": float(many),
                **{name: results.mean(NEAR, name, few) for name in MODELS},
                "full_many": results.mean(NEAR, FULL, many),
                "far": results.mean(FAR, FULL, many),
                "far_convolution": results.mean(FAR, CONVOLUTION, many),
            },
        )
