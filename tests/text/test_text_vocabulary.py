"""Every vocabulary gives back every text, and knows the special symbols from text that spells them."""

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import ValidationError
from tokenizers import Tokenizer

from regard.errors import UserError
from regard.text import BOS, EOS, PAD, TextSettings, Vocabulary, train_vocabulary
from regard.text.settings import SMALLEST
from regard.text.symbols import BYTE_SYMBOLS, SPECIALS, to_bytes, to_symbols

KINDS = ("bpe", "wordpiece", "word", "token", "char")
CORPUS = [
    "The quick brown fox jumps over the lazy dog.",
    "The lazy dog sleeps; the fox jumps again.",
    "Zwei junge weiße Männer sind im Freien in der Nähe vieler Büsche.",
    "日本語のテキストです。日本は日本です。",
    "مرحبا بالعالم، مرحبا",
] * 3
HARD = [
    "",
    " ",
    "⟨pad⟩ ⟨s⟩⟨/s⟩",
    "<pad></s><unk>[UNK]",
    "## un##der ⋯der",
    "tab\tand\nline\r\nbreak\u2028\x85\x0b end \n ",
    "\x00\x00 nul \x7f",
    "שלום עולם \u202eabc\u202c",
    "👩‍👩‍👧‍👦👍🏽 🇩🇪",
    "e\u0301 \u0e01\u0e33 हिन्दी",
    "\ufeffbom\ufffe\uffff\U0010ffff",
    "don't l'menu d'tout",
    "a" * 5000,
    "日" * 300,
    " " * 300,
]


def vocabulary(kind: str, vocab_size: int = 700) -> Vocabulary:
    return train_vocabulary(CORPUS, TextSettings.model_validate({"kind": kind, "vocab_size": vocab_size}))


@pytest.fixture(scope="module", params=KINDS)
def vocab(request: pytest.FixtureRequest) -> Vocabulary:
    return vocabulary(request.param)


ALL = {kind: vocabulary(kind) for kind in KINDS}


@pytest.mark.parametrize("kind", KINDS)
@given(text=st.text())
@settings(deadline=None, max_examples=150, derandomize=True, database=None)
def test_any_text_comes_back(kind: str, text: str) -> None:
    ids = ALL[kind].encode(text)
    assert ALL[kind].decode(ids) == text
    assert all(EOS < number < len(ALL[kind]) for number in ids)


@pytest.mark.parametrize("text", HARD)
def test_hard_texts_come_back(vocab: Vocabulary, text: str) -> None:
    ids = vocab.encode(text)
    assert vocab.decode(ids) == text
    assert not {PAD, BOS, EOS} & set(ids)
    assert vocab.encode_batch([text, "x"]) == [ids, vocab.encode("x")]


def test_all_bytes_come_back_alone(vocab: Vocabulary) -> None:
    entries = vocab.numbers
    assert [to_bytes(symbol) for symbol in BYTE_SYMBOLS] == [bytes([byte]) for byte in range(256)]
    spelled = [entries[symbol] for symbol in to_symbols("日 é")]
    assert vocab.decode(spelled) == "日 é"


def test_special_symbols_say_nothing(vocab: Vocabulary) -> None:
    assert (PAD, BOS, EOS) == (0, 1, 2)
    assert vocab.decode([BOS, *vocab.encode("The fox"), EOS, PAD, PAD]) == "The fox"
    assert vocab.pieces([PAD, BOS, EOS]) == list(SPECIALS)


def test_the_library_decodes_alike(vocab: Vocabulary) -> None:
    theirs = Tokenizer.from_str(vocab.to_json())
    for text in HARD:
        assert theirs.decode(vocab.encode(text), skip_special_tokens=False) == text


def test_same_corpus_same_file(vocab: Vocabulary) -> None:
    again = {
        train_vocabulary(iter(CORPUS), TextSettings.model_validate({"kind": k, "vocab_size": 700})).to_json()
        for k in KINDS
    }
    assert vocab.to_json() in again
    assert len(again) == len(KINDS)


@pytest.mark.parametrize("kind", KINDS)
def test_size_is_an_upper_bound(kind: str) -> None:
    assert len(vocabulary(kind, SMALLEST[kind])) == SMALLEST[kind]
    assert len(vocabulary(kind, SMALLEST[kind] + 7)) == SMALLEST[kind] + 7
    tiny = train_vocabulary([], TextSettings.model_validate({"kind": kind}))
    assert len(tiny) == SMALLEST[kind]
    assert tiny.decode(tiny.encode("für 日本")) == "für 日本"


def test_frequent_words_are_one_piece() -> None:
    assert ALL["word"].pieces(ALL["word"].encode("The lazy dog.")) == ["The", "␣lazy", "␣dog", "."]
    assert ALL["word"].pieces(ALL["word"].encode("日本 ox")) == ["日", "本", "␣", "o", "x"]
    assert ALL["char"].pieces(ALL["char"].encode("Nä日")) == ["N", "ä", "日"]
    assert len(ALL["char"].words("a\n\n\r\nb")) == 6


