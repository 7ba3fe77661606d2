"""All verbs put together."""

import re
from collections.abc import Callable
from typing import Annotated, Any

import typer
from typer.core import TyperCommand
from typer.main import get_command

from regard import __version__
from regard.cli.align import align
from regard.cli.average import average
from regard.cli.chat import chat
from regard.cli.demo import demo
from regard.cli.distill import distill
from regard.cli.doctor import doctor
from regard.cli.embed import embed
from regard.cli.evaluate import evaluate
from regard.cli.export import export
from regard.cli.generate import generate
from regard.cli.import_ import import_
from regard.cli.inspect import inspect
from regard.cli.ladder import ladder
from regard.cli.options import grouped
from regard.cli.parse import parse
from regard.cli.predict import predict
from regard.cli.recipes import recipes
from regard.cli.split import split
from regard.cli.train import train
from regard.cli.translate import translate

app = typer.Typer(
    name="regard",
    no_args_is_help=True,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    epilog="regard VERB --help explains a verb, with examples.",
)


class Verb(TyperCommand):
    """A command whose arguments are called by their names alone: RUN, where newer typer writes {RUN} and RUN <str>."""

    def collect_usage_pieces(self, ctx: Any) -> list[str]:
        """The words of the usage line."""
        return [re.sub(r"^\{(.+)\}", r"\1", piece) for piece in super().collect_usage_pieces(ctx)]

    def get_help(self, ctx: Any) -> str:
        """The whole text, its columns kept."""
        return re.sub(r"( <[\w\[\]]+>)( +)", lambda type_: type_[2] + " " * len(type_[1]), super().get_help(ctx))


VERBS: list[Callable[..., None]] = [
    demo,
    train,
    translate,
    generate,
    chat,
    parse,
    predict,
    embed,
    evaluate,
    inspect,
    align,
    ladder,
    average,
    distill,
    doctor,
    import_,
    export,
    split,
    recipes,
]
for verb in VERBS:
    app.command(verb.__name__.rstrip("_"), cls=Verb)(grouped(verb))


def show_version(asked: bool) -> None:
    """Print the version and nothing else."""
    if asked:
        typer.echo(f"regard {__version__}")
        raise typer.Exit


@app.callback()
def regard(
    version: Annotated[
        bool, typer.Option("--version", callback=show_version, is_eager=True, help="Print the version and exit.")
    ] = False,
) -> None:
    """Attention models from raw text to a trained, evaluated and explained translator.

    \b
    Examples:
      regard demo                                        watch one learn, a minute or two
      regard train dates                                 train a recipe that comes with the toolkit
      echo "5 November 2026" | regard translate runs/dates
    """


def app_command() -> Any:
    """The whole command line as one object that can be run."""
    return get_command(app)
