"""The engine CTranslate2 (Klein et al. 2020): the same model, searched by a library in C++.

Its searches differ from those of `decoding` in these points:

- Its beam search stops a sentence when as many hypotheses have ended as the beam is wide; ours continues while a better
  one is possible. Its score is log P / |Y|^alpha, ours is log P / ((5 + |Y|) / 6)^alpha (Wu et al. 2016, eq. 14). The
  score only ranks ended hypotheses, so this engine requests all of them and ranks them by our score: alpha has its
  usual meaning. To request fewer is not faster, because the search computes all of them anyway if alpha is not 0. Only
  for a sentence that reaches its maximum length it may return truncated hypotheses where ours returns an ended one.
- It has no loop guard: a hypothesis that loops continues to its maximum length and is marked afterwards.
- It samples with its own random generators: the same lines with the same seed give the same samples, but the samples
  of a line depend on the other lines.

Its workers run in parallel with one thread each. With few cores that is faster than several threads for one batch.
"""

import math
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import torch

from regard.data.planning import groups_by_length
from regard.decoding.constraints import LoopGuard
from regard.decoding.engine import DecodingRequest
from regard.decoding.hypothesis import Hypothesis
from regard.decoding.search import check_autoregressive
from regard.decoding.settings import DecodingSettings
from regard.decoding.stepper import Symbols
from regard.errors import UserError
from regard.exchange.ctranslate2 import import_ctranslate2, read_model_info

if TYPE_CHECKING:
    from ctranslate2 import AsyncTranslationResult, Translator

BATCH_TOKENS = 1536
"""Source tokens in a batch, times beam size: fits the caches of a CPU best."""
IMPOSSIBLE = -1e9
"""Log probabilities below this fill a beam if a prefix allows fewer hypotheses; they are not outputs of the model."""


@dataclass(frozen=True)
class Query:
    """One sentence of a request; tokens are named by their ids."""

    source: list[str]
    prefix: list[str]
    max_length: int
    """Maximum number of tokens with prefix and end symbol."""


Result = list[tuple[list[str], float]]
"""The hypotheses of one sentence: tokens, with the end symbol if it ended, and log P(Y|X)."""


