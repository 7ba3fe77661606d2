"""BERT's pieces are those of other programs and know where they stood; inputs are put together as the authors did."""

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tokenizers import Tokenizer

from regard.errors import UserError
from regard.text.bert import SPECIALS, BertTokenizer
from regard.text.inputs import Encoding, truncate_pair

WORDS = [
    "un",
    "##aff",
    "##able",
    "##ab",
    "aff",
    "the",
    "The",
    "cat",
    "##s",
    "cafe",
    "café",
    "na",
    "##ive",
    "##ïve",
    "東",
]
LETTERS = "abcdefghijklmnopqrstuvwxyzéüß中文字カタ한글абвφοσς0123456789.,!?'\"-()[]#@$^`~«»。、😀👩\u0301\u0308"
ENTRIES = [*SPECIALS, *WORDS, *LETTERS, *(f"##{letter}" for letter in LETTERS)]
ENTRIES = list(dict.fromkeys(ENTRIES))
TRICKY = [
    "",
    "   ",
    "unaffable",
    "The cats, the CATS!",
    "Café naïve — CAFÉ NAÏVE Ünïcödé ÀÉÎÕÜ",
    "中文字 mixed中文with字text、東京。カタカナ 한글",
    "emoji 😀👩‍👩‍👧 ☃️ 🇩🇪",
    "a\x00b\x01c\x7fd\ufffde\u200bf\u200dg\u00adh\ufeffi",
    "tab\tnew\nline\r\ncarriage\rnbsp\u00a0ideographic\u3000line\u2028paragraph\u2029thin\u2009",
    "x" * 100,
    "x" * 101,
    "中" * 120,
    "unaffablequux cat##s ##able [unused1]",
    "it's #hashtag @user $5.00 50% a_b a-b a/b <tag> `x` ~y^z |w| {v}",
    "«guillemets» „quotes“ …dots… ¿qué? ¡sí! § † ‰ № ™",
    "ﬁ ligature ½ ² Ⅷ ǆ İstanbul ıspanak STRASSE ẞ",
    "абв ЯЖ σοφός",
    "what is [MASK] of the [SEP] cat[MASK]s [CLS] [PAD] [UNK] [mask]",
    "\ue000private \U00020000\U0002f800 extension",
]
DISPUTED = [  # by their program in Python, which composes accents, drops what is no character, knows a final sigma
    "e\u0301 cafe\u0301 nai\u0308ve",
    "a\U0010ffffb",
    "ΣΟΦΟΣ",
]


def vocabulary(lowercase: bool = True, **kinds: Any) -> BertTokenizer:
    return BertTokenizer(ENTRIES, lowercase, **kinds)


@pytest.mark.filterwarnings("ignore")  # transformers' own deprecations are not ours to mend
@pytest.mark.parametrize("kinds", [{}, dict(strip_accents=False), dict(strip_accents=True)], ids=str)
@pytest.mark.parametrize("lowercase", [True, False])
def test_pieces_are_those_of_hugging_face(lowercase: bool, kinds: dict[str, Any], tmp_path: Path) -> None:
    """Both of theirs: the one written in Python after the authors' program, and the one they use."""
    from transformers import BertTokenizer
    from transformers.models.bert.tokenization_bert_legacy import BertTokenizerLegacy

    ours = vocabulary(lowercase, **kinds)
    ours.save_vocab_txt(tmp_path / "vocab.txt")
    slow = BertTokenizerLegacy(str(tmp_path / "vocab.txt"), do_lower_case=lowercase, **kinds)
    fast = BertTokenizer(vocab=str(tmp_path / "vocab.txt"), do_lower_case=lowercase, **kinds)
    for text in TRICKY:
        assert ours.tokens(ours.encode(text)) == slow.tokenize(text), ascii(text)
    for text in TRICKY + DISPUTED:
        assert ours.encode(text) == fast.encode(text, add_special_tokens=False), ascii(text)
    assert ours.encode_batch(TRICKY) == [ours.encode(text) for text in TRICKY]
    pair = fast("the cats", "un café!")
    read = ours.build_input(ours.tokenize("the cats"), ours.tokenize("un café!"))
    assert (read.ids, read.segments) == (pair["input_ids"], pair["token_type_ids"])


def test_pieces_know_where_they_stood() -> None:
    text = "The CAFÉS\t中文, unaffable?"
    pieces = vocabulary().tokenize(text)
    assert [text[a:b] for a, b in pieces.spans] == ["The", "CAFÉ", "S", "中", "文", ",", "un", "aff", "able", "?"]
    assert pieces.words == [0, 1, 1, 2, 3, 4, 5, 5, 5, 6]
    assert vocabulary().tokens(pieces.ids)[:3] == ["the", "cafe", "##s"]


@given(st.text(st.sampled_from(LETTERS + " \t中é"), max_size=40))
def test_spans_run_through_the_text_and_spell_the_pieces(text: str) -> None:
    exact = vocabulary(lowercase=False)
    pieces = exact.tokenize(text)
    end = 0
    for number, (first, last), word in zip(pieces.ids, pieces.spans, pieces.words, strict=True):
        assert end <= first < last <= len(text)
        assert number == exact.unk or exact.entries[number].removeprefix("##") == text[first:last]
        assert exact.entries[number].startswith("##") <= (end == first)
        end = last
        assert word >= 0
    assert pieces.words == sorted(pieces.words)


