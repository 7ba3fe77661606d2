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


SLEEPING = {"OMP_WAIT_POLICY": "PASSIVE", "KMP_BLOCKTIME": "0"}
"""Environment variables for OpenMP: threads without work sleep. By default they spin, and on a busy machine each step
waits until a thread that computes gets its core back."""
THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "RAYON_NUM_THREADS")
"""Those for the number of threads: of torch and CTranslate2, numpy and tokenizers. By default each is that of cores."""
MAX_THREADS = 8
"""Threads per batch by default: more do not make the small matrices of a search faster."""


class ServerOptions(OptionGroup):
    """The fields of `ServeSettings`; those that are not given are as in the environment."""

    title = "Server (also environment variables, e.g. REGARD__PORT)"

    def __init__(self, **values: object) -> None:
        self.values = {name: value for name, value in values.items() if value is not None}
        for name, value in self.values.items():
            if isinstance(value, list):  # an environment variable may have commas between its values
                self.values[name] = tuple(part for text in value for part in text.replace(",", " ").split())

    @classmethod
    def parameters(cls) -> list[Parameter]:
        from regard.serve.settings import ServeSettings

        parameters = []
        for name, field in ServeSettings.model_fields.items():
            value = " [on]" if field.default is True else f" [{field.default}]" if field.default else ""
            kind = annotation(field.annotation, f"{help_of(field)}{value}")
            option = get_args(kind)[1]
            option.envvar, option.show_envvar = variables(name), False
            parameters.append(Parameter(name, Parameter.KEYWORD_ONLY, default=None, annotation=kind))
        return parameters

    def settings(self) -> "ServeSettings":
        """The settings, checked; an environment variable that is no setting is an error, or a warning if it is old."""
        from regard.config import build
        from regard.serve.settings import OLD_PREFIX, PREFIX, ServeSettings

        known = {variable for name in ServeSettings.model_fields for variable in variables(name)}
        unknown = sorted(name for name in os.environ if name.startswith((PREFIX, OLD_PREFIX)) and name not in known)
        if unknown and unknown[-1].startswith(PREFIX):
            problem = f"{unknown[-1]}: no such server setting"
            raise UserError(problem, "see `regard serve --help`", code="unknown-setting", where=unknown[-1])
        if unknown:
            report(Message("warning: ignored, no such server settings: {names}", names=", ".join(unknown)))
        return build(ServeSettings, self.values, "regard serve")


def annotation(kind: object, help_text: str) -> object:
    """The annotation of an optional option for a setting of this type."""
    if Ellipsis in get_args(kind):
        return Annotated[list[str] | None, typer.Option(metavar="TEXT", help=help_text)]
    if Path in get_args(kind):
        return Annotated[Path | None, typer.Option(metavar="FILE", help=help_text)]
    return option_type(kind, help_text)


def variables(name: str) -> list[str]:
    """The environment variables of a setting, the old name last, unless Kubernetes set it to tcp://10.0.0.1:80."""
    from regard.serve.settings import OLD_PREFIX, PREFIX

    names = [prefix + name.upper() for prefix in (PREFIX, OLD_PREFIX)]
    return names[:1] if "://" in os.environ.get(names[1], "") and name == "port" else names


def serve(
    runs: Annotated[
        list[str] | None, typer.Argument(metavar="RUN", help="Run folders; default: the bundled translator.")
    ] = None,
    *,
    server: ServerOptions,
    model: ModelOptions,
) -> None:
    """Serve runs of any task over HTTP: a page, our API, and those of LibreTranslate, DeepL and Hugging Face."""
    settings = server.settings()
    threads = set_threads(settings.threads, len(runs or [TRANSLATOR]))
    try:
        from regard.serve.server import run_server
        from regard.serve.service import Service
        from regard.serve.settings import KEYS_VARIABLE
    except ImportError as error:
        if error.name not in ("fastapi", "uvicorn"):
            raise
        problem = f"the server needs the package {error.name}"
        raise UserError(problem, "pip install '.[serve]'", code="missing-package", where=error.name) from error

    import torch

    torch.set_num_threads(threads)
    service = Service(open_runs(runs or [TRANSLATOR], model), settings)
    if not settings.is_local and settings.api_keys is None and not os.environ.get(KEYS_VARIABLE):
        host = {"host": settings.host}
        report(Message("warning: everybody who can reach {host} may use this server; set `--api-keys FILE`", **host))
    for run in service.runs.values():
        pairs = ", ".join(f"{source} → {target}" for source, target in run.directions)
        report(f"{run.name}: {run.task.name}{f', {pairs}' if pairs else ''}")
    run_server(service, settings, report)


def set_threads(threads: int, runs: int) -> int:
    """Tell libraries how many threads to use and that these sleep; they read it when they are loaded, so call it first.

    What the environment says about anything but the setting `threads` takes precedence.
    """
    from regard.processes import count_workers

    given = os.environ.get("OMP_NUM_THREADS", "").partition(",")[0]
    threads = threads or int(given if given.isdigit() else 0) or max(1, min(MAX_THREADS, count_workers(0) // runs))
    os.environ["OMP_NUM_THREADS"] = str(threads)
    for name, value in {**SLEEPING, **dict.fromkeys(THREADS, str(threads))}.items():
        os.environ.setdefault(name, value)
    return threads


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
