"""Weights of ONNX files: named or constants of products, quantized or not, inside of another module or not."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from tests.exchange.test_exchange_bert import vocabulary

from regard.errors import UserError
from regard.exchange.bert import SEQUENCE_CLASSIFICATION as HEAD
from regard.exchange.bert import FineTunedBert, read_bert, read_finetuned, write_bert, write_finetuned
from regard.exchange.folders import dequantized, open_model
from regard.models.bert import Bert, BertPretraining, BertSettings
from regard.models.text_encoder import EncoderWithHead
from regard.run.importing import import_model
from regard.text.bert import SPECIALS, BertTokenizer
from regard.training.weights import weights_of

onnx = pytest.importorskip("onnx")
SETTINGS = BertSettings.model_validate(
    dict(size="custom", d_model=8, num_heads=2, d_ff=12, layers=2, max_positions=256)
)


def saved(folder: Path) -> dict[str, torch.Tensor]:
    """A small BERT with classes in a folder; its tensors by the names of transformers."""
    torch.manual_seed(1)
    model = EncoderWithHead(Bert(SETTINGS, len(vocabulary())), 2, True, 0.0)
    for parameter in model.parameters():
        torch.nn.init.normal_(parameter)
    write_finetuned(folder, FineTunedBert(HEAD, ("good", "bad"), SETTINGS, weights_of(model)), vocabulary())
    return open_model(folder).tensors


def constant(name: str, array: Any, graph: Any) -> None:
    graph.initializer.append(onnx.numpy_helper.from_array(np.ascontiguousarray(array), name))


def quantized(name: str, array: Any, graph: Any, by_column: bool) -> str:
    """Add a weight as ONNX Runtime quantizes it: int8 by column, or uint8 with one scale."""
    if by_column:
        scale = (np.abs(array).max(0) / 127).astype(np.float32)
        zero: Any = np.zeros(array.shape[1], np.int8)
        values = np.round(array / scale).astype(np.int8)
    else:
        scale = np.float32((array.max() - array.min()) / 255)
        zero = np.uint8(np.round(-array.min() / scale))
        values = np.clip(np.round(array / scale) + zero, 0, 255).astype(np.uint8)
    for end, content in (("quantized", values), ("scale", scale), ("zero_point", zero)):
        constant(f"{name}_{end}", np.asarray(content), graph)
    return f"{name}_quantized"


def write_onnx(path: Path, tensors: dict[str, torch.Tensor], quantize: bool, wrapper: str = "") -> None:
    """The tensors as an export has them; nothing but weights and the nodes that read them."""
    graph = onnx.GraphProto(name="model")
    for number, (name, tensor) in enumerate(tensors.items()):
        array, layer = tensor.numpy(), wrapper + name.removesuffix(".weight")
        product = f"/{layer.replace('.', '/')}/"
        if array.ndim == 1:
            constant(wrapper + name, array, graph)
        elif "embeddings" in name:
            quantized(wrapper + name, array, graph, False) if quantize else constant(wrapper + name, array, graph)
        elif quantize:
            unnamed = quantized(f"onnx::MatMul_{number}", array.T, graph, True)
            node = onnx.helper.make_node("MatMulInteger", ["x", unnamed], ["y"], name=f"{product}MatMul_quant")
            graph.node.append(node)
        elif "pooler" in name:
            constant(wrapper + name, array, graph)
            gemm = onnx.helper.make_node("Gemm", ["x", wrapper + name], ["y"], name=f"{product}Gemm", transB=1)
            graph.node.append(gemm)
        else:
            constant(f"onnx::MatMul_{number}", array.T, graph)
            names = ["x", f"onnx::MatMul_{number}"]
            graph.node.append(onnx.helper.make_node("MatMul", names, ["y"], name=f"{product}MatMul"))
    path.write_bytes(onnx.helper.make_model(graph).SerializeToString())


def test_a_float_graph_has_the_same_weights(tmp_path: Path) -> None:
    tensors = saved(tmp_path / "bert")
    expected = read_finetuned(tmp_path / "bert")
    (tmp_path / "bert" / "model.safetensors").unlink()
    write_onnx(tmp_path / "bert" / "model.onnx", tensors, quantize=False)
    read = read_finetuned(open_model(tmp_path / "bert"))
    assert read.weights.keys() == expected.weights.keys() and read.labels == expected.labels
    assert all(torch.equal(tensor, expected.weights[name]) for name, tensor in read.weights.items())
    imported = import_model(tmp_path / "bert" / "model.onnx", tmp_path / "run")  # the file itself
    assert imported.run.recipe.task == "classification" and imported.random_weights == []


def test_quantized_weights_in_another_module(tmp_path: Path) -> None:
    tensors = saved(tmp_path / "bert")
    expected = read_finetuned(tmp_path / "bert").weights
    (tmp_path / "bert" / "model.safetensors").unlink()
    config = json.loads((tmp_path / "bert" / "config.json").read_text())
    (tmp_path / "bert" / "config.json").write_text(json.dumps(config | {"architectures": ["TwoHeads"]}))
    other = {name.replace("classifier", "other_head"): tensor for name, tensor in tensors.items()}
    write_onnx(tmp_path / "bert" / "onnx.onnx", other, quantize=True, wrapper="wrapped.")
    _, read = read_bert(open_model(tmp_path / "bert"))
    compared = 0
    for name, tensor in read.items():
        original = expected[name.replace("bert.", "encoder.", 1)]
        assert float((tensor - original).abs().max()) < 0.04 and tensor.shape == original.shape
        compared += 1
    assert compared == len(expected) - 2  # all but the head
    assert "masked.dense.weight" in import_model(tmp_path / "bert", tmp_path / "run").random_weights


@pytest.mark.parametrize("kind", [torch.float16, torch.float32, torch.float64])
def test_quantized_weights_are_computed_in_float32(kind: torch.dtype) -> None:
    scale = torch.tensor([0.1, 0.3, 1e-6], dtype=kind)  # rounded, and the last one a subnormal half
    q, zero = torch.tensor([[0, 3, 255], [7, 128, 1]], dtype=torch.uint8), torch.tensor(5, dtype=torch.uint8)
    read = dequantized({"w_quantized": q, "w_scale": scale, "w_zero_point": zero, "v_quantized": q, "bias": scale})
    assert read.keys() == {"w", "v_quantized", "bias"} and read["w"].dtype == torch.float32
    assert torch.equal(read["v_quantized"], q) and torch.equal(read["bias"], scale)
    expected = [[np.float32(int(x) - 5) * np.float32(float(s)) for x, s in zip(row, scale, strict=True)] for row in q]
    assert read["w"].tolist() == np.array(expected).tolist()


def test_graphs_without_names_and_damaged_files_are_refused(tmp_path: Path) -> None:
    tensors = saved(tmp_path / "bert")
    (tmp_path / "bert" / "model.safetensors").unlink()
    write_onnx(tmp_path / "bert" / "model.onnx", tensors, quantize=False)
    model = onnx.load(str(tmp_path / "bert" / "model.onnx"))
    for node in model.graph.node:
        node.name = ""
    onnx.save(model, str(tmp_path / "bert" / "model.onnx"))
    with pytest.raises(UserError) as error:
        import_model(tmp_path / "bert", tmp_path / "run")
    assert error.value.code == "damaged-file"
    (tmp_path / "bert" / "model.onnx").write_bytes(b"\xff\xff\xff")
    with pytest.raises(UserError) as error:
        import_model(tmp_path / "bert", tmp_path / "run")
    assert error.value.code == "damaged-file" and error.value.where.endswith("model.onnx")


def test_another_name_of_safetensors(tmp_path: Path) -> None:
    tokenizer = BertTokenizer([*SPECIALS, *"abc"])
    torch.manual_seed(2)
    weights = weights_of(BertPretraining(SETTINGS, len(tokenizer)))
    write_bert(tmp_path / "bert", SETTINGS, weights, tokenizer)
    (tmp_path / "bert" / "model.safetensors").rename(tmp_path / "bert" / "model.fp16.safetensors")
    _, read = read_bert(open_model(tmp_path / "bert"))
    assert all(torch.equal(read[name], weights[name]) for name in read)
