"""Models as graphs: functions from tensors to tensors, which other libraries store and run.

    model      input_ids, attention_mask, token_type_ids -> logits                      a text encoder with a head
    encoder    input_ids, attention_mask -> state                                       a model that writes a text:
    decoder    input_ids, state -> logits of the next token, the part of the state      one call for a source,
               that changes                                                             one call for each token

A state is a flat list of named tensors: KV caches, the projected source, hidden vectors. Every axis that may have
another size in the next call has a name:

    batch        sentences
    hypotheses   hypotheses of a sentence; 1 at the beginning
    source       source tokens, or tokens of a text
    past         target tokens so far; 0 at the beginning

The names are found by running the model on inputs of different sizes and comparing the shapes. So a graph needs nothing
from a model but `start` and `step`. A language model has no encoder: its state begins with zeros.

The graphs compute what the model computes, with three differences: masks in place of blocks for local attention, a KV
cache that keeps positions outside the window, and loops in place of the kernels of recurrent layers. They avoid control
flow that depends on sizes.

`graphs.json` says what goes in and out of every graph; the graphs are beside it:

    onnx            encoder.onnx, decoder.onnx or model.onnx                  ONNX, opset 18; run by onnxruntime
    torch-export    encoder.pt2, decoder.pt2 or model.pt2                     torch.export; run by torch

An axis in graphs.json is a name (batch, hypotheses, source, past) or a number.

B sentences, W hypotheses, S source, T tokens, V vocabulary, L past.
"""

import inspect
import logging
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, redirect_stdout
from copy import deepcopy
from dataclasses import asdict, dataclass, fields, is_dataclass, replace
from io import StringIO
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import torch
import torch.nn.functional as F
from pydantic import BaseModel
from torch import Tensor, nn
from torch.export.graph_signature import InputKind

from regard.attention.cache import KVCache
from regard.attention.layouts import Padded, PaddedPattern, Tokens
from regard.attention.scored_attention import AttentionFunction, scaled_dot_attention
from regard.errors import UserError
from regard.exchange.folders import require_quantization
from regard.files import write_json
from regard.layers.recurrent import Hidden, RecurrentLayer, StructuredLSTM
from regard.models.bert import BertPretraining
from regard.models.biaffine import BiaffineParser
from regard.models.language_recurrent import RecurrentLanguageModel
from regard.models.language_transformer import TransformerLanguageModel
from regard.models.recurrent import RecurrentModel
from regard.models.text_encoder import EncoderModel
from regard.models.transformer import Transformer
from regard.reading import read_json

if TYPE_CHECKING:
    pass

BATCH, HYPOTHESES, SOURCE, PAST = "batch", "hypotheses", "source", "past"
SIZES = {BATCH: 2, HYPOTHESES: 3, SOURCE: 5, PAST: 4}
"""Sizes of the axes of the example inputs: at least 2, because 0 and 1 are special in torch.export."""
INPUT_IDS, ATTENTION_MASK, TOKEN_TYPES, WORDS, LOGITS = (
    "input_ids", "attention_mask", "token_type_ids", "first_tokens", "logits",
)  # fmt: skip
COUNTS = ("position", "length")
"""Numbers of tokens so far in a state that cannot be computed from its tensors: they become tensors."""
NEW = "new_"
"""The prefix of the outputs of a decoder that replace values of the state."""
GRAPHS = "graphs.json"
EXTENSIONS = {"onnx": ".onnx", "torch-export": ".pt2"}
QUANTIZATIONS = ("float32", "int8")
"""Types of the weights in ONNX files; int8 is dynamic: activations are quantized while the model runs."""
OPSET = 18
M = TypeVar("M", bound=nn.Module)


@dataclass(frozen=True)
class Value:
    """An input or an output of a graph: its name, and the name of each axis, or the size of one that is fixed."""

    name: str
    axes: tuple[str | int, ...]
    dtype: str = "int64"


