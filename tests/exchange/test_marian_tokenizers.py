"""Marian's own files: ids are reordered, and the model computes the same."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from tests.exchange.sentencepiece_files import write_model
from tests.tasks.make import make_task

from regard.attention.layouts import Padded
from regard.decoding.settings import DecodingSettings
from regard.errors import UserError
from regard.exchange.marian import read_marian, write_marian
from regard.exchange.marian_tokenizers import duplicates, read_sentencepiece_tokenizers, reorder_tokens
from regard.exchange.sentencepiece import read_sentencepiece
from regard.models.transformer import Transformer
from regard.tasks.translation import Translation
from regard.text.symbols import BOS, EOS
from regard.training.weights import load_weights

pytestmark = pytest.mark.filterwarnings("ignore")  # transformers' own deprecations are not ours to mend
SOURCE = {"▁the": -2.0, "▁cat": -3.0, "▁": -4.0, "c": -5.0, "a": -5.0, "t": -5.0, "s": -5.5, "▁!": -7.0}
TARGET = {"▁die": -2.0, "▁Katze": -3.0, "▁": -3.5, "K": -6.0, "a": -4.0, "t": -4.5, "z": -5.0, "e": -5.0}
PAIRS = [("▁the ▁cat", "▁die ▁Katze"), ("▁cat s", "▁ K a t z e ▁Katze"), ("▁the ▁the ▁cat ▁ s a t", "a t z ▁die e")]
WITHOUT_ID = "▁!"
"""A piece of the source that has no number: the model reads it as unknown."""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A small Marian that has begun to learn a few sentences."""
    write_marian_folder(tmp_path / "opus")
    return tmp_path / "opus"


def write_marian_folder(folder: Path) -> None:
    import transformers

    pieces = dict.fromkeys([*SOURCE, *TARGET])
    pieces.pop(WITHOUT_ID)
    token_ids = {piece: n for n, piece in enumerate(["</s>", "<unk>", *pieces, ">>nds<<", "<pad>"])}
    last = token_ids["<pad>"]
    torch.manual_seed(7)
    config = transformers.MarianConfig(
        vocab_size=len(token_ids), d_model=16, encoder_layers=1, decoder_layers=2, encoder_attention_heads=2,
        decoder_attention_heads=2, encoder_ffn_dim=20, decoder_ffn_dim=20, activation_function="swish",
        max_position_embeddings=64, scale_embedding=True, pad_token_id=last, eos_token_id=0,
        decoder_start_token_id=last, forced_eos_token_id=0,
    )  # fmt: skip
    model = transformers.MarianMTModel(config)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if "embed_positions" not in name:
                parameter.add_(0.1 * torch.randn_like(parameter))
        model.final_logits_bias.normal_()
        model.final_logits_bias[0, last] = 0.0
    learn(model.eval(), [[[token_ids[piece] for piece in side.split()] + [0] for side in pair] for pair in PAIRS])
    model.generation_config.num_beams = 6
    model.save_pretrained(folder)
    (folder / "vocab.json").write_text(json.dumps(token_ids))
    write_model(folder / "source.spm", SOURCE)
    write_model(folder / "target.spm", TARGET)


def learn(model: Any, pairs: list[list[list[int]]]) -> None:
    optimizer = torch.optim.Adam([each for each in model.parameters() if each.requires_grad], lr=0.01)
    for step in range(60):
        src, tgt = (torch.tensor([ids]) for ids in pairs[step % len(pairs)])
        optimizer.zero_grad()
        model(input_ids=src, labels=tgt).loss.backward()
        optimizer.step()


def theirs(folder: Path) -> tuple[Any, dict[str, int]]:
    import transformers

    return transformers.MarianMTModel.from_pretrained(folder).eval(), json.loads((folder / "vocab.json").read_text())


def ours(folder: Path) -> tuple[Transformer, Translation]:
    loaded = read_marian(folder)
    model = Transformer(loaded.settings, *map(len, loaded.tokenizers)).eval()
    load_weights(model, loaded.weights, "test")
    return model, make_task(Translation, *loaded.tokenizers)


