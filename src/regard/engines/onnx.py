"""The engine onnx: the graphs of a model run by onnxruntime on a CPU, searched by `decoding`.

The search is ours, so every option of a search works, and translations equal those of torch up to rounding.
"""

from collections.abc import Mapping
from functools import partial
from pathlib import Path

import torch
from torch import Tensor

from regard.engines.graphs import GraphModel, GraphStepper, Runner, open_graphs
from regard.errors import UserError
from regard.exchange.graphs import Signature, missing_onnx


def open_onnx(folder: Path, threads: int | None = None) -> GraphStepper | GraphModel:
    """The ONNX graphs of a folder, run with as many threads as torch by default."""
    return open_graphs(folder, "onnx", partial(onnx_runner, threads=threads or torch.get_num_threads()))


def onnx_runner(path: Path, signature: Signature, threads: int) -> Runner:
    try:
        import onnxruntime
    except (ImportError, OSError) as error:
        raise missing_onnx(error) from error
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
