"""Recognition: a recording in, its words out. The model reads feature vectors in place of tokens.

    WAV -> frames (T, F) -> batch -> attention: decoder state -> search -> hypotheses -> text
                                  -> ctc: a token or blank per position -> best path or prefix beam -> text

B recordings, T frames, S positions after subsampling, F features, V vocabulary.
"""

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import ClassVar, Self

import numpy as np
import torch
from torch import Tensor, nn

from regard.attention.layouts import Attentions, Padded, Tokens
from regard.config import SettingError, Unused, build
from regard.data.arrays import Array
from regard.data.audio import Frames, RecordingEncoder, audio_path, is_generated, read_frames
from regard.data.batch import Batch, pad_sequences
from regard.data.digests import Digests
from regard.data.fields import RECORDINGS, Fields
from regard.data.hold_out import read_split, report_held_out
from regard.data.pairs import Pairs
from regard.data.planning import groups_by_length
from regard.data.settings import AudioDataSettings
from regard.data.sources import Source
from regard.data.store import Store
from regard.decoding.ctc import ctc_search
from regard.decoding.hypothesis import Hypothesis
from regard.decoding.search import decode
from regard.decoding.settings import DecodingSettings, change_search
from regard.errors import UserError
from regard.files import JsonObject, checksum
from regard.losses.crossentropy import Loss
from regard.losses.ctc import ctc_loss, state_posteriors
from regard.losses.projected import projected_cross_entropy
from regard.messages import Message, join_messages
from regard.metrics.recognition import error_rates, error_scorer
from regard.metrics.score import Score
from regard.metrics.significance import Scorer
from regard.models.recognition import (
    RECOGNITION_MODELS,
    CTCModel,
    FrameTransformer,
    FrameTransformerSettings,
    JointProjection,
    RecognitionModelSettings,
)
from regard.recipe import Recipe
from regard.tasks.base import Example, Prediction, Report, Search, Task, ValidationData, device_of, summed_loss
from regard.tasks.checks import DoctorHooks, unigram_baseline
from regard.tasks.inputs import chunk_examples, copy_tokenizer, one_line, option_names, require_finite
from regard.tasks.seq2seq import JOINT, SYMBOLS
from regard.tasks.writing import LEFT_TO_RIGHT
from regard.text.factory import learning_message, load_tokenizer, train_tokenizer
from regard.text.settings import TextSettings
from regard.text.symbols import BOS, EOS, PAD
from regard.text.tokenizer import Tokenizer
from regard.training.task import Baseline, Validation
from regard.viz.content import Description
from regard.viz.report import AttentionMap, attention_maps
from regard.work import recall_groups

BLANK = PAD
"""The token of a CTC model that writes nothing: padding, which no text contains."""
BLANK_NAME = "∅"
CHUNK_RECORDINGS = 64
CTC_SEARCHES = ("greedy", "beam")
CTC_SETTINGS = ("search", "beam", "nbest", "batch_tokens")
"""The settings of decoding that CTC uses."""


class RecognitionRecipe(Recipe):
    """The recipe of a recognition model."""

    defaults: ClassVar[dict[str, object]] = {"task": "recognition", "text.kind": "char", "training.monitor": "wer"}
    fields: ClassVar[Fields] = RECORDINGS
    monitors: ClassVar[tuple[str, ...]] = ("loss", "cer", "wer")

    data: AudioDataSettings
    text: TextSettings = TextSettings(kind="char")
    model: RecognitionModelSettings = FrameTransformerSettings()
    decoding: DecodingSettings = DecodingSettings()

    @property
    def is_ctc(self) -> bool:
        return self.model.kind == "ctc"

    def no_effect(self) -> Iterator[Unused]:
        yield from ((key, "translation") for key in ("text.joint", "text.dropout"))
        for name in DecodingSettings.model_fields if self.is_ctc else ():
            if name not in CTC_SETTINGS:
                yield f"decoding.{name}", 'model.kind = "attention"'
        yield "training.r_drop", "translation"
        if self.is_ctc:
            yield "training.label_smoothing", 'model.kind = "attention"'


def check_search(recipe: RecognitionRecipe, decoding: DecodingSettings) -> None:
    """Raise SettingError if the model has no such search."""
    if decoding.search not in (CTC_SEARCHES if recipe.is_ctc else (*CTC_SEARCHES, "sample")):
        kind = f'"{decoding.search}" does not work with model.kind = "{recipe.model.kind}"'
        raise SettingError("decoding.search", f"{kind}; write {' or '.join(CTC_SEARCHES)}")


