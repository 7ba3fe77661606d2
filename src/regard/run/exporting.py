"""A run's model in the format of another program, with a certificate of how it differs from the run's own model.

    huggingface    BERT with the head of its task, Transformers as Marian or Pegasus (tasks/exporting.py)
    ctranslate2    Transformers for CTranslate2, which can store the weights in 8 bits
    onnx           graphs for onnxruntime, in 32 or 8 bits (exchange/graphs.py)
    torch-export   the same graphs for torch.export

`export_run` writes a folder, opens it with the program it is for, runs both models on the same examples, and writes
certificate.json. If a value of the certificate is outside of its bounds, there is an error and no folder.

The engines ctranslate2 and onnx need such an export too: it is written into the run at first use, for example to
exports/ctranslate2-int8-best, and again if the checkpoint changed or a file is damaged. If the run is read-only, the
export is in a temporary folder that is deleted with its engine.
"""

import weakref
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, cast

import torch
from torch import Tensor, nn

from regard.decoding.engine import Engine
from regard.engines.ctranslate2 import CTranslate2Engine
from regard.engines.onnx import onnx_engine
from regard.errors import UserError
from regard.exchange import ctranslate2, graph_files
from regard.exchange.ctranslate2 import import_ctranslate2, write_ctranslate2
from regard.exchange.folders import require_new_folder, require_quantization
from regard.exchange.graph_files import import_onnx, write_graphs
from regard.exchange.graphs import graphs_of
from regard.files import JsonObject, Manifest, replacing, require_writable
from regard.layers.embeddings import OutputProjection
from regard.models.transformer import Transformer
from regard.run.certificate import Bounds, Certificate, default_bounds, read_certificate
from regard.run.certifying import certify
from regard.run.export_examples import LIMIT, comparison_examples
from regard.run.export_readme import README, readme
from regard.run.model import Model, random_weights
from regard.run.opened_exports import OpenedExport, ReadBack, has_transformers, open_export
from regard.run.run import Run
from regard.run_files import MANIFEST
from regard.tasks.base import Report
from regard.tasks.exporting import ExportedModel, count
from regard.tasks.seq2seq import SYMBOLS
from regard.training.checkpoint import weights_sum
from regard.training.weights import all_finite, weights_of

PROGRAMS = {"huggingface": "float32", "ctranslate2": "int8", "onnx": "float32", "torch-export": "float32"}
"""The programs, and the type of the weights for each if none is given."""
QUANTIZED = ("ctranslate2", "onnx")
"""The programs whose weights can have another type."""
QUANTIZATION = "int8"
EXPORTS, FORMAT = "exports", 2
COMPARING = "comparing it with the run on {:,} examples"


ChangeBounds = Callable[[Bounds], Bounds]
"""Changes the default bounds of an export, or those of its certificate."""


def unchanged(bounds: Bounds) -> Bounds:
    """The same bounds."""
    return bounds


def no_report(line: str = "") -> None:
    """Print nothing."""


@dataclass(frozen=True)
class Exported:
    """A folder that was written, and its certificate."""

    folder: Path
    weights: int
    certificate: Certificate

    @property
    def difference(self) -> float:
        """The largest difference between its outputs and those of the run."""
        return self.certificate.difference


def export_run(
    run: Run,
    folder: Path,
    to: str = "huggingface",
    checkpoint: str = "best",
    quantization: str | None = None,
    *,
    bounds: ChangeBounds = unchanged,
    sentences: Path | None = None,
    limit: int = LIMIT,
    report: Report = no_report,
) -> Exported:
    """Write the model of a checkpoint to the new `folder` and certify it; quantization is of ctranslate2 and onnx.

    The comparison uses the run's validation data, or the lines of the file `sentences`; `bounds` changes its bounds.
    """
    require_new_folder(folder)
    require_writable(folder)
    quantization = quantization or PROGRAMS[to]
    check_supported(run, to, quantization)
    ours = Model([run], checkpoint, device="cpu")
    require_finite_weights(run, ours.model)
    examples = comparison_examples(ours.task, sentences, limit)
    with replacing(folder, folder=True) as path:
        report(f"writing the model for {to} ({quantization})")
        opened, weights = WRITERS[to](run, ours.model, path, checkpoint, quantization)
        (path / README).write_text(readme(ours.task, path, to, quantization, examples.examples[0]), encoding="utf-8")
        opened = opened or open_export(path, to, quantization, ours.task)
        values = default_bounds(to, quantization, len(examples.examples))
        report(COMPARING.format(len(examples.examples)))
        certificate = certify(ours, opened, examples, path, to, quantization, bounds(values))
        certificate.require(folder)
        certificate.write(path, identity(run, checkpoint))
    return Exported(folder, weights, certificate)


