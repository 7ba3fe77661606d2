"""Options that several commands share. An option has the same name, letter and meaning in every command.

A command has a parameter `search: SearchOptions`, and `expand_groups` replaces it by --beam, --nbest and so on.
"""

import copy
import functools
import inspect
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, fields
from inspect import Parameter
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal, get_args, get_origin, get_type_hints

from typer import Argument, Option

from regard.errors import UserError
from regard.messages import Message

if TYPE_CHECKING:
    from pydantic.fields import FieldInfo

    from regard.data.sources import Source
    from regard.run.model import Model, Translator
    from regard.tasks.base import AnyTask

Options = dict[str, Any]
"""Options of a prediction by name, as `Task.configure` takes them."""

AsJson = Annotated[bool, Option("--json", help="Print the result as JSON.")]
RunFolder = Annotated[str, Argument(metavar="RUN", help="Run folder (see `regard train`), or a bundled run.")]
Runs = Annotated[list[str], Argument(metavar="RUN", help="Run folder (see `regard train`), or a bundled run.")]
RecipeName = Annotated[
    str, Argument(metavar="RECIPE", help="Recipe file, recipe name (see `regard recipes`), task name or run folder.")
]
Overrides = Annotated[list[str] | None, Argument(metavar="NAME=VALUE", help="Settings that override the recipe.")]
Checkpoint = Annotated[
    str, Option(metavar="NAME", help="Checkpoint: best, last, averaged (see `regard average`) or step-00001000.")
]
InputFile = Annotated[str, Option("--input", "-i", metavar="FILE", help="Input file, - for stdin; may be .gz or .xz.")]
OutputFile = Annotated[
    str, Option("--output", "-o", metavar="FILE", help="Output file, - for stdout; written when complete.")
]
OutputPath = Annotated[Path | None, Option("--output", "-o", metavar="FILE", help="File to write.")]
Folder = Annotated[
    Path | None, Option("--folder", metavar="FOLDER", show_default="runs/NAME", help="Folder of the new run.")
]
Interactive = Annotated[bool, Option("--interactive", help="Read examples from the terminal, one at a time.")]
SourceLanguage = Annotated[
    str | None, Option("--from", metavar="CODE", help="Only with several languages: source language code, e.g. en.")
]
TargetLanguage = Annotated[
    str | None, Option("--to", metavar="CODE", help="Only with several languages: target language code, e.g. de.")
]
Layer = Annotated[int | None, Option("--layer", metavar="N", show_default="last or best", help="Layer number, from 1.")]
Head = Annotated[
    int | None, Option("--head", metavar="N", show_default="mean of all", help="Head number in the layer, from 1.")
]
FigureFile = Annotated[
    Path | None,
    Option("--figure", "--svg", metavar="FILE", help="Figure to write: a .svg, .pdf or .png file."),
]
Split = Annotated[str, Option("--on", metavar="test|valid", help="Split of the recipe's data.")]


class OptionGroup:
    """A dataclass whose fields are options."""

    title: ClassVar[str]
    """The heading of these options in the help."""

    @classmethod
    def parameters(cls) -> list[Parameter]:
        """The options as parameters of a command."""
        types = get_type_hints(cls, include_extras=True)
        return [
            Parameter(field.name, Parameter.KEYWORD_ONLY, default=field.default, annotation=types[field.name])
            for field in fields(cls)  # type: ignore[arg-type]
        ]


class SearchOptions(OptionGroup):
    """The fields of `DecodingSettings`; those that are not given are as in the run's recipe."""

    title = "Decoding (default: as in the run's recipe)"
    left_out: ClassVar[tuple[str, ...]] = ()
    """Settings that have no effect in a command."""

    def __init__(self, **values: object) -> None:
        self.values = values

    @classmethod
    def parameters(cls) -> list[Parameter]:
        from regard.decoding.settings import DecodingSettings

        return [
            Parameter(
                name, Parameter.KEYWORD_ONLY, default=None, annotation=option_type(field.annotation, help_of(field))
            )
            for name, field in DecodingSettings.model_fields.items()
            if name not in cls.left_out
        ]

    def changes(self) -> Options:
        return {name: value for name, value in self.values.items() if value is not None}


class ChatOptions(SearchOptions):
    """The search for one reply after another."""

    left_out = ("nbest", "iterations", "length_candidates", "batch_tokens")


def help_of(field: "FieldInfo") -> str:
    """The description of a setting as the help of an option."""
    text = str(field.description)
    return f"{text[0].upper()}{text[1:]}." if not text.endswith(".") else text


def option_type(annotation: Any, help_text: str) -> object:
    """The annotation of an optional option for a setting of this type."""
    if get_origin(annotation) is Literal:
        return Annotated[str | None, Option(metavar="|".join(get_args(annotation)), help=help_text)]
    plain = next((kind for kind in get_args(annotation) if kind is not type(None)), annotation)
    metavar = {int: "TOKENS" if "tokens" in help_text else "N", float: "X", str: "TEXT"}.get(plain)
    return Annotated[plain | None, Option(metavar=metavar, help=help_text)]


