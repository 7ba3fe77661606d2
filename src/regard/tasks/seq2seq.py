"""Sequence-to-sequence tasks: settings, cross-entropy, and decoding with a search.

    text -> ids -> batch -> decoder state -> search -> hypotheses -> text

B sentences, S source, T target, V vocabulary.
"""

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any, ClassVar, Generic, Self, TypeVar

import numpy as np
import torch
from pydantic import model_validator
from torch import Tensor, nn

from regard.attention.layouts import Attentions, Packed, Padded, Tokens
from regard.config import SettingError, SettingsTable, Unused, build
from regard.data.batch import Batch
from regard.data.encoders import KEEP_ALL, Filters, PairEncoder, language_tags, source_row
from regard.data.fields import PAIRS, Fields
from regard.data.hold_out import read_split, report_held_out
from regard.data.pairs import Pairs
from regard.data.planning import groups_by_length
from regard.data.settings import PairDataSettings
from regard.data.store import Store
from regard.decoding.engine import DecodingRequest, Engine
from regard.decoding.hypothesis import Hypothesis
from regard.decoding.settings import DecodingSettings, change_search
from regard.decoding.stepper import Symbols
from regard.engines.choose import ENGINES, as_engine, is_standard_transformer
from regard.engines.device import ValidationEngine
from regard.errors import UserError
from regard.files import JsonObject
from regard.kernels import kernels_available
from regard.losses.crossentropy import Loss
from regard.messages import Message, join_messages
from regard.metrics.score import Score, perplexity
from regard.metrics.summaries import ROUGE
from regard.metrics.translation import bleu_metric
from regard.models.masked import MaskedSettings
from regard.models.transformer import TransformerSettings
from regard.models.translation import TRANSLATION_MODELS, TranslationModelSettings
from regard.reading import check_text
from regard.recipe import Recipe, Rules
from regard.runtime import World
from regard.tasks import base, sizing
from regard.tasks.base import AnyTask, Example, Prediction, Report, Search, Task, ValidationData
from regard.tasks.checks import DoctorHooks, ExpectedLoss, unigram_baseline
from regard.tasks.identification import bundled_probabilities
from regard.tasks.inputs import chunk, copy_tokenizer, missing_key, one_line, option_names, split_spans
from regard.tasks.writing import LEFT_TO_RIGHT, MASKED, MaskedTokens, TokenByToken
from regard.text.factory import learning_message, load_tokenizer, train_tokenizer
from regard.text.settings import PairTextSettings, TextSettings
from regard.text.symbols import BACK_TRANSLATED, BOS, EOS, PAD, PLACEHOLDERS, language_tag
from regard.text.tokenizer import Span, Tokenizer
from regard.training.task import Baseline, Validation
from regard.viz.report import AttentionMap, attention_maps
from regard.work import compute_all

SYMBOLS = Symbols(bos=BOS, eos=EOS, pad=PAD)
JOINT, SRC, TGT = "tokenizer.json", "src.tokenizer.json", "tgt.tokenizer.json"
CHUNK_LINES = 4096
MAX_COUNTED_PAIRS = 20_000
"""Training pairs in which tokens are counted for the unigram baseline."""
"""Sentences among which those of similar length are decoded together."""


