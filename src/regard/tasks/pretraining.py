"""Pretraining: which words are hidden, and does B come after A? (Devlin et al. 2018, section 3.1)

    L = - 1/M sum_m log p(w_m)  -  1/B sum_b log p(next_b)          A.2: the two means are added

    training      inputs and hidden words drawn anew in every epoch
    scoring       hidden words drawn once for all; both answers, right or wrong
    predicting    a text with [MASK] in it -> the likeliest pieces for each

B inputs, M hidden words, V vocabulary; `*` is (B, T) padded or (N,) packed.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from itertools import islice
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from regard.data.batch import IGNORE, Batch
from regard.data.inputs import Input, Inputs
from regard.data.planning import groups_by_length
from regard.data.pretraining import InputBuilder, SampledPairs, TokenizedDocuments, choose_masked
from regard.data.pretraining_batches import evaluation_batches
from regard.data.settings import DocumentDataSettings
from regard.errors import UserError
from regard.losses.crossentropy import Loss
from regard.losses.projected import projected_cross_entropy
from regard.metrics.score import Score, perplexity
from regard.random import rng
from regard.text.bert import BertInput, BertTokenizer
from regard.training.task import Sample, Validation

AT_ONCE = 8192
"""Tokens, padding included, that are scored or predicted together."""
AHEAD = 1024
"""Texts looked at together for those of like length."""
SAMPLE = (8, 40)
"""Pieces of a sentence that is shown."""


@dataclass(frozen=True)
class Answers:
    """How both questions about some documents were answered: summed -log p, right ones, and how many were asked."""

    nll: float = 0.0
    right: int = 0
    words: int = 0
    next_nll: float = 0.0
    next_right: int = 0
    inputs: int = 0

    def __add__(self, other: "Answers") -> "Answers":
        return Answers(*(mine + theirs for mine, theirs in zip(vars(self).values(), vars(other).values(), strict=True)))


@dataclass(frozen=True)
class Pretraining:
    """The task. It holds the vocabulary and settings, never a model: models are handed in."""

    vocabulary: BertTokenizer
    data: DocumentDataSettings = field(default_factory=DocumentDataSettings)
    longest: int = 512
    """The most tokens of an input the model has positions for."""
    label_smoothing: float = 0.0
    seed: int = 1
    """What is hidden in validation and evaluation depends on it."""
    valid: TokenizedDocuments | None = None
    samples: int = 3
    nbest: int = 5
    """Pieces told for each [MASK]."""

    def loss(self, model: nn.Module, batch: Batch) -> Loss:
        """The objective times M, the hidden words of the whole step, by which it will be divided."""
        projection, follows = model(batch.source, batch["segments"], batch["masked_positions"])
        words = projected_cross_entropy(projection, batch.labels, self.label_smoothing, ignore=self.vocabulary.pad)
        follows = follows.to(torch.promote_types(follows.dtype, torch.float32))
        follows_nll = F.cross_entropy(follows, batch["next_labels"], ignore_index=IGNORE, reduction="sum")
        return Loss(words.sum + batch["next_weight"] * follows_nll, words.count, words.nll)

    def validate(self, model: nn.Module) -> Validation:
        """Both answers about the validation documents, and some sentences with what was filled in."""
        assert self.valid is not None, "a task that is trained has validation data"
        found = self.answers(model, self.valid)
        loss = found.nll / max(1, found.words) + found.next_nll / max(1, found.inputs)
        metrics = {score.name.replace(" ", "_"): score.value for score in scores_of(found)}
        return Validation({"loss": loss, **metrics}, self._samples(model, self.valid))

    def score(self, model: nn.Module, store: TokenizedDocuments) -> list[Score]:
        """Accuracy and perplexity of hidden words, and how often it is known whether B comes next."""
        data = self.data
        how = f"{100 * data.masked:g} % hidden, inputs of {data.max_length} tokens, seed {self.seed}"
        return scores_of(self.answers(model, store), how + (", whole words" if data.whole_words else ""))

    @torch.no_grad()
    def answers(self, model: nn.Module, store: TokenizedDocuments) -> Answers:
        """Ask a model, which is in evaluation mode, everything about some documents."""
        device, total = next(model.parameters()).device, Answers()
        for batch in evaluation_batches(store, self.data, self.vocabulary, AT_ONCE, self.seed):
            batch = batch.to(device)
            words, follows = model(batch.source, batch["segments"], batch["masked_positions"])
            total += Answers(*judged(words.logits(), batch.labels), *judged(follows, batch["next_labels"]))
        return total

    @torch.no_grad()
    def predict(self, model: nn.Module, examples: Iterable[dict[str, Any]]) -> Iterator[dict[str, Any]]:
        """For each {"text": "Paris is the [MASK] of France."} the likeliest pieces at every [MASK].

        With a second text, {"text": ..., "pair": ...}, also the probability that it comes next.
        """
        examples = iter(examples)
        while some := list(islice(examples, AHEAD)):
            inputs = [self._input(example) for example in some]
            said: list[dict[str, Any]] = [{} for _ in some]
            for group in groups_by_length([len(each.ids) for each in inputs], AT_ONCE):
                for place, answer in zip(group, self._fill(model, [inputs[place] for place in group]), strict=True):
                    said[place] = answer
            for example, answer in zip(some, said, strict=True):
                if example.get("pair") is None:
                    del answer["next"]
                yield {**example, **answer}

    def _input(self, example: dict[str, Any]) -> BertInput:
        tokenize, pair = self.vocabulary.tokenize, example.get("pair")
        first, second = tokenize(example["text"]), None if pair is None else tokenize(pair)
        found = self.vocabulary.build_input(first, second, self.longest)
        masks = [*first.ids, *(second.ids if second else [])].count(self.vocabulary.mask)
        if found.ids.count(self.vocabulary.mask) < masks:
            raise UserError(
                f"a [MASK] lies beyond the {self.longest} tokens the model reads: {example['text'][:60]!r}...",
                "give a shorter text",
            )
        return found

    def _fill(self, model: nn.Module, inputs: list[BertInput]) -> Iterator[dict[str, Any]]:
        device, rows = next(model.parameters()).device, [[Input(each.ids, each.segments, [IGNORE])] for each in inputs]
        batch = Inputs.of(rows, per_token=False).pad(np.arange(len(inputs))).to(device)
        owners, places = (batch["source"] == self.vocabulary.mask).nonzero(as_tuple=True)
        words, follows = model(batch.source, batch["segments"], owners * batch["source"].size(1) + places)
        best = torch.topk(words.logits().float().softmax(dim=-1), min(self.nbest, len(self.vocabulary)))
        masks: list[list[list[dict[str, Any]]]] = [[] for _ in inputs]
        for owner, values, ids in zip(owners.tolist(), best.values.tolist(), best.indices.tolist(), strict=True):
            pieces = zip(self.vocabulary.tokens(ids), values, strict=True)
            masks[owner].append([{"piece": piece, "probability": value} for piece, value in pieces])
        follow = follows.float().softmax(dim=-1)[:, 0].tolist()
        return ({"masks": found, "next": value} for found, value in zip(masks, follow, strict=True))

    @torch.no_grad()
    def _samples(self, model: nn.Module, store: TokenizedDocuments) -> list[Sample]:
        """Some sentences with hidden words, as they stand, and as the model fills them in."""
        lengths = np.diff(store.sentences)
        fit = np.flatnonzero((lengths >= SAMPLE[0]) & (lengths <= min(SAMPLE[1], self.data.max_length - 2)))
        some = fit[: self.samples]
        nothing = np.zeros(len(some), np.int64)
        drawn = SampledPairs(store.sentences[some], lengths[some], nothing, nothing, np.full(len(some), IGNORE))
        row = InputBuilder(store, self.vocabulary, self.data.whole_words)(drawn)
        places = choose_masked(row, self.data.masked, rng(self.seed))
        hidden, filled = row.ids.copy(), row.ids.copy()
        hidden[places] = self.vocabulary.mask
        begins, device = np.cumsum(row.lengths) - row.lengths, next(model.parameters()).device
        for first, length in zip(begins, row.lengths, strict=True):
            there = places[(places >= first) & (places < first + length)]
            rows = [[Input(hidden[first : first + length].tolist(), [0] * int(length), [IGNORE])]]
            batch = Inputs.of(rows, per_token=False).pad(np.arange(1)).to(device)
            words, _ = model(batch.source, batch["segments"], torch.as_tensor(there - first, device=device))
            filled[there] = words.logits().argmax(dim=-1).cpu().numpy()
        texts = ([self.written(ids[f + 1 : f + n - 1]) for ids in (hidden, row.ids, filled)]
                 for f, n in zip(begins, row.lengths, strict=True))  # fmt: skip
        return [Sample(*text) for text in texts]

    def written(self, ids: Iterable[int]) -> str:
        """Pieces as one reads them, [MASK] too."""
        return " ".join(self.vocabulary.tokens(ids)).replace(" ##", "")


def judged(logits: Tensor, labels: Tensor) -> tuple[float, int, int]:
    """-log p of the labels, how many are the likeliest, and how many are asked for: logits (M, V), labels (M,)."""
    asked = labels != IGNORE
    nll = F.cross_entropy(logits.float(), labels, ignore_index=IGNORE, reduction="sum")
    return float(nll), int(((logits.argmax(dim=-1) == labels) & asked).sum()), int(asked.sum())


def scores_of(found: Answers, how: str = "") -> list[Score]:
    """Percentages and the perplexity of hidden words; nothing of what was not asked."""
    how = f"; {how}" if how else ""
    words, inputs = f"{found.words:,} words{how}", f"{found.inputs:,} pairs, half of them of two documents{how}"
    scores = [
        Score("masked accuracy", 100 * found.right / max(1, found.words), words),
        Score("masked perplexity", perplexity(found.nll, max(1, found.words)), words),
    ]
    if found.inputs:
        scores.append(Score("next sentence accuracy", 100 * found.next_right / found.inputs, inputs))
    return scores
