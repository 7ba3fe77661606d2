"""Language modelling: the probability of a text, and its continuation.

    training      segment after segment of contiguous streams; the recurrent state is carried from one to the next
    scoring       -log p(text), every token once, per token, word and character
    generating    prompt -> ids -> search with the prompt as a forced prefix -> hypotheses -> text

A text begins like any line, after the end of the line before: the end symbol is also the beginning symbol.

B streams, T tokens of a segment, N tokens of a text, V vocabulary.
"""

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, ClassVar, Self

import numpy as np
import torch
from pydantic import model_validator
from torch import Tensor, nn

from regard.config import SettingError, Unused, build, unless
from regard.data.arrays import Array
from regard.data.batch import Batch
from regard.data.bptt import BPTTBatches, TokenizedText, contiguous_segments, sliding_windows
from regard.data.digests import Digests
from regard.data.encoders import LineEncoder
from regard.data.fields import LINES, Fields
from regard.data.hold_out import read_split, report_held_out
from regard.data.settings import TextDataSettings
from regard.data.sources import Source
from regard.data.store import Store
from regard.data.texts import UNKNOWN, TextNormalizer, frequent_words
from regard.decoding.engine import DecodingRequest, Engine
from regard.decoding.hypothesis import Hypothesis
from regard.decoding.settings import DecodingSettings, change_search
from regard.decoding.stepper import Symbols
from regard.engines.choose import as_engine, prompt_engine
from regard.errors import UserError
from regard.files import JsonObject, checksum, write_text
from regard.losses.crossentropy import Loss
from regard.losses.projected import projected_cross_entropy, projected_loss
from regard.messages import Message
from regard.metrics.score import Score, language_scores
from regard.models.language import LanguageModelSettings, build_language_model
from regard.models.language_bidirectional import BidirectionalLanguageModel, both_directions
from regard.models.language_recurrent import RecurrentLanguageSettings
from regard.models.ngram import NGram, NGramSettings
from regard.reading import check_text, read_text
from regard.recipe import Recipe, Rules
from regard.runtime import World
from regard.tasks import base, sizing
from regard.tasks.base import Example, Prediction, Search, Task, ValidationData, share_of
from regard.tasks.checks import DoctorHooks, entropy, unigram_baseline
from regard.tasks.encoders import MAX_TOKENS_DRAWN
from regard.tasks.inputs import chunk, copy_tokenizer, missing_key, one_line, option_names
from regard.tasks.variants import LANGUAGE_VARIANTS
from regard.text.factory import learning_message, load_tokenizer, train_tokenizer
from regard.text.settings import TextSettings
from regard.text.symbols import EOS, PAD
from regard.text.tokenizer import Tokenizer
from regard.training.distributed import unwrap
from regard.training.task import Baseline, Sample, Validation
from regard.viz.content import Block, Description, Shaded
from regard.viz.report import AttentionMap, attention_maps

TOKENIZER, WORDS = "tokenizer.json", "words.txt"
SYMBOLS = Symbols(bos=EOS, eos=EOS, pad=PAD)
CHUNK_PROMPTS = 256
DIRECT_SETTINGS = ("monitor", "samples", "tensorboard", "keep")
"""Training settings that an n-gram model uses."""
SAMPLE_SEARCH_TOKENS, SAMPLE_TOKENS = 20_000, 40
"""Tokens searched for lines to show as samples, and tokens of a sample."""
REPORT_LINES = 10
FULL_BITS = 12.0
"""Lines in a report, and the information of a token in full colour."""
# Scoring a text: maximum number of streams, and minimum tokens of each. A stream begins without context, so that
# a few tokens in ten thousand are a little less probable than in one stream, which would take many times as long.
MAX_STREAMS, STREAM_TOKENS = 16, 8192
BATCH_TOKENS = 4096
"""Tokens scored together."""


