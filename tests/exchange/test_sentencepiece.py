"""SentencePiece files are read, and text is tokenized by the definition: the most likely way."""

import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.exchange.sentencepiece_files import field, model_file, symbols, write_model

from regard.errors import UserError
from regard.exchange.sentencepiece import SentencePieceModel, as_float, fields, read_sentencepiece
from regard.text.factory import load_tokenizer, tokenizer_from_json
from regard.text.sentencepiece import HIDDEN, SentencePieceTokenizer, assemble
from regard.text.symbols import EOS, SPECIALS

SCORES = {
    "▁": -2.0, "a": -3.0, "b": -3.5, "c": -4.0, "▁a": -2.5, "ab": -3.2, "▁ab": -4.5, "bc": -5.5, "abc": -8.5,
    "▁abc": -7.75, ">>": -9.0, "<<": -9.0,
}  # fmt: skip
PIECES = [*SPECIALS, "c", "<unk>", *(piece for piece in SCORES if piece != "c"), "bca", "▁fremd", ">>fra<<"]
FEW = settings(max_examples=150)


def vocabulary(**kinds: Any) -> SentencePieceTokenizer:
    return assemble(PIECES, SCORES, **kinds)


def ways(text: str) -> Iterator[tuple[float, list[str]]]:
    """Every way to write a text, characters that are in no piece as <unk>, ten worse than the worst piece."""
    if not text:
        yield 0.0, []
    for end in range(1, len(text) + 1):
        piece = text[:end]
        score = SCORES.get(piece)
        if score is None and end == 1:
            score, piece = min(SCORES.values()) - 10, "<unk>"
        if score is not None:
            yield from ((score + rest, [piece, *pieces]) for rest, pieces in ways(text[end:]))


def by_definition(text: str) -> list[str]:
    written = "".join(f"▁{word}" for word in text.split(" ") if word)
    best = max(ways(written), key=lambda way: way[0], default=(0.0, []))[1]
    fused: list[str] = []
    for piece in best:
        if piece != "<unk>" or fused[-1:] != ["<unk>"]:
            fused.append(piece)
    return fused


@FEW
@given(st.text(alphabet="abc d", max_size=9))
def test_the_most_likely_tokenization_is_selected(text: str) -> None:
    loaded = vocabulary()
    ids = loaded.encode(text)
    pieces = [PIECES[number] for number in ids]
    expected = by_definition(text)
    likely = {piece: SCORES.get(piece, min(SCORES.values()) - 10) for piece in {*pieces, *expected}}
    assert math.isclose(sum(likely[piece] for piece in pieces), sum(likely[piece] for piece in expected), abs_tol=1e-6)
    assert "".join(pieces) == "".join(expected)
    if "d" not in text:
        assert loaded.decode(ids) == " ".join(text.split())


def test_subwords_of_the_other_side_are_only_decoded() -> None:
    loaded = vocabulary()
    for text in ("bca", "fremd", "⟨pad⟩", "<unk>", "⟨/s⟩", ">>fra<", f"{HIDDEN}<unk>"):
        assert not {PIECES.index("bca"), PIECES.index("▁fremd"), 0, 1, 2} & {*loaded.encode(text)}
    assert loaded.decode([PIECES.index("▁fremd"), PIECES.index("bca"), EOS, 0, loaded.unknown]) == "fremdbca"
    assert loaded.tokens([1, PIECES.index("▁fremd"), loaded.unknown]) == ["⟨s⟩", "␣fremd", "<unk>"]
    assert len(loaded) == len(PIECES)


def test_a_language_code_is_special_only_at_the_start() -> None:
    loaded = vocabulary()
    code = PIECES.index(">>fra<<")
    assert loaded.encode(">>fra<< ab") == [code, *loaded.encode("ab")]
    assert loaded.encode(">>deu<<ab") == [loaded.unknown, *loaded.encode("ab")]
    assert code not in loaded.encode("ab >>fra<<")
    assert loaded.encode_batch([">>fra<<a", "b"]) == [[code, *loaded.encode("a")], loaded.encode("b")]


def test_blanks() -> None:
    tidy, plain = vocabulary(), vocabulary(tidy=False, prefix=False)
    assert tidy.encode("  a   b ") == tidy.encode("a b")
    assert tidy.encode("   ") == tidy.encode("") == []
    assert [PIECES[n] for n in plain.encode(" b ")] == ["▁", "b", "▁"]
    assert tidy.count_unknown_words("ab xyz b x") == (2, 4)


def test_a_subword_may_span_words() -> None:
    scores = SCORES | {"a▁b": -1.0}
    spanning = assemble([*PIECES, "a▁b"], scores)
    assert [[*PIECES, "a▁b"][n] for n in spanning.encode("a b")] == ["▁", "a▁b"]
    assert spanning.decode(spanning.encode("a b")) == "a b"


