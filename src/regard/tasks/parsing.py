"""Constituency parsing as translation: the words of a sentence in, its linearised tree without words out.

    John has a dog .     ->     (S (NP XX )NP (VP XX (NP XX XX )NP )VP XX )S

    p(tree | words) = prod_t p(token_t | token_<t, words)

Vinyals et al. 2015, "Grammar as a Foreign Language", with a recurrent network; Vaswani et al. 2017, section 6.3, with a
Transformer. Nothing forces the model to close brackets or to write as many leaves as there are words. It learns both;
an output that is not a tree of the sentence is repaired (trees.py, `from_tokens`).
"""

import re
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import ClassVar, Self

import numpy as np
from pydantic import model_validator
from torch import nn

from regard.config import SettingError
from regard.config import SettingsTable as Values
from regard.data.fields import TREES, Fields
from regard.decoding.engine import Engine
from regard.messages import Message
from regard.metrics.parsing import bracket_scores, bracket_tally, counts_by_label, sum_brackets
from regard.metrics.score import Score
from regard.metrics.significance import Scorer, tally_scorer
from regard.models.masked import MaskedSettings
from regard.reading import check_text
from regard.tasks.base import Example, Exchange, FileFormat, Prediction
from regard.tasks.inputs import missing_key
from regard.tasks.seq2seq import Seq2Seq, TranslationRecipe
from regard.tasks.tables import bin_name, counts_table
from regard.text.settings import TextSettings
from regard.trees import ROOT, Tree, from_tokens, leaves, parsed, sentence_text, strip_tags, to_brackets
from regard.viz.content import Description, PhraseTree, Table, Tables
from regard.viz.report import AttentionMap

LENGTHS = (10, 20, 30, 40)
"""Bins of sentences by their number of words."""
TREE_TOKENS = TextSettings(kind="token", min_frequency=1, joint=False)
"""A bracket with its label is one token, even if it is rare."""
# Treebanks write as words: punctuation, the last full stop of a line, and the endings of don't and Ada's.
PUNCTUATION = re.compile(r"""(\.\.\.|--|[][(){}"“”„«»!?;…。，、；：？！]|[,:](?!\d)|\.(?=["'”’)\]\s]*$))""")
ENDINGS = re.compile(r"(?i)(?<=\w)(n['’]t|['’](?:s|m|d|re|ve|ll))\b")


class ParsingRecipe(TranslationRecipe):
    """The recipe of a parser (Vinyals et al. 2015); the search is that of Vaswani et al. 2017, section 6.3, with a
    smaller beam."""

    fields: ClassVar[Fields] = TREES
    defaults: ClassVar[Mapping[str, object]] = {
        "task": "parsing",
        "data.max_ratio": 0.0,  # a tree has several times as many tokens as its sentence
        "text.joint": False,  # sentences and trees have no token in common
        "model.tie": "output",
        "training.monitor": "f1",
        "decoding.beam": 10,
        "decoding.alpha": 0.3,
        "decoding.extra_length": 300,
        "decoding.loop_guard": False,  # repeated tokens are normal in a tree
    }
    monitors = ("loss", "perplexity", "precision", "recall", "complete", "f1")

    @classmethod
    def infer_defaults(cls, values: Values) -> Values:
        """All hypotheses are candidates: the first one that is a tree is the output."""
        decoding = values.get("decoding", {})
        if not isinstance(decoding, dict):
            return values
        nbest = decoding["beam"] if decoding.get("search", "beam") == "beam" else 1
        return values | {"decoding": {"nbest": nbest} | decoding}

    @model_validator(mode="after")
    def check_treebanks(self) -> Self:
        """Check that the model can write trees."""
        if self.text.joint:
            raise SettingError("text.joint", "sentences and trees have no token in common; write false")
        if isinstance(self.model, MaskedSettings):
            raise SettingError("model.kind", 'a tree is written token by token; write "transformer" or "recurrent"')
        return self