class LanguageRecipe(Recipe):
    """The recipe of a language model."""

    fields: ClassVar[Fields] = LINES
    defaults: ClassVar[Mapping[str, object]] = {
        "task": "language",
        "training.label_smoothing": 0.0,
        "decoding.search": "sample",
    }
    rules: ClassVar[Rules] = sizing.language
    monitors = ("loss", "bits_per_character", "word_perplexity", "perplexity")
    supports_losses = True

    data: TextDataSettings
    text: TextSettings = TextSettings()
    model: LanguageModelSettings = RecurrentLanguageSettings()
    decoding: DecodingSettings = DecodingSettings(search="sample")

    @model_validator(mode="after")
    def check_groups(self) -> Self:
        """Check settings of different groups against each other."""
        if self.start_from and isinstance(self.model, NGramSettings):
            raise SettingError("start_from", "an n-gram model is counted and cannot start from another run; remove it")
        if self.decoding.search == "mask_predict":
            raise SettingError("decoding.search", 'mask_predict works with translation only; write "sample"')
        self.check_length("bptt", "stream", self.training.accumulation)
        return self

    @property
    def compiles(self) -> bool:
        """A recurrent layer is one kernel for a whole segment: compilation gains nothing."""
        return self.model.kind == "transformer"

    def no_effect(self) -> Iterator[Unused]:
        yield from ((key, "translation") for key in ("text.joint", "text.dropout", "training.r_drop"))
        yield "training.batch_examples", "labelled tasks"
        gradient = [f"training.{name}" for name in type(self.training).model_fields if name not in DIRECT_SETTINGS]
        yield from unless(not isinstance(self.model, NGramSettings), "models trained by gradient steps", *gradient)


def load_normalizer(recipe: LanguageRecipe, folder: Path) -> TextNormalizer:
    """How a prepared run normalises lines."""
    words = None
    if recipe.data.min_word_count:
        path = folder / WORDS
        if not path.is_file():
            remedy = "restore the file from a backup: it lists the vocabulary"
            raise UserError(f"{path} is missing", remedy, code="missing-file", where=path)
        words = frozenset(read_text(path).split("\n")[:-1])
    return TextNormalizer(recipe.data.single_blanks, words)


def training_lines(recipe: LanguageRecipe) -> Iterator[str]:
    """The lines of the training text as they are in the files."""
    return (example["text"] for example in read_split(recipe.data, recipe.fields, "train"))


def check_start(recipe: Recipe, start: Recipe, folder: Path) -> None:
    """Raise UserError if rare words are replaced in one of two runs only."""
    here, there = (getattr(item.data, "min_word_count", 0) for item in (recipe, start))
    if bool(there) != bool(here):
        problem = f"{folder} (`start_from`) was trained with `data.min_word_count = {there}`"
        remedy = f"set `data.min_word_count = {there}`"
        raise UserError(problem, remedy, code="incompatible-start", where="data.min_word_count")


class LanguageChecks(DoctorHooks["Language", TokenizedText]):
    """Hooks for running text."""

    contiguous = True

    def describe_store(self, task: "Language", split: str, store: TokenizedText) -> str:
        counts = {"tokens": len(store), "words": store.words, "lines": store.lines}
        return Message("{split}: {tokens:,} tokens, {words:,} words, {lines:,} lines", split=split, **counts)

    def store_samples(
        self, task: "Language", model: nn.Module, store: TokenizedText
    ) -> list[tuple[Example, Prediction]]:
        """Lines with the tokens of the true line and the information of each, and continuations."""
        limit = min(MAX_TOKENS_DRAWN, task.recipe.model.length_limit or MAX_TOKENS_DRAWN) - 1
        rows, decode = [row[:limit] for row in first_lines(store, REPORT_LINES)], task.tokenizer.decode
        samples = []
        for row, prompt, best in zip(rows, *continue_lines(task, model, rows), strict=True):
            example = {"text": decode(prompt), "line": decode(row), "tokens": task.tokenizer.tokens(row)}
            bits = {"bits": token_bits(model, row)}
            samples.append((example | bits, {"continuations": [task.continuation(best)]}))
        return samples

    def max_length(self, task: "Language") -> int:
        return task.recipe.data.bptt

    def baseline(
        self, task: "Language", train: TokenizedText, valid: TokenizedText, examples: Sequence[Example]
    ) -> Baseline:
        return unigram_baseline(train.ids, valid.ids)

    def causal_sequence(self, task: "Language") -> str:
        return "source"

    def overfit_bound(self, task: "Language", batch: Batch) -> float:
        """A quarter of the loss of a unigram model, and what it takes to recognise one of B streams."""
        streams, length = batch.labels.shape
        return 0.25 * entropy(batch.labels.flatten().tolist()) + math.log(streams) / length

    def decoder_logits(self, model: nn.Module, batch: Batch, packed: bool) -> Tensor:
        logits: Tensor = model(batch["source"])[0].logits()
        return logits.flatten(0, 1)


