"""Texts of the general translator that are no corpora of pairs: our own, and English sentences for the teacher.

Our own texts are the files benchmarks/written/*.tsv, in five languages; those in WORD_LISTS are word lists, the others
have sentences and short texts. English sentences are those of Wikipedia and Wikinews (WikiText-2, the training part,
paragraphs from the training part of SQuAD, and QAMR with its questions), of dialogues, of the web (UD English EWT), of
requests (CLINC150, BANKING77) and of advice (PIQA). Sentences that tests of translators use are left out.
"""

import csv
import json
import lzma
import re
from collections.abc import Iterator
from functools import cache
from heapq import nsmallest
from pathlib import Path

from benchmarks.judge import read_table

from regard.data.split import hash_sentence
from regard.documents.scripts import count_scripts
from regard.documents.sentences import sentence_spans

LANGUAGES = ("de", "fr", "es", "zh")
FOLDER = Path(__file__).parent
WRITTEN, WORD_LISTS = FOLDER / "written", ("words", "expressions", "nouns", "terms", "frequent")
BUNDLED = FOLDER.parent / "src/regard/bundled"
TEST_TEXTS = (FOLDER / "everyday.tsv", *(BUNDLED / f"{name}.tsv" for name in ("sentences", "minimal_pairs", "phrases")))
SEED = 1
CHOICE = re.compile(r"\{([^{}|]*)\|([^{}|]*)\}")
"""The right and the wrong words of a minimal pair."""
PROSE = ("wikitext-2-raw/wiki.train.raw.xz", "squad-v1.1-cs224n/val.context.xz")
DIALOGUES = "self-dialogue/dialogues.txt.xz"
WEB, WEB_PREFIX = "ud-english-ewt/train.conllu.xz", "# text = "
REQUESTS, BANKING = "clinc150/data_full.json.xz", "banking77/train.csv.xz"
QUESTIONS, NEWS = ("qamr/filtered.dev.tsv.xz", "qamr/filtered.test.tsv.xz"), "qamr/wiki-sentences.tsv.xz"
ADVICE = "piqa/train_ih.jsonl.xz"
MIN_WORDS, MAX_WORDS = 5, 40
MAX_UTTERANCES = 60_000
WHOLE = re.compile(r"[A-Z\"'“‘(\d].*[.!?][\"”’')]*")
"""A sentence that is no heading, caption or rest of one."""


def read_written(path: Path) -> list[dict[str, str]]:
    """The rows of one of our own files, by language, without those whose English is in a test."""
    return [row for row in read_table(path) if hash_sentence(row["en"], SEED) not in held_sentences()]


def written_pairs(language: str, word_lists: bool = False) -> Iterator[tuple[str, str]]:
    """The pairs of our own texts, or of the word lists; English first."""
    for path in sorted(WRITTEN.glob("*.tsv")):
        if (path.stem in WORD_LISTS) == word_lists:
            yield from ((row["en"], row[language]) for row in read_written(path))


@cache
def held_sentences() -> frozenset[int]:
    """Hashes of the English sentences that tests of translators use, without case and punctuation."""
    texts = [row["en"] for path in TEST_TEXTS for row in read_table(path)]
    return frozenset(hash_sentence(CHOICE.sub(choice, text), SEED) for text in texts for choice in (r"\1", r"\2"))


def english_sentences(data: Path, limit: int | None = None) -> list[str]:
    """Different English sentences for the teacher to translate, at most `limit` of each kind."""
    prose = dict.fromkeys(sentence for name in PROSE for sentence in read_prose(data / name))
    utterances = dict.fromkeys(read_utterances(data / DIALOGUES))
    sample = nsmallest(limit or MAX_UTTERANCES, utterances, key=lambda text: hash_sentence(text, SEED + 1))
    others = dict.fromkeys(filter(is_usable, read_others(data)))
    texts = dict.fromkeys([*list(prose)[:limit], *sample, *list(others)[:limit]])
    return [text for text in texts if hash_sentence(text, SEED) not in held_sentences()]


def read_prose(path: Path) -> Iterator[str]:
    """The sentences of tokenised paragraphs, one paragraph a line, with the spaces of ordinary text."""
    with lzma.open(path, "rt", encoding="utf-8") as stream:
        for line in stream:
            paragraph = "" if line.lstrip().startswith("=") else detokenize(line.strip())
            for start, end in sentence_spans(paragraph, "en"):
                if is_usable(sentence := paragraph[start:end]) and WHOLE.fullmatch(sentence):
                    yield sentence


def read_utterances(path: Path) -> Iterator[str]:
    """The utterances of dialogues, one a line; lines with # are titles."""
    with lzma.open(path, "rt", encoding="utf-8") as stream:
        yield from (text for text in map(str.strip, stream) if not text.startswith("#") and is_usable(text))


def read_others(data: Path) -> Iterator[str]:
    """Sentences of the web and of news, requests, questions and advice."""

    def lines(name: str) -> list[str]:
        with lzma.open(data / name, "rt", encoding="utf-8", newline="") as stream:
            return stream.read().splitlines(keepends=True)

    yield from (line.removeprefix(WEB_PREFIX).strip() for line in lines(WEB) if line.startswith(WEB_PREFIX))
    sentences = (line.split("\t")[1].replace("-LRB-", "(").replace("-RRB-", ")") for line in lines(NEWS))
    yield from (detokenize(sentence.strip()) for sentence in sentences)
    yield from (text for text, _ in json.loads("".join(lines(REQUESTS)))["train"])
    yield from (row["text"].strip() for row in csv.DictReader(lines(BANKING)) if "\n" not in row["text"])
    yield from (line.split("\t")[5].strip() for name in QUESTIONS for line in lines(name))
    yield from (json.loads(line)[side].strip() for line in lines(ADVICE) for side in ("goal", "sol1", "sol2"))


def is_usable(text: str) -> bool:
    """True for an English text with a fitting number of words, in Latin letters, with matching quotes."""
    is_plain = text.isprintable() and text.count('"') % 2 == 0 and count_scripts(text).keys() <= {"LATIN"}
    return is_plain and MIN_WORDS <= len(text.split()) <= MAX_WORDS


def detokenize(text: str) -> str:
    """A sentence without spaces before commas, inside of brackets and quotes."""
    text = re.sub(r" ([,.;:!?%)\]}“])", r"\1", text)
    text = re.sub(r"([(\[{„]) ", r"\1", text)
    text = re.sub(r" (n't|'(?:s|re|ve|ll|d|m)\b)", r"\1", text)
    text = re.sub(r'" ([^"]*?) "', r'"\1"', text)
    return re.sub(r" (@[-,.]@|/) ", lambda match: match[1].strip("@"), text).strip()