@dataclass(frozen=True)
class Signature:
    """The inputs and outputs of a graph. The outputs of a decoder after the first are the new values of a state."""

    name: str
    inputs: tuple[Value, ...]
    outputs: tuple[Value, ...]

    @property
    def state(self) -> tuple[Value, ...]:
        """The inputs of a decoder after the tokens."""
        return self.inputs[1:]

    @property
    def changing(self) -> tuple[str, ...]:
        """The names of the values of a state that every step changes, in the order of the outputs."""
        return tuple(value.name.removeprefix(NEW) for value in self.outputs[1:])


@dataclass(frozen=True)
class Graph:
    """A function of tensors, with example inputs."""

    signature: Signature
    module: nn.Module
    example: tuple[Tensor, ...]


# ---- attention without control flow ----------------------------------------------------------------------------------


class MaskedLayout(Padded):
    """A padded layout whose patterns do not depend on its size."""

    def pattern(self, keys: Padded, causal: bool = False, window: int = 0) -> PaddedPattern:
        return MaskedPattern(self, keys, causal, window) if window else PaddedPattern(self, keys, causal)


class MaskedPattern(PaddedPattern):
    """Local attention by a mask over all keys."""

    def attend(
        self, q: Tensor, k: Tensor, v: Tensor, dropout: float, function: AttentionFunction | None = None
    ) -> Tensor:
        q, k, v = (x.transpose(1, 2) for x in (q, k, v))  # (B, T, H, K) -> (B, H, T, K)
        out, _ = (function or scaled_dot_attention)(q, k, v, self.distances, self.mask, dropout)
        return out.transpose(1, 2)


class WholeCache(KVCache):
    """A KV cache that keeps all positions; those outside the window have no weight."""

    def append(self, k: Tensor, v: Tensor) -> "WholeCache":
        keys, values = (torch.cat(pair, dim=3) for pair in ((self.keys, k.unsqueeze(3)), (self.values, v.unsqueeze(3))))
        return WholeCache(keys, values, self.window)

    def attend(self, q: Tensor, function: AttentionFunction | None = None) -> Tensor:
        distances = torch.arange(1 - self.keys.size(3), 1, device=q.device)[None]  # (1, L)
        mask = distances >= -self.window
        out, _ = (function or scaled_dot_attention)(q.unsqueeze(3), self.keys, self.values, distances, mask, 0.0)
        return out.squeeze(3)


# ---- recurrent layers as loops --------------------------------------------------------------------------------------


class ScannedLayer(RecurrentLayer):
    """A recurrent layer that computes one token after the other: a scan, which a graph can store.

    torch.export unrolls the kernel of a recurrent layer for the number of tokens in its example: such a graph reads
    only texts of this length. Here h_t = cell(W x_t + b, h_{t-1}) at tokens; at padding the state stays as it is.
    """

    def forward(self, x: Tensor, lengths: Tensor | None = None, hidden: Hidden | None = None) -> tuple[Tensor, Hidden]:
        """x (B, T, I) -> h after each token (B, T, K), zero at padding, and the state after the last token."""
        from torch._higher_order_ops.scan import scan

        hidden = hidden or self.initial_state(x.size(0))
        inputs, (_, U, _, d), cell = self.inputs(x), self.matrices(), self.cell
        if isinstance(x.size(1), int) and x.size(1) == 1:  # a step of a language model
            hidden = cell.step(inputs[:, 0], hidden, U, d)
            return hidden[0][:, None], hidden
        lengths = torch.full((x.size(0),), x.size(1)) if lengths is None else lengths
        mask = torch.arange(x.size(1))[:, None, None] < lengths[:, None]  # (T, B, 1)

        def step(state: list[Tensor], token: list[Tensor]) -> tuple[list[Tensor], list[Tensor]]:
            after = cell.step(token[0], tuple(state), U, d)
            state = [torch.where(token[1], new, old) for new, old in zip(after, state, strict=True)]
            return state, [state[0] * token[1]]

        start = [tensor.clone() for tensor in hidden]
        last, (h,) = scan(step, start, [inputs.transpose(0, 1), mask], dim=0, reverse=self.backward)
        return h.transpose(0, 1), tuple(last)