@dataclass(frozen=True)
class WeightOptions(OptionGroup):
    """The weights of a run, and the device that computes with them."""

    title = "Weights and device"

    checkpoint: Checkpoint = "best"
    device: Annotated[
        str, Option(metavar="NAME", help="Device: cpu, cuda, one GPU, e.g. cuda:1, or auto (a GPU if there is one).")
    ] = "auto"
    precision: Annotated[
        str, Option(metavar="fp32|bf16|auto", help="Number format; bf16 is faster on a GPU, but less exact.")
    ] = "fp32"

    def load(self, *runs: str, task: str = "") -> "Model":
        """Open a run, or several as an ensemble; a UserError if a run has another task than `task`."""
        from regard.run.model import Model
        from regard.run.run import Run

        self.join_processes()
        return Model([Run.open(run, *filter(None, [task])) for run in runs], **asdict(self))

    def load_translator(self, *runs: str) -> "Translator":
        """Open a translation run, or several as an ensemble."""
        from regard.run.model import Translator

        self.join_processes()
        return Translator.load(*runs, **asdict(self))

    def join_processes(self) -> None:
        """Join the other processes if torchrun started several; all then do this command together."""
        if os.environ.get("WORLD_SIZE", "1") == "1":
            return
        from regard.runtime import RuntimeSettings, limit_waiting, open_world

        if (engine := getattr(self, "engine", "")) in ("ctranslate2", "onnx"):
            problem = f"several processes cannot share one command with `--engine {engine}`"
            remedy = f"leave `torchrun` out ({engine} uses all cores of a machine), or choose the engine torch"
            raise UserError(problem, remedy, code="unsupported-option", where="engine")
        settings = RuntimeSettings.model_validate({"device": self.device})
        open_world(settings)
        limit_waiting(settings.timeout)


@dataclass(frozen=True)
class ModelOptions(WeightOptions):
    """The weights of a run, and the engine that decodes with them."""

    engine: Annotated[
        str,
        Option(
            metavar="torch|readable|ctranslate2|onnx",
            help="torch: the fastest PyTorch code. readable: the code to study. ctranslate2: a library that is "
            "faster on a CPU; it uses 8-bit weights, stops beam search earlier and has no `loop_guard`. onnx: the "
            "library onnxruntime, on a CPU. On first use, ctranslate2 and onnx export the run, in up to a minute.",
        ),
    ] = "torch"
    quantization: Annotated[
        str | None,
        Option(
            metavar="int8|float32|...",
            show_default="int8 for ctranslate2, float32 for onnx",
            help="Only with `--engine ctranslate2` or `onnx`: weight type.",
        ),
    ] = None

    def load(self, *runs: str, task: str = "") -> "Model":
        """Open a run, or several as an ensemble; a UserError if a run has another task than `task`."""
        model = super().load(*runs, task=task)
        self.report_export(model)
        return model

    def load_translator(self, *runs: str) -> "Translator":
        """Open a translation run, or several as an ensemble."""
        translator = super().load_translator(*runs)
        self.report_export(translator)
        return translator

    def report_export(self, model: "Model") -> None:
        """Report that the engine writes an export first, if it is not there."""
        from regard.engines.choose import EXPORTED_ENGINES

        if self.engine in EXPORTED_ENGINES:
            from regard.cli.screen import report
            from regard.run.exported_engine import is_exported

            if not is_exported(self.engine, model.run, self.checkpoint, self.quantization):
                report(Message("exporting the model for {engine}; this is done once", engine=self.engine))


@dataclass(frozen=True)
class TableOptions(OptionGroup):
    """How to read an input table; what is not given is as in the run's recipe."""

    title = "Input tables (default: as in the run's recipe)"

    columns: Annotated[
        str,
        Option(
            metavar="FIELD=COLUMN,...",
            help="Column for each field, by name or by number from 1, e.g. text=review,pair=title.",
        ),
    ] = ""
    delimiter: Annotated[str | None, Option(metavar="CHARACTER", help="Column delimiter of .csv and .tsv files.")] = (
        None
    )
    no_header: Annotated[bool, Option("--no-header", help="The first row is data, not a header.")] = False

    def settings(self, task: "AnyTask") -> Options:
        """The settings of a source that were given."""
        from regard.cli.tables import column_settings

        columns = column_settings(self.columns, task.recipe.fields.columns)
        delimiter = {} if self.delimiter is None else {"delimiter": self.delimiter}
        return columns | delimiter | ({"header": False} if self.no_header else {})