def check_export(
    folder: Path,
    run: Run | None = None,
    *,
    bounds: ChangeBounds = unchanged,
    sentences: Path | None = None,
    limit: int = LIMIT,
    report: Report = no_report,
) -> Certificate:
    """Compare an export with its run again; `bounds` changes those of its certificate."""
    written = read_certificate(folder)
    run = run or Run.open(written.run)
    if written.inputs != identity(run, written.checkpoint):
        raise UserError(
            f"{folder} was exported from other weights than those of {run.folder}, {written.checkpoint}",
            "export the run again, or name the run it was made from",
            code="export-differs",
            where=folder,
        )
    ours = Model([run], written.checkpoint, device="cpu")
    examples = comparison_examples(ours.task, sentences, limit)
    opened = open_export(folder, written.to, written.quantization, ours.task)
    values = bounds(written.bounds)
    report(COMPARING.format(len(examples.examples)))
    certificate = certify(ours, opened, examples, folder, written.to, written.quantization, values)
    certificate.require(folder)
    return certificate


def identity(run: Run, checkpoint: str) -> JsonObject:
    """JSON that identifies the weights of a checkpoint; their checksum is checked."""
    return {"weights": weights_sum(run.checkpoints.resolve(checkpoint))}


# ---- programs --------------------------------------------------------------------------------------------------------


def check_supported(run: Run, to: str, quantization: str) -> None:
    """Raise UserError if a program is missing, or cannot run the model or the quantization."""
    if to == "ctranslate2":
        require_quantization(quantization, ctranslate2.QUANTIZATIONS)
        check_ctranslate2(run)
    elif to == "onnx":
        require_quantization(quantization, graph_files.QUANTIZATIONS)
        import_onnx()
    if to not in QUANTIZED and quantization != PROGRAMS[to]:
        raise UserError(
            f"--quantization is for --to {' and '.join(QUANTIZED)}",
            "leave it out: weights are written as they are",
            code="unsupported-option",
            where="quantization",
        )


def require_finite_weights(run: Run, model: nn.Module) -> None:
    """Raise UserError if a weight is infinite or NaN."""
    if not all_finite(model):
        raise UserError(
            f"some weights of {run.folder} are infinite or NaN",
            "use an earlier checkpoint",
            code="not-finite",
            where=run.folder,
        )


def unsupported(run: Run, program: str, remedy: str) -> UserError:
    """The error that a program cannot run the model of a run."""
    return UserError(
        f"{program} cannot run the model of {run.folder}: task {run.recipe.task}, {run.recipe.model.summary}",
        remedy,
        code="unsupported-model",
        where=run.folder,
    )


def check_ctranslate2(run: Run) -> None:
    """Raise UserError if CTranslate2 cannot run the model."""
    if not run.task.supports_ctranslate2:
        remedy = "use the engine torch, which runs every model; CTranslate2 runs standard Transformers only"
        raise unsupported(run, "CTranslate2", remedy)


def write_for_huggingface(
    run: Run, model: nn.Module, folder: Path, checkpoint: str, quantization: str
) -> tuple[OpenedExport | None, int]:
    """Write a folder of transformers, read it back with our own reader and compare the tokenizers and all logits."""
    random = random_weights(run, checkpoint)
    exported = run.task.export_huggingface(model, folder, random)
    if exported is None:
        graphs = "" if graphs_of(model) is None else "write --to onnx or --to torch-export; for transformers, "
        remedy = f'{graphs}export a run with model.kind = "bert", or a translation run with model.kind = "transformer"'
        raise unsupported(run, "transformers", remedy)
    if (difference := largest_difference(model, exported)) > 0:
        raise UserError(
            f"the weights that were written differ: logits by {difference:.2g}",
            "do not use this export",
            code="export-differs",
            where=folder,
        )
    return None if has_transformers() and not random else ReadBack(exported.model), exported.weights


def write_for_ctranslate2(
    run: Run, model: nn.Module, folder: Path, checkpoint: str, quantization: str
) -> tuple[OpenedExport | None, int]:
    """Write a Transformer and its tokenizers for CTranslate2."""
    write_sealed(run, model, folder, checkpoint, quantization)
    return None, count(weights_of(model))


def write_for_graphs(to: str) -> Callable[..., tuple[OpenedExport | None, int]]:
    """A function that writes the graphs of a model for a program."""

    def write(
        run: Run, model: nn.Module, folder: Path, checkpoint: str, quantization: str
    ) -> tuple[OpenedExport | None, int]:
        write_graph_files(run, model, folder, to, quantization)
        return None, count(weights_of(model))

    return write


