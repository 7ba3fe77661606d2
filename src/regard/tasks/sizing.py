"""Defaults that follow from the amount of training data.

A recipe may name nothing but its data. These rules then choose the size of the vocabulary and of the model, the
learning rate, the number of steps and when to stop. The values are chosen once, before the first step. They are printed
with their reasons and written to the recipe of the run. A setting that the recipe gives is never changed.

    vocabulary   c sqrt(W)             the number of different words grows about so (Heaps' law)
    model        larger for more words, and with less dropout
    epochs       e (w / W)^p           every example is seen often in a small corpus, a few times in a large one
    warm-up      a tenth of the steps
    stopping     after several validations without improvement

W words of the training data, e epochs for a corpus of w words. The constants were chosen on the validation data of the
sets in docs/ledger.md ("Recipes with only data").
"""

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TypeVar

from regard.layers.recurrent import CELLS
from regard.messages import Message
from regard.models.bert import SIZES as BERT_SIZES
from regard.models.transformer import SIZES as TRANSFORMER_SIZES
from regard.recipe import ChosenDefault, Corpus, Recipe, Rules

T = TypeVar("T")

TOKENS_PER_WORD = 1.4
"""Subwords per word; exact enough for a number of steps."""
MODEL_SIZES = ("size", "d_model", "d_ff", "num_heads", "head_dim", "layers", "encoder_layers", "decoder_layers")
"""Settings that decide how large a model is. If a recipe gives one of them, none is chosen."""
LENGTHS = ("training.max_steps", "training.max_epochs", "training.max_minutes")


def first_above(value: float, steps: Sequence[tuple[float, T]], last: T) -> T:
    """The entry of the first bound in `steps` that is above `value`; `last` if there is none."""
    return next((entry for bound, entry in steps if value < bound), last)


def rounded(value: float, low: int, high: int) -> int:
    """`value` with two significant digits, between two bounds."""
    digits = max(0, math.floor(math.log10(max(1.0, value))) - 1)
    return int(min(high, max(low, round(value, -digits))))


def epochs(size: float, at: float, typical: float, power: float, low: int, high: int) -> int:
    """typical · (at / size)^power epochs, between two bounds."""
    return round(min(high, max(low, typical * (at / max(1.0, size)) ** power)))


def vocabulary(recipe: Recipe, words: float, factor: float) -> Iterator[ChosenDefault]:
    """The number of tokens of a vocabulary of subwords; one of words or characters has its fixed limit."""
    if getattr(recipe.text, "kind", "") in ("bpe", "wordpiece", "bert"):
        size = rounded(factor * math.sqrt(words), 1000, 32_000)
        yield ChosenDefault("text.vocab_size", size, Message("grows with the square root of the words"))


def model_size(recipe: Recipe, values: Mapping[str, object], words: float) -> Iterator[ChosenDefault]:
    """The size of a model for a number of words, unless the recipe gives any part of it."""
    if not any(recipe.is_given(f"model.{name}") for name in MODEL_SIZES):
        reason = Message("for {words:,} words", words=round(words))
        yield from (ChosenDefault(f"model.{name}", value, reason) for name, value in values.items())


def rate(recipe: Recipe, peak: float, clip: float) -> Iterator[ChosenDefault]:
    """Schedule, learning rate and clipping; a given rate below 0.5 is no factor of the paper's schedule."""
    training = recipe.training
    if recipe.is_given("training.learning_rate"):
        if training.learning_rate < 0.5:
            yield ChosenDefault("training.schedule", "cosine", Message("the learning rate is a peak rate"))
        return
    if not recipe.is_given("training.schedule"):
        yield ChosenDefault("training.schedule", "cosine", Message("needs no tuning of the warm-up"))
    if training.schedule != "paper" or not recipe.is_given("training.schedule"):
        yield ChosenDefault("training.learning_rate", peak, Message("for a model of this size"))
        yield ChosenDefault("training.clip", clip, Message("a high rate needs clipping"))


