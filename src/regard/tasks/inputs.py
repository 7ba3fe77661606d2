"""Input of any size in bounded memory: JSON or plain lines into examples, examples in chunks, long texts in parts.

Examples of similar length are computed together. How far ahead one looks for them is bounded by the number of examples
and characters of a chunk.
"""

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from math import isfinite
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar, cast

from regard.data.examples import Example
from regard.data.fields import TABLE_ENDINGS, Fields
from regard.data.records import Record
from regard.data.sources import Source
from regard.errors import UserError
from regard.files import write_text
from regard.reading import check_depth, parse_strict_json, read_text
from regard.text.tokenizer import Span, Tokenizer

if TYPE_CHECKING:
    from torch import Tensor

T = TypeVar("T")

CHUNK_EXAMPLES, CHUNK_CHARACTERS = 1024, 2_000_000

# Where a long text is split, best first: after a sentence, after a clause, at a blank, beside a placeholder.
BOUNDARIES = (r"(?<=[.!?。！？…])\s*", r"(?<=[;:,，；：、])\s*", r"\s+", r"(?<=⦆)|(?=⦅)")


def table_fields(columns: Mapping[str, str], target: str) -> Fields:
    """Fields for tables: a column with text for each field, which has a help text; all but `target` are inputs."""
    inputs = tuple(name for name in columns if name != target)

    def read(record: Record, source: Source) -> Example:
        """The cells of a row; a JSON object may have more keys."""
        cells = {name: record.get(source.column(name)) for name in columns}  # type: ignore[arg-type]
        return {name: cell for name, cell in cells.items() if cell is not None}

    form = json.dumps(dict.fromkeys(inputs, "..."))
    return Fields(inputs, target, read, inputs, form, TABLE_ENDINGS, columns=columns)


def parse_json_line(line: str, where: str) -> Example | str:
    """A line of input: the JSON object it holds if it begins with {, else the text itself."""
    if not line.lstrip().startswith("{"):
        return line
    try:
        values: Example = cast(Example, parse_strict_json(line))
        check_depth(values)
    except (ValueError, RecursionError) as error:
        remedy = 'a line that begins with { is read as JSON; for such a text write {"text": "{..."}'
        raise UserError(f"{where} is not JSON: {error}", remedy, code="not-json", where=where) from error
    return values


def option_names(options: Iterable[str]) -> str:
    return ", ".join(f"`{name}`" for name in options)


def check_count(name: str, value: object) -> int:
    """The value of an option that counts something; a UserError if it is less than 1."""
    if not isinstance(value, int) or value < 1:
        problem = f"{option_names([name])} is below 1: {value}"
        raise UserError(problem, "set it to 1 or more", code="invalid-option", where=name)
    return value


def check_number(name: str, value: object) -> float:
    """The value of an option that is any finite number."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not isfinite(value):
        problem = f"{option_names([name])} is not a finite number: {value}"
        raise UserError(problem, "set it to a number, e.g. 0.5", code="invalid-option", where=name)
    return float(value)


def missing_key(key: str, fields: Fields, where: str) -> UserError:
    return UserError(f"{where} has no {key!r}", f"use the form {fields.json_form}", code="missing-key", where=where)


def split_columns(line: str, keys: Sequence[str], required: int, where: str, form: str) -> Example:
    """The example of a line with tabs between its values, of which the first `required` must be there."""
    cells = line.split("\t")
    if not required <= len(cells) <= len(keys):
        names = " TAB ".join(keys[:required]) + "".join(f" [TAB {key}]" for key in keys[required:])
        problem = f"{where} has {len(cells)} column{'s' * (len(cells) != 1)}"
        raise UserError(problem, f"use {names}; or JSON: {form}", code="bad-line", where=where)
    return dict(zip(keys, cells, strict=False))


def chunk_examples(examples: Iterable[Example], max_examples: int = CHUNK_EXAMPLES) -> Iterator[list[Example]]:
    """Consecutive examples in chunks of bounded size."""
    return chunk(examples, lambda example: sum(len(str(value)) for value in example.values()), max_examples)


def chunk(
    items: Iterable[T], size: Callable[[T], int], max_items: int, max_size: int = CHUNK_CHARACTERS
) -> Iterator[list[T]]:
    """Consecutive items, as many together as the bounds allow; an item beyond the bounds is alone."""
    current: list[T] = []
    total = 0
    for item in items:
        added = size(item)
        if current and (len(current) == max_items or total + added > max_size):
            yield current
            current, total = [], 0
        current.append(item)
        total += added
    if current:
        yield current


def split_spans(text: str, tokenizer: Tokenizer, max_tokens: int, start: int = 0) -> list[tuple[Span, list[int]]]:
    """Split a text into parts of at most `max_tokens` tokens: halve it until all fit.

    Each part is its span, counted from `start`, and its tokens. Between two parts there is only blank space.
    """
    if len(text) <= max_tokens * tokenizer.max_token_bytes:  # a longer text certainly has more tokens
        ids = tokenizer.encode(text)
        if len(ids) <= max_tokens or len(text) < 2:
            return [((start, start + len(text)), ids[:max_tokens])]
    end, begin = halve(text)
    left = split_spans(text[:end], tokenizer, max_tokens, start)
    return left + split_spans(text[begin:], tokenizer, max_tokens, start + begin)


def halve(text: str) -> tuple[int, int]:
    """The end of the first half and the beginning of the second one.

    They are after a sentence that ends in the middle half, else after a clause, a word, anywhere.
    """
    quarter, middle = len(text) // 4, len(text) // 2
    for boundary in BOUNDARIES:
        matches = [m for m in re.finditer(boundary, text[quarter : 3 * quarter]) if m.end() > 0]
        if matches:
            best = min(matches, key=lambda m: abs(quarter + m.start() - middle))
            end, begin = quarter + best.start(), quarter + best.end()
            if end and begin < len(text):
                return end, begin
    return middle, middle


def one_line(text: str) -> str:
    """An output on one line, so that one line of input gives one line of output, and without U+0000, which a model of
    bytes may write: it is no text, and our own readers refuse it."""
    text = text.replace("\0", "")
    return " ".join(text.splitlines()) if "\n" in text or "\r" in text else text


def require_finite(outputs: "Tensor") -> "Tensor":
    """Return the outputs of a model; a UserError if one is NaN or infinite, so that no prediction is made of it."""
    if not bool(outputs.isfinite().all()):
        problem = "the outputs of the model are not finite numbers (NaN or infinite)"
        remedy = "the weights are damaged or training diverged: use an earlier checkpoint, or the precision fp32"
        raise UserError(problem, remedy, code="not-finite", where="model")
    return outputs


def copy_tokenizer(source: Path, target: Path, *names: str) -> None:
    """Copy files of the run that training starts from."""
    for name in names:
        write_text(target / name, read_text(source / name))
