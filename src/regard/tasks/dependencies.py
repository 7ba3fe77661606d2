"""Dependency parsing: the head of each word, and its relation to it.

                  root
     ┌det─┐┌nsubj┐│┌punct┐            words        The   dogs    slept   .
     ▼    │▼     │▼│     ▼            heads        2     3       0       3
    The  dogs   slept    .            relations    det   nsubj   root    punct

    loss = - sum_i [ log p(head_i) + log p(relation_i | head_i) ]

The scores are those of biaffine attention over any text encoder (`models/biaffine.py`). The predicted heads are the
maximum spanning tree of log p (`spanning_tree.py`), so they are always a tree with one root; or, if `parser.search` is
"greedy", the most probable head of each word by itself. The relation is the most probable one for the head.

The first token of a word stands for the word, as in tagging. Words that the model does not read, because they are
beyond data.max_length or have no tokens, depend on the root word with the relation "dep", which means unspecified.

The label of a word is one number, p L + l: p is the position of the first token of its head, 0 ([CLS]) for the root,
and l the number of its relation. UNKNOWN is a word without a known label, IGNORE a token that is not the first of a
word.

B sentences, T tokens, W words of a sentence, L relations.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import ClassVar, Literal, Self

import numpy as np
import torch
from torch import Tensor, nn

from regard.config import Field, Settings
from regard.data.batch import IGNORE, Batch
from regard.data.conllu import to_conllu
from regard.data.fields import DEPENDENCIES, Fields
from regard.data.inputs import Input, Inputs
from regard.data.planning import groups_by_length
from regard.errors import UserError
from regard.losses.crossentropy import Loss
from regard.messages import Message
from regard.metrics.parsing import Parse, attachment_scores, counts_by_relation, paired_arcs
from regard.metrics.score import Score
from regard.metrics.significance import Scorer, mean_scorer
from regard.models.biaffine import ArcScores, BiaffineHead, BiaffineParser
from regard.models.text_encoder import EncoderModel, build_encoder
from regard.tasks.base import Example, Exchange, FileFormat, Prediction
from regard.tasks.checks import ExpectedLoss
from regard.tasks.encoders import Outputs, words_of
from regard.tasks.labelled import Labelled, LabelledChecks, LabelledRecipe, classification_loss, label_ids
from regard.tasks.spanning_tree import best_tree, greedy_heads
from regard.tasks.tables import MAX_ERRORS, bin_name, counts_table, frequent_pairs
from regard.tasks.tagging import TagWindow, tag_window
from regard.viz.content import DependencyTree, Description, Table, Tables
from regard.viz.report import AttentionMap

UNKNOWN = -1
"""Label of a word whose head or relation is not known: it is a possible head of others, and has no loss."""
UNSPECIFIED = "dep"
"""The relation of words that the model does not read, the "unspecified dependency" of Universal Dependencies."""
BATCH_TOKENS = 4096
"""Tokens of one batch of predictions, padding included. The scores of all relations of all pairs are in memory."""
LENGTHS = (5, 10, 20, 40)
"""Bins of sentences by their number of words."""

Search = Literal["tree", "greedy"]


class ParserSettings(Settings):
    """Settings of the biaffine head; the sizes are those of Dozat and Manning 2017, section 3.1."""

    arc_size: int = Field(500, gt=0, le=1 << 14, description="size of the vectors that score dependency heads")
    relation_size: int = Field(100, gt=0, le=1 << 12, description="size of the vectors that score relations")
    dropout: float = Field(0.33, ge=0, lt=1, description="dropout on hidden states and on head and relation vectors")
    search: Search = Field(
        "tree",
        description="tree: the best tree with one root (maximum spanning tree); greedy: the best head per word, "
        "which may not form a tree",
    )


class DependenciesRecipe(LabelledRecipe):
    """The recipe of a dependency parser."""

    fields: ClassVar[Fields] = DEPENDENCIES
    defaults = LabelledRecipe.defaults | {
        "task": "dependencies", "training.monitor": "las", "data.max_length": 256,
        "model.kind": "recurrent",  # learns more than a Transformer from a few thousand sentences
    }  # fmt: skip
    monitors = ("loss", "uas", "las")

    parser: ParserSettings = ParserSettings()

    @property
    def has_attention(self) -> bool:
        """True: the probabilities of the heads are attention weights."""
        return True


class DependenciesChecks(LabelledChecks["Dependencies"]):
    """Hooks for heads and relations."""

    label_checks = ("one-class", "unseen", "rare")

    def label_values(self, example: Example) -> Sequence[str | float]:
        return list(example.get("relations", ()))

    def expected_loss(self, task: "Dependencies", batch: Batch) -> ExpectedLoss:
        """n words of a sentence have n possible heads each: the root, and all other words."""
        words = (batch.labels != IGNORE).sum(dim=1)
        heads = float((words * words.clamp(min=1).log()).sum() / words.sum().clamp(min=1))
        return ExpectedLoss(
            heads + math.log(task.outputs), Message("mean ln(words) + ln {labels}", labels=task.outputs)
        )

    def overfit_bound(self, task: "Dependencies", batch: Batch) -> float:
        return 0.25 * self.expected_loss(task, batch).value


@dataclass(frozen=True)
class Dependencies(Labelled[DependenciesRecipe]):
    """{"words"} -> {"words", "heads", "relations"}; heads count from 1, and the head of the root is 0."""

    greedy: bool | None = None
    """True if each word gets its best head; None: as the recipe says."""

    name = "dependencies"
    exchange = Exchange("parse")
    title = "the head of each word and its relation to it"
    options = ("search",)
    recipe_type = DependenciesRecipe
    pooled = False
    per_token = True
    file_format = FileFormat(".conllu", to_conllu)  # other columns of an example, e.g. parts of speech, are kept
    has_picture = True
    packs = False  # scores are of all pairs of words of a sentence
    checks = DependenciesChecks()

    def configure(self, **options: object) -> Self:
        """`search` is "tree" or "greedy"."""
        search = options.pop("search", None)
        task = super().configure(**options)
        if search not in (None, "tree", "greedy"):
            problem = f"task dependencies has no search {search!r}"
            raise UserError(problem, "set `search` to tree or greedy", code="invalid-option", where="search")
        return task if search is None else replace(task, greedy=search == "greedy")

    # ---- inputs and loss --------------------------------------------------------------------------------------------

    def encode(self, example: Example) -> list[Input]:
        window, left_out = self.read_words(example)
        encoded = self.tokenizer.build_input(window.tokens)
        labels = [float(IGNORE)] * len(encoded.ids)
        for position in window.positions:
            labels[position] = float(UNKNOWN)
        if "heads" in example:
            position_of = {0: 0} | {word + 1: at for word, at in zip(window.words, window.positions, strict=True)}
            for word, position in zip(window.words, window.positions, strict=True):
                head = position_of.get(example["heads"][word])
                relation = label_ids(self.labels).get(example["relations"][word])
                if head is not None and relation is not None:
                    labels[position] = float(head * len(self.labels) + relation)
        return [Input(encoded.ids, encoded.segments, labels, left_out)]

    def read_words(self, example: Example) -> tuple[TagWindow, int]:
        """The words that the model reads with the position of each in [CLS] tokens [SEP]; how many tokens are left."""
        tokens, room = self.tokenizer.tokenize_words(example["words"]), self.recipe.data.max_length - 2
        return tag_window(tokens[:room], 0, min(room, len(tokens)), 0), max(0, len(tokens) - room)

    def new_model(self) -> EncoderModel:
        encoder, parser = build_encoder(self.recipe.model, len(self.tokenizer)), self.recipe.parser
        width = encoder.settings.d_model
        head = BiaffineHead(width, parser.arc_size, parser.relation_size, self.outputs, parser.dropout)
        return BiaffineParser(encoder, head, parser.dropout)

    def loss(self, model: nn.Module, batch: Batch) -> Loss:
        heads, _ = self.targets(batch.labels)
        scores = model(batch.source, batch["segments"], batch.labels != IGNORE, heads.clamp(min=0))
        return self.arc_loss(scores, batch.labels)

    def arc_loss(self, scores: ArcScores, labels: Tensor) -> Loss:
        """Cross-entropy of the heads, and of the relations to the right heads; label smoothing is for relations."""
        heads, relations = self.targets(labels)
        smoothing = self.recipe.training.label_smoothing
        arc = classification_loss(scores.arcs.flatten(0, 1), heads.flatten())
        relation = classification_loss(scores.relations.flatten(0, 1), relations.flatten(), smoothing)
        return Loss(arc.sum + relation.sum, arc.count, arc.nll + relation.nll)

    def targets(self, labels: Tensor) -> tuple[Tensor, Tensor]:
        """Labels (B, T) -> the position of the head and the relation of each word, (B, T) each; IGNORE for none."""
        numbers, known = labels.long(), labels >= 0
        heads, relations = numbers // len(self.labels), numbers % len(self.labels)
        return heads.where(known, IGNORE), relations.where(known, IGNORE)

    # ---- prediction -------------------------------------------------------------------------------------------------

    @torch.no_grad()
    def run(self, model: nn.Module, encoded: Sequence[list[Input]]) -> Outputs:
        """For each example the scores of heads (T, T) and the best relation to each head (T, T)."""
        device = next(model.parameters()).device
        outputs: list[list[Tensor]] = [[] for _ in encoded]
        nll, count = 0.0, 0
        for group in groups_by_length([len(item.ids) for (item,) in encoded], BATCH_TOKENS):
            batch = Inputs.of([encoded[index] for index in group], per_token=True).pad(np.arange(len(group))).to(device)
            arcs, relations = model(batch.source, batch["segments"], batch.labels != IGNORE)
            heads = self.targets(batch.labels)[0].clamp(min=0)
            of_heads = relations.gather(2, heads[:, :, None, None].expand(-1, -1, 1, self.outputs))[:, :, 0]
            loss = self.arc_loss(ArcScores(arcs, of_heads), batch.labels)
            nll, count = nll + float(loss.nll), count + int(loss.count)
            for index, *tensors in zip(group, arcs.float().cpu(), relations.argmax(dim=-1).cpu(), strict=True):
                size = len(encoded[index][0].ids)
                outputs[index] = [tensor[:size, :size] for tensor in tensors]
        return Outputs(outputs, nll, count)

    def decode(self, example: Example, inputs: Sequence[Input], logits: Sequence[Tensor]) -> Prediction:
        words, (window, _) = list(example["words"]), self.read_words(example)
        log_p, relations = head_log_probabilities(logits[0], window), logits[1]
        greedy = self.recipe.parser.search == "greedy" if self.greedy is None else self.greedy
        found = (greedy_heads if greedy else best_tree)(log_p.numpy())
        numbers = [0, *(word + 1 for word in window.words)]  # of the root and of each word that was read
        positions = [0, *window.positions]
        root = next((numbers[word] for word, head in enumerate(found, 1) if head == 0), 0)
        heads, names = [root] * len(words), [UNSPECIFIED] * len(words)
        for word, head in enumerate(found, 1):
            heads[numbers[word] - 1] = numbers[head]
            names[numbers[word] - 1] = self.labels[int(relations[positions[word], positions[head]])]
        if not found:  # nothing was read: each word depends on the one before it
            heads = list(range(len(words)))
        return {"words": words, "heads": heads, "relations": names}

    def parse(self, value: str | Mapping[str, object], where: str = "the input") -> Example:
        """A line is a sentence; words and punctuation are separated as BERT does."""
        if isinstance(value, str) and value.strip():
            value = {"words": words_of(value, self.tokenizer)}
        example = super().parse(value, where)
        example.pop("relations", None)
        return example

    # ---- scores and display -----------------------------------------------------------------------------------------

    def score(self, examples: Sequence[Example], predictions: Sequence[Prediction]) -> dict[str, Score]:
        return attachment_scores(parses(predictions), parses(examples))

    def scorer(self, examples: Sequence[Example], predictions: Sequence[Prediction]) -> Scorer:
        pairs = zip(parses(predictions), parses(examples), strict=True)
        sentences = [list(paired_arcs([parse], [gold])) for parse, gold in pairs]
        right = [
            {"UAS": sum(arc[0] == gold[0] for arc, gold in arcs), "LAS": sum(arc == gold for arc, gold in arcs)}
            for arcs in sentences
        ]
        return mean_scorer(right, list(map(len, sentences)))

    def describe(self, example: Example, prediction: Prediction) -> Description:
        """The arcs twice: as they are, and as predicted."""
        words, text = example["words"], " ".join(example["words"])
        output = DependencyTree(words, prediction["heads"], prediction["relations"])
        if "heads" not in example:
            return Description(text, [output])
        reference = DependencyTree(words, example["heads"], example["relations"])
        return Description(text, [output], reference, reference == output)

    def tables(self, examples: Sequence[Example], predictions: Sequence[Prediction], page: bool) -> Tables:
        """Scores of each relation, its head included; on a page also by length, and relations taken for others."""
        counts = counts_by_relation(parses(predictions), parses(examples))
        tables = [counts_table("relations", "relation", counts, "words")]
        if not page:
            return [*tables]
        bins: dict[tuple[int, str], list[int]] = {}
        for number, example in enumerate(examples):
            bins.setdefault(bin_name(max(1, len(example["words"])), LENGTHS), []).append(number)
        rows: list[list[str | float]] = []
        for (_, name), numbers in sorted(bins.items()):
            scores = self.score([examples[n] for n in numbers], [predictions[n] for n in numbers])
            rows.append([name, len(numbers), scores["uas"].value, scores["las"].value])
        columns = {"words": "text", "sentences": "count", "UAS": "percent", "LAS": "percent"}
        wrong = (
            pair
            for example, prediction in zip(examples, predictions, strict=True)
            for pair in zip(example["relations"], prediction["relations"], strict=True)
            if pair[0] != pair[1]
        )
        errors = frequent_pairs("frequent errors", ("relation", "prediction"), wrong, MAX_ERRORS)
        return [*tables, Table("scores by length", columns, rows), *errors]

    def attention(self, model: nn.Module, example: Example, prediction: Prediction) -> list[AttentionMap]:
        """The attention of the encoder if it has any, and the probability of every word as the head of every other."""
        window, _ = self.read_words(example)
        if not window.words:
            return []
        encoder = super().attention(model, example, prediction)
        ((arcs, _),) = self.run(model, [self.encode(example)]).logits
        words = [example["words"][word] for word in window.words]
        weights = head_log_probabilities(arcs, window).exp().float().numpy()[None, None]
        return [*encoder, AttentionMap("heads", words, ["ROOT", *words], weights)]


def head_log_probabilities(arcs: Tensor, window: TagWindow) -> Tensor:
    """Scores of heads between tokens (T, T) -> log p (W, W + 1) between words; the first column is the root."""
    return arcs[window.positions][:, [0, *window.positions]].double().log_softmax(dim=-1)


def parses(items: Sequence[Example]) -> list[Parse]:
    return [Parse(item["heads"], item["relations"]) for item in items]
