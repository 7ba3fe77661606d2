"""Files of questions about texts: SQuAD's JSON, its tokenised form, and QAMR; as records of the toolkit's own form.

    {"id", "question", "context", "answers": [{"text", "start"}]}      start counts characters; []: there is none

Where a file counts words, they are joined by blanks, and an answer is what stands between its first and last word.
"""

from collections.abc import Callable, Iterator, Sequence
from itertools import zip_longest
from pathlib import Path
from typing import Any

from regard.data.corpora import read_lines
from regard.data.labelled.records import Record, json_document
from regard.data.labelled.settings import Labelled
from regard.errors import UserError

Answer = dict[str, Any]

BRACKETS = {
    "-LRB-": "(", "-RRB-": ")", "-LSB-": "[", "-RSB-": "]", "-LCB-": "{", "-RCB-": "}", "``": '"', "''": '"',
}  # fmt: skip
"""What the Penn Treebank's names for brackets and quotation marks stand for."""


def squad(root: Path, source: Labelled) -> Iterator[Record]:
    """SQuAD v1.1 and v2 (Rajpurkar et al. 2016, 2018): articles of paragraphs of questions."""
    path = source.files(root)[0]
    document = json_document(path)
    try:
        for article in document["data"]:
            for paragraph in article["paragraphs"]:
                for asked in paragraph["qas"]:
                    value = {"id": asked["id"], "question": asked["question"], "context": paragraph["context"]}
                    if asked.get("is_impossible"):
                        value["answers"] = []
                    elif "answers" in asked:
                        value["answers"] = asked["answers"]
                    yield Record(f"{path}, question {asked['id']}", value)
    except (KeyError, TypeError) as error:
        remedy = "SQuAD is {data: [{paragraphs: [{context, qas: [{id, question, answers: [{text, answer_start}]}]}]}]}"
        raise UserError(f"{path} is not written as SQuAD is: {error!r} is missing", remedy) from error


def squad_tokens(root: Path, source: Labelled) -> Iterator[Record]:
    """Line-aligned words: .context, .question, and .span, the numbers of the answer's first and last word from 0."""
    paths = source.files(root)
    for number, lines in enumerate(zip_longest(*map(read_lines, paths)), 1):
        if None in lines:
            missing = paths[lines.index(None)]
            raise UserError(f"{missing} has {number - 1} lines, and others more", "line n of all belongs together")
        context, question, span = lines
        place = f"{paths[2]}, line {number}"
        words = context.split(" ")
        answer = stretch(words, numbers(span, place), place)
        value = {"id": str(number), "question": question, "context": context, "answers": [answer]}
        yield Record(f"{paths[0]}, line {number}", value)


def qamr(root: Path, source: Labelled) -> Iterator[Record]:
    """QAMR (Michael et al. 2018): questions about sentences; an answer is a set of words, given by three people.

    Words that are not side by side become the shortest stretch that has them all.
    """
    path, contexts = source.files(root)
    tokens = dict(_numbered(contexts))
    for number, line in enumerate(read_lines(path), 1):
        place = f"{path}, line {number}"
        cells = line.split("\t")
        if len(cells) < 7:
            raise UserError(
                f"{place} has {len(cells)} columns", "QAMR has 9: the 6th is the question, the 7th its answer"
            )
        if cells[0] not in tokens:
            raise UserError(f"{place}: no sentence {cells[0]!r} in {contexts}", "is it the file of another part?")
        words = tokens[cells[0]]
        given = [cells[6], *(cell.partition(":")[2] for cell in cells[7:])]
        answers = [stretch(words, numbers(cell, place), place) for cell in given]
        once = [answer for i, answer in enumerate(answers) if answer not in answers[:i]]
        value = {"id": str(number), "question": cells[5], "context": " ".join(words), "answers": once}
        yield Record(place, value)


def _numbered(path: Path) -> Iterator[tuple[str, list[str]]]:
    for number, line in enumerate(read_lines(path), 1):
        name, tab, sentence = line.partition("\t")
        if not tab:
            raise UserError(f"{path}, line {number} has no tab", "write the sentence's name, a tab and the sentence")
        yield name, [BRACKETS.get(word, word) for word in sentence.split(" ")]


def numbers(text: str, place: str) -> list[int]:
    """Numbers of words, with blanks between them; at least one."""
    try:
        found = [int(part) for part in text.split()]
    except ValueError:
        found = []
    if not found:
        raise UserError(f"{place}: {text!r} says no words", "an answer is the numbers of its words, like 17 19")
    return found


def stretch(words: Sequence[str], chosen: Sequence[int], place: str) -> Answer:
    """The answer from the first to the last of the chosen words, and the character of the joined words it begins at."""
    first, last = min(chosen), max(chosen)
    if first < 0 or last >= len(words):
        raise UserError(
            f"{place}: an answer of words {first} to {last} in a text of {len(words)}", "words count from 0"
        )
    start = sum(len(word) + 1 for word in words[:first])
    return {"text": " ".join(words[first : last + 1]), "start": start}


READERS: dict[str, Callable[[Path, Labelled], Iterator[Record]]] = {
    "squad": squad,
    "squad-tokens": squad_tokens,
    "qamr": qamr,
}
