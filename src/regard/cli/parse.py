"""regard parse: the syntax trees of sentences."""

import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from typer import Argument, Option

from regard.cli.options import (
    AsJson,
    InputFile,
    Interactive,
    ModelOptions,
    OutputFile,
    RunFolder,
    SearchOptions,
    one_of,
)
from regard.cli.screen import report, to_json
from regard.cli.streams import STDIO, check_one_input, check_output, input_lines, open_output
from regard.cli.tables import read_rows, table_source
from regard.messages import Message

if TYPE_CHECKING:
    from regard.data.examples import Example
    from regard.tasks.base import AnyTask
    from regard.trees import Tree

Format = Callable[["Example"], str]

# Treebanks write as words: punctuation, the last full stop of a line, and the endings of don't and Ada's.
PUNCTUATION = re.compile(r"""(\.\.\.|--|[][(){}"“”„«»!?;…。，、；：？！]|[,:](?!\d)|\.(?=["'”’)\]\s]*$))""")
ENDINGS = re.compile(r"(?i)(?<=\w)(n['’]t|['’](?:s|m|d|re|ve|ll))\b")


def parse(
    run: RunFolder,
    search: SearchOptions,
    model: ModelOptions,
    sentences: Annotated[
        list[str] | None,
        Argument(
            metavar="TEXT...", help="Sentences, each in quotation marks; without TEXT, each input line is a sentence."
        ),
    ] = None,
    input_: InputFile = STDIO,
    output: OutputFile = STDIO,
    split: Annotated[bool, Option("--split", help="Separate punctuation from words, as in treebanks.")] = False,
    format_: Annotated[
        str,
        Option(
            "--format", metavar="tree|brackets|json", help="tree: a drawing; brackets: one line; json: one JSON object."
        ),
    ] = "tree",
    svg: Annotated[Path | None, Option(metavar="FILE", help="Draw the last tree into this SVG file.")] = None,
    interactive: Interactive = False,
    as_json: AsJson = False,
) -> None:
    """Parse sentences into constituency trees.

    Each input line is a sentence with spaces between words; the tree has exactly these words. From a treebank (.ptb,
    .mrg) only the words are read. A tree that is too wide for the terminal is drawn with one line per phrase. Brackets
    are written as in treebanks, one tree per line, and an empty line for an empty line; parts of speech are not
    predicted and written as XX. JSON has words, tree, repaired (true if the model's output was not a tree of the
    sentence and was repaired), score, tokens (the output) and parts.

    \b
    Examples:
      regard parse runs/gum "The cat sat on the mat ."
      regard parse runs/gum --split "Don't you see it? It's there."
      regard parse runs/gum -i sentences.txt --format brackets -o sentences.ptb
      regard parse runs/gum "Time flies like an arrow ." --svg arrow.svg
      regard parse runs/gum --interactive
    """
    from regard.files import require_writable

    form = FORMATS["json" if as_json else one_of("--format", format_, tuple(FORMATS))]
    check_output(output, input_)
    check_one_input(TEXT=sentences, **{"--input": input_ != STDIO, "--interactive": interactive})
    if svg is not None:
        require_writable(svg)
    parser, options = model.load(run, task="parsing"), search.changes()
    groups = read_sentences(parser.task, sentences or [], input_, interactive, split)
    pairs = (pair for group in groups for pair in parser.stream_pairs(group, **options))
    print_trees((example | prediction for example, prediction in pairs), form, output, svg)


def print_trees(parses: "Iterator[Example]", form: Format, output: str, svg: Path | None) -> None:
    """Print each tree as soon as it is there; draw the last one; report how many were repaired."""
    from regard.files import write_text
    from regard.viz.tree import tree_svg

    count = repaired = 0
    with open_output(output) as stream:
        for item in parses:
            print(form(item), file=stream, flush=True)
            count, repaired = count + 1, repaired + item["repaired"]
            if svg is not None and item["words"]:
                write_text(svg, tree_svg(tree_of(item)))
    if repaired:
        counts = {"repaired": repaired, "count": count}
        report(
            Message("note: {repaired} of {count} outputs were not a tree of the sentence and were repaired", **counts)
        )


def read_sentences(
    task: "AnyTask", sentences: list[str], input_: str, interactive: bool, split: bool
) -> "Iterator[Iterator[Example]]":
    """The words of each sentence, from a treebank or from lines, in groups that are parsed together."""
    treebank = table_source(task, input_, {})
    if treebank is not None:
        yield ({"words": item["words"]} for _, item in read_rows(task, treebank))
        return
    for lines in input_lines(sentences, input_, interactive):
        yield ({"words": split_words(line) if split else line.split()} for line in lines)


def split_words(line: str) -> list[str]:
    """The words of a line; punctuation and the endings of contractions are words of their own, as in treebanks."""
    return ENDINGS.sub(r" \1", PUNCTUATION.sub(r" \1 ", line)).split()


def tree_of(item: "Example") -> "Tree":
    """The tree of a parse; an empty sentence has an empty one."""
    from regard.tasks.parsing import tree_of as read_tree
    from regard.trees import ROOT, Tree

    return read_tree(item["tree"]) if item["tree"] else Tree(ROOT)


def drawing(item: "Example") -> str:
    """A drawing and an empty line."""
    from regard.viz.tree import tree_text

    return tree_text(tree_of(item)) + "\n"


def json_line(item: "Example") -> str:
    """One object for each sentence."""
    keys = ("words", "tree", "repaired", "score", "tokens", "parts")
    return to_json({key: item[key] for key in keys} | ({} if item["words"] else {"score": None}))


FORMATS: dict[str, Format] = {"tree": drawing, "brackets": lambda item: str(item["tree"]), "json": json_line}
