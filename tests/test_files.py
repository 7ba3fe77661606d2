"""Files: atomic writing, locks, manifests with checksums, errors with codes."""

import errno
import gzip
import json
import lzma
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from regard.errors import UserError
from regard.files import (
    Manifest,
    checksum,
    find_file,
    forms_of,
    io_errors,
    locked,
    open_binary,
    read_json,
    remove_leftovers,
    replacing,
)

INPUTS = {"weights": "abc", "versions": (1, 2)}
FORMAT = 3


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with two files and their manifest."""
    (tmp_path / "a.bin").write_bytes(b"12345")
    (tmp_path / "b.bin").write_bytes(b"")
    manifest = Manifest.describe(tmp_path, ["a.bin", "b.bin"], format=FORMAT, inputs=INPUTS, facts={"rows": 5})
    manifest.write(tmp_path / "manifest.json")
    return tmp_path


def truncate(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-2])


def flip_a_bit(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[0] ^= 1
    path.write_bytes(content)


def test_manifest_round_trip(folder: Path) -> None:
    manifest = Manifest.read(folder / "manifest.json")
    assert manifest == Manifest.describe(folder, ["a.bin", "b.bin"], format=FORMAT, inputs=INPUTS, facts=manifest.facts)
    assert manifest.facts == {"rows": 5} and manifest.files["a.bin"]["bytes"] == 5
    assert manifest.damaged(folder) == {}


def test_manifest_is_current_for_the_same_inputs_and_format_only(folder: Path) -> None:
    manifest = Manifest.read(folder / "manifest.json")
    assert manifest.is_current(INPUTS, FORMAT), "a tuple equals the list that JSON makes of it"
    assert not manifest.is_current({**INPUTS, "weights": "abd"}, FORMAT)
    assert not manifest.is_current(INPUTS, FORMAT + 1)


@pytest.mark.parametrize("harm", [truncate, flip_a_bit, Path.unlink])
def test_manifest_names_damaged_files(folder: Path, harm: Callable[[Path], object]) -> None:
    harm(folder / "a.bin")
    manifest = Manifest.read(folder / "manifest.json")
    assert list(manifest.damaged(folder)) == ["a.bin"]
    assert manifest.damaged(folder, ["b.bin"]) == {}


def test_manifest_uses_the_given_digest(folder: Path) -> None:
    manifest = Manifest.read(folder / "manifest.json")
    assert manifest.damaged(folder, digest=lambda path: manifest.files[path.name]["sha256"]) == {}
    assert set(manifest.damaged(folder, digest=lambda path: "other")) == {"a.bin", "b.bin"}


@pytest.mark.parametrize("content", ["{", "[]", "{}", '{"format": 3, "files": {}, "sha256": "0"}'])
def test_damaged_manifest_is_refused(folder: Path, content: str) -> None:
    path = folder / "manifest.json"
    path.write_text(content, encoding="utf-8")
    with pytest.raises(UserError) as error:
        Manifest.read(path)
    assert (error.value.code, error.value.where) == ("damaged-file", str(path))
    assert Manifest.read_or_none(path) is None


def test_edited_manifest_is_refused(folder: Path) -> None:
    path = folder / "manifest.json"
    path.write_text(path.read_text().replace('"rows": 5', '"rows": 6'), encoding="utf-8")
    assert Manifest.read_or_none(path) is None


def test_missing_manifest(tmp_path: Path) -> None:
    with pytest.raises(UserError) as error:
        Manifest.read(tmp_path / "manifest.json")
    assert error.value.code == "missing-file"
    assert Manifest.read_or_none(tmp_path / "manifest.json") is None


def test_checksum_ignores_the_order_of_keys() -> None:
    assert checksum({"a": 1, "b": [1.5]}) == checksum(json.loads('{"b": [1.5], "a": 1}'))


def test_replacing_keeps_the_old_file_on_failure(tmp_path: Path) -> None:
    path = tmp_path / "file.txt"
    path.write_text("old")
    with pytest.raises(KeyError), replacing(path) as temporary:
        temporary.write_text("new")
        raise KeyError
    assert path.read_text() == "old"
    assert [entry.name for entry in tmp_path.iterdir()] == ["file.txt"]


def test_a_locked_folder_is_refused_to_others_until_released(tmp_path: Path) -> None:
    with locked(tmp_path), pytest.raises(UserError) as error, locked(tmp_path):
        pass
    assert (error.value.code, error.value.where) == ("in-use", str(tmp_path))
    with locked(tmp_path):
        pass


def test_remove_leftovers_removes_only_temporary_folders(tmp_path: Path) -> None:
    (tmp_path / "below" / ".x.1.partial").mkdir(parents=True)
    (tmp_path / "file.partial").write_text("")
    remove_leftovers(tmp_path)
    assert sorted(path.name for path in tmp_path.rglob("*")) == ["below", "file.partial"]


@pytest.mark.parametrize(
    ("number", "code"),
    [(errno.ENOSPC, "disk-full"), (errno.EACCES, "unwritable"), (errno.ENOTDIR, "unwritable")],
)
def test_io_errors_have_codes(tmp_path: Path, number: int, code: str) -> None:
    with pytest.raises(UserError) as error, io_errors(tmp_path / "x"):
        raise OSError(number, os.strerror(number))
    assert (error.value.code, error.value.where) == (code, str(tmp_path / "x"))


def test_reading_errors_have_codes(tmp_path: Path) -> None:
    (tmp_path / "bad.json").write_text("{")
    for read, path, code in (
        (open_binary, tmp_path, "not-a-file"),
        (open_binary, tmp_path / "no.txt", "missing-file"),
        (read_json, tmp_path / "no.json", "missing-file"),
        (read_json, tmp_path / "bad.json", "damaged-file"),
    ):
        with pytest.raises(UserError) as error:
            read(path)
        assert (error.value.code, error.value.where) == (code, str(path))


def test_a_data_file_is_found_plain_or_compressed(tmp_path: Path) -> None:
    contents = {"x": b"x", "x.gz": gzip.compress(b"x.gz"), "x.xz": lzma.compress(b"x.xz")}

    def found(*existing: str) -> list[str]:
        """What each of the three names reads if only some of the files exist."""
        for name, content in contents.items():
            (tmp_path / name).unlink(missing_ok=True)
            if name in existing:
                (tmp_path / name).write_bytes(content)
        texts = []
        for name in contents:
            with open_binary(tmp_path / name) as stream:
                texts.append(stream.read().decode())
        return texts

    assert found("x", "x.gz", "x.xz") == ["x", "x.gz", "x.xz"], "a name that exists is never replaced"
    assert found("x") == ["x", "x", "x"]
    assert found("x.gz") == ["x.gz", "x.gz", "x.gz"]
    assert found("x.xz") == ["x.xz", "x.xz", "x.xz"]
    assert found("x.gz", "x.xz") == ["x.gz", "x.gz", "x.xz"], "plain, then .gz, then .xz"
    assert found("x", "x.xz") == ["x", "x", "x.xz"]


def test_the_error_for_a_missing_file_names_every_form_that_was_tried(tmp_path: Path) -> None:
    for name, forms in {"a.b": ["a.b", "a.b.gz", "a.b.xz"], "a.xz": ["a.xz", "a", "a.gz"]}.items():
        assert [form.name for form in forms_of(tmp_path / name)] == forms
        with pytest.raises(UserError) as error:
            open_binary(tmp_path / name)
        assert error.value.code == "missing-file" and all(form in error.value.problem for form in forms)
    (tmp_path / "a.gz").mkdir()
    assert find_file(tmp_path / "a") == tmp_path / "a", "a folder is not a compressed file"