def scanned(model: M) -> M:
    """The model with scans in place of its recurrent layers: a copy, or the model itself if it has none."""
    if not any(isinstance(module, RecurrentLayer) for module in model.modules()):
        return model
    copy = deepcopy(model).requires_grad_(False)
    for parent in list(copy.modules()):
        for name, child in parent.named_children():
            if isinstance(child, StructuredLSTM):
                setattr(parent, name, child.to_dense().requires_grad_(False))
    for module in copy.modules():
        if isinstance(module, RecurrentLayer):
            module.__class__ = ScannedLayer
    return copy


# ---- states as lists of tensors --------------------------------------------------------------------------------------


def prepare_state(state: object) -> Any:
    """A state with caches that keep everything, and with its position as a tensor."""
    if isinstance(state, KVCache):
        return WholeCache(state.keys, state.values, state.window) if state.window else state
    if isinstance(state, list | tuple):
        return type(state)(prepare_state(item) for item in state)
    if not is_dataclass(state) or isinstance(state, Padded):
        return state
    changed = {field.name: prepare_state(getattr(state, field.name)) for field in fields(state)}
    changed |= {name: torch.tensor(changed[name]) for name in COUNTS if isinstance(changed.get(name), int)}
    return replace(state, **changed)  # type: ignore[type-var]


def children(state: object) -> list[tuple[str, object]]:
    """The parts of a state by name."""
    if isinstance(state, list | tuple):
        return [(str(number), item) for number, item in enumerate(state)]
    if isinstance(state, dict):
        return list(state.items())
    return [(field.name, getattr(state, field.name)) for field in fields(state)] if is_dataclass(state) else []


def flatten(state: object, name: str = "state") -> list[tuple[str, Tensor]]:
    """The tensors of a state, with names such as state_layers_0_past_keys."""
    if isinstance(state, Tensor):
        return [(name, state)]
    return [pair for key, item in children(state) for pair in flatten(item, f"{name}_{key}")]


def rebuild(template: object, tensors: Iterator[Tensor], source: int) -> object:
    """A state like `template` of other tensors; `source` is the number of source tokens."""
    if isinstance(template, Tensor):
        return next(tensors)
    if isinstance(template, Padded):
        return MaskedLayout(next(tensors), source)
    if isinstance(template, list | tuple):
        return type(template)(rebuild(item, tensors, source) for item in template)
    if isinstance(template, dict):
        return {key: rebuild(item, tensors, source) for key, item in template.items()}
    if not is_dataclass(template):
        return template
    return replace(template, **{name: rebuild(item, tensors, source) for name, item in children(template)})  # type: ignore[type-var]


# ---- graphs ----------------------------------------------------------------------------------------------------------


def tokens_of(ids: Tensor, mask: Tensor) -> Tokens:
    """Token ids (B, T) and their mask, 1 at tokens and 0 at the padding after them."""
    return Tokens(ids, MaskedLayout(mask.sum(dim=1), ids.size(1)))


class EncoderGraph(nn.Module):
    """ids, mask (B, S) -> the state before the first token."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model

    def forward(self, ids: Tensor, mask: Tensor) -> tuple[Tensor, ...]:
        return tuple(tensor for _, tensor in flatten(prepare_state(self.model.start(tokens_of(ids, mask)))))  # type: ignore[operator]


class DecoderGraph(nn.Module):
    """The last tokens (B, W) and a state -> logits (B, W, V), and the tensors of the state that change."""

    def __init__(self, model: nn.Module, template: object, state: list[Value], changing: list[int]) -> None:
        super().__init__()
        self.model, self.template, self.changing = model, template, changing
        places = [(number, value.axes.index(SOURCE)) for number, value in enumerate(state) if SOURCE in value.axes]
        self.source_axis = places[0] if places else None

    def forward(self, tokens: Tensor, *state: Tensor) -> tuple[Tensor, ...]:
        source = 0 if self.source_axis is None else state[self.source_axis[0]].size(self.source_axis[1])
        logits, after = self.model.step(tokens, rebuild(self.template, iter(state), source))  # type: ignore[operator]
        tensors = [tensor for _, tensor in flatten(after)]
        return logits, *(tensors[number] for number in self.changing)


class TextGraph(nn.Module):
    """ids, mask, token types (B, T) -> the outputs of a text encoder with a head."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model

    def forward(self, ids: Tensor, mask: Tensor, types: Tensor, *more: Tensor) -> tuple[Tensor, ...]:
        outputs = self.model(tokens_of(ids, mask), types, *more)
        return (outputs,) if isinstance(outputs, Tensor) else tuple(outputs)


