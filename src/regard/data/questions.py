"""Files of questions about texts: SQuAD's JSON, its tokenised form, and QAMR.

    {"id", "question", "context", "answers": [{"text", "start"}]}      start counts characters; [] if there is no answer

Where a file counts words, the words are joined by spaces, and an answer reaches from its first to its last word.
"""

from collections.abc import Iterator, Sequence
from itertools import zip_longest

from regard.data.records import Location, Record, SourceFiles
from regard.errors import UserError

TOKENS = {
    "-LRB-": "(", "-RRB-": ")", "-LSB-": "[", "-RSB-": "]", "-LCB-": "{", "-RCB-": "}", "``": '"', "''": '"',
}  # fmt: skip
"""The Penn Treebank's tokens for brackets and quotation marks."""


def read_squad(files: SourceFiles) -> Iterator[Record]:
    """SQuAD v1.1 and v2 (Rajpurkar et al. 2016, 2018): articles of paragraphs of questions."""
    path, document = files.paths[0], files.json()
    try:
        for article in document["data"]:  # type: ignore[index]
            for paragraph in article["paragraphs"]:
                for question in paragraph["qas"]:
                    name = question["id"]
                    value = {"id": name, "question": question["question"], "context": paragraph["context"]}
                    if question.get("is_impossible"):
                        value["answers"] = []
                    elif "answers" in question:
                        value["answers"] = question["answers"]
                    yield Record(Location(path, name, "question"), value)
    except (KeyError, TypeError) as error:
        raise UserError(
            f"{path} is not in the format of SQuAD: {error!r} is missing",
            "SQuAD is {data: [{paragraphs: [{context, qas: [{id, question, answers: [{text, answer_start}]}]}]}]}",
            code="bad-record",
            where=path,
        ) from error


def read_squad_tokens(files: SourceFiles) -> Iterator[Record]:
    """Line-aligned words: .context, .question, and .span, the numbers of the answer's first and last word from 0."""
    paths = files.paths
    for number, lines in enumerate(zip_longest(*(files.lines(index) for index in range(3))), 1):
        if None in lines:
            short = paths[lines.index(None)]
            raise UserError(
                f"{short} has {number - 1} lines, and the other files have more",
                "line n of all three files is one example",
                code="unaligned-files",
                where=short,
            )
        context, question, span = lines
        location = Location(paths[2], number)
        answer = word_span(context.split(" "), word_numbers(span, location), location)
        value = {"id": str(number), "question": question, "context": context, "answers": [answer]}
        yield Record(Location(paths[0], number), value)


def read_qamr(files: SourceFiles) -> Iterator[Record]:
    """QAMR (Michael et al. 2018): questions about sentences; an answer is a set of words, chosen by three people.

    If the words are not side by side, the answer is the shortest span that contains them all.
    """
    path, contexts = files.paths
    sentences = dict(_qamr_sentences(files))
    for number, line in enumerate(files.lines(), 1):
        location = Location(path, number)
        cells = line.split("\t")
        if len(cells) < 7:
            raise Record(location, cells).error(
                f"{len(cells)} columns", "QAMR has 9: the 6th is the question, the 7th its answer"
            )
        if cells[0] not in sentences:
            raise Record(location, cells).error(
                f"no sentence {cells[0]!r} in {contexts}", "check that both files are of the same split"
            )
        words = sentences[cells[0]]
        spans = [cells[6], *(cell.partition(":")[2] for cell in cells[7:])]
        answers = [word_span(words, word_numbers(span, location), location) for span in spans]
        distinct = [answer for i, answer in enumerate(answers) if answer not in answers[:i]]
        value = {"id": str(number), "question": cells[5], "context": " ".join(words), "answers": distinct}
        yield Record(location, value)


def _qamr_sentences(files: SourceFiles) -> Iterator[tuple[str, list[str]]]:
    for number, line in enumerate(files.lines(1), 1):
        name, tab, sentence = line.partition("\t")
        if not tab:
            raise Record(Location(files.paths[1], number), line).error(
                "there is no tab", "write the sentence's name, a tab and the sentence"
            )
        yield name, [TOKENS.get(word, word) for word in sentence.split(" ")]


def word_numbers(text: str, location: Location) -> list[int]:
    """Numbers of words, separated by spaces; at least one."""
    try:
        numbers = [int(number) for number in text.split()]
    except ValueError:
        numbers = []
    if not numbers:
        raise Record(location, text).error(
            f"{text!r} is not a list of word numbers", "an answer is the numbers of its words, like 17 19"
        )
    return numbers


def word_span(words: Sequence[str], numbers: Sequence[int], location: Location) -> dict[str, object]:
    """The answer from the first to the last of the numbered words, and its start among the characters."""
    first, last = min(numbers), max(numbers)
    if first < 0 or last >= len(words):
        raise Record(location, words).error(
            f"an answer of words {first} to {last} in a text of {len(words)}", "words count from 0"
        )
    start = sum(len(word) + 1 for word in words[:first])
    return {"text": " ".join(words[first : last + 1]), "start": start}