@dataclass(frozen=True)
class Parsing(Seq2Seq[ParsingRecipe]):
    """{"words"} -> {"tree", "repaired", "score", "tokens", "parts"}; a tree is written with brackets on one line."""

    split_punctuation: bool = False
    """True if punctuation and the endings of contractions in a text are words of their own."""

    name = "parsing"
    exchange = Exchange("translate")
    title = "the syntax tree of a sentence"
    recipe_type = ParsingRecipe
    options = ("split_punctuation", *Seq2Seq.options)
    scored_by_store = False
    target_text = TREE_TOKENS
    file_format = FileFormat(".ptb", lambda item: f"{item['tree']}\n")
    has_picture = True

    def configure(self, **options: object) -> Self:
        """`split_punctuation` separates punctuation from the words of a text."""
        split = bool(options.pop("split_punctuation", self.split_punctuation))
        return replace(super().configure(**options), split_punctuation=split)

    def parse(self, value: str | Mapping[str, object], where: str = "the input") -> Example:
        if isinstance(value, str):
            return {"words": split_words(value) if self.split_punctuation else value.split()}
        given = value.get("words", value.get("text"))
        if not isinstance(given, str | list) or not all(isinstance(word, str) for word in given):
            raise missing_key("words", self.recipe.fields, where)
        check_text(value, where)
        listed = given.split() if isinstance(given, str) else given
        return {**{key: item for key, item in value.items() if key not in ("text", "tree")}, "words": listed}

    def predict(self, engine: nn.Module | Engine, examples: Iterable[Example]) -> Iterator[Prediction]:
        waiting: deque[Example] = deque()

        def sources() -> Iterator[Example]:
            for example in examples:
                waiting.append(example)
                yield {"src": sentence_text(example["words"])}

        for translation in super().predict(engine, sources()):
            yield parse_of(waiting.popleft()["words"], translation, self.predicts_tags)

    @property
    def predicts_tags(self) -> bool:
        """True if the model writes a word as its part of speech, not as XX or as itself."""
        written = {source.leaves for source in self.recipe.data.train}
        return "tags" in written and "words" not in written

    def to_line(self, example: Example) -> str:
        return sentence_text(example["words"])

    def force(self, example: Example, target: str) -> Prediction:
        return {"tree": target, "repaired": False, "score": None, "tokens": target.split(), "parts": 1}

    def output(self, prediction: Prediction) -> Prediction:
        return {key: prediction[key] for key in ("tree", "repaired", "score")}

    def score(self, examples: Sequence[Example], predictions: Sequence[Prediction]) -> dict[str, Score]:
        """`f1`, `precision`, `recall` and `complete`, `tagging` if the model predicts parts of speech, and `repaired`,
        the share of repaired outputs, all in percent."""
        return dict(self.scorer(examples, predictions)(np.ones(len(examples), dtype=np.int64)))

    def scorer(self, examples: Sequence[Example], predictions: Sequence[Prediction]) -> Scorer:
        gold, predicted = [tree_of(example["tree"]) for example in examples], predicted_trees(predictions)
        tallies = [
            bracket_tally(tree, true) | {"repaired": int(item["repaired"]), "words": len(leaves(true))}
            for tree, true, item in zip(predicted, gold, predictions, strict=True)
        ]
        if self.predicts_tags:  # EVALB leaves out sentences whose punctuation is tagged otherwise; here all words count
            for item, true, tally in zip(predictions, gold, tallies, strict=True):
                tagged = leaves(tree_of(item["tree"])) if item["tree"] else []
                tally["right_tags"] = sum(
                    leaf.label == other.label for leaf, other in zip(tagged, leaves(true), strict=False)
                )
        signature = Message("outputs that were not a tree, of {count:,}", count=len(predictions))

        def scores(sums: Mapping[str, float]) -> dict[str, Score]:
            brackets, repaired = sum_brackets(sums).scores(), 100.0 * sums["repaired"] / len(predictions)
            selected = {name: brackets[name] for name in ("f1", "precision", "recall", "complete")}
            if "right_tags" in sums:
                words = Message("{count:,} words", count=int(sums["words"]))
                selected["tagging"] = Score("tagging accuracy", 100.0 * sums["right_tags"] / sums["words"], words)
            return selected | {"repaired": Score("repaired", repaired, signature)}

        return tally_scorer(tallies, scores)

    def describe(self, example: Example, prediction: Prediction) -> Description:
        text, brackets, gold = sentence_text(example["words"]), prediction["tree"], example.get("tree")
        (predicted,) = predicted_trees([prediction])
        output = [PhraseTree(tree_of(brackets), brackets, self.predicts_tags)] if brackets else []
        if not gold:
            return Description(text, output)
        reference = PhraseTree(tree_of(gold), gold, self.predicts_tags)
        correct = bracket_scores([predicted], [reference.tree])["complete"].value == 100
        return Description(text, output, reference, correct)

    def tables(self, examples: Sequence[Example], predictions: Sequence[Prediction], page: bool) -> Tables:
        """Scores of the brackets of each label, and on a page by the length of the sentence."""
        gold, predicted = [tree_of(example["tree"]) for example in examples], predicted_trees(predictions)
        tables: Tables = [counts_table("phrases", "label", counts_by_label(predicted, gold), "brackets")]
        if not page:
            return tables
        bins: dict[tuple[int, str], list[tuple[Tree, Tree]]] = {}
        for example, *pair in zip(examples, predicted, gold, strict=True):
            bins.setdefault(bin_name(len(example["words"]), LENGTHS), []).append((pair[0], pair[1]))
        rows: list[list[str | float]] = []
        for (_, name), pairs in sorted(bins.items()):
            scores = bracket_scores([tree for tree, _ in pairs], [tree for _, tree in pairs])
            rows.append([name, len(pairs), scores["f1"].value, scores["complete"].value])
        columns = {"words": "text", "sentences": "count", "F1": "percent", "complete match": "percent"}
        return [*tables, Table("scores by length", columns, rows)]

    def target_tokens(self, example: Example, prediction: Prediction) -> list[int]:
        return super().target_tokens(example, {"translation": " ".join(prediction["tokens"])})

    def attention(self, model: nn.Module, example: Example, prediction: Prediction) -> list[AttentionMap]:
        return super().attention(model, {"src": sentence_text(example["words"])}, prediction)

    def call_model(self, model: nn.Module, example: Example, prediction: Prediction) -> None:
        super().call_model(model, {"src": sentence_text(example["words"])}, prediction)


