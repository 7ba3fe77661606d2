"""regard parse: the tree of every sentence."""

import re
import sys
from collections.abc import Callable, Iterator
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from regard.cli.options import AsJson, ModelOptions, RunFolder, SearchOptions, one_of
from regard.cli.screen import say, to_json
from regard.cli.translate import STANDARD, asked, lines_of
from regard.errors import UserError

if TYPE_CHECKING:
    from regard.tasks import Parse

Form = Callable[["Parse"], str]

# What treebanks write as words of their own: signs, the last full stop of a line, and the ends of don't and Ada's.
SIGNS = re.compile(r"""(\.\.\.|--|[][(){}"“”„«»!?;…。，、；：？！]|[,:](?!\d)|\.(?=["'”’)\]\s]*$))""")
ENDINGS = re.compile(r"(?i)(?<=\w)(n['’]t|['’](?:s|m|d|re|ve|ll))\b")


def parse(
    run: RunFolder,
    search: SearchOptions,
    model: ModelOptions,
    sentences: Annotated[
        list[str] | None, typer.Argument(metavar="[TEXT]...", help="Sentences, each in quotation marks; else stdin.")
    ] = None,
    input_: Annotated[
        str | None, typer.Option("--input", metavar="FILE", help="Sentences, one a line; .gz and .xz are read.")
    ] = None,
    split: Annotated[bool, typer.Option("--split", help="Separate signs from words first, as treebanks do.")] = False,
    format_: Annotated[
        str, typer.Option("--format", metavar="tree|brackets|json", help="A drawing, one line of brackets, or JSON.")
    ] = "tree",
    svg: Annotated[Path | None, typer.Option(metavar="FILE", help="Also draw the last tree as a picture.")] = None,
    interactive: Annotated[bool, typer.Option("--interactive", "-i", help="Ask for sentences.")] = False,
    as_json: AsJson = False,
) -> None:
    """Parse sentences into trees of phrases.

    A line is a sentence, its words with blanks between them, and gets a tree over exactly these words. A tree too wide
    for the terminal is drawn with a line for each phrase. Brackets are those of a treebank, one tree a line and blank
    for blank, with XX for the parts of speech, which are not predicted. JSON has words, tree, repaired (whether the
    model's output was no tree, and was made one), score, tokens (the output itself) and parts.

    \b
    Examples:
      regard parse runs/gum "The cat sat on the mat ."
      regard parse runs/gum --split "Don't you see it? It's there."
      regard parse runs/gum --input sentences.txt --format brackets > sentences.ptb
      regard parse runs/gum "Time flies like an arrow ." --svg arrow.svg
      regard parse runs/gum -i
    """
    from regard.files import require_writable
    from regard.run import Parser

    form = FORMS["json" if as_json else one_of("--format", format_, tuple(FORMS))]
    if sum([bool(sentences), input_ is not None, interactive]) > 1:
        raise UserError("sentences come from one place", "give TEXT, or --input FILE, or -i")
    if svg is not None:
        require_writable(svg)
    parser = Parser.load(run, **asdict(model))
    typed = interactive or (not sentences and input_ is None and sys.stdin.isatty())
    lines = asked() if typed else iter(sentences) if sentences else lines_of(input_ or STANDARD)
    words = (separated(line) if split else line.split() for line in lines)
    groups = ([each] for each in words) if typed else iter([words])  # whoever types waits for each
    show((found for group in groups for found in parser.stream(group, **search.changes())), form, svg)


def show(trees: "Iterator[Parse]", form: Form, svg: Path | None) -> None:
    """Every tree as soon as it is there, and at the end what a user should know."""
    from regard.files import write_text
    from regard.viz.tree import tree_svg

    count = repaired = 0
    for found in trees:
        print(form(found), flush=True)
        count, repaired = count + 1, repaired + found.repaired
        if svg is not None and found.words:
            write_text(svg, tree_svg(found.tree))
    if repaired:
        say(f"note: {repaired} of {count} outputs were no tree over the words, and were made one")


def separated(line: str) -> list[str]:
    """A line as words: signs and the ends of contractions stand alone, as in treebanks."""
    return ENDINGS.sub(r" \1", SIGNS.sub(r" \1 ", line)).split()


def drawn(found: "Parse") -> str:
    """A drawing and a blank line."""
    from regard.viz.tree import tree_text

    return tree_text(found.tree) + "\n"


def brackets(found: "Parse") -> str:
    """One line of brackets."""
    return found.brackets


def told(found: "Parse") -> str:
    """One object for each sentence."""
    return to_json({
        "words": found.words,
        "tree": found.brackets,
        "repaired": found.repaired,
        "score": found.score if found.words else None,
        "tokens": found.tokens,
        "parts": found.parts,
    })  # fmt: skip


FORMS: dict[str, Form] = {"tree": drawn, "brackets": brackets, "json": told}