def test_probabilities_equal_transformers_and_duplicates_have_none(folder: Path) -> None:
    other, token_ids = theirs(folder)
    model, task = ours(folder)
    assert model.settings.tie == "all" and len(task.src_tokenizer) == len(task.tgt_tokenizer) == len(token_ids) + 2
    src = task.src_tokenizer.encode("the cat ! cats")
    names = [task.src_tokenizer.tokens([n])[0].replace("␣", "▁") for n in src]
    assert names == ["▁the", "▁cat", "▁!", "▁cat", "s"]
    their_src = [token_ids.get(name, token_ids["<unk>"]) for name in names]
    tgt = task.tgt_tokenizer.encode("die Katze")
    their_tgt = [token_ids["▁die"], token_ids["▁Katze"]]
    with torch.no_grad():
        expected = other(
            input_ids=torch.tensor([[*their_src, 0]]),
            decoder_input_ids=torch.tensor([[token_ids["<pad>"], *their_tgt]]),
        ).logits[0]
        tokens = (torch.tensor([[*src, EOS]]), torch.tensor([[BOS, *tgt]]))
        actual = model(*(Padded.of(ids, torch.tensor([ids.size(1)])) for ids in tokens)).logits()[0]
    read = task.tgt_tokenizer
    rows = {n: token_ids.get(read.tokens([n])[0].replace("␣", "▁")) for n in range(3, len(read))}
    rows |= {BOS: token_ids["<pad>"], EOS: 0}
    known = {n: row for n, row in rows.items() if row is not None}
    p, q = actual.softmax(-1), expected.softmax(-1)
    assert {*range(len(read))} - {*known} == {0, len(read) - 1}
    torch.testing.assert_close(p[:, list(known)], q[:, list(known.values())], atol=1e-6, rtol=1e-5)
    assert float(p[:, [0, len(read) - 1]].sum()) == 0.0


@pytest.mark.parametrize("beam", [1, 4])
def test_translations_equal_transformers(folder: Path, beam: int) -> None:
    other, token_ids = theirs(folder)
    model, task = ours(folder)
    search: dict[str, Any] = dict(search="greedy") if beam == 1 else dict(search="beam", beam=beam, alpha=0.0)
    decoding = DecodingSettings(max_length=24, loop_guard=False, **search)
    by_number = {n: piece for piece, n in token_ids.items()}
    sentences = ["the cat", "cats", "the the cat sat", ">>nds<< a cat", "x"]
    task = replace(task, decoding=decoding)
    predictions = list(task.predict(model, [{"src": sentence} for sentence in sentences]))
    assert len({prediction["translation"] for prediction in predictions}) >= 3
    for sentence, prediction in zip(sentences, predictions, strict=True):
        read = [task.src_tokenizer.tokens([n])[0].replace("␣", "▁") for n in task.src_tokenizer.encode(sentence)]
        written = other.generate(
            torch.tensor([[*(token_ids[piece] for piece in read), 0]]), num_beams=beam, length_penalty=0.0,
            max_new_tokens=24, do_sample=False, bad_words_ids=[[token_ids["<pad>"]]], forced_eos_token_id=None,
        )[0].tolist()  # fmt: skip
        pieces = [by_number[n] for n in written if n not in (0, 1, token_ids["<pad>"])]
        assert prediction["translation"] == "".join(pieces).replace("▁", " ").strip()


def test_an_imported_model_can_be_exported(folder: Path, tmp_path: Path) -> None:
    import transformers

    loaded = read_marian(folder)
    write_marian(tmp_path / "again", loaded.settings, loaded.weights, loaded.tokenizers)
    again = read_marian(tmp_path / "again")
    assert all(torch.equal(again.weights[name], tensor) for name, tensor in loaded.weights.items())
    src, tgt = (transformers.AutoTokenizer.from_pretrained(tmp_path / "again" / part) for part in ("", "target"))
    for text in ("the cat ! cats", ">>nds<< the cat", "漢 cat"):
        assert src(text).input_ids == [*loaded.tokenizers[0].encode(text), EOS]
    assert tgt("die Katze").input_ids == [*loaded.tokenizers[1].encode("die Katze"), EOS]
    foreign = loaded.tokenizers[0].encode("the cat")
    assert tgt.decode([BOS, *foreign, EOS], skip_special_tokens=True) == "the cat"


