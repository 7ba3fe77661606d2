"""Files of sentence pairs that commands write: a table, JSON lines or two text files."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from regard.cli.screen import to_json
from regard.cli.streams import check_output, open_output
from regard.cli.tables import SPACES
from regard.errors import UserError

if TYPE_CHECKING:
    from regard.tasks.base import Example

COLUMNS = ("src", "tgt", "from", "to", "score")
"""Keys of a pair that are written, if its first pair has them."""
Write = Callable[["Example"], None]


def check_files(name: str, is_pair: bool) -> list[str]:
    """The files that an output names; a UserError if their format cannot be written."""
    from regard.data.records import file_ending

    parts = name.split(",")
    if file_ending(name) not in (".tsv", ".jsonl") and not (is_pair and len(parts) == 2 and all(parts)):
        remedy = "use .tsv or .jsonl" + (", or two text files SRC,TGT" if is_pair else "")
        raise UserError(f"pairs cannot be written to {name}", remedy, code="unsupported-file", where=name)
    return [name] if file_ending(name) in (".tsv", ".jsonl") else parts


def check_outputs(names: Sequence[str], *inputs: str) -> None:
    """Raise UserError if an output file is an input, or the same as another output."""
    for name in names:
        check_output(name, *inputs)
    if len({Path(name).resolve() for name in names}) < len(names):
        problem, remedy = f"{', '.join(names)}: two outputs are the same file", "choose a different file for each"
        raise UserError(problem, remedy, code="conflicting-options", where="output")


@contextmanager
def open_pairs(name: str, *more: str) -> Iterator[Write]:
    """Write pairs to a table, JSON lines or two text files; a line break or tab in a text is written as a space."""
    from regard.data.records import file_ending

    with ExitStack() as stack:
        streams = [stack.enter_context(open_output(file)) for file in check_files(name, is_pair=True)]
        names: list[str] = []

        def write_pair(pair: "Example") -> None:
            if not names:
                names.extend([*more, *(key for key in COLUMNS if key in pair)])
                if file_ending(name) == ".tsv":
                    streams[0].write("\t".join(names) + "\n")
            if file_ending(name) == ".jsonl":
                streams[0].write(to_json({key: pair[key] for key in names if key in pair}) + "\n")
            elif len(streams) == 2:
                for stream, side in zip(streams, ("src", "tgt"), strict=True):
                    stream.write(pair[side].translate(SPACES) + "\n")
            else:
                streams[0].write("\t".join(str(pair.get(key, "")).translate(SPACES) for key in names) + "\n")

        yield write_pair
