"""Files: atomic writing, locks, manifests with checksums, errors with codes."""

import errno
import fcntl
import gzip
import json
import lzma
import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from regard.errors import UserError
from regard.files import (
    Manifest,
    candidate_paths,
    checksum,
    find_file,
    io_errors,
    locked,
    open_binary,
    remove_folder,
    remove_leftovers,
    replacing,
)  # fmt: skip

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


@pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="needs Linux")
def test_everything_is_flushed_before_it_gets_its_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    flushed: list[str] = []

    def record(handle: int) -> None:
        flushed.append(f"{Path(f'/proc/self/fd/{handle}').readlink().name} {(tmp_path / 'x').exists()}")

    monkeypatch.setattr(os, "fsync", record)
    with replacing(tmp_path / "x", folder=True) as path:
        (path / "below").mkdir()
        (path / "below" / "file").write_text("")
    assert sorted(flushed[:-1]) == ["below False", "file False", "x False"]
    assert flushed[-1] == f"{tmp_path.name} True", "the new name itself"


def test_a_locked_folder_is_refused_to_others_until_released(tmp_path: Path) -> None:
    with locked(tmp_path), pytest.raises(UserError) as error, locked(tmp_path):
        pass
    assert (error.value.code, error.value.where) == ("in-use", str(tmp_path))
    with locked(tmp_path):
        pass


def test_remove_leftovers_removes_only_temporary_folders_directly_below(tmp_path: Path) -> None:
    (tmp_path / ".x.1.partial" / "x").mkdir(parents=True)
    (tmp_path / "below" / ".x.1.partial").mkdir(parents=True)
    (tmp_path / "file.partial").write_text("")
    (tmp_path / ".file.partial").write_text("")
    remove_leftovers(tmp_path)
    names = {str(path.relative_to(tmp_path)) for path in tmp_path.rglob("*")}
    assert names == {"below", "below/.x.1.partial", "file.partial", ".file.partial"}


def test_remove_leftovers_of_one_name_only(tmp_path: Path) -> None:
    for name in (".x.1.partial", ".xy.1.partial", ".y.1.partial"):
        (tmp_path / name).mkdir()
    remove_leftovers(tmp_path, "x")
    assert sorted(path.name for path in tmp_path.iterdir()) == [".xy.1.partial", ".y.1.partial"]


def test_remove_leftovers_follows_no_link(tmp_path: Path) -> None:
    other = tmp_path / "other"
    (other / ".draft.1.partial").mkdir(parents=True)
    (other / ".draft.1.partial" / "chapter").write_text("mine")
    run = tmp_path / "run"
    run.mkdir()
    (run / "checkpoints").symlink_to(other)
    (run / ".y.1.partial").symlink_to(other)
    (run / ".z.1.partial").mkdir()
    (run / ".z.1.partial" / ".lock").symlink_to(other / "new")
    remove_leftovers(run)
    remove_leftovers(run / "checkpoints")
    assert (other / ".draft.1.partial" / "chapter").read_text() == "mine"
    assert [path.name for path in other.iterdir()] == [".draft.1.partial"] and (run / ".y.1.partial").is_symlink()


def test_remove_leftovers_spares_a_process_at_work(tmp_path: Path) -> None:
    with replacing(tmp_path / "a", folder=True) as first:
        (first / "x").write_text("kept")
        with replacing(tmp_path / "a", folder=True) as second:
            remove_leftovers(tmp_path)
            (second / "x").write_text("first to end")
        remove_leftovers(tmp_path)
    assert (tmp_path / "a" / "x").read_text() == "kept"
    assert [path.name for path in tmp_path.iterdir()] == ["a"]


def test_without_locks_nothing_is_removed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / ".x.1.partial").mkdir()

    def unsupported(*_: object) -> None:
        raise OSError(errno.ENOLCK, os.strerror(errno.ENOLCK))

    monkeypatch.setattr(fcntl, "flock", unsupported)
    remove_leftovers(tmp_path)
    assert (tmp_path / ".x.1.partial").exists()
    with locked(tmp_path) as held:
        assert not held


