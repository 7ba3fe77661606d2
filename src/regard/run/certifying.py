"""The comparison of an exported model with the model of its run, on the same examples in the same process."""

import math
import platform
import time
from collections.abc import Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

import regard
from regard.attention.layouts import Tokens
from regard.decoding.engine import DecodingRequest, Engine
from regard.decoding.hypothesis import Hypothesis
from regard.decoding.settings import DecodingSettings
from regard.errors import UserError
from regard.run.certificate import Bounds, Certificate
from regard.run.export_examples import Examples
from regard.run.model import Model
from regard.run.opened_exports import FORCED, OpenedExport, Pair, program_of
from regard.run_files import MODEL
from regard.tasks.base import AnyTask, Example, Prediction
from regard.tasks.language import Language
from regard.text.symbols import EOS

PREDICTIONS = "predictions"
NEAR = 0.01
"""The largest difference of predicted numbers that count as identical."""


class PairRecordingEngine:
    """An engine that remembers the tokens of sources and outputs."""

    def __init__(self, engine: Engine) -> None:
        self.engine = engine
        self.pairs: list[Pair] = []

    def decode(self, request: DecodingRequest) -> list[list[Hypothesis]]:
        """Decode, and remember the best hypotheses."""
        results = self.engine.decode(request)
        self.pairs += [(source, best[0].tokens) for source, best in zip(request.sources, results, strict=True) if best]
        return results