class RecognitionChecks(DoctorHooks["Recognition", Pairs]):
    """Hooks for recordings."""

    def texts(self, fields: Fields, example: Example) -> dict[str, list[str]]:
        return {"source": [example["audio"]], "target": [example["text"]]}

    def describe_store(self, task: "Recognition", split: str, store: Pairs) -> str:
        minutes = float(store.src_lengths.sum()) * task.recipe.data.hop_ms / 60_000
        values = {"split": split, "count": len(store), "minutes": minutes}
        line = Message("{split}: {count:,} recordings, {minutes:.1f} minutes", **values)
        return join_messages("\n", [store.account.table(), line]) if split == "train" else line

    def filter_counts(self, store: Pairs) -> dict[str, int]:
        return store.account.dropped

    def causal_sequence(self, task: "Recognition") -> str:
        return "" if task.recipe.is_ctc else "target"

    def baseline(self, task: "Recognition", train: Pairs, valid: Pairs, examples: Sequence[Example]) -> Baseline | None:
        if task.recipe.is_ctc:  # its loss is not a sum over tokens
            return None
        known, tested = (store.targets(np.arange(len(store)))[0] for store in (train, valid))
        return unigram_baseline(known, tested)

    def overfit_bound(self, task: "Recognition", batch: Batch) -> float:
        """Half the loss of a decoder that ignores the recording: it has to guess which of B texts it writes."""
        count = max(2, len(batch.labels))
        return 0.5 * count * math.log(count) / int(batch["target_lengths"].sum())

    def decoder_logits(self, model: nn.Module, batch: Batch, packed: bool) -> Tensor:
        logits: Tensor = model(batch.source, batch.target).logits()
        return logits[torch.arange(logits.size(1), device=logits.device) < batch["target_lengths"][:, None]]


