"""Exported models, opened by the programs they were written for, ready to be compared with the model of the run.

    onnx            onnxruntime
    torch-export    torch
    ctranslate2     CTranslate2
    huggingface     transformers

Each has an engine, the argument of `Task.predict`, and measures the difference of its outputs to those of our model.

B sentences, S source, T target, V vocabulary.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Protocol

import torch
from torch import Tensor, nn

from regard.attention.layouts import Padded, Tokens
from regard.decoding.engine import DecodingRequest
from regard.decoding.hypothesis import Hypothesis
from regard.decoding.stepper import Symbols
from regard.engines.ctranslate2 import CTranslate2Engine
from regard.engines.graphs import GraphModel, GraphStepper, open_graphs, torch_runner
from regard.engines.onnx import open_onnx
from regard.engines.stepper_engine import StepperEngine, pad_rows
from regard.errors import UserError
from regard.tasks.base import AnyTask
from regard.tasks.language import SYMBOLS as LANGUAGE_SYMBOLS
from regard.tasks.language import Language
from regard.tasks.seq2seq import SYMBOLS
from regard.text.symbols import BOS, EOS, PAD

Pair = tuple[Sequence[int], Sequence[int]]
"""The tokens of a source and of an output, both without padding; the source has its end symbol."""
FORCED = 64
"""Number of outputs whose logits are compared."""


class OpenedExport(Protocol):
    """An exported model."""

    packages: tuple[str, ...]
    """The packages that run it, the most important one first."""
    output: str
    engine: Any
    """The argument of `Task.predict`."""

    def difference(self, model: nn.Module, pairs: Sequence[Pair]) -> float:
        """The largest difference of the outputs for each token that our model wrote."""
        ...


def open_export(folder: Path, to: str, quantization: str, task: AnyTask) -> OpenedExport:
    """Open an export with the program that it was written for."""
    match to:
        case "onnx":
            return GraphExport(open_onnx(folder), ("onnxruntime", "torch"), task)
        case "torch-export":
            return GraphExport(open_graphs(folder, to, torch_runner), ("torch",), task)
        case "ctranslate2":
            return CTranslate2Export(folder, quantization)
    return HuggingFaceExport(folder)


def program_of(export: OpenedExport) -> str:
    """The program that runs an export, with its version."""
    return f"{export.packages[0]} {version(export.packages[0])}"


def symbols_of(task: AnyTask) -> Symbols:
    """The special tokens of the task's search."""
    return LANGUAGE_SYMBOLS if isinstance(task, Language) else SYMBOLS


class GraphExport:
    """Graphs of onnxruntime or torch."""

    output = "logits"

    def __init__(self, opened: GraphStepper | GraphModel, packages: tuple[str, ...], task: AnyTask) -> None:
        self.packages, self.symbols, cpu = packages, symbols_of(task), torch.device("cpu")
        self.stepper = opened
        self.engine: Any = opened if isinstance(opened, GraphModel) else StepperEngine(opened, self.symbols, cpu)

    def difference(self, model: nn.Module, pairs: Sequence[Pair]) -> float:
        largest = 0.0
        for start in range(0, len(pairs), 16):
            part = pairs[start : start + 16]
            ours, theirs = (forced_logits(stepper, part, self.symbols.bos) for stepper in (model, self.stepper))
            inside = torch.arange(ours.size(1)) <= torch.tensor([len(target) for _, target in part])[:, None]
            largest = max(largest, float((ours - theirs)[inside].abs().max()))
        return largest


@torch.no_grad()
def forced_logits(stepper: Any, pairs: Sequence[Pair], bos: int) -> Tensor:
    """The logits (B, T, V) of every token of the outputs and of their end, step by step."""
    targets, _ = pad_rows([[bos, *target] for _, target in pairs], PAD, torch.device("cpu"))
    state = stepper.start(Padded.of(*pad_rows([source for source, _ in pairs], PAD, torch.device("cpu"))))
    rows = []
    for column in targets.split(1, dim=1):
        logits, state = stepper.step(column, state)
        rows.append(logits.float())
    return torch.cat(rows, dim=1)


class CTranslate2Export:
    """A model of CTranslate2; it gives the log-probabilities of the tokens of an output, not all logits."""

    packages: tuple[str, ...] = ("ctranslate2",)
    output = "log-probabilities"

    def __init__(self, folder: Path, quantization: str) -> None:
        self.engine = CTranslate2Engine(folder, SYMBOLS, quantization)

    def difference(self, model: nn.Module, pairs: Sequence[Pair]) -> float:
        sources, targets = ([[str(token) for token in row] for row in rows] for rows in zip(*pairs, strict=True))
        scored = self.engine.pool.score_batch(sources, targets, max_input_length=0)
        largest = 0.0
        for start in range(0, len(pairs), 16):
            part = pairs[start : start + 16]
            log_probs = forced_logits(model, part, BOS).log_softmax(dim=-1)
            for row, (_, target), result in zip(log_probs, part, scored[start : start + 16], strict=True):
                expected = row[range(len(target) + 1), [*target, EOS]]
                largest = max(largest, float((expected - torch.tensor(result.log_probs)).abs().max()))
        return largest


