"""Parsing as translation: the words of a sentence in, its tree without words out, token by token.

    John has a dog .     ->     (S (NP XX )NP (VP XX (NP XX XX )NP )VP XX )S

    p(tree | words) = prod_t p(token_t | token_<t, words)

Vinyals et al. 2015, "Grammar as a Foreign Language", with a recurrent net; Vaswani et al. 2017, section 6.3, with a
Transformer. Nothing tells the model that brackets close or how many words there are. It learns both nearly always, and
where it does not, its tokens are repaired into a tree over exactly the words (trees.py, `built`).
"""

from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from torch import nn

from regard.decoding.engine import Engine
from regard.decoding.settings import DecodingSettings
from regard.metrics.brackets import bracket_scores
from regard.metrics.score import Score
from regard.tasks.translation import Prediction, Translation
from regard.trees import ROOT, Tree, from_tokens, sentence_text, strip_tags, to_brackets, words


@dataclass(frozen=True)
class Parse:
    """The tree of a sentence, whether the model's tokens had to be repaired for it, their score, and they themselves.

    A sentence of no words has a tree of no phrases.
    """

    words: list[str]
    tree: Tree
    repaired: bool
    score: float
    tokens: list[str]
    parts: int = 1

    @property
    def brackets(self) -> str:
        """The tree on one line, as treebanks are written; of no words, nothing."""
        return to_brackets(self.tree) if self.words else ""


@dataclass(frozen=True)
class Parsing(Translation):
    """The task. It translates, and makes trees of what comes out."""

    valid_trees: Sequence[Tree] = ()

    @property
    def quick(self) -> DecodingSettings:
        """Greedy; a row of words is no loop here either."""
        return super().quick.model_copy(update={"loop_guard": self.decoding.loop_guard})

    def parse(
        self,
        model: nn.Module | Engine,
        sentences: Iterable[Sequence[str]],
        decoding: DecodingSettings | None = None,
    ) -> Iterator[Parse]:
        """Parse any number of sentences, each a list of words, in bounded memory and in their order."""
        waiting: deque[list[str]] = deque()

        def lines() -> Iterator[str]:
            for sentence in sentences:
                waiting.append(list(sentence))
                yield sentence_text(sentence)

        for prediction in self.predict(model, lines(), decoding):
            yield as_parse(waiting.popleft(), prediction)

    def valid_metrics(self, outputs: Sequence[str], references: Sequence[str]) -> dict[str, float]:
        """Brackets against the gold trees; the share of outputs that had to be repaired."""
        if not self.valid_scores:
            return {}
        paired = zip(self.valid_trees, outputs, strict=True)
        found = [as_parse(words(tree), Prediction("", [text], [])) for tree, text in paired]
        return {name: score.value for name, score in tree_scores(found, self.valid_trees).items()}


def as_parse(sentence: list[str], prediction: Prediction) -> Parse:
    """The likeliest text that is a tree as it stands; where there is none, the likeliest of all, repaired."""
    if not sentence:
        return Parse(sentence, Tree(ROOT), False, 0.0, [], parts=0)
    texts = [text.split() for text in prediction.texts]
    trees = [from_tokens(tokens, sentence) for tokens in texts]
    best = next((number for number, tree in enumerate(trees) if not tree.repaired), 0)
    used = prediction.hypotheses if prediction.parts > 1 else prediction.hypotheses[best : best + 1]
    score = sum(hypothesis.score for hypothesis in used) / max(1, len(used))
    return Parse(sentence, strip_tags(trees[best].tree), trees[best].repaired, score, texts[best], prediction.parts)


def tree_scores(found: Sequence[Parse], gold: Sequence[Tree]) -> dict[str, Score]:
    """`f1`, `precision`, `recall` and `complete`, and `repaired`: the share of trees that were, all in percent."""
    scores = bracket_scores([parse.tree for parse in found], gold)
    repaired = 100.0 * sum(parse.repaired for parse in found) / len(found)
    chosen = {name: scores[name] for name in ("f1", "precision", "recall", "complete")}
    return chosen | {"repaired": Score("repaired", repaired, f"outputs that were no tree of {len(found):,}")}
