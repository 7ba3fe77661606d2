"""CTranslate2 (Klein et al. 2020) as an engine: the same model and the same questions, searched by a library in C++.

Its searches are not ours to the letter, and this is all that differs:

- Its beam search ends a sentence once as many texts have ended as the beam is wide; ours goes on while one could still
  win. It divides log P by |Y|^alpha, ours by ((5 + |Y|) / 6)^alpha (Wu et al. 2016, eq. 14). That only ranks what has
  ended, so all of it is asked for and ranked here by ours: alpha means what it always means. Only of a sentence that
  reaches its limit may it return texts that were cut where ours returns one that ended.
- It knows no loop guard: a text that loops goes on to its limit, and is marked there.
- It draws with generators of its own: the same lines with the same seed give the same draws, another input others.

Its workers, each on one thread, share the work: on few cores that is faster than several threads on one batch.
"""

import math
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from regard.data.planning import groups_by_length
from regard.decoding.constraints import LoopGuard
from regard.decoding.hypothesis import Hypothesis
from regard.decoding.search import WORD_BY_WORD_ONLY
from regard.decoding.settings import DecodingSettings
from regard.decoding.stepper import Symbols
from regard.engines.ctranslate2_model import import_ctranslate2
from regard.errors import UserError
from regard.files import read_json

BATCH_TOKENS = 1536
"""Source tokens to a batch, times texts kept in view: what the caches of a CPU hold best."""
IMPOSSIBLE = -1e9
"""Below this is what it fills a beam with where a prefix leaves no choice: no text of the model's."""


@dataclass(frozen=True)
class Query:
    """What is asked about one sentence; words are called by their numbers."""

    source: list[str]
    prefix: list[str]
    limit: int
    """Tokens in all, prefix and end symbol among them."""


Answer = list[tuple[list[str], float]]
"""The texts found, each with its end symbol if it has ended, and their log P(Y|X)."""


