"""One prediction from the inside: attention weights, the arithmetic of a head, and the beam as a tree.

Everything is computed beside the prediction and changes none of it: attention is recorded by hooks
(attention/arithmetic.py), the beam by an observer (decoding/beam_tree.py).
"""

from dataclasses import dataclass, field
from typing import Any, cast

import numpy as np
import torch
from torch import Tensor, nn

from regard.attention.arithmetic import Call, HeadArithmetic, record_attention, stacks
from regard.decoding.beam_tree import BeamRecorder, BeamTree
from regard.decoding.engine import DecodingRequest
from regard.decoding.hypothesis import Hypothesis
from regard.engines.stepper_engine import StepperEngine
from regard.errors import UserError
from regard.layers.embeddings import OutputProjection
from regard.run.model import Explanation, Input, Model, PredictOptions
from regard.run.results import Prediction as ShownPrediction
from regard.tasks.base import AnyTask, Example, Prediction
from regard.tasks.operations import call_model, decoding_engine, empty_prediction, force_decode, pivot_example
from regard.text.symbols import EOS
from regard.viz.report import AttentionMap

TOLERANCE = 1e-4


@dataclass(frozen=True)
class Inspection:
    """A prediction, its attention maps, and for each map the calls of its layers (none if it has no such steps)."""

    explanation: Explanation
    layers: list[list[Call]]

    @property
    def maps(self) -> list[AttentionMap]:
        return self.explanation.maps

    @property
    def pair(self) -> tuple[Example, Prediction]:
        return self.explanation.example, self.explanation.prediction

    def arithmetic(self, name: str, layer: int, head: int) -> HeadArithmetic:
        """The steps of one head of the map `name`; layers and heads count from 0."""
        layers = next((calls for item, calls in zip(self.maps, self.layers, strict=True) if item.name == name), [])
        if not 0 <= layer < len(layers) or not 0 <= head < layers[layer].num_heads:
            problem = f"the arithmetic of {name} attention cannot be shown for layer {layer + 1}, head {head + 1}"
            largest = f"choose a layer from 1 to {len(layers)} and one of its heads"
            remedy = largest if layers else "choose the attention of a Transformer, BERT or recurrent decoder"
            raise UserError(problem, remedy, code="no-attention", where="head")
        return layers[layer].head(head)


@dataclass
class ObservedEngine:
    """An engine that decodes one sentence with an observer, and keeps its hypotheses."""

    engine: StepperEngine[Any]
    recorder: BeamRecorder
    hypotheses: list[Hypothesis] = field(default_factory=list)

    def decode(self, request: DecodingRequest) -> list[list[Hypothesis]]:
        if len(request) > 1:
            raise UserError("the text is read in several parts", "use one sentence", code="too-long", where="text")
        results = self.engine.observed(self.recorder).decode(request)
        self.hypotheses = [item for sentence in results for item in sentence]
        return results


@dataclass(frozen=True)
class SearchTree:
    """The beam of one sentence, the text of each node's token, and the prediction that was found."""

    tree: BeamTree
    tokens: list[str]
    prediction: Prediction
    width: int
    alpha: float


def inspect_attention(
    model: Model, value: Input, target: str | None = None, chosen: int = 0, **options: object
) -> Inspection:
    """Predict one example and record the attention behind it.

    The attention is that of the output `target`, or of hypothesis `chosen` of a search, from 0, best first. Of a
    translation through a third language it is that of the second step, and so is the example.
    """
    task = model.task.configure(**options)
    example = task.parse(value, "the text")
    example = pivot_example(task, model.engine, example) if target is None else example
    predicted = (
        next(model.stream([example], **cast(PredictOptions, options)))
        if target is None
        else force_decode(task, example, target)
    )
    prediction = ShownPrediction(predicted, example, task)
    maps: list[AttentionMap] = []
    calls: list[Call] = []
    if task.recipe.has_attention and empty_prediction(task, example) is None:
        with record_attention(model.model) as calls:
            found = prediction.get("hypotheses", [])
            other = {"hypotheses": found[chosen:]} if 0 < chosen < len(found) else {}  # the chosen one comes first
            maps = task.attention(model.model, example, prediction | other)
    return Inspection(Explanation(example, prediction, maps), match_layers(maps, stacks(calls)))


