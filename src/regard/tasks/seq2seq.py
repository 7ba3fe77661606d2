"""Sequence-to-sequence tasks: settings, cross-entropy, and decoding with a search.

    text -> ids -> batch -> decoder state -> search -> hypotheses -> text

B sentences, S source, T target, V vocabulary.
"""

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from typing import Any, ClassVar, Generic, Self, TypeVar

import numpy as np
import torch
from pydantic import model_validator
from torch import Tensor, nn

from regard.attention.layouts import Attentions, Packed, Padded, Tokens
from regard.config import SettingError, SettingsTable, Unused, build
from regard.data.batch import Batch
from regard.data.encoders import language_tags
from regard.data.fields import PAIRS, Fields
from regard.data.pairs import Pairs
from regard.data.planning import groups_by_length
from regard.data.settings import PairDataSettings
from regard.decoding.engine import DecodingRequest, Engine
from regard.decoding.hypothesis import Hypothesis
from regard.decoding.settings import DecodingSettings, change_search
from regard.decoding.stepper import Symbols
from regard.engines.choose import ENGINES, as_engine, fastest_engine, readable_engine
from regard.errors import UserError
from regard.losses.crossentropy import Loss
from regard.losses.projected import projected_loss, projected_r_drop
from regard.losses.reinforce import reinforce
from regard.metrics.translation import bleu_metric
from regard.models.masked import MaskedSettings
from regard.models.transformer import TransformerSettings
from regard.models.translation import TranslationModelSettings
from regard.reading import check_text
from regard.recipe import Recipe, Rules
from regard.tasks import sizing
from regard.tasks.base import AnyTask, Example, Prediction, Task, device_of
from regard.tasks.checks import DoctorHooks
from regard.tasks.inputs import chunk, one_line, option_names, split_text
from regard.text.settings import PairTextSettings
from regard.text.symbols import BOS, EOS, PAD
from regard.text.tokenizer import Tokenizer
from regard.viz.report import AttentionMap, attention_maps

SYMBOLS = Symbols(bos=BOS, eos=EOS, pad=PAD)
CHUNK_LINES = 4096
"""Sentences among which those of similar length are decoded together."""


class TranslationRecipe(Recipe):
    """The recipe of a translation model."""

    fields: ClassVar[Fields] = PAIRS
    rules: ClassVar[Rules] = sizing.translation
    supports_losses: ClassVar[bool] = True
    monitors: ClassVar[tuple[str, ...]] = ("loss", "perplexity", "chrf", "ter", "exact_match", "bleu")

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
            raise SettingError("data.train", "must name at least one", "missing-setting")
        if self.text.dropout and (self.data.tagged_languages or self.data.placeholders):
            raise SettingError(
                "text.dropout", "BPE-dropout does not work with several target languages or placeholders"
            )
        if self.model.shared_vocabulary and not self.text.joint and not imported:
            raise SettingError("model.tie", '"all" needs text.joint = true; otherwise write "output"')
        masked = isinstance(self.model, MaskedSettings)
        if masked != (self.decoding.search == "mask_predict"):
            raise SettingError(
                "decoding.search",
                f'"{self.decoding.search}" does not work with model.kind = "{self.model.kind}"; '
                + ('write "mask_predict"' if masked else "mask_predict works with kind = mask-predict only"),
            )
        if masked and self.training.loss != "cross_entropy":
            raise SettingError("training.loss", f'"{self.training.loss}" does not work with kind = "{self.model.kind}"')
        if self.model.length_limit is not None and self.model.length_limit < self.data.max_length:
            name = self.model.length_setting
            raise SettingError(
                "data.max_length",
                f"{self.data.max_length} is more than model.{name} allows, {self.model.length_limit} tokens; write a "
                f"larger model.{name} or a smaller data.max_length",
            )
        if self.data.max_length > self.training.batch_tokens:
            raise SettingError(
                "training.batch_tokens",
                f"{self.training.batch_tokens} is less than one sentence of data.max_length = {self.data.max_length} "
                "tokens; write a larger batch_tokens or a smaller max_length",
            )
        return self

    def no_effect(self) -> Iterator[Unused]:
        yield "training.batch_examples", "labelled tasks"


