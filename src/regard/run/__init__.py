"""A run: the folder a model lives in, how it comes about, and what can be done with it."""

from regard.run.evaluation import Evaluation, evaluate
from regard.run.exporting import export_run
from regard.run.folder import Run
from regard.run.importing import import_model
from regard.run.language import LanguageRun
from regard.run.parser import Parser
from regard.run.parsing import ParsingRun
from regard.run.predictor import ExampleEvaluation, Predictor
from regard.run.pretraining import PretrainingRun
from regard.run.train import train
from regard.run.translation import TranslationRun
from regard.run.translator import Translator
from regard.run.understanding import UnderstandingRun
from regard.run.writer import Writer

__all__ = [
    "Evaluation",
    "ExampleEvaluation",
    "LanguageRun",
    "Parser",
    "ParsingRun",
    "Predictor",
    "PretrainingRun",
    "Run",
    "TranslationRun",
    "Translator",
    "UnderstandingRun",
    "Writer",
    "evaluate",
    "export_run",
    "import_model",
    "train",
]
