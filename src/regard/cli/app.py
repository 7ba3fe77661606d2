"""The command `regard` with all verbs. A command is built when it is used, so that `regard --help` is fast."""

import os
import re
from collections.abc import Callable
from importlib import import_module
from keyword import iskeyword
from typing import Annotated, Any, TypeAlias

import typer
from typer.core import TyperCommand, TyperGroup
from typer.main import get_command

from regard import __version__

GROUPS = {
    "Prepare": ("recipes", "split", "doctor"),
    "Train": ("demo", "train", "average", "distill", "compress", "ladder"),
    "Learn": ("lab",),
    "Use": ("predict", "translate", "generate", "chat", "parse", "embed", "serve"),
    "Evaluate and inspect": ("evaluate", "inspect", "align", "info", "runs"),
    "Exchange with other programs": ("import", "export"),
}
"""The verbs by purpose, in the order of the help."""
VERBS = tuple(verb for group in GROUPS.values() for verb in group)
"""Every verb. Its module and function have the same name."""

DISTRIBUTED = ("demo", "train", "ladder", "doctor")
"""Verbs that torchrun can start in several processes."""

Click: TypeAlias = Any
"""An object of click; newer versions of typer contain a click of their own, with other types."""
CONTEXT = {"help_option_names": ["-h", "--help"], "max_content_width": 100}


class Verb(TyperCommand):
    """A command whose help shows arguments by their names only: RUN, where newer typer writes {RUN} and RUN <str>."""

    def collect_usage_pieces(self, ctx: Click) -> list[str]:
        return [re.sub(r"^\{(.+)\}", r"\1", piece) for piece in super().collect_usage_pieces(ctx)]

    def format_options(self, ctx: Click, formatter: Click) -> None:
        """Arguments first, then the verb's own options, then those it shares with others, below a heading each."""
        sections: dict[str, list[tuple[str, str]]] = {"Arguments": [], "Options": []}
        for parameter in self.get_params(ctx):
            record = parameter.get_help_record(ctx)
            argument = parameter.param_type_name == "argument"
            title = "Arguments" if argument else getattr(parameter, "rich_help_panel", None) or "Options"
            sections.setdefault(title, []).extend([record] if record else [])
        for title, records in sections.items():
            if records:
                with formatter.section(title):
                    formatter.write_dl(records)

    def invoke(self, ctx: Click) -> object:
        """Run the verb; variables of torchrun that are left in the environment have a meaning in training only."""
        if self.name not in DISTRIBUTED:
            for name in ("RANK", "WORLD_SIZE", "LOCAL_RANK"):
                os.environ.pop(name, None)
        return super().invoke(ctx)

    def get_help(self, ctx: Click) -> str:
        """The help without types; columns keep their width."""
        return re.sub(r"( <[\w\[\]]+>)( +)", lambda match: match[2] + " " * len(match[1]), super().get_help(ctx))


class Verbs(TyperGroup):
    """The group of all verbs; only the command that is used is built."""

    def parse_args(self, ctx: Click, args: list[str]) -> list[str]:
        """Read `regard help VERB` as `regard VERB --help`."""
        return super().parse_args(ctx, [*args[1:2], "--help"] if args[:1] == ["help"] else args)

    def list_commands(self, ctx: Click) -> list[str]:
        return [*VERBS]

    def get_command(self, ctx: Click, cmd_name: str) -> Click:
        return build_command(cmd_name) if cmd_name in VERBS else None

    def format_commands(self, ctx: Click, formatter: Click) -> None:
        """The verbs with the first lines of their docstrings; their options are not built."""
        width = max(map(len, VERBS))
        for title, names in GROUPS.items():
            summaries = [(verb(name).__doc__ or "").partition("\n")[0] for name in names]
            with formatter.section(title):
                formatter.write_dl([(name.ljust(width), text) for name, text in zip(names, summaries, strict=True)])


def verb(name: str) -> Callable[..., None]:
    """The function of a verb."""
    attribute = f"{name}_" if iskeyword(name) else name
    function: Callable[..., None] = getattr(import_module(f"regard.cli.{attribute}"), attribute)
    return function


def build_command(name: str) -> Click:
    """The command of a verb, with all its options."""
    from regard.cli.completion import with_completion
    from regard.cli.options import expand_groups

    single = typer.Typer(rich_markup_mode=None, pretty_exceptions_enable=False, add_completion=False)
    single.command(name, cls=Verb, context_settings=CONTEXT)(with_completion(expand_groups(verb(name))))
    return get_command(single)


app = typer.Typer(
    name="regard",
    cls=Verbs,
    no_args_is_help=True,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings=CONTEXT,
    epilog="regard help VERB explains a verb, with examples.",
)


def show_version(requested: bool) -> None:
    """Print the version and exit."""
    if requested:
        typer.echo(f"regard {__version__}")
        raise typer.Exit


@app.callback()
def regard(
    version: Annotated[
        bool, typer.Option("--version", callback=show_version, is_eager=True, help="Print the version and exit.")
    ] = False,
) -> None:
    """Train, evaluate, use and inspect attention models, from raw text to predictions.

    \b
    Examples:
      regard demo                                        train a small model, a minute or two
      regard train dates                                 train a recipe that comes with regard
      echo "5 November 2026" | regard translate runs/dates
    """


def app_command() -> Click:
    """The command line as one object that can be run."""
    return get_command(app)
