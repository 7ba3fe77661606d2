"""Translation: a sentence in, a sentence out. The one path from text to text that everybody enters by `predict`.

    text -> ids -> batch -> state -> search -> hypotheses -> text

B sentences, S source, T target, V vocabulary.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import zip_longest
from typing import Any, ClassVar, Protocol

import numpy as np
import torch
from torch import nn

from regard.attention.layouts import Attentions, Padded
from regard.data.batch import Batch
from regard.data.pairs import Pairs
from regard.data.planning import groups_by_length
from regard.decoding.engine import DecodingRequest, Engine
from regard.decoding.hypothesis import Hypothesis
from regard.decoding.settings import DecodingSettings
from regard.decoding.stepper import Stepper, Symbols
from regard.engines.choose import as_engine
from regard.errors import UserError
from regard.losses.crossentropy import Loss
from regard.losses.projected import projected_cross_entropy, projected_r_drop
from regard.losses.reinforce import reinforce
from regard.metrics.score import Score, exact_match, perplexity
from regard.metrics.translation import bleu, chrf, ter
from regard.tasks.streaming import cut, stretches
from regard.text.symbols import BOS, EOS, PAD
from regard.text.tokenizer import Tokenizer
from regard.training.task import Sample, Validation

SYMBOLS = Symbols(bos=BOS, eos=EOS, pad=PAD)
SCORES: dict[str, Callable[[Sequence[str], Sequence[str]], Score]] = {
    "bleu": bleu,
    "chrf": chrf,
    "ter": ter,
    "exact_match": exact_match,
}


class TranslationModel(Stepper[Any, Any], Protocol):
    """What this task asks of a model, beside being a module whose forward takes source and target tokens."""

    def attentions(self, src: Any, tgt: Any) -> Attentions: ...


@dataclass(frozen=True)
class Objective:
    """What is minimised: cross-entropy with label smoothing, and how much two passes with dropout may differ."""

    label_smoothing: float = 0.1
    r_drop: float = 0.0


@dataclass(frozen=True)
class Prediction:
    """A source line and its translations, best first; `parts` says into how many a long line was cut."""

    source: str
    texts: list[str]
    hypotheses: list[Hypothesis]
    parts: int = 1

    @property
    def text(self) -> str:
        return self.texts[0]


@dataclass(frozen=True)
class Translation:
    """The task. It holds vocabularies and settings, never a model: models are handed in."""

    start: ClassVar[str | None] = "⟨s⟩"
    """What stands before the words the decoder reads, in pictures; None where it reads the words themselves."""

    src_vocabulary: Tokenizer
    tgt_vocabulary: Tokenizer
    objective: Objective = Objective()
    decoding: DecodingSettings = field(default_factory=DecodingSettings)
    max_source: int = 256
    max_target: int | None = None
    valid: Pairs | None = None
    valid_pairs: Sequence[tuple[str, str]] = ()
    valid_scores: Sequence[str] = ()
    samples: int = 3
    follow: Callable[[Any], Engine] | None = None
    """Makes of a model in training an engine for validation; without it the model itself is searched."""

    def loss(self, model: nn.Module, batch: Batch) -> Loss:
        """The objective, summed over the real target tokens of a batch."""
        labels, smoothing, strength = batch.labels, self.objective.label_smoothing, self.objective.r_drop
        loss = partial(projected_cross_entropy, labels=labels, smoothing=smoothing)
        if strength and model.training:
            # One pass over the batch taken twice: dropout falls differently on either half.
            batch, loss = (
                batch.repeated(),
                partial(projected_r_drop, labels=labels, strength=strength, smoothing=smoothing),
            )
        projection = model(batch.source, batch.target)
        computed = loss(projection)
        return computed if projection.samples is None else reinforce(computed, projection, labels)

    def validate(self, model: nn.Module) -> Validation:
        """Loss and perplexity of the validation set; scores and samples of what the model makes of it."""
        assert self.valid is not None, "a task that is trained has validation data"
        nll, count = self.likelihood(model, self.valid)
        metrics = {"loss": nll / max(1, count), "perplexity": perplexity(nll, count)}
        pairs = self.valid_pairs if self.valid_scores else self.valid_pairs[: self.samples]
        engine: Any = self.follow(model) if self.follow and pairs else model
        outputs = [p.text for p in self.predict(engine, [src for src, _ in pairs], self.quick)]
        references = [tgt for _, tgt in pairs]
        metrics |= self.valid_metrics(outputs, references)
        return Validation(
            metrics, [Sample(*row) for row in zip((s for s, _ in pairs), references, outputs, strict=True)]
        )

    def valid_metrics(self, outputs: Sequence[str], references: Sequence[str]) -> dict[str, float]:
        """The scores that were asked for of what the model made of the validation set."""
        return {name: SCORES[name](outputs, references).value for name in self.valid_scores}

    @property
    def quick(self) -> DecodingSettings:
        """A quick search is enough to follow progress; the final evaluation uses the recipe's own."""
        return DecodingSettings(
            search="greedy", extra_length=self.decoding.extra_length, max_length=self.decoding.max_length
        )

    @torch.no_grad()
    def likelihood(self, model: nn.Module, store: Pairs, budget: int = 4096) -> tuple[float, int]:
        """Negative log-likelihood of every target of a corpus given its source, in nats, and the number of tokens."""
        device = next(model.parameters()).device
        total, count = 0.0, 0
        lengths = np.maximum(store.src_lengths, store.tgt_lengths).tolist()
        for group in groups_by_length(lengths, budget):
            batch = store.pad(np.array(group)).to(device)
            loss = replace(self, objective=Objective(label_smoothing=0.0)).loss(model, batch)
            total, count = total + float(loss.nll), count + int(loss.count)
        return total, count

    def predict(
        self,
        model: nn.Module | Engine,
        lines: Iterable[str],
        decoding: DecodingSettings | None = None,
        prefixes: Iterable[str] | None = None,
    ) -> Iterator[Prediction]:
        """Translate any number of lines in bounded memory: one prediction for each, in order, blank for blank.

        A model is searched as `decoding` says; an engine is asked.
        """
        settings, engine = decoding or self.decoding, as_engine(model, SYMBOLS)
        number, beginnings = 0, iter(prefixes or ())
        for stretch in stretches(lines):
            forced = [text for text, _ in zip_longest(_take(beginnings, len(stretch)), stretch, fillvalue="")]
            yield from self._predict_stretch(engine, stretch, forced, settings, number)
            number += len(stretch)

    def _predict_stretch(
        self, engine: Engine, lines: list[str], forced: list[str], settings: DecodingSettings, first: int
    ) -> Iterator[Prediction]:
        """Cut long lines, let the engine decode all parts, put everything back in its place."""
        cuts = [cut(line, self.src_vocabulary, self.max_source - 1) if line.strip() else [] for line in lines]
        parts = [(owner, ids) for owner, line_parts in enumerate(cuts) for _, ids in line_parts]
        prefixes = [self._prefix(text) for text in forced]
        started: set[int] = set()
        forced_ids = []
        for owner, _ in parts:  # only the first part of a line begins with the line's prefix
            forced_ids.append([] if owner in started else prefixes[owner])
            started.add(owner)
        sources = [[*ids, EOS] for _, ids in parts]
        max_new_tokens = settings.max_new_tokens(
            torch.tensor([len(source) for source in sources], dtype=torch.long)
        ).tolist()
        if self.max_target is not None:  # the prefix takes its share of the positions
            max_new_tokens = [
                min(limit, self.max_target - len(ids)) for limit, ids in zip(max_new_tokens, forced_ids, strict=True)
            ]
        sentence_ids = [first + owner for owner, _ in parts]
        request = DecodingRequest(sources, max_new_tokens, settings, forced_ids, sentence_ids)
        remaining = iter(engine.decode(request))
        for line, line_parts in zip(lines, cuts, strict=True):
            yield self._join(line, [next(remaining) for _ in line_parts])

    def _prefix(self, text: str) -> list[int]:
        """The tokens a translation must begin with; they too must fit into the model."""
        ids = self.tgt_vocabulary.encode(text) if text else []
        if self.max_target is not None and len(ids) >= self.max_target:
            raise UserError(
                f"a prefix of {len(ids)} tokens leaves no room in a model of {self.max_target} positions",
                "give a shorter prefix",
            )
        return ids

    def _join(self, line: str, parts: list[list[Hypothesis]]) -> Prediction:
        if not parts:
            return Prediction(line, [""], [], parts=0)
        if len(parts) == 1:
            texts = [one_line(self.tgt_vocabulary.decode(hypothesis.tokens)) for hypothesis in parts[0]]
            return Prediction(line, texts, parts[0])
        best = [part[0] for part in parts]
        text = " ".join(one_line(self.tgt_vocabulary.decode(hypothesis.tokens)) for hypothesis in best)
        return Prediction(line, [text], best, parts=len(parts))

    def score(self, outputs: Sequence[str], references: Sequence[str], tokenize: str = "13a") -> list[Score]:
        """BLEU, chrF, TER and exact match of outputs against references."""
        return [
            bleu(outputs, references, tokenize=tokenize),
            chrf(outputs, references),
            ter(outputs, references),
            exact_match(outputs, references),
        ]

    def attentions(
        self, model: TranslationModel, source: str, target: Sequence[int]
    ) -> tuple[list[str], list[str], Attentions]:
        """Source pieces, target pieces (each row is the position that wrote it) and all attention weights between."""
        device = next(model.parameters()).device  # type: ignore[attr-defined]
        ids = self.src_vocabulary.encode(source)[: self.max_source - 1]
        src = torch.tensor([[*ids, EOS]])
        tgt = torch.tensor([[BOS, *target]])
        src_tokens = Padded.of(src.to(device), torch.tensor([src.size(1)], device=device))
        weights = model.attentions(src_tokens, Padded.of(tgt.to(device), torch.tensor([tgt.size(1)], device=device)))
        return self.src_vocabulary.tokens([*ids, EOS]), self.tgt_vocabulary.tokens([*target, EOS]), weights


def one_line(text: str) -> str:
    """A translation is one line whatever the model wrote: one line out for one line in."""
    return " ".join(text.splitlines()) if "\n" in text or "\r" in text else text


def _take(stream: Iterator[str], count: int) -> list[str]:
    return [item for _, item in zip(range(count), stream, strict=False)]
