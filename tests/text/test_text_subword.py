"""Byte-level tokenizers: exact round trip of every text, special tokens, sizes, files."""

from functools import cache
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers import Tokenizer as HuggingFaceTokenizer

from regard.config import build
from regard.errors import UserError
from regard.text.factory import load_tokenizer, train_tokenizer
from regard.text.settings import MIN_VOCAB_SIZE, TextSettings
from regard.text.subword import SubwordTokenizer
from regard.text.symbols import BOS, BYTE_SYMBOLS, EOS, PAD, SPECIALS, to_bytes

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


@cache
def trained(kind: str, vocab_size: int = 700) -> SubwordTokenizer:
    return train_tokenizer(CORPUS, TextSettings.model_validate({"kind": kind, "vocab_size": vocab_size}))


def symbols_of(text: str) -> list[str]:
    """The UTF-8 bytes of `text` as byte symbols."""
    return [BYTE_SYMBOLS[byte] for byte in text.encode()]


@pytest.fixture(scope="module", params=KINDS)
def vocab(request: pytest.FixtureRequest) -> SubwordTokenizer:
    return trained(request.param)


@pytest.mark.parametrize("kind", KINDS)
@given(text=st.text())
@settings(max_examples=150)
def test_any_text_is_decoded_exactly(kind: str, text: str) -> None:
    ids = trained(kind).encode(text)
    assert trained(kind).decode(ids) == text
    assert all(EOS < number < len(trained(kind)) for number in ids)


@pytest.mark.parametrize("text", HARD)
def test_hard_texts_come_back(vocab: SubwordTokenizer, text: str) -> None:
    ids = vocab.encode(text)
    assert vocab.decode(ids) == text
    assert not {PAD, BOS, EOS} & set(ids)
    assert vocab.encode_batch([text, "x"]) == [ids, vocab.encode("x")]


def test_all_bytes_come_back_alone(vocab: SubwordTokenizer) -> None:
    entries = vocab.token_ids
    assert [to_bytes(symbol) for symbol in BYTE_SYMBOLS] == [bytes([byte]) for byte in range(256)]
    spelled = [entries[symbol] for symbol in symbols_of("日 é")]
    assert vocab.decode(spelled) == "日 é"


def test_special_tokens_are_not_decoded(vocab: SubwordTokenizer) -> None:
    assert (PAD, BOS, EOS) == (0, 1, 2)
    assert vocab.decode([BOS, *vocab.encode("The fox"), EOS, PAD, PAD]) == "The fox"
    assert vocab.tokens([PAD, BOS, EOS]) == list(SPECIALS)


def test_half_a_character_is_not_decoded(vocab: SubwordTokenizer) -> None:
    ids = [vocab.token_ids[symbol] for symbol in symbols_of("日")]
    fox = vocab.encode("The fox")
    assert vocab.decode([*ids[:2], *fox, *ids[2:], *ids, ids[0]]) == "The fox日"
    assert vocab.decode(vocab.encode("a\ufffdb")) == "a\ufffdb", "the sign itself is a character"


def test_the_library_decodes_alike(vocab: SubwordTokenizer) -> None:
    theirs = HuggingFaceTokenizer.from_str(vocab.to_json())
    for text in HARD:
        assert theirs.decode(vocab.encode(text), skip_special_tokens=False) == text


def test_same_corpus_same_file(vocab: SubwordTokenizer) -> None:
    again = {
        train_tokenizer(iter(CORPUS), TextSettings.model_validate({"kind": k, "vocab_size": 700})).to_json()
        for k in KINDS
    }
    assert vocab.to_json() in again
    assert len(again) == len(KINDS)


@pytest.mark.parametrize("kind", KINDS)
def test_size_is_an_upper_bound(kind: str) -> None:
    assert len(trained(kind, MIN_VOCAB_SIZE[kind])) == MIN_VOCAB_SIZE[kind]
    assert len(trained(kind, MIN_VOCAB_SIZE[kind] + 7)) == MIN_VOCAB_SIZE[kind] + 7
    tiny = train_tokenizer([], TextSettings.model_validate({"kind": kind}))
    assert len(tiny) == MIN_VOCAB_SIZE[kind]
    assert tiny.decode(tiny.encode("für 日本")) == "für 日本"


def test_frequent_words_are_one_token() -> None:
    assert trained("word").tokens(trained("word").encode("The lazy dog.")) == ["The", "␣lazy", "␣dog", "."]
    assert trained("word").tokens(trained("word").encode("日本 ox")) == ["日", "本", "␣", "o", "x"]
    assert trained("char").tokens(trained("char").encode("Nä日")) == ["N", "ä", "日"]
    assert len(trained("char").words("a\n\n\r\nb")) == 6


