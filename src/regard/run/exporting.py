"""A run's model in the format of another program, compared with the run's own model.

    huggingface    BERT with the head of its task, Transformers as Marian or Pegasus (tasks/exporting.py)
    ctranslate2    Transformers for CTranslate2, which can store the weights in 8 bits

`export_run` reads back what it wrote, runs both models on the same inputs and returns the largest difference.

The engine ctranslate2 needs such an export too: `ctranslate2_engine` writes it into the run at first use, for example
to exports/ctranslate2-int8-best, and again if the checkpoint changed or a file is damaged. If the run is read-only, the
export is in a temporary folder that is deleted with its engine.

B sentences, T target, V vocabulary.
"""

import weakref
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import cast

import torch
from torch import Tensor, nn

from regard.attention.layouts import Padded, Tokens
from regard.engines.ctranslate2 import CTranslate2Engine
from regard.errors import UserError
from regard.exchange.ctranslate2 import check_quantization, import_ctranslate2, write_ctranslate2
from regard.files import JsonObject, Manifest, require_writable
from regard.layers.embeddings import OutputProjection
from regard.models.transformer import Transformer
from regard.run.model import random_weights
from regard.run.run import Run
from regard.tasks.exporting import ExportedModel, count, translation_inputs
from regard.tasks.seq2seq import SYMBOLS
from regard.tasks.translation import TranslationTask
from regard.text.symbols import EOS
from regard.training.checkpoint import weights_sum
from regard.training.weights import all_finite, weights_of

PROGRAMS = ("huggingface", "ctranslate2")
QUANTIZATION = "int8"
EXPORTS, MANIFEST, FORMAT = "exports", "manifest.json", 2


@dataclass(frozen=True)
class Exported:
    """A folder that was written, and the largest difference between its model and that of the run."""

    folder: Path
    weights: int
    difference: float
    output: str
    """The outputs that were compared: logits or log-probabilities."""


@torch.no_grad()
def export_run(
    run: Run, folder: Path, to: str = "huggingface", checkpoint: str = "best", quantization: str = QUANTIZATION
) -> Exported:
    """Write the model of a checkpoint to the new `folder`, read it back and compare; quantization is of ctranslate2."""
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise UserError(
            f"{folder} already exists",
            "choose another folder with --folder FOLDER",
            code="folder-exists",
            where=folder,
        )
    require_writable(folder)
    if to == "ctranslate2":
        check_ctranslate2(run)
        return export_ctranslate2(run, finite_model(run, checkpoint), folder, checkpoint, quantization)
    model = finite_model(run, checkpoint)
    exported = run.task.export_huggingface(model, folder, random_weights(run, checkpoint))
    if exported is None:
        raise UserError(
            f"transformers has no model like that of {run.folder}: task {run.recipe.task}, {run.recipe.model.summary}",
            'export a run with model.kind = "bert", or a translation run with model.kind = "transformer"',
            code="unsupported-model",
            where=run.folder,
        )
    return Exported(folder, exported.weights, largest_difference(model, exported), "logits")


def finite_model(run: Run, checkpoint: str) -> nn.Module:
    """The model of a checkpoint; a UserError if a weight is infinite or NaN."""
    model: nn.Module = run.model(checkpoint)
    if not all_finite(model):
        raise UserError(
            f"some weights of {run.folder} are infinite or NaN",
            "use an earlier checkpoint",
            code="not-finite",
            where=run.folder,
        )
    return model


def largest_difference(model: nn.Module, exported: ExportedModel) -> float:
    """The largest absolute difference between the logits of two models; a model may have several outputs."""
    pairs = zip(*(logits_of(item(*exported.inputs)) for item in (model, exported.model)), strict=True)
    return max(float((a - b).abs().max()) for a, b in pairs)


def logits_of(outputs: OutputProjection | Tensor | tuple[OutputProjection | Tensor, ...]) -> list[Tensor]:
    """The logits of one or several outputs of a model."""
    several = outputs if isinstance(outputs, tuple) else (outputs,)
    return [output.logits() if isinstance(output, OutputProjection) else output for output in several]