class ReadBack:
    """A folder of transformers as our own reader understands it."""

    packages: tuple[str, ...] = ("torch",)
    output = "logits"

    def __init__(self, model: Any) -> None:
        self.model = model
        self.engine: Any = StepperEngine(model, SYMBOLS, torch.device("cpu")) if hasattr(model, "step") else model

    def difference(self, model: nn.Module, pairs: Sequence[Pair]) -> float:
        ours, theirs = (forced_logits(stepper, pairs, BOS) for stepper in (model, self.model))
        return float((ours - theirs).abs().max())


def has_transformers() -> bool:
    """True if the package transformers is installed."""
    return find_spec("transformers") is not None


def import_transformers() -> Any:
    """The package transformers, or an error that says how to install it."""
    try:
        import transformers
    except ImportError as error:
        raise UserError(
            "the export is checked with transformers, which is not installed",
            "pip install 'regard[huggingface]'",
            code="missing-package",
            where="transformers",
        ) from error
    return transformers


@contextmanager
def silenced(transformers: Any) -> Iterator[None]:
    """Without the progress bars and warnings of transformers."""
    log = transformers.utils.logging
    verbosity, bars = log.get_verbosity(), log.is_progress_bar_enabled()
    log.set_verbosity_error()
    log.disable_progress_bar()
    try:
        yield
    finally:
        log.set_verbosity(verbosity)
        if bars:
            log.enable_progress_bar()


class HuggingFaceExport:
    """A model of transformers, of the class that config.json names."""

    packages: tuple[str, ...] = ("transformers", "torch")
    output = "logits"

    def __init__(self, folder: Path) -> None:
        transformers = import_transformers()
        with silenced(transformers):
            architecture = transformers.AutoConfig.from_pretrained(folder).architectures[0]
            self.model = getattr(transformers, architecture).from_pretrained(folder).eval()
        writes = hasattr(self.model, "lm_head")
        self.engine: Any = HuggingFaceEngine(self.model) if writes else HuggingFaceModel(self.model)

    @torch.no_grad()
    def difference(self, model: nn.Module, pairs: Sequence[Pair]) -> float:
        largest = 0.0
        for start in range(0, len(pairs), 16):
            part = pairs[start : start + 16]
            ours = forced_logits(model, part, BOS)
            ids, lengths = pad_rows([source for source, _ in part], PAD, torch.device("cpu"))
            targets, sizes = pad_rows([[BOS, *target] for _, target in part], PAD, torch.device("cpu"))
            mask = Padded(lengths, ids.size(1)).not_padding.long()
            theirs = self.model(input_ids=ids, attention_mask=mask, decoder_input_ids=targets).logits
            largest = max(largest, float((ours - theirs)[Padded(sizes, targets.size(1)).not_padding].abs().max()))
        return largest


class HuggingFaceModel(nn.Module):
    """A BERT of transformers with the outputs of ours."""

    def __init__(self, model: Any) -> None:
        super().__init__()
        self.model = model

    @torch.no_grad()
    def forward(self, tokens: Tokens, segments: Tensor | None, *more: Tensor) -> object:
        inputs = {"input_ids": tokens.ids, "attention_mask": tokens.layout.not_padding.long()}
        inputs["token_type_ids"] = torch.zeros_like(tokens.ids) if segments is None else segments
        name = type(self.model).__name__
        if name.endswith("MultipleChoice"):
            return self.model(**{key: value[:, None] for key, value in inputs.items()}).logits
        outputs = self.model(**inputs)
        if name.endswith("QuestionAnswering"):
            return torch.stack([outputs.start_logits, outputs.end_logits], dim=-1)
        if name.endswith("PreTraining"):
            from regard.engines.graphs import Rows

            rows = outputs.prediction_logits.flatten(0, 1).index_select(0, more[0])
            return Rows(rows), outputs.seq_relationship_logits
        return outputs.logits


class HuggingFaceEngine:
    """The searches of transformers (`generate`)."""

    def __init__(self, model: Any) -> None:
        self.model = model

    def decode(self, request: DecodingRequest) -> list[list[Hypothesis]]:
        """The best hypothesis of each sentence, without its score."""
        settings = request.settings
        beam = settings.beam if settings.search == "beam" else 1
        ids, lengths = pad_rows(request.sources, PAD, torch.device("cpu"))
        mask = Padded(lengths, ids.size(1)).not_padding.long()
        options = {"num_beams": beam, "do_sample": False, "early_stopping": False}
        generate = partial(self.model.generate, **options, length_penalty=settings.alpha if beam > 1 else 1.0)
        with torch.no_grad(), silenced(import_transformers()):
            outputs = generate(input_ids=ids, attention_mask=mask, max_new_tokens=max(request.max_new_tokens))
        return [
            [to_hypothesis(row, limit)] for row, limit in zip(outputs.tolist(), request.max_new_tokens, strict=True)
        ]


def to_hypothesis(row: list[int], limit: int) -> Hypothesis:
    """A row of `generate`: the start symbol, tokens, the end symbol, padding."""
    tokens = row[1 : limit + 1]
    finished = EOS in tokens
    return Hypothesis(tokens[: tokens.index(EOS)] if finished else tokens, 0.0, 0.0, finished)
