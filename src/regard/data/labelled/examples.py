"""From a record to an example: a plain dict with the same keys in files, on the command line and in Python.

    classification   {"text", "pair"?, "label"?: str}
    regression       {"text", "pair"?, "label"?: float}
    tagging          {"words": [str], "tags"?: [str]}
    answering        {"question", "context", "id"?, "answers"?: [{"text", "start"}]}      [] where there is no answer
    choice           {"text", "choices": [str], "label"?: int}                            from 0

What has a question mark may be missing; what is learnt from or scored must have its label, tags or answers (`GOLD`).
"""

import json
import math
from collections.abc import Callable, Mapping
from itertools import zip_longest
from typing import Any

from regard.data.corpora import refuse_surrogates
from regard.data.labelled.records import Record
from regard.data.labelled.settings import TABLES, Columns, Labelled
from regard.errors import UserError

Example = dict[str, Any]

GOLD = {
    "classification": "label", "regression": "label", "tagging": "tags", "answering": "answers", "choice": "label",
}  # fmt: skip
"""Under which key an example of each task says what is right."""

LARGEST = 1e18  # of numbers that are learnt: their squares are floats of 32 bits

GIVEN = Labelled(file="-", format="jsonl")


def texts_of(example: Mapping[str, Any]) -> list[str]:
    """What is read of an example of any task, text by text."""
    parts = [example[key] for key in ("question", "context", "text", "pair") if example.get(key)]
    return [*parts, *([" ".join(example["words"])] if "words" in example else []), *example.get("choices", ())]


def as_example(task: str, value: Mapping[str, Any], place: str = "the input") -> Example:
    """A dict as the example it is meant to be, checked; a UserError says what is wrong with it, and `place` where."""
    return MAKERS[task](Record(place, dict(value)), GIVEN)


def classification(record: Record, source: Labelled) -> Example:
    """A text, or two, and a class."""
    label = _label(record, source)
    return _texts(record, source) | ({} if label is None else {"label": label})


def regression(record: Record, source: Labelled) -> Example:
    """A text, or two, and a number."""
    example, label = _texts(record, source), _label(record, source)
    if label is not None:
        try:
            example["label"] = float(label)
        except ValueError:
            example["label"] = math.nan
        if not abs(example["label"]) <= LARGEST:
            problem = f"{record.place}: the label {label!r} is not a number, or too large a one"
            raise UserError(problem, "a regression learns numbers, best of about one digit")
    return example


def tagging(record: Record, source: Labelled) -> Example:
    """Words, and a tag for each."""
    example: Example = {"words": _list(record, source, "words")}
    if _get(record, source, "tags") is not None:
        tags = [source.names.get(tag, tag) for tag in _list(record, source, "tags")]
        if len(tags) != len(example["words"]):
            raise UserError(
                f"{record.place}: {len(example['words'])} words and {len(tags)} tags", "write a tag for each word"
            )
        if not all(tags):
            word = example["words"][tags.index("")]
            raise UserError(f"{record.place}: the tag of {word!r} is empty", 'write a tag for each word, "O" for none')
        example["tags"] = tags
    return example


def answering(record: Record, source: Labelled) -> Example:
    """A question about a text, and the stretches of the text that answer it."""
    context, answers = _text(record, source, "context", strip=False), _get(record, source, "answers")
    example: Example = {"question": _text(record, source, "question"), "context": context}
    if (name := record.get("id")) is not None:
        example["id"] = str(name)
    if answers is not None:
        example["answers"] = [_answer(*found, context, record) for found in _spans(answers, record)]
    return example


def choice(record: Record, source: Labelled) -> Example:
    """A text, ways to go on with it, and which of them is right."""
    labels, choices = _choices(record, source)
    example: Example = {"text": _text(record, source, "text"), "choices": choices}
    if len(choices) < 2:
        raise UserError(f"{record.place} has {len(choices)} choice", "there is nothing to choose; write two or more")
    label = _label(record, source)
    if label is not None:
        if labels.count(label) != 1:
            problem = f"{record.place}: the label {label!r} is {'none' if label not in labels else 'not one'} of "
            raise UserError(problem + ", ".join(labels), "write which choice is right")
        example["label"] = labels.index(label)
    return example


def _texts(record: Record, source: Labelled) -> Example:
    example: Example = {"text": _text(record, source, "text")}
    if source.pair is not None or _get(record, source, "pair") is not None:
        example["pair"] = _text(record, source, "pair")
    return example


def _column(source: Labelled, key: str) -> Columns:
    """The column of a key: as named, else the one called as the key."""
    named: Columns | None = getattr(source, key)
    return key if named is None else named


def _get(record: Record, source: Labelled, key: str) -> Any:
    column = _column(source, key)
    return [record.get(one) for one in column] if isinstance(column, list) else record.get(column)


