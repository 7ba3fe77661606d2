"""Data files that fsspec opens: the examples of local files in every format, and errors that say what to do."""

import gzip
import io
import lzma
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import fsspec
import pytest

from regard.data.digests import Digests
from regard.data.fields import PAIRS
from regard.data.formats import identify, read_examples
from regard.data.remote import RemotePath, data_path
from regard.data.settings import DataSettings, build_source
from regard.errors import UserError

LINES = [(f"line {number} ä", f"Zeile {number} 字") for number in range(40)]
EXPECTED = [{"src": source, "tgt": target} for source, target in LINES]
TABLE = "".join(f"{source}\t{target}\n" for source, target in LINES).encode()


@pytest.fixture
def root() -> Iterator[Path]:
    """A folder of fsspec's file system in memory."""
    yield data_path("memory://bucket/corpus")
    system = fsspec.filesystem("memory")
    system.store.clear()
    system.pseudo_dirs[:] = [""]


def put(path: Path, content: bytes) -> None:
    with fsspec.open(str(path), "wb") as stream:
        stream.write(content)


def read(root: Path, **options: Any) -> list[dict[str, Any]]:
    return list(read_examples([build_source(options, PAIRS, "test")], root, PAIRS))


def parquet() -> bytes:
    pa, stream = pytest.importorskip("pyarrow"), io.BytesIO()
    pytest.importorskip("pyarrow.parquet").write_table(pa.Table.from_pylist(EXPECTED), stream)
    return stream.getvalue()


def test_names_are_kept() -> None:
    path = data_path("s3://bucket/folder/train.en.gz")
    assert isinstance(path, RemotePath)
    assert (str(path), path.name, path.suffix) == ("s3://bucket/folder/train.en.gz", "train.en.gz", ".gz")
    assert str(path.parent / "b.tsv") == "s3://bucket/folder/b.tsv"
    assert data_path("train.en", Path("data")) == Path("data/train.en")
    assert data_path("s3://other/x", path) == data_path("s3://other/x")
    assert str(data_path("hdfs:///data//train.en").parent / "b") == "hdfs:///data/b"
    assert str(DataSettings(root="gs://bucket/a").folder) == "gs://bucket/a"


@pytest.mark.parametrize("ending, pack", [("", bytes), (".gz", gzip.compress), (".xz", lzma.compress)])
def test_examples_are_those_of_a_local_file(root: Path, tmp_path: Path, ending: str, pack: Any) -> None:
    put(root / f"pairs.tsv{ending}", pack(TABLE))
    (tmp_path / f"pairs.tsv{ending}").write_bytes(pack(TABLE))
    assert read(root, file="pairs.tsv") == EXPECTED
    assert read(Path(), file=f"{root}/pairs.tsv{ending}") == EXPECTED
    source = build_source({"file": "pairs.tsv"}, PAIRS, "test")
    names = [identify([source], folder, PAIRS, Digests()) for folder in (root, tmp_path)]
    assert names[0] == names[1]


def test_aligned_files_and_parquet(root: Path) -> None:
    for number, language in enumerate(("en", "de")):
        put(root / f"train.{language}", "".join(f"{line[number]}\n" for line in LINES).encode())
    put(root / "pairs.parquet", parquet())
    assert read(root, src="train.en", tgt="train.de") == EXPECTED
    assert read(root, file="pairs.parquet") == EXPECTED


def test_a_file_that_changes_has_another_digest(root: Path, tmp_path: Path) -> None:
    path, cache = root / "pairs.tsv", tmp_path / "digests.json"
    digests = []
    for content in (TABLE, TABLE.replace(b"7", b"8")):  # of the same size
        put(path, content)
        known = Digests(cache)
        digests.append(known.of(path))
        known.save()
    assert digests[0] != digests[1]
    assert Digests(cache).of(path) == digests[1]


@pytest.mark.parametrize(
    "name, code", [("memory://bucket/none.tsv", "missing-file"), ("unknown://bucket/pairs.tsv", "unreadable-file")]
)
def test_a_file_that_cannot_be_read_is_named(name: str, code: str) -> None:
    with pytest.raises(UserError) as error:
        read(Path(), file=name)
    assert error.value.code == code
    assert name in error.value.problem


def test_a_library_that_wants_a_local_file_is_refused(root: Path) -> None:
    with pytest.raises(UserError) as error:
        open(root / "pairs.tsv", "rb")  # noqa: PTH123, SIM115
    assert error.value.code == "remote-file"
