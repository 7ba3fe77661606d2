"""Examples: plain dictionaries, with the same keys in files, on the command line and in Python.

    pair            {"src", "tgt", "from"?, "to"?, "reversed"?: True, "copy"?: int, "score"?: float,
                     "back_translated"?: True}
                    languages; reversed: read backward; copy: 1, 2 ... if a source repeats its pairs;
                    back_translated: a model wrote the source
    tree            {"src", "tgt", "tree"}                 sentence, linearised tree, tree in brackets
    line            {"text"}
    sentence        {"text", "first": bool}                first: True if a document begins with it
    labelled text   {"text", "pair"?, "label"?: str}
    scored text     {"text", "pair"?, "label"?: float}
    tagged words    {"words": [str], "tags"?: [str]}
    dependencies    {"words": [str], "heads"?: [int], "relations"?: [str]}    heads from 1; 0 for the root
    question        {"question", "context", "id"?, "answers"?: [{"text", "start"}]}      [] if there is no answer
    choice          {"text", "choices": [str], "label"?: int}                            from 0
    recording       {"audio", "folder"?, "text"?}          name of a WAV file, the folder it is relative to, transcript

A key with a question mark may be missing; training and scoring need the target. The functions of this file make an
example of a record of a file, and check it.
"""

import json
import math
import re
from collections.abc import Iterator
from itertools import zip_longest
from pathlib import Path

from regard.data.records import Record
from regard.data.sources import Column, Source
from regard.data.tables import find_sides
from regard.errors import UserError
from regard.files import JsonObject
from regard.reading import check_text
from regard.trees import find_cycle

Example = JsonObject
"""One example of any task, with or without its target."""