R = TypeVar("R", bound=TranslationRecipe)
T = TypeVar("T", bound="Seq2SeqTask[Any]")


class Seq2SeqChecks(DoctorHooks[T, Pairs], Generic[T]):
    """Hooks for pairs of sentences."""

    long_inputs = "split"

    def texts(self, fields: Fields, example: Example) -> dict[str, list[str]]:
        return {"source": [example["src"]], "target": [example["tgt"]]}

    def max_length(self, task: T) -> int:
        return task.recipe.data.max_length

    def input_length(self, task: T, example: Example) -> int:
        return len(task.src_tokenizer.encode(example["src"])) + 1

    def filter_counts(self, store: Pairs) -> dict[str, int]:
        counts = asdict(store.report)
        return {reason: count for reason, count in counts.items() if reason not in ("read", "kept")}

    def causal_sequence(self, task: T) -> str:
        return "target"

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
class Seq2SeqTask(Task[R, Pairs]):
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
    has_search = True
    engines = tuple(ENGINES)
    scored_by_store = True
    start_symbol: ClassVar[str | None] = "⟨s⟩"
    """The symbol before the decoder's words in pictures; None if the decoder reads the words themselves."""

    def __post_init__(self) -> None:
        recipe = self.recipe
        object.__setattr__(self, "decoding", self.decoding or recipe.decoding)
        object.__setattr__(self, "max_source", self.max_source or recipe.data.max_length)
        if self.max_target is None:
            object.__setattr__(self, "max_target", recipe.model.length_limit)

    def loss(self, model: nn.Module, batch: Batch) -> Loss:
        training = self.recipe.training
        return self.cross_entropy(model, batch, training.label_smoothing, training.r_drop, training.loss)

    def cross_entropy(
        self, model: nn.Module, batch: Batch, smoothing: float = 0.0, r_drop: float = 0.0, name: str = "cross_entropy"
    ) -> Loss:
        """Cross-entropy with label smoothing and R-Drop, or the loss `name`, summed over the target tokens."""
        labels = batch.labels
        loss = partial(projected_loss, labels=labels, smoothing=smoothing, name=name)
        if r_drop and model.training:  # one pass over the batch repeated twice, with different dropout in each half
            batch = batch.repeated()
            loss = partial(projected_r_drop, labels=labels, strength=r_drop, smoothing=smoothing)
        projection = model(batch.source, batch.target)
        computed = loss(projection)
        return computed if projection.samples is None else reinforce(computed, projection, labels)

    @property
    def quick_search(self) -> DecodingSettings:
        """Greedy search for validation; the final evaluation uses the search of the recipe."""
        return DecodingSettings(
            search="greedy", extra_length=self.decoding.extra_length, max_length=self.decoding.max_length
        )

    @torch.no_grad()
    def likelihood(self, model: nn.Module, store: Pairs, batch_tokens: int = 4096) -> tuple[float, int]:
        """Negative log-likelihood of all targets given their sources, in nats, and the number of target tokens."""
        device = next(model.parameters()).device
        total, count = 0.0, 0
        lengths = np.maximum(store.src_lengths, store.tgt_lengths).tolist()
        for group in groups_by_length(lengths, batch_tokens):
            batch = store.pad(np.array(group)).to(device)
            loss = self.cross_entropy(model, batch)
            total, count = total + float(loss.nll), count + int(loss.count)
        return total, count

    @property
    def tokenizers(self) -> dict[str, Tokenizer]:
        return {"source": self.src_tokenizer, "target": self.tgt_tokenizer}

    # ---- languages --------------------------------------------------------------------------------------------------

    @property
    def directions(self) -> tuple[tuple[str, str], ...]:
        """(source language, target language) of all that the model translates; () if the languages are not known."""
        return self.recipe.data.directions

    @property
    def placeholders(self) -> tuple[str, ...]:
        """Symbols that the model copies from a source to its translation; () if it has none."""
        return self.src_tokenizer.placeholders

    def tags(self, example: Example) -> list[int]:
        """The tokens before a source: the tag of its target language, if the model has several."""
        return language_tags(self.src_tokenizer, example.get("to") or self.target_language)

    def configure(self, **options: object) -> Self:
        tokenizer = options.pop("tokenize", None)
        task = self
        if tokenizer is not None:
            bleu_metric(str(tokenizer))  # an unknown tokenizer is an error now, not after decoding
            task = replace(task, bleu_tokenizer=str(tokenizer))
        if options.keys() & {"from", "to"} and self.languages is not None:
            source, target = (str(options.pop(name, None) or "") or None for name in ("from", "to"))
            source, target = self.languages.choose(source, target) if target else (source, None)
            task = replace(
                task,
                source_language=source or task.source_language,
                target_language=target or task.target_language,
            )
        super().configure(**{name: options[name] for name in options.keys() - DecodingSettings.model_fields.keys()})
        if options:
            settings = build(type(self.decoding), change_search(self.decoding, options), option_names(options))
            task = replace(task, decoding=settings)
        return task

    def join(self, others: Sequence[AnyTask]) -> Self:
        """The task of an ensemble: the tokenizers must be the same; the shortest limits of length hold."""
        tasks = [self, *others]
        for other in others:
            if not isinstance(other, Seq2SeqTask) or other.tokenizer_json() != self.tokenizer_json():
                raise UserError(
                    "the runs have different tokenizers and cannot be an ensemble",
                    "train the runs of an ensemble with the same data, [text] settings, and another runtime.seed",
                    code="different-tokenizers",
                )
        limits = [task.max_target for task in tasks if task.max_target is not None]  # type: ignore[attr-defined]
        sources = [task.max_source for task in tasks]  # type: ignore[attr-defined]
        return replace(self, max_source=min(sources), max_target=min(limits, default=None))

    def tokenizer_json(self) -> list[str]:
        return [self.src_tokenizer.to_json(), self.tgt_tokenizer.to_json()]

    def engine(self, models: Sequence[nn.Module], device: torch.device, name: str = "torch") -> Engine:
        return (readable_engine if name == "readable" else fastest_engine)(models, SYMBOLS, device)

    def parse(self, value: str | Mapping[str, object], where: str = "the input") -> Example:
        if isinstance(value, str):
            return {"src": value}
        source = value.get("src", value.get("text"))
        if not isinstance(source, str):
            raise UserError(f"{where} has no 'src'", f"write {self.fields.json_form}", code="missing-key", where=where)
        check_text(value, where)
        return {**{key: item for key, item in value.items() if key not in ("text", "tgt")}, "src": source}

    def predict(self, engine: nn.Module | Engine, examples: Iterable[Example]) -> Iterator[Prediction]:
        """Translate {"src", "prefix"?}; a blank source gives a blank translation, a long one is split into parts."""
        decoder, number = as_engine(engine, SYMBOLS), 0
        for lines in chunk(examples, lambda example: len(example["src"]), CHUNK_LINES):
            yield from self._predict_chunk(decoder, lines, number)
            number += len(lines)

    def _predict_chunk(self, engine: Engine, examples: Sequence[Example], first: int) -> Iterator[Prediction]:
        """Split long lines, decode all parts, join them again."""
        request, counts = self.decoding_request(examples, first)
        remaining = iter(engine.decode(request))
        for count in counts:
            yield self.join_parts([next(remaining) for _ in range(count)])

    def decoding_request(self, examples: Sequence[Example], first: int = 0) -> tuple[DecodingRequest, list[int]]:
        """What an engine has to decode, and the number of parts of each example; `first` is the first one's number."""
        lines = [example["src"] for example in examples]
        tags = [self.tags(example) for example in examples]
        limit = self.max_source - 1 - max(map(len, tags), default=0)
        splits = [split_text(line, self.src_tokenizer, limit) if line.strip() else [] for line in lines]
        parts = [(index, number, ids) for index, split in enumerate(splits) for number, (_, ids) in enumerate(split)]
        prefixes = [self._prefix(example.get("prefix", "")) for example in examples]
        forced = [prefixes[index] if number == 0 else [] for index, number, _ in parts]
        sources = [[*tags[index], *ids, EOS] for index, _, ids in parts]
        lengths = torch.tensor([len(source) for source in sources], dtype=torch.long)
        limits = self.decoding.max_new_tokens(lengths).tolist()
        if self.max_target is not None:  # the prefix uses some of the positions
            limits = [min(limit, self.max_target - len(ids)) for limit, ids in zip(limits, forced, strict=True)]
        sentence_ids = [first + index for index, _, _ in parts]
        return DecodingRequest(sources, limits, self.decoding, forced, sentence_ids), [len(split) for split in splits]

    def _prefix(self, text: str) -> list[int]:
        """The tokens that a translation must begin with."""
        ids = self.tgt_tokenizer.encode(text) if text else []
        if self.max_target is not None and len(ids) >= self.max_target:
            raise UserError(
                f"a prefix of {len(ids)} tokens is too long for a model of {self.max_target} positions",
                "give a shorter prefix",
                code="too-long",
                where="prefix",
            )
        return ids

    def join_parts(self, parts: list[list[Hypothesis]]) -> Prediction:
        """The prediction for a line from the hypotheses of its parts."""
        used = parts[0] if len(parts) == 1 else [part[0] for part in parts]
        hypotheses = [
            {
                "text": one_line(self.tgt_tokenizer.decode(item.tokens)),
                "score": item.score,
                "finished": item.finished,
                "looped": item.looped,
                "tokens": list(item.tokens),
            }
            for item in used
        ]
        best = hypotheses[: max(1, len(parts))]
        return {
            "translation": " ".join(str(item["text"]) for item in best),
            "score": sum(item.score for item in used[: len(best)]) / len(best) if best else None,
            "finished": all(item["finished"] for item in best),
            "looped": any(item["looped"] for item in best),
            "parts": len(parts),
            "hypotheses": hypotheses,
        }

    def to_line(self, example: Example) -> str:
        return str(example["src"])

    def forced(self, example: Example, target: str) -> Prediction:
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
        return attention_maps(rows, columns, encoder, decoder, cross, start=self.start_symbol)

    def target_tokens(self, example: Example, prediction: Prediction) -> list[int]:
        """The tokens of a prediction; a UserError if the source or the target is longer than the model reads."""
        self._check_drawable(example["src"], self.src_tokenizer)
        if "hypotheses" in prediction:
            return list(prediction["hypotheses"][0]["tokens"]) if prediction["hypotheses"] else []
        self._check_drawable(prediction["translation"], self.tgt_tokenizer)
        return self.tgt_tokenizer.encode(prediction["translation"])

    def _check_drawable(self, text: str, tokenizer: Tokenizer) -> None:
        tokens = len(tokenizer.encode(text)) + 1
        if tokens > self.max_source:
            raise UserError(
                f"the text has {tokens} tokens, and the run was trained with data.max_length={self.max_source}",
                "inspect one sentence, or a part of it",
                code="too-long",
                where="text",
            )

    def attention_weights(
        self, model: Any, source: str, target: Sequence[int], tags: Sequence[int] = ()
    ) -> tuple[list[str], list[str], Attentions]:
        """Source tokens, target tokens (a row is the position that wrote the token) and all attention weights."""
        src, tgt = self.model_inputs(model, source, target, tags)
        weights = model.attentions(src, tgt)
        return self.src_tokenizer.tokens(src.ids[0].tolist()), self.tgt_tokenizer.tokens([*target, EOS]), weights

    def model_inputs(
        self, model: nn.Module, source: str, target: Sequence[int], tags: Sequence[int] = ()
    ) -> tuple[Tokens, Tokens]:
        """A source and what the decoder reads to write a target, as a batch of one."""
        ids = [*tags, *self.src_tokenizer.encode(source)][: self.max_source - 1]
        rows = (torch.tensor([row], device=device_of(model)) for row in ([*ids, EOS], self.decoder_input(target)))
        src, tgt = (Padded.of(row, torch.tensor([row.size(1)], device=row.device)) for row in rows)
        return src, tgt

    def decoder_input(self, target: Sequence[int]) -> list[int]:
        """The tokens that the decoder reads to write a target."""
        return [BOS, *target]

    def call_model(self, model: nn.Module, example: Example, prediction: Prediction) -> None:
        model(*self.model_inputs(model, example["src"], self.target_tokens(example, prediction), self.tags(example)))
