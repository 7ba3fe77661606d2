"""The program `regard` with all commands. A command is built when it is used, so that `regard --help` is fast."""

import os
import tomllib
from collections.abc import Callable
from difflib import get_close_matches
from importlib import import_module
from keyword import iskeyword
from pathlib import Path
from textwrap import indent
from typing import Annotated, Any, TypeAlias

import typer
from typer import Option
from typer.core import TyperCommand, TyperGroup
from typer.main import get_command

from regard import __version__
from regard.cli.shell import COMMANDS, GROUPS

HELP = Path(__file__).with_name("help.toml")
DISTRIBUTED = ("demo", "train", "ladder", "doctor")
"""Commands that torchrun can start in several processes, or that read the variables it sets."""
SPREAD = ("translate", "predict", "evaluate", "embed", "distill", "backtranslate", "score")
"""Commands that several processes do together, if it was torchrun that started them."""

Click: TypeAlias = Any
"""An object of click; newer versions of typer contain a click of their own, with other types."""
CONTEXT = {"help_option_names": ["-h", "--help"], "max_content_width": 100}


class Command(TyperCommand):
    """A command whose help shows an argument by its metavar, as RUN; typer writes {RUN} and RUN <str>."""

    def collect_usage_pieces(self, ctx: Click) -> list[str]:
        arguments = [parameter for parameter in self.get_params(ctx) if parameter.param_type_name == "argument"]
        names = (str(item.metavar) if item.required else f"[{item.metavar}]" for item in arguments)
        return ["[OPTIONS]", *(name + "..." * (item.nargs == -1) for name, item in zip(names, arguments, strict=True))]

    def format_options(self, ctx: Click, formatter: Click) -> None:
        """Arguments first, then the command's own options, then those it shares with others, below a heading each."""
        sections: dict[str, list[tuple[str, str]]] = {"Arguments": [], "Options": []}
        for parameter in self.get_params(ctx):
            name, text = parameter.get_help_record(ctx) or ("", "")
            if parameter.param_type_name == "argument":
                sections["Arguments"].append((str(parameter.metavar), text))
            else:
                title = getattr(parameter, "rich_help_panel", None) or "Options"
                sections.setdefault(title, []).append((name, text))
        for title, records in sections.items():
            if records:
                with formatter.section(title):
                    formatter.write_dl(records)

    def invoke(self, ctx: Click) -> object:
        """Run the command; torchrun's variables that are left in the environment have a meaning in training only."""
        if self.name not in DISTRIBUTED and not (self.name in SPREAD and "TORCHELASTIC_RUN_ID" in os.environ):
            for name in ("RANK", "WORLD_SIZE", "LOCAL_RANK"):
                os.environ.pop(name, None)
        return super().invoke(ctx)


class Commands(TyperGroup):
    """All commands; only the one that is used is built."""

    def parse_args(self, ctx: Click, args: list[str]) -> list[str]:
        """Read `regard help COMMAND` as `regard COMMAND --help`."""
        return super().parse_args(ctx, [*args[1:2], "--help"] if args[:1] == ["help"] else args)

    def list_commands(self, ctx: Click) -> list[str]:
        return [*COMMANDS]

    def get_command(self, ctx: Click, cmd_name: str) -> Click:
        return build_command(cmd_name) if cmd_name in COMMANDS else None

    def resolve_command(self, ctx: Click, args: list[str]) -> Click:
        """Find the command; for an unknown one suggest commands that begin so or are spelled alike."""
        name = args[0]
        if name not in COMMANDS and not name.startswith("-"):
            begin_so = ["predict"] if name == "parse" else [item for item in COMMANDS if item.startswith(name)]
            alike = dict.fromkeys([*begin_so, *get_close_matches(name, COMMANDS)])
            suggestion = f" Did you mean {' or '.join(f'`regard {command}`' for command in alike)}?" if alike else ""
            ctx.fail(f"No such command '{name}'.{suggestion}")
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: Click, formatter: Click) -> None:
        """The commands with the first lines of their docstrings; their options are not built."""
        width = max(map(len, COMMANDS))
        for title, names in GROUPS.items():
            summaries = [(find_function(name).__doc__ or "").partition("\n")[0] for name in names]
            with formatter.section(title):
                formatter.write_dl([(name.ljust(width), text) for name, text in zip(names, summaries, strict=True)])


def find_function(name: str) -> Callable[..., None]:
    attribute = f"{name}_" if iskeyword(name) else name
    function: Callable[..., None] = getattr(import_module(f"regard.cli.{attribute}"), attribute)
    return function


def build_command(name: str) -> Click:
    """A command with all its options."""
    from regard.cli.completion import with_completion
    from regard.cli.options import expand_groups

    single = typer.Typer(rich_markup_mode=None, pretty_exceptions_enable=False, add_completion=False)
    function = with_completion(expand_groups(find_function(name)))
    single.command(name, cls=Command, context_settings=CONTEXT, help=help_text(name))(function)
    return get_command(single)


def help_text(name: str) -> str:
    """The docstring of a command, then its text and examples in help.toml."""
    texts = tomllib.loads(HELP.read_text(encoding="utf-8"))[name]
    return f"{find_function(name).__doc__}\n\n{texts['about']}\n\b\nExamples:\n{indent(texts['examples'], '  ')}"


app = typer.Typer(
    name="regard",
    cls=Commands,
    no_args_is_help=True,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings=CONTEXT,
    epilog="`regard help COMMAND` explains a command, with examples.",
)


def show_version(requested: bool) -> None:
    if requested:
        typer.echo(f"regard {__version__}")
        raise typer.Exit


@app.callback()
def regard(
    version: Annotated[
        bool, Option("--version", callback=show_version, is_eager=True, help="Print the version and exit.")
    ] = False,
) -> None:
    """Translate text, or train, use and inspect your own attention models.

    A recipe is a TOML file with all settings of a training. A run is the folder of one trained model.

    \b
    Examples:
      echo "Hello" | regard translate --to de            use the bundled translator
      regard demo                                        train a small model in a minute or two
      regard train dates                                 train a bundled recipe
      regard predict runs/dates "5 November 2026"        use the trained model
      regard inspect runs/dates "5 November 2026"        see its attention
    """


def app_command() -> Click:
    """The program as one object that can be run."""
    return get_command(app)