def test_a_token_is_what_stands_between_blanks_wherever_it_stands() -> None:
    text = "<unk> , the , 3.5 @-@ <unk> the"
    vocab = train_vocabulary([text], TextSettings(kind="token", min_frequency=2))
    ids = vocab.encode(text)
    assert vocab.pieces(ids) == ["<unk>", ",", "the", ",", "␣", *"3.5", "␣", *"@-@", "<unk>", "the"]
    assert ids[0] == ids[-2], "the first of a line is the same as any other"
    assert vocab.pieces(vocab.encode(" the  , ")) == ["␣", "the", "␣", ",", "␣"]
    assert len(vocab) == SMALLEST["token"] + 3
    assert vocab.decode(ids[1:3]) == ", the"


def test_min_frequency_keeps_rare_words_out() -> None:
    texts = ["seldom often often"]
    known = train_vocabulary(texts, TextSettings(kind="word", min_frequency=2))
    assert known.pieces(known.encode(" seldom often")) == ["␣", *"seldom", "␣often"]


def test_wordpiece_takes_the_longest_piece() -> None:
    vocab = ALL["wordpiece"]
    entries = vocab.numbers
    for word in vocab.words(CORPUS[0] + CORPUS[1]):
        expected, start = [], 0
        while start < len(word):
            mark = "⋯" if start else ""
            end = next(end for end in range(len(word), start, -1) if mark + word[start:end] in entries)
            expected.append(entries[mark + word[start:end]])
            start = end
        assert vocab.encode(to_bytes(word).decode()) == expected


def test_pieces_are_readable(vocab: Vocabulary) -> None:
    shown = vocab.pieces(vocab.encode(" \x00\n€"))
    assert "".join(shown).lstrip("␣").startswith("␀␊") and shown[0].startswith("␣")
    assert vocab.pieces([vocab.numbers[symbol] for symbol in to_symbols("ä")]) == ["<C3>", "<A4>"]


def test_spelled_out_words_are_counted() -> None:
    word, char = ALL["word"], ALL["char"]
    assert word.spelled_out("The quick zebra, Ω 7 ") == (2, 6)
    assert word.spelled_out("") == (0, 0)
    assert char.spelled_out("Ωa日") == (1, 3)
    assert ALL["bpe"].spelled_out("The lazy QXZ") == (1, 3)


def test_longest_piece_bounds_the_length(vocab: Vocabulary) -> None:
    for text in CORPUS + HARD:
        assert len(vocab.encode(text)) * vocab.longest >= len(text.encode())


def test_save_and_load(vocab: Vocabulary, tmp_path: Path) -> None:
    vocab.save(tmp_path / "tokenizer.json")
    again = Vocabulary.load(tmp_path / "tokenizer.json")
    assert again.to_json() == vocab.to_json()
    assert [again.encode(text) for text in HARD] == [vocab.encode(text) for text in HARD]


def test_missing_and_damaged_files_are_named(tmp_path: Path) -> None:
    path = tmp_path / "tokenizer.json"
    with pytest.raises(UserError, match=r"tokenizer\.json: no such vocabulary"):
        Vocabulary.load(path)
    whole = ALL["bpe"].to_json()
    for damaged in (b"", b"{}", whole[: len(whole) // 2].encode(), b"\xff\xfe", whole.replace("⟨s⟩", "⟨t⟩").encode()):
        path.write_bytes(damaged)
        with pytest.raises(UserError, match="damaged or is no vocabulary") as caught:
            Vocabulary.load(path)
        assert str(path) in str(caught.value)
    path.write_text(whole.replace('"Ł"', '"⟩"'), encoding="utf-8")
    with pytest.raises(UserError, match="damaged"):
        Vocabulary.load(path)
    with pytest.raises(UserError, match="cannot be read"):
        Vocabulary.load(tmp_path)


def test_surrogates_are_refused(vocab: Vocabulary) -> None:
    for attempt in (vocab.encode, vocab.words, vocab.spelled_out, lambda text: vocab.encode_batch(["ok", text])):
        with pytest.raises(UserError, match="surrogate"):
            attempt("half \ud800 pair")
    with pytest.raises(UserError, match="surrogate"):
        train_vocabulary(["ok", "\udc80"], TextSettings())


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"kind": "word", "dropout": 0.1}, "dropout leaves out merges"),
        ({"kind": "bpe", "vocab_size": 258}, "needs at least 259"),
        ({"kind": "wordpiece", "vocab_size": 514}, "needs at least 515"),
        ({"dropout": 1.0}, "less than 1"),
        ({"min_frequency": 0}, "greater than or equal to 1"),
    ],
)
def test_contradictory_settings_are_refused(values: dict[str, object], message: str) -> None:
    with pytest.raises(ValidationError, match=message):
        TextSettings.model_validate(values)