def predicts_next(task: AnyTask) -> bool:
    """True if a task writes its outputs token by token, from left to right."""
    return task.search is not None and task.search.settings.search != "mask_predict"


@torch.no_grad()
def next_tokens(
    model: Model, value: Input, prefix: str = "", temperature: float = 1.0, top: int = 12
) -> list[tuple[str, float]]:
    """The most probable tokens after an output that begins with `prefix`, each with softmax(logits / temperature).

    As in sampling, symbols that no search may write have no share. A language model continues its input and `prefix`.
    """
    task, outputs = model.task, list[Tensor]()

    def keep(module: nn.Module, inputs: object, output: object) -> None:
        projection = output[0] if isinstance(output, tuple) else output
        outputs.extend([projection.logits()[0, -1]] if isinstance(projection, OutputProjection) else [])

    if predicts_next(task) and len(model.models) == 1:
        example = pivot_example(task, model.engine, task.parse(value, "the text"))
        hook = model.model.register_forward_hook(keep)
        try:
            call_model(task, model.model, example, force_decode(task, example, prefix))
        except NotImplementedError:  # an n-gram
            pass
        finally:
            hook.remove()
    if not outputs or task.search is None:
        problem = f"{model.run.folder} has no probabilities for a next token"
        remedy = "use one run whose model writes from left to right: a translation or a neural language model"
        raise UserError(problem, remedy, code="wrong-task", where=model.run.folder)
    logits = outputs[-1].double()
    logits[task.search.symbols.never_produced] = -torch.inf
    shares, ids = (logits / temperature).softmax(-1).topk(min(top, len(logits)))
    return list(zip(task.search.tokenizer.tokens(ids.tolist()), shares.tolist(), strict=True))


def match_layers(maps: list[AttentionMap], groups: list[list[Call]]) -> list[list[Call]]:
    """The calls whose weights each map shows; empty for a map of something else, for example of attention pooling."""
    computed = [(group, np.stack([call.weights().float().cpu().numpy() for call in group])) for group in groups]
    layers = []
    for item in maps:
        shown = np.asarray(item.weights)
        same = (
            group
            for group, weights in computed
            if weights.shape == shown.shape and np.abs(weights - shown).max(initial=0.0) < TOLERANCE
        )
        layers.append(next(same, []))
    return layers


def has_beam(task: AnyTask) -> bool:
    """True if the search of a task can be shown as a tree."""
    search = task.search
    return search is not None and search.request is not None and search.settings.search in ("beam", "greedy")


def inspect_beam(model: Model, value: Input, **options: object) -> SearchTree:
    """Search one sentence and record the beam; `beam` = 1 shows greedy search. Of a translation through a third
    language it is the beam of the second step."""
    task = model.task.configure(**options)
    if not has_beam(task):
        problem = f"the outputs of {model.run.folder} do not come from beam search"
        remedy = "use a run of task translation or parsing with beam or greedy search"
        raise UserError(problem, remedy, code="wrong-task", where=model.run.folder)
    task = task.configure(beam=1) if task.search and task.search.settings.search == "greedy" else task
    assert task.search is not None
    decoding = task.search.settings
    recorder = BeamRecorder(decoding.alpha)
    engine = model.engine
    if not isinstance(engine, StepperEngine):  # CUDA graphs and CTranslate2 search by themselves
        engine = decoding_engine(task, model.models, model.world.device, "readable")
    assert isinstance(engine, StepperEngine)
    recording = ObservedEngine(engine, recorder)
    (prediction,) = task.predict(recording, [pivot_example(task, model.engine, task.parse(value, "the text"))])
    tree = recorder.tree([(item.tokens, item.finished) for item in recording.hypotheses], EOS)
    names = task.search.tokenizer.tokens([node.token for node in tree.nodes])
    return SearchTree(tree, names, prediction, decoding.beam, decoding.alpha)
