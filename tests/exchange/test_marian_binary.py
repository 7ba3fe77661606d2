"""Marian's own files: the same model as float32, as int8 and as npz, and files that are not one."""

import io
import struct
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from tests.exchange.sentencepiece_files import model_file

from regard.attention.layouts import Padded
from regard.errors import UserError
from regard.exchange.marian import layers, shapes
from regard.exchange.marian_binary import EMBEDDINGS, marian_name, parse_config, position_table, read_marian_binary
from regard.models.transformer import Transformer, TransformerSettings
from regard.run.importing import import_model
from regard.run.model import Translator
from regard.text.symbols import BOS, EOS, PAD
from regard.training.weights import load_weights

Arrays = dict[str, np.ndarray[Any, np.dtype[np.float32]]]
PIECES = [("</s>", 0.0, 3), ("<unk>", 0.0, 2), *((f"▁{letter}", -2.0, 1) for letter in "abcdefgh"), ("▁", -3.0, 1)]
V, D = len(PIECES), 8
YAML = """dec-cell: {cell}
dec-depth: 2
dim-emb: 8
dim-vocabs:
  - 11
  - 11
enc-depth: 1
input-types: []
tied-embeddings-all: true
transformer-decoder-autoreg: {autoreg}
transformer-dim-ffn: 12
transformer-ffn-activation: relu
transformer-ffn-depth: 2
transformer-heads: 2
transformer-postprocess: dan
transformer-postprocess-emb: d
transformer-postprocess-top: ""
transformer-preprocess: ""
type: transformer
"""


def settings(decoder_layer: str, tie: str = "all") -> TransformerSettings:
    values = dict(
        size="custom", d_model=D, num_heads=2, d_ff=12, encoder_layers=1, decoder_layers=2, positions="learned",
        max_positions=1024, output_bias=True, decoder_layer=decoder_layer, tie=tie,
    )  # fmt: skip
    return TransformerSettings.model_validate(values)


def arrays(decoder_layer: str, names: tuple[str, ...] = ("Wemb",)) -> Arrays:
    """Random weights by the names and in the shapes of Marian."""
    generator = np.random.default_rng(3)
    made: dict[str, Any] = {name: generator.normal(0, 0.5, (V, D)) for name in names}
    made["decoder_ff_logit_out_b"] = generator.normal(0, 0.5, (1, V))
    for name, shape in layers(shapes(settings(decoder_layer), V, V)).items():
        marian = tuple(reversed(shape)) if len(shape) == 2 else (1, *shape)
        made[marian_name(name, decoder_layer)] = generator.normal(0, 0.5, marian)
    return {name: array.astype(np.float32) for name, array in made.items()}


def yaml(decoder_layer: str) -> str:
    return YAML.format(cell="ssru", autoreg={"ssru": "rnn", "attention": "self-attention"}[decoder_layer])


def binary(values: Arrays, config: str, quantized: bool = False) -> bytes:
    """A model.bin as marian-conv writes it."""
    items: list[tuple[str, int, tuple[int, ...], bytes]] = []
    for name, array in values.items():
        if quantized and array.shape[0] > 1:
            multiplier = 127 / np.abs(array).max()
            rows = np.round(array if name in EMBEDDINGS else array.T, 9) * multiplier
            data = np.round(rows).astype(np.int8).tobytes() + struct.pack("<f", multiplier)
            items.append((name, 0x4101, array.shape, data + bytes(-len(data) % 256)))
            items.append((f"{name}_QuantMultA", 0x404, (1, 1), struct.pack("<f", 3.0) + bytes(252)))
        else:
            items.append((name, 0x404, array.shape, array.tobytes()))
    items.append(("special:model.yml", 0x101, (len(config) + 1,), config.encode() + b"\0"))
    head = struct.pack("<QQ", 1, len(items))
    head += b"".join(
        struct.pack("<4Q", len(name) + 1, kind, len(shape), len(data)) for name, kind, shape, data in items
    )
    head += b"".join(name.encode() + b"\0" for name, _, _, _ in items)
    head += b"".join(struct.pack(f"<{len(shape)}i", *shape) for _, _, shape, _ in items)
    gap = -(len(head) + 8) % 256
    return head + struct.pack("<Q", gap) + bytes(gap) + b"".join(data for _, _, _, data in items)


