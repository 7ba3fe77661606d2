"""Files and folders in one compressed archive of several pieces, for a machine that takes little at a time.

    python -m benchmarks.pack PIECES PATH ... --mib 28      PIECES/1/archive, PIECES/2/archive ...
    python -m benchmarks.pack PIECES --unpack               the paths again

.xz files are packed as plain files, so that text which several files share is stored once. Paths are relative to the
current folder, in which they are written again.
"""

import argparse
import io
import lzma
import tarfile
from collections.abc import Sequence
from pathlib import Path

ARCHIVE, XZ = "archive", ".xz"
FILTERS = [{"id": lzma.FILTER_LZMA2, "preset": 6, "dict_size": 1 << 28}]


def pack(folder: Path, paths: Sequence[Path], size: int) -> int:
    """Write the pieces; return their number."""
    if outside := [str(path) for path in paths if path.is_absolute() or ".." in path.parts]:
        raise SystemExit(f"{outside[0]} cannot be unpacked at its place: name paths below the current folder")
    files = sorted(file for path in paths for file in (path, *path.rglob("*")) if file.is_file())
    packed = io.BytesIO()
    with lzma.open(packed, "wb", filters=FILTERS) as stream, tarfile.open(fileobj=stream, mode="w|") as archive:
        for file in files:
            is_xz = file.suffix == XZ
            content = lzma.decompress(file.read_bytes()) if is_xz else file.read_bytes()
            entry = tarfile.TarInfo(str(file.with_suffix("")) if is_xz else str(file))
            entry.size = len(content)
            archive.addfile(entry, io.BytesIO(content))
    parts = [packed.getvalue()[start : start + size] for start in range(0, packed.tell(), size)]
    for number, part in enumerate(parts, 1):
        path = folder / str(number) / ARCHIVE
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(part)
    return len(parts)


def unpack(folder: Path) -> int:
    """Write the files of all pieces; return their number."""
    numbers = sorted(int(path.parent.name) for path in folder.glob(f"*/{ARCHIVE}"))
    if not numbers or numbers != list(range(1, len(numbers) + 1)):
        raise SystemExit(f"{folder} has the pieces {numbers}: some are missing")
    content = b"".join((folder / str(number) / ARCHIVE).read_bytes() for number in numbers)
    with lzma.open(io.BytesIO(content)) as stream, tarfile.open(fileobj=stream, mode="r|") as archive:
        archive.extractall(filter="data")
    return len(numbers)


def main() -> None:
    """Pack or unpack."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("pieces", type=Path, help="folder of the pieces")
    parser.add_argument("paths", type=Path, nargs="*", help="files and folders")
    parser.add_argument("--mib", type=int, default=28, help="MiB of a piece")
    parser.add_argument("--unpack", action="store_true")
    options = parser.parse_args()
    if options.unpack:
        print(f"{unpack(options.pieces):,} pieces read")
    else:
        print(f"{pack(options.pieces, options.paths, options.mib << 20):,} pieces written")


if __name__ == "__main__":
    main()
