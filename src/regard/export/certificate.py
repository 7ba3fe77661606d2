"""The certificate of an export: what was measured when the exported model and the run's model read the same examples.

`certificate.json` in the export's folder is a manifest (files.Manifest) with these facts:

    difference   the largest difference of an output, logits or log-probabilities
    identical    the share of examples with the same output, for each search
    scores       the scores of both models, if the examples have references
    bytes, speed   of both: size of the files, examples per second in the same process with the same threads
    bounds       what the values above must satisfy
"""

from dataclasses import asdict, dataclass, replace
from pathlib import Path

from regard.errors import UserError
from regard.files import JsonObject, Manifest
from regard.messages import Message, find_message
from regard.reading import check_dataclass

CERTIFICATE, FORMAT = "certificate.json", 1


@dataclass(frozen=True)
class Bounds:
    """What the values of a certificate must satisfy."""

    logits: float
    """The largest difference of an output."""
    identical: float
    """The smallest share of identical outputs: of greedy search, or of predictions."""
    search: float
    """The same for the recipe's search; other libraries have other beam searches."""
    score: float
    """The largest difference of a score, in points."""

    def change(self, logits: float | None, identical: float | None, score: float | None) -> "Bounds":
        """Replace the bounds that are given; `identical` is for every search."""
        values = {"logits": logits, "identical": identical, "search": identical, "score": score}
        return replace(self, **{name: value for name, value in values.items() if value is not None})


EXACT, HALF, INT8 = Bounds(1e-3, 0.99, 0.99, 0.1), Bounds(0.5, 0.9, 0.9, 0.5), Bounds(5.0, 0.5, 0.5, 1.0)
"""Bounds for weights in 32, 16 and 8 bits."""
UNBOUNDED = ("TER", "exact match")
"""Scores that are stated only: `identical` bounds them."""


def default_bounds(search: float, quantization: str, examples: int) -> Bounds:
    """The bounds for a type of weights.

    `search` is the largest bound for the recipe's search. With few examples, one of them may change a score.
    """
    bounds = INT8 if "int8" in quantization else HALF if "16" in quantization else EXACT
    return replace(bounds, search=min(bounds.search, search), score=max(bounds.score, 100 / max(1, examples)))


@dataclass(frozen=True)
class Certificate:
    """A comparison of an exported model with the model of its run."""

    to: str
    quantization: str
    run: str
    """The run's folder, relative to that of the export; only its name if that would name folders of this machine."""
    checkpoint: str
    program: str
    """The library that ran the exported model, with its version."""
    examples: int
    source: str
    """Where the examples are from."""
    directions: dict[str, int]
    """The number of examples per direction of a run with several languages."""
    output: str
    """The output whose difference was measured: logits or log-probabilities."""
    difference: float
    identical: dict[str, float]
    scores: dict[str, list[float]]
    """Scores of the run and of the export."""
    bytes: list[int]
    speed: list[float]
    threads: int
    versions: dict[str, str]
    bounds: Bounds = EXACT

    @classmethod
    def read(cls, folder: Path) -> "tuple[Certificate, object]":
        """The certificate in a folder without its bounds, and what identifies the exported weights.

        A UserError if a file of the export is missing or was changed. Bounds are not read: a check chooses its own.
        """
        path = folder / CERTIFICATE
        manifest = Manifest.read(path)
        manifest.check_version(FORMAT, path)
        if damaged := manifest.damaged(folder):
            problem = f"{folder} was changed after the export: {', '.join(map(str, damaged))}"
            raise UserError(problem, "export the run again", code="damaged-file", where=folder)
        facts = {name: value for name, value in manifest.facts.items() if name not in ("bounds", "violations")}
        return check_dataclass(facts, cls, path), manifest.inputs

    def violations(self) -> list[str]:
        """The values that are outside of their bounds, as sentences."""
        bounds, found = self.bounds, []
        if not self.difference <= bounds.logits:  # NaN is outside
            found.append(f"its {self.output} differ by {self.difference:.2g}, more than {bounds.logits:g}")
        for name, share in self.identical.items():
            if share < (bound := self.bound_of(name)):
                found.append(f"{share:.1%} of the outputs ({name}) are identical, less than {bound:.1%}")
        for name, (ours, theirs) in self.scores.items():
            if name not in UNBOUNDED and not abs(theirs - ours) <= bounds.score:
                found.append(f"{name} is {theirs:.2f} instead of {ours:.2f}, more than {bounds.score:g} apart")
        return found

    def bound_of(self, search: str) -> float:
        """The smallest share of identical outputs of a search."""
        return self.bounds.identical if search in ("greedy", "predictions") else self.bounds.search

    def require(self, folder: Path) -> None:
        """Raise UserError if a value is outside of its bounds."""
        if violations := self.violations():
            problem = f"the export to {self.to} differs from the run: {'; '.join(violations)}"
            bounds = "`--max-difference`, `--min-identical` or `--max-score-change`"
            remedy = f"choose a different `--quantization`, or change the bounds with {bounds}"
            raise UserError(problem, remedy, code="export-differs", where=folder)

    def rows(self) -> list[tuple[str, str, str, str]]:
        """The certificate as rows of a table: name, run, export, bound."""
        largest: str = Message("largest difference of {output}", output=self.output)
        rows = [(largest, "", f"{self.difference:.1e}", f"≤ {self.bounds.logits:g}")]
        for name, share in self.identical.items():
            same = Message("identical outputs, {name}", name=find_message(name))
            rows.append((same, "", f"{share:.1%}", f"≥ {self.bound_of(name):.0%}"))
        for name, (ours, theirs) in self.scores.items():
            bound = "" if name in UNBOUNDED else f"± {self.bounds.score:.2g}"
            rows.append((name, f"{ours:.2f}", f"{theirs:.2f}", bound))
        speed = Message("examples/s, threads: {threads}", threads=self.threads)
        sizes, speeds = [f"{size / 1e6:.2f}" for size in self.bytes], [f"{speed:.1f}" for speed in self.speed]
        return [*rows, (Message("megabytes"), *sizes, ""), (speed, *speeds, "")]  # type: ignore[list-item]

    def to_json(self) -> JsonObject:
        """Plain values; speeds are rounded."""
        values = asdict(self)
        values["speed"] = [float(f"{value:.4g}") for value in self.speed]
        return {**values, "violations": self.violations()}

    def write(self, folder: Path, inputs: JsonObject) -> None:
        names = sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file())
        names = [name for name in names if name != CERTIFICATE]
        Manifest.describe(folder, names, format=FORMAT, inputs=inputs, facts=self.to_json()).write(folder / CERTIFICATE)