def written(folder: Path, name: str, content: bytes) -> Path:
    folder.mkdir()
    (folder / name).write_bytes(content)
    (folder / "vocab.enpt.spm").write_bytes(model_file(PIECES))
    return folder / name


def logits(path: Path) -> torch.Tensor:
    read = read_marian_binary(path)
    model = Transformer(read.settings, *map(len, read.tokenizers)).eval()
    load_weights(model, read.weights, "test")
    generator = torch.Generator().manual_seed(1)
    src, tgt = (torch.randint(EOS, V + EOS, (2, 6), generator=generator) for _ in range(2))
    tgt[:, 0] = BOS
    lengths = torch.tensor([6, 4])
    with torch.no_grad():
        return model(Padded.of(src, lengths), Padded.of(tgt, torch.tensor([6, 6]))).logits()


@pytest.mark.parametrize("decoder_layer", ["ssru", "attention"])
def test_all_kinds_of_files_are_the_same_model(decoder_layer: str, tmp_path: Path) -> None:
    values, config = arrays(decoder_layer), yaml(decoder_layer)
    floats = logits(written(tmp_path / "float", "model.bin", binary(values, config)))
    every: dict[str, Any] = values | {"special:model.yml": np.frombuffer(config.encode() + b"\0", np.int8)}
    np.savez(tmp_path / "model.npz", **every)
    npz = logits(written(tmp_path / "npz", "model.npz", (tmp_path / "model.npz").read_bytes()))
    assert torch.equal(floats, npz)
    quantized = logits(written(tmp_path / "int8", "model.enpt.intgemm8.bin", binary(values, config, quantized=True)))
    real = [token for token in range(V + EOS) if token not in (PAD, BOS, EOS + 1)]
    assert 0 < float((quantized - floats)[..., real].abs().max()) < 0.3
    assert float(floats[..., [PAD, BOS, EOS + 1]].max()) < -500  # <unk> is never written


