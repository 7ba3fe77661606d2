"""Options that several verbs share, each group written once as a dataclass and spread out by `grouped`.

A verb asks for `search: SearchOptions` and the command line offers --beam, --nbest and so on.
"""

import functools
import inspect
from collections.abc import Callable
from dataclasses import asdict, dataclass, fields, is_dataclass
from inspect import Parameter
from typing import TYPE_CHECKING, Annotated, Any, get_type_hints

import typer

from regard.errors import UserError

if TYPE_CHECKING:
    from regard.run import Translator

AsJson = Annotated[bool, typer.Option("--json", help="Print the result as JSON, for programs.")]
RunFolder = Annotated[str, typer.Argument(metavar="RUN", help="A run's folder, as regard train made it.")]


@dataclass(frozen=True)
class SearchOptions:
    """How to search; what is not given is as the run's recipe says."""

    search: Annotated[
        str | None,
        typer.Option(metavar="greedy|beam|sample|mask_predict", help="Which search; the options below imply theirs."),
    ] = None
    beam: Annotated[int | None, typer.Option(metavar="N", help="Texts kept in view (implies --search beam).")] = None
    alpha: Annotated[float | None, typer.Option(metavar="A", help="Length penalty; more favours longer texts.")] = None
    nbest: Annotated[int | None, typer.Option(metavar="N", help="Translations of each line, best first.")] = None
    temperature: Annotated[
        float | None, typer.Option(metavar="T", help="Below 1 sharpens, above 1 flattens (implies --search sample).")
    ] = None
    top_k: Annotated[
        int | None, typer.Option(metavar="K", help="Draw from the K likeliest tokens (implies --search sample).")
    ] = None
    top_p: Annotated[
        float | None, typer.Option(metavar="P", help="Draw from the likeliest mass P (implies --search sample).")
    ] = None
    iterations: Annotated[
        int | None, typer.Option(metavar="N", help="Passes over each translation (implies --search mask_predict).")
    ] = None
    length_candidates: Annotated[
        int | None, typer.Option(metavar="N", help="Lengths tried for each line (implies --search mask_predict).")
    ] = None
    no_repeat_ngram: Annotated[
        int | None, typer.Option(metavar="N", help="Never write the same N tokens twice in a line.")
    ] = None
    max_length: Annotated[int | None, typer.Option(metavar="N", help="At most so many tokens a translation.")] = None
    seed: Annotated[int | None, typer.Option(metavar="N", help="What the draws of --search sample follow from.")] = None
    batch_tokens: Annotated[
        int | None, typer.Option(metavar="N", help="Source tokens decoded together: more is faster, and needs memory.")
    ] = None

    def changes(self) -> dict[str, Any]:
        """What was given."""
        given = {field.name: getattr(self, field.name) for field in fields(self)}
        return {name: value for name, value in given.items() if value is not None}


@dataclass(frozen=True)
class WeightOptions:
    """Which weights, and where they compute."""

    checkpoint: Annotated[
        str, typer.Option(metavar="NAME", help="best, last, averaged (see regard average) or step-00001000.")
    ] = "best"
    device: Annotated[str, typer.Option(metavar="NAME", help="auto (a GPU if there is one), cpu, cuda, cuda:1.")] = (
        "auto"
    )
    precision: Annotated[
        str, typer.Option(metavar="fp32|bf16|auto", help="bf16 is faster on a GPU and a little less exact.")
    ] = "fp32"


@dataclass(frozen=True)
class ModelOptions(WeightOptions):
    """The same for a translator, which several engines execute."""

    engine: Annotated[
        str,
        typer.Option(
            metavar="torch|readable|ctranslate2",
            help="torch is the fastest way torch has, readable the model as it is written, ctranslate2 a library that "
            "is faster on a CPU, in 8 bits; its beam search stops earlier and it has no guard against loops.",
        ),
    ] = "torch"
    quantization: Annotated[
        str | None,
        typer.Option(metavar="int8|float32|...", help="How ctranslate2 keeps the weights; int8 where not said."),
    ] = None

    def load(self, *runs: str) -> "Translator":
        """Open the run, or several as an ensemble."""
        from regard.run import Translator

        return Translator.load(*runs, **asdict(self))


def grouped(verb: Callable[..., None]) -> Callable[..., None]:
    """The same command with every parameter that is a group of options (a dataclass) replaced by its fields."""
    groups: dict[str, Any] = {}
    spread: list[Parameter] = []
    hints = get_type_hints(verb, include_extras=True)
    for parameter in inspect.signature(verb).parameters.values():
        kind = hints[parameter.name]
        if is_dataclass(kind):
            groups[parameter.name] = kind
            kinds = get_type_hints(kind, include_extras=True)
            spread += [
                Parameter(field.name, Parameter.KEYWORD_ONLY, default=field.default, annotation=kinds[field.name])
                for field in fields(kind)
            ]
        else:
            spread.append(parameter.replace(annotation=kind, kind=Parameter.KEYWORD_ONLY))

    @functools.wraps(verb)
    def command(**given: Any) -> None:
        for name, kind in groups.items():
            given[name] = kind(**{field.name: given.pop(field.name) for field in fields(kind)})
        verb(**given)

    command.__signature__ = inspect.Signature(spread)  # type: ignore[attr-defined]
    command.__annotations__ = {parameter.name: parameter.annotation for parameter in spread}
    return command


def one_of(name: str, value: str, choices: tuple[str, ...]) -> str:
    """`value`, if it is one of the choices."""
    if value not in choices:
        raise UserError(f"{name} is {value!r}", f"write one of {', '.join(choices)}")
    return value