class TranslationRecipe(Recipe):
    """The recipe of a translation model."""

    fields: ClassVar[Fields] = PAIRS
    rules: ClassVar[Rules] = sizing.translation
    supports_losses: ClassVar[bool] = True
    monitors: ClassVar[tuple[str, ...]] = (
        "loss", "perplexity", "chrf", "ter", "exact_match", *ROUGE, "bleu",
    )  # fmt: skip

    data: PairDataSettings
    text: PairTextSettings = PairTextSettings()
    model: TranslationModelSettings = TransformerSettings()
    decoding: DecodingSettings = DecodingSettings()

    @classmethod
    def infer_defaults(cls, values: SettingsTable) -> SettingsTable:
        """A masked model has one search."""
        model, decoding = values.get("model", {}), values.get("decoding", {})
        if isinstance(model, dict) and model.get("kind") == "mask-predict" and isinstance(decoding, dict):
            return values | {"decoding": {"search": "mask_predict"} | decoding}
        return values

    @model_validator(mode="after")
    def check_groups(self) -> Self:
        """Check settings of different groups against each other."""
        imported = self.text.kind == "imported"
        if not self.data.train and not imported:
            raise SettingError("data.train", "must name at least one source", "missing-setting")
        symbols = self.data.tagged_languages or self.data.placeholders or self.data.has_back_translations
        if self.text.dropout and symbols:
            problem = "does not work with several target languages, placeholders or tagged back-translations; write 0"
            raise SettingError("text.dropout", problem)
        if self.model.shared_vocabulary and not self.text.joint and not imported:
            raise SettingError("model.tie", '"all" needs text.joint = true; otherwise write "output"')
        masked = isinstance(self.model, MaskedSettings)
        if masked != (self.decoding.search == "mask_predict"):
            raise SettingError(
                "decoding.search",
                f'"{self.decoding.search}" does not work with model.kind = "{self.model.kind}"; '
                + ('write "mask_predict"' if masked else 'mask_predict needs `model.kind = "mask-predict"`'),
            )
        if masked and self.training.loss != "cross_entropy":
            raise SettingError("training.loss", f'"{self.training.loss}" does not work with kind = "{self.model.kind}"')
        self.check_length("max_length", "sentence")
        return self

    def no_effect(self) -> Iterator[Unused]:
        yield "training.batch_examples", "labelled tasks"


R = TypeVar("R", bound=TranslationRecipe)
T = TypeVar("T", bound="Seq2Seq[Any]")


class Seq2SeqChecks(DoctorHooks[T, Pairs], Generic[T]):
    """Hooks for pairs of sentences."""

    long_inputs = "split"

    def write_sample(self, recipe: Recipe, samples: Mapping[str, Sequence[Example]], folder: Path) -> dict[str, object]:
        """Back-translations are a source of their own, so that the tokenizer gets their tag."""
        train = samples["train"]
        kinds = [[pair for pair in train if bool(pair.get("back_translated")) == kind] for kind in (False, True)]
        settings: JsonObject = super().write_sample(recipe, {**samples, "train": kinds[0], "tagged": kinds[1]}, folder)
        settings["train"] += [source | {"back_translated": True} for source in settings.pop("tagged")]
        return settings

    def texts(self, fields: Fields, example: Example) -> dict[str, list[str]]:
        return {"source": [example["src"]], "target": [example["tgt"]]}

    def describe_store(self, task: T, split: str, store: Pairs) -> str:
        tokens = int(store.src_lengths.sum() + store.tgt_lengths.sum())
        line = Message("{split}: {pairs:,} pairs, {tokens:,} tokens", split=split, pairs=len(store), tokens=tokens)
        limit = task.recipe.data.max_length
        if split == "train":
            return join_messages("\n", [store.account.table(), line])
        if split == "valid" and (too_long := len(store) - len(store.within(limit))):
            left_out = Message(
                "; validation leaves out {count:,} pairs of more than data.max_length = {limit} tokens",
                count=too_long,
                limit=limit,
            )
            line = join_messages("", [line, left_out])
        return line

    def max_length(self, task: T) -> int:
        return task.recipe.data.max_length

    def input_length(self, task: T, example: Example) -> int:
        return len(task.src_tokenizer.encode(example["src"])) + 1

    def filter_counts(self, store: Pairs) -> dict[str, int]:
        return store.account.dropped

    def causal_sequence(self, task: T) -> str:
        return task.writing.causal_sequence

    def baseline(self, task: T, train: Pairs, valid: Pairs, examples: Sequence[Example]) -> Baseline:
        some = np.arange(min(len(train), MAX_COUNTED_PAIRS))
        return unigram_baseline(train.at_epoch(0).targets(some)[0], valid.targets(np.arange(len(valid)))[0])

    def expected_loss(self, task: T, batch: Batch) -> ExpectedLoss | None:
        return task.writing.expected_loss(batch, len(task.tgt_tokenizer), task.recipe.model.length_limit)

    def overfit_bound(self, task: T, batch: Batch) -> float:
        """Half the loss of a decoder that ignores the source: it has to guess which of B targets it writes."""
        sentences = max(2, len(batch.labels))
        return 0.5 * sentences * math.log(sentences) / int(batch["target_lengths"].sum())

    def decoder_logits(self, model: nn.Module, batch: Batch, packed: bool) -> Tensor:
        layout: type[Packed] | type[Padded] = Packed if packed else Padded
        source, target = (layout.of(batch[name], batch[f"{name}_lengths"]) for name in ("source", "target"))
        logits: Tensor = model(source, target).logits()
        inside = torch.arange(batch["target"].size(1), device=logits.device) < batch["target_lengths"][:, None]
        return logits if packed else logits[inside]