def test_save_and_load(tmp_path: Path) -> None:
    loaded = vocabulary()
    loaded.save(tmp_path / "tokenizer.json")
    again = load_tokenizer(tmp_path / "tokenizer.json")
    assert isinstance(again, SentencePieceTokenizer)
    assert again.to_json() == loaded.to_json() and again.encode("abcab d") == loaded.encode("abcab d")
    with pytest.raises(ValueError, match="its first tokens must be"):
        tokenizer_from_json(loaded.to_json().replace("⟨pad⟩", "<pad>"))


def test_files_are_read(tmp_path: Path) -> None:
    path = tmp_path / "source.spm"
    write_model(path, SCORES)
    loaded = read_sentencepiece(path)
    assert loaded.scores == pytest.approx(SCORES)
    assert (loaded.prefix, loaded.tidy, loaded.characters) == (True, True, b"")
    assert [kind for _, _, kind in loaded.pieces[:3]] == [2, 3, 3]
    said = field(2, b"table") + field(3, 0) + field(4, 0)
    path.write_bytes(model_file([*symbols(), ("a", -1.5, 1), ("[NAME]", 0.0, 4), ("no", -1.0, 5)], b"", said))
    loaded = read_sentencepiece(path)
    assert (loaded.prefix, loaded.tidy, loaded.characters) == (False, False, b"table")
    assert loaded.scores == pytest.approx({"a": -1.5, "[NAME]": 6 * -1.5 - 0.1})


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (model_file([("a", 0.0, 1)])[:-3], "ends in the middle of a field"),
        (b"no model at all", "is damaged"),
        (b"", "no subwords"),
        (b"\x80\x80", "is damaged"),
        (model_file([("a", 0.0, 1)], trained=field(3, 2)), "not a unigram model"),
        (model_file([("a", 0.0, 1)], trained=field(35, 1)), "unknown characters as bytes"),
        (model_file([("a", 0.0, 1)], normalised=field(5, 0)), "blanks behind words"),
    ],
)
def test_damaged_and_unsupported_files_are_refused(content: bytes, message: str, tmp_path: Path) -> None:
    path = tmp_path / "source.spm"
    path.write_bytes(content)
    with pytest.raises(UserError, match=message) as error:
        read_sentencepiece(path)
    assert (error.value.code, error.value.where) == ("damaged-file", str(path))
    with pytest.raises(UserError) as error:
        read_sentencepiece(tmp_path / "target.spm")
    assert (error.value.code, error.value.where) == ("missing-file", str(tmp_path / "target.spm"))


def test_fields_of_a_message_at_their_borders() -> None:
    for value in (0, 1, 127, 128, 255, 16_383, 16_384, 2**40):
        assert list(fields(field(3, value))) == [(3, value)]
    assert list(fields(field(20, b"ab") + field(1, b""))) == [(20, b"ab"), (1, b"")]
    assert list(fields(b"\x09" + bytes([1, 0, 0, 0, 0, 0, 0, 2]))) == [(1, 2 * 256**7 + 1)], "eight bytes"
    assert list(fields(b"\x0d" + bytes([1, 0, 0, 3]))) == [(1, 3 * 256**3 + 1)], "four bytes"
    for broken in (b"\x0a\x02a", b"\x0d\x00\x00\x00", b"\x0b", b"\x0c"):
        with pytest.raises(ValueError):
            list(fields(broken))
    assert as_float(0x3FC00000) == 1.5


def test_settings_of_a_file(tmp_path: Path) -> None:
    piece = [("a", -1.5, 1)]

    def read(trained: bytes = b"", normalised: bytes = b"") -> Any:
        path = tmp_path / "a.spm"
        path.write_bytes(model_file(piece, trained, normalised))
        return read_sentencepiece(path)

    assert (read().prefix, read().tidy, read().characters, read().pieces) == (True, True, b"", piece)
    assert not read(normalised=field(3, 0)).prefix and not read(normalised=field(4, 0)).tidy
    assert read(normalised=field(2, b"map")).characters == b"map" and read(trained=field(3, 1)).pieces == piece
    for trained in (field(24, 1), field(35, 1), field(3, 2)):
        with pytest.raises(UserError):
            read(trained)


def test_a_user_defined_subword_beats_all_others() -> None:
    pieces = [("a", -1.0, 1), ("b", -2.0, 1), ("ab", 0.0, 4), ("<s>", 0.0, 3), ("<unk>", 0.0, 2), ("c", 0.0, 6)]
    model = SentencePieceModel(pieces, b"", True, True)
    assert model.scores == {"a": -1.0, "b": -2.0, "ab": pytest.approx(-2.1)}
    assert SentencePieceModel([("ab", 0.0, 4)], b"", True, True).scores == {"ab": pytest.approx(-0.1)}