@pytest.mark.parametrize("folder", [False, True])
def test_writing_again_removes_the_leftover_of_a_killed_process(tmp_path: Path, folder: bool) -> None:
    (tmp_path / ".x.1.partial" / "x").mkdir(parents=True)
    with replacing(tmp_path / "x", folder=folder) as temporary:
        (temporary / "file" if folder else temporary).write_text("")
    assert [path.name for path in tmp_path.iterdir()] == ["x"]


def test_an_interrupted_replacement_is_completed(tmp_path: Path) -> None:
    """The state after a kill between the two renames: old and new are both in the temporary folder."""
    for name in (".replaced", "x"):
        (tmp_path / ".x.1.partial" / name).mkdir(parents=True)
    (tmp_path / ".x.1.partial" / "x" / "new").write_text("")
    remove_leftovers(tmp_path)
    assert [str(path.relative_to(tmp_path)) for path in sorted(tmp_path.rglob("*"))] == ["x", "x/new"]


def test_a_replacement_that_was_complete_is_not_touched(tmp_path: Path) -> None:
    for path in (tmp_path / ".x.1.partial" / ".replaced", tmp_path / ".x.1.partial" / "x", tmp_path / "x" / "kept"):
        path.mkdir(parents=True)
    remove_leftovers(tmp_path)
    assert [str(path.relative_to(tmp_path)) for path in sorted(tmp_path.rglob("*"))] == ["x", "x/kept"]


def test_removing_a_folder_renames_it_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "x" / "below").mkdir(parents=True)
    with monkeypatch.context() as patch:
        patch.setattr(shutil, "rmtree", lambda path, ignore_errors: None)  # killed before anything is removed
        remove_folder(tmp_path / "x")
    assert not (tmp_path / "x").exists()
    remove_leftovers(tmp_path)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("number", "code"),
    [
        (errno.ENOSPC, "disk-full"),
        (errno.EDQUOT, "disk-full"),
        (errno.EACCES, "unwritable"),
        (errno.EROFS, "unwritable"),
        (errno.ENOTDIR, "unwritable"),
        (errno.EIO, "machine-error"),
        (errno.EMFILE, "machine-error"),
        (errno.EFBIG, "machine-error"),
        (errno.ENOMEM, "machine-error"),
    ],
)
def test_io_errors_have_codes(tmp_path: Path, number: int, code: str) -> None:
    with pytest.raises(UserError) as error, io_errors(tmp_path / "x"):
        raise OSError(number, os.strerror(number))
    assert (error.value.code, error.value.where) == (code, str(tmp_path / "x"))


def test_a_missing_folder_is_an_error_of_the_user_elsewhere_a_bug(tmp_path: Path) -> None:
    with pytest.raises(UserError) as error, io_errors(tmp_path / "no" / "x"):
        (tmp_path / "no" / "x").write_text("")
    assert error.value.code == "unwritable"
    with pytest.raises(FileNotFoundError), io_errors(tmp_path / "no" / "x"):
        (tmp_path / "other").read_text()


def test_reading_errors_have_codes(tmp_path: Path) -> None:
    (tmp_path / "bad.json").write_text("{")
    for read, path, code in (
        (open_binary, tmp_path, "not-a-file"),
        (open_binary, tmp_path / "no.txt", "missing-file"),
        (Manifest.read, tmp_path / "no.json", "missing-file"),
        (Manifest.read, tmp_path / "bad.json", "damaged-file"),
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
    for name, forms in {"a.b": ["a.b", "a.b.gz", "a.b.xz", "a.b.bz2"], "a.xz": ["a.xz", "a", "a.gz", "a.bz2"]}.items():
        assert [form.name for form in candidate_paths(tmp_path / name)] == forms
        with pytest.raises(UserError) as error:
            open_binary(tmp_path / name)
        assert error.value.code == "missing-file" and all(form in error.value.problem for form in forms)
    (tmp_path / "a.gz").mkdir()
    assert find_file(tmp_path / "a") == tmp_path / "a", "a folder is not a compressed file"