def split_words(line: str) -> list[str]:
    """The words of a line; punctuation and the endings of contractions are words of their own, as in treebanks."""
    return ENDINGS.sub(r" \1", PUNCTUATION.sub(r" \1 ", line)).split()


def tree_of(brackets: str) -> Tree:
    return next(parsed([brackets], "the tree"))


def predicted_trees(predictions: Sequence[Prediction]) -> list[Tree]:
    """The trees of predictions without parts of speech; a tree without words for an empty sentence."""
    return [strip_tags(tree_of(item["tree"])) if item["tree"] else Tree(ROOT) for item in predictions]


def parse_of(sentence: list[str], translation: Prediction, keep_tags: bool = False) -> Prediction:
    """The first hypothesis that is a tree of the sentence; if there is none, the best one, repaired."""
    if not sentence or not translation["hypotheses"]:
        return {"tree": "", "repaired": False, "score": 0.0, "tokens": [], "parts": 0}
    whole = translation["parts"] > 1
    hypotheses = translation["hypotheses"]
    texts = [translation["translation"]] if whole else [item["text"] for item in hypotheses]
    trees = [from_tokens(text.split(), sentence) for text in texts]
    best = next((number for number, tree in enumerate(trees) if not tree.repaired), 0)
    used = hypotheses if whole else hypotheses[best : best + 1]
    return {
        "tree": to_brackets(trees[best].tree if keep_tags else strip_tags(trees[best].tree)),
        "repaired": trees[best].repaired,
        "score": sum(item["score"] for item in used) / max(1, len(used)),
        "tokens": texts[best].split(),
        "parts": translation["parts"],
    }