@dataclass(frozen=True)
class DataOptions(OptionGroup):
    """The data to evaluate on: a split of the recipe, or other files."""

    title = "Data"

    on: Split = "test"
    file: Annotated[
        str | None, Option("--file", metavar="FILE", help="Data file to use instead, in a format of the task.")
    ] = None
    src: Annotated[str | None, Option(metavar="FILE", help="Source file to use instead, one sentence per line.")] = None
    tgt: Annotated[
        str | None, Option(metavar="FILE", help="Only with `--src`: reference file, one sentence per line.")
    ] = None
    columns: Annotated[
        str | None,
        Option(
            metavar="FIELD=COLUMN,...",
            show_default="as in the recipe",
            help="Only with `--file`: column for each field, by name or by number from 1, e.g. src=2,tgt=de.",
        ),
    ] = None
    source: Annotated[
        str | None,
        Option(
            "--from",
            metavar="CODE",
            help="Only with `--src` or `--file` and several languages: source language code, e.g. en.",
        ),
    ] = None
    target: Annotated[
        str | None, Option("--to", metavar="CODE", help="Only with `--from`: target language code, e.g. de.")
    ] = None

    def select(self, task: "AnyTask") -> "tuple[str, list[Source] | None]":
        """Name and sources of the chosen data; the sources are None for the recipe's own data."""
        from regard.cli.screen import report
        from regard.cli.tables import column_settings
        from regard.data.formats import describe_sources
        from regard.tasks.operations import file_sources

        files = {key: value for key in ("file", "src", "tgt") if (value := getattr(self, key)) is not None}
        if self.columns is not None and self.file is None:
            raise UserError("`--columns` needs `--file`", "set `--file`", code="unsupported-option", where="columns")
        files |= self.languages(bool(files))
        if not files:
            return one_of("--on", self.on, ("test", "valid")), None
        sources = file_sources(task, files | column_settings(self.columns or "", task.recipe.fields.columns))
        for line in describe_sources(sources, Path(), task.recipe.fields):
            report(line)
        return Path(self.file or self.src or self.tgt or "").name, sources

    def languages(self, has_files: bool) -> dict[str, str]:
        """The languages of other files; a UserError if one of them is missing, or if there are no other files."""
        if self.source is None and self.target is None:
            return {}
        if self.source is None or self.target is None:
            raise UserError("one of `--from` and `--to` is missing", "set both", code="missing-option", where="to")
        if not has_files:
            remedy = "set `--src` and `--tgt`, or `--file`; the recipe sets the languages of its own data"
            raise UserError("`--from` and `--to` need input files", remedy, code="unsupported-option", where="to")
        return {"src_lang": self.source, "tgt_lang": self.target}


@contextmanager
def data_of_recipe(sources: "list[Source] | None") -> Iterator[None]:
    """If a file is missing while the data of a recipe is read (`sources` is None), the error names the options."""
    try:
        yield
    except UserError as error:
        if sources is not None or error.code != "missing-file":
            raise
        remedy = "restore this file, which the run's recipe uses, or set `--file`, or `--src` and `--tgt`"
        raise UserError(error.problem, remedy, code=error.code, where=error.where) from error


def expand_groups(function: Callable[..., None]) -> Callable[..., None]:
    """The command with every parameter that is a group of options replaced by these options."""
    groups: dict[str, tuple[type[OptionGroup], list[str]]] = {}
    expanded: list[Parameter] = []
    types = get_type_hints(function, include_extras=True)
    for parameter in inspect.signature(function).parameters.values():
        kind = types[parameter.name]
        if isinstance(kind, type) and issubclass(kind, OptionGroup):
            members = kind.parameters()
            groups[parameter.name] = kind, [member.name for member in members]
            expanded += [below(kind.title, member) for member in members]
        else:
            expanded.append(parameter.replace(annotation=kind, kind=Parameter.KEYWORD_ONLY))

    @functools.wraps(function)
    def command(**values: object) -> None:
        for name, (kind, members) in groups.items():
            values[name] = kind(**{member: values.pop(member) for member in members})
        function(**values)

    command.__signature__ = inspect.Signature(expanded)  # type: ignore[attr-defined]
    command.__annotations__ = {parameter.name: parameter.annotation for parameter in expanded}
    return command


def below(title: str, parameter: Parameter) -> Parameter:
    """The parameter of an option with the heading of its group in the help."""
    plain, option = get_args(parameter.annotation)
    option = copy.copy(option)
    option.rich_help_panel = title
    return parameter.replace(annotation=Annotated[plain, option])


def one_of(name: str, value: str, choices: tuple[str, ...]) -> str:
    """`value` if it is one of the choices; otherwise a UserError."""
    if value not in choices:
        problem, remedy = f"{name} cannot be {value!r}", f"choose one of {', '.join(choices)}"
        raise UserError(problem, remedy, code="invalid-option", where=name.lstrip("-"))
    return value