def test_words_that_are_given_keep_their_numbers() -> None:
    pieces = vocabulary().tokenize_words(["Cats", "\u200b", "it's", "[MASK]", "café"])
    assert vocabulary().tokens(pieces.ids)[:2] == ["cat", "##s"]
    assert sorted(set(pieces.words)) == [0, 2, 3, 4]  # the second is no word at all
    assert pieces.spans[:2] == [(0, 3), (3, 4)] and pieces.spans[-1] == (0, 4)
    assert pieces.ids[pieces.words.index(3)] == vocabulary().mask


def test_inputs_of_one_text_and_of_two() -> None:
    ours = vocabulary()
    first, second = ours.tokenize("the cats"), ours.tokenize("un café")
    one, two = ours.build_input(first), ours.build_input(first, second)
    assert ours.tokens(one.ids) == ["[CLS]", "the", "cat", "##s", "[SEP]"]
    assert one.segments == [0] * 5 and one.words == [None, 0, 1, 1, None]
    assert ours.tokens(two.ids) == [*ours.tokens(one.ids), "un", "cafe", "[SEP]"]
    assert two.segments == [0] * 5 + [1] * 3
    assert two.spans == [None, (0, 3), (4, 7), (7, 8), None, (0, 2), (3, 7), None]
    assert two.words == [None, 0, 1, 1, None, 0, 1, None]
    assert ours.build_input(ours.tokenize("")).ids == [ours.cls, ours.sep]
    assert ours.decode(two.ids) == "the cats un cafe"


def test_the_longer_text_is_shortened_as_the_authors_did() -> None:
    def text(length: int) -> Encoding:
        return Encoding(list(range(length)), [(n, n + 1) for n in range(length)], list(range(length)))

    for a in range(8):
        for b in range(8):
            for room in range(16):
                first, second = list(range(a)), list(range(b))
                while len(first) + len(second) > room:
                    (first if len(first) > len(second) else second).pop()
                kept, kept_second = truncate_pair(text(a), text(b), room, "longer")
                assert kept_second is not None and (kept.ids, kept_second.ids) == (first, second)


def test_what_must_stay_whole_stays_whole() -> None:
    ours = vocabulary()
    question, passage = ours.tokenize("the cat"), ours.tokenize("a b c d e f")
    assert ours.tokens(ours.build_input(question, passage, 8, "second").ids) == [
        "[CLS]", "the", "cat", "[SEP]", "a", "b", "c", "[SEP]",
    ]  # fmt: skip
    assert len(ours.build_input(passage, question, 8, "first").ids) == 8
    assert len(ours.build_input(passage, None, 4).ids) == 4
    assert ours.build_input(question, passage, 100) == ours.build_input(question, passage)
    with pytest.raises(ValueError, match="more than 1 tokens"):
        ours.build_input(question, passage, 4, "second")


def test_saved_and_loaded_is_the_same(tmp_path: Path) -> None:
    for kinds in (dict(lowercase=True), dict(lowercase=False, strip_accents=True, split_chinese=False)):
        ours = vocabulary(**kinds)
        ours.save(tmp_path / "tokenizer.json")
        again = BertTokenizer.load(tmp_path / "tokenizer.json")
        assert again.to_json() == ours.to_json() and again.entries == ours.entries
        library = Tokenizer.from_file(str(tmp_path / "tokenizer.json"))
        for text in TRICKY:
            assert again.encode(text) == ours.encode(text) == library.encode(text, add_special_tokens=False).ids
    ours = vocabulary()
    ours.save_vocab_txt(tmp_path / "vocab.txt")
    assert BertTokenizer.load_vocab_txt(tmp_path / "vocab.txt").to_json() == ours.to_json()
    dos = (tmp_path / "vocab.txt").read_bytes().replace(b"\n", b"\r\n")
    (tmp_path / "vocab.txt").write_bytes(dos)
    assert BertTokenizer.load_vocab_txt(tmp_path / "vocab.txt").entries == ours.entries


def test_errors_name_the_file(tmp_path: Path) -> None:
    def refused(path: Path) -> str:
        with pytest.raises(UserError) as error:
            (BertTokenizer.load if path.suffix == ".json" else BertTokenizer.load_vocab_txt)(path)
        assert error.value.where == str(path)
        return error.value.code

    path = tmp_path / "vocab.txt"
    assert refused(path) == "missing-file"
    path.write_text("\n".join(SPECIALS[:3]))
    with pytest.raises(UserError, match=r"vocab\.txt .*it has no \[SEP\] and no \[MASK\]"):
        BertTokenizer.load_vocab_txt(path)
    path.write_text("\n".join([*SPECIALS, "a", "b", "a"]))
    with pytest.raises(UserError, match=r"vocab\.txt .*'a' is there twice, in lines 6 and 8"):
        BertTokenizer.load_vocab_txt(path)
    path.write_bytes(b"\xff\xfe")
    assert refused(path) == "not-utf8"
    (tmp_path / "vocab.txt.xz").write_bytes(b"no archive")
    assert refused(tmp_path / "vocab.txt.xz") == "damaged-file"
    other = json.loads(vocabulary().to_json())
    for content in ("{", "[]", json.dumps(other | {"normalizer": {"type": "NFC"}}), json.dumps({"model": 3})):
        (tmp_path / "tokenizer.json").write_text(content)
        assert refused(tmp_path / "tokenizer.json") == "damaged-file"
    with pytest.raises(UserError) as error:
        vocabulary().encode("a\ud800")
    assert error.value.code == "bad-text"


def test_unknown_words_are_counted() -> None:
    assert vocabulary().count_unknown_words("the cat \u0e01 cats") == (1, 4)
    assert vocabulary().count_unknown_words("") == (0, 0)
