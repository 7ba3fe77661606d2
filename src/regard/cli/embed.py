"""regard embed: vectors of texts, as features for other tools."""

from collections import deque
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, BinaryIO

from typer import Argument, Option

from regard.cli import streams
from regard.cli.options import InputFile, OutputFile, RunFolder, WeightOptions, one_of
from regard.cli.screen import is_main, report, to_json, truncation_note
from regard.cli.streams import STDIO, check_output, is_interactive, line_name, open_output, prompt_lines, read_lines
from regard.cli.tables import PLAIN_ENDINGS, check_lines, read_texts
from regard.errors import UserError
from regard.messages import Message

if TYPE_CHECKING:
    from regard.run.embedding import Embedding, Features
    from regard.run.model import Model
    from regard.tasks.base import Example
    from regard.work import Work

FORMATS = ("jsonl", "npy", "npz")


def embed(
    run: RunFolder,
    text: Annotated[str | None, Argument(metavar="TEXT", help="Text to embed; without TEXT, each input line.")] = None,
    *,
    layers: Annotated[
        str,
        Option(
            "--layers", metavar="LAYERS", help='Layers to use: last, all, -2, "-4:" or 1,6; 0 is the embedding layer.'
        ),
    ] = "last",
    combine: Annotated[
        str, Option(metavar="concat|sum|mean", help="Only with several layers: how to combine the vectors.")
    ] = "concat",
    pool: Annotated[
        str,
        Option(metavar="cls|mean|max|pooler|tokens", help="How to make one vector per text; tokens: one per token."),
    ] = "mean",
    normalize: Annotated[bool, Option("--normalize", help="Scale every vector to length 1.")] = False,
    format_: Annotated[
        str | None,
        Option(
            "--format",
            metavar="jsonl|npy|npz",
            show_default="from the output's extension, or jsonl",
            help="Output format; npz only with `--pool tokens`.",
        ),
    ] = None,
    input_: InputFile = STDIO,
    output: OutputFile = STDIO,
    weights: WeightOptions,
) -> None:
    """Compute a vector for each text with a run's text encoder."""
    from regard.run.embedding import Features, text_encoding

    check_output(output, input_)
    form, features = select_format(format_, output, pool), Features(layers, combine, pool, normalize)
    model = weights.load(run)
    total, given = count_texts(input_), [vars(features), form, text]
    with streams.work_on(Message("embedded:"), output, total, model, given, input_) as work:
        embeddings = count_embeddings(embed_input(model, features, text, input_, work), work)
        if not is_main():  # the first process writes
            deque(embeddings, maxlen=0)
        elif form == "jsonl":
            write_lines(output, embeddings)
        elif form == "npy":
            settings = text_encoding(model).module(model.model).settings
            write_matrix(output, embeddings, features.width(settings.d_model, settings.layers))
        else:
            write_tokens(output, embeddings)


def count_texts(name: str) -> int | None:
    """The number of texts of a file with a text on each line; None for others."""
    from regard.data.records import file_ending

    return streams.count_lines(name) if file_ending(name) in PLAIN_ENDINGS else None


def embed_input(
    model: "Model", features: "Features", text: str | None, name: str, work: "Work"
) -> "Iterator[Embedding]":
    """The embeddings of the text, of a file, or of what a person types line by line."""
    from regard.tasks.inputs import parse_json_line

    where = "text" if text is not None else line_name(name)
    interactive = is_interactive(text is not None, name != STDIO)
    lines: Iterable[str] = [text] if text is not None else prompt_lines() if interactive else read_lines(name)
    values: Iterator[str | Example] = (
        parse_json_line(line, f"{where} {number}") for number, line in enumerate(lines, 1)
    )
    if text is None and (texts := read_texts(model.task, name)) is not None:
        where, values = f"{name}, record", texts
    elif text is None:
        check_lines(model.task, name)
    groups = ([value] for value in values) if interactive else [work.feed(values)]
    for group in groups:
        yield from model.stream_embeddings(group, features, where=where)


def select_format(requested: str | None, output: str, pool: str) -> str:
    """The requested format, or that of the output's ending; a UserError if it does not fit the options."""
    from regard.data.records import file_ending
    from regard.files import COMPRESSED

    ending, is_compressed = file_ending(output).removeprefix("."), Path(output).suffix in COMPRESSED
    form = one_of("--format", requested or (ending if output != STDIO else "") or FORMATS[0], FORMATS)
    if form == "npy" and pool == "tokens":
        raise UserError("npy has no token vectors", "set `--format npz`", code="unsupported-option", where="format")
    if form == "npz" and pool != "tokens":
        problem = "`--format npz` needs `--pool tokens`"
        raise UserError(problem, "set `--format npy`, or `--pool tokens`", code="unsupported-option", where="format")
    if form != "jsonl" and (output == STDIO or is_compressed):
        raise UserError(
            f"{form} cannot be printed", f"set `--output vectors.{form}`", code="unsupported-option", where="output"
        )
    return form


def count_embeddings(embeddings: "Iterator[Embedding]", work: "Work") -> "Iterator[Embedding]":
    """The embeddings, with a count on the terminal and a note about truncated texts at the end."""
    truncated = 0
    for embedding in work.count(embeddings):
        yield embedding
        truncated += embedding.truncated > 0
    if truncated:
        report(truncation_note(truncated, work.done))


def write_lines(output: str, embeddings: "Iterator[Embedding]") -> None:
    """Write one JSON object per line."""
    with open_output(output) as stream:
        for embedding in embeddings:
            vector = embedding.vector.tolist()
            by_token = {"tokens": embedding.tokens, "embeddings": vector}
            values = by_token if embedding.vector.ndim > 1 else {"embedding": vector}
            print(to_json(embedding.example | values), file=stream, flush=True)


def write_matrix(output: str, embeddings: "Iterator[Embedding]", width: int) -> None:
    """Write the rows one by one; their number is written into the header at the end."""
    import numpy as np

    def write_header(stream: BinaryIO, rows: int) -> int:
        shape = {"descr": "<f4", "fortran_order": False, "shape": (rows, width)}
        stream.seek(0)
        np.lib.format.write_array_header_1_0(stream, shape)
        return stream.tell()

    with open_binary_output(output) as stream:
        begin, rows = write_header(stream, 0), 0
        for embedding in embeddings:
            stream.write(embedding.vector.astype("<f4").tobytes())
            rows += 1
        assert write_header(stream, rows) == begin, "the header of numpy has space for a larger number of rows"
    report(Message("{output}: {rows:,} vectors of {width}", output=output, rows=rows, width=width))


def write_tokens(output: str, embeddings: "Iterator[Embedding]") -> None:
    """Write the vectors of all tokens, one text after another."""
    import numpy as np

    texts = list(embeddings)
    vectors = np.concatenate([text.vector for text in texts]) if texts else np.zeros((0, 0), np.float32)
    tokens = np.array([token for text in texts for token in text.tokens], dtype=np.str_)
    with open_binary_output(output) as stream:
        np.savez(
            stream, embeddings=vectors, offsets=np.cumsum([0, *(len(text.tokens) for text in texts)]), tokens=tokens
        )
    counts = {"vectors": len(tokens), "texts": len(texts)}
    report(Message("{output}: {vectors:,} vectors of {texts:,} texts", output=output, **counts))


@contextmanager
def open_binary_output(output: str) -> Iterator[BinaryIO]:
    """A binary file that appears when it is complete."""
    from regard.files import replacing

    with replacing(Path(output)) as temporary, temporary.open("wb") as stream:
        yield stream
