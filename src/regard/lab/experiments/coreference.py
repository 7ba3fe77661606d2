"""What "it" refers to: attention links it to the right noun, in some heads, though nothing tells it to.

    The animal didn't cross the street because it was too tired.      it = the animal
    The animal didn't cross the street because it was too wide.       it = the street

A small grammar makes such sentences: one noun that lives and one that does not, in any order, and an adjective that
fits one of them. The model must name the noun at "it". We look at how much attention "it" pays to the right noun, and
then forbid it to look there. Attention is the basis for the link and no guarantee: heads divide the work (one may look
at nouns that live and yield to the adjective otherwise), and a noun may also reach "it" through other words.
"""

from dataclasses import dataclass, field
from functools import cached_property

import torch
from torch import Tensor

from regard.attention.layouts import Padded, PaddedPattern
from regard.lab.old_form import Effort, Experiment, Panel, Question, Record, Results, Text, Verdict, above, decide
from regard.lab.toys import IGNORE, ToyTensors, build_tagger, fit_toy, generator_of, rectangle, seeded, tagging_loss
from regard.models.text_encoder import EncoderWithHead, TransformerEncoder

LIVING = ["animal", "dog", "cat", "horse", "child", "woman", "farmer", "bird"]
THINGS = ["street", "river", "field", "bridge", "road", "lake", "garden", "wall"]
ADJECTIVES = (["tired", "hungry", "afraid", "sleepy"], ["wide", "deep", "long", "muddy"])
VERBS = ["crossed", "liked", "reached", "left"]
FUNCTION = ["the", "because", "it", "was", "too"]
FRAME = ["the", "animal", "crossed", "the", "street", "because", "it", "was", "too", "tired"]
WORDS = [*LIVING, *THINGS, *ADJECTIVES[0], *ADJECTIVES[1], *VERBS, *FUNCTION]
ID = {word: number for number, word in enumerate(WORDS)}
NOUNS = len(LIVING) + len(THINGS)
FIRST, SECOND, IT = 1, 4, 6
"""Places of the nouns and of "it" in the frame."""
LAYERS, HEADS = 2, 2
RIGHT, OTHER, NOTHING, ALL = "right noun", "other noun", "nothing", "all heads"


def sentences(generator: torch.Generator, size: int = 64) -> ToyTensors:
    """Sentences; the label of "it" is its noun. `right` and `other` are the places of the nouns."""

    def draw(count: int) -> Tensor:
        return torch.randint(count, (size,), generator=generator)

    living, thing = draw(len(LIVING)), len(LIVING) + draw(len(THINGS))
    swapped, kind = draw(2).bool(), draw(2)
    adjective = ID[ADJECTIVES[0][0]] + len(ADJECTIVES[0]) * kind + draw(len(ADJECTIVES[0]))
    frame = torch.tensor(
        [ID[word] for word in ["the", "the", "crossed", "the", "the", "because", "it", "was", "too", "the"]]
    )
    ids = frame.repeat(size, 1)
    ids[:, FIRST], ids[:, SECOND] = torch.where(swapped, thing, living), torch.where(swapped, living, thing)
    ids[:, 2], ids[:, -1] = ID[VERBS[0]] + draw(len(VERBS)), adjective
    labels = torch.full_like(ids, IGNORE)
    labels[:, IT] = torch.where(kind.bool(), thing, living)
    right = torch.where(swapped == kind.bool(), FIRST, SECOND)
    return {"ids": ids, "labels": labels, "right": right, "other": FIRST + SECOND - right}


@dataclass(frozen=True)
class WithoutKey(PaddedPattern):
    """A pattern in which "it" cannot attend to one position of each sentence, (B,)."""

    removed: Tensor = field(default_factory=lambda: torch.zeros(0, dtype=torch.long))

    @cached_property
    def mask(self) -> Tensor:
        """(B, 1, T, S)."""
        mask = torch.ones(len(self.removed), 1, self.queries.size, self.keys.size, dtype=torch.bool)
        mask[torch.arange(len(self.removed)), 0, IT, self.removed] = False
        return mask


@torch.no_grad()
def accuracy_without(model: EncoderWithHead, batch: ToyTensors, removed: Tensor | None) -> float:
    """Share of "it" that is resolved when it cannot attend to the positions `removed` (B,)."""
    assert isinstance(model.encoder, TransformerEncoder)
    tokens = rectangle(batch["ids"])
    assert isinstance(tokens.layout, Padded)
    pattern = None if removed is None else WithoutKey(tokens.layout, tokens.layout, causal=False, removed=removed)
    outputs = model.head(model.encoder.encode(tokens, pattern=pattern))[:, IT]
    return float((outputs.argmax(dim=-1) == batch["labels"][:, IT]).float().mean())


def noun_weights(model: EncoderWithHead, batch: ToyTensors) -> tuple[Tensor, Tensor]:
    """The weights of "it" on the right and on the other noun, (B, layers, H) each."""
    assert isinstance(model.encoder, TransformerEncoder)
    recorded = model.encoder.record_attention(rectangle(batch["ids"]))
    assert recorded is not None
    weights = recorded[:, :, :, IT]  # (B, layers, H, T)
    rows = torch.arange(len(weights))
    return weights[rows, :, :, batch["right"]], weights[rows, :, :, batch["other"]]


