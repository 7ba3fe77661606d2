"""regard align: where attention reads each word from, how sure it is, and how often it is right."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from regard.cli.evaluate import TextOptions
from regard.cli.options import AsJson, ModelOptions, RunFolder, one_of
from regard.cli.screen import Ticker, result, result_json, say, table
from regard.errors import UserError

if TYPE_CHECKING:
    from regard.data.sources import Source
    from regard.run import Translator
    from regard.run.alignment import Plane, Study


def align(
    run: RunFolder,
    text: TextOptions,
    model: ModelOptions,
    sentences: Annotated[int, typer.Option(metavar="N", min=1, help="How many sentences are measured.")] = 200,
    layer: Annotated[
        int | None, typer.Option(metavar="N", min=1, help="Read links off this layer, from 1 [the best].")
    ] = None,
    head: Annotated[int | None, typer.Option(metavar="N", min=1, help="And this head, from 1 [their mean].")] = None,
    by: Annotated[str, typer.Option(metavar="words|pieces", help="What --output links.")] = "words",
    output: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Write the links of all sentences, a line each: 0-0 1-2.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Measure how every head aligns a text with its translation.

    Entropy says how undecided a head is, coverage whether it reads every source piece, agreement how much heads have in
    common. On the builtin corpora, whose alignments are exact, the alignment error rate (AER) says how often it is
    right. With --output the links of the best head (or of --layer and --head) are written as alignment tools do,
    source-target, counted from 0.

    \b
    Examples:
      regard align runs/numbers
      regard align runs/de --src news.en --tgt news.de --output news.align
      regard align runs/de --layer 5 --output test.align --by pieces
    """
    from regard.data.fields import PAIRS
    from regard.data.formats import read_examples
    from regard.files import require_writable
    from regard.run.alignment import gold_of, study

    one_of("--by", by, ("words", "pieces"))
    if output is not None:
        require_writable(output)
    translator = model.load(run)
    _, corpora, root = text.corpora(translator.run)
    pairs = ((pair["src"], pair["tgt"]) for pair in read_examples(corpora, root, PAIRS))
    say(f"measuring the attention of {translator.run.folder} on {', '.join(map(str, corpora))}")
    found = study(translator, gold_of(corpora) or pairs, sentences)
    plane = chosen(found, layer, head)
    if output is not None:
        write_links(translator, corpora, root, plane, by, output)
    if as_json:
        result_json({**found.to_json(), "links": {"file": str(output) if output else None, **vars(plane)}})
        return
    show(found)
    if output is not None:
        result(f"links of {plane}: {output}")


def chosen(found: "Study", layer: int | None, head: int | None) -> "Plane":
    """The plane that was asked for; the best one where none was."""
    from regard.run.alignment import Plane

    if layer is None and head is None:
        return found.best.plane
    plane = Plane(layer or max(each.plane.layer for each in found.planes), head or 0)
    if plane not in [each.plane for each in found.planes]:
        last = found.planes[-2].plane
        heads = sum(each.plane.layer == last.layer for each in found.planes) - 1
        raise UserError(f"there is no {plane}", f"this model has layers 1 to {last.layer} of {heads} heads")
    return plane


def write_links(
    translator: "Translator", corpora: "list[Source]", root: Path, plane: "Plane", by: str, path: Path
) -> None:
    """One line of links for every pair, blank for blank."""
    from regard.data.fields import PAIRS
    from regard.data.formats import read_examples
    from regard.files import replacing
    from regard.metrics.alignment import pharaoh
    from regard.run.alignment import align as align_pairs

    pairs = ((pair["src"], pair["tgt"]) for pair in read_examples(corpora, root, PAIRS))
    with Ticker("aligned:") as ticker, replacing(path) as place, place.open("w", encoding="utf-8") as stream:
        for number, links in enumerate(align_pairs(translator, pairs, plane, by), 1):
            stream.write(pharaoh(links) + "\n")
            ticker(number)


def show(found: "Study") -> None:
    """A line for every head, and what they have in common below."""
    judged = found.lowest is not None
    names = ("layer", "head", "entropy", "of ln S", "covered", "coverage error")
    columns = (*names, "AER", "precision", "recall") if judged else names
    rows = []
    for each in found.planes:
        layer, head = (str(number) if number else "mean" for number in (each.plane.layer, each.plane.head))
        values = [each.entropy, each.relative_entropy, each.covered, each.coverage_error]
        values += [each.links.aer, each.links.precision, each.links.recall] if each.links else []
        mark = " *" if each is found.best else ""
        rows.append([layer, head + mark, *(f"{value:.3f}" for value in values)])
    table(columns, rows, right=columns)
    heads = ", ".join(f"{share:.2f}" for share in found.agreement_of_heads)
    result(f"agreement of the heads of each layer: {heads}; of the layers: {found.agreement_of_layers:.2f}")
    by = "the lowest AER" if judged else "the least coverage error"
    result(f"* has {by}, over {found.sentences:,} sentences")
    if found.lowest is not None:
        result(f"one right link for every target word would have an AER of {found.lowest.aer:.3f}")
