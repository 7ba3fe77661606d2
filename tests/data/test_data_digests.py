"""A file is read once, and again as soon as anything about it has changed."""

import json
import os
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from regard.data import digests as digests_module
from regard.data.digests import TICK, Digests
from regard.files import digest


@pytest.fixture
def read(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The names of files that were read whole, in a world where everything on the disk is old enough."""
    names: list[str] = []

    def reading(path: Path) -> str:
        names.append(path.name)
        return digest(path)

    monkeypatch.setattr(digests_module, "digest", reading)
    monkeypatch.setattr(digests_module, "TICK", -(10**18))
    return names


def cached_digests(cache: Path, *files: Path) -> list[str]:
    """Digests of files, as one process after another computes them."""
    digests = Digests(cache)
    sha256s = [digests.of(file) for file in files]
    digests.save()
    return sha256s


def test_a_file_is_read_once(tmp_path: Path, read: list[str]) -> None:
    (tmp_path / "a").write_bytes(b"text")
    (tmp_path / "b").write_bytes(b"")
    first = cached_digests(tmp_path / "digests.json", tmp_path / "a", tmp_path / "b")
    assert first == [digest(tmp_path / "a"), digest(tmp_path / "b")]
    assert cached_digests(tmp_path / "digests.json", tmp_path / "a", tmp_path / "b") == first
    assert read == ["a", "b"]


def test_without_a_cache_everything_is_read(tmp_path: Path, read: list[str]) -> None:
    (tmp_path / "a").write_bytes(b"text")
    Digests().of(tmp_path / "a")
    Digests().of(tmp_path / "a")
    Digests().save()
    assert read == ["a", "a"]
    assert [path.name for path in tmp_path.iterdir()] == ["a"]


def _write(path: Path) -> None:
    path.write_bytes(b"tex!")


def _write_and_set_the_clock_back(path: Path) -> None:
    before = path.stat()
    path.write_bytes(b"tex!")
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))


def _put_another_in_its_place(path: Path) -> None:
    before = path.stat()
    path.with_name("other").write_bytes(b"tex!")
    os.utime(path.with_name("other"), ns=(before.st_atime_ns, before.st_mtime_ns))
    path.with_name("other").replace(path)


def _cut(path: Path) -> None:
    path.write_bytes(b"tex")


@pytest.mark.parametrize("change", [_write, _write_and_set_the_clock_back, _put_another_in_its_place, _cut])
def test_a_changed_file_is_read_again(tmp_path: Path, read: list[str], change: Callable[[Path], None]) -> None:
    path = tmp_path / "a"
    path.write_bytes(b"text")
    later = path.stat().st_ctime_ns
    (before,) = cached_digests(tmp_path / "digests.json", path)
    while path.stat().st_ctime_ns <= later:  # until the clock of the file system has ticked
        change(path)
    (after,) = cached_digests(tmp_path / "digests.json", path)
    assert after == digest(path) != before
    assert read == ["a", "a"]


def test_a_file_changed_a_moment_ago_is_not_trusted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "a"
    path.write_bytes(b"text")
    changed = path.stat().st_ctime_ns
    monkeypatch.setattr("time.time_ns", lambda: changed + TICK)
    cached_digests(tmp_path / "digests.json", path)
    assert not (tmp_path / "digests.json").exists()
    monkeypatch.setattr("time.time_ns", lambda: changed + TICK + 1)
    cached_digests(tmp_path / "digests.json", path)
    assert str(path) in json.loads((tmp_path / "digests.json").read_text())["files"]


def test_a_file_that_changes_while_it_is_read_is_not_trusted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "a"
    path.write_bytes(b"text")

    def reading(of: Path) -> str:
        found = digest(of)
        of.write_bytes(b"longer text")
        return found

    monkeypatch.setattr(digests_module, "digest", reading)
    monkeypatch.setattr(digests_module, "TICK", -(10**18))
    cached_digests(tmp_path / "digests.json", path)
    assert not (tmp_path / "digests.json").exists()


@given(position=st.integers(0, 10**6), bit=st.integers(0, 7))
@settings(max_examples=60)
def test_a_damaged_cache_is_ignored(tmp_path_factory: pytest.TempPathFactory, position: int, bit: int) -> None:
    folder = tmp_path_factory.mktemp("damaged")
    (folder / "a").write_bytes(b"text")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(digests_module, "TICK", -(10**18))
        (expected,) = cached_digests(folder / "digests.json", folder / "a")
        content = bytearray((folder / "digests.json").read_bytes())
        content[position % len(content)] ^= 1 << bit
        (folder / "digests.json").write_bytes(content)
        assert cached_digests(folder / "digests.json", folder / "a") == [expected]


@pytest.mark.parametrize("content", ["", "[]", "3", '{"files": 3}', '{"files": {}, "checksum": "x"}'])
def test_a_cache_of_another_kind_is_ignored(tmp_path: Path, content: str) -> None:
    (tmp_path / "a").write_bytes(b"text")
    (tmp_path / "digests.json").write_text(content)
    assert cached_digests(tmp_path / "digests.json", tmp_path / "a") == [digest(tmp_path / "a")]


def test_a_cache_that_cannot_be_written_is_not_an_error(tmp_path: Path, read: list[str]) -> None:
    (tmp_path / "a").write_bytes(b"text")
    for _ in range(2):
        cached_digests(tmp_path / "a" / "digests.json", tmp_path / "a")
    assert read == ["a", "a"]
