"""benchmarks/pack.py: files travel in pieces and come back as they were, .xz files as plain ones."""

import lzma
import random
from pathlib import Path

import pytest
from benchmarks.pack import pack, unpack


def test_files_come_back_from_pieces_of_bounded_size(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("data/runs").mkdir(parents=True)
    noise = random.Random(1).randbytes(5_000)
    Path("data/a.bin").write_bytes(noise)
    Path("data/runs/b.txt.xz").write_bytes(lzma.compress("Grüße\n".encode()))
    assert pack(Path("pieces"), [Path("data")], 1024) >= 5
    assert all(path.stat().st_size <= 1024 for path in Path("pieces").rglob("archive"))
    Path("data").rename("before")
    unpack(Path("pieces"))
    assert Path("data/a.bin").read_bytes() == noise
    assert Path("data/runs/b.txt").read_text(encoding="utf-8") == "Grüße\n"
    Path("pieces/2/archive").unlink()
    for outside in (tmp_path / "data", Path("../data")):
        with pytest.raises(SystemExit, match="below the current folder"):
            pack(Path("other"), [outside], 1024)
    with pytest.raises(SystemExit, match="missing"):
        unpack(Path("pieces"))
