"""A run's model in the format of another library, with a certificate of how it differs from the run's own model.

    huggingface    BERT with its task's head, Transformers as Marian or Pegasus (export/huggingface.py)
    ctranslate2    Transformers for CTranslate2, which can store the weights in 8 bits
    onnx           graphs for onnxruntime, in 32 or 8 bits (exchange/graphs.py)
    torch-export   the same graphs for torch.export

`export_run` writes a folder, opens it with the target library, runs both models on the same examples, and writes
certificate.json. If a value of the certificate is outside of its bounds, there is an error and no folder.
"""

import os
import platform
from collections.abc import Callable
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import cast

import torch

import regard
from regard.errors import UserError
from regard.exchange.folders import require_new_folder
from regard.export.certificate import Bounds, Certificate, default_bounds
from regard.export.comparing import compare_predictions, compare_searches
from regard.export.examples import LIMIT, Examples, comparison_examples
from regard.export.readme import README, render_readme
from regard.export.target import Target, Trained
from regard.export.targets import TARGETS
from regard.files import replacing, require_writable
from regard.messages import Message
from regard.run.exported_engine import identity
from regard.run.model import Model
from regard.run.run import Run
from regard.run_files import MODEL
from regard.tasks.base import Report
from regard.training.weights import all_finite

ChangeBounds = Callable[[Bounds], Bounds]
"""Changes the default bounds of an export."""


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
    folder: str | Path,
    to: str = "huggingface",
    checkpoint: str = "best",
    quantization: str | None = None,
    *,
    bounds: ChangeBounds | None = None,
    sentences: str | Path | None = None,
    limit: int = LIMIT,
    report: Report = lambda line: None,
) -> Exported:
    """Write a checkpoint's model to the new `folder` and certify it; `quantization` is for ctranslate2 and onnx. The
    comparison uses the run's validation data, or the lines of the file `sentences`; `bounds` changes its bounds."""
    folder = Path(folder)
    require_new_folder(folder)
    require_writable(folder)
    ours = Model([run], checkpoint, device="cpu")
    target = target_of(ours, to, quantization)
    if not all_finite(ours.model):
        problem = f"some weights of {run.folder} are infinite or NaN"
        raise UserError(problem, "use an earlier checkpoint", code="not-finite", where=run.folder)
    if not getattr(run.recipe.text, "source_end", True):
        problem = f"{run.folder} reads sources without an end symbol (`text.source_end`), which exports append"
        raise UserError(problem, "use the model as it was imported", code="unsupported", where="text.source_end")
    examples = comparison_examples(ours.task, Path(sentences) if sentences else None, limit)
    own, other = run.folder.resolve(), folder.resolve()
    near = run.outputs == run.folder and own.parts[:2] == other.parts[:2]  # not bundled, and with a common parent
    name = os.path.relpath(own, other) if near else own.name
    with replacing(folder, folder=True) as path:
        report(Message("writing the model for {library} ({weights})", library=to, weights=target.quantization))
        weights = target.write(path)
        (path / README).write_text(render_readme(target, path, examples.examples[0]), encoding="utf-8")
        report(Message("comparing it with the run on {count:,} examples", count=len(examples.examples)))
        certificate = certify(ours, target, path, examples, bounds, name)
        certificate.require(folder)
        certificate.write(path, identity(run, checkpoint))
    return Exported(folder, weights, certificate)


def check_export(
    folder: str | Path,
    run: Run | None = None,
    *,
    bounds: ChangeBounds | None = None,
    sentences: str | Path | None = None,
    limit: int = LIMIT,
    report: Report = lambda line: None,
) -> Certificate:
    """Compare an export with its run again, within the default bounds or those that `bounds` changes them to."""
    folder = Path(folder)
    written, inputs = Certificate.read(folder)
    run = run or Run.open(beside if (beside := folder / written.run).is_dir() else written.run)
    if inputs != identity(run, written.checkpoint):
        problem = f"{folder} was not exported from {run.folder}, {written.checkpoint}: the weights differ"
        remedy = "export the run again, or choose the run that was exported"
        raise UserError(problem, remedy, code="export-differs", where=folder)
    ours = Model([run], written.checkpoint, device="cpu")
    target = target_of(ours, written.to, written.quantization)
    examples = comparison_examples(ours.task, Path(sentences) if sentences else None, limit)
    report(Message("comparing it with the run on {count:,} examples", count=len(examples.examples)))
    certificate = certify(ours, target, folder, examples, bounds, written.run)
    certificate.require(folder)
    return certificate


def target_of(ours: Model, to: str, quantization: str | None) -> Target:
    """The target of an export; a UserError if its library is missing or cannot run the model."""
    if to not in TARGETS:
        raise UserError(
            f"unknown target {to!r}", f"choose one of {', '.join(TARGETS)}", code="invalid-option", where="to"
        )
    trained = Trained(ours.task, ours.run.folder, lambda: ours.model, ours.random_weights)
    return TARGETS[to](trained, quantization)


def certify(
    ours: Model, target: Target, folder: Path, examples: Examples, bounds: ChangeBounds | None, name: str
) -> Certificate:
    """Run the model of the run and the export in `folder` on the examples; `name` is the run's in the certificate."""
    run, values, packages = ours.run, examples.examples, target.packages
    default = default_bounds(target.search_bound, target.quantization, len(values))
    exported = target.open(folder)
    if ours.task.search:
        compared = compare_searches(target, ours.engine, exported, values)
    else:
        compared = compare_predictions(target, cast(torch.nn.Module, exported), values)
    own = [run.checkpoints.resolve(ours.checkpoint) / MODEL, *(run.folder / file for file in target.trained.artifacts)]
    versions = {"regard": regard.__version__, "python": platform.python_version()}
    return Certificate(
        to=target.name,
        quantization=target.quantization,
        run=name,
        checkpoint=ours.checkpoint,
        program=f"{packages[0]} {version(packages[0])}",
        examples=len(values),
        source=examples.source,
        directions=examples.directions,
        output=target.output,
        **compared._asdict(),
        bytes=[sum(path.stat().st_size for path in paths if path.is_file()) for paths in (own, folder.rglob("*"))],
        threads=torch.get_num_threads(),
        versions=versions | {package: version(package) for package in packages},
        bounds=default if bounds is None else bounds(default),
    )