def length(
    recipe: Recipe,
    tokens: float,
    batch: int,
    passes: int,
    validations: int,
    max_warmup: int = 4000,
    least: int = 500,
) -> Iterator[ChosenDefault]:
    """Batch size, steps, warm-up, validation interval and patience of a training counted in steps."""
    training = recipe.training
    yield ChosenDefault("training.batch_tokens", batch, Message("small for few words, so that there are enough steps"))
    batch = training.batch_tokens if recipe.is_given("training.batch_tokens") else batch
    steps = training.max_steps
    if recipe.is_given("training.max_epochs") and training.max_epochs:  # with a margin: the epochs decide
        passes, least = math.ceil(1.1 * training.max_epochs), 1
    if not recipe.is_given("training.max_steps"):
        steps = rounded(passes * tokens / batch, least, 1_000_000)
        about = Message("about {epochs} epochs", epochs=round(steps * batch / max(1.0, tokens)))
        yield ChosenDefault("training.max_steps", steps, about)
    if not any(recipe.is_given(name) for name in LENGTHS):
        yield ChosenDefault("training.patience", max(4, validations // 4), Message("early stopping"))
    if not recipe.is_given("training.warmup_share"):
        warmup = min(max_warmup, max(1, steps // 10), steps - 1)
        yield ChosenDefault("training.warmup", warmup, Message("a tenth of the steps"))
    every = min(steps, 2000, max(10, steps // validations))
    reason = Message("{count} validations", count=math.ceil(steps / every))
    yield ChosenDefault("training.validate_every", every, reason)


def fine_tuning(rules: Iterable[ChosenDefault]) -> Iterator[ChosenDefault]:
    """Rules for a run that starts from another: its own model, a quarter of the rate."""
    for choice in rules:
        if choice.name == "training.learning_rate":
            rate = float(str(choice.value)) / 4
            yield ChosenDefault(choice.name, rate, Message("fine-tuning: a quarter of the rate from scratch"))
        elif choice.name.startswith("training."):
            yield choice


def or_fine_tuning(rules: Rules) -> Rules:
    """`rules`, or those of fine-tuning if the recipe starts from another run."""

    def choose(recipe: Recipe, corpus: Corpus) -> Iterable[ChosenDefault]:
        chosen = rules(recipe, corpus)
        return fine_tuning(chosen) if recipe.start_from else chosen

    return choose


@or_fine_tuning
def translation(recipe: Recipe, corpus: Corpus) -> Iterator[ChosenDefault]:
    """Translation and parsing; W counts the words of one side."""
    words = corpus.words / 2
    yield from vocabulary(recipe, corpus.words, 8)
    size = first_above(words, [(100_000, "tiny"), (3_000_000, "small")], "base")
    dropout = 0.1 if words > 10_000_000 else 0.3
    if recipe.model.kind in ("transformer", "mask-predict"):
        values = {"size": size, **TRANSFORMER_SIZES[size], "dropout": dropout}
        yield from model_size(recipe, values, words)
    elif recipe.model.kind == "recurrent":
        width = TRANSFORMER_SIZES[size]["d_model"]
        yield from model_size(recipe, {"d_model": width, "d_embedding": width, "dropout": dropout}, words)
    if not recipe.is_given("training.learning_rate"):
        yield ChosenDefault("model.norm", "pre", Message("learns without a long warm-up"))
    yield from rate(recipe, 1e-3 if size == "base" or recipe.model.kind == "recurrent" else 2e-3, 1.0)
    batches = [(30_000, 1024), (100_000, 2048), (3_000_000, 4096), (30_000_000, 8192)]
    batch, passes, least = first_above(words, batches, 16_384), epochs(words, 300_000, 30, 0.35, 4, 100), 500
    validations = 20 if recipe.training.monitor in ("loss", "perplexity") else 10  # other metrics decode all of valid
    if recipe.start_from:  # more passes over few sentences only make it forget the others
        passes, least = epochs(words, 15_000, 5, 0.2, 2, 10), 20
        validations = passes
    yield from length(recipe, words * TOKENS_PER_WORD, batch, passes, validations, least=least)


@or_fine_tuning
def language(recipe: Recipe, corpus: Corpus) -> Iterator[ChosenDefault]:
    """Language models."""
    words, kind = corpus.words, recipe.model.kind
    yield from vocabulary(recipe, words, 8)
    index = first_above(words, [(100_000, 0), (1_000_000, 1), (20_000_000, 2)], 3)
    if kind == "transformer":
        widths, layers = (128, 256, 384, 512), (2, 4, 6, 6)
        values = {
            "d_model": widths[index], "num_heads": widths[index] // 64, "d_ff": 4 * widths[index],
            "layers": layers[index], "dropout": 0.3 if index < 3 else 0.1,
        }  # fmt: skip
        yield from model_size(recipe, values, words)
        yield ChosenDefault("data.bptt", 128, Message("tokens that a Transformer attends to"))
    elif kind in ("rnn", "rnn-sigmoid", "gru", "gru-cho", "lstm", "bilstm"):
        yield from model_size(recipe, {"d_model": (200, 400, 650, 1024)[index]}, words)
    if kind == "ngram":
        return
    yield from rate(recipe, 1e-3 if kind != "lstm" else 2e-3, 1.0 if kind == "transformer" else 0.25)
    batch, passes = (1400, 2800, 8960, 17_920)[index], epochs(words, 2_000_000, 20, 0.3, 3, 60)
    yield from length(recipe, words * TOKENS_PER_WORD, batch, passes, 20)


@or_fine_tuning
def pretraining(recipe: Recipe, corpus: Corpus) -> Iterator[ChosenDefault]:
    """BERT pretraining."""
    words = corpus.words
    yield from vocabulary(recipe, words, 8)
    index = first_above(words, [(1_000_000, 0), (20_000_000, 1), (200_000_000, 2)], 3)
    size = ("tiny", "mini", "small", "base")[index]
    yield from model_size(recipe, {"size": size, **BERT_SIZES[size]}, words)
    if not recipe.is_given("training.learning_rate"):
        peak = (1e-3, 1e-3, 5e-4, 2e-4)[index]
        yield ChosenDefault("training.learning_rate", peak, Message("for a model of this size"))
    batch, passes = (4096, 8192, 32_768, 131_072)[index], epochs(words, 2_000_000, 30, 0.4, 3, 100)
    yield from length(recipe, words * TOKENS_PER_WORD, batch, passes, 10, max_warmup=10_000)


def labelled(recipe: Recipe, corpus: Corpus) -> Iterator[ChosenDefault]:
    """Tasks on labelled text from scratch. A run that starts from another has the published numbers of fine-tuning."""
    if recipe.start_from:
        return
    words, kind = corpus.words, recipe.model.kind
    yield from vocabulary(recipe, words, 16)
    index = first_above(words, [(20_000, 0), (1_000_000, 1), (20_000_000, 2)], 3)
    width, layers = (128, 256, 256, 512)[index], (2, 2, 4, 6)[index]
    if kind == "transformer":
        values = {
            "d_model": width, "num_heads": width // 64, "d_ff": 4 * width, "layers": layers,
            "dropout": 0.3 if index < 3 else 0.1,
        }  # fmt: skip
        yield from model_size(recipe, values, words)
    elif kind in ("recurrent", "elmo", *CELLS):
        yield from model_size(recipe, {"d_model": width, "layers": 1}, words)
    elif kind == "bert":
        size = ("tiny", "mini", "mini", "small")[index]
        yield from model_size(recipe, {"size": size, **BERT_SIZES[size]}, words)
    if not recipe.is_given("training.learning_rate"):
        recurrent = kind in ("recurrent", "elmo", *CELLS)
        peak = 1e-2 if kind == "linear" else 1e-3 if recurrent else (1e-3, 7e-4, 5e-4, 3e-4)[index]
        yield ChosenDefault("training.learning_rate", peak, Message("from scratch, for a model of this size"))
    batch = first_above(corpus.examples, [(50_000, 32), (500_000, 64)], 128)
    reason = Message("for {examples:,} examples", examples=corpus.examples)
    yield ChosenDefault("training.batch_examples", batch, reason)
    passes = epochs(corpus.examples, 5000, 20, 0.4, 3, 60)
    if recipe.is_given("training.max_steps"):
        yield ChosenDefault("training.max_epochs", 0.0, Message("off: the recipe gives the number of steps"))
    else:
        yield ChosenDefault("training.max_epochs", float(passes), reason)
    if not any(recipe.is_given(name) for name in LENGTHS):
        yield ChosenDefault("training.patience", max(4, passes // 4), Message("early stopping"))


def truncated(recipe: Recipe, corpus: Corpus) -> Iterator[ChosenDefault]:
    """Labelled texts that are truncated: the maximum length also follows from the data."""
    yield from labelled(recipe, corpus)
    if not recipe.start_from:
        tokens = corpus.long_input * TOKENS_PER_WORD + 3  # [CLS], and a [SEP] after each text
        longest = int(min(512, max(32, 32 * math.ceil(tokens / 32))))
        yield ChosenDefault("data.max_length", longest, "95 % of the texts fit")
