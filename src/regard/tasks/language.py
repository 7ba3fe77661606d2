"""Language modelling: how likely is a text, and what comes next?

    training      stretch after stretch of every column, what the model remembers carried from one to the next
    scoring       -log p(text), every token once, by token, by word and by character
    generating    prompt -> ids -> search with the prompt as a forced prefix -> hypotheses -> text

A text begins as any line does, after the end of the line before: the end symbol is the beginning too.

B columns, T tokens of a stretch, N tokens of a text, V vocabulary.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from regard.data.arrays import Array
from regard.data.batch import Batch
from regard.data.bptt import TokenizedText, contiguous_segments, sliding_windows
from regard.data.texts import UNKNOWN, TextNormalizer
from regard.decoding.engine import DecodingRequest, Engine
from regard.decoding.hypothesis import Hypothesis
from regard.decoding.settings import DecodingSettings
from regard.decoding.stepper import Symbols
from regard.engines.choose import as_engine
from regard.errors import UserError
from regard.losses.crossentropy import Loss
from regard.losses.projected import projected_cross_entropy
from regard.metrics.language import language_scores
from regard.metrics.score import Score
from regard.models.ngram import NGram
from regard.tasks.streaming import stretches
from regard.tasks.translation import one_line
from regard.text.symbols import EOS, PAD
from regard.text.tokenizer import Tokenizer
from regard.training.distributed import unwrap
from regard.training.task import Sample, Validation

SYMBOLS = Symbols(bos=EOS, eos=EOS, pad=PAD)
# Scoring a text: so many columns at most, of at least so many tokens. Each begins without a past, so that few tokens
# in ten thousand are expected a little less well than in one column, which would take many times as long.
MOST_COLUMNS, COLUMN_TOKENS = 16, 8192
AT_ONCE = 4096  # tokens scored together
PROMPTS = 256  # continued together
BEGINNING, QUICK = 20_000, 40  # tokens in which lines to show are looked for, and tokens of a sample


@dataclass(frozen=True)
class Generation:
    """A prompt and the lines that begin with it, best first."""

    prompt: str
    texts: list[str]
    hypotheses: list[Hypothesis]


@dataclass(frozen=True)
class LanguageModelling:
    """The task. It holds the vocabulary, settings and what is carried in training, never a model."""

    vocabulary: Tokenizer
    reading: TextNormalizer = field(default_factory=TextNormalizer)
    context: int = 70
    """The tokens a model that carries nothing looks at together."""
    longest: int | None = None
    """The most tokens of a line the model has positions for."""
    label_smoothing: float = 0.0
    decoding: DecodingSettings = field(default_factory=DecodingSettings)
    valid: TokenizedText | None = None
    samples: int = 1
    recurrent_state: dict[str, Tensor] = field(default_factory=dict)
    """What each part's columns remember after the stretch last trained on, by `part.name`."""

    def loss(self, model: nn.Module, batch: Batch) -> Loss:
        """Cross-entropy of the stretch, summed, given all that its columns have read before."""
        projection, after = model(batch["source"], self._before(unwrap(model), batch))
        loss = projected_cross_entropy(projection, batch.labels, self.label_smoothing)
        for name, memory in after.items():
            self.recurrent_state[f"{batch.shard}.{name}"].copy_(memory)
        return loss

    def _before(self, model: Any, batch: Batch) -> dict[str, Tensor]:
        """What the columns remember; where they begin, and where their number has changed, nothing.

        The tensors stay where they are and change in place: a recorded step finds them again. The model gets copies.
        """
        blank = model.initial_state(len(batch["source"]))
        for name, memory in blank.items():
            key = f"{batch.shard}.{name}"
            if key not in self.recurrent_state or self.recurrent_state[key].shape != memory.shape:
                self.recurrent_state[key] = memory.clone()
        return {
            name: torch.where(batch["reset"], memory, self.recurrent_state[f"{batch.shard}.{name}"])
            for name, memory in blank.items()
        }

    def validate(self, model: nn.Module) -> Validation:
        """The likelihood of the validation text by token, word and character, and a few of its lines gone on with."""
        assert self.valid is not None, "a task that is trained has validation data"
        nll = self.likelihood(model, self.valid.ids)
        metrics = {score.name.replace(" ", "_"): score.value for score in self._scores(nll, self.valid)}
        return Validation({"loss": nll / len(self.valid), **metrics}, self._samples(model))

    def score(self, model: nn.Module, text: TokenizedText) -> list[Score]:
        """Perplexity per token and per word, and bits per character."""
        return self._scores(self.likelihood(model, text.ids), text)

    def _scores(self, nll: float, text: TokenizedText) -> list[Score]:
        note = "" if self.reading.words is None else f"rare words read as {UNKNOWN}"
        return language_scores(nll, len(text), text.words, text.characters, note)

    @torch.no_grad()
    def likelihood(self, model: nn.Module, ids: Array) -> float:
        """-log p of a whole text (N,), in nats, the state carried through or windows laid over each other."""
        device = device_of(model)
        if isinstance(model, NGram):
            text = torch.from_numpy(np.insert(ids.astype(np.int64), 0, EOS))
            return -float(model.log_probs(text.to(device))[1:].sum())
        columns = max(1, min(MOST_COLUMNS, len(ids) // COLUMN_TOKENS))
        if model.is_stateful:
            parts = contiguous_segments(ids, columns, max(1, AT_ONCE // columns))
        else:
            parts = sliding_windows(ids, self.context, max(1, AT_ONCE // self.context))
        total, state = 0.0, None
        for part in parts:
            part = part.to(device)
            projection, state = model(part["source"], state)
            total += float(projected_cross_entropy(projection, part.labels).nll)
        return total

    def generate(
        self, model: Any, prompts: Iterable[str], decoding: DecodingSettings | None = None
    ) -> Iterator[Generation]:
        """Lines that begin with each prompt, `decoding.nbest` of them; nothing is a prompt too."""
        number = 0
        for some in stretches(prompts, PROMPTS):
            ids = [self.vocabulary.encode(self.reading(prompt)) for prompt in some]
            found = self._continue(as_engine(model, SYMBOLS), ids, decoding or self.decoding, number)
            for prompt, hypotheses in zip(some, found, strict=True):
                texts = [one_line(self.vocabulary.decode(hypothesis.tokens)) for hypothesis in hypotheses]
                yield Generation(prompt, texts, hypotheses)
            number += len(some)

    def _continue(
        self, engine: Engine, prompts: list[list[int]], decoding: DecodingSettings, first: int = 0
    ) -> list[list[Hypothesis]]:
        max_new_tokens = decoding.max_new_tokens(torch.zeros(len(prompts), dtype=torch.long)).tolist()
        if self.longest is not None:
            for prompt in prompts:
                if len(prompt) >= self.longest:
                    raise UserError(
                        f"a prompt of {len(prompt)} tokens leaves no room in a model of {self.longest} positions",
                        "give a shorter prompt",
                    )
            max_new_tokens = [
                min(limit, self.longest - len(ids)) for limit, ids in zip(max_new_tokens, prompts, strict=True)
            ]
        sentence_ids = range(first, first + len(prompts))
        return engine.decode(DecodingRequest([[EOS]] * len(prompts), max_new_tokens, decoding, prompts, sentence_ids))

    def _samples(self, model: nn.Module) -> list[Sample]:
        """The beginnings of some validation lines, how they go on, and how the model goes on."""
        assert self.valid is not None
        beginning = self.valid.ids[:BEGINNING]
        lines = np.split(beginning, np.flatnonzero(beginning == EOS) + 1)[:-1]
        rows = [line[:-1].tolist() for line in lines if len(line) > 4][: self.samples]
        if not rows:
            return []
        room = QUICK if self.longest is None else min(QUICK, self.longest // 2)
        prompts = [row[: min(room, len(row) // 4)] for row in rows]
        settings = DecodingSettings(search="sample", extra_length=QUICK, seed=self.decoding.seed)
        found = self._continue(as_engine(model, SYMBOLS), prompts, settings)
        decode = self.vocabulary.decode
        return [
            Sample(decode(prompt), decode(row[: len(prompt) + QUICK]), one_line(decode(hypotheses[0].tokens)))
            for prompt, row, hypotheses in zip(prompts, rows, found, strict=True)
        ]


def device_of(model: nn.Module) -> torch.device:
    """Where a model computes; an n-gram has counts in place of parameters."""
    tensor = next(model.parameters(), None)
    return next(model.buffers()).device if tensor is None else tensor.device
