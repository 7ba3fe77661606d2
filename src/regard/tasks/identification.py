"""The language of a text, by a small bundled classifier: a run of task classification.

    p(language | text) = softmax(W s + b)      s is the pooled vector of a small Transformer encoder

Its classes are the languages of the translator and `other`: text in other scripts, and text without words. The
confidence of a language is its probability. The probability of `other` is not shared among the languages, so text in an
unknown script has a low confidence in each of them. docs/models/languages.md says what the classifier was trained on,
how often it is right, and what it does not know.
"""

import html
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from multiprocessing import parent_process
from typing import Protocol

import torch

from regard.config import build
from regard.documents.protecting import CODE
from regard.documents.scripts import count_scripts
from regard.reading import read_toml
from regard.recipe_files import current_names
from regard.run_files import CHECKPOINTS, RECIPE, bundled_run
from regard.tasks.base import Example, Prediction
from regard.tasks.classification import Classification
from regard.training.checkpoint import Checkpoints, read_weights
from regard.training.weights import load_weights

OTHER = "other"
"""The class of text in none of the languages."""
MAX_CHARACTERS = 1000
"""The beginning of a text that is read; more text does not change the result."""
SURE = 0.8
"""The confidence from which a language is sure; below it, the answer is "unsure". The smallest tenth with at most 2 %
wrong answers for each length of the validation texts, and for their texts in none of the languages."""
NUMBER = re.compile(r"\b\d[\d.,:/%-]*+(?!\w)")
TAG = re.compile(r"<[^<>]*>")
CHINESE, LATIN_WORD = "zh", re.compile(r"[A-Za-zÀ-ɏ]+")


@dataclass(frozen=True)
class Detected:
    """A language that a text may have."""

    language: str
    """Its ISO 639-1 code: en."""
    confidence: float
    """Its probability, from 0 to 1."""


class Classifier(Protocol):
    """A model that gives a probability to each language."""

    def predict(self, inputs: list[Example], /) -> Iterable[Prediction]: ...


def identify(classifier: Classifier, texts: Sequence[str], top: int = 3) -> list[list[Detected]]:
    """The `top` most probable languages of each text, the most probable first; none for a text without letters."""
    found = []
    for probabilities in language_probabilities(classifier, texts):
        known = (item for item in probabilities.items() if item[0] != OTHER)
        found.append([Detected(*item) for item in sorted(known, key=lambda item: -item[1])[:top]])
    return found


def sure_language(found: Sequence[Detected]) -> str | None:
    """The language of a text from its detected languages; None if it is unsure, or if the text has no words."""
    return found[0].language if found and found[0].confidence >= SURE else None


def is_unsure(known: Sequence[Detected]) -> bool:
    """True if a text may be in several of the languages that can be translated, and none of them is sure."""
    return len(known) > 1 and sure_language(known) is None


def describe_languages(found: Sequence[Detected]) -> str:
    """The three most probable languages: "en 48 %, de 40 %, fr 9 %"."""
    return ", ".join(f"{item.language} {100 * item.confidence:.0f} %" for item in found[:3])


def language_probabilities(classifier: Classifier, texts: Sequence[str]) -> list[Mapping[str, float]]:
    """The probability of each class for each text."""
    predictions = classifier.predict([{"text": classifier_input(text)} for text in texts])
    return [
        with_han_share(text, prediction["probabilities"]) for text, prediction in zip(texts, predictions, strict=True)
    ]


class BundledClassifier:
    """The bundled classifier for the processes that prepare data; one thread each."""

    def __init__(self) -> None:
        folder, settings = bundled_run("languages"), Classification.recipe_type
        values = current_names(read_toml(folder / RECIPE))
        recipe = build(settings, values, str(folder / RECIPE), settings.defaults, allow_unused=True)
        self.task, path = Classification.load(recipe, folder), Checkpoints(folder / CHECKPOINTS).resolve("best")
        self.model = self.task.new_model().eval()
        load_weights(self.model, read_weights(path), str(path))
        if parent_process() is not None:
            torch.set_num_threads(1)

    def predict(self, inputs: list[Example], /) -> Iterable[Prediction]:
        return self.task.predict(self.model, inputs)


bundled_classifier = cache(BundledClassifier)
"""The classifier, loaded at the first call."""


def bundled_probabilities(texts: Sequence[str]) -> list[Mapping[str, float]]:
    """The probability of each language for each text; all of them have letters. For `data.clean`."""
    return language_probabilities(bundled_classifier(), texts)


def with_han_share(text: str, probabilities: Mapping[str, float]) -> Mapping[str, float]:
    """Probabilities in which Chinese has the share of its characters among all words: a few brands change nothing. If
    they are the majority, both counts are squared: Chinese sentences often have Latin words, others seldom Chinese."""
    scripts = count_scripts(text)
    han, rest = scripts["CJK"], 1 - probabilities.get(CHINESE, 1.0)
    if not han or rest <= 0 or scripts.keys() & {"HIRAGANA", "KATAKANA", "HANGUL"}:
        return probabilities
    words = len(LATIN_WORD.findall(classifier_input(text)))
    share = max(han / (han + words), han**2 / (han**2 + words**2))
    return {name: share if name == CHINESE else value * (1 - share) / rest for name, value in probabilities.items()}


def classifier_input(text: str) -> str:
    """The words at the beginning of a text without tags, placeholders, addresses, emoji and numbers; lowercased if all
    are uppercase, and empty if there are none."""
    words = NUMBER.sub(" ", CODE.sub(" ", text[:MAX_CHARACTERS].replace("`", " ")))
    if not any(map(str.isalpha, words)):
        return ""
    return words.lower() if words.isupper() else words


def page_words(page: str) -> str:
    """The text of HTML: the language of the words, and not of the tags."""
    return html.unescape(TAG.sub(" ", page))


def known_languages(found: Sequence[Detected], sources: Sequence[str], target: str | None) -> list[Detected]:
    """The detected languages that can be translated to `target`; the target itself only if that is sure, because a text
    in it is copied. None if the text is probably in another of `sources`: the most probable language is not known,
    and the classifier does not know all of `sources`."""
    if found and found[0].language not in (*sources, target) and not set(sources) <= {item.language for item in found}:
        return []
    known = (*sources, target) if sure_language(found) == target else tuple(sources)
    return [item for item in found if item.language in known]