class Coreference(Experiment):
    """Weight of "it" on the right noun in every head, and accuracy without that weight."""

    name = "coreference"
    topic = "attention"
    title = Text("What does “it” refer to?", "“it” 指的是谁？")
    questions = (
        Question(
            "002:107, 001:60",
            Text("Does self-attention find out that “it” is the animal?", "自注意力能发现 it 指的是 the animal 吗？"),
            Text(
                "It gives the basis to link the two, and no guarantee.",
                "自注意力提供了把 it 与 the animal 联系起来的基础，但并不保证能发现这个关系。",
            ),
        ),
    )
    hypothesis = Text(
        "A trained model resolves “it” by attention to the right noun: without this weight it fails.",
        "训练好的模型靠对正确名词的注意力来确定 it 的指代：去掉这个权重就会失败。",
    )
    varied = Text("the noun that “it” may not attend to", "禁止 it 注意的名词")
    measured = Text(
        "share of “it” that is resolved; weight of “it” on both nouns in every head",
        "正确确定 it 指代的比例；每个头中 it 对两个名词的权重",
    )
    refuted_if = Text(
        "the model resolves “it” as well when it cannot attend to the right noun",
        "禁止 it 注意正确的名词后，模型仍然同样正确",
    )
    panels = (
        Panel(
            "accuracy",
            Text("resolving “it”", "确定 it 的指代"),
            Text("“it” may not attend to", "禁止 it 注意"),
            Text("accuracy", "准确率"),
            kind="bars",
            names={
                "accuracy": Text("accuracy", "准确率"),
                NOTHING: Text("(all allowed)", "（不禁止）"),
                RIGHT: Text("right noun", "正确的名词"),
                OTHER: Text("other noun", "另一个名词"),
            },
        ),
        Panel(
            "weights",
            Text("attention of “it” to the nouns", "it 对名词的注意力"),
            Text("layer and head", "层与头"),
            Text("mean weight", "平均权重"),
            kind="bars",
            names={RIGHT: Text("right noun", "正确的名词"), OTHER: Text("other noun", "另一个名词")},
        ),
        Panel(
            "rows",
            Text("sentences in which the right noun gets more weight than the other", "正确名词的权重高于另一个的句子"),
            Text("layer and head", "层与头"),
            Text("share", "比例"),
            kind="bars",
            names={RIGHT: Text("right noun", "正确的名词"), ALL: Text("all heads", "全部头")},
        ),
    )
    papers = ("Vaswani et al. 2017, figures 3 to 5", "Alammar 2018, “The Illustrated Transformer”")
    seconds = 15

    def measure(self, seed: int, effort: Effort, record: Record) -> None:
        seeded(seed, "weights")
        model = build_tagger(len(WORDS), NOUNS, layers=LAYERS, num_heads=HEADS)
        fit_toy(model, sentences, tagging_loss, steps=effort.pick(500, 150), rate=3e-3, seed=seed)
        test = sentences(generator_of(seed, "test"), 1000)
        for name, removed in ((NOTHING, None), (RIGHT, test["right"]), (OTHER, test["other"])):
            record("accuracy", "accuracy", name, accuracy_without(model, test, removed))
        right, other = noun_weights(model, test)
        for layer in range(LAYERS):
            for head in range(HEADS):
                name = f"{layer + 1}.{head + 1}"
                record("weights", RIGHT, name, float(right[:, layer, head].mean()))
                record("weights", OTHER, name, float(other[:, layer, head].mean()))
                record("rows", RIGHT, name, float((right > other)[:, layer, head].float().mean()))
        record("rows", RIGHT, ALL, float((right - other).sum(dim=(1, 2)).gt(0).float().mean()))

    def judge(self, results: Results) -> Verdict:
        intact, without, other = (results.values("accuracy", "accuracy", name) for name in (NOTHING, RIGHT, OTHER))
        names = [x for x in results.xs("rows", RIGHT) if x != ALL]
        heads = [share for name in names for share in results.values("rows", RIGHT, name)]
        return Verdict(
            decide(above(intact, without, by=0.2) and above(other, without, by=0.2), not above(intact, without)),
            Text(
                "The model resolves {intact:.0%} of “it”, and {without:.0%} when “it” may not attend to the right noun "
                "(the other noun: {other:.0%}). All heads together give the right noun more weight in {rows:.0%} of "
                "the sentences, a single head in {worst:.0%} to {best:.0%}.",
                "模型能确定 {intact:.0%} 的 it；禁止 it 注意正确的名词后为 {without:.0%}（禁止另一个名词时为 "
                "{other:.0%}）。全部头合起来，在 {rows:.0%} 的句子中正确的名词权重更高；单个头则为 {worst:.0%} 到 "
                "{best:.0%}。",
            ),
            {
                "intact": results.mean("accuracy", "accuracy", NOTHING),
                "without": results.mean("accuracy", "accuracy", RIGHT),
                "other": results.mean("accuracy", "accuracy", OTHER),
                "rows": results.mean("rows", RIGHT, ALL),
                "worst": min(heads),
                "best": max(heads),
            },
        )