class PretrainingGraph(TextGraph):
    """ids, mask, token types (B, T) -> logits of every token (B, T, V) and of next-sentence prediction (B, 2)."""

    model: BertPretraining

    def forward(self, ids: Tensor, mask: Tensor, types: Tensor, *more: Tensor) -> tuple[Tensor, ...]:
        tokens, model = tokens_of(ids, mask), self.model
        h = model.bert(tokens, types)  # (B, T, D)
        words = model.masked(h, model.bert.words.weight)
        next_logits = model.next(model.bert.pool(h, tokens.layout))
        return F.linear(words.hidden, words.weight, words.bias), next_logits


def graphs_of(model: nn.Module) -> list[Graph] | None:
    """The graphs of a model; None for convolutional models (control flow) and n-gram models (tables)."""
    if isinstance(model, EncoderModel | BertPretraining):
        return [text_graph(model)]
    if isinstance(model, Transformer | RecurrentModel):
        return writer_graphs(model, has_source=True)
    if isinstance(model, TransformerLanguageModel | RecurrentLanguageModel):
        return writer_graphs(model, has_source=False)
    return None


def text_graph(model: nn.Module) -> Graph:
    ids, mask = example_tokens(SIZES)
    example = [ids, mask, torch.zeros_like(ids)]
    graph = PretrainingGraph(model) if isinstance(model, BertPretraining) else TextGraph(model)
    names = [LOGITS, "next_logits"] if isinstance(model, BertPretraining) else [LOGITS]
    inputs = [INPUT_IDS, ATTENTION_MASK, TOKEN_TYPES]
    if isinstance(model, BiaffineParser):
        names, inputs = ["arcs", "relations"], [*inputs, WORDS]
        example.append(mask.bool())

    def outputs(sizes: dict[str, int]) -> list[Tensor]:
        ids, mask = example_tokens(sizes)
        return list(graph(ids, mask, torch.zeros_like(ids), *([mask.bool()] if WORDS in inputs else [])))

    with torch.no_grad():
        written = named_values(names, outputs, (BATCH, SOURCE))
    read = [Value(name, (BATCH, SOURCE), dtype_of(tensor)) for name, tensor in zip(inputs, example, strict=True)]
    graph = type(graph)(scanned(model))
    return Graph(Signature("model", tuple(read), tuple(written)), graph.eval(), tuple(example))


def writer_graphs(model: nn.Module, has_source: bool) -> list[Graph]:
    """The graphs of a model that writes a text: encoder and decoder; only a decoder if it has no source."""
    with torch.no_grad():
        state, tokens = state_of(model, SIZES)
        names = [name for name, _ in flatten(state)]
        values = named_values(names, lambda sizes: [tensor for _, tensor in flatten(state_of(model, sizes)[0])], SIZES)
        logits, after = model.step(tokens, state)  # type: ignore[operator]
    before = [tensor for _, tensor in flatten(state)]
    changing = [number for number, (_, new) in enumerate(flatten(after)) if new is not before[number]]
    outputs = [Value(LOGITS, (BATCH, HYPOTHESES, logits.size(-1)), dtype_of(logits))]
    outputs += [replace(values[number], name=NEW + names[number]) for number in changing]
    inputs = [Value(INPUT_IDS, (BATCH, HYPOTHESES)), *values]
    decoder = DecoderGraph(scanned(model), state, values, changing).eval()
    graphs = [Graph(Signature("decoder", tuple(inputs), tuple(outputs)), decoder, (tokens, *before))]
    if has_source:
        read = tuple(Value(name, (BATCH, SOURCE)) for name in (INPUT_IDS, ATTENTION_MASK))
        encoder = Signature("encoder", read, tuple(values))
        graphs.insert(0, Graph(encoder, EncoderGraph(scanned(model)).eval(), example_tokens(SIZES)))
    return graphs


