"""The width of a head: h heads of width D / h cost as much as one wide head, and do more, until they are too narrow.

W_Q, W_K, W_V and W_O together have 4 D h d_k weights. With d_k = D / h this is 4 D^2 for any h; with d_k = D it grows
with h. The first panel trains both for a task that needs four heads: every word reports its two neighbours on either
side. A head of width d_k has scores q_i^T k_j of rank d_k at most, and passes on d_k numbers. So it can be too narrow
(Bhojanapalli et al. 2020). The last panel shows that for one head, which reports one neighbour.
"""

from functools import partial

import torch
from torch import Tensor, nn

from regard.attention.layouts import Tokens
from regard.attention.multihead import MultiHeadAttention
from regard.lab.old_form import Effort, Experiment, Panel, Question, Record, Results, Text, Verdict, above, decide
from regard.lab.toys import ToyTensors, accuracy, fit_toy, generator_of, seeded, tagging_loss

WORDS, LENGTH, WIDTH = 16, 12, 64
DISTANCES = (1, -1, 2, -2)
SPLIT, FULL, ONE = "width / heads", "full width", "one head"
ENOUGH = 0.99
NAMES = {
    SPLIT: Text("narrow: width / heads each", "窄：每个头为 宽度 / 头数"),
    FULL: Text("wide: full width each", "宽：每个头都是全宽"),
    ONE: Text("one head", "一个头"),
}


class Layer(nn.Module):
    """Word and position embeddings, one attention layer with heads of any width, and linear outputs."""

    def __init__(self, heads: int, head_dim: int, answers: int) -> None:
        super().__init__()
        self.words, self.places = nn.Embedding(WORDS, WIDTH), nn.Embedding(LENGTH, WIDTH)
        self.attention = MultiHeadAttention(WIDTH, heads, head_dim=head_dim)
        self.outputs = nn.ModuleList(nn.Linear(WIDTH, WORDS) for _ in range(answers))

    def forward(self, tokens: Tokens) -> Tensor:
        """ids (B, T) -> logits (B, T, answers, WORDS)."""
        x = self.words(tokens.ids) + self.places(tokens.layout.positions)
        h = self.attention(x, x, tokens.layout.pattern(tokens.layout))
        return torch.stack([output(h) for output in self.outputs], dim=2)


def neighbours(generator: torch.Generator, answers: int, size: int = 32) -> ToyTensors:
    """Random words on a circle; the labels of a word are its nearest neighbours."""
    ids = torch.randint(WORDS, (size, LENGTH), generator=generator)
    return {"ids": ids, "labels": torch.stack([ids.roll(by, dims=1) for by in DISTANCES[:answers]], dim=2)}


class HeadWidth(Experiment):
    """Accuracy and parameters over the number of heads, for narrow and wide heads."""

    name = "head-width"
    topic = "attention"
    title = Text("Why are heads narrow?", "每个头为什么要降维？")
    questions = (
        Question(
            "001:181",
            Text("Why is every head narrower than the model?", "多头注意力中为什么要对每个 head 降维？"),
            Text("–", "–"),
        ),
    )
    hypothesis = Text(
        "Narrow heads do as well as wide ones and cost no more than one head; only very narrow ones fail.",
        "窄的头与宽的头一样好，而总开销不超过一个头；只有极窄的头才会失败。",
    )
    varied = Text("the number of heads, and their width", "头数与头的宽度")
    measured = Text(
        "accuracy of four neighbours; parameters of the attention layer", "四个邻居的准确率；注意力层的参数量"
    )
    refuted_if = Text("four wide heads are better than four narrow ones", "四个宽头比四个窄头好")
    panels = (
        Panel(
            "accuracy",
            Text("naming four neighbours", "说出四个邻居"),
            Text("heads", "头数"),
            Text("accuracy", "准确率"),
            log="x",
            names=NAMES,
        ),
        Panel(
            "parameters",
            Text("parameters of the layer", "注意力层的参数量"),
            Text("heads", "头数"),
            Text("parameters", "参数量"),
            log="xy",
            names=NAMES,
        ),
        Panel(
            "width",
            Text("one head, one neighbour", "一个头，一个邻居"),
            Text("width of the head", "头的宽度"),
            Text("accuracy", "准确率"),
            log="x",
            names=NAMES,
        ),
    )
    papers = ("Vaswani et al. 2017, section 3.2.2 and table 3 (B)", "Bhojanapalli et al. 2020")
    seconds = 55

    def measure(self, seed: int, effort: Effort, record: Record) -> None:
        steps = effort.pick(200, 60)
        for series in (SPLIT, FULL):
            for heads in effort.pick((1, 2, 4, 16), (1, 4)):
                head_dim = WIDTH // heads if series == SPLIT else WIDTH
                model = trained(seed, heads, head_dim, len(DISTANCES), steps)
                record("accuracy", series, heads, tested(model, seed, len(DISTANCES)))
                record("parameters", series, heads, sum(p.numel() for p in model.attention.parameters()))
        for head_dim in effort.pick((1, 2, 4, 16, 64), (1, 64)):
            record("width", ONE, head_dim, tested(trained(seed, 1, head_dim, 1, steps), seed, 1))

    def judge(self, results: Results) -> Verdict:
        split, full = (results.values("accuracy", series, 4) for series in (SPLIT, FULL))
        narrow, *_, wide = results.xs("width", ONE)
        enough = min(ENOUGH, *results.values("width", ONE, wide))
        widths = [x for x in results.xs("width", ONE) if min(results.values("width", ONE, x)) >= enough]
        kind = decide(not above(full, split, by=0.02), above(full, split, by=0.02))
        return Verdict(
            kind,
            Text(
                "Four narrow heads name {split:.0%} of four neighbours with {split_parameters:.0f} parameters, four "
                "wide ones {full:.0%} with {full_parameters:.0f}; one wide head names {one:.0%}. One head of width "
                "{narrow:.0f} names {narrow_right:.0%} of one neighbour; the narrowest head with {enough:.0%} has "
                "width {smallest:.0f}.",
                "四个窄头说出四个邻居的准确率为 {split:.0%}，参数 {split_parameters:.0f} 个；四个宽头为 "
                "{full:.0%}，参数 {full_parameters:.0f} 个；一个宽头为 {one:.0%}。宽度为 {narrow:.0f} 的一个头"
                "说出一个邻居的准确率为 {narrow_right:.0%}；达到 {enough:.0%} 的最窄的头宽度为 {smallest:.0f}。",
            ),
            {
                "split": results.mean("accuracy", SPLIT, 4),
                "full": results.mean("accuracy", FULL, 4),
                "one": results.mean("accuracy", SPLIT, 1),
                "split_parameters": results.mean("parameters", SPLIT, 4),
                "full_parameters": results.mean("parameters", FULL, 4),
                "narrow": float(narrow),
                "narrow_right": results.mean("width", ONE, narrow),
                "enough": enough,
                "smallest": min(float(x) for x in widths),
            },
        )


def trained(seed: int, heads: int, head_dim: int, answers: int, steps: int) -> Layer:
    """A layer after training."""
    seeded(seed, "weights", heads, head_dim)
    model = Layer(heads, head_dim, answers)
    fit_toy(model, partial(neighbours, answers=answers), tagging_loss, steps=steps, rate=1e-2, seed=seed)
    return model


def tested(model: Layer, seed: int, answers: int) -> float:
    """Accuracy on new sentences."""
    return accuracy(model, neighbours(generator_of(seed, "test"), answers, 300))
