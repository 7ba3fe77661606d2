"""Graphs as files: `graphs.json` says what goes in and out of every graph; the graphs are beside it.

    onnx            encoder.onnx, decoder.onnx or model.onnx                  ONNX, opset 18; run by onnxruntime
    torch-export    encoder.pt2, decoder.pt2 or model.pt2                     torch.export; run by torch

An axis in graphs.json is a name (batch, hypotheses, source, past) or a number.
"""

import logging
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, redirect_stdout
from io import StringIO
from pathlib import Path
from typing import Any

import torch
from pydantic import BaseModel
from torch.export.graph_signature import InputKind

from regard.errors import UserError
from regard.exchange.folders import require_quantization
from regard.exchange.graphs import Graph, Signature, Value, program_of
from regard.files import write_json
from regard.reading import read_json

GRAPHS = "graphs.json"
EXTENSIONS = {"onnx": ".onnx", "torch-export": ".pt2"}
QUANTIZATIONS = ("float32", "int8")
"""Types of the weights in ONNX files; int8 is dynamic: activations are quantized while the model runs."""
OPSET = 18


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
    """The error that the packages of ONNX are not installed."""
    return UserError(
        f"ONNX needs the packages onnx, onnxscript and onnxruntime, which cannot be imported ({error})",
        "pip install 'regard[onnx]'",
        code="missing-package",
        where="onnx",
    )


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
    write_json(folder / GRAPHS, [to_json(graph.signature) for graph in graphs])


def read_signatures(folder: Path) -> list[Signature]:
    """The graphs that graphs.json describes."""
    return [
        Signature(entry.name, *(tuple(map(to_value, values)) for values in (entry.inputs, entry.outputs)))
        for entry in read_json(folder / GRAPHS, list[_Signature])
    ]


def to_value(entry: _Value) -> Value:
    return Value(entry.name, tuple(entry.axes), entry.dtype)


def to_json(signature: Signature) -> dict[str, object]:
    """A signature as an entry of graphs.json."""
    inputs, outputs = ([value._asdict() for value in values] for values in (signature.inputs, signature.outputs))
    return {"name": signature.name, "inputs": inputs, "outputs": outputs}


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
    name_axes(model, signature)
    for item in (*model.graph.node, *model.graph.value_info, *model.graph.input, *model.graph.output):
        item.ClearField("metadata_props")  # names of modules and lines of code
    if quantization == "int8":
        from onnxruntime.quantization import QuantType, quantize_dynamic

        model.graph.ClearField("value_info")  # shapes from before torch's optimisations, which onnx would refuse
        quantize_dynamic(model, path, weight_type=QuantType.QInt8)
    else:
        onnx.save(model, path)


def name_axes(model: Any, signature: Signature) -> None:
    """Give the free axes of an ONNX model their names in place of those that torch invented."""
    names: dict[str, str] = {}
    for value, read in zip(signature.inputs, model.graph.input, strict=True):
        for axis, dimension in zip(value.axes, read.type.tensor_type.shape.dim, strict=True):
            if isinstance(axis, str):
                names[dimension.dim_param] = axis
    for item in (*model.graph.input, *model.graph.output, *model.graph.value_info):
        for dimension in item.type.tensor_type.shape.dim:
            if dimension.dim_param in names:
                dimension.dim_param = names[dimension.dim_param]


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
