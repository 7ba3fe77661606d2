"""Norms in a language model: layer norm of one token, batch norm, and the layer norm that shows the future.

A norm subtracts a mean and divides by a standard deviation. They can be taken over

    the features of one token             layer norm in the Transformer
    all tokens of a batch, by feature     batch norm; moving averages in evaluation
    all tokens and features of a text     layer norm as for images, LN(seq, f) in the notes

The statistics of batch norm vary from batch to batch. Words of one text are related, so a batch of texts tells less
about all text than as many independent words do, and the model trains on noise that is absent in evaluation. Here texts
have between SHORT and LONG words, so batches hold padding: batch norm is trained with statistics over words alone, as
it should be, and over padding too. Deep networks show whether a norm is needed at all. Every norm is trained with its
own best learning rate, chosen on pages that are held out of the training.

The third norm mixes all tokens of a text, later ones included. With it a causal model must not be trained: on random
words, which no model can predict, it goes below the loss of a uniform guess, because a mean of the future is enough to
find the next word.
"""

import math
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache, partial

import torch
from torch import Tensor, nn

from regard.attention.layouts import Layout, Padded
from regard.files import JsonObject
from regard.lab.budgets import best_rate, watched
from regard.lab.english import split_pages, words_of
from regard.lab.experiment import Effort, Record, Results, Verdict, above, decide, equivalent, paired
from regard.lab.toys import (
    IGNORE,
    ToyLoss,
    ToyTensors,
    build_tagger,
    fit_toy,
    generator_of,
    rectangle,
    seeded,
    tagging_loss,
)
from regard.layers.norms import BatchNorm, LayerNorm, SequenceLayerNorm
from regard.losses.crossentropy import Loss, cross_entropy
from regard.models.text_encoder import EncoderWithHead

VOCABULARY, WIDTH, SHORT, LONG = 300, 32, 4, 40
PAGES = 1
"""The seed that chooses the pages for testing: the same for all runs, so that their losses can be compared."""
FEW, FEW_LENGTH = 4, 6
"""Words and length of the random texts."""
SETTINGS = (("layer", 2), ("batch", 2), ("layer", 16), ("batch", 16), ("padding", 16))
"""The norm, and the texts in a batch; "padding" is batch norm with padding in its statistics."""
DEEP = 12
RATES = (1e-3, 3e-3, 1e-2, 3e-2, 1e-1)
HELD_OUT = 0.1
"""The part of the training words that chooses learning rates."""
fit = partial(fit_toy, warmup=20, schedule="linear")


class PaddingBatchNorm(BatchNorm):
    """Batch norm with statistics over padding too: for comparison."""

    def forward(self, x: Tensor, layout: Layout | None = None) -> Tensor:
        return super().forward(x)


EXCHANGED: dict[str, tuple[str, type[nn.Module], Callable[[int], nn.Module]]] = {
    "sequence": ("layer", LayerNorm, SequenceLayerNorm),
    "padding": ("batch", BatchNorm, PaddingBatchNorm),
}
"""Norms that no setting has: the setting, and the class whose modules are exchanged for others."""


@cache
def read_words() -> tuple[Tensor, Tensor]:
    """The words of pages for training and of others for testing, as numbers; rare words are 0."""
    train, test = (words_of(" ".join(pages)) for pages in split_pages(PAGES, 0.15))
    frequent = [word for word, _ in Counter(train).most_common(VOCABULARY - 1)]
    number = {word: index for index, word in enumerate(frequent, start=1)}
    first, second = (torch.tensor([number.get(word, 0) for word in words]) for words in (train, test))
    return first, second


def next_words(ids: Tensor) -> ToyTensors:
    """Texts (B, T) and the next word of each word; the last has none."""
    labels = ids.roll(-1, dims=1)
    labels[:, -1] = IGNORE
    return {"ids": ids, "labels": labels}


