"""Short everyday texts for people to judge: 200 texts of 15 kinds (everyday.tsv), in all directions with English.

    python -m benchmarks.judge                                          what can be counted, by direction
    python -m benchmarks.judge translator runs/new --sheet sheet.tsv    translations without a verdict, shuffled
    python -m benchmarks.judge translator runs/new --table              verdicts by direction and by kind

A sheet names no model. Fill in its last column with one of the verdicts, and store it in benchmarks/judged/; equal
translations of different models have one verdict, so that a better model needs few new ones.

    good          right and natural          wrong          another meaning, or a part is missing
    fair          understood, but not well   embarrassing   nonsense, a loop, another language, or offensive
"""

import argparse
import random
from collections import Counter
from collections.abc import Iterable, Iterator
from itertools import product
from pathlib import Path
from typing import NamedTuple

from regard.documents.numbers import numbers_agree
from regard.documents.protecting import CODE, find_code
from regard.documents.scripts import count_scripts
from regard.run.model import Translator
from regard.run.translating import REPEATED

FOLDER = Path(__file__).parent
VERDICTS = ("good", "fair", "wrong", "embarrassing")
DIRECTIONS = ["en-de", "de-en", "en-fr", "fr-en", "en-es", "es-en", "en-zh", "zh-en"]
COUNTS = ("empty", "copied", "loops", "script", "numbers", "code")
Key = tuple[str, str, str]
"""Direction, id and translation."""


class Output(NamedTuple):
    """A text and its translation."""

    direction: str
    name: str
    source: str
    text: str
    reference: str

    @property
    def key(self) -> Key:
        return self.direction, self.name, self.text

    @property
    def kind(self) -> str:
        return self.name.rpartition("-")[0]


def read_table(path: Path) -> Iterator[dict[str, str]]:
    """The rows of a table by the names of its columns; \\n is a line break."""
    header, *rows = (line.split("\t") for line in path.read_text(encoding="utf-8").splitlines())
    for row in rows:
        yield dict(zip(header, (cell.replace("\\n", "\n") for cell in row), strict=True))


def translate(run: str, directions: Iterable[str]) -> list[Output]:
    """All texts in some directions."""
    translator, rows, outputs = Translator.load(run, device="cpu"), list(read_table(FOLDER / "everyday.tsv")), []
    for direction in directions:
        source, target = direction.split("-")
        texts = translator.translate([row[source] for row in rows], source=source, target=target)
        outputs += [
            Output(direction, row["id"], row[source], text, row[target]) for row, text in zip(rows, texts, strict=True)
        ]
    return outputs


def find_faults(output: Output) -> list[str]:
    """Faults that need no reader, of `COUNTS`."""
    source, text, target = output.source, output.text, output.direction[3:]
    scripts, allowed = count_scripts(text), {"LATIN", "CJK"} if target == "zh" else {"LATIN"}
    is_latin = count_scripts(output.reference)["CJK"] > 0 and not scripts["CJK"]
    checks = {
        "empty": not text.strip(),
        "copied": text == source != output.reference and any(map(str.isalpha, CODE.sub("", source))),
        "loops": bool(REPEATED.search(text.replace(".", ""))) and not REPEATED.search(source.replace(".", "")),
        "script": not scripts.keys() <= allowed or is_latin,
        "numbers": not numbers_agree(source, text),
        "code": any(source[slice(*span)] not in text for span in find_code(source)),
    }
    return [name for name in COUNTS if checks[name]]


def print_shares(outputs: Iterable[Output], verdicts: dict[Key, str], by: str) -> None:
    """A table of the verdicts by direction or kind."""
    counts: dict[str, Counter[str]] = {}
    for output in outputs:
        counts.setdefault(getattr(output, by), Counter())[verdicts.get(output.key, "")] += 1
    print(f"\n| {by} | {' | '.join(VERDICTS)} | without a verdict |\n| --- |{' ---: |' * (len(VERDICTS) + 1)}")
    for name, count in [*counts.items(), ("all", sum(counts.values(), Counter()))]:
        judged = count.total() - count[""]
        shares = [f"{count[verdict]} ({count[verdict] / max(judged, 1):.0%})" for verdict in VERDICTS]
        print(f"| {name} | {' | '.join(shares)} | {count[''] or ''} |")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("runs", nargs="*", default=["translator"])
    parser.add_argument("--directions", nargs="*", default=DIRECTIONS)
    parser.add_argument("--sheet", type=Path, help="Write translations without a verdict, to be judged.")
    parser.add_argument("--table", action="store_true", help="Print verdicts by direction and kind.")
    parser.add_argument("--show", nargs="*", default=[], choices=COUNTS, help="Print the texts with these faults.")
    arguments = parser.parse_args()
    rows = [row for path in sorted((FOLDER / "judged").glob("*.tsv")) for row in read_table(path)]
    verdicts = {(row["direction"], row["id"], row["translation"]): row["verdict"] for row in rows}
    if odd := set(verdicts.values()) - set(VERDICTS):
        parser.error(f"benchmarks/judged has the unknown verdicts {sorted(odd)}: choose from {', '.join(VERDICTS)}")
    found = {run: translate(run, arguments.directions) for run in arguments.runs}
    for run, outputs in found.items():
        print(f"\n{run}\n\n| direction | texts | {' | '.join(COUNTS)} |\n| --- |{' ---: |' * (len(COUNTS) + 1)}")
        for direction in arguments.directions:
            own = [output for output in outputs if output.direction == direction]
            faults = Counter(fault for output in own for fault in find_faults(output))
            print(f"| {direction} | {len(own)} | {' | '.join(str(faults[name]) for name in COUNTS)} |")
        for output, shown in product(outputs, arguments.show):
            if shown in find_faults(output):
                print(f"{shown}  {output.name} {output.direction}\n    {output.source!r}\n    {output.text!r}")
        for by in ("direction", "kind") if arguments.table else ():
            print_shares(outputs, verdicts, by)
    if arguments.sheet:
        lines = {output.key: output for outputs in found.values() for output in outputs if output.key not in verdicts}
        random.Random(1).shuffle(order := list(lines.values()))
        table = [("direction", "id", "source", "translation", "verdict")]
        table += [(item.direction, item.name, item.source, item.text, "") for item in order]
        cells = ("\t".join(cell.replace("\n", "\\n") for cell in row) for row in table)
        arguments.sheet.write_text("\n".join([*cells, ""]), encoding="utf-8")


if __name__ == "__main__":
    main()
