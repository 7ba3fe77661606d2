"""Sequence-level distillation (Kim & Rush 2016, section 3.2): train a student on the teacher's translations.

    L = - sum over y of q(y | x) log p(y | x)  ~  - log p(y^ | x),      y^ = the teacher's beam search for x

A corpus has different translations of similar sentences; the teacher always gives one. A student that predicts all
tokens at once cannot know which parts of different translations belong together, and gains most from it.

The folder, for a split of the corpus such as train:

    train.src, train.tgt     one source per line, and its translation
    train.manifest.json      the teacher, its search, and checksums of both files

A teacher of several languages gives such files for each direction: train.en-de.src and so on.

Until all lines are translated, the results of the batches are in train.tgt.unfinished (see regard/work.py), from which
the same command continues. The files are equal to the byte.
"""

import hashlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from heapq import nsmallest
from itertools import islice
from operator import itemgetter
from pathlib import Path

from regard.data.formats import read_examples
from regard.errors import UserError
from regard.files import JsonObject, Manifest, digest, locked, remove_leftovers, replacing
from regard.run.model import Translator
from regard.run.results import Prediction
from regard.tasks.base import ProgressCallback
from regard.tasks.inputs import one_line
from regard.tasks.translation import Translation
from regard.training.checkpoint import weights_sum
from regard.work import ENDING, Team, Work

FORMAT = 1
CHUNK_LINES = 1024
"""Lines that are translated together on a CPU."""
GPU_CHUNK_LINES = 16_384


@dataclass(frozen=True)
class Distilled:
    """The files of a distillation."""

    src: Path
    tgt: Path
    lines: int
    before: int
    """Lines that were already translated."""

    direction: tuple[str, str] | None = None
    """Source and target language; None if the teacher has one direction."""

    @property
    def source(self) -> str:
        """The files as a source of data in a recipe."""
        names = dict(zip(("src_lang", "tgt_lang"), self.direction or (), strict=False))
        values = {"src": str(self.src.absolute()), "tgt": str(self.tgt.absolute())} | names
        return "{" + ", ".join(f'{key}="{value}"' for key, value in values.items()) + "}"


def select_directions(
    task: Translation, source: str | None = None, target: str | None = None
) -> list[tuple[str, str] | None]:
    """The directions of a teacher from and to given languages, or all; [None] for a teacher of one target language."""
    if not task.languages.tags:
        return [None]
    chosen = [pair for pair in task.languages.directions if source in (None, pair[0]) and target in (None, pair[1])]
    if not chosen:
        problem = f"the teacher does not translate from {source or 'any language'} to {target or 'any language'}"
        remedy = "its directions: " + ", ".join(f"{a}-{b}" for a, b in task.languages.directions)
        raise UserError(problem, remedy, code="unknown-language", where="to")
    return list(chosen)


def distill(
    translator: Translator,
    folder: Path,
    split: str = "train",
    progress: ProgressCallback | None = None,
    direction: tuple[str, str] | None = None,
    team: Team | None = None,
    limit: int | None = None,
    **options: object,
) -> Distilled:
    """Translate the sources of a split of the run's data, or a sample of `limit` of them, into `folder`, or continue
    there. The processes of a `team` translate together; rank 0 reads and writes the files."""
    name = f"{split}.{'-'.join(direction)}" if direction else split
    src, tgt, path = (folder / f"{name}.{ending}" for ending in ("src", "tgt", "manifest.json"))
    unfinished = folder / f"{tgt.name}{ENDING}"
    given: JsonObject = options | ({"to": direction[1]} if direction else {})
    if team and team.rank:
        total = help_distill(translator, team, given)
        return Distilled(src, tgt, total, 0, direction)
    with tell_team(team) as tell, locked(folder):
        remove_leftovers(folder)
        total, src_sum = count_lines(source_lines(translator, split, direction, limit))
        inputs = {**origin(translator, given), "split": split, "src": src_sum}
        manifest = read_manifest(path, inputs, [tgt] if is_source(src, src_sum) else [src, tgt])
        if manifest is None:  # written first: it says that the other files are made here
            Manifest(FORMAT, inputs).write(path)
        elif tgt.name in manifest.files and not manifest.damaged(folder):
            unfinished.unlink(missing_ok=True)  # a kill can leave it behind a finished file
            tell(None)
            return Distilled(src, tgt, total, total, direction)
        if not is_source(src, src_sum):
            with replacing(src) as temporary, temporary.open("wb") as stream:
                stream.writelines(source_lines(translator, split, direction, limit))
        tell(src)
        with Work(progress, total, unfinished, {**translator.made_from(), **inputs}, team) as work:
            with replacing(tgt) as temporary, temporary.open("wb") as stream, src.open("rb") as lines:
                for prediction in work.count(translate_lines(translator, map(decode_line, work.feed(lines)), given)):
                    stream.write(f"{prediction['translation']}\n".encode())
            Manifest.describe(folder, [src.name, tgt.name], format=FORMAT, inputs=inputs).write(path)
        return Distilled(src, tgt, total, work.before, direction)


