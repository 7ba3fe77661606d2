"""One file a task: how its text is encoded, which model learns it, what it minimises, predicts and scores."""

from regard.tasks.language import Generation, LanguageModelling
from regard.tasks.masked_translation import MaskedTranslation
from regard.tasks.parsing import Parse, Parsing
from regard.tasks.translation import Objective, Prediction, Translation, TranslationModel

__all__ = [
    "Generation",
    "LanguageModelling",
    "MaskedTranslation",
    "Objective",
    "Parse",
    "Parsing",
    "Prediction",
    "Translation",
    "TranslationModel",
]
