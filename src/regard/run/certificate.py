"""The certificate of an export: what was measured when the exported model and that of the run read the same examples.

`certificate.json` in the folder of the export is a manifest (files.Manifest) with these facts:

    difference   the largest difference of an output, logits or log-probabilities
    identical    the share of examples with the same output, for each search
    scores       the scores of both models, if the examples have references
    bytes, speed   of both: size of the files, examples per second in the same process with the same threads
    bounds       what the values above must satisfy
"""

import math
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path

from pydantic import BaseModel

from regard.errors import UserError
from regard.files import JsonObject, Manifest
from regard.reading import check_type

CERTIFICATE, FORMAT = "certificate.json", 1


@dataclass(frozen=True)
class Bounds:
    """What the values of a certificate must satisfy."""

    logits: float
    """The largest difference of an output."""
    identical: float
    """The smallest share of identical outputs: of greedy search, or of predictions."""
    search: float
    """The same for the search of the recipe; other programs have other beam searches."""
    score: float
    """The largest difference of a score, in points."""

    def change(self, logits: float | None, identical: float | None, score: float | None) -> "Bounds":
        """The bounds with those replaced that are given; `identical` is for every search."""
        values = {"logits": logits, "identical": identical, "search": identical, "score": score}
        return replace(self, **{name: value for name, value in values.items() if value is not None})


EXACT, HALF, INT8 = Bounds(1e-3, 0.99, 0.99, 0.1), Bounds(0.5, 0.9, 0.9, 0.5), Bounds(5.0, 0.5, 0.5, 1.0)
"""Bounds of weights in 32, 16 and 8 bits."""
OTHER_SEARCH = {"ctranslate2": 0.95, "huggingface": 0.8}
"""Bounds of the search of the recipe, where a program has its own beam search."""


UNBOUNDED = ("TER", "exact match")
"""Scores that are stated only: `identical` bounds them."""


def default_bounds(to: str, quantization: str, examples: int) -> Bounds:
    """The bounds of a format and the type of its weights; one of few examples may change a score."""
    bounds = INT8 if "int8" in quantization else HALF if "16" in quantization else EXACT
    search, score = min(bounds.search, OTHER_SEARCH.get(to, 1.0)), max(bounds.score, 100 / max(1, examples))
    return replace(bounds, search=search, score=score)


@dataclass(frozen=True)
class Certificate:
    """A comparison of an exported model with that of its run."""

    to: str
    quantization: str
    run: str
    checkpoint: str
    program: str
    """The program that ran the exported model, with its version."""
    examples: int
    source: str
    """Where the examples are from."""
    directions: dict[str, int]
    """The number of examples of each direction of a run with several languages."""
    output: str
    """The output whose difference was measured: logits or log-probabilities."""
    difference: float
    identical: dict[str, float]
    scores: dict[str, tuple[float, float]]
    """Scores of the run and of the export."""
    bytes: tuple[int, int]
    speed: tuple[float, float]
    threads: int
    versions: dict[str, str]
    bounds: Bounds = field(default=EXACT)

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
                found.append(f"{name} is {theirs:.2f} in place of {ours:.2f}, more than {bounds.score:g} apart")
        return found

    def bound_of(self, search: str) -> float:
        """The smallest share of identical outputs of a search."""
        return self.bounds.identical if search in ("greedy", "predictions") else self.bounds.search

    def require(self, folder: Path) -> None:
        """Raise UserError if a value is outside of its bounds."""
        if violations := self.violations():
            raise UserError(
                f"the export to {self.to} differs from the run: {'; '.join(violations)}",
                "choose another quantization, or other bounds: --max-difference, --min-identical, --max-score-change",
                code="export-differs",
                where=folder,
            )

    def rows(self) -> list[tuple[str, str, str, str]]:
        """The certificate as rows of a table: name, run, export, bound."""
        rows = [(f"largest difference of {self.output}", "", f"{self.difference:.1e}", f"≤ {self.bounds.logits:g}")]
        rows += [
            (f"identical outputs, {name}", "", f"{share:.1%}", f"≥ {self.bound_of(name):.0%}")
            for name, share in self.identical.items()
        ]
        for name, (ours, theirs) in self.scores.items():
            bound = "" if name in UNBOUNDED else f"± {self.bounds.score:.2g}"
            rows.append((name, f"{ours:.2f}", f"{theirs:.2f}", bound))
        shown = ([size / 1e6 for size in self.bytes], 2), (self.speed, 1)
        sizes, speeds = ([f"{value:.{digits}f}" for value in values] for values, digits in shown)
        threads = f"{self.threads} thread{'s' * (self.threads != 1)}"
        rows += [("megabytes", sizes[0], sizes[1], ""), (f"examples/s, {threads}", speeds[0], speeds[1], "")]
        return rows

    def to_json(self) -> JsonObject:
        """Plain values; speeds and differences are rounded."""
        values = asdict(self)
        values["speed"] = [float(f"{value:.4g}") for value in self.speed]
        return {**values, "violations": self.violations()}

    def write(self, folder: Path, inputs: JsonObject) -> None:
        """Write the certificate of all files in a folder."""
        names = sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file())
        names = [name for name in names if name != CERTIFICATE]
        Manifest.describe(folder, names, format=FORMAT, inputs=inputs, facts=self.to_json()).write(folder / CERTIFICATE)


class _Facts(BaseModel):
    to: str
    quantization: str
    run: str
    checkpoint: str
    bounds: dict[str, float]


@dataclass(frozen=True)
class Written:
    """What a certificate says about the export that it belongs to."""

    to: str
    quantization: str
    run: str
    checkpoint: str
    bounds: Bounds
    inputs: object


def read_certificate(folder: Path) -> Written:
    """The certificate in a folder; a UserError if a file of the export is missing or was changed."""
    path = folder / CERTIFICATE
    manifest = Manifest.read(path)
    manifest.check_version(FORMAT, path)
    if damaged := manifest.damaged(folder):
        raise UserError(
            f"{folder} is not as it was exported: {', '.join(map(str, damaged))}",
            "export the run again",
            code="damaged-file",
            where=folder,
        )
    facts = check_type(manifest.facts, _Facts, str(path))
    bounds = Bounds(**{name: facts.bounds.get(name, math.nan) for name in ("logits", "identical", "search", "score")})
    return Written(facts.to, facts.quantization, facts.run, facts.checkpoint, bounds, manifest.inputs)