def example_tokens(sizes: dict[str, int]) -> tuple[Tensor, Tensor]:
    """Token ids and their mask, (B, S) each: the first sentence is one token shorter."""
    ids = torch.arange(sizes[BATCH] * sizes[SOURCE]).view(sizes[BATCH], -1) % 3
    mask = torch.ones_like(ids)
    mask[0, -1] = 0
    return ids, mask


def state_of(model: Any, sizes: dict[str, int]) -> tuple[Any, Tensor]:
    """A state of these sizes, and the tokens (B, W) of the next step."""
    tokens = torch.arange(sizes[BATCH] * sizes[HYPOTHESES]).view(sizes[BATCH], -1) % 3
    state = prepare_state(model.start(tokens_of(*example_tokens(sizes))).reorder(torch.zeros_like(tokens)))
    for _ in range(sizes[PAST]):
        _, state = model.step(tokens, state)
    return state, tokens


def named_values(
    names: Sequence[str], compute: Callable[[dict[str, int]], list[Tensor]], axes: Iterable[str]
) -> list[Value]:
    """The values of these names that `compute` returns for inputs of given sizes; an axis that grows has a name."""
    base = compute(SIZES)
    found: list[list[str | int]] = [list(tensor.shape) for tensor in base]
    for axis in axes:
        for number, tensor in enumerate(compute(SIZES | {axis: SIZES[axis] + 1})):
            for place, (first, second) in enumerate(zip(base[number].shape, tensor.shape, strict=True)):
                if first != second:
                    found[number][place] = axis
    return [Value(name, tuple(row), dtype_of(item)) for name, row, item in zip(names, found, base, strict=True)]


def dtype_of(tensor: Tensor) -> str:
    """The type of the numbers of a tensor, as NumPy names it."""
    return str(tensor.dtype).removeprefix("torch.")


def program_of(graph: Graph) -> torch.export.ExportedProgram:
    """The graph as a program of torch.export, for inputs of any size."""
    free = torch.export.Dim.DYNAMIC
    shapes: list[object] = [
        {place: free for place, axis in enumerate(value.axes) if isinstance(axis, str)}
        for value in graph.signature.inputs
    ]
    kinds = [parameter.kind for parameter in inspect.signature(graph.module.forward).parameters.values()]
    named = kinds.count(inspect.Parameter.POSITIONAL_OR_KEYWORD)  # the others are one tuple
    nested = (*shapes[:named], tuple(shapes[named:])) if shapes[named:] else tuple(shapes)
    with torch.no_grad():
        return torch.export.export(graph.module, graph.example, dynamic_shapes=nested, strict=False)


# ---- files -----------------------------------------------------------------------------------------------------------


class _Value(BaseModel):
    name: str
    axes: list[int | str]
    dtype: str


class _Signature(BaseModel):
    name: str
    inputs: list[_Value]
    outputs: list[_Value]


def import_onnx() -> tuple[Any, Any]:
    """The packages onnx and onnxruntime, or an error that says how to install them."""
    try:
        import onnx
        import onnxruntime
        import onnxscript  # noqa: F401  (torch.onnx uses it)
    except (ImportError, OSError) as error:
        raise missing_onnx(error) from error
    return onnx, onnxruntime


