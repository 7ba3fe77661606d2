"""Norms in a language model: layer norm of one token, batch norm, and the layer norm that shows the future.

A norm subtracts a mean and divides by a standard deviation. They can be taken over

    the features of one token             layer norm in the Transformer
    all tokens of a batch, by feature     batch norm; moving averages in evaluation
    all tokens and features of a text     layer norm as for images, LN(seq, f) in the notes

The statistics of batch norm vary from batch to batch. Words of one text are related, so a batch of texts tells less
about all text than as many independent words do, and the model trains on noise that is absent in evaluation. Here batch
norm starts slowly and catches up, so the loss is measured after a short and after a longer training.

The third norm mixes all tokens of a text, later ones included. With it a causal model must not be trained: on random
words, which no model can predict, it goes below the loss of a uniform guess, because a mean of the future is enough to
find the next word.
"""

import math
from collections import Counter
from functools import cache, partial

import torch
from torch import Tensor, nn

from regard.lab.english import split_pages, words_of
from regard.lab.experiment import Effort, Record, Results, Verdict, above, decide
from regard.lab.toys import IGNORE, ToyTensors, build_tagger, fit_toy, generator_of, rectangle, seeded, tagging_loss
from regard.layers.norms import LayerNorm, SequenceLayerNorm
from regard.models.text_encoder import EncoderWithHead

VOCABULARY, WIDTH, LENGTH, LONG = 300, 32, 12, 36
PAGES = 1
"""The seed that chooses the pages for testing: the same for all runs, so that their losses can be compared."""
FEW, FEW_LENGTH = 4, 6
"""Words and length of the random texts."""
SETTINGS = (("layer", 2), ("batch", 2), ("layer", 32), ("batch", 32), ("none", 32))
"""The norm, and the texts in a batch."""


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


def texts(generator: torch.Generator, words: Tensor, size: int) -> ToyTensors:
    """Random places of the text, LENGTH words each."""
    starts = torch.randint(len(words) - LENGTH, (size, 1), generator=generator)
    return next_words(words[starts + torch.arange(LENGTH)])


def random_words(generator: torch.Generator, size: int = 32) -> ToyTensors:
    """Independent words of a small vocabulary: the next word cannot be predicted."""
    return next_words(torch.randint(FEW, (size, FEW_LENGTH), generator=generator))


def build(kind: str, vocabulary: int, norm: str, seed: int) -> EncoderWithHead:
    """A causal model of two layers with norms of this kind."""
    seeded(seed, "weights")
    built = "layer" if kind == "sequence" else kind
    model = build_tagger(vocabulary, vocabulary, causal=True, layers=2, norm=norm, norm_kind=built, positions="rotary")
    if kind == "sequence":
        for module in list(model.modules()):
            for name, child in list(module.named_children()):
                if isinstance(child, LayerNorm):
                    setattr(module, name, SequenceLayerNorm(WIDTH))
    return model


@torch.no_grad()
def nll_of(model: nn.Module, batch: ToyTensors) -> float:
    """Negative log-likelihood per word."""
    loss = tagging_loss(model, batch)
    return float(loss.nll / loss.count)


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
    means = torch.stack([embeddings[texts(generator, words, size)["ids"]].mean(dim=(0, 1)) for _ in range(200)])
    return float((means.std(dim=0) / embeddings[words].std(dim=0)).mean())


def measure(seed: int, effort: Effort, record: Record) -> None:
    train, test = read_words()
    mixed = train[torch.randperm(len(train), generator=generator_of(seed, "mixed"))]
    for size in effort.pick((2, 4, 8, 16, 32, 64), (2, 64)):
        record("variation", "texts", size, variation(train, size, seed))
        record("variation", "independent", size, variation(mixed, size, seed))
    fit = partial(fit_toy, warmup=20, schedule="linear", seed=seed)
    for kind, size in effort.pick(SETTINGS, (("layer", 32), ("batch", 32))):
        for steps in effort.pick((200, 400), (40,)):
            model = build(kind, VOCABULARY, "pre", seed)
            fit(model, partial(texts, words=train, size=size), tagging_loss, steps=steps, rate=3e-3)
            for panel, length in (("loss", LENGTH), ("long", LONG)):
                rows = test[: len(test) // length * length].view(-1, length)[:300]
                record(panel, f"{kind} {size}", steps, nll_of(model, next_words(rows)))
    for kind in ("layer", "sequence"):
        model = build(kind, FEW, "post", seed)
        record("future", "gradient", kind, future_gradient(model, seed))
        fit(model, random_words, tagging_loss, steps=effort.pick(200, 100), rate=1e-2)
        record("leak", "nll", kind, nll_of(model, random_words(generator_of(seed, "test"), 1000)))
    record("leak", "nll", "guess", math.log(FEW))


def judge(results: Results) -> Verdict:
    pairs = {
        size: [
            [results.values("loss", f"{kind} {size}", steps) for kind in ("layer", "batch")]
            for steps in results.xs("loss", f"layer {size}")
        ]
        for size in (2, 32)
        if f"layer {size}" in results.series("loss")
    }
    confirmed = all(above(batch, layer) for each in pairs.values() for layer, batch in each)
    return Verdict(decide(confirmed, all(above(layer, batch) for layer, batch in pairs[32])))
