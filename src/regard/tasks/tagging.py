"""Tagging: a tag for each word, for example of named entities or parts of speech.

    Ada    met  Bab   ##bage  .
    B-PER  O    B-PER         O          p_i = softmax(W h_i + b)

The first token of a word stands for the word; its other tokens have no label (Devlin et al. 2018, section 5.3). Each
tag is learnt independently. If the tags are BIO, BIOES or similar, the prediction is the most probable legal sequence
(`bio.py`); other tags are predicted word by word.

A sentence longer than an input is read in several windows, each with some context before and after the words that it
labels. Every word is labelled in one window.

T words of a sentence, O tags; `*` is (B, T) padded or (N,) packed.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate, chain
from operator import eq
from typing import ClassVar, NamedTuple

import numpy as np
import torch
from torch import Tensor

from regard.data.batch import IGNORE, Batch
from regard.data.conllu import to_conll
from regard.data.fields import TAGGED_WORDS, Fields
from regard.data.inputs import Input, Inputs
from regard.exchange.bert import TOKEN_CLASSIFICATION
from regard.losses.crossentropy import Loss
from regard.messages import Message
from regard.metrics.classification import Counts, accuracy, counts_by_class, macro_scores
from regard.metrics.score import Score
from regard.metrics.significance import Scorer, mean_scorer, tally_scorer
from regard.metrics.spans import (
    OUTSIDE,
    SCHEMES,
    Entity,
    entities,
    entity_counts,
    entity_scores,
    gold_scheme,
    scheme_of,
)
from regard.tasks.base import Example, Exchange, FileFormat, Prediction
from regard.tasks.bio import best_sequence, can_constrain, transitions
from regard.tasks.checks import entropy
from regard.tasks.encoders import words_of
from regard.tasks.labelled import (
    BASELINE_MARGIN,
    Labelled,
    LabelledChecks,
    LabelledRecipe,
    classification_loss,
    is_recurrent,
    label_ids,
)
from regard.tasks.tables import MAX_ERRORS, confusion_matrix, counts_table, frequent_pairs
from regard.text.inputs import Encoding
from regard.training.advice import Advice
from regard.training.task import Baseline
from regard.viz.content import Description, Marked, Tables, truncate

NO_ENTITY = "–"
CONTEXT_SHARE = 0.25
"""Share of a window for the context before the labelled words; as much for the context after them."""


class TaggingRecipe(LabelledRecipe):
    """The recipe of a tagger."""

    fields: ClassVar[Fields] = TAGGED_WORDS
    defaults = LabelledRecipe.defaults | {
        "task": "tagging", "training.monitor": "f1",
        "model.kind": "recurrent",  # learns more than a Transformer from a few thousand sentences
    }  # fmt: skip
    monitors = ("loss", "accuracy", "f1")
    supports_losses = True

    @property
    def has_attention(self) -> bool:
        """The head reads every token, so attention pooling is not used."""
        return self.model.has_attention and not is_recurrent(self)


class TaggingChecks(LabelledChecks["Tagging"]):
    """Hooks for a tag per word."""

    long_inputs = "read in windows"
    label_checks = ("one-class", "unseen", "rare")  # most words are outside of entities

    def label_values(self, example: Example) -> Sequence[str | float]:
        return list(example.get("tags", ()))

    def data_warnings(self, samples: Mapping[str, Sequence[Example]]) -> list[Advice] | None:
        """Tags that are almost of a scheme, or of one that their names do not tell."""
        sentences = [example["tags"] for example in samples.get("train", ()) if "tags" in example]
        tags = set(chain(*sentences))
        if scheme_of(tags) is None and any(tag.startswith("B-") for tag in tags):
            problem = Message("the tags look like entities, but are of none of {schemes}", schemes=", ".join(SCHEMES))
            remedy = Message("correct them, or F1 is the mean over all tags: {tags}", tags=" ".join(sorted(tags)[:20]))
        elif can_constrain(tags) and gold_scheme(sentences) == "IOB1":
            problem = Message("the tags are IOB1 (I- begins entities), and look like BIO to the model")
            remedy = Message("convert them to BIO: write B- for the first word of every entity")
        else:
            return None
        return [Advice(problem, remedy)]

    def baseline(self, task: "Tagging", train: Inputs, valid: Inputs, examples: Sequence[Example]) -> Baseline:
        """A model that knows only how often each tag occurs."""
        tags = [tag for example in examples for tag in self.label_values(example)]
        return Baseline(Message("a model that ignores the words"), "loss", entropy(tags), BASELINE_MARGIN)


@dataclass(frozen=True)
class Tagging(Labelled[TaggingRecipe]):
    """{"words"} -> {"words", "tags"}, and for entity tags {"entities": [{"type", "start", "end", "text"}]}.

    An entity is the words `start` to `end`, `end` not included.
    """

    constrained: bool = True
    """True if only legal sequences of entity tags are predicted."""

    name = "tagging"
    exchange = Exchange("tag", "token-classification", TOKEN_CLASSIFICATION)
    title = "a tag for each word"
    file_format = FileFormat(".conll", to_conll, on_stdout=False)
    recipe_type = TaggingRecipe
    pooled = False
    per_token = True
    checks = TaggingChecks()

    def encode(self, example: Example) -> list[Input]:
        tags = example.get("tags", [None] * len(example["words"]))
        labels = [float(label_ids(self.labels).get(tag, IGNORE)) for tag in tags]
        inputs = []
        for window in self.windows(example):
            encoded = self.tokenizer.build_input(window.tokens)
            token_labels = [float(IGNORE)] * len(encoded.ids)
            for position, word in zip(window.positions, window.words, strict=True):
                token_labels[position] = labels[word]
            inputs.append(Input(encoded.ids, encoded.segments, token_labels))
        return inputs

    def windows(self, example: Example) -> "list[TagWindow]":
        return split_windows(self.tokenizer.tokenize_words(example["words"]), self.recipe.data.max_length - 2)

    def criterion(self, logits: Tensor, batch: Batch) -> Loss:
        training = self.recipe.training
        return classification_loss(
            logits.flatten(0, -2), batch.labels.flatten(), training.label_smoothing, training.loss
        )

    def decode(self, example: Example, inputs: Sequence[Input], logits: Sequence[Tensor]) -> Prediction:
        words = list(example["words"])
        outside = np.where(np.array(self.labels) == OUTSIDE, 0.0, -np.inf)
        log_p = np.tile(outside, (len(words), 1))  # (T, O): a word without tokens (control characters) is outside
        labelled: set[int] = set()
        for window, scores in zip(self.windows(example), logits, strict=True):
            log_p[window.words] = torch.log_softmax(scores[window.positions].double(), dim=-1).numpy()
            labelled.update(window.words)
        if self.constrained and can_constrain(self.labels):
            best = best_sequence(log_p, transitions(self.labels), self.labels.index(OUTSIDE))
        else:
            best = log_p.argmax(axis=1).tolist()
        tags = [self.labels[number] if word in labelled else OUTSIDE for word, number in enumerate(best)]
        p = np.exp(log_p[np.arange(len(words)), best]).tolist()
        prediction: Prediction = {"words": words, "tags": tags, "probabilities": p}
        return prediction | {"entities": entity_list(words, tags)} if scheme_of(self.labels) else prediction

    def output(self, prediction: Prediction) -> Prediction:
        return {key: value for key, value in prediction.items() if key != "probabilities"}

    def parse(self, value: str | Mapping[str, object], where: str = "the input") -> Example:
        """A line is a sentence; words and punctuation are separated as BERT does."""
        if isinstance(value, str) and value.strip():
            value = {"words": words_of(value, self.tokenizer)}
        return super().parse(value, where)

    def score(self, examples: Sequence[Example], predictions: Sequence[Prediction]) -> dict[str, Score]:
        """Scores of whole entities for entity tags, else means over the tags."""
        predicted, gold = [item["tags"] for item in predictions], [item["tags"] for item in examples]
        words, true = list(chain(*predicted)), list(chain(*gold))
        scores = entity_scores(predicted, gold) if scheme_of({*self.labels, *words, *true}) else tag_scores(words, true)
        counted = Message("{count:,} words", count=len(true))
        return {**scores, "accuracy": replace(accuracy(words, true), signature=counted)}

    def scorer(self, examples: Sequence[Example], predictions: Sequence[Prediction]) -> Scorer:
        """Entities and right tags are counted once, in each sentence."""
        pairs = list(zip(tags_of(predictions), tags_of(examples), strict=True))
        if scheme_of({*self.labels, *chain(*chain(*pairs))}) is None:
            return super().scorer(examples, predictions)
        tallies = [vars(sum(entity_counts([tags], [gold]).values(), Counts())) for tags, gold in pairs]
        spans = tally_scorer(tallies, lambda sums: Counts(**{key: int(sums[key]) for key in sums}).scores("entities"))
        right = [{"accuracy": sum(map(eq, *pair))} for pair in pairs]
        words = mean_scorer(right, [len(gold) for _, gold in pairs])
        return lambda weights: {**spans(weights), **words(weights)}

    def describe(self, example: Example, prediction: Prediction) -> Description:
        """The sentence with its tags marked, twice: as they are, and as predicted."""
        words, tags = example["words"], example.get("tags")
        has_entities = scheme_of({*self.labels, *prediction["tags"], *(tags or ())}) is not None
        output = marked_words(words, prediction["tags"], has_entities)
        if tags is None:
            return Description(output.text, [output])
        return Description(output.text, [output], marked_words(words, tags, has_entities), tags == prediction["tags"])

    def tables(self, examples: Sequence[Example], predictions: Sequence[Prediction], page: bool) -> Tables:
        """Scores of each type of entity or of each tag, and on a page frequent errors or the confusion matrix."""
        predicted, gold = tags_of(predictions), tags_of(examples)
        words, true = list(chain(*predicted)), list(chain(*gold))
        if not scheme_of({*self.labels, *words, *true}):
            counts = {str(tag): item for tag, item in counts_by_class(words, true).items()}
            matrix = confusion_matrix("confusion matrix", true, words) if page else []
            return [counts_table("tags", "tag", counts, "words"), *matrix]
        table = counts_table("entity types", "type", entity_counts(predicted, gold), "entities")
        errors = (
            error
            for example, tags in zip(examples, predicted, strict=True)
            for error in entity_errors(example["words"], example["tags"], tags)
        )
        columns = ("entity", "label", "prediction")
        return [table, *(frequent_pairs("frequent errors", columns, errors, MAX_ERRORS) if page else ())]


class TagWindow(NamedTuple):
    """Some tokens of a sentence, the words they label, and the position of each in [CLS] tokens [SEP]."""

    tokens: Encoding
    words: list[int]
    positions: list[int]


def split_windows(tokens: Encoding, max_tokens: int) -> list[TagWindow]:
    """One window, or several with CONTEXT_SHARE of their tokens as context before, and as much after. Between are as
    many whole words as fit. If a word does not fit, only its beginning is read."""
    if len(tokens) <= max_tokens:
        return [tag_window(tokens, 0, len(tokens), 0)]
    words, context = tokens.words, int(CONTEXT_SHARE * max_tokens)
    size, windows, start = max_tokens - 2 * context, [], 0
    while start < len(words):
        full = min(start + size, len(words))
        stop = bisect_left(words, words[full]) if full < len(words) else full  # the start of the first word too many
        windows.append(tag_window(tokens, start, stop if stop > start else full, context))
        start = stop if stop > start else bisect_right(words, words[start])
    return windows


def tag_window(tokens: Encoding, start: int, stop: int, context: int) -> TagWindow:
    """The window that labels the words beginning at tokens `start` to `stop`, with `context` tokens around them."""
    first = max(0, start - context)
    begins = [index for index in range(start, stop) if index == 0 or tokens.words[index] != tokens.words[index - 1]]
    return TagWindow(
        tokens[first : stop + context],
        [tokens.words[index] for index in begins],
        [index - first + 1 for index in begins],
    )


def entity_list(words: Sequence[str], tags: Sequence[str]) -> list[Example]:
    """The entities of a sentence with their text."""
    return [
        {"type": kind, "start": start, "end": end, "text": " ".join(words[start:end])}
        for kind, start, end in entities(tags)
    ]


def tag_scores(hypotheses: Sequence[str], references: Sequence[str]) -> dict[str, Score]:
    """Means over the tags. The signature says that they are not scores of entities, of which O would be no type."""
    sizes = {"tags": len({*hypotheses, *references}), "count": len(references), "schemes": ", ".join(SCHEMES)}
    how = Message("macro over {tags} tags, not entities ({schemes}), {count:,} words", **sizes)
    return {name: replace(score, signature=how) for name, score in macro_scores(hypotheses, references).items()}


def tags_of(items: Sequence[Example]) -> list[list[str]]:
    return [item["tags"] for item in items]


def marked_words(words: Sequence[str], tags: Sequence[str], has_entities: bool) -> Marked:
    """A sentence with its entities marked; if the tags are not of entities, with every tag marked. Its summary is "Ada
    Lovelace (PER), London (LOC)", or "the/DET dog/NOUN"."""
    starts = [0, *accumulate(len(word) + 1 for word in words)]  # of each word, which a blank follows
    pairs = list(zip(words, tags, strict=True))
    if has_entities:
        spans = entities(tags)
        line = ", ".join(f"{item['text']} ({item['type']})" for item in entity_list(words, tags))
    else:
        spans = [Entity(tag, place, place + 1) for place, tag in enumerate(tags)]
        line = " ".join(f"{word}/{tag}" for word, tag in pairs)
    marks = [(starts[start], starts[end] - 1, kind) for kind, start, end in spans]
    return Marked(" ".join(words), marks, pairs, truncate(line))


def entity_errors(
    words: Sequence[str], gold: Sequence[str], predicted: Sequence[str]
) -> Iterator[tuple[str, str, str]]:
    """Text, type and predicted type of every entity that is not in both; NO_ENTITY in place of a type it lacks."""
    sides = [{(start, end): kind for kind, start, end in entities(tags)} for tags in (gold, predicted)]
    for start, end in sorted({*sides[0], *sides[1]}):
        kinds = [side.get((start, end), NO_ENTITY) for side in sides]
        if kinds[0] != kinds[1]:
            yield " ".join(words[start:end]), kinds[0], kinds[1]
