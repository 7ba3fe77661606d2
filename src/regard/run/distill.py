"""Sequence-level distillation (Kim & Rush 2016, section 3.2): train a student on what the teacher makes of the sources.

    L = - sum over y of q(y | x) log p(y | x)  ~  - log p(y^ | x),      y^ = the teacher's beam search for x

Of several translations of a sentence a corpus holds now one, now another; the teacher settles for one. A student that
writes all words at once cannot tell which half of which translation belongs together, and gains most from it.

The folder it leaves, for a part of the corpus such as train:

    train.src, train.tgt     a source a line, and its translation
    train.manifest.json      who translated, how, and the sha256 of both

Until all lines are translated they stand in train.unfinished, written stretch by stretch. Whoever goes on does so after
the last whole stretch: the same lines are translated together as without the interruption, so the files come out the
same to the byte.
"""

import hashlib
import os
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any, BinaryIO

from regard.data.fields import PAIRS
from regard.data.formats import read_examples
from regard.data.settings import PairDataSettings
from regard.data.sources import Source
from regard.errors import UserError
from regard.files import digest, io_errors, locked, read_json, remove_leftovers, replacing, write_json
from regard.run.folder import Progress
from regard.run.translator import Translator
from regard.tasks.translation import one_line
from regard.training.checkpoint import weights_sum

LINES = 1024
"""A stretch: lines translated together, and lost at most when it is interrupted."""


@dataclass(frozen=True)
class Distilled:
    """The files that were written, the number of their lines, and how many of these were there before."""

    src: Path
    tgt: Path
    lines: int
    before: int

    @property
    def setting(self) -> str:
        """What to write after `regard train RECIPE`."""
        return f'data.train={{src="{self.src.absolute()}", tgt="{self.tgt.absolute()}"}}'


def distill(
    translator: Translator, folder: Path, part: str = "train", progress: Progress | None = None, **changes: Any
) -> Distilled:
    """Translate the sources of a `part` of the run's data into `folder`, or go on where that was interrupted."""
    src, tgt, unfinished, manifest = (
        folder / f"{part}.{kind}" for kind in ("src", "tgt", "unfinished", "manifest.json")
    )
    data = translator.run.recipe.data
    with locked(folder):
        remove_leftovers(folder)
        total, src_sum = counted(sources(data, part))
        made_of = {**origin(translator, changes), "part": part, "src": src_sum}
        known = begun(manifest, made_of, (src, tgt))
        if tgt.exists() and digest(tgt) == known.get("tgt"):
            return Distilled(src, tgt, total, total)
        if not src.exists() or digest(src) != src_sum:
            with replacing(src) as place, place.open("wb") as stream:
                stream.writelines(sources(data, part))
        write_json(manifest, made_of)
        before = translate(translator, src, unfinished, total, progress, changes)
        write_json(manifest, {**made_of, "tgt": digest(unfinished)})
        with io_errors(tgt):
            unfinished.replace(tgt)
        return Distilled(src, tgt, total, before)


def sources(data: PairDataSettings, part: str) -> Iterator[bytes]:
    """The sources of the corpora one behind the other, a line each."""
    corpora: list[Source] = getattr(data, part)
    if not corpora:
        raise UserError(f"the recipe names no {part} data", f"give it: data.{part}=...")
    return (f"{one_line(pair['src'])}\n".encode() for pair in read_examples(corpora, data.folder, PAIRS))


def counted(lines: Iterator[bytes]) -> tuple[int, str]:
    """How many lines there are, and their sha256."""
    count, sha = 0, hashlib.sha256()
    for line in lines:
        sha.update(line)
        count += 1
    return count, sha.hexdigest()


def origin(translator: Translator, changes: dict[str, Any]) -> dict[str, Any]:
    """All that a translation depends on."""
    paths = [run.checkpoints.resolve(translator.checkpoint) for run in translator.runs]
    return {
        "runs": [str(run.folder.absolute()) for run in translator.runs],
        "checkpoint": translator.checkpoint,
        "weights": [weights_sum(path) for path in paths],
        "precision": translator.world.precision,
        "decoding": translator.decoding(**changes).model_dump(),
    }


def begun(manifest: Path, made_of: dict[str, Any], files: tuple[Path, ...]) -> dict[str, Any]:
    """What the manifest says, if there is one; refused where the files are not of this making."""
    strangers = [str(path) for path in files if path.exists()]
    if not manifest.exists() and strangers:
        raise UserError(f"{strangers[0]} is there already, and was not made by distilling", "choose another folder")
    known: dict[str, Any] = read_json(manifest) if manifest.exists() else {}
    other = [name for name, value in made_of.items() if known and known.get(name) != value]
    if other:
        raise UserError(
            f"{manifest.parent} holds translations made otherwise: {manifest.name} differs in {', '.join(other)}",
            "choose another folder, or delete this one",
        )
    return known


def translate(
    translator: Translator, src: Path, unfinished: Path, total: int, progress: Progress | None, changes: dict[str, Any]
) -> int:
    """A line for each of `src`, behind those that are there; returned is how many were."""
    with io_errors(unfinished), unfinished.open("a+b") as stream, src.open("rb") as lines:
        before = done = whole_stretches(stream, total)
        remaining = islice(lines, done, None)
        while stretch := [line.removesuffix(b"\n").decode() for line in islice(remaining, LINES)]:
            texts = [prediction.text for prediction in translator.predict(stretch, **changes)]
            stream.write("".join(f"{text}\n" for text in texts).encode())
            stream.flush()
            os.fsync(stream.fileno())
            done += len(stretch)
            if progress is not None:
                progress(done, total)
    return before


def whole_stretches(stream: BinaryIO, total: int) -> int:
    """Cut a file behind its last whole stretch of lines; how many lines that leaves."""
    stream.seek(0)
    done = end = place = 0
    for number, line in enumerate(stream, 1):
        place += len(line)
        if line.endswith(b"\n") and number <= total and (number % LINES == 0 or number == total):
            done, end = number, place
    stream.truncate(end)
    return done