def texts(
    generator: torch.Generator, words: Tensor, size: int, shortest: int = SHORT, longest: int = LONG
) -> ToyTensors:
    """Random places of the text (B, T) with their lengths (B,), and the next words."""
    lengths = torch.randint(shortest, longest + 1, (size,), generator=generator)
    starts = torch.randint(len(words) - longest, (size, 1), generator=generator)
    places = torch.arange(int(lengths.max()))
    batch = next_words(words[starts + places])
    outside = places >= lengths[:, None] - 1
    return {**batch, "labels": batch["labels"].masked_fill(outside, IGNORE), "lengths": lengths}


def padded_loss(model: nn.Module, batch: ToyTensors) -> Loss:
    """Cross-entropy of the next words of padded texts."""
    words = batch["labels"] != IGNORE
    logits = model(Padded.of(batch["ids"], batch["lengths"]))
    return cross_entropy(logits[words], batch["labels"][words], ignore=IGNORE)


def random_words(generator: torch.Generator, size: int = 32) -> ToyTensors:
    """Independent words of a small vocabulary: the next word cannot be predicted."""
    return next_words(torch.randint(FEW, (size, FEW_LENGTH), generator=generator))


def build(kind: str, vocabulary: int, norm: str, seed: int, layers: int = 2) -> EncoderWithHead:
    """A causal model with norms of this kind."""
    seeded(seed, "weights")
    setting, old, new = EXCHANGED.get(kind, (kind, nn.Module, LayerNorm))
    settings: JsonObject = {"causal": True, "norm": norm, "norm_kind": setting, "positions": "rotary"}
    model = build_tagger(vocabulary, vocabulary, layers=layers, **settings)
    for module in list(model.modules()) if kind in EXCHANGED else ():
        for name, child in list(module.named_children()):
            if isinstance(child, old):
                setattr(module, name, new(WIDTH))
    return model


@torch.no_grad()
def nll_of(model: nn.Module, batch: ToyTensors, loss: ToyLoss = padded_loss) -> float:
    """Negative log-likelihood per word."""
    found = loss(model, batch)
    return float(found.nll / found.count)


def future_gradient(model: EncoderWithHead, seed: int) -> float:
    """The largest gradient of an output by the embedding of a later word."""
    encoder, tokens = model.encoder, rectangle(random_words(generator_of(seed, "gradient"), 1)["ids"])
    x = encoder.embed(tokens).detach().requires_grad_()
    h = encoder.layers(x, encoder.pattern(tokens.layout))  # type: ignore[operator]
    (gradient,) = torch.autograd.grad(h[0, 0, 0], x)
    return float(gradient[0, 1:].abs().max())


def variation(words: Tensor, size: int, seed: int) -> float:
    """Standard deviation of the batch mean of a feature, relative to that of the feature; the mean over features."""
    embeddings = torch.randn(VOCABULARY, WIDTH, generator=generator_of(seed, "embeddings"))
    generator = generator_of(seed, "batches", size)
    means = torch.stack([embeddings[texts(generator, words, size, LONG)["ids"]].mean(dim=(0, 1)) for _ in range(200)])
    return float((means.std(dim=0) / embeddings[words].std(dim=0)).mean())


@dataclass(frozen=True)
class Setting:
    """A norm, and how a model with it is trained."""

    kind: str
    size: int
    steps: int
    norm: str = "pre"
    layers: int = 2
    longest: int = LONG

    def draw(self, generator: torch.Generator, words: Tensor, size: int = 0) -> ToyTensors:
        """A batch of texts, or as many as `size` says."""
        return texts(generator, words, size or self.size, longest=self.longest)

    def train(self, seed: int, rate: float, words: Tensor, loss: ToyLoss = padded_loss) -> EncoderWithHead:
        model = build(self.kind, VOCABULARY, self.norm, seed, self.layers)
        fit(model, partial(self.draw, words=words), loss, steps=self.steps, rate=rate, seed=seed)
        return model


@cache
def rate_of(setting: Setting) -> float:
    """The best learning rate on words that are held out of the training; padding in statistics does not change it."""
    train, _ = read_words()
    known, unknown = train[: -int(len(train) * HELD_OUT)], train[-int(len(train) * HELD_OUT) :]

    def validate(seed: int, rate: float) -> float:
        return nll_of(setting.train(seed, rate, known), setting.draw(generator_of(seed, "valid"), unknown, 200))

    return best_rate(validate, RATES)


