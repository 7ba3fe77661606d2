"""Exported graphs as steppers and models: what ONNX and torch.export files are run with (exchange/graphs.py).

A `Runner` runs one graph: tensors by name in, a list of tensors out. `GraphStepper` is searched like any model;
`GraphModel` has the outputs of a text encoder with a head. The search is ours, so every option of a search works, and
translations equal those of torch up to rounding.

B sentences, W hypotheses, S source, V vocabulary.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import torch
from torch import Tensor, nn

from regard.attention.layouts import Padded, Tokens
from regard.errors import UserError
from regard.exchange import graphs

Runner = Callable[[Mapping[str, Tensor]], list[Tensor]]
START = {graphs.HYPOTHESES: 1, graphs.PAST: 0}
"""Sizes of the axes of a state before the first token."""


@dataclass(frozen=True)
class GraphState:
    """The tensors of a state by name: batch is the first axis of all but scalars, hypotheses the second of some."""

    tensors: dict[str, Tensor]
    values: Mapping[str, graphs.Value]

    def reorder(self, parents: Tensor) -> "GraphState":
        def gather(x: Tensor) -> Tensor:
            rows = (parents + torch.arange(x.size(0))[:, None] * x.size(1)).flatten()
            return x.flatten(0, 1).index_select(0, rows).unflatten(0, (x.size(0), -1))

        return self.map(lambda x, axes: gather(x) if graphs.HYPOTHESES in axes else x)

    def keep(self, sentences: Tensor) -> "GraphState":
        return self.map(lambda x, axes: x.index_select(0, sentences) if graphs.BATCH in axes else x)

    def map(self, function: Callable[[Tensor, tuple[str | int, ...]], Tensor]) -> "GraphState":
        """A function of a tensor and its axes, applied to all tensors."""
        changed = {name: function(x, self.values[name].axes) for name, x in self.tensors.items()}
        return GraphState(changed, self.values)


class GraphStepper:
    """The encoder and the decoder of an exported model; a language model has only a decoder."""

    def __init__(self, signatures: Sequence[graphs.Signature], runners: Mapping[str, Runner]) -> None:
        by_name = {signature.name: signature for signature in signatures}
        self.encoder, self.decoder, self.runners = by_name.get("encoder"), by_name["decoder"], runners
        self.values = {value.name: value for value in self.decoder.state}

    def start(self, source: Tokens) -> GraphState:
        if self.encoder is None:
            return GraphState(
                {value.name: zeros(value, source.ids.size(0)) for value in self.decoder.state}, self.values
            )
        outputs = self.runners["encoder"]({graphs.INPUT_IDS: source.ids, graphs.ATTENTION_MASK: mask_of(source)})
        names = [value.name for value in self.encoder.outputs]
        return GraphState(dict(zip(names, outputs, strict=True)), self.values)

    def step(self, tokens: Tensor, state: GraphState) -> tuple[Tensor, GraphState]:
        logits, *changed = self.runners["decoder"]({graphs.INPUT_IDS: tokens, **state.tensors})
        new = dict(zip(self.decoder.changing, changed, strict=True))
        return logits, GraphState(state.tensors | new, self.values)


class GraphModel(nn.Module):
    """The one graph of a text encoder with a head, with the outputs of our model."""

    def __init__(self, runner: Runner) -> None:
        super().__init__()
        self.runner = runner
        self.device_of = nn.Parameter(torch.zeros(()), requires_grad=False)  # callers ask parameters for their device

    def forward(self, tokens: Tokens, segments: Tensor | None, *more: Tensor | None) -> object:
        """Padded tokens and their segments -> logits."""
        return self.run(tokens, segments)[0]

    def run(self, tokens: Tokens, segments: Tensor | None, words: Tensor | None = None) -> list[Tensor]:
        types = torch.zeros_like(tokens.ids) if segments is None else segments
        inputs = {graphs.INPUT_IDS: tokens.ids, graphs.ATTENTION_MASK: mask_of(tokens), graphs.TOKEN_TYPES: types}
        return self.runner(inputs if words is None else {**inputs, graphs.WORDS: words})


@dataclass(frozen=True)
class GraphRows:
    """Logits (M, V) in the place of an `OutputProjection`."""

    rows: Tensor

    def logits(self) -> Tensor:
        return self.rows


class GraphPretraining(GraphModel):
    """A graph with the outputs of `BertPretraining`."""

    def forward(self, tokens: Tokens, segments: Tensor | None, *more: Tensor | None) -> object:
        words, follows = self.run(tokens, segments)
        assert more[0] is not None
        return GraphRows(words.flatten(0, 1).index_select(0, more[0])), follows


class GraphParser(GraphModel):
    """A graph with the outputs of `BiaffineParser` for all heads."""

    def forward(self, tokens: Tokens, segments: Tensor | None, *more: Tensor | None) -> object:
        return tuple(self.run(tokens, segments, more[0]))


def open_graphs(
    folder: Path, target: str, open_graph: Callable[[Path, graphs.Signature], Runner]
) -> "GraphStepper | GraphModel":
    """What the graphs in a folder are: a stepper, or a text encoder with a head."""
    signatures = graphs.read_signatures(folder)
    runners = {item.name: open_graph(folder / f"{item.name}{graphs.EXTENSIONS[target]}", item) for item in signatures}
    if "model" in runners:
        names = [value.name for value in signatures[0].outputs]
        kinds = {"next_logits": GraphPretraining, "relations": GraphParser}
        return next((kind for name, kind in kinds.items() if name in names), GraphModel)(runners["model"]).eval()
    return GraphStepper(signatures, runners)


def torch_runner(path: Path, signature: graphs.Signature) -> Runner:
    module = torch.export.load(path).module()

    def run(inputs: Mapping[str, Tensor]) -> list[Tensor]:
        with torch.no_grad():
            return list(module(*(inputs[value.name] for value in signature.inputs)))

    return run


def mask_of(tokens: Tokens) -> Tensor:
    """(B, T): 1 at tokens, 0 at padding."""
    assert isinstance(tokens.layout, Padded)
    return tokens.layout.not_padding.long()


def zeros(value: graphs.Value, sentences: int) -> Tensor:
    """A value of the state of a language model before the first token."""
    sizes = START | {graphs.BATCH: sentences}
    shape = [sizes[axis] if isinstance(axis, str) else axis for axis in value.axes]
    return torch.zeros(shape, dtype=getattr(torch, value.dtype))


def open_onnx(folder: Path, threads: int | None = None) -> GraphStepper | GraphModel:
    """The ONNX graphs of a folder, run with as many threads as torch by default."""
    return open_graphs(folder, "onnx", partial(onnx_runner, threads=threads or torch.get_num_threads()))


def onnx_runner(path: Path, signature: graphs.Signature, threads: int) -> Runner:
    try:
        import onnxruntime
    except (ImportError, OSError) as error:
        raise graphs.missing_onnx(error) from error
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads, options.inter_op_num_threads = threads, 1
    options.log_severity_level = 3
    try:
        session = onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    except Exception as error:  # its exceptions have no common base but Exception
        problem = f"onnxruntime cannot load {path}: {error}"
        raise UserError(problem, "export the run again", code="damaged-file", where=path) from error
    names = [item.name for item in session.get_inputs()]

    def run(inputs: Mapping[str, Tensor]) -> list[Tensor]:
        return [torch.from_numpy(array) for array in session.run(None, {name: inputs[name].numpy() for name in names})]

    return run
