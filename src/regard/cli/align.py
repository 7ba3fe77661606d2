"""regard align: attention as a word alignment, measured for every head, and its links."""

from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from typer import Option

from regard.cli.options import AsJson, DataOptions, Head, Layer, ModelOptions, RunFolder, data_of_recipe, one_of
from regard.cli.screen import ProgressLine, print_json, print_result, print_table, report
from regard.errors import UserError
from regard.messages import Message, join_messages

if TYPE_CHECKING:
    from collections.abc import Sequence

    from regard.ladder.alignment import AlignmentReport
    from regard.run.alignment import AlignmentHead
    from regard.run.model import Translator
    from regard.tasks.base import Example

UNITS = ("words", "tokens")


def align(
    run: RunFolder,
    data: DataOptions,
    model: ModelOptions,
    sentences: Annotated[
        int, Option(metavar="PAIRS", min=1, help="Maximum number of sentence pairs to measure.")
    ] = 200,
    layer: Layer = None,
    head: Head = None,
    by: Annotated[str, Option(metavar="words|tokens", help="Only with `--output`: units to align.")] = "words",
    output: Annotated[
        Path | None, Option("--output", "-o", metavar="FILE", help="File for the links of each pair, e.g. 0-0 1-2.")
    ] = None,
    save: Annotated[bool, Option("--save", help="Save the best head in the run, for translating documents.")] = False,
    as_json: AsJson = False,
) -> None:
    """Measure a translation run's cross-attention as a word alignment."""
    from regard.files import require_writable
    from regard.ladder.alignment import evaluate_alignment, gold_alignments

    one_of("--by", by, UNITS)
    if output is not None:
        require_writable(output)
    translator = model.load_translator(run)
    task = translator.task
    name, sources = data.select(task)
    corpora = getattr(task.recipe.data, name) if sources is None else sources
    with data_of_recipe(sources):
        examples = list(islice(list(task.read(name, sources)), sentences if save else None))
    if save:
        return save_best_head(translator, examples, as_json)
    measured_on = {"run": translator.run.folder, "data": ", ".join(map(str, corpora)) or name}
    report(Message("measuring the attention of {run} on {data}", **measured_on))
    measured = evaluate_alignment(translator, gold_alignments(corpora) or examples, sentences)
    selected = select_head(measured, layer, head)
    if output is not None:
        write_links(translator, examples, selected, by, output)
    if as_json:
        links = {"file": str(output) if output else None, "layer": selected.layer, "head": selected.head}
        return print_json({**measured.to_json(), "links": links})
    print_report(measured)
    return (
        print_result(Message("links of {head}: {output}", head=selected, output=output)) if output is not None else None
    )


def save_best_head(translator: "Translator", examples: "Sequence[Example]", as_json: bool) -> None:
    """Measure every head on words that a sentence and its translation have in common, and save the best one."""
    from regard.run.alignment import measure_heads, save_head

    if translator.run.outputs != translator.run.folder:
        problem = "`--save` cannot change a bundled run"
        remedy = "make a copy first: `regard compress translator --folder FOLDER`, then `regard align FOLDER --save`"
        raise UserError(problem, remedy, code="unwritable", where=translator.run.folder)
    targets = [str(example["tgt"]) for example in examples]
    measured = measure_heads(translator, examples, targets)
    if not measured:
        problem = (
            "`--save` cannot choose a head: no name, number or inner punctuation is equal in source and translation"
        )
        remedy = "use more sentences (`--sentences`) or other data (`--src` and `--tgt`)"
        raise UserError(problem, remedy, code="no-data", where="sentences")
    save_head(translator.run, measured[0].head)
    if as_json:
        print_json([{**vars(item.head), "share": item.share, "words": item.words} for item in measured])
        return
    columns = (Message("layer"), Message("head"), Message("row"), Message("linked"))
    shifts = (Message("writes"), Message("reads"))
    rows = [
        [str(item.head.layer), head_name(item.head.head), shifts[item.head.shift], f"{item.share:.3f}"]
        for item in measured
    ]
    print_table(columns, rows, right=columns)
    saved = {"words": measured[0].words, "folder": translator.run.folder}
    print_result(Message("of {words:,} equal words; the first head is saved in {folder}", **saved))


def head_name(number: int) -> str:
    """The number of a layer or head for people; 0 is the mean of all."""
    return str(number) if number else Message("mean")


def select_head(measured: "AlignmentReport", layer: int | None, head: int | None) -> "AlignmentHead":
    """The chosen head; without options the best one. Without `head`: the mean over the layer's heads; without `layer`:
    the last layer."""
    from regard.run.alignment import AlignmentHead

    if layer is None and head is None:
        return measured.best.head
    heads = [item.head for item in measured.heads]
    selected = AlignmentHead(max(item.layer for item in heads) if layer is None else layer, head or 0)
    if selected not in heads:
        layers, per_layer = max(item.layer for item in heads), max(item.head for item in heads)
        problem = f"the model has no {selected}"
        remedy = f"choose a layer from 1 to {layers} and a head from 1 to {per_layer}"
        raise UserError(problem, remedy, code="invalid-option", where="layer" if selected.layer > layers else "head")
    return selected


def write_links(
    translator: "Translator", examples: "Sequence[Example]", head: "AlignmentHead", by: str, path: Path
) -> None:
    """Write one line of links for every pair; an empty line for an empty pair."""
    from regard.files import replacing
    from regard.ladder.alignment import align as align_pairs
    from regard.metrics.alignment import pharaoh

    with (
        ProgressLine(Message("aligned:")) as progress,
        replacing(path) as file,
        file.open("w", encoding="utf-8") as stream,
    ):
        for number, links in enumerate(align_pairs(translator, examples, head, by), 1):
            stream.write(pharaoh(links) + "\n")
            progress(number)


def print_report(measured: "AlignmentReport") -> None:
    """Print a line for every head, and the agreement between heads."""
    scored = measured.lowest is not None
    columns: list[str] = [Message("layer"), Message("head"), Message("entropy"), Message("entropy / ln S")]
    columns += [Message("covered"), Message("coverage error")]
    columns += ["AER", Message("precision"), Message("recall")] if scored else []
    rows = []
    for item in measured.heads:
        layer, head = head_name(item.head.layer), head_name(item.head.head)
        values = [item.entropy, item.relative_entropy, item.covered, item.coverage_error]
        values += [item.links.aer, item.links.precision, item.links.recall] if item.links else []
        mark = " *" if item is measured.best else ""
        rows.append([layer, join_messages("", [head, mark]), *(f"{value:.3f}" for value in values)])
    print_table(columns, rows, right=columns)
    heads = ", ".join(f"{share:.2f}" for share in measured.agreement_of_heads)
    shares = {"heads": heads, "layers": measured.agreement_of_layers}
    print_result(Message("agreement of the heads of each layer: {heads}; of the layers: {layers:.2f}", **shares))
    criterion = Message("lowest AER") if scored else Message("lowest coverage error")
    print_result(Message("* {criterion}, over {count:,} sentences", criterion=criterion, count=measured.sentences))
    if measured.lowest is not None:
        aer = {"aer": measured.lowest.aer}
        print_result(Message("one correct link for every target word has an AER of {aer:.3f}", **aer))
