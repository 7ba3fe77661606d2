"""The comparison of an exported model with the model of its run, on the same examples in the same process."""

import math
import time
from collections.abc import Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from regard.attention.layouts import Tokens
from regard.decoding.engine import DecodingRequest, Engine
from regard.decoding.hypothesis import Hypothesis
from regard.engines.choose import as_engine
from regard.errors import UserError
from regard.export.examples import lengthen
from regard.export.target import Pair, Target
from regard.tasks.base import AnyTask, Example, Prediction
from regard.tasks.operations import check_outputs
from regard.text.symbols import EOS

PREDICTIONS = "predictions"
NEAR = 0.01
"""The largest difference of predicted numbers that count as identical."""
FORCED = 64
"""Number of outputs whose logits are compared."""


class Comparison(NamedTuple):
    """What a certificate says about the outputs of the run and of the export."""

    difference: float
    identical: dict[str, float]
    scores: dict[str, list[float]]
    speed: list[float]


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
    def forward(self, tokens: Tokens, *more: Tensor) -> object:
        outputs = self.model(tokens, *more)
        for output in outputs if isinstance(outputs, tuple) else (outputs,):
            tensor = (output if isinstance(output, Tensor) else output.logits()).float()
            by_token = tensor.dim() > 2 and tensor.shape[:2] == tokens.ids.shape
            self.outputs.append(tensor[tokens.layout.not_padding] if by_token else tensor)
        return outputs


def compare_searches(
    target: Target, engine: nn.Module | Engine, exported: Any, examples: Sequence[Example]
) -> Comparison:
    """Compare models that write a text: greedy, and with the recipe's search if it is a beam search.

    Without the loop guard, which other libraries do not have.
    """
    task, identical = target.trained.task, {}
    settings = task.recipe.decoding
    recorder = PairRecordingEngine(as_engine(engine, target.trained.symbols))
    tasks = {"greedy": task.configure(search="greedy", loop_guard=False)}
    if settings.search == "beam" and settings.beam > 1:
        tasks[f"beam {settings.beam}"] = task.configure(loop_guard=False)
    continues = target.trained.exchange.script == "generate"  # then predictions have the tokens
    pairs: list[Pair] = []
    for name, task in tasks.items():
        first = timed(task, recorder if name == "greedy" and not continues else engine, examples)
        second = timed(task, exported, examples)
        identical[name] = share_identical(task, first[0], second[0], math.inf)
        if continues and not pairs:  # the beginning symbol is in the place of a source
            pairs = [([EOS], prediction["continuations"][0]["tokens"]) for prediction in first[0]]
    longest = task.recipe.model.length_limit  # the decoder reads the beginning symbol too
    pairs = [(source, tokens[: longest and longest - 1]) for source, tokens in recorder.pairs or pairs]
    difference = target.difference(exported, pairs[:FORCED])
    return Comparison(difference, identical, scores_of(task, examples, first[0], second[0]), [first[1], second[1]])


def compare_predictions(target: Target, exported: nn.Module, examples: Sequence[Example]) -> Comparison:
    """Compare text encoders with a head, also on a text that is too long; a BERT without a head has only outputs."""
    task, models = target.trained.task, (RecordingModel(target.trained.model), RecordingModel(exported))
    first, second = (timed(task, model, examples) for model in models)
    long = [list(task.predict(model, [lengthen(task, examples[0])])) for model in models]
    pairs = zip(models[0].outputs, models[1].outputs, strict=True)  # the first outputs are of the warm-up
    difference = max(float((a - b).abs().max()) for a, b in pairs if a.numel())
    speed = [first[1], second[1]]
    try:
        check_outputs(task)
    except UserError:
        return Comparison(difference, {}, {}, speed)
    same = share_identical(task, first[0] + long[0], second[0] + long[1], NEAR)
    return Comparison(difference, {PREDICTIONS: same}, scores_of(task, examples, first[0], second[0]), speed)


def timed(task: AnyTask, engine: nn.Module | Engine, examples: Sequence[Example]) -> tuple[list[Prediction], float]:
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
) -> dict[str, list[float]]:
    """The scores of both models, if every example has a target."""
    target = task.recipe.fields.target
    if not task.scored_by_examples or not target or not all(example.get(target) is not None for example in examples):
        return {}
    ours, theirs = task.score(examples, first), task.score(examples, second)
    return {score.name: [score.value, theirs[name].value] for name, score in ours.items() if name in theirs}
