"""The one door: settings in, hypotheses out."""

from collections.abc import Sequence
from typing import Any

from torch import Tensor

from regard.decoding.beam import beam_search
from regard.decoding.constraints import LoopGuard, NoRepeat, Rules
from regard.decoding.greedy import greedy_search
from regard.decoding.hypothesis import Hypothesis
from regard.decoding.sampling import Sampler, sample
from regard.decoding.settings import DecodingSettings
from regard.decoding.stepper import S, Stepper, Symbols
from regard.errors import UserError

WORD_BY_WORD_ONLY = (
    'search = "mask_predict" fills masks, which models of kind masked have; this model writes word by word',
    'write search = "beam", "greedy" or "sample"',
)
"""Problem and remedy."""


def build_rules(settings: DecodingSettings, symbols: Symbols) -> Rules:
    """The parts that the settings ask for."""
    constraints = (NoRepeat(settings.no_repeat_ngram),) if settings.no_repeat_ngram else ()
    return Rules(symbols, settings.alpha, constraints, LoopGuard() if settings.loop_guard else None)


def decode(
    stepper: Stepper[S],
    source: Any,
    max_new_tokens: Tensor,
    symbols: Symbols,
    settings: DecodingSettings,
    *,
    prefixes: Sequence[Sequence[int]] | None = None,
    sentence_ids: Sequence[int] | None = None,
) -> list[list[Hypothesis]]:
    """Search the output of every sentence of `source`: up to `settings.nbest` hypotheses each, best first.

    `max_new_tokens` (B,) counts the end symbol and not the forced `prefixes`. The search runs on the device of
    `max_new_tokens`. `sentence_ids` are the indices of the sentences in the whole corpus. With them, samples do not
    depend on how the corpus is split into batches.
    """
    if settings.search == "mask_predict":
        raise UserError(*WORD_BY_WORD_ONLY)
    rules = build_rules(settings, symbols)
    if settings.search == "greedy":
        return greedy_search(stepper, source, max_new_tokens, rules, prefixes=prefixes)
    if settings.search == "beam":
        return beam_search(
            stepper, source, max_new_tokens, rules, width=settings.beam, nbest=settings.nbest, prefixes=prefixes
        )
    sampler = Sampler(settings.temperature, settings.top_k, settings.top_p, settings.seed)
    return sample(
        stepper,
        source,
        max_new_tokens,
        rules,
        sampler=sampler,
        samples=settings.nbest,
        prefixes=prefixes,
        sentence_ids=sentence_ids,
    )
