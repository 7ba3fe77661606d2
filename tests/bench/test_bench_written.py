"""Our own texts for the general translator: complete, with the numbers of their English, and in no test."""

import lzma
import re
from pathlib import Path

import pytest
from benchmarks.judge import FOLDER, read_table
from benchmarks.translator_text import (
    BUNDLED,
    LANGUAGES,
    WORD_LISTS,
    WRITTEN,
    detokenize,
    english_sentences,
    held_sentences,
    is_usable,
    read_written,
    written_pairs,
)

from regard.data.cleaning import numbers_differ
from regard.data.split import hash_sentence
from regard.documents.scripts import count_scripts

FILES = sorted(WRITTEN.glob("*.tsv"))
HAN = "CJK"
OTHER_DIGITS = re.compile(r"[万亿成]|年代|\bmill?(?:ones|es)?\b|\baños\b|\bsiècle\b|\bsiglo\b", re.IGNORECASE)
"""What a language writes with other digits: 50,000 is 5万, a billion mil millones, the 12th century le XIIe siècle."""
MAX_DIFFERENT = 0.02
"""Share of translations with other digits for other reasons, e.g. a 12-year-old is ein Zwölfjähriger."""


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_rows_are_complete_and_in_their_languages(path: Path) -> None:
    assert path.read_text(encoding="utf-8").splitlines()[0].split("\t") == ["en", *LANGUAGES]
    rows = list(read_table(path))
    assert rows and all(all(map(str.strip, row.values())) for row in rows)
    lettered = [row for row in rows if any(map(str.isalpha, row["zh"]))]
    assert not [row for row in lettered if not count_scripts(row["zh"])[HAN]]
    latin = [row for row in rows if not count_scripts(row["en"])[HAN]]  # In Chinese, 谢谢 means thank you.
    assert not [row for row in latin for language in ("de", "fr", "es") if count_scripts(row[language])[HAN]]


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_translations_have_the_numbers_of_their_english(path: Path) -> None:
    rows = [row for row in read_table(path) if re.search(r"\d", row["en"])]
    pairs = [
        (row["en"], row[language]) for row in rows for language in LANGUAGES if not OTHER_DIGITS.search(row[language])
    ]
    wrong = [pair for pair in pairs if numbers_differ(*pair) or not re.search(r"\d", pair[1])]
    assert len(wrong) <= MAX_DIFFERENT * len(pairs), wrong


def test_no_sentence_of_a_test_is_used() -> None:
    used = {hash_sentence(row["en"], 1) for path in FILES for row in read_written(path)}
    for path in (FOLDER / "everyday.tsv", BUNDLED / "sentences.tsv", BUNDLED / "phrases.tsv"):
        assert used.isdisjoint(hash_sentence(row["en"], 1) for row in read_table(path))
    assert {
        hash_sentence(text, 1) for text in ("good morning", "The door is open; please close it")
    } <= held_sentences()


@pytest.mark.parametrize("language", LANGUAGES)
def test_word_lists_are_a_corpus_of_their_own(language: str) -> None:
    words, texts = (list(written_pairs(language, word_lists)) for word_lists in (True, False))
    assert len(words) == sum(len(read_written(WRITTEN / f"{name}.tsv")) for name in WORD_LISTS)
    assert len(texts) == sum(len(read_written(path)) for path in FILES if path.stem not in WORD_LISTS)


def test_english_sentences_of_every_kind_without_those_of_tests(tmp_path: Path) -> None:
    for name, text in {
        "wikitext-2-raw/wiki.train.raw.xz": " = Title = \n The town lies on a wide river . \n",
        "squad-v1.1-cs224n/val.context.xz": "The bridge was built of stone .\n",
        "self-dialogue/dialogues.txt.xz": "# title\nI saw that film last week.\n",
        "ud-english-ewt/train.conllu.xz": "# text = We stayed there for three nights.\n1\tWe\n",
        "qamr/wiki-sentences.tsv.xz": "id\tThe mayor -LRB- of Rome -RRB- resigned on Friday .\n",
        "qamr/filtered.dev.tsv.xz": "id\t1\t2\t3\t4\tWho did resign on that day?\t5\n",
        "qamr/filtered.test.tsv.xz": "id\t1\t2\t3\t4\tWho?\t5\n",
        "clinc150/data_full.json.xz": '{"train": [["what is the weather in rome", "weather"]], "test": []}',
        "banking77/train.csv.xz": 'text\n"Why was my card, then, declined?"\nThe door is open; please close it\n',
        "piqa/train_ih.jsonl.xz": '{"goal": "Peel it", "sol1": "Use a sharp and short knife", "sol2": "Spoon"}\n',
    }.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_bytes(lzma.compress(text.encode()))
    assert sorted(english_sentences(tmp_path)) == [
        "I saw that film last week.", "The bridge was built of stone.", "The mayor (of Rome) resigned on Friday.",
        "The town lies on a wide river.", "Use a sharp and short knife", "We stayed there for three nights.",
        "Who did resign on that day?", "Why was my card, then, declined?", "what is the weather in rome",
    ]  # fmt: skip


def test_tokenized_sentences_become_ordinary_text() -> None:
    tokenized = 'It was a role @-@ playing game , she said : " It cost 1 @,@ 000 yen ( or 8 @.@ 5 dollars ) . "'
    plain = 'It was a role-playing game, she said: "It cost 1,000 yen (or 8.5 dollars)."'
    assert detokenize(tokenized) == plain and is_usable(plain)
    assert not is_usable("Too short.") and not is_usable("The game 戦場 was released in the year 2011.")