class CTranslate2Engine:
    """Decodes with a model that `write_ctranslate2` wrote to `folder`."""

    def __init__(
        self,
        folder: Path,
        symbols: Symbols,
        quantization: str = "int8",
        device: torch.device | None = None,
        workers: int | None = None,
    ) -> None:
        """`workers` run in parallel with one thread each; default: the number of torch's threads, one on a GPU."""
        self.folder, self.quantization, self.device = folder, quantization, device or torch.device("cpu")
        self.end, self.forbidden = str(symbols.eos), {str(token) for token in symbols.never_produced}
        self.workers = 1 if self.device.type == "cuda" else workers or torch.get_num_threads()
        self.info = read_model_info(folder)
        self.pool = self._load(self.workers, threads=1)

    def decode(self, request: DecodingRequest) -> list[list[Hypothesis]]:
        """Translate all sentences, and those again whose hypotheses are too long or contain forbidden symbols."""
        return [found for _, found in request.decode_groups([range(len(request))], self._decode)]

    def _decode(self, request: DecodingRequest) -> list[list[Hypothesis]]:
        settings, pool = request.settings, self.pool
        check_autoregressive(settings)
        if settings.search == "sample":  # a worker seeds its generator at its first sample and never again
            first = request.sentence_ids[0] if request.sentence_ids else 0
            import_ctranslate2().set_random_seed((settings.seed * 1_000_003 + first) % 2**31)
            pool = self._load(1, threads=self.workers)
            if settings.top_k >= self.info.vocabulary:  # CTranslate2 refuses more than there are
                settings = settings.model_copy(update={"top_k": 0})
        columns = zip(request.sources, request.prefixes, request.max_new_tokens, strict=True)
        queries = [self._query(source, prefix, max_new_tokens) for source, prefix, max_new_tokens in columns]
        results = self._translate(pool, queries, settings)
        for group in self._to_retry(queries, results):
            retried = self._translate(pool, [queries[i] for i in group], settings, forbidden=sorted(self.forbidden))
            for index, result in zip(group, retried, strict=True):
                results[index] = result
        return [self._hypotheses(result, settings) for result in results]

    def _query(self, source: Sequence[int], prefix: Sequence[int], max_new_tokens: int) -> Query:
        positions = self.info.positions
        if positions is not None and len(source) > positions:
            problem = f"a source has {len(source)} tokens, but {self.folder} supports at most {positions}"
            remedy = "shorten the source, or choose the engine torch"
            raise UserError(problem, remedy, code="too-long", where=self.folder)
        max_length = max_new_tokens + len(prefix)
        return Query(
            [str(token) for token in source],
            [str(token) for token in prefix],
            max_length if positions is None else min(max_length, positions),
        )

    def _translate(
        self, pool: "Translator", queries: Sequence[Query], settings: DecodingSettings, forbidden: Sequence[str] = ()
    ) -> list[Result]:
        """The hypotheses of CTranslate2. A batch has one maximum length, the largest in it, so some may be too long."""
        options, results = translate_options(settings), [Result() for _ in queries]
        lengths = [len(query.source) for query in queries]
        pending: list[tuple[int, AsyncTranslationResult]] = []
        width = {"greedy": 1, "beam": settings.beam, "sample": settings.nbest}[settings.search]
        for group in split_batches(lengths, max(1, BATCH_TOKENS // width), settings.batch_tokens, self.workers):
            batch = [queries[i] for i in group]
            translations = pool.translate_batch(
                [query.source for query in batch],
                [query.prefix for query in batch] if any(query.prefix for query in batch) else None,
                max_decoding_length=max(query.max_length for query in batch),
                suppress_sequences=[[token] for token in forbidden] or None,
                asynchronous=True,
                **options,
            )
            pending += zip(group, translations, strict=True)
        for index, future in pending:
            translation = future.result()
            pairs = zip(translation.hypotheses, translation.scores, strict=True)
            result = [(tokens, score * len(tokens) ** options["length_penalty"]) for tokens, score in pairs]
            results[index] = [pair for pair in result if not pair[1] < IMPOSSIBLE] or result[:1]
        # Its scores omit forced tokens and renormalise over forbidden ones: score these hypotheses again.
        rescored = [i for i, query in enumerate(queries) if query.prefix or forbidden or settings.no_repeat_ngram]
        return self._rescore(pool, queries, results, rescored) if rescored else results

    def _rescore(
        self, pool: "Translator", queries: Sequence[Query], results: list[Result], indices: Sequence[int]
    ) -> list[Result]:
        """The results, with the model's log P(Y|X) for the sentences at `indices`."""
        pairs = [(i, tokens) for i in indices for tokens, _ in results[i]]
        scored = pool.score_batch(
            [queries[i].source for i, _ in pairs],
            [[token for token in tokens if token != self.end] for _, tokens in pairs],
            max_batch_size=BATCH_TOKENS,
            batch_type="tokens",
            max_input_length=0,
        )
        rescored: dict[int, Result] = {i: [] for i in indices}
        for (i, tokens), score in zip(pairs, scored, strict=True):  # a truncated hypothesis has no end symbol to count
            rescored[i].append((tokens, math.fsum(score.log_probs[: len(tokens)])))
        return [rescored.get(i, result) for i, result in enumerate(results)]

    def _to_retry(self, queries: Sequence[Query], results: Sequence[Result]) -> list[list[int]]:
        """Indices to translate again, grouped by maximum length: too long, or with a forbidden symbol.

        Both are rare. Preventing them would slow down all sentences: batches of one maximum length are small, and
        CTranslate2 renormalises if symbols are forbidden.
        """
        groups: dict[int, list[int]] = defaultdict(list)
        for i, (query, result) in enumerate(zip(queries, results, strict=True)):
            start = len(query.prefix)
            if any(
                len(tokens) > query.max_length or not self.forbidden.isdisjoint(tokens[start:]) for tokens, _ in result
            ):
                groups[query.max_length].append(i)
        return list(groups.values())

    def _hypotheses(self, result: Result, settings: DecodingSettings) -> list[Hypothesis]:
        """Best first by our score; for beam search, truncated ones only if none has ended."""
        hypotheses = [self._hypothesis(tokens, log_prob, settings) for tokens, log_prob in result]
        if settings.search == "beam":
            hypotheses = [hypothesis for hypothesis in hypotheses if hypothesis.finished] or hypotheses
        return sorted(hypotheses, key=lambda hypothesis: -hypothesis.score)[: settings.nbest]

    def _hypothesis(self, names: list[str], log_prob: float, settings: DecodingSettings) -> Hypothesis:
        finished = names[-1:] == [self.end]
        tokens = [int(name) for name in (names[:-1] if finished else names)]
        looped = settings.loop_guard and not finished and bool(LoopGuard()(torch.tensor([[tokens]])))
        penalty = ((5.0 + len(names)) / 6.0) ** settings.alpha  # Wu et al. 2016, eq. 14
        return Hypothesis(tokens, log_prob / penalty, log_prob, finished, looped)

    def _load(self, workers: int, threads: int) -> "Translator":
        """Load the model. CTranslate2 refuses a compute type that the device does not have."""
        try:
            return import_ctranslate2().Translator(
                str(self.folder),
                device=self.device.type,
                device_index=self.device.index or 0,
                compute_type=self.quantization,
                inter_threads=workers,
                intra_threads=threads,
            )
        except (ValueError, RuntimeError) as error:
            types = sorted(import_ctranslate2().get_supported_compute_types(self.device.type))
            problem = f"CTranslate2 cannot load {self.folder} as {self.quantization} on {self.device}: {error}"
            remedy = f"choose a quantization that {self.device.type} supports: {', '.join(types)}"
            raise UserError(problem, remedy, code="unsupported", where="quantization") from error


def translate_options(settings: DecodingSettings) -> dict[str, int | float]:
    """The settings as arguments of `translate_batch`."""
    options: dict[str, int | float] = dict(
        no_repeat_ngram_size=settings.no_repeat_ngram,
        min_decoding_length=0,
        max_input_length=0,  # no limit: lines are split before
        return_scores=True,
        return_end_token=True,
    )
    if settings.search == "beam":  # all ended hypotheses, which are ranked here
        return options | dict(beam_size=settings.beam, num_hypotheses=settings.beam, length_penalty=settings.alpha)
    options |= dict(beam_size=1, length_penalty=0.0)
    if settings.search == "sample":
        options |= dict(
            num_hypotheses=settings.nbest if settings.top_k != 1 else 1,  # with one candidate all samples are equal
            sampling_topk=settings.top_k,
            sampling_topp=settings.top_p,
            sampling_temperature=settings.temperature,
        )
    return options


def split_batches(lengths: Sequence[int], target: int, maximum: int, workers: int) -> list[list[int]]:
    """Batches of about `target` and at most `maximum` tokens, for the workers to process in turn.

    Many batches have sentences of similar length each. If there are few, every worker gets equally many, and each batch
    has long and short sentences.
    """
    count = workers * max(1, round(sum(lengths) / (target * workers)))
    groups = groups_by_length(lengths, min(target, maximum))
    if count >= 4 * workers or max(lengths, default=0) * math.ceil(len(lengths) / count) > maximum:
        return groups
    longest_first = [index for group in groups for index in group]
    return [longest_first[first::count] for first in range(min(count, len(lengths)))]