def _missing(record: Record, source: Labelled, key: str) -> UserError:
    column = _column(source, key)
    return UserError(
        f"{record.place}: there is no {key}, which is looked for under {column!r}", found_instead(record, source, key)
    )


def found_instead(record: Record, source: Labelled, key: str) -> str:
    """A remedy for what is not there: what is."""
    headed = source.written in TABLES and source.header
    first = "; or header = false, if the first row is an example" if headed else ""
    return f"it has {record.columns()}; write {key} = the one that is meant{first}"


def _text(record: Record, source: Labelled, key: str, strip: bool = True) -> str:
    found = _get(record, source, key)
    parts = found if isinstance(_column(source, key), list) else [found]
    if any(part is None for part in parts):
        raise _missing(record, source, key)
    texts = [_plain(part, record, key) for part in parts]
    return " ".join(filter(None, (text.strip() for text in texts))) if strip else texts[0]


def _plain(value: Any, record: Record, key: str) -> str:
    """Text as it is, a number or a truth value as JSON writes it; half a surrogate pair is no text."""
    if isinstance(value, (list, dict)):
        raise UserError(f"{record.place}: {key} is no text but {value!r:.60}", "write a text")
    text = value if isinstance(value, str) else json.dumps(value)
    refuse_surrogates(text, record.place)
    return text


def _label(record: Record, source: Labelled) -> str | None:
    value = _get(record, source, "label") if record.label is None else record.label
    label = "" if value is None else _plain(value, record, "label").strip()
    return source.names.get(label, label) or None


def _list(record: Record, source: Labelled, key: str) -> list[str]:
    value = _get(record, source, key)
    if value is None:
        raise _missing(record, source, key)
    if isinstance(value, str):
        return value.split()
    if not isinstance(value, list):
        raise UserError(f"{record.place}: {key} is {value!r:.60}", "write a list, or words with blanks between them")
    return [_plain(item, record, key) for item in value]


def _choices(record: Record, source: Labelled) -> tuple[list[str], list[str]]:
    """The labels of the choices, their own where they have any, else numbers from 0; and what they say."""
    found = _get(record, source, "choices")
    if found is None:
        raise _missing(record, source, "choices")
    if isinstance(found, dict) and isinstance(found.get("text"), list) and isinstance(found.get("label"), list):
        pairs = list(zip_longest(found["label"], found["text"]))
    elif isinstance(found, dict):
        pairs = list(found.items())
    elif isinstance(found, list) and all(isinstance(one, dict) for one in found):
        pairs = [(one.get("label", number), one.get("text")) for number, one in enumerate(found)]
    else:
        pairs = list(enumerate(found)) if isinstance(found, list) else []
    if not pairs or any(part is None for pair in pairs for part in pair):
        raise UserError(f"{record.place}: choices is {found!r:.80}", "write a list with a text for each choice")
    labels, texts = zip(*pairs, strict=True)
    return [_plain(label, record, "choices") for label in labels], [
        _plain(text, record, "choices").strip() for text in texts
    ]


def _spans(answers: Any, record: Record) -> list[tuple[str, int | None]]:
    """Texts and starts, however they are written; a text alone begins wherever it first stands, and "" is none."""
    if isinstance(answers, dict) and isinstance(answers.get("text"), list):
        starts = answers.get("start", answers.get("answer_start", [None] * len(answers["text"])))
        if not isinstance(starts, list) or len(starts) != len(answers["text"]):
            raise UserError(f"{record.place}: the answers begin at {starts!r:.60}", "write a list, a start for each")
        answers = [{"text": text, "start": start} for text, start in zip(answers["text"], starts, strict=True)]
    found: list[tuple[str, int | None]] = []
    for answer in answers if isinstance(answers, list) else [answers] if answers else []:
        if isinstance(answer, str):
            found.append((answer, None))
        elif isinstance(answer, dict) and isinstance(answer.get("text"), str):
            found.append((answer["text"], answer.get("start", answer.get("answer_start"))))
        else:
            raise UserError(f"{record.place}: {answer!r:.60} is no answer", 'write {"text": "...", "start": 17}')
    return found


def _answer(text: str, start: int | None, context: str, record: Record) -> dict[str, Any]:
    start = context.find(text) if start is None else start
    if not text.strip() or not isinstance(start, int) or start < 0 or context[start : start + len(text)] != text:
        raise UserError(
            f"{record.place}: the answer {text!r:.60} does not stand at character {start!r} of its text",
            "characters count from 0; answers = [] says that there is none",
        )
    return {"text": text, "start": start}


MAKERS: dict[str, Callable[[Record, Labelled], Example]] = {
    "classification": classification,
    "regression": regression,
    "tagging": tagging,
    "answering": answering,
    "choice": choice,
}