def measure(seed: int, effort: Effort, record: Record) -> None:
    train, test = read_words()
    mixed = train[torch.randperm(len(train), generator=generator_of(seed, "mixed"))]
    for size in effort.pick((2, 4, 8, 16, 32), (2, 16)):
        record("variation", "texts", size, variation(train, size, seed))
        record("variation", "independent", size, variation(mixed, size, seed))
    steps, generator = effort.pick(300, 40), generator_of(seed, "test")
    tests = {"all": texts(generator, test, 200), "long": texts(generator, test, 100, LONG, LONG)}

    def look(step: int, model: nn.Module, name: str) -> None:
        record("loss", name, step, nll_of(model, tests["all"]))

    def train_best(name: str, setting: Setting, loss: ToyLoss = padded_loss) -> EncoderWithHead:
        searched = replace(setting, kind="batch") if setting.kind == "padding" else setting
        rate = 3e-3 if effort.quick else rate_of(searched)
        record("rates", "rate", name, rate)
        return setting.train(seed, rate, train, loss)

    for kind, size in SETTINGS:
        name = f"{kind} {size}"
        model = train_best(name, Setting(kind, size, steps), watched(padded_loss, (75, 150), partial(look, name=name)))
        look(steps, model, name)
        record("long", name, "long", nll_of(model, tests["long"]))
        record("long", name, "all", nll_of(model, tests["all"]))
    for kind in ("layer", "batch", "none"):
        setting = Setting(kind, 8, effort.pick(150, 10), "post", DEEP, longest=16)
        unseen = setting.draw(generator_of(seed, "deep"), test, 200)
        record("deep", "nll", kind, nll_of(train_best(f"deep {kind}", setting), unseen))
    for kind in ("layer", "sequence"):
        model = build(kind, FEW, "post", seed)
        record("future", "gradient", kind, future_gradient(model, seed))
        fit(model, random_words, tagging_loss, steps=effort.pick(200, 100), rate=1e-2, seed=seed)
        record("leak", "nll", kind, nll_of(model, random_words(generator_of(seed, "test"), 1000), tagging_loss))
    record("leak", "nll", "guess", math.log(FEW))


def judge(results: Results) -> Verdict:
    steps = results.xs("loss", "layer 16")[-1]
    layer, batch, padding = (results.values("loss", f"{kind} 16", steps) for kind in ("layer", "batch", "padding"))
    first = results.xs("loss", "layer 16")[0]
    fast, slow = (results.values("loss", f"{kind} 16", first) for kind in ("layer", "batch"))
    layer_2, batch_2 = (results.values("loss", f"{kind} 2", steps) for kind in ("layer", "batch"))
    lost = {
        kind: [
            far - near
            for far, near in zip(*(results.values("long", f"{kind} 16", x) for x in ("long", "all")), strict=True)
        ]
        for kind in ("layer", "batch")
    }
    deep, bare = (results.values("deep", "nll", kind) for kind in ("layer", "none"))
    leak, guess = (results.values("leak", "nll", kind) for kind in ("sequence", "guess"))
    return Verdict(
        decide(paired(batch, layer), paired(layer, batch) or equivalent(batch, layer, within=0.05)),
        {"short": SHORT, "longest": LONG, "deep_layers": DEEP},
        {
            "early": decide(paired(slow, fast), paired(fast, slow)),
            "small": decide(paired(batch_2, layer_2), paired(layer_2, batch_2)),
            "padding": decide(paired(padding, batch), paired(batch, padding) or equivalent(padding, batch)),
            "long": decide(
                paired(lost["batch"], lost["layer"], by=0.05), equivalent(lost["batch"], lost["layer"], within=0.05)
            ),
            "deep": decide(paired(bare, deep, by=0.1), paired(deep, bare) or equivalent(bare, deep, within=0.1)),
            "over-text": decide(above(leak, [min(guess) - 0.05]), above([min(guess) - 0.1], leak)),
        },
    )