class RecordingModel(nn.Module):
    """A text encoder with a head that remembers its outputs without padding."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model
        self.outputs: list[Tensor] = []

    @torch.no_grad()
    def forward(self, tokens: Tokens, *more: Any) -> object:
        outputs = self.model(tokens, *more)
        for output in outputs if isinstance(outputs, tuple) else (outputs,):
            tensor = (output if isinstance(output, Tensor) else output.logits()).float()
            by_token = tensor.dim() > 2 and tensor.shape[:2] == tokens.ids.shape
            self.outputs.append(tensor[tokens.layout.not_padding] if by_token else tensor)
        return outputs


def certify(
    ours: Model, export: OpenedExport, examples: Examples, written: Path, to: str, quantization: str, bounds: Bounds
) -> Certificate:
    """Run both models on the examples; `written` is the folder of the export."""
    task, values = ours.task, examples.examples
    compare = compare_searches if task.has_search else compare_predictions
    difference, identical, scores, speed = compare(ours, export, values)
    run = ours.run
    checkpoint = run.checkpoints.resolve(ours.checkpoint)
    own = [checkpoint / MODEL, *(run.folder / name for name in task.artifacts(run.recipe))]
    sizes = [sum(path.stat().st_size for path in paths if path.is_file()) for paths in (own, written.rglob("*"))]
    return Certificate(
        to=to,
        quantization=quantization,
        run=str(run.folder) if run.outputs == run.folder else run.folder.name,  # the name of one that comes with regard
        checkpoint=ours.checkpoint,
        program=program_of(export),
        examples=len(values),
        source=examples.source,
        directions=examples.directions,
        output=export.output,
        difference=difference,
        identical=identical,
        scores=scores,
        bytes=(sizes[0], sizes[1]),
        speed=speed,
        threads=torch.get_num_threads(),
        versions={
            "regard": regard.__version__,
            "python": platform.python_version(),
            **{name: version(name) for name in export.packages},
        },
        bounds=bounds,
    )


Compared = tuple[float, dict[str, float], dict[str, tuple[float, float]], tuple[float, float]]
"""The largest difference, shares of identical outputs, scores and speeds of both."""


def compare_searches(ours: Model, export: OpenedExport, examples: Sequence[Example]) -> Compared:
    """Compare models that write a text: greedy, and with the search of the recipe if it is a beam search.

    Without the loop guard, which other programs do not have.
    """
    identical: dict[str, float] = {}
    outputs: list[Prediction] = []
    greedy = ours.task.configure(search="greedy", loop_guard=False)
    recorder = PairRecordingEngine(as_engine(ours))
    engine = ours.engine if isinstance(ours.task, Language) else recorder  # whose tokens are in its predictions
    tasks = {"greedy": greedy}
    settings: DecodingSettings = ours.run.recipe.decoding  # type: ignore[attr-defined]
    if settings.search == "beam" and settings.beam > 1:
        tasks[f"beam {settings.beam}"] = ours.task.configure(loop_guard=False)
    for name, task in tasks.items():
        first = timed(task, engine if name == "greedy" else ours.engine, examples)
        second = timed(task, export.engine, examples)
        identical[name] = share_identical(task, first[0], second[0], math.inf)
        outputs = outputs or first[0]
    longest = ours.run.recipe.model.length_limit  # the decoder reads the beginning symbol too
    pairs = [(source, target[: longest and longest - 1]) for source, target in recorder.pairs or written_lines(outputs)]
    difference = export.difference(ours.model, pairs[:FORCED])
    return difference, identical, scores_of(task, examples, first[0], second[0]), (first[1], second[1])


def written_lines(predictions: Sequence[Prediction]) -> list[Pair]:
    """The continuations of a language model; the beginning symbol is in the place of a source."""
    return [([EOS], prediction["continuations"][0]["tokens"]) for prediction in predictions]


def as_engine(model: Model) -> Engine:
    """The engine of a run that writes a text."""
    from regard.engines.choose import as_engine
    from regard.run.opened_exports import symbols_of

    return as_engine(model.engine, symbols_of(model.task))


def compare_predictions(ours: Model, export: OpenedExport, examples: Sequence[Example]) -> Compared:
    """Compare text encoders with a head; without its head a BERT has only outputs that are compared."""
    models = RecordingModel(ours.model), RecordingModel(export.engine)
    task = ours.task
    first, second = (timed(task, model, examples) for model in models)
    pairs = list(zip(models[0].outputs, models[1].outputs, strict=True))  # the first outputs are of the warm-up
    difference = max(float((a - b).abs().max()) for a, b in pairs if a.numel())
    try:
        task.check_predict()
    except UserError:
        return difference, {}, {}, (first[1], second[1])
    same = {PREDICTIONS: share_identical(task, first[0], second[0], NEAR)}
    return difference, same, scores_of(task, examples, first[0], second[0]), (first[1], second[1])


def timed(task: AnyTask, engine: Any, examples: Sequence[Example]) -> tuple[list[Prediction], float]:
    """The predictions of a model and examples per second, after a warm-up."""
    list(task.predict(engine, examples[:2]))
    started = time.perf_counter()
    predictions = list(task.predict(engine, examples))
    return predictions, len(examples) / max(1e-9, time.perf_counter() - started)


def share_identical(
    task: AnyTask, first: Sequence[Prediction], second: Sequence[Prediction], tolerance: float
) -> float:
    """The share of predictions with equal texts and labels; numbers count where a prediction has nothing else."""
    pairs = [(leaves(task.output(a)), leaves(task.output(b))) for a, b in zip(first, second, strict=True)]
    return sum(is_same(a, b, tolerance) for a, b in pairs) / max(1, len(pairs))


def is_same(first: list[object], second: list[object], tolerance: float) -> bool:
    """True if the values that are not floats are equal; if all are floats, if they are close."""
    texts = [[value for value in values if not isinstance(value, float)] for values in (first, second)]
    if texts[0] or texts[1] or len(first) != len(second):
        return texts[0] == texts[1]
    numbers = zip(first, second, strict=True)
    return all(abs(float(a) - float(b)) <= tolerance for a, b in numbers)  # type: ignore[arg-type]


def leaves(value: object) -> list[object]:
    """The values of a prediction without its keys, in order; lists are opened."""
    if isinstance(value, dict):
        return [leaf for item in value.values() for leaf in leaves(item)]
    return [leaf for item in value for leaf in leaves(item)] if isinstance(value, list | tuple) else [value]


def scores_of(
    task: AnyTask, examples: Sequence[Example], first: Sequence[Prediction], second: Sequence[Prediction]
) -> dict[str, tuple[float, float]]:
    """The scores of both models, if every example has a target."""
    target = task.fields.target
    if not task.scored_by_examples or not target or not all(example.get(target) is not None for example in examples):
        return {}
    ours, theirs = task.score(examples, first), task.score(examples, second)
    return {score.name: (score.value, theirs[name].value) for name, score in ours.items() if name in theirs}
