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
from regard.lab.experiment import Effort, Record, Results, Verdict, above, decide
from regard.lab.small_world import CLS, IDS, PAD, SENTENCE, SEP, World, make_world
from regard.lab.toys import IGNORE, ToyTensors, fit_toy, generator_of, seeded
from regard.losses.crossentropy import Loss, cross_entropy
from regard.models.text_encoder import EncoderWithHead, TransformerEncoder, TransformerEncoderSettings

KINDS = DOCUMENT, PLACE, SWAPPED = "document", "place", "swapped"
SENTENCES = 6


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
    return model(Padded.of(batch["ids"], batch["lengths"]), batch["segments"])


def loss(model: nn.Module, batch: ToyTensors) -> Loss:
    return cross_entropy(logits_of(model, batch), batch["labels"], ignore=IGNORE)


@torch.no_grad()
def accuracy(model: nn.Module, batch: ToyTensors) -> float:
    """Share of the pairs that are judged rightly; half is chance."""
    return float((logits_of(model, batch).argmax(dim=-1) == batch["labels"]).double().mean())


def measure(seed: int, effort: Effort, record: Record) -> None:
    world = make_world(seed, effort.pick(600, 300), SENTENCES)
    test = make_world(seed, 150, SENTENCES, purpose="test")
    for trained in effort.pick((DOCUMENT, SWAPPED), (DOCUMENT,)):
        model = build_reader(seed)
        batch = partial(draw, trained, world)
        fit_toy(model, batch, loss, steps=effort.pick(450, 60), rate=5e-3, warmup=50, seed=seed)
        for kind in KINDS:
            pairs = draw(kind, test, generator_of(seed, "test"), 800)
            record("accuracy", f"trained: {trained}", kind, accuracy(model, pairs))


def judge(results: Results) -> Verdict:
    document, *others = (results.values("accuracy", "trained: document", kind) for kind in KINDS)
    learnt, both = above(document, [0.6]), [value for values in others for value in values]
    return Verdict(decide(learnt and above(both, [0.6]), learnt and above([0.6], both)))