def translate_lines(translator: Translator, lines: Iterable[str], options: JsonObject) -> Iterator[Prediction]:
    """The prediction for each line, in chunks."""
    size = GPU_CHUNK_LINES if translator.world.device.type == "cuda" else CHUNK_LINES
    remaining = iter(lines)
    while part := list(islice(remaining, size)):
        yield from translator.predict(part, **options)


def decode_line(line: bytes) -> str:
    """The text of a line that this module wrote."""
    return line.removesuffix(b"\n").decode()


@contextmanager
def tell_team(team: Team | None) -> Iterator[Callable[[Path | None], None]]:
    """Tell the other processes which file to translate, None for nothing; or the error that came before."""
    told = False

    def tell(value: Path | UserError | None) -> None:
        nonlocal told
        if team is not None and not told:
            told = True
            team.share(value)

    try:
        yield tell
    except UserError as error:
        tell(error)
        raise


def help_distill(translator: Translator, team: Team, options: JsonObject) -> int:
    """Translate together with rank 0, which writes; return the number of lines."""
    src = team.share(None)[0]
    if isinstance(src, UserError):
        raise src
    if src is None:
        return 0
    with Work(team=team), src.open("rb") as lines:
        return sum(1 for _ in translate_lines(translator, map(decode_line, lines), options))


def source_lines(
    translator: Translator, split: str, direction: tuple[str, str] | None = None, limit: int | None = None
) -> Iterator[bytes]:
    """The source sentences of a split, one per line; of one direction, each sentence once. With a limit, a sample in
    the order of the split, which depends on the sentences alone: those with the smallest hashes."""
    task = translator.task
    if direction is None:
        pairs = (pair for pair in task.read(split) if not pair.get("copy"))
    else:
        data = task.recipe.data
        sources = [source for source in getattr(data, split) if direction in source.language_pairs()]
        read = task.read(split) if data.held_out else read_examples(sources, data.folder, task.recipe.fields)
        pairs = (pair for pair in read if (pair.get("from"), pair.get("to")) == direction)
    every = (f"{one_line(pair['src'])}\n".encode() for pair in pairs)
    lines = every if direction is None else iter(dict.fromkeys(every))
    if limit is None:
        return lines
    hashed = ((hashlib.blake2b(line, digest_size=8).digest(), number, line) for number, line in enumerate(lines))
    return iter([line for *_, line in sorted(nsmallest(limit, hashed), key=itemgetter(1))])


def is_source(src: Path, sha256: str) -> bool:
    """True if the file holds the sources already."""
    return src.is_file() and digest(src) == sha256


def count_lines(lines: Iterator[bytes]) -> tuple[int, str]:
    """The number of lines, and their sha256."""
    count, sha = 0, hashlib.sha256()
    for line in lines:
        sha.update(line)
        count += 1
    return count, sha.hexdigest()


def origin(translator: Translator, options: JsonObject) -> JsonObject:
    """Everything that a translation depends on."""
    paths = [run.checkpoints.resolve(translator.checkpoint) for run in translator.runs]
    return {
        "runs": [str(run.folder.absolute()) for run in translator.runs],
        "checkpoint": translator.checkpoint,
        "weights": [weights_sum(path) for path in paths],
        "precision": translator.world.precision,
        "decoding": translator.task.configure(**options).decoding.model_dump(),
    } | ({"to": options["to"]} if "to" in options else {})


def read_manifest(path: Path, inputs: JsonObject, files: Sequence[Path]) -> Manifest | None:
    """The manifest if there is one; a UserError if the files in the folder were made in another way."""
    existing = [file for file in files if file.exists()]
    if not path.exists():
        if existing:
            problem = f"{existing[0]} already exists and was not made by `regard distill`"
            raise UserError(problem, "choose a new folder", code="not-distilled", where=existing[0])
        return None
    manifest = Manifest.read(path)
    if not manifest.is_current(inputs, FORMAT):
        old = manifest.inputs if isinstance(manifest.inputs, dict) else {}
        differing = [name for name, value in inputs.items() if old.get(name) != value]
        problem = f"{path.parent} has translations with other settings: {path.name} differs in {', '.join(differing)}"
        remedy = "choose a different folder, or delete this one"
        raise UserError(problem, remedy, code="changed-settings", where=", ".join(differing))
    return manifest