NUMBER = re.compile(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?")
MAX_NUMBER = 1e18  # of a regression target: its square fits in 32-bit floating point


def read_example(record: Record, source: Source) -> Example:
    """An example of any task as it is, from JSON lines in the format `examples`."""
    if not isinstance(record.value, dict):
        raise record.error("this is not an example", "write one JSON object per line")
    return record.value


# ---- text without labels


def read_pair(record: Record, source: Source) -> Example:
    """A sentence and its translation, if there is one."""
    example: Example = {}
    for side in ("src", "tgt"):
        text = record.get(_side_column(record, source, side))
        if text is None and side == "tgt":
            continue
        if not isinstance(text, str):
            raise missing_field(record, source, side)
        if not text.isascii():
            check_text(text, record.location, record.location.where)
        example[side] = text
    if "score" in source.columns:
        example["score"] = _score(record, source)
    return example


def _score(record: Record, source: Source) -> float:
    """The score of a pair; a higher one is better."""
    value = _get(record, source, "score")
    if value is None:
        raise missing_field(record, source, "score")
    text = value if isinstance(value, str) else json.dumps(value)
    if not NUMBER.fullmatch(text.strip()) or not abs(number := float(text)) <= MAX_NUMBER:
        raise record.error(f"the score {text[:60]!r} is not a number", "write a number, a higher one for a better pair")
    return number


def repeat_pair(pair: Example, source: Source) -> Iterator[Example]:
    """A pair with its languages, in each direction of its source, as often as the source repeats it."""
    directions = source.language_pairs()
    if source.back_translated:
        pair = {**pair, "back_translated": True}
    oriented = [] if directions else [pair]
    for direction in directions:
        named = dict(zip(("from", "to"), direction, strict=True))
        if direction == (source.src_lang, source.tgt_lang):
            oriented.append({**pair, **named})
        elif "tgt" in pair:
            sides = {"src": pair["tgt"], "tgt": pair["src"]}  # the source is then the text that a person wrote
            kept = {key: value for key, value in pair.items() if key != "back_translated"}
            oriented.append({**kept, **sides, **named, "reversed": True})
    for copy in range(source.repeat or 1):
        yield from ({**example, "copy": copy} if copy else example for example in oriented)


def _side_column(record: Record, source: Source, side: str) -> Column:
    """The column of a side of a pair: as given, or the key of its name; in a table by the header, else 1 and 2."""
    column = source.column(side)
    if side in source.columns or not isinstance(record.value, list):
        return column if isinstance(column, int) else str(column)
    index = ("src", "tgt").index(side)
    sides = None if source.columns.keys() & {"src", "tgt"} else find_sides(record.header)
    return sides[index] if sides is not None else index + 1


def read_tree(record: Record, source: Source) -> Example:
    """A sentence, its linearised tree, and the tree."""
    return record.value if isinstance(record.value, dict) else {}


def read_line(record: Record, source: Source) -> Example:
    """A line of text; blank lines too."""
    return {"text": record.get("text")}


def read_sentence(record: Record, source: Source) -> Example:
    """A sentence of a document."""
    return {"text": record.get("text"), "first": record.get("first")}


# ---- labelled text


def read_labelled_text(record: Record, source: Source) -> Example:
    """A text, or two, and a class."""
    label = _label(record, source)
    return _texts(record, source) | ({} if label is None else {"label": label})


def read_scored_text(record: Record, source: Source) -> Example:
    """A text, or two, and a number."""
    example, label = _texts(record, source), _label(record, source)
    if label is not None:
        example["label"] = float(label) if NUMBER.fullmatch(label) else math.nan
        if not abs(example["label"]) <= MAX_NUMBER:
            problem = f"the label {label!r} is not a number, or too large"
            raise record.error(problem, "use numbers; values near 1 are best")
    return example


def read_tagged_words(record: Record, source: Source) -> Example:
    """Words, and a tag for each."""
    words = _list(record, source, "words")
    example: Example = {"words": words}
    if _get(record, source, "tags") is not None:
        names = source.names or {}
        tags = [names.get(tag, tag) for tag in _list(record, source, "tags")]
        if len(tags) != len(words):
            raise record.error(f"{len(words)} words and {len(tags)} tags", "write one tag for each word")
        if not all(tags):
            problem = f"the tag of {words[tags.index('')]!r} is empty"
            raise record.error(problem, 'write one tag for each word, "O" for none')
        example["tags"] = tags
    return example


def read_dependencies(record: Record, source: Source) -> Example:
    """Words, and for each the number of its head, from 1, and the relation to it; the head of the root is 0."""
    words = _list(record, source, "words")
    if _get(record, source, "heads") is None:
        return {"words": words}
    names = source.names or {}
    heads = _list(record, source, "heads")
    relations = [names.get(name, name) for name in _list(record, source, "relations")]
    if not len(words) == len(heads) == len(relations):
        problem = f"{len(words)} words, {len(heads)} heads and {len(relations)} relations"
        raise record.error(problem, "write one head and one relation for each word")
    for head in heads:
        if not (head.isascii() and head.isdecimal() and int(head) <= len(words)):
            raise record.error(f"the head {head}", f"write the number of a word, 1 to {len(words)}, or 0 for the root")
    tree = [int(head) for head in heads]
    if (roots := tree.count(0)) != 1 and words:
        raise record.error(f"{roots} words have the head 0", "one word of a sentence is its root")
    if cycle := find_cycle([-1, *tree]):
        raise record.error(f"the heads of word {cycle[0]} lead back to it", "every word depends on the root in the end")
    return {"words": words, "heads": tree, "relations": relations}


def read_question(record: Record, source: Source) -> Example:
    """A question about a text, and the spans of the text that answer it."""
    context, answers = _text(record, source, "context", strip=False), _get(record, source, "answers")
    example: Example = {"question": _text(record, source, "question"), "context": context}
    if (name := record.get("id")) is not None:
        example["id"] = str(name)
        check_text(example["id"], record.location, record.location.where)
    if answers is not None:
        example["answers"] = [_answer(text, start, context, record) for text, start in _spans(answers, record)]
    return example


def read_choice(record: Record, source: Source) -> Example:
    """A text, its possible continuations, and which of them is right."""
    labels, choices = _choices(record, source)
    example: Example = {"text": _text(record, source, "text"), "choices": choices}
    if len(choices) < 2:
        raise record.error(f"{len(choices)} choice", "write two choices or more")
    label = _label(record, source)
    if label is not None:
        if labels.count(label) != 1:
            relation = "not" if label not in labels else "more than"
            problem = f"the label {label!r} is {relation} one of {', '.join(labels)}"
            raise record.error(problem, "write which choice is right")
        example["label"] = labels.index(label)
    return example


def read_recording(record: Record, source: Source) -> Example:
    """The name of a recording, which must exist, and what is said in it."""
    example: Example = {"audio": _text(record, source, "audio")}
    if isinstance(record.location.path, Path):
        example["folder"] = str(record.location.path.parent)
        if not (Path(example["folder"]) / example["audio"]).is_file():
            problem = f"the recording {example['audio']!r} does not exist in {example['folder']}"
            raise record.error(problem, "paths of recordings are relative to the table", code="missing-file")
    if _get(record, source, "text") is not None:
        example["text"] = _text(record, source, "text")
    return example


def missing_field(record: Record, source: Source, name: str, reason: str = "") -> UserError:
    """The error for a field that a record does not have."""
    if name in ("src", "tgt"):
        return record.error(
            f"there is no text in column {_side_column(record, source, name)!r}",
            f"the record has {record.describe_columns()}; set `{name}_column` to the one with the {name} side, or "
            "`delimiter` to the character between columns",
        )
    table = bool(record.header) and isinstance(record.value, list) and not isinstance(record.value[0], list)
    command = f"; --columns {name}=COLUMN for a file that a command names" if table else ""
    header = "; or header = false, if the first row is an example" if table else ""
    remedy = f"the record has {record.describe_columns()}; set `{name}` to the right one{header}{command}"
    return record.error(reason or f"there is no {name} (column {source.column(name)!r})", remedy, code="missing-field")


def _texts(record: Record, source: Source) -> Example:
    example: Example = {"text": _text(record, source, "text")}
    if "pair" in source.columns or _get(record, source, "pair") is not None:
        example["pair"] = _text(record, source, "pair")
    return example


def _get(record: Record, source: Source, name: str) -> object:
    column = source.column(name)
    return [record.get(one) for one in column] if isinstance(column, list) else record.get(column)


def _text(record: Record, source: Source, name: str, strip: bool = True) -> str:
    value = _get(record, source, name)
    values = value if isinstance(value, list) and isinstance(source.column(name), list) else [value]
    if any(value is None for value in values):
        raise missing_field(record, source, name)
    texts = [_plain(value, record, name) for value in values]
    return " ".join(filter(None, (text.strip() for text in texts))) if strip else texts[0]


def _plain(value: object, record: Record, name: str) -> str:
    """Text as it is; a number or a truth value as JSON writes it."""
    if isinstance(value, (list, dict)):
        raise record.error(f"{name} is not text but {value!r:.60}", "write a text")
    text = value if isinstance(value, str) else json.dumps(value)
    check_text(text, record.location, record.location.where)
    return text


def _label(record: Record, source: Source) -> str | None:
    """The label of a record, renamed by `source.names`; None if it is missing or empty."""
    value = _get(record, source, "label") if record.label is None else record.label
    label = "" if value is None else _plain(value, record, "label").strip()
    return (source.names or {}).get(label, label) or None


def _list(record: Record, source: Source, name: str) -> list[str]:
    value = _get(record, source, name)
    if value is None:
        raise missing_field(record, source, name)
    if isinstance(value, str):
        return value.split()
    if not isinstance(value, list):
        raise record.error(f"{name} is {value!r:.60}", "write a list, or words separated by spaces")
    return [_plain(item, record, name) for item in value]


def _choices(record: Record, source: Source) -> tuple[list[str], list[str]]:
    """The labels of the choices (their own, else numbers from 0) and their texts."""
    value = _get(record, source, "choices")
    if value is None:
        raise missing_field(record, source, "choices")
    pairs: list[tuple[object, object]] = []
    if isinstance(value, dict):
        labels, texts = value.get("label"), value.get("text")
        lists = isinstance(labels, list) and isinstance(texts, list)
        pairs = list(zip_longest(labels or (), texts or ()) if lists else value.items())
    elif isinstance(value, list) and all(isinstance(one, dict) for one in value):
        pairs = [(one.get("label", number), one.get("text")) for number, one in enumerate(value)]
    elif isinstance(value, list):
        pairs = list(enumerate(value))
    if not pairs or any(item is None for pair in pairs for item in pair):
        raise record.error(f"choices is {value!r:.80}", "write a list with a text for each choice")
    names = [_plain(label, record, "choices") for label, _ in pairs]
    return names, [_plain(text, record, "choices").strip() for _, text in pairs]


def _spans(answers: object, record: Record) -> list[tuple[str, object]]:
    """Text and start of each answer in any of the usual forms; start may be None, and "" is no answer."""
    if isinstance(answers, dict) and isinstance(answers.get("text"), list):
        starts = answers.get("start", answers.get("answer_start", [None] * len(answers["text"])))
        if not isinstance(starts, list) or len(starts) != len(answers["text"]):
            raise record.error(f"the starts of the answers are {starts!r:.60}", "write a list with one start for each")
        answers = [{"text": text, "start": start} for text, start in zip(answers["text"], starts, strict=True)]
    spans: list[tuple[str, object]] = []
    for answer in answers if isinstance(answers, list) else [answers] if answers else []:
        if isinstance(answer, str):
            spans.append((answer, None))
        elif isinstance(answer, dict) and isinstance(answer.get("text"), str):
            spans.append((answer["text"], answer.get("start", answer.get("answer_start"))))
        else:
            raise record.error(f"{answer!r:.60} is not an answer", 'write {"text": "...", "start": 17}')
    return spans


def _answer(text: str, start: object, context: str, record: Record) -> dict[str, object]:
    start = context.find(text) if start is None else start
    if not text.strip() or not isinstance(start, int) or start < 0 or context[start : start + len(text)] != text:
        problem = f"the answer {text!r:.60} is not at character {start!r} of its text"
        raise record.error(problem, "characters count from 0; write answers = [] if there is no answer")
    return {"text": text, "start": start}