def test_tokens_are_reordered(folder: Path) -> None:
    models = [read_sentencepiece(folder / name) for name in ("source.spm", "target.spm")]
    token_ids = json.loads((folder / "vocab.json").read_text())
    pieces, rows = reorder_tokens(token_ids, models, token_ids["<pad>"])
    assert rows[:3] == [token_ids["<pad>"], token_ids["<pad>"], 0] and pieces[-1] == WITHOUT_ID and rows[-1] == 1
    assert all(token_ids[piece] == row for piece, row in zip(pieces[3:-1], rows[3:-1], strict=True))
    assert duplicates(rows) == [0, len(rows) - 1]
    assert duplicates([5, 0, 0, 1, 2]) == [1]


def lose_unknown(folder: Path) -> None:
    token_ids = json.loads((folder / "vocab.json").read_text())
    token_ids["?"] = token_ids.pop("<unk>")
    (folder / "vocab.json").write_text(json.dumps(token_ids))


def lose_an_id(folder: Path) -> None:
    token_ids = json.loads((folder / "vocab.json").read_text())
    del token_ids["a"]
    (folder / "vocab.json").write_text(json.dumps(token_ids))


@pytest.mark.parametrize(
    ("harm", "code", "file"),
    [
        (lambda folder: (folder / "target.spm").unlink(), "missing-file", "target.spm"),
        (lambda folder: (folder / "vocab.json").unlink(), "missing-file", "vocab.json"),
        (lambda folder: (folder / "source.spm").write_bytes(b"xyz"), "damaged-file", "source.spm"),
        (lose_unknown, "damaged-file", "vocab.json"),
        (lose_an_id, "damaged-file", "vocab.json"),
    ],
)
def test_errors_name_the_damaged_file(harm: Any, code: str, file: str, folder: Path) -> None:
    harm(folder)
    with pytest.raises(UserError) as error:
        read_marian(folder)
    assert (error.value.code, error.value.where) == (code, str(folder / file))


def test_sides_with_vocabularies_of_their_own(tmp_path: Path) -> None:
    sides = {"source": (["▁a", "b"], "vocab.json"), "target": (["▁x", "y", "z"], "target_vocab.json")}
    for side, (pieces, name) in sides.items():
        write_model(tmp_path / f"{side}.spm", dict.fromkeys(pieces, -1.0))
        ids = {piece: number for number, piece in enumerate(["</s>", "<unk>", *pieces, "<pad>"])}
        (tmp_path / name).write_text(json.dumps(ids))
    sizes = {"vocab_size": 5, "decoder_vocab_size": 6, "decoder_start_token_id": 5}
    read = read_sentencepiece_tokenizers(tmp_path, sizes)
    assert (read.src_rows[:3], read.tgt_rows[:3]) == ([4, 4, 0], [5, 5, 0]), "padding, beginning and end"
    assert [tokenizer.tokens([3, 4]) for tokenizer in read.tokenizers] == [["<unk>", "␣a"], ["<unk>", "␣x"]]
    assert (read.src_rows[3:6], read.tgt_rows[3:7]) == ([1, 2, 3], [1, 2, 3, 4])
    assert [tokenizer.encode("a x") for tokenizer in read.tokenizers] == [
        [4, read.tokenizers[0].unknown], [read.tokenizers[1].unknown, 4],  # type: ignore[attr-defined]
    ]  # fmt: skip
    for key, size, name in (("vocab_size", 6, "vocab.json"), ("decoder_vocab_size", 5, "target_vocab.json")):
        config = {"vocab_size": 5, "decoder_vocab_size": 6, "decoder_start_token_id": 4} | {key: size}
        with pytest.raises(UserError) as error:
            read_sentencepiece_tokenizers(tmp_path, config)
        assert (error.value.code, error.value.where) == ("damaged-file", str(tmp_path / name))
