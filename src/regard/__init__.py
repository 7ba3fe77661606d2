"""regard: attention models from raw text to a trained, evaluated and explained translator.

from regard import Translator, load_recipe, train
train(load_recipe("dates"), Path("runs/dates"))
Translator.load("runs/dates").translate("Sunday, November 15, 2026")

Names are found when they are first used, so importing the package costs nothing and loads neither torch nor any other
large library.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from regard.attention.attend import attend
    from regard.attention.multihead import MultiHeadAttention
    from regard.attention.recurrent_attention import SourceAttention
    from regard.config import Settings
    from regard.decoding.beam import beam_search
    from regard.decoding.hypothesis import Hypothesis
    from regard.decoding.rollout import greedy_search
    from regard.decoding.sampling import sample
    from regard.decoding.settings import DecodingSettings
    from regard.errors import UserError
    from regard.metrics.score import Score, exact_match
    from regard.metrics.significance import compare
    from regard.metrics.translation import bleu, chrf, ter
    from regard.models.bert import Bert, BertPretraining, BertSettings
    from regard.models.convolutional import Convolutional
    from regard.models.masked import MaskedTransformer
    from regard.models.recurrent import RecurrentModel
    from regard.models.text_encoder import EncoderWithHead
    from regard.models.transformer import Transformer, TransformerSettings
    from regard.recipe import Recipe, load_recipe
    from regard.run import (
        Evaluation,
        Parser,
        Predictor,
        Run,
        Translator,
        Writer,
        evaluate,
        export_run,
        import_model,
    )
    from regard.run.train import train
    from regard.tasks import (
        Answering,
        Choice,
        Classification,
        Parsing,
        Prediction,
        Pretraining,
        Regression,
        Tagging,
        Translation,
    )
    from regard.text.bert import BertTokenizer
    from regard.text.factory import load_tokenizer, train_tokenizer
    from regard.text.settings import TextSettings
    from regard.text.tokenizer import Tokenizer
    from regard.training.averaging import average_checkpoints
    from regard.training.checkpoint import Checkpoints
    from regard.training.loop import fit
    from regard.training.settings import TrainingSettings
    from regard.viz import curve, heatmap, heatmap_svg, write_report

__version__ = "0.1.0"

HOMES = {
    "regard.attention.recurrent_attention": ("SourceAttention",),
    "regard.attention.multihead": ("MultiHeadAttention",),
    "regard.attention.attend": ("attend",),
    "regard.config": ("Settings",),
    "regard.decoding.beam": ("beam_search",),
    "regard.decoding.hypothesis": ("Hypothesis",),
    "regard.decoding.rollout": ("greedy_search",),
    "regard.decoding.sampling": ("sample",),
    "regard.decoding.settings": ("DecodingSettings",),
    "regard.errors": ("UserError",),
    "regard.metrics.score": ("Score", "exact_match"),
    "regard.metrics.significance": ("compare",),
    "regard.metrics.translation": ("bleu", "chrf", "ter"),
    "regard.models.bert": ("Bert", "BertPretraining", "BertSettings"),
    "regard.models.convolutional": ("Convolutional",),
    "regard.models.masked": ("MaskedTransformer",),
    "regard.models.recurrent": ("RecurrentModel",),
    "regard.models.transformer": ("Transformer", "TransformerSettings"),
    "regard.models.text_encoder": ("EncoderWithHead",),
    "regard.recipe": ("Recipe", "load_recipe"),
    "regard.run": (
        "Evaluation",
        "Parser",
        "Predictor",
        "Run",
        "Translator",
        "Writer",
        "evaluate",
        "export_run",
        "import_model",
        "train",
    ),
    "regard.tasks": (
        "Answering",
        "Choice",
        "Classification",
        "Parsing",
        "Prediction",
        "Pretraining",
        "Regression",
        "Tagging",
        "Translation",
    ),
    "regard.text.bert": ("BertTokenizer",),
    "regard.text.factory": ("load_tokenizer", "train_tokenizer"),
    "regard.text.settings": ("TextSettings",),
    "regard.text.tokenizer": ("Tokenizer",),
    "regard.training.averaging": ("average_checkpoints",),
    "regard.training.checkpoint": ("Checkpoints",),
    "regard.training.loop": ("fit",),
    "regard.training.settings": ("TrainingSettings",),
    "regard.viz": ("curve", "heatmap", "heatmap_svg", "write_report"),
}
"""Where each public name lives."""

__all__ = [
    "Answering",
    "Bert",
    "BertPretraining",
    "BertSettings",
    "BertTokenizer",
    "Checkpoints",
    "Choice",
    "Classification",
    "Convolutional",
    "DecodingSettings",
    "EncoderWithHead",
    "Evaluation",
    "Hypothesis",
    "MaskedTransformer",
    "MultiHeadAttention",
    "Parser",
    "Parsing",
    "Prediction",
    "Predictor",
    "Pretraining",
    "Recipe",
    "RecurrentModel",
    "Regression",
    "Run",
    "Score",
    "Settings",
    "SourceAttention",
    "Tagging",
    "TextSettings",
    "Tokenizer",
    "TrainingSettings",
    "Transformer",
    "TransformerSettings",
    "Translation",
    "Translator",
    "UserError",
    "Writer",
    "__version__",
    "attend",
    "average_checkpoints",
    "beam_search",
    "bleu",
    "chrf",
    "compare",
    "curve",
    "evaluate",
    "exact_match",
    "export_run",
    "fit",
    "greedy_search",
    "heatmap",
    "heatmap_svg",
    "import_model",
    "load_recipe",
    "load_tokenizer",
    "sample",
    "ter",
    "train",
    "train_tokenizer",
    "write_report",
]


def __getattr__(name: str) -> Any:
    """Import a public name's room when the name is first used."""
    for home, names in HOMES.items():
        if name in names:
            value = getattr(import_module(home), name)
            globals()[name] = value
            return value
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return __all__