@dataclass(frozen=True)
class Seq2Seq(Task[R, Pairs]):
    """Base of the tasks whose model writes a target sequence for a source sequence."""

    src_tokenizer: Tokenizer = field(repr=False)
    tgt_tokenizer: Tokenizer = field(repr=False)
    decoding: DecodingSettings = field(default=None)  # type: ignore[assignment]
    """How to search; the settings of the recipe if it is not given."""
    max_source: int = 0
    """The maximum number of source tokens; that of the recipe if it is not given."""
    max_target: int | None = None
    """The number of target positions of the model; None if it has no limit."""
    bleu_tokenizer: str = ""
    """The tokenizer of BLEU; if it is not given, it follows from the script of the references."""
    target_language: str = ""
    """The target language of examples that name none; "" for a model of one target language."""
    source_language: str = ""
    """The source language of examples that name none; it is needed for a direction through a pivot language."""

    checks: ClassVar[DoctorHooks[Any, Pairs]] = Seq2SeqChecks()
    options = ("source", "target", "tokenize", *DecodingSettings.model_fields)
    scored_by_store = True
    target_text: ClassVar[TextSettings | None] = None
    """Settings of the target tokenizer; None if they are those of the recipe."""

    def __post_init__(self) -> None:
        recipe = self.recipe
        object.__setattr__(self, "decoding", self.decoding or recipe.decoding)
        object.__setattr__(self, "max_source", self.max_source or recipe.data.max_length)
        if self.max_target is None:
            object.__setattr__(self, "max_target", recipe.model.length_limit)

    @property
    def writing(self) -> TokenByToken | MaskedTokens:
        """How the model writes: token by token, or all tokens at once."""
        return MASKED if isinstance(self.recipe.model, MaskedSettings) else LEFT_TO_RIGHT

    @property
    def search(self) -> Search:
        use = (self.force, self.call_model, tuple(ENGINES), self.decoding_request, self.join_parts)
        return Search(self.decoding, SYMBOLS, self.tgt_tokenizer, *use)

    @property
    def tokenizers(self) -> dict[str, Tokenizer]:
        return {"source": self.src_tokenizer, "target": self.tgt_tokenizer}

    # ---- preparation ------------------------------------------------------------------------------------------------

    @classmethod
    def artifacts(cls, recipe: R) -> tuple[str, ...]:
        return (JOINT,) if recipe.text.joint else (SRC, TGT)

    @classmethod
    def load(cls, recipe: R, folder: Path) -> Self:
        tokenizers = [load_tokenizer(folder / name) for name in cls.artifacts(recipe)]
        return cls(recipe, tokenizers[0], tokenizers[-1])

    @classmethod
    def prepare(cls, recipe: R, folder: Path, start: Path | None, report: Report) -> Self:
        max_characters = 32 * recipe.data.max_length
        report_held_out(recipe.data, recipe.fields, report)

        def lines(name: str) -> Iterator[str]:
            for pair in read_split(recipe.data, recipe.fields, "train"):
                texts = [pair["src"]] * (name != TGT) + [pair["tgt"]] * (name != SRC)
                yield from (text for text in texts if len(text) <= max_characters)

        other = start or (Path(recipe.text.tokenizer_from) if recipe.text.tokenizer_from else None)
        for name in cls.artifacts(recipe):
            text = recipe.text if name != TGT else cls.target_text or recipe.text
            if start is None and (folder / name).exists():
                continue  # a run that is resumed keeps its tokenizers, and the run that they came from is not needed
            if other is not None:
                copy_tokenizer(other, folder, name)
            else:
                report(learning_message(text.kind, text.vocab_size))
                tags = [language_tag(language) for language in recipe.data.tagged_languages if name != TGT]
                if recipe.data.has_back_translations and name != TGT:
                    tags.append(BACK_TRANSLATED)
                symbols = [*tags, *(PLACEHOLDERS if recipe.data.placeholders else ())]
                train_tokenizer(lines(name), text, symbols).save(folder / name)
        return cls.load(recipe, folder)

    # ---- data -------------------------------------------------------------------------------------------------------

    def encoder(self, filtered: bool) -> PairEncoder:
        filters = Filters.of(self.recipe.data) if filtered else KEEP_ALL
        data = self.recipe.data
        shares = (data.placeholders, data.typing_noise) if filtered else (0.0, 0.0)
        identify = bundled_probabilities if filters.clean and filters.clean.language else None
        target = default_target(self)
        source_end = self.recipe.text.source_end
        return PairEncoder(self.src_tokenizer, self.tgt_tokenizer, filters, *shares, identify, target, source_end)

    def view(self, store: Store) -> Pairs:
        pairs, model = Pairs(store), self.recipe.model
        bound, setting = model.length_limit, model.length_setting
        longest = int(max(pairs.src_lengths.max(), pairs.tgt_lengths.max()))
        if bound is not None and longest > bound:
            other = ' or with model.positions = "sinusoidal"' if hasattr(model, "positions") else ""
            problem = f"the data has a sentence of {longest:,} tokens, and model.{setting} is {bound}"
            remedy = f"shorten or remove the sentence, or train with a larger `model.{setting}`{other}"
            raise UserError(problem, remedy, code="too-long", where=f"model.{setting}")
        return pairs

    def validation_data(self, folder: Path, store: Pairs, world: World) -> ValidationData[Pairs]:
        """Pairs within data.max_length: one line of a book would take the time and memory of all others together. On a
        GPU, validation decodes with CUDA graphs, which is many times faster."""
        limit, engine = self.recipe.data.max_length, None
        rows, examples = store.within(limit), list(self.read("valid"))
        if not len(rows):
            problem = f"every pair of data.valid has more than data.max_length = {limit} tokens"
            remedy = "increase `data.max_length`, or split the long lines"
            raise UserError(problem, remedy, code="no-data", where="data.valid")
        if len(rows) < len(store):
            store, examples = store.select(rows), [examples[row] for row in rows]
        if world.device.type == "cuda" and kernels_available() and is_standard_transformer(self.recipe.model):
            engine = ValidationEngine(SYMBOLS, torch.bfloat16 if world.precision == "bf16" else torch.float32)
        return ValidationData(store, examples, engine)

    # ---- training ---------------------------------------------------------------------------------------------------

    def new_model(self) -> nn.Module:
        settings = self.recipe.model
        return TRANSLATION_MODELS[settings.kind](settings, len(self.src_tokenizer), len(self.tgt_tokenizer))

    def loss(self, model: nn.Module, batch: Batch) -> Loss:
        training = self.recipe.training
        return self.writing.loss(model, batch, training.label_smoothing, training.r_drop, training.loss)

    @torch.no_grad()
    def likelihood(self, model: nn.Module, store: Pairs, batch_tokens: int = 4096) -> tuple[float, int]:
        """Negative log-likelihood of all targets given their sources, in nats, and the number of target tokens."""
        device = next(model.parameters()).device
        lengths = np.maximum(store.src_lengths, store.tgt_lengths).tolist()

        def compute(group: Sequence[int]) -> tuple[float, int]:
            return self.writing.likelihood(model, store.pad(np.array(group)).to(device))

        sums = list(compute_all(partial(compute, group) for group in groups_by_length(lengths, batch_tokens)))
        return math.fsum(nll for nll, _ in sums), sum(count for _, count in sums)

    def validate(self, model: nn.Module, data: ValidationData[Pairs]) -> Validation:
        training = self.recipe.training
        nll, count = self.likelihood(model, data.store)
        metrics = {"loss": nll / max(1, count), "perplexity": perplexity(nll, count)}
        scored = training.monitor not in metrics
        examples = data.examples if scored else data.examples[: training.samples]
        engine = data.engine(model) if data.engine and examples else model
        quick = replace(self, decoding=self.writing.quick_search(self.decoding))
        predictions = list(quick.predict(engine, examples))
        if scored:
            metrics |= self.monitored_scores(examples, predictions)
        return Validation(metrics, [self.describe(*row).lines() for row in zip(examples, predictions, strict=True)])

    def monitored_scores(self, examples: Sequence[Example], predictions: Sequence[Prediction]) -> dict[str, float]:
        """The scores of a validation, the monitored one among them."""
        return {name: score.value for name, score in self.score(examples, predictions).items()}

    def score_store(self, model: nn.Module, store: Pairs) -> list[Score]:
        nll, count = self.likelihood(model, store)
        signature = Message("per token of this run's vocabulary, {count} tokens", count=count)
        return [Score("perplexity", perplexity(nll, count), signature)]

    # ---- use --------------------------------------------------------------------------------------------------------

    def tags(self, example: Example) -> list[int]:
        """The tokens before a source: the tag of its target language, if the model has several."""
        return language_tags(self.src_tokenizer, example.get("to") or default_target(self))

    def configure(self, **options: object) -> Self:
        tokenizer = options.pop("tokenize", None)
        task = self
        if tokenizer is not None:
            bleu_metric(str(tokenizer))  # an unknown tokenizer is an error now, not after decoding
            task = replace(task, bleu_tokenizer=str(tokenizer))
        if options.keys() & {"from", "to", "source", "target"} and self.languages is not None:
            given = {name: str(options.pop(name, None) or "") for name in ("from", "to", "source", "target")}
            source, target = given["source"] or given["from"] or None, given["target"] or given["to"] or None
            source, target = self.languages.choose(source, target) if target else (source, None)
            source, target = source or task.source_language, target or task.target_language
            task = replace(task, source_language=source, target_language=target)
        super().configure(**{name: options[name] for name in options.keys() - DecodingSettings.model_fields.keys()})
        if options:
            settings = build(type(self.decoding), change_search(self.decoding, options), option_names(options))
            task = replace(task, decoding=settings)
        return task

    def parse(self, value: str | Mapping[str, object], where: str = "the input") -> Example:
        if isinstance(value, str):
            return {"src": value}
        source = value.get("src", value.get("text"))
        if not isinstance(source, str):
            raise missing_key("src", self.recipe.fields, where)
        check_text(value, where)
        return {**{key: item for key, item in value.items() if key not in ("text", "tgt")}, "src": source}

    def source_row(self, ids: list[int]) -> list[int]:
        """The tokens of a source as the model reads them."""
        return source_row(ids, self.recipe.text.source_end)

    def predict(self, engine: nn.Module | Engine, examples: Iterable[Example]) -> Iterator[Prediction]:
        """Translate {"src", "prefix"?}; a blank source gives a blank translation, a long one is split into parts."""
        decoder, number = as_engine(engine, SYMBOLS), 0
        for lines in chunk(examples, lambda example: len(example["src"]), CHUNK_LINES):
            request, counts = self.decoding_request(lines, number)
            remaining = iter(decoder.decode(request))
            for count in counts:
                yield self.join_parts([next(remaining) for _ in range(count)])
            number += len(lines)

    def decoding_request(self, examples: Sequence[Example], first: int) -> tuple[DecodingRequest, list[int]]:
        """What an engine has to decode, and the number of parts of each example; `first` is the first one's number."""
        tags = [self.tags(example) for example in examples]
        splits = [source_parts(self, example) if example["src"].strip() else [] for example in examples]
        parts = [(index, number, ids) for index, split in enumerate(splits) for number, (_, ids) in enumerate(split)]
        given = [example.get("prefix", "") for example in examples]
        prefixes = [self.tgt_tokenizer.encode(text) if text else [] for text in given]
        longest = max(map(len, prefixes), default=0)
        if self.max_target is not None and longest >= self.max_target:
            problem = f"a prefix of {longest} tokens is too long for a model of {self.max_target} positions"
            raise UserError(problem, "give a shorter prefix", code="too-long", where="prefix")
        forced = [prefixes[index] if number == 0 else [] for index, number, _ in parts]
        sources = [self.source_row([*tags[index], *ids]) for index, _, ids in parts]
        lengths = torch.tensor([len(source) for source in sources], dtype=torch.long)
        limits = self.decoding.max_new_tokens(lengths).tolist()
        if self.max_target is not None:  # the prefix uses some of the positions
            limits = [min(limit, self.max_target - len(ids)) for limit, ids in zip(limits, forced, strict=True)]
        sentence_ids = [first + index for index, _, _ in parts]
        return DecodingRequest(sources, limits, self.decoding, forced, sentence_ids), [len(split) for split in splits]

    def join_parts(self, parts: list[list[Hypothesis]]) -> Prediction:
        """The prediction for a line from the hypotheses of its parts."""
        used = parts[0] if len(parts) == 1 else [part[0] for part in parts]
        hypotheses = [
            {
                "text": one_line(self.tgt_tokenizer.decode(item.tokens)),
                "score": item.score,
                "finished": item.finished,
                "looped": item.looped,
                "confidence": item.confidence,
                "tokens": list(item.tokens),
            }
            for item in used
        ]
        best = hypotheses[: max(1, len(parts))]
        return joined_prediction(" ".join(str(item["text"]) for item in best), best, len(parts), hypotheses)

    def force(self, example: Example, target: str) -> Prediction:
        """The prediction of a given output, to inspect its attention."""
        return {"translation": target, "score": None}

    def output(self, prediction: Prediction) -> Prediction:
        values = {key: value for key, value in prediction.items() if key != "hypotheses"}
        if self.decoding.nbest > 1:
            whole = prediction["hypotheses"] if prediction.get("parts") == 1 else []
            values["hypotheses"] = [{k: v for k, v in item.items() if k != "tokens"} for item in whole]
        return values

    def attention(self, model: nn.Module, example: Example, prediction: Prediction) -> list[AttentionMap]:
        """The attention of encoder, decoder and cross-attention between a source and its translation."""
        if not example["src"].strip():
            return []
        target = self.target_tokens(example, prediction)
        rows, columns, weights = self.attention_weights(model, example["src"], target, self.tags(example))
        encoder, decoder, cross = (
            None if x is None else x[0].float().cpu().numpy() for x in (weights.encoder, weights.decoder, weights.cross)
        )
        return attention_maps(rows, columns, encoder, decoder, cross, start=self.writing.start_symbol)

    def target_tokens(self, example: Example, prediction: Prediction) -> list[int]:
        """The tokens of a prediction; a UserError if the source or the target is longer than the model reads."""
        check_drawable(example["src"], self.src_tokenizer, self.max_source)
        if "hypotheses" in prediction:
            return list(prediction["hypotheses"][0]["tokens"]) if prediction["hypotheses"] else []
        check_drawable(prediction["translation"], self.tgt_tokenizer, self.max_source)
        return self.tgt_tokenizer.encode(prediction["translation"])

    def attention_weights(
        self, model: nn.Module, source: str, target: Sequence[int], tags: Sequence[int] = ()
    ) -> tuple[list[str], list[str], Attentions]:
        """Source tokens, target tokens (a row is the position that wrote the token) and all attention weights."""
        src, tgt = self.model_inputs(model, source, target, tags)
        weights: Attentions = model.attentions(src, tgt)  # type: ignore[operator]
        names = self.writing.source_tokens(self.src_tokenizer.tokens(src.ids[0].tolist()))
        return names, self.tgt_tokenizer.tokens([*target, EOS]), weights

    def model_inputs(
        self, model: nn.Module, source: str, target: Sequence[int], tags: Sequence[int] = ()
    ) -> tuple[Tokens, Tokens]:
        """A source and what the decoder reads to write a target, as a batch of one."""
        ids = [*tags, *self.src_tokenizer.encode(source)][: self.max_source - 1]
        device, inputs = base.device_of(model), (self.source_row(ids), self.writing.decoder_input(target))
        rows = (torch.tensor([row], device=device) for row in inputs)
        src, tgt = (Padded.of(row, torch.tensor([row.size(1)], device=row.device)) for row in rows)
        return src, tgt

    def call_model(self, model: nn.Module, example: Example, prediction: Prediction) -> None:
        model(*self.model_inputs(model, example["src"], self.target_tokens(example, prediction), self.tags(example)))