def write_graph_files(run: Run, model: nn.Module, folder: Path, to: str, quantization: str) -> None:
    """Write the graphs of a model and the tokenizers of its run."""
    graphs = graphs_of(model)
    if graphs is None:
        raise unsupported(run, to, "export a Transformer, a BERT or a recurrent model")
    write_graphs(folder, graphs, to, quantization)
    copy_artifacts(run, folder)


WRITERS: dict[str, Callable[[Run, nn.Module, Path, str, str], tuple[OpenedExport | None, int]]] = {
    "huggingface": write_for_huggingface,
    "ctranslate2": write_for_ctranslate2,
    "onnx": write_for_graphs("onnx"),
    "torch-export": write_for_graphs("torch-export"),
}
"""Functions that write an export: an opened export, if it is not opened by `open_export`, and the number of weights."""


@torch.no_grad()
def largest_difference(model: nn.Module, exported: ExportedModel) -> float:
    """The largest absolute difference between the logits of two models; a model may have several outputs."""
    pairs = zip(*(logits_of(item(*exported.inputs)) for item in (model, exported.model)), strict=True)
    return max(float((a - b).abs().max()) for a, b in pairs)


def logits_of(outputs: OutputProjection | Tensor | tuple[OutputProjection | Tensor, ...]) -> list[Tensor]:
    """The logits of one or several outputs of a model."""
    several = outputs if isinstance(outputs, tuple) else (outputs,)
    return [output.logits() if isinstance(output, OutputProjection) else output for output in several]


# ---- engines ---------------------------------------------------------------------------------------------------------


def exported_engine(name: str, run: Run, checkpoint: str, quantization: str | None, device: torch.device) -> Engine:
    """The engine ctranslate2 or onnx of a checkpoint."""
    quantization = quantization or PROGRAMS[name]
    check_supported(run, name, quantization)

    def opened(folder: Path) -> Any:
        if name == "onnx":
            return onnx_engine(folder, SYMBOLS)
        return CTranslate2Engine(folder, SYMBOLS, quantization, device)

    folder = engine_folder(name, run, checkpoint, quantization)
    if is_exported(name, run, checkpoint, quantization):
        return cast(Engine, opened(folder))
    temporary = None
    try:
        require_writable(folder)
    except UserError:
        temporary = TemporaryDirectory(prefix="regard-")
        folder = Path(temporary.name) / folder.name
    write_sealed(run, run.model(checkpoint), folder, checkpoint, quantization, name)
    engine = opened(folder)
    if temporary is not None:
        weakref.finalize(engine, temporary.cleanup)
    return cast(Engine, engine)


def engine_folder(name: str, run: Run, checkpoint: str, quantization: str | None) -> Path:
    """The folder of the export that an engine reads."""
    return run.outputs / EXPORTS / f"{name}-{quantization or PROGRAMS[name]}-{checkpoint}"


def is_exported(name: str, run: Run, checkpoint: str, quantization: str | None) -> bool:
    """True if the export of an engine is there, complete and of these weights."""
    folder = engine_folder(name, run, checkpoint, quantization)
    manifest = Manifest.read_or_none(folder / MANIFEST)
    inputs = manifest_inputs(run, checkpoint, name)
    return manifest is not None and manifest.is_current(inputs, FORMAT) and not manifest.damaged(folder)


def write_sealed(
    run: Run, model: nn.Module, folder: Path, checkpoint: str, quantization: str, program: str = "ctranslate2"
) -> None:
    """Write a model for ctranslate2 or onnx, the tokenizers of the run, and a manifest of all files."""
    if program == "onnx":
        with replacing(folder, folder=True) as path:
            write_graph_files(run, model, path, program, quantization)
    else:
        write_ctranslate2(cast(Transformer, model), SYMBOLS, folder, quantization)
        copy_artifacts(run, folder)
    names = sorted(path.name for path in folder.iterdir() if path.name != MANIFEST)
    inputs = manifest_inputs(run, checkpoint, program)
    Manifest.describe(folder, names, format=FORMAT, inputs=inputs).write(folder / MANIFEST)


def copy_artifacts(run: Run, folder: Path) -> None:
    """Copy the tokenizers and labels of a run."""
    for name in run.task.artifacts(run.recipe):
        if (run.folder / name).exists():
            (folder / name).write_bytes((run.folder / name).read_bytes())


def manifest_inputs(run: Run, checkpoint: str, program: str = "ctranslate2") -> JsonObject:
    """JSON that identifies a converted model; the checksum of the weights is checked."""
    package = import_onnx()[1] if program == "onnx" else import_ctranslate2()
    return {**identity(run, checkpoint), program: package.__version__}
