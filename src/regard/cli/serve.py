"""regard serve: a server of trained runs."""

import os
from dataclasses import asdict
from inspect import Parameter
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, get_args

import typer

from regard.cli.options import ModelOptions, OptionGroup, help_of, option_type
from regard.cli.screen import report
from regard.errors import UserError
from regard.messages import Message
from regard.run_files import TRANSLATOR

if TYPE_CHECKING:
    from regard.run.model import Model
    from regard.serve.settings import ServeSettings


class ServerOptions(OptionGroup):
    """The fields of `ServeSettings`; those that are not given are as in the environment."""

    title = "Server (also environment variables, e.g. REGARD_SERVE_PORT)"

    def __init__(self, **values: object) -> None:
        self.values = {name: tuple(value) if isinstance(value, list) else value for name, value in values.items()}

    @classmethod
    def parameters(cls) -> list[Parameter]:
        from regard.serve.settings import ServeSettings

        return [
            Parameter(name, Parameter.KEYWORD_ONLY, default=None, annotation=annotation(field.annotation, help_))
            for name, field in ServeSettings.model_fields.items()
            for value in [" [on]" if field.default is True else f" [{field.default}]" if field.default else ""]
            for help_ in [f"{help_of(field)}{value}"]
        ]

    def settings(self) -> "ServeSettings":
        from regard.serve.settings import read_settings

        return read_settings(self.values, warn=report)


def annotation(kind: object, help_text: str) -> object:
    """The annotation of an optional option for a setting of this type."""
    if Ellipsis in get_args(kind):
        return Annotated[list[str] | None, typer.Option(metavar="TEXT", help=help_text)]
    if Path in get_args(kind):
        return Annotated[Path | None, typer.Option(metavar="FILE", help=help_text)]
    return option_type(kind, help_text)


def serve(
    runs: Annotated[
        list[str] | None, typer.Argument(metavar="RUN", help="Run folders; default: the bundled translator.")
    ] = None,
    *,
    server: ServerOptions,
    model: ModelOptions,
) -> None:
    """Serve runs of any task over HTTP: a page, our API, and those of LibreTranslate, DeepL and Hugging Face.

    Requests from many clients are batched. The server listens on this machine only, unless you set --host, and it
    stores nothing. After SIGTERM or Ctrl+C, accepted requests are finished. A run is called by its folder name. Open /
    in a browser for the page, /api for the list of routes, and /metrics for Prometheus.

    \b
    Examples:
      regard serve                                       the bundled translator
      regard serve runs/de runs/sst-2 --port 8080
      regard serve runs/de --languages de=en:de          languages, if the recipe does not name them
      regard serve runs/de --engine ctranslate2 --batch-delay 5
      regard serve --host 0.0.0.0 --api-keys keys.txt --requests-per-minute 60
    """
    settings = server.settings()
    try:
        from regard.serve.server import run_server
        from regard.serve.service import Service
        from regard.serve.settings import KEYS_VARIABLE
    except ImportError as error:
        if error.name not in ("fastapi", "uvicorn"):
            raise
        problem = f"the server needs the package {error.name}"
        raise UserError(problem, 'pip install "regard[serve]"', code="missing-package", where=error.name) from error

    if settings.threads:
        import torch

        torch.set_num_threads(settings.threads)
    service = Service(open_runs(runs or [TRANSLATOR], model), settings)
    if not settings.is_local and settings.api_keys is None and not os.environ.get(KEYS_VARIABLE):
        host = {"host": settings.host}
        report(Message("warning: everybody who can reach {host} may use this server; set `--api-keys FILE`", **host))
    for run in service.runs.values():
        pairs = ", ".join(f"{source} → {target}" for source, target in run.directions)
        report(f"{run.name}: {run.task.name}{f', {pairs}' if pairs else ''}")
    run_server(service, settings, report)


def open_runs(folders: list[str], options: ModelOptions) -> "dict[str, Model]":
    """The model of each run by its name, not yet loaded; an engine is used by the tasks that support it."""
    from regard.run.model import Model
    from regard.run.run import Run
    from regard.tasks.operations import engine_names

    models: dict[str, Model] = {}
    for folder in folders:
        run = Run.open(folder)
        values = asdict(options)
        if options.engine not in engine_names(run.task):
            values |= {"engine": "torch", "quantization": None}
        name = run.folder.resolve().name
        names = (name, *(f"{name}-{number}" for number in range(2, len(models) + 2)))
        models[next(item for item in names if item not in models)] = Model([run], **values)
    return models