def test_weights_are_where_the_equations_of_marian_have_them(tmp_path: Path) -> None:
    """The first position of the decoder, by Marian's own equations."""
    values = arrays("ssru")
    read = read_marian_binary(written(tmp_path / "model", "model.bin", binary(values, yaml("ssru"))))
    model = Transformer(read.settings, *map(len, read.tokenizers)).eval()
    load_weights(model, read.weights, "test")
    start = position_table(1, D)[0].numpy()  # a translation begins with zeros
    assert np.allclose(start[: D // 2], 0) and np.allclose(start[D // 2 :], 1)
    forget = 1 / (1 + np.exp(-(start @ values["decoder_l1_rnn_Wf"] + values["decoder_l1_rnn_bf"][0])))
    cell = np.maximum((1 - forget) * (start @ values["decoder_l1_rnn_W"]), 0) + start
    normed = (cell - cell.mean()) / np.sqrt(cell.var() + 1e-6)
    expected = normed * values["decoder_l1_rnn_ffn_ln_scale"][0] + values["decoder_l1_rnn_ffn_ln_bias"][0]
    layer = model.decoder[0]
    with torch.no_grad():
        x = model.embed(model.tgt_embedding, torch.tensor([[BOS]]), torch.zeros(1, dtype=torch.long))
        y, _ = layer.attention.step(x, layer.attention.start(1, x))
        ours = layer.attention_residual.post(x, y)
    assert np.allclose(ours[0, 0].numpy(), expected, atol=1e-4)
    assert torch.allclose(read.weights["tgt_embedding.weight"][EOS], torch.tensor(values["Wemb"][0]))


def test_a_run_translates_and_knows_its_languages(tmp_path: Path) -> None:
    written(tmp_path / "model", "model.enpt.intgemm.alphas.bin", binary(arrays("ssru"), yaml("ssru"), quantized=True))
    imported = import_model(tmp_path / "model", tmp_path / "run")
    recipe: Any = imported.run.recipe
    assert imported.random_weights == []
    assert (recipe.data.src_lang, recipe.data.tgt_lang, recipe.decoding.beam) == ("en", "pt", 1)
    translator = Translator.load(tmp_path / "run", device="cpu")
    assert translator.translate("a b", max_length=5) == translator.translate(["a b"], search="greedy", max_length=5)[0]


def test_separate_vocabularies(tmp_path: Path) -> None:
    path = written(
        tmp_path / "model", "model.bin", binary(arrays("ssru", ("encoder_Wemb", "decoder_Wemb")), yaml("ssru"))
    )
    read = read_marian_binary(path)
    assert read.settings.tie == "output" and "src_embedding.weight" in read.weights


def test_settings_are_lines_and_lists() -> None:
    parsed = parse_config(YAML)
    assert parsed["dim-vocabs"] == ["11", "11"] and parsed["transformer-preprocess"] == ""


def test_other_files_are_refused(tmp_path: Path) -> None:
    values, config = arrays("ssru"), yaml("ssru")
    whole = binary(values, config)
    broken = {
        "short": (whole[: len(whole) // 2], "damaged-file"),
        "empty": (b"", "damaged-file"),
        "lexicon": (struct.pack("<QQ", 0xF11A48D5013417F5, 3), "damaged-file"),
        "pre-norm": (binary(values, config.replace('preprocess: ""', "preprocess: n")), "unsupported"),
        "aan": (binary(values, config.replace("autoreg: rnn", "autoreg: average-attention")), "unsupported"),
        "width": (binary(values, config.replace("dim-emb: 8", "dim-emb: x")), "damaged-file"),
        "shape": (whole.replace(struct.pack("<2i", V, D), struct.pack("<2i", -V, -D)), "damaged-file"),
        "more": (binary(values | {"other": values["Wemb"]}, config), "unsupported"),
    }
    for name, (content, code) in broken.items():
        with pytest.raises(UserError) as error:
            read_marian_binary(written(tmp_path / name, "model.bin", content))
        assert error.value.code == code, name
    texts = io.BytesIO()
    named: Any = {"special:model.yml": np.frombuffer(config.encode(), np.int8), "Wemb": np.array(["a", "b"])}
    np.savez(texts, **named)
    for name, content in {"npz": b"", "text": texts.getvalue()}.items():
        with pytest.raises(UserError) as error:
            read_marian_binary(written(tmp_path / name, "model.npz", content))
        assert error.value.code == "damaged-file"


def test_a_width_without_positions_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys.modules[__name__], "D", 2)
    content = binary(arrays("ssru"), yaml("ssru").replace("dim-emb: 8", "dim-emb: 2"))
    with pytest.raises(UserError) as error:
        read_marian_binary(written(tmp_path / "narrow", "model.bin", content))
    assert error.value.code == "damaged-file"


def test_damaged_bytes_are_refused_or_read(tmp_path: Path) -> None:
    """Of random changes of the table of contents, none ends in anything but a UserError."""
    whole, generator = binary(arrays("ssru"), yaml("ssru"), quantized=True), np.random.default_rng(4)
    path, refused = written(tmp_path / "model", "model.bin", whole), 0
    for _ in range(150):
        damaged = bytearray(whole)
        for place in generator.integers(0, len(whole) // 8, 3):
            damaged[place] = generator.integers(0, 256)
        path.write_bytes(bytes(damaged))
        try:
            read_marian_binary(path)
        except UserError as error:
            refused += 1
            assert error.code in ("damaged-file", "unsupported", "not-finite")
    assert refused > 50
