"""One file a task: how its text is encoded, which model learns it, what it minimises, predicts and scores."""

from regard.tasks.answering import Answering
from regard.tasks.choice import Choice
from regard.tasks.classification import Classification, Regression
from regard.tasks.language import Generation, LanguageModelling
from regard.tasks.masked_translation import MaskedTranslation
from regard.tasks.parsing import Parse, Parsing
from regard.tasks.pretraining import Pretraining
from regard.tasks.tagging import Tagging
from regard.tasks.translation import Objective, Prediction, Translation, TranslationModel
from regard.tasks.understanding import Understanding

__all__ = [
    "Answering",
    "Choice",
    "Classification",
    "Generation",
    "LanguageModelling",
    "MaskedTranslation",
    "Objective",
    "Parse",
    "Parsing",
    "Prediction",
    "Pretraining",
    "Regression",
    "Tagging",
    "Translation",
    "TranslationModel",
    "Understanding",
]