def test_a_token_is_what_stands_between_blanks_wherever_it_stands() -> None:
    text = "<unk> , the , 3.5 @-@ <unk> the"
    vocab = train_tokenizer([text], TextSettings(kind="token", min_frequency=2))
    ids = vocab.encode(text)
    assert vocab.tokens(ids) == ["<unk>", ",", "the", ",", "␣", *"3.5", "␣", *"@-@", "<unk>", "the"]
    assert ids[0] == ids[-2], "the first of a line is the same as any other"
    assert vocab.tokens(vocab.encode(" the  , ")) == ["␣", "the", "␣", ",", "␣"]
    assert len(vocab) == MIN_VOCAB_SIZE["token"] + 3
    assert vocab.decode(ids[1:3]) == ", the"


def test_min_frequency_keeps_rare_words_out() -> None:
    texts = ["seldom often often"]
    known = train_tokenizer(texts, TextSettings(kind="word", min_frequency=2))
    assert known.tokens(known.encode(" seldom often")) == ["␣", *"seldom", "␣often"]


def test_wordpiece_takes_the_longest_token() -> None:
    vocab = trained("wordpiece")
    entries = vocab.token_ids
    for word in vocab.words(CORPUS[0] + CORPUS[1]):
        expected, start = [], 0
        while start < len(word):
            mark = "⋯" if start else ""
            end = next(end for end in range(len(word), start, -1) if mark + word[start:end] in entries)
            expected.append(entries[mark + word[start:end]])
            start = end
        assert vocab.encode(to_bytes(word).decode()) == expected


def test_tokens_are_readable(vocab: SubwordTokenizer) -> None:
    shown = vocab.tokens(vocab.encode(" \x00\n€"))
    assert "".join(shown).lstrip("␣").startswith("␀␊") and shown[0].startswith("␣")
    assert vocab.tokens([vocab.token_ids[symbol] for symbol in symbols_of("ä")]) == ["<C3>", "<A4>"]


def test_words_in_single_bytes_are_counted_as_unknown() -> None:
    word, char = trained("word"), trained("char")
    assert word.count_unknown_words("The quick zebra, Ω 7 ") == (2, 6)
    assert word.count_unknown_words("") == (0, 0)
    assert char.count_unknown_words("Ωa日") == (1, 3)
    assert trained("bpe").count_unknown_words("The lazy QXZ") == (1, 3)


def test_the_longest_token_bounds_the_length(vocab: SubwordTokenizer) -> None:
    for text in CORPUS + HARD:
        assert len(vocab.encode(text)) * vocab.max_token_bytes >= len(text.encode())


def test_save_and_load(vocab: SubwordTokenizer, tmp_path: Path) -> None:
    vocab.save(tmp_path / "tokenizer.json")
    again = load_tokenizer(tmp_path / "tokenizer.json")
    assert again.to_json() == vocab.to_json()
    assert [again.encode(text) for text in HARD] == [vocab.encode(text) for text in HARD]


def test_missing_and_damaged_files_are_named(tmp_path: Path) -> None:
    path = tmp_path / "tokenizer.json"
    with pytest.raises(UserError) as error:
        load_tokenizer(path)
    assert (error.value.code, error.value.where) == ("missing-file", str(path))
    whole = trained("bpe").to_json()
    for damaged in (b"", b"{}", whole[: len(whole) // 2].encode(), b"\xff\xfe", whole.replace("⟨s⟩", "⟨t⟩").encode()):
        path.write_bytes(damaged)
        with pytest.raises(UserError) as error:
            load_tokenizer(path)
        code = "not-utf8" if damaged == b"\xff\xfe" else "damaged-file"
        assert (error.value.code, error.value.where) == (code, str(path))
    path.write_text(whole.replace('"Ł"', '"⟩"'), encoding="utf-8")
    with pytest.raises(UserError) as error:
        load_tokenizer(path)
    assert error.value.code == "damaged-file"
    with pytest.raises(UserError) as error:
        load_tokenizer(tmp_path)
    assert error.value.code == "not-a-file"


def test_surrogates_are_refused(vocab: SubwordTokenizer) -> None:
    text = "half \ud800 pair"
    for attempt in (
        vocab.encode,
        vocab.words,
        vocab.count_unknown_words,
        lambda text: vocab.encode_batch(["ok", text]),
    ):
        with pytest.raises(UserError) as error:
            attempt(text)
        assert error.value.code == "bad-text"
    with pytest.raises(UserError) as error:
        train_tokenizer(["ok", "\udc80"], TextSettings())
    assert error.value.code == "bad-text"


@pytest.mark.parametrize(
    ("values", "key"),
    [
        ({"kind": "word", "dropout": 0.1}, "dropout"),
        ({"kind": "bpe", "vocab_size": 258}, "vocab_size"),
        ({"kind": "wordpiece", "vocab_size": 514}, "vocab_size"),
        ({"dropout": 1.0}, "dropout"),
        ({"min_frequency": 0}, "min_frequency"),
    ],
)
def test_invalid_settings_are_refused(values: dict[str, object], key: str) -> None:
    with pytest.raises(UserError) as error:
        build(TextSettings, values, "recipe.toml")
    assert (error.value.code, error.value.where) == ("invalid-setting", key)
