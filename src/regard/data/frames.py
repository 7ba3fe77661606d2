"""DataFrames of pandas: recognised by their methods, and saved as JSON lines, so that a run can be resumed."""

import hashlib
import json
import os
from collections.abc import Collection
from pathlib import Path
from typing import Protocol, TypeGuard

from regard.errors import UserError
from regard.files import write_text


class Frame(Protocol):
    """A pandas DataFrame; pandas is imported by you, not by regard."""

    columns: Collection[object]

    def assign(self, **columns: object) -> "Frame": ...

    def to_dict(self, orient: str) -> list[dict[str, object]]: ...


def is_frame(value: object) -> TypeGuard[Frame]:
    """True for a DataFrame of pandas, or of a library with the same methods."""
    return all(hasattr(value, name) for name in ("columns", "assign", "to_dict", "iloc"))


def is_missing(value: object) -> bool:
    return (
        value is None or type(value).__name__ in ("NAType", "NaTType") or (isinstance(value, float) and value != value)
    )


def save_frame(frame: Frame) -> str:
    """Write a frame as JSON lines into the cache folder, under a name that its content decides; return the path.

    A missing value (None, NaN) is left out of its row.
    """
    if len({str(name) for name in frame.columns}) < len(frame.columns):
        raise UserError("the DataFrame has equal column names", "rename one", code="invalid-input", where="data")

    def plain(value: object) -> object:
        return value.tolist() if hasattr(value, "tolist") else str(value)

    records = frame.to_dict("records")
    rows = ({str(name): value for name, value in row.items() if not is_missing(value)} for row in records)
    text = "".join(json.dumps(row, ensure_ascii=False, default=plain) + "\n" for row in rows)
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "regard" / "frames"
    path = cache / f"{hashlib.sha256(text.encode()).hexdigest()[:16]}.jsonl"
    if not path.exists():
        write_text(path, text)
    return str(path)
