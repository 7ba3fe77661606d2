"""Reading of damaged and hostile files: every one is refused with its place, quickly and in little memory."""

import os
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel

from regard.errors import UserError
from regard.reading import (
    MAX_BYTES,
    MAX_DEPTH,
    MAX_ITEMS,
    MAX_KEY_PARTS,
    MAX_LINE,
    MAX_TOML_BYTES,
    check_depth,
    check_text,
    parse_json,
    parse_toml,
    read_bytes,
    read_json,
    read_lines,
    read_text,
    read_toml,
)  # fmt: skip


class Entry(BaseModel):
    bytes: int
    note: str = ""


def refused(path: Path, kind: type[Any] = dict) -> tuple[str, str]:
    with pytest.raises(UserError) as error:
        read_json(path, kind)
    return error.value.code, error.value.where


@pytest.mark.parametrize(
    "text",
    [
        "", "{", "nul", "[" * 100_000, "9" * 5_000, '"\\ud800"', '{"\\udc00": 1}', "[" + "0," * MAX_ITEMS + "0]",
        "[" * MAX_ITEMS, "\xff",
    ],
)  # fmt: skip
def test_json_that_cannot_be_read_names_its_file(tmp_path: Path, text: str) -> None:
    path = tmp_path / "file.json"
    path.write_text(text, encoding="utf-8")
    assert refused(path) == ("damaged-file", str(path))


def test_json_of_another_type_names_its_key(tmp_path: Path) -> None:
    path = tmp_path / "file.json"
    path.write_text('{"a": {"bytes": "1"}}', encoding="utf-8")
    assert refused(path, list[str]) == ("damaged-file", str(path))
    assert refused(path, dict[str, Entry]) == ("damaged-file", f"{path}:a.bytes")
    path.write_text('{"a": {"bytes": 1, "more": 2}}', encoding="utf-8")
    assert read_json(path, dict[str, Entry]) == {"a": Entry(bytes=1)}
    path.write_text('["\\ud83d\\ude00", "ä"]', encoding="utf-8")
    assert read_json(path, list[str]) == ["😀", "ä"]


def test_only_regular_files_of_bounded_size_are_read(tmp_path: Path) -> None:
    pipe, zero, huge, text = (tmp_path / name for name in ("pipe", "zero", "huge", "text"))
    os.mkfifo(pipe)
    zero.symlink_to("/dev/zero")
    with huge.open("wb") as stream:
        stream.truncate(MAX_BYTES + 1)
    text.write_bytes(b"abc\xff")
    codes = {pipe: "not-a-file", zero: "not-a-file", tmp_path: "not-a-file", huge: "too-large", text: "not-utf8"}
    codes[tmp_path / "nothing"] = "missing-file"
    for path, code in codes.items():
        with pytest.raises(UserError) as error:
            read_text(path)
        assert (error.value.code, error.value.where) == (code, str(path))
    link = tmp_path / "link"
    link.symlink_to(text)
    assert read_bytes(link, 4) == b"abc\xff"
    with pytest.raises(UserError):
        read_bytes(link, 3)


def test_lines_are_read_one_at_a_time_and_have_a_bound(tmp_path: Path) -> None:
    path = tmp_path / "lines"
    path.write_bytes(b"a\n\nb")
    assert list(read_lines(path)) == [b"a\n", b"\n", b"b"]
    with path.open("wb") as stream:
        stream.write(b"a\n" + b"x" * (MAX_LINE - 1) + b"\n")
        stream.truncate(1 << 36)  # a line of 64 GiB that needs no place on the disk
    lines = read_lines(path)
    assert [len(next(lines)), len(next(lines))] == [2, MAX_LINE]
    with pytest.raises(UserError) as error:
        next(lines)
    assert (error.value.code, error.value.where) == ("damaged-file", f"{path}:3")


@pytest.mark.parametrize(
    "text",
    [
        "x = " + "[" * 1_500 + "]" * 1_500, "x = " + "9" * 5_000, f"x = {1 << 64}", f"x = [{-(1 << 64)}]",
        "a." * 100_000 + "a = 1", '"a" . ' * 100_000 + "a = 1", "[" + "a." * 100_000 + "a]", "x = 1\n" * 2, "x",
    ],
)  # fmt: skip
def test_toml_that_cannot_be_read_names_its_file(tmp_path: Path, text: str) -> None:
    path = tmp_path / "recipe.toml"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(UserError) as error:
        read_toml(path)
    assert (error.value.code, error.value.where) == ("bad-toml", str(path))


def test_toml_within_the_bounds_is_read(tmp_path: Path) -> None:
    nested: Any = parse_toml("a." * (MAX_KEY_PARTS - 1) + "a = 1")
    for _ in range(MAX_KEY_PARTS):
        nested = nested["a"]
    assert nested == 1
    assert parse_toml(f'x = {(1 << 64) - 1}\ny = "a. b. c."') == {"x": (1 << 64) - 1, "y": "a. b. c."}
    assert parse_json(b'{"a": 1e999}') == {"a": float("inf")}
    path = tmp_path / "recipe.toml"
    path.write_text("#" * (MAX_TOML_BYTES - 1) + "\n", encoding="utf-8")
    assert read_toml(path) == {}
    path.write_text("#" * MAX_TOML_BYTES + "\n", encoding="utf-8")
    for broken, code in ((path, "bad-toml"), (tmp_path, "unreadable-file"), (Path("/dev/zero"), "bad-toml")):
        with pytest.raises(UserError) as error:
            read_toml(broken)
        assert error.value.code == code


def test_surrogates_are_not_text() -> None:
    assert check_text("ä😀", "here") == "ä😀" and check_text({"a": ["b"]}) == {"a": ["b"]}
    for value in ("a\ud800", {"a": ["\udc00"]}, {"\ud800": 1}):
        with pytest.raises(UserError) as error:
            check_text(value, "a.jsonl, line 3", "a.jsonl:3")
        assert (error.value.code, error.value.where) == ("bad-text", "a.jsonl:3")


def test_nesting_has_one_bound() -> None:
    value: Any = "text"
    for _ in range(MAX_DEPTH):
        value = {"a": "b", "c": value}
    check_depth(value)
    with pytest.raises(ValueError, match="too deeply"):
        check_depth([value])