def joined_prediction(
    text: str, best: Sequence[JsonObject], parts: int, hypotheses: Sequence[JsonObject]
) -> Prediction:
    """The prediction of a text whose parts have these `best` hypotheses: their mean score, their least confidence."""
    return {
        "translation": text,
        "score": sum(item["score"] for item in best) / len(best) if best else None,
        "confidence": min((item["confidence"] for item in best), default=None),
        "finished": all(item["finished"] for item in best),
        "looped": any(item["looped"] for item in best),
        "parts": parts,
        "hypotheses": hypotheses,
    }


def default_target(task: Seq2Seq[R]) -> str:
    """The target language of examples that name none: the configured one, or that of [data]."""
    return task.target_language or (task.recipe.data.tgt_lang if task.src_tokenizer.language_tags else "")


def source_parts(task: Seq2Seq[Any], example: Example) -> list[tuple[Span, list[int]]]:
    """The parts of a source that the model reads at once: spans of the text, and their tokens."""
    return split_spans(example["src"], task.src_tokenizer, task.max_source - 1 - len(task.tags(example)))


def check_drawable(text: str, tokenizer: Tokenizer, max_tokens: int) -> None:
    """Raise UserError if a text is longer than the model reads."""
    tokens = len(tokenizer.encode(text)) + 1
    if tokens > max_tokens:
        problem = f"the text has {tokens} tokens, and the run was trained with data.max_length={max_tokens}"
        raise UserError(problem, "inspect a shorter sentence", code="too-long", where="text")


def ensemble(tasks: Sequence[AnyTask]) -> AnyTask:
    """The task of several runs together: their tokenizers must be the same; the shortest limits of length hold."""
    first = tasks[0]
    if len(tasks) == 1:
        return first
    if not isinstance(first, Seq2Seq):
        raise UserError(f"the task {first.name} does not support ensembles", "give one run", code="unsupported-option")
    joined: list[Seq2Seq[Any]] = [task for task in tasks if isinstance(task, Seq2Seq)]
    distinct = {tuple(tokenizer.to_json() for tokenizer in task.tokenizers.values()) for task in tasks}
    if len(distinct) > 1 or len(joined) < len(tasks):
        problem = "the runs have different tokenizers and cannot be an ensemble"
        remedy = "train all runs with the same data and [text] settings, and a different `runtime.seed` each"
        raise UserError(problem, remedy, code="different-tokenizers")
    limits = [task.max_target for task in joined if task.max_target is not None]
    return replace(first, max_source=min(task.max_source for task in joined), max_target=min(limits, default=None))
