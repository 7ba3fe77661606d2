"""Labelled files as examples of a task, in order, as they are asked for."""

import json
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from regard.data.corpora import read_lines
from regard.data.labelled import questions, records
from regard.data.labelled.examples import GOLD, MAKERS, Example, found_instead
from regard.data.labelled.records import Record
from regard.data.labelled.settings import Labelled
from regard.errors import UserError


def read_examples(task: str, sources: Sequence[Labelled], root: Path, labelled: bool = True) -> Iterator[Example]:
    """The examples of some files, each checked; with labels unless `labelled` is False, where they may be missing."""
    for source in sources:
        example = None
        for record in _chosen(source, root):
            example = MAKERS[task](record, source)
            if labelled and GOLD[task] not in example:
                raise UserError(
                    f"{record.place}: there is no {GOLD[task]} to learn or to score by",
                    found_instead(record, source, GOLD[task]),
                )
            yield example
        if example is None:
            chosen = f" where {source.where}" if source.where else ""
            raise UserError(f"{source.files(root)[0]} holds no example{chosen}", "a file needs at least one")


def read_records(source: Labelled, root: Path) -> Iterator[Record]:
    """What a file says, with the lines of its file of labels where it has one."""
    if source.written in questions.READERS:
        found = questions.READERS[source.written](root, source)
    else:
        found = records.READERS[source.written](source.files(root)[0], source)
    return found if source.labels_file is None else _labelled(found, source.files(root)[1])


def _labelled(found: Iterator[Record], path: Path) -> Iterator[Record]:
    labels = (line.strip() for line in read_lines(path) if line.strip())
    record, number = None, 0
    for number, record in enumerate(found, 1):
        label = next(labels, None)
        if label is None:
            raise UserError(f"{path} has {number - 1} labels, and {record.place} has none", "write one a line")
        yield replace(record, label=label)
    if (more := sum(1 for _ in labels)) and record is not None:
        raise UserError(f"{path} has {number + more} labels, and the last record is {record.place}", "write one a line")


def _chosen(source: Labelled, root: Path) -> Iterator[Record]:
    """The records that `where` asks for."""
    wanted = {
        column: {str(value) for value in (values if isinstance(values, list) else [values])}
        for column, values in source.where.items()
    }
    for record in read_records(source, root):
        for column, values in wanted.items():
            value = record.get(column)
            if value is None:
                raise UserError(
                    f"{record.place}: where asks for {column!r}, which is not there", f"it has {record.columns()}"
                )
            if (value if isinstance(value, str) else json.dumps(value)) not in values:
                break
        else:
            yield record