@dataclass(frozen=True)
class Language(Task[LanguageRecipe, TokenizedText]):
    """{"text"} -> {"continuations": [{"text", "log_prob", "finished", "looped"}]}."""

    tokenizer: Tokenizer = field(repr=False)
    normalizer: TextNormalizer = field(default_factory=TextNormalizer, repr=False)
    """How every line is normalised before it is tokenised."""
    decoding: DecodingSettings = field(default=None)  # type: ignore[assignment]
    recurrent_state: dict[str, Tensor] = field(default_factory=dict, repr=False)
    """The recurrent state after the last training segment, by `shard.name`."""

    name = "language"
    exchange = base.Exchange("generate", "text-generation")
    title = "the continuation of a text"
    command = "generate"
    variants = LANGUAGE_VARIANTS
    checks = LanguageChecks()
    recipe_type = LanguageRecipe
    starts = base.StartRules(check=check_start)
    one_shape = True
    options = tuple(DecodingSettings.model_fields)
    scored_by_examples = False
    scored_by_store = True

    def __post_init__(self) -> None:
        object.__setattr__(self, "decoding", self.decoding or self.recipe.decoding)

    @property
    def search(self) -> Search:
        return Search(self.decoding, SYMBOLS, self.tokenizer, self.force, self.call_model)

    @property
    def tokenizers(self) -> dict[str, Tokenizer]:
        return {"source": self.tokenizer}

    # ---- preparation ------------------------------------------------------------------------------------------------

    @classmethod
    def artifacts(cls, recipe: LanguageRecipe) -> tuple[str, ...]:
        return (TOKENIZER, WORDS) if recipe.data.min_word_count else (TOKENIZER,)

    @classmethod
    def load(cls, recipe: LanguageRecipe, folder: Path) -> Self:
        return cls(recipe, load_tokenizer(folder / TOKENIZER), load_normalizer(recipe, folder))

    @classmethod
    def prepare(cls, recipe: LanguageRecipe, folder: Path, start: Path | None, report: base.Report) -> Self:
        data = recipe.data
        report_held_out(data, recipe.fields, report)
        if start is not None:
            copy_tokenizer(start, folder, *cls.artifacts(recipe))
        elif data.min_word_count and not (folder / WORDS).exists():
            words = frequent_words(training_lines(recipe), data.min_word_count)
            count, least = len(words), data.min_word_count
            report(Message("{count:,} words occur {least} times or more", count=count, least=least))
            write_text(folder / WORDS, "".join(f"{word}\n" for word in sorted(words)))
        if not (folder / TOKENIZER).exists():
            report(learning_message(recipe.text.kind, recipe.text.vocab_size))
            lines = map(load_normalizer(recipe, folder), training_lines(recipe))
            train_tokenizer(lines, recipe.text).save(folder / TOKENIZER)
        return cls.load(recipe, folder)

    # ---- data -------------------------------------------------------------------------------------------------------

    def read(self, split: str, sources: Sequence[Source] | None = None) -> Iterator[Example]:
        return ({"text": self.normalizer(example["text"])} for example in super().read(split, sources))

    def content(self, split: str, sources: Sequence[Source] | None, digests: Digests) -> object:
        words = "all" if self.normalizer.words is None else checksum(sorted(self.normalizer.words))
        return [super().content(split, sources, digests), self.normalizer.single_blanks, words]

    def encoder(self, filtered: bool) -> LineEncoder:
        return LineEncoder(self.tokenizer)

    def view(self, store: Store) -> TokenizedText:
        return TokenizedText.of(store)

    def batches(self, store: TokenizedText, world: World) -> BPTTBatches:
        batch_tokens, seed = self.recipe.training.batch_tokens, self.recipe.runtime.seed
        return BPTTBatches(store.ids, batch_tokens, self.recipe.data.bptt, seed, share_of(self.recipe.training, world))

    # ---- training ---------------------------------------------------------------------------------------------------

    def new_model(self) -> nn.Module:
        return build_language_model(self.recipe.model, len(self.tokenizer))

    def loss(self, model: nn.Module, batch: Batch) -> Loss:
        """Cross-entropy of a segment, summed, given the state after the segments before."""
        before = self._state_before(unwrap(model), batch)
        training = self.recipe.training
        loss, after = segment_loss(model, batch, before, training.label_smoothing, training.loss)
        for name, state in after.items():
            self.recurrent_state[f"{batch.shard}.{name}"].copy_(state)
        return loss

    def _state_before(self, model: Any, batch: Batch) -> dict[str, Tensor]:
        """The carried state; zeros at the beginning of the streams, and if their number has changed. The tensors are
        changed in place, so that a CUDA graph finds them again. The model gets copies."""
        initial = model.initial_state(len(batch["source"]))
        for name, state in initial.items():
            key = f"{batch.shard}.{name}"
            if key not in self.recurrent_state or self.recurrent_state[key].shape != state.shape:
                self.recurrent_state[key] = state.clone()
        return {
            name: torch.where(batch["reset"], state, self.recurrent_state[f"{batch.shard}.{name}"])
            for name, state in initial.items()
        }

    def validate(self, model: nn.Module, data: ValidationData[TokenizedText]) -> Validation:
        store = data.store
        nll = self.likelihood(model, store.ids)
        metrics = {score.name.replace(" ", "_"): score.value for score in self._scores(nll, store)}
        rows, decode = first_lines(store, self.recipe.training.samples), self.tokenizer.decode
        samples = [
            Sample(decode(prompt), decode(row[: len(prompt) + SAMPLE_TOKENS]), one_line(decode(best.tokens)))
            for row, prompt, best in zip(rows, *continue_lines(self, model, rows), strict=True)
        ]
        return Validation({"loss": nll / len(store), **metrics}, samples)

    def score_store(self, model: nn.Module, store: TokenizedText) -> list[Score]:
        """Perplexity per token and per word, and bits per character."""
        return self._scores(self.likelihood(model, store.ids), store)

    def _scores(self, nll: float, text: TokenizedText) -> list[Score]:
        note = "" if self.normalizer.words is None else Message("rare words read as {token}", token=UNKNOWN)
        return language_scores(nll, len(text), text.words, text.characters, note)

    @torch.no_grad()
    def likelihood(self, model: Any, ids: Array) -> float:
        """-log p of a whole text (N,), in nats: with carried state, or with windows of `bptt` tokens that overlap."""
        device, context = base.device_of(model), self.recipe.data.bptt
        if isinstance(model, NGram):
            text = torch.from_numpy(np.insert(ids.astype(np.int64), 0, EOS))
            return -float(model.log_probs(text.to(device))[1:].sum())
        streams = max(1, min(MAX_STREAMS, len(ids) // STREAM_TOKENS))
        if model.is_stateful:
            segments = contiguous_segments(ids, streams, max(1, BATCH_TOKENS // streams))
        else:
            segments = sliding_windows(ids, context, max(1, BATCH_TOKENS // context))
        total, state = 0.0, None
        for segment in segments:
            segment = segment.to(device)
            projection, state = model(segment["source"], state)
            total += float(projected_cross_entropy(projection, segment.labels).nll)
        return total

    # ---- use --------------------------------------------------------------------------------------------------------

    def configure(self, **options: object) -> Self:
        super().configure(**{name: options[name] for name in options.keys() - DecodingSettings.model_fields.keys()})
        if not options:
            return self
        if options.get("max_length") is not None:  # as many tokens as asked for, not only as many as the recipe allows
            options = {"extra_length": options["max_length"]} | options
        settings = build(DecodingSettings, change_search(self.decoding, options), option_names(options))
        return replace(self, decoding=settings)

    def parse(self, value: str | Mapping[str, object], where: str = "the input") -> Example:
        if isinstance(value, str):
            return {"text": value}
        if not isinstance(value.get("text"), str):
            raise missing_key("text", self.recipe.fields, where)
        check_text(value, where)
        return dict(value)

    def predict(self, engine: nn.Module | Engine, examples: Iterable[Example]) -> Iterator[Prediction]:
        """Lines that begin with each prompt, `decoding.nbest` of them; a prompt may be empty."""
        decoder, number = prompt_engine(as_engine(engine, SYMBOLS), self.recipe.model), 0
        for prompts in chunk(examples, lambda example: len(example["text"]), CHUNK_PROMPTS):
            ids = [self.tokenizer.encode(self.normalizer(prompt["text"])) for prompt in prompts]
            for hypotheses in self.continue_prompts(decoder, ids, self.decoding, number):
                yield {"continuations": [self.continuation(item) for item in hypotheses]}
            number += len(prompts)

    def continuation(self, item: Hypothesis) -> JsonObject:
        """A hypothesis as a part of a prediction."""
        text = one_line(self.tokenizer.decode(item.tokens))
        values = {"text": text, "log_prob": item.log_prob, "finished": item.finished, "looped": item.looped}
        return values | {"tokens": list(item.tokens)}

    def continue_prompts(
        self, engine: Engine, prompts: list[list[int]], decoding: DecodingSettings, first: int = 0
    ) -> list[list[Hypothesis]]:
        """The hypotheses for each prompt, given as tokens."""
        positions = self.recipe.model.length_limit
        limits = decoding.max_new_tokens(torch.zeros(len(prompts), dtype=torch.long)).tolist()
        if positions is not None:
            for prompt in prompts:
                if len(prompt) >= positions:
                    problem = f"a prompt of {len(prompt)} tokens is too long for a model of {positions} positions"
                    raise UserError(problem, "give a shorter prompt", code="too-long", where="prompt")
            limits = [min(limit, positions - len(ids)) for limit, ids in zip(limits, prompts, strict=True)]
        sentence_ids = range(first, first + len(prompts))
        return engine.decode(DecodingRequest([[EOS]] * len(prompts), limits, decoding, prompts, sentence_ids))

    def force(self, example: Example, target: str) -> Prediction:
        """The prediction of a given continuation, to inspect its attention."""
        tokens = self.tokenizer.encode(self.normalizer(example["text"] + target))
        return {"continuations": [self.continuation(Hypothesis(tokens, 0.0, 0.0, True)) | {"log_prob": None}]}

    def output(self, prediction: Prediction) -> Prediction:
        texts = prediction["continuations"]
        return {"continuations": [{key: item[key] for key in item if key != "tokens"} for item in texts]}

    def call_model(self, model: nn.Module, example: Example, prediction: Prediction) -> None:
        model(torch.tensor([[EOS, *prediction["continuations"][0]["tokens"]]], device=base.device_of(model)))

    def attention(self, model: nn.Module, example: Example, prediction: Prediction) -> list[AttentionMap]:
        """The attention between the tokens of the prompt and of its first continuation."""
        best = prediction["continuations"][0]
        if not self.recipe.has_attention:
            return []
        return line_attention(model, self.tokenizer, best["tokens"], best["finished"])

    def describe(self, example: Example, prediction: Prediction) -> Description:
        """A prompt, its continuations, and the true line, shaded by the information of each token if it is known."""
        line: Block = example.get("line", "")
        if "bits" in example:
            line = Shaded(example["line"], example["tokens"], example["bits"], FULL_BITS, "bits")
        return Description(example["text"], [item["text"] for item in prediction["continuations"]], line)

    def next_commands(self, folder: str, example: str) -> list[str]:
        return [f'regard generate {folder} ""', *super().next_commands(folder, example)[1:]]


def first_lines(store: TokenizedText, count: int) -> list[list[int]]:
    """The tokens of the first lines of some length, without their ends."""
    beginning = store.ids[:SAMPLE_SEARCH_TOKENS]
    lines = np.split(beginning, np.flatnonzero(beginning == EOS) + 1)[:-1]
    return [line[:-1].tolist() for line in lines if len(line) > 4][:count]


def continue_lines(
    task: Language, model: nn.Module, rows: Sequence[Sequence[int]]
) -> tuple[list[list[int]], list[Hypothesis]]:
    """The first quarter of each line as a prompt, and a sampled continuation of it."""
    if not rows:
        return [], []
    limit = min(SAMPLE_TOKENS, (task.recipe.model.length_limit or 2 * SAMPLE_TOKENS) // 2)
    prompts = [list(row[: min(limit, len(row) // 4)]) for row in rows]
    settings = DecodingSettings(search="sample", extra_length=SAMPLE_TOKENS, seed=task.decoding.seed)
    hypotheses = task.continue_prompts(as_engine(model, SYMBOLS), prompts, settings)
    return prompts, [best[0] for best in hypotheses]


def line_attention(model: Any, tokenizer: Tokenizer, tokens: Sequence[int], finished: bool) -> list[AttentionMap]:
    """The attention of a causal model over a line: a row is the token that is predicted, a column one before it. The
    line begins after the end symbol of the line before. A line that is not finished has no row for its end."""
    predicted = [*tokens, EOS] if finished else list(tokens)
    if len(predicted) > MAX_TOKENS_DRAWN:
        problem = f"the text has {len(predicted)} tokens; at most {MAX_TOKENS_DRAWN} can be shown"
        raise UserError(problem, "give a shorter text, or a smaller `max_length`", code="too-long", where="text")
    if not predicted:
        return []
    device = next(model.parameters()).device
    weights = model.attentions(torch.tensor([[EOS, *predicted[:-1]]], device=device)).decoder
    if weights is None:
        return []
    names, (start,) = tokenizer.tokens(predicted), tokenizer.tokens([EOS])
    return attention_maps([], names, decoder=weights[0].float().cpu().numpy(), start=start)


def segment_loss(
    model: nn.Module, batch: Batch, state: dict[str, Tensor], smoothing: float, name: str = "cross_entropy"
) -> tuple[Loss, dict[str, Tensor]]:
    """Cross-entropy (or the loss `name`) of a segment, summed, given the state before it, and the state after it. A
    bidirectional model adds the losses of both directions; the count and the likelihood are of the forward one."""
    if not isinstance(unwrap(model), BidirectionalLanguageModel):
        projection, after = model(batch["source"], state)
        return projected_loss(projection, batch.labels, smoothing, name), after
    projection, after = model(batch["source"], state, batch.labels)
    forward, backward = both_directions(projection)
    loss = projected_loss(forward, batch.labels, smoothing, name)
    return replace(loss, sum=loss.sum + projected_loss(backward, batch["source"], smoothing, name).sum), after


@torch.no_grad()
def token_bits(model: Any, tokens: Sequence[int]) -> list[float]:
    """-log2 p of each token of a line, given those before it."""
    ids = torch.tensor([EOS, *tokens], device=base.device_of(model))
    if isinstance(model, NGram):
        log_probs = model.log_probs(ids)[1:]
    else:
        logits = model(ids[None, :-1])[0].logits()[0].float()  # (T, V)
        log_probs = logits.log_softmax(dim=-1).gather(1, ids[1:, None])[:, 0]
    return [-value / math.log(2) for value in log_probs.double().tolist()]
