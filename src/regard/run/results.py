"""What a model gives back in Python: predictions, evaluations, explanations. A notebook draws them."""

from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field

from regard.data.frames import Frame as Frame
from regard.data.frames import is_frame as is_frame
from regard.data.frames import is_missing
from regard.errors import UserError
from regard.files import JsonObject
from regard.metrics.score import Score
from regard.tasks.base import AnyTask, Example
from regard.tasks.base import Prediction as PlainPrediction
from regard.viz import notebook
from regard.viz.report import AttentionMap

Input = str | Mapping[str, object]
"""One input: a text, or a dictionary with the fields of the task."""


class Prediction(JsonObject):
    """The prediction for one input: a dictionary that a notebook draws."""

    def __init__(self, values: PlainPrediction, example: Example, task: AnyTask) -> None:
        super().__init__(values)
        self.example, self.task = example, task

    def _repr_html_(self) -> str:
        return notebook.descriptions_html([self.task.describe(self.example, self)])


class Predictions(list[Prediction]):
    """Predictions for several inputs: a list that a notebook draws as a table."""

    def _repr_html_(self) -> str:
        return notebook.descriptions_html(item.task.describe(item.example, item) for item in self)


@dataclass(frozen=True, repr=False)
class Evaluation:
    """Scores of a run on a data set, with every example and prediction, so that another run can be compared."""

    run: str
    checkpoint: str
    data: str
    options: JsonObject
    scores: list[Score]
    seconds: float
    examples: list[Example]
    predictions: list[PlainPrediction]
    task: AnyTask
    """The task, configured by `options`."""
    samples: list[tuple[Example, PlainPrediction]] = field(default_factory=list)
    """Some examples of a task without scores by examples, for a report."""

    identity: str = ""
    """A digest of all that the evaluation depends on (`Model.identity`); "" for examples from Python."""

    @property
    def pairs(self) -> list[tuple[Example, PlainPrediction]]:
        return list(zip(self.examples, self.predictions, strict=True)) or self.samples

    def to_json(self, texts: bool = True) -> JsonObject:
        """Plain values; without `texts`, the number of examples in place of examples and predictions."""
        values = {key: getattr(self, key) for key in ("run", "checkpoint", "data", "options", "seconds", "identity")}
        values["scores"] = [asdict(score) for score in self.scores]
        if not texts:
            return {**values, "examples": len(self.examples)}
        pairs = zip(self.examples, map(self.task.output, self.predictions), strict=True)
        return {**values, "examples": [{**example, "prediction": prediction} for example, prediction in pairs]}

    def __repr__(self) -> str:
        scores = ", ".join(f"{score.name}={score.value:.4g}" for score in self.scores)
        return f"Evaluation({self.run!r}, data={self.data!r}, {scores}, examples={len(self.examples)})"

    def _repr_html_(self) -> str:
        rows = [[score.name, f"{score.value:.4g}", score.signature] for score in self.scores]
        scores = notebook.table_html([self.data, "value", ""], rows)
        return scores + notebook.descriptions_html(self.task.describe(*pair) for pair in self.pairs[: notebook.SHOWN])


@dataclass(frozen=True, repr=False)
class Explanation:
    """One example, its prediction, and the attention weights of every layer and head."""

    example: Example
    prediction: Prediction
    maps: list[AttentionMap]

    def __repr__(self) -> str:
        lines = self.prediction.task.describe(self.example, self.prediction).lines()
        maps = ", ".join(f"{item.name} {getattr(item.weights, 'shape', '')}" for item in self.maps)
        return f"Explanation({lines[0]!r}, {lines[2]!r}, maps=[{maps}])"

    def _repr_html_(self) -> str:
        return self.prediction._repr_html_() + notebook.maps_html(self.maps)


# ---- inputs ----------------------------------------------------------------------------------------------------------


def frame_examples(frame: Frame, task: AnyTask, targets: bool = False) -> Iterator[Example]:
    """The rows of a DataFrame as examples; columns have the names of the fields, or those in the recipe. Without
    `targets`, only the inputs of a model are read. An empty cell (NaN) is a missing value."""
    fields, data = task.recipe.fields, task.recipe.data
    sources = [source for split in ("train", "valid", "test") for source in getattr(data, split)]
    names = list(dict.fromkeys([*fields.inputs, *fields.required, *([fields.target] if targets else [])]))
    columns: dict[str, str] = {}
    for name in names:
        others = [column for source in sources if isinstance(column := source.columns.get(name), str)]
        if known := [column for column in (name, *others) if column in frame.columns]:
            columns[name] = known[0]
    if missing := [name for name in fields.required if name not in columns]:
        problem = f"the DataFrame has no column {missing[0]!r}; its columns are {', '.join(map(str, frame.columns))}"
        remedy = f"rename a column: frame.rename(columns={{{str(next(iter(frame.columns), ''))!r}: {missing[0]!r}}})"
        raise UserError(problem, remedy, code="missing-key", where=missing[0])
    for number, row in enumerate(frame.to_dict("records")):
        values = {name: row[column] for name, column in columns.items()}
        for name, value in values.items():
            if is_missing(value) and (name in fields.required or (targets and name == fields.target)):
                problem = f"{(where := f'row {number}')}: the cell in column {name!r} is empty"
                raise UserError(problem, "fill the cell, or remove the row", code="missing-key", where=where)
        yield {name: value for name, value in values.items() if not is_missing(value)}


def parse_input(task: AnyTask, value: Input, where: str) -> Example:
    """The example that an input means; a UserError if it is neither a text nor a dictionary of texts."""
    values = value if isinstance(value, Mapping) else {"": value}
    for key, item in values.items():
        if key in ("", *task.recipe.fields.inputs) and (
            isinstance(item, float | int) or not isinstance(value, str | Mapping)
        ):
            name = f"{where}, {key!r}," if key else where
            problem = f"{name} is {item!r}, not a text" + ("" if key else " or a dictionary")
            remedy = "pass a str, and leave out empty values such as None and NaN"
            raise UserError(problem, remedy, code="invalid-input", where=where)
    return task.parse(value, where)
