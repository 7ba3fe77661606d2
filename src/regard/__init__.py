"""regard: attention models from raw text to a trained, evaluated and inspected model.

import regard
regard.translate("Hello", target="de")
regard.train(regard.load_recipe("dates"), "runs/dates", resume=True)
regard.Translator.load("runs/dates").translate("Sunday, November 15, 2026")

A name is imported when it is first used, so `import regard` is fast and does not import torch. These names are the
public interface. Everything else is imported from its module and may change.
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from regard.attention.attend import attend
    from regard.attention.multihead import MultiHeadAttention
    from regard.decoding.beam import beam_search
    from regard.decoding.settings import DecodingSettings
    from regard.errors import UserError
    from regard.metrics.score import Score
    from regard.models.bert import Bert
    from regard.models.convolutional import Convolutional
    from regard.models.recurrent import RecurrentModel
    from regard.models.transformer import Transformer
    from regard.recipe import Recipe
    from regard.run.exporting import export_run
    from regard.run.importing import import_model
    from regard.run.model import Evaluation, Explanation, Model, Translator, translate
    from regard.run.run import Run
    from regard.run.train import train
    from regard.tasks.base import Task
    from regard.tasks.registry import load_recipe, register
    from regard.viz.report import AttentionMap, write_report
    from regard.viz.svg import heatmap_svg
    from regard.viz.terminal import heatmap

__version__ = "0.2.0"

MODULES = {
    "AttentionMap": "viz.report",
    "Bert": "models.bert",
    "Convolutional": "models.convolutional",
    "DecodingSettings": "decoding.settings",
    "Evaluation": "run.model",
    "Explanation": "run.model",
    "Model": "run.model",
    "MultiHeadAttention": "attention.multihead",
    "Recipe": "recipe",
    "RecurrentModel": "models.recurrent",
    "Run": "run.run",
    "Score": "metrics.score",
    "Task": "tasks.base",
    "Transformer": "models.transformer",
    "Translator": "run.model",
    "UserError": "errors",
    "attend": "attention.attend",
    "beam_search": "decoding.beam",
    "export_run": "run.exporting",
    "heatmap": "viz.terminal",
    "heatmap_svg": "viz.svg",
    "import_model": "run.importing",
    "load_recipe": "tasks.registry",
    "register": "tasks.registry",
    "train": "run.train",
    "translate": "run.model",
    "write_report": "viz.report",
}
"""The module of each public name."""

__all__ = ["__version__", *MODULES]  # pyright: ignore[reportUnsupportedDunderAll]


def __getattr__(name: str) -> object:
    """Import the module of a public name when the name is first used."""
    if name not in MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(f"regard.{MODULES[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return __all__