def missing_onnx(error: Exception) -> UserError:
    problem = f"ONNX needs the packages onnx, onnxscript and onnxruntime, which cannot be imported ({error})"
    return UserError(problem, "pip install 'regard[onnx]'", code="missing-package", where="onnx")


def write_graphs(folder: Path, graphs: Sequence[Graph], target: str, quantization: str = "float32") -> None:
    """Write graphs for a target (`EXTENSIONS`) into an existing folder."""
    for graph in graphs:
        path = folder / f"{graph.signature.name}{EXTENSIONS[target]}"
        with quiet(), warnings.catch_warnings():
            warnings.simplefilter("ignore")  # those of torch's own exporters about themselves
            if target == "onnx":
                write_onnx(path, graph, quantization)
            else:
                torch.export.save(trimmed(program_of(graph)), path)
    write_json(folder / GRAPHS, [asdict(graph.signature) for graph in graphs])


def read_signatures(folder: Path) -> list[Signature]:
    def read(values: list[_Value]) -> tuple[Value, ...]:
        return tuple(Value(value.name, tuple(value.axes), value.dtype) for value in values)

    return [
        Signature(entry.name, read(entry.inputs), read(entry.outputs))
        for entry in read_json(folder / GRAPHS, list[_Signature])
    ]


def write_onnx(path: Path, graph: Graph, quantization: str) -> None:
    """Write one graph as an ONNX file."""
    onnx, _ = import_onnx()
    require_quantization(quantization, QUANTIZATIONS)
    signature = graph.signature
    program = torch.onnx.export(
        trimmed(program_of(graph)),
        input_names=[value.name for value in signature.inputs],
        output_names=[value.name for value in signature.outputs],
        opset_version=OPSET,
        verbose=False,
    )
    assert program is not None
    model = program.model_proto
    names: dict[str, str] = {}
    for value, read in zip(signature.inputs, model.graph.input, strict=True):
        for axis, dimension in zip(value.axes, read.type.tensor_type.shape.dim, strict=True):
            if isinstance(axis, str):
                names[dimension.dim_param] = axis  # in place of the name that torch invented
    for item in (*model.graph.input, *model.graph.output, *model.graph.value_info):
        for dimension in item.type.tensor_type.shape.dim:
            if dimension.dim_param in names:
                dimension.dim_param = names[dimension.dim_param]
    for item in (*model.graph.node, *model.graph.value_info, *model.graph.input, *model.graph.output):
        item.ClearField("metadata_props")  # names of modules and lines of code
    if quantization == "int8":
        from onnxruntime.quantization import QuantType, quantize_dynamic

        model.graph.ClearField("value_info")  # shapes from before torch's optimisations, which onnx would refuse
        quantize_dynamic(model, path, weight_type=QuantType.QInt8)
    else:
        onnx.save(model, path)


def trimmed(program: torch.export.ExportedProgram) -> torch.export.ExportedProgram:
    """The program without weights that it does not use, and without the lines of code that it was made from.

    An encoder does not use the weights of the decoder. Lines of code name files of this machine.
    """
    nodes = {node.name: node for node in program.graph.nodes}
    specs = program.graph_signature.input_specs
    for spec in [spec for spec in specs if spec.kind == InputKind.PARAMETER and not nodes[spec.arg.name].users]:
        specs.remove(spec)
        program.graph.erase_node(nodes[spec.arg.name])
        program.state_dict.pop(str(spec.target), None)
    for node in program.graph.nodes:
        node.meta.pop("stack_trace", None)
    return program


@contextmanager
def quiet() -> Iterator[None]:
    """Keep progress messages of the exporters away from stdout and from the log."""
    loggers = [logging.getLogger(name) for name in ("torch.onnx", "torch.__trace", "onnxscript", "root")]
    levels = [logger.level for logger in loggers]
    for logger in loggers:
        logger.setLevel(logging.ERROR)
    try:
        with redirect_stdout(StringIO()):
            yield
    finally:
        for logger, level in zip(loggers, levels, strict=True):
            logger.setLevel(level)