class CTranslate2Engine:
    """A folder that `write_ctranslate2` wrote, ready to answer."""

    def __init__(
        self,
        folder: Path,
        symbols: Symbols,
        quantization: str = "int8",
        device: torch.device | None = None,
        workers: int | None = None,
    ) -> None:
        """`workers` share the work, one thread each: where not given, as many as torch has threads; one on a GPU."""
        self.folder, self.quantization, self.device = folder, quantization, device or torch.device("cpu")
        self.end, self.never = str(symbols.eos), {str(number) for number in symbols.never_produced}
        self.workers = 1 if self.device.type == "cuda" else workers or torch.get_num_threads()
        known = read_json(folder / "config.json")["regard"]
        self.positions: int | None = known["positions"]
        self.vocabulary: int = known["vocabulary"]
        self.pool = self._pool(self.workers, threads=1)

    def decode(
        self,
        sources: Sequence[Sequence[int]],
        max_new_tokens: Sequence[int],
        settings: DecodingSettings,
        *,
        prefixes: Sequence[Sequence[int]] | None = None,
        sentence_ids: Sequence[int] | None = None,
    ) -> list[list[Hypothesis]]:
        """See `Engine.decode`."""
        pool = self.pool
        if settings.search == "sample":  # a worker seeds its generator when it first draws, and never again
            import_ctranslate2().set_random_seed(
                (settings.seed * 1_000_003 + (sentence_ids[0] if sentence_ids else 0)) % 2**31
            )
            pool = self._pool(1, threads=self.workers)
            if settings.top_k >= self.vocabulary:  # it refuses more than there are
                settings = settings.model_copy(update={"top_k": 0})
        given = zip(sources, prefixes or [()] * len(sources), max_new_tokens, strict=True)
        queries = [self._query(*each) for each in given]
        answers = self._translate(pool, queries, settings)
        for group in self._to_retry(queries, answers):
            again = self._translate(pool, [queries[i] for i in group], settings, forbidden=sorted(self.never))
            for index, answer in zip(group, again, strict=True):
                answers[index] = answer
        return [self._hypotheses(answer, settings) for answer in answers]

    def _query(self, source: Sequence[int], prefix: Sequence[int], limit: int) -> Query:
        if self.positions is not None and len(source) > self.positions:
            raise UserError(
                f"a source of {len(source)} tokens does not fit into the {self.positions} positions of {self.folder}",
                "give shorter lines, or choose the engine torch",
            )
        limit = min(limit + len(prefix), self.positions or limit + len(prefix))
        return Query([str(number) for number in source], [str(number) for number in prefix], limit)

    def _translate(
        self, pool: Any, queries: Sequence[Query], settings: DecodingSettings, forbidden: Sequence[str] = ()
    ) -> list[Answer]:
        """The texts it finds. A batch has one limit, the greatest in it: some may go beyond their own."""
        options, answers = translate_options(settings), [Answer() for _ in queries]
        lengths = [len(query.source) for query in queries]
        pending: list[tuple[int, Any]] = []
        width = {"greedy": 1, "beam": settings.beam, "sample": settings.nbest}[settings.search]
        for share in split_batches(lengths, max(1, BATCH_TOKENS // width), settings.batch_tokens, self.workers):
            batch = [queries[i] for i in share]
            results = pool.translate_batch(
                [query.source for query in batch],
                [query.prefix for query in batch] if any(query.prefix for query in batch) else None,
                max_decoding_length=max(query.limit for query in batch),
                suppress_sequences=[[name] for name in forbidden] or None,
                asynchronous=True,
                **options,
            )
            pending += zip(share, results, strict=True)
        for index, result in pending:
            found = result.result()
            pairs = zip(found.hypotheses, found.scores, strict=True)
            texts = [(text, score * len(text) ** options["length_penalty"]) for text, score in pairs]
            answers[index] = [pair for pair in texts if not pair[1] < IMPOSSIBLE] or texts[:1]
        # Its own sums leave out what was forced, and share out among the rest what was forbidden: score these anew.
        unlike = [i for i, each in enumerate(queries) if each.prefix or forbidden or settings.no_repeat_ngram]
        return self._scored(pool, queries, answers, unlike) if unlike else answers

    def _scored(
        self, pool: Any, queries: Sequence[Query], answers: list[Answer], chosen: Sequence[int]
    ) -> list[Answer]:
        """The answers with log P(Y|X) as the model has it for the `chosen` ones."""
        texts = [(i, text) for i in chosen for text, _ in answers[i]]
        scored = pool.score_batch(
            [queries[i].source for i, _ in texts],
            [[name for name in text if name != self.end] for _, text in texts],
            max_batch_size=BATCH_TOKENS,
            batch_type="tokens",
            max_input_length=0,
        )
        anew: dict[int, Answer] = {i: [] for i in chosen}
        for (i, text), result in zip(texts, scored, strict=True):  # what was cut has no end symbol to count
            anew[i].append((text, math.fsum(result.log_probs[: len(text)])))
        return [anew.get(i, answer) for i, answer in enumerate(answers)]

    def _to_retry(self, queries: Sequence[Query], answers: Sequence[Answer]) -> list[list[int]]:
        """Which to ask again, those of one limit together: a text went beyond its limit or holds what is no text.

        Both are rare, and both could be prevented, at a price for everybody: batches of one limit are small ones, and
        where symbols are forbidden it shares out their probability among the others.
        """
        groups: dict[int, list[int]] = defaultdict(list)
        for i, (query, answer) in enumerate(zip(queries, answers, strict=True)):
            given = len(query.prefix)
            if any(len(text) > query.limit or not self.never.isdisjoint(text[given:]) for text, _ in answer):
                groups[query.limit].append(i)
        return list(groups.values())

    def _hypotheses(self, answer: Answer, settings: DecodingSettings) -> list[Hypothesis]:
        """Best first by our score; of a beam search, those that were cut only where none has ended."""
        found = [self._hypothesis(text, log_prob, settings) for text, log_prob in answer]
        if settings.search == "beam":
            found = [each for each in found if each.finished] or found
        return sorted(found, key=lambda each: -each.score)[: settings.nbest]

    def _hypothesis(self, text: list[str], log_prob: float, settings: DecodingSettings) -> Hypothesis:
        finished = text[-1:] == [self.end]
        tokens = [int(name) for name in (text[:-1] if finished else text)]
        looped = settings.loop_guard and not finished and bool(LoopGuard()(torch.tensor([[tokens]])))
        penalty = ((5.0 + len(text)) / 6.0) ** settings.alpha  # Wu et al. 2016, eq. 14
        return Hypothesis(tokens, log_prob / penalty, log_prob, finished, looped)

    def _pool(self, workers: int, threads: int) -> Any:
        """The model, loaded by CTranslate2; it refuses what a device cannot compute in, and nothing is put in place."""
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
            known = sorted(import_ctranslate2().get_supported_compute_types(self.device.type))
            raise UserError(
                f"CTranslate2 cannot use {self.folder} as {self.quantization} on {self.device}: {error}",
                f"on {self.device.type} it computes in {', '.join(known)}",
            ) from error


def translate_options(settings: DecodingSettings) -> dict[str, Any]:
    """Our settings in its words."""
    options: dict[str, Any] = dict(
        no_repeat_ngram_size=settings.no_repeat_ngram,
        min_decoding_length=0,
        max_input_length=0,  # no limit: lines are cut before they come here
        return_scores=True,
        return_end_token=True,
    )
    match settings.search:
        case "greedy":
            return options | dict(beam_size=1, length_penalty=0.0)
        case "beam":  # all that has ended, for us to rank
            return options | dict(beam_size=settings.beam, num_hypotheses=settings.beam, length_penalty=settings.alpha)
        case "sample":
            return options | dict(
                beam_size=1,
                num_hypotheses=settings.nbest if settings.top_k != 1 else 1,  # draws from one are all the same
                length_penalty=0.0,
                sampling_topk=settings.top_k,
                sampling_topp=settings.top_p,
                sampling_temperature=settings.temperature,
            )
        case "mask_predict":
            raise UserError(*WORD_BY_WORD_ONLY)


def split_batches(lengths: Sequence[int], wanted: int, most: int, workers: int) -> list[list[int]]:
    """Groups of about the `wanted` number of tokens, and never more than `most`, for the workers to take in turn.

    Many groups are of like length each. Few are dealt out evenly, as many to every worker, long and short ones to each.
    """
    count = workers * max(1, round(sum(lengths) / (wanted * workers)))
    groups = groups_by_length(lengths, min(wanted, most))
    if count >= 4 * workers or max(lengths, default=0) * math.ceil(len(lengths) / count) > most:
        return groups
    longest_first = [index for group in groups for index in group]
    return [longest_first[first::count] for first in range(min(count, len(lengths)))]
