"""regard embed: texts as vectors, for other programs to learn from, search in or compare."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, BinaryIO

import typer

from regard.cli.options import RunFolder, WeightOptions, one_of
from regard.cli.predict import Input, Output
from regard.cli.screen import Ticker, say, to_json
from regard.cli.translate import STANDARD, asked, lines_of, opened, refuse_overwriting
from regard.errors import UserError

if TYPE_CHECKING:
    from regard.run.embedding import Embedding

FORMATS = ("jsonl", "npy", "npz")


def embed(
    run: RunFolder,
    text: Annotated[
        str | None, typer.Argument(metavar="TEXT", help="One text; without it each line of the input is one.")
    ] = None,
    *,
    layers: Annotated[
        str, typer.Option(metavar="LAYERS", help='last, all, -2, "-4:" or 1,6; 0 are the embeddings.')
    ] = "last",
    combine: Annotated[str, typer.Option(metavar="concat|sum|mean", help="How several layers become one.")] = "concat",
    pool: Annotated[
        str, typer.Option(metavar="cls|mean|max|pooler|tokens", help="How tokens become one vector; tokens: not.")
    ] = "mean",
    normalize: Annotated[bool, typer.Option("--normalize", help="Make every vector one long.")] = False,
    format_: Annotated[
        str | None,
        typer.Option("--format", metavar="jsonl|npy|npz", help="npz is for tokens [as FILE ends, or jsonl]."),
    ] = None,
    input_: Input = STANDARD,
    output: Output = STANDARD,
    weights: WeightOptions,
) -> None:
    """Turn texts into vectors: what a model that reads makes of them.

    Each line is a text, "text TAB second text", or JSON {"text": "..."}. jsonl gives an object for each: what was given
    and its embedding; with --pool tokens the pieces and a vector for each. npy is one matrix, a row for each line. npz,
    for tokens, holds embeddings (all pieces x width), offsets (where each text begins, and the end) and pieces. Any run
    of pretraining or understanding will do, an imported model too.

    \b
    Examples:
      regard embed runs/minilm "How do vectors come about?" --normalize
      regard embed runs/minilm --input texts.txt --output texts.npy
      regard embed runs/bert --layers "-4:" --pool tokens --input texts.txt --output texts.npz
    """
    from regard.run.embedding import Features
    from regard.run.given import from_json
    from regard.run.predictor import Predictor

    refuse_overwriting(output, (input_,))
    form = chosen_format(format_, output, pool)
    predictor = Predictor.load(run, **asdict(weights))
    features = Features(layers, combine, pool, normalize)
    name = "stdin" if input_ == STANDARD else input_
    typed = text is None and input_ == STANDARD and sys.stdin.isatty()
    lines = (
        [text] if text is not None else asked("Type a text, then Enter; Ctrl-D ends.") if typed else lines_of(input_)
    )
    given = (from_json(line, f"{name}, line {number}") for number, line in enumerate(lines, 1))
    with Ticker("texts read:") as ticker:
        place = "text" if text is not None else f"{name}, line"
        ones = ([each] for each in given) if typed else [given]
        found = counted((vector for some in ones for vector in predictor.embed(some, features, place)), ticker)
        if form == "jsonl":
            write_lines(output, found)
        elif form == "npy":
            settings = predictor.reader.settings
            write_matrix(output, found, features.width(settings.d_model, settings.layers))
        else:
            write_tokens(output, found)


def chosen_format(wanted: str | None, output: str, pool: str) -> str:
    """As it is asked for, else as the file is called; matrices are for files, and of tokens there are many."""
    ending = Path(output).suffix.removeprefix(".")
    form = one_of("--format", wanted or (ending if ending in FORMATS else FORMATS[0]), FORMATS)
    if form == "npy" and pool == "tokens":
        raise UserError("of tokens there are more vectors than texts: npy holds one for each", "write --format npz")
    if form == "npz" and pool != "tokens":
        raise UserError("npz is for the vectors of tokens", "write --format npy, or --pool tokens")
    if form != "jsonl" and output == STANDARD:
        raise UserError(f"{form} is no text for a terminal", f"say where it goes: --output vectors.{form}")
    return form


def counted(found: "Iterator[Embedding]", ticker: Ticker) -> "Iterator[Embedding]":
    """The same, with a moving count, and a word at the end about texts that were not read whole."""
    number = cut = 0
    for number, each in enumerate(found, 1):
        yield each
        cut += each.unread > 0
        ticker(number)
    if cut:
        ticker.clear()
        say(f"note: {cut:,} of {number:,} texts were longer than the model reads at once, and were cut")


def write_lines(output: str, found: "Iterator[Embedding]") -> None:
    """An object a line."""
    with opened(output) as stream:
        for each in found:
            values = {"pieces": each.pieces, "embeddings": each.vector.tolist()}
            pooled = {"embedding": each.vector.tolist()}
            print(to_json(each.example | (values if each.vector.ndim > 1 else pooled)), file=stream, flush=True)


def write_matrix(output: str, found: "Iterator[Embedding]", width: int) -> None:
    """Rows as they come; how many there were is written into the head of the file when that is known."""
    import numpy as np

    def head(stream: BinaryIO, rows: int) -> int:
        shape = {"descr": "<f4", "fortran_order": False, "shape": (rows, width)}
        stream.seek(0)
        np.lib.format.write_array_header_1_0(stream, shape)
        return stream.tell()

    with replaced(output) as stream:
        begins, rows = head(stream, 0), 0
        for each in found:
            stream.write(each.vector.astype("<f4").tobytes())
            rows += 1
        assert head(stream, rows) == begins, "numpy leaves room in the head for the number of rows to grow"
    say(f"{output}: {rows:,} vectors of {width}")


def write_tokens(output: str, found: "Iterator[Embedding]") -> None:
    """All pieces end to end."""
    import numpy as np

    listed = list(found)
    arrays: dict[str, Any] = {
        "embeddings": np.concatenate([each.vector for each in listed]) if listed else np.zeros((0, 0), np.float32),
        "offsets": np.cumsum([0, *(len(each.pieces) for each in listed)]),
        "pieces": np.array([piece for each in listed for piece in each.pieces], dtype=np.str_),
    }
    with replaced(output) as stream:
        np.savez(stream, **arrays)
    say(f"{output}: {len(arrays['pieces']):,} vectors of {len(listed):,} texts")


@contextmanager
def replaced(output: str) -> Iterator[BinaryIO]:
    """A file that appears when it is whole."""
    from regard.files import replacing

    with replacing(Path(output)) as place, place.open("wb") as stream:
        yield stream
