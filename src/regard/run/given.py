"""What is asked about, as people write it: an object of JSON, or a line of plain text.

classification, regression   text              or  text TAB second text
tagging                      text, which is cut into words: each punctuation sign is one of its own
answering                    question TAB context
choice                       text TAB choice TAB choice ...
pretraining                  text with [MASK]  or  text TAB second text
"""

import json
from collections.abc import Iterable, Iterator
from itertools import groupby
from typing import Any

from regard.data.examples import Example
from regard.data.fields import LABELLED_TEXT
from regard.data.lines import check_surrogates
from regard.data.records import Location
from regard.errors import UserError
from regard.recipe.understanding import UNDERSTANDING
from regard.text.bert import BertTokenizer

Given = dict[str, Any] | str

FORMS = {
    "classification": '{"text": "..."}, or with a second text {"text": "...", "pair": "..."}',
    "regression": '{"text": "..."}, or with a second text {"text": "...", "pair": "..."}',
    "tagging": '{"words": ["...", "..."]}',
    "answering": '{"question": "...", "context": "..."}',
    "choice": '{"text": "...", "choices": ["...", "..."]}',
    "pretraining": '{"text": "Paris is the [MASK] of France."}, or with a second text {"text": "...", "pair": "..."}',
}
NEEDED = {
    "classification": ("text",), "regression": ("text",), "tagging": ("words",), "answering": ("question", "context"),
    "choice": ("text", "choices"), "pretraining": ("text",),
}  # fmt: skip
DEEPEST = 32
FIELDS = {recipe.model_fields["task"].default: recipe.fields for recipe in UNDERSTANDING}
ONE_LINE = {
    "answering": "question TAB context",
    "choice": "text TAB choice TAB choice, and more of them",
}


def from_json(line: str, place: str) -> Given:
    """A line of a file: an object of JSON where it begins like one, else the text as it stands."""
    if not line.lstrip().startswith("{"):
        return line
    try:
        found: dict[str, Any] = json.loads(line)
    except (ValueError, RecursionError) as error:
        remedy = 'a line that begins with { is read as JSON; for a text that does, write {"text": "{..."}'
        raise UserError(f"{place} is not JSON: {error}", remedy) from error
    if is_deep(found):
        raise UserError(f"{place} is JSON nested too deeply", "write texts, and lists of texts")
    return found


def is_deep(value: Any) -> bool:
    """Whether something is in something is in something, more than DEEPEST times."""
    level = [value]
    for _ in range(DEEPEST):
        inner = (each.values() if isinstance(each, dict) else each for each in level if isinstance(each, dict | list))
        level = [part for parts in inner for part in parts]
    return bool(level)


def as_asked(task: str, given: Given, vocabulary: BertTokenizer, place: str = "the input") -> Example:
    """The example that is meant, checked, without what it says is right; a UserError says what is wrong and where.

    Keys of one's own, a number or a name to know it by, are kept.
    """
    values = from_text(task, given, vocabulary, place) if isinstance(given, str) else given
    for key in NEEDED[task]:
        if values.get(key) is None:
            raise UserError(f"{place} has no {key!r}", f"write {FORMS[task]}")
    check_surrogates(json.dumps(values, ensure_ascii=False, default=str), place)
    fields = FIELDS.get(task, LABELLED_TEXT)
    asked = {key: value for key, value in values.items() if key != fields.target}
    return asked | fields.parse(asked, Location(place))


def from_text(task: str, text: str, vocabulary: BertTokenizer, place: str) -> dict[str, Any]:
    """A line of plain text as the dictionary it stands for."""
    if task == "tagging":
        return {"words": words_of(text, vocabulary)}
    first, *rest = text.split("\t")
    if task == "choice" and len(rest) > 1:
        return {"text": first, "choices": rest}
    if task == "answering" and len(rest) == 1:
        return {"question": first, "context": rest[0]}
    if task in ONE_LINE or len(rest) > 1:
        parts = "1 part" if not rest else f"{len(rest) + 1} parts with tabs between them"
        plain = ONE_LINE.get(task, "text, or text TAB second text")
        raise UserError(f"{place} has {parts}", f"write {plain}; or {FORMS[task]}")
    return {"text": first, "pair": rest[0]} if rest else {"text": first}


def words_of(text: str, vocabulary: BertTokenizer) -> list[str]:
    """Between blanks, and each punctuation sign for itself, as BERT cuts text; what is kept is as it stands."""
    pieces = vocabulary.tokenize(text)
    words = groupby(zip(pieces.words, pieces.spans, strict=True), key=lambda each: each[0])
    spans = ([span for _, span in word] for _, word in words)
    return [text[found[0][0] : found[-1][1]] for found in spans]


def size_of(example: Example) -> int:
    """Its characters."""
    return sum(len(value if isinstance(value, str) else str(value)) for value in example.values())


def stretches(
    examples: Iterable[Example], most: int = 1024, most_characters: int = 2_000_000
) -> Iterator[list[Example]]:
    """Consecutive examples, as many together as the bounds allow; one beyond them stands alone."""
    stretch: list[Example] = []
    characters = 0
    for example in examples:
        size = size_of(example)
        if stretch and (len(stretch) == most or characters + size > most_characters):
            yield stretch
            stretch, characters = [], 0
        stretch.append(example)
        characters += size
    if stretch:
        yield stretch
