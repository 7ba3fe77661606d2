"""Run the search that the settings name."""

from collections.abc import Sequence

from torch import Tensor

from regard.decoding.beam import BeamObserver, beam_search
from regard.decoding.constraints import LoopGuard, NoRepeat, Rules
from regard.decoding.hypothesis import Hypothesis
from regard.decoding.rollout import greedy_search
from regard.decoding.sampling import Sampler, sample
from regard.decoding.settings import DecodingSettings
from regard.decoding.stepper import S, Source, Stepper, Symbols
from regard.errors import UserError


def check_autoregressive(settings: DecodingSettings) -> None:
    """Raise an error for mask-predict, which a model that generates token by token cannot run."""
    if settings.search == "mask_predict":
        problem = '`search = "mask_predict"` needs a mask-predict model; this model generates token by token'
        remedy = 'set `search` to "beam", "greedy" or "sample"'
        raise UserError(problem, remedy, code="unsupported", where="decoding.search")


def build_rules(settings: DecodingSettings, symbols: Symbols) -> Rules:
    constraints = (NoRepeat(settings.no_repeat_ngram),) if settings.no_repeat_ngram else ()
    return Rules(symbols, settings.alpha, constraints, LoopGuard() if settings.loop_guard else None)


def decode(
    stepper: Stepper[Source, S],
    source: Source,
    max_new_tokens: Tensor,
    symbols: Symbols,
    settings: DecodingSettings,
    *,
    prefixes: Sequence[Sequence[int]] | None = None,
    sentence_ids: Sequence[int] | None = None,
    observe: BeamObserver | None = None,
) -> list[list[Hypothesis]]:
    """Up to `settings.nbest` hypotheses for every sentence of `source`, best first.

    `max_new_tokens` (B,) counts the end symbol and not the forced `prefixes`. The search runs on the device of
    `max_new_tokens`. `sentence_ids` are the indices of the sentences in the whole corpus. With them, samples do not
    depend on how the corpus is split into batches. `observe` sees every step of a beam search.
    """
    check_autoregressive(settings)
    rules = build_rules(settings, symbols)
    if settings.search == "greedy":
        return greedy_search(stepper, source, max_new_tokens, rules, prefixes=prefixes)
    if settings.search == "beam":
        width, nbest = settings.beam, settings.nbest
        return beam_search(
            stepper, source, max_new_tokens, rules, width=width, nbest=nbest, prefixes=prefixes, observe=observe
        )
    return sample(
        stepper,
        source,
        max_new_tokens,
        rules,
        sampler=Sampler(settings.temperature, settings.top_k, settings.top_p, settings.seed),
        samples=settings.nbest,
        prefixes=prefixes,
        sentence_ids=sentence_ids,
    )