@dataclass(frozen=True)
class Recognition(Task[RecognitionRecipe, Pairs]):
    """{"audio"} -> {"text", "score", "finished", "looped", "hypotheses"}."""

    tokenizer: Tokenizer = field(repr=False)
    decoding: DecodingSettings = field(default=None)  # type: ignore[assignment]
    """How to search; the settings of the recipe if it is not given."""

    name = "recognition"
    title = "the words of a recording"
    recipe_type = RecognitionRecipe
    reads_files = True
    packs = False  # convolutions over frames need a rectangle
    checks = RecognitionChecks()
    options = tuple(DecodingSettings.model_fields)

    def __post_init__(self) -> None:
        object.__setattr__(self, "decoding", self.decoding or self.recipe.decoding)
        check_search(self.recipe, self.decoding)

    @property
    def search(self) -> Search:
        return Search(self.decoding, SYMBOLS, self.tokenizer, self.force, self.call_model)

    @property
    def tokenizers(self) -> dict[str, Tokenizer]:
        return {"target": self.tokenizer}

    # ---- preparation ------------------------------------------------------------------------------------------------

    @classmethod
    def artifacts(cls, recipe: RecognitionRecipe) -> tuple[str, ...]:
        return (JOINT,)

    @classmethod
    def load(cls, recipe: RecognitionRecipe, folder: Path) -> Self:
        return cls(recipe, load_tokenizer(folder / JOINT))

    @classmethod
    def prepare(cls, recipe: RecognitionRecipe, folder: Path, start: Path | None, report: Report) -> Self:
        report_held_out(recipe.data, recipe.fields, report)
        if start is not None:
            copy_tokenizer(start, folder, JOINT)
        elif not (folder / JOINT).exists():
            report(learning_message(recipe.text.kind, recipe.text.vocab_size))
            lines = (example["text"] for example in read_split(recipe.data, recipe.fields, "train"))
            train_tokenizer(lines, recipe.text).save(folder / JOINT)
        return cls.load(recipe, folder)

    # ---- data -------------------------------------------------------------------------------------------------------

    def content(self, split: str, sources: Sequence[Source] | None, digests: Digests) -> object:
        """The content of tables, and of every WAV file that they name."""
        files = [audio_path(example) for example in self.read(split, sources) if not is_generated(example)]
        return [super().content(split, sources, digests), [digests.of(path) for path in files]]

    def to_line(self, example: Example) -> str:
        return str(audio_path(example))

    def encoder(self, filtered: bool) -> RecordingEncoder:
        stride = self.recipe.model.subsampling if self.recipe.is_ctc else 0
        return RecordingEncoder(self.tokenizer, self.recipe.data, filtered, stride)

    def view(self, store: Store) -> Pairs:
        pairs, model = Pairs(store, features=self.recipe.data.bands), self.recipe.model
        longest = int(max(-(-pairs.src_lengths.max() // model.subsampling), pairs.tgt_lengths.max()))
        if model.length_limit is not None and longest > model.length_limit:
            problem = f"a sequence has {longest:,} positions, and model.max_positions is {model.length_limit}"
            remedy = 'increase `model.max_positions`, or set `model.positions = "sinusoidal"`'
            raise UserError(problem, remedy, code="too-long", where="model.max_positions")
        return pairs

    # ---- training ---------------------------------------------------------------------------------------------------

    def new_model(self) -> nn.Module:
        settings = self.recipe.model
        return RECOGNITION_MODELS[settings.kind](settings, self.recipe.data.bands, len(self.tokenizer))

    def loss(self, model: nn.Module, batch: Batch) -> Loss:
        settings = self.recipe.model
        if not isinstance(settings, FrameTransformerSettings):
            return alignment_loss(model(batch.source), batch)
        projection: JointProjection = model(batch.source, batch.target)
        loss = projected_cross_entropy(projection, batch.labels, self.recipe.training.label_smoothing)
        if projection.ctc is None:
            return loss
        weight, aligned = settings.ctc_weight, alignment_loss(projection.ctc, batch)
        return replace(loss, sum=(1 - weight) * loss.sum + weight * aligned.sum)

    @torch.no_grad()
    def validate(self, model: nn.Module, data: ValidationData[Pairs]) -> Validation:
        """The loss without label smoothing, and error rates of greedy search; recordings are read once."""
        store = data.store
        groups = groups_by_length(store.src_lengths.tolist(), self.recipe.training.batch_tokens)
        nll, count = summed_loss(self, model, (partial(store.pad, np.array(group)) for group in groups))
        frames = data.cached(lambda: [read_frames(example, self.recipe.data) for example in data.examples])
        quick = replace(self, decoding=LEFT_TO_RIGHT.quick_search(self.decoding))
        predictions = quick.transcribe(model, frames)
        scores = {name: score.value for name, score in self.score(data.examples, predictions).items()}
        shown = list(zip(data.examples, predictions, strict=True))[: self.recipe.training.samples]
        return Validation({"loss": nll / max(1, count), **scores}, [self.describe(*row).lines() for row in shown])

    # ---- use --------------------------------------------------------------------------------------------------------

    def configure(self, **options: object) -> Self:
        super().configure(**{name: options[name] for name in options.keys() - DecodingSettings.model_fields.keys()})
        if not options:
            return self
        names = option_names(options)
        if unused := [name for name in options if self.recipe.is_ctc and name not in CTC_SETTINGS]:
            problem = f"{option_names(unused)} has no effect on a CTC model"
            raise UserError(problem, "leave this option out", code="unsupported-option", where=unused[0])
        settings = build(DecodingSettings, change_search(self.decoding, options), names)
        try:
            return replace(self, decoding=settings)
        except SettingError as error:
            raise UserError(f"{names}: {error}", code="unsupported-option", where="search") from error

    def predict(self, engine: nn.Module, examples: Iterable[Example]) -> Iterator[Prediction]:
        for chunk in chunk_examples(examples, CHUNK_RECORDINGS):
            yield from self.transcribe(engine, [read_frames(example, self.recipe.data) for example in chunk])

    def transcribe(self, model: nn.Module, recordings: Sequence[Frames]) -> list[Prediction]:
        """The prediction for the frames (T, F) of each recording; those of similar length share a batch."""
        results: list[Prediction] = [{} for _ in recordings]
        groups = list(groups_by_length([len(item) for item in recordings], self.decoding.batch_tokens))

        def key(group: list[int]) -> object:
            return [checksum([recordings[index].tolist() for index in group]), self.decoding.model_dump()]

        def compute(group: list[int]) -> list[list[JsonObject]]:
            return self._decode(model, [recordings[index] for index in group])

        for group, found in recall_groups(groups, key, compute):
            for index, hypotheses in zip(group, found, strict=True):
                results[index] = self.join([Hypothesis(**item) for item in hypotheses])
        return results

    @torch.no_grad()
    def _decode(self, model: nn.Module, recordings: Sequence[Frames]) -> list[list[JsonObject]]:
        """Up to nbest hypotheses of each recording, as JSON."""
        source, decoding = frame_batch(recordings, model), self.decoding
        if isinstance(model, CTCModel):
            log_p, layout = model(source)
            width = decoding.beam if decoding.search == "beam" else 1
            searched = require_finite(log_p).float().log_softmax(dim=-1), layout.lengths
            found = ctc_search(*searched, BLANK, width, decoding.nbest)
        else:
            assert isinstance(model, FrameTransformer) and isinstance(source.layout, Padded)
            limits = decoding.max_new_tokens(source.layout.lengths // self.recipe.model.subsampling)
            found = decode(model, source, limits, SYMBOLS, decoding)
        return [[vars(item) for item in hypotheses] for hypotheses in found]

    def join(self, found: Sequence[Hypothesis]) -> Prediction:
        """The prediction from the hypotheses of a search."""
        hypotheses = [
            {"text": one_line(self.tokenizer.decode(item.tokens)).strip(), "score": item.score, "tokens": item.tokens}
            for item in found
        ]
        best = hypotheses[0]
        facts = {"finished": found[0].finished, "looped": found[0].looped}
        return {"text": best["text"], "score": best["score"], **facts, "hypotheses": hypotheses}

    def output(self, prediction: Prediction) -> Prediction:
        values = {key: value for key, value in prediction.items() if key != "hypotheses"}
        if self.decoding.nbest > 1:
            found = prediction.get("hypotheses", [])
            values["hypotheses"] = [{"text": item["text"], "score": item["score"]} for item in found]
        return values

    def force(self, example: Example, target: str) -> Prediction:
        """The prediction of a given text, to inspect its attention or alignment."""
        return {"text": target, "score": None}

    def call_model(self, model: nn.Module, example: Example, prediction: Prediction) -> None:
        source, tokens = self.model_inputs(model, example, prediction)
        model(source) if self.recipe.is_ctc else model(source, self.decoder_input(tokens, source))

    def model_inputs(self, model: nn.Module, example: Example, prediction: Prediction) -> tuple[Tokens, list[int]]:
        """The frames of an example as a batch of one, and the tokens of its prediction."""
        source, found = frame_batch([read_frames(example, self.recipe.data)], model), prediction.get("hypotheses")
        return source, list(found[0]["tokens"]) if found else self.tokenizer.encode(prediction["text"])

    def decoder_input(self, tokens: Sequence[int], source: Tokens) -> Tokens:
        ids = torch.tensor([[BOS, *tokens]], device=source.ids.device)
        return Padded.of(ids, torch.tensor([ids.size(1)], device=ids.device))

    def score(self, examples: Sequence[Example], predictions: Sequence[Prediction]) -> dict[str, Score]:
        return dict(error_rates(*texts(predictions, examples)))

    def scorer(self, examples: Sequence[Example], predictions: Sequence[Prediction]) -> Scorer:
        return error_scorer(*texts(predictions, examples))

    def describe(self, example: Example, prediction: Prediction) -> Description:
        reference = example.get("text", "")
        correct = " ".join(reference.split()) == " ".join(prediction["text"].split()) if reference else None
        return Description(str(example["audio"]), [prediction["text"]], reference, correct)

    def attention(self, model: nn.Module, example: Example, prediction: Prediction) -> list[AttentionMap]:
        """Attention between times of the recording, and of each token to them; for CTC, the alignment: how probable
        each token of the text is at each time, given the text."""
        source, tokens = self.model_inputs(model, example, prediction)
        step = self.recipe.model.subsampling * self.recipe.data.hop_ms / 1000
        size = -(-source.ids.size(1) // self.recipe.model.subsampling)
        times = [f"{position * step:.2f}" for position in range(size)]
        if isinstance(model, CTCModel):
            target = torch.tensor(tokens, dtype=torch.long, device=source.ids.device)
            log_p = model(source).ids[0].float().log_softmax(dim=-1)
            aligned = state_posteriors(log_p, target, BLANK).float().cpu().numpy()[None, None]
            names = [name for token in self.tokenizer.tokens(tokens) for name in (token, BLANK_NAME)]
            maps = attention_maps(times, [], *as_arrays(model.attentions(source)))
            return [*maps, AttentionMap("alignment", times, [BLANK_NAME, *names], aligned)]
        assert isinstance(model, FrameTransformer)
        weights = model.attentions(source, self.decoder_input(tokens, source))
        rows = self.tokenizer.tokens([*tokens, EOS])
        return attention_maps(times, rows, *as_arrays(weights), start=LEFT_TO_RIGHT.start_symbol)


def alignment_loss(logits: Tokens, batch: Batch) -> Loss:
    """CTC of logits (B, S, V) and the labels of a batch."""
    assert isinstance(logits.layout, Padded)
    return ctc_loss(logits.ids, logits.layout.lengths, batch.labels, BLANK)


def as_arrays(weights: Attentions) -> tuple[Array | None, Array | None, Array | None]:
    """The weights of the only sequence of a batch: encoder, decoder, cross."""
    found = (weights.encoder, weights.decoder, weights.cross)
    encoder, decoder, cross = (None if item is None else item[0].float().cpu().numpy() for item in found)
    return encoder, decoder, cross


def frame_batch(recordings: Sequence[Frames], model: nn.Module) -> Tokens:
    """Recordings (T, F) as one padded batch (B, T, F), on the device of a model."""
    lengths = np.array([len(item) for item in recordings])
    arrays = pad_sequences("source", (np.concatenate(list(recordings)), lengths))
    return Batch.of(arrays, tokens=int(lengths.sum())).to(device_of(model)).source


def texts(predictions: Sequence[Prediction], examples: Sequence[Example]) -> tuple[list[str], list[str]]:
    """The texts of predictions and of examples."""
    return [item["text"] for item in predictions], [item["text"] for item in examples]