def check_ctranslate2(run: Run) -> None:
    """Raise UserError if CTranslate2 cannot run the model."""
    if not run.task.supports_ctranslate2:
        raise UserError(
            f"CTranslate2 cannot run the model of {run.folder}: task {run.recipe.task}, {run.recipe.model.summary}",
            "use the engine torch, which runs every model; CTranslate2 runs standard Transformers only",
            code="unsupported-model",
            where=run.folder,
        )


def export_ctranslate2(run: Run, model: nn.Module, folder: Path, checkpoint: str, quantization: str) -> Exported:
    """Write a Transformer and its tokenizers for CTranslate2 and compare the log-probabilities of both."""
    write_sealed(run, model, folder, checkpoint, quantization)
    task = cast(TranslationTask, run.task)  # type: ignore[type-arg]
    pool = CTranslate2Engine(folder, SYMBOLS, quantization, workers=1).pool
    sources, targets = translation_inputs(len(task.src_tokenizer), len(task.tgt_tokenizer))
    scores = model(sources, targets).logits().log_softmax(-1)  # (B, T, V)
    src_rows, tgt_rows = rows_of(sources), rows_of(targets)
    results = pool.score_batch(
        [[str(token) for token in ids] for ids in src_rows], [[str(token) for token in ids[1:]] for ids in tgt_rows]
    )
    difference = 0.0
    for row, ids, result in zip(scores, tgt_rows, results, strict=True):
        expected = row[range(len(ids)), [*ids[1:], EOS]]
        difference = max(difference, float((expected - torch.tensor(result.log_probs)).abs().max()))
    return Exported(folder, count(weights_of(model)), difference, "log-probabilities")


def ctranslate2_engine(run: Run, checkpoint: str, quantization: str, device: torch.device) -> CTranslate2Engine:
    """The CTranslate2 engine of a checkpoint, which is converted if needed."""
    check_quantization(quantization)
    check_ctranslate2(run)
    folder = run.folder / EXPORTS / f"ctranslate2-{quantization}-{checkpoint}"
    manifest = Manifest.read_or_none(folder / MANIFEST)
    inputs = manifest_inputs(run, checkpoint)
    if manifest is not None and manifest.is_current(inputs, FORMAT) and not manifest.damaged(folder):
        return CTranslate2Engine(folder, SYMBOLS, quantization, device)
    temporary = None
    try:
        require_writable(folder)
    except UserError:
        temporary = TemporaryDirectory(prefix="regard-")
        folder = Path(temporary.name) / folder.name
    write_sealed(run, run.model(checkpoint), folder, checkpoint, quantization)
    engine = CTranslate2Engine(folder, SYMBOLS, quantization, device)
    if temporary is not None:
        weakref.finalize(engine, temporary.cleanup)
    return engine


def write_sealed(run: Run, model: nn.Module, folder: Path, checkpoint: str, quantization: str) -> None:
    """Write a model for CTranslate2, the tokenizers of the run, and a manifest of all files."""
    write_ctranslate2(cast(Transformer, model), SYMBOLS, folder, quantization)
    for name in run.task.artifacts(run.recipe):
        (folder / name).write_bytes((run.folder / name).read_bytes())
    names = sorted(path.name for path in folder.iterdir() if path.name != MANIFEST)
    inputs = manifest_inputs(run, checkpoint)
    Manifest.describe(folder, names, format=FORMAT, inputs=inputs).write(folder / MANIFEST)


def manifest_inputs(run: Run, checkpoint: str) -> JsonObject:
    """JSON that identifies a converted model; the checksum of the weights is checked."""
    path = run.checkpoints.resolve(checkpoint)
    return {"weights": weights_sum(path), "ctranslate2": import_ctranslate2().__version__}


def rows_of(tokens: Tokens) -> list[list[int]]:
    """The token ids of each sentence, without padding."""
    assert isinstance(tokens.layout, Padded)
    return [row[:length] for row, length in zip(tokens.ids.tolist(), tokens.layout.lengths.tolist(), strict=True)]
