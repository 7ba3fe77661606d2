"""Mask-predict (Ghazvininejad et al. 2019, section 3): write all words at once, then mend those in doubt.

    Y_mask(t) = the n least likely places,   n = N (T - t) / T         for t = 0, 1, ..., T - 1
    y_i(t)    = argmax_w P(y_i = w | X, Y_obs(t))    for i in Y_mask(t),   y_i(t - 1) for the others
    p_i(t)    = max_w    P(y_i = w | X, Y_obs(t))    for i in Y_mask(t),   p_i(t - 1) for the others

The first pass knows nothing but the source, and predicts each word as if the others were not there: where two
translations are equally good it may begin with one and end with the other. Each later pass sees the words it was surest
of and predicts the rest anew in their light. T is a constant, whatever the length N of the sentence.

N is predicted before any word. Several likely lengths are tried side by side (section 3.3), and one text is taken:

    argmax over candidates of [ log P(N | X) + sum over i of log p_i ] / (N + 1)

The paper takes the mean over the words alone. The length is counted here as what it replaces, the end symbol: without
it a text of a length the model holds for impossible wins whenever its words are a shade surer.

B sentences, C lengths tried for each, R = B * C rows, S source, T target with its end symbol, V vocabulary, L lengths.
"""

from collections.abc import Callable, Sequence

import torch
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from regard.attention import Padded, Tokens
from regard.decoding import DecodingSettings, Hypothesis, Symbols
from regard.decoding.grouping import groups_by_length
from regard.decoding.hypothesis import DEAD, refuse_nan
from regard.errors import UserError
from regard.models.masked import MaskedTransformer


def mask_predict(
    predict: Callable[[Tensor], Tensor], words: Tensor, free: Tensor, iterations: int, symbols: Symbols
) -> tuple[Tensor, Tensor]:
    """Fill the `free` places (R, T) of `words` (R, T); what is given in the others stays.

    `predict` takes words (R, T), masked ones among them, to logits (R, T, V). Returned are the words and their log p_i
    (R, T), which is 0 where a word was given. The mask is the beginning symbol, which occurs in no text.
    """
    counts = free.sum(dim=1, keepdim=True)  # N
    longest = int(counts.max())
    masked, log_p = free, torch.zeros(words.shape, device=words.device)
    for t in range(iterations):
        if longest * (iterations - t) // iterations == 0:
            break  # n has come to nothing in every row
        if t:
            masked = least_likely(log_p, free, counts * (iterations - t) // iterations)
        best, likeliest = surest(predict(words.masked_fill(masked, symbols.bos)), symbols)
        words, log_p = torch.where(masked, likeliest, words), torch.where(masked, best, log_p)
    return words, log_p


def least_likely(log_p: Tensor, free: Tensor, count: Tensor) -> Tensor:
    """(R, T) bool: the `count` (R, 1) free places with the smallest log p; of equal ones the first."""
    order = log_p.masked_fill(~free, torch.inf).argsort(dim=1, stable=True)
    return order.argsort(dim=1) < count


def surest(logits: Tensor, symbols: Symbols) -> tuple[Tensor, Tensor]:
    """(R, T, V) -> log p of the likeliest word and which it is, (R, T) each; special symbols are no words."""
    log_probs = logits.float().log_softmax(dim=-1)
    refuse_nan(log_probs[..., 0])
    log_probs[..., sorted({symbols.bos, symbols.eos, symbols.pad})] = DEAD
    best, words = log_probs.max(dim=-1)
    return best, words


class MaskPredict:
    """A masked model on its `device`, as an engine; given `prefixes` are seen from the first pass on, and kept."""

    def __init__(self, model: MaskedTransformer, symbols: Symbols, device: torch.device) -> None:
        self.model, self.symbols, self.device = model, symbols, device

    def decode(
        self,
        sources: Sequence[Sequence[int]],
        limits: Sequence[int],
        settings: DecodingSettings,
        *,
        prefixes: Sequence[Sequence[int]] | None = None,
        numbers: Sequence[int] | None = None,
    ) -> list[list[Hypothesis]]:
        """See `Engine.decode`. A text's score is the mean log probability of its length and of the words that were not
        given, log_prob their sum; nothing is drawn at random, so `numbers` are not read."""
        if settings.search != "mask_predict":
            raise UserError(
                f'search = "{settings.search}" writes word by word, a model of kind masked writes all at once',
                'write search = "mask_predict"',
            )
        given = prefixes if prefixes is not None else [()] * len(sources)
        room = self.model.settings.max_length - 1
        if any(len(prefix) > room for prefix in given):
            raise UserError(
                f"a prefix leaves no room in a model of model.max_length = {room + 1}", "give a shorter one"
            )
        found: list[list[Hypothesis]] = [[] for _ in sources]
        budget = max(1, settings.batch_tokens // settings.length_candidates)
        for group in groups_by_length([len(source) for source in sources], budget):
            with torch.inference_mode():
                answers = self._decode(
                    [sources[i] for i in group], [limits[i] for i in group], [given[i] for i in group], settings
                )
            for index, texts in zip(group, answers, strict=True):
                found[index] = texts
        return found

    def _decode(
        self,
        sources: Sequence[Sequence[int]],
        limits: Sequence[int],
        prefixes: Sequence[Sequence[int]],
        settings: DecodingSettings,
    ) -> list[list[Hypothesis]]:
        """The sentences of one group together, with all the lengths tried for them."""
        src = Padded.of(*self._lined_up(sources))
        forced, forced_lengths = self._lined_up(prefixes)
        memory, length = self.model.encode(src)
        most = forced_lengths + torch.tensor(limits, device=self.device) - 1  # a limit counts the end symbol
        counts, length_log_p = likeliest_lengths(
            self.model.predict_length(length), forced_lengths, most, settings.length_candidates
        )
        each = counts.size(1)  # C
        memory, src = memory.repeat_interleave(each, 0), repeated(src, each)
        rows = counts.flatten()  # (R,)
        words = canvas(forced.repeat_interleave(each, 0), rows, self.symbols)
        layout = Padded(rows + 1, words.size(1))
        places = layout.positions
        free = (places < rows[:, None]) & (places >= forced_lengths.repeat_interleave(each)[:, None])

        def predict(target: Tensor) -> Tensor:
            return self.model.predict(Tokens(target, layout), memory, src)

        words, log_p = mask_predict(predict, words, free, settings.iterations, self.symbols)
        log_prob = log_p.sum(dim=1) + length_log_p.flatten()
        score = log_prob / (free.sum(dim=1) + 1)
        columns = [x.view(len(sources), each, -1).tolist() for x in (words, rows, score, log_prob)]
        return [hypotheses(*sentence)[: settings.nbest] for sentence in zip(*columns, strict=True)]

    def _lined_up(self, rows: Sequence[Sequence[int]]) -> tuple[Tensor, Tensor]:
        """The ids (B, S), filled up with padding, and their lengths (B,)."""
        ids = [torch.tensor(row, dtype=torch.long) for row in rows]
        padded = pad_sequence(ids, batch_first=True, padding_value=self.symbols.pad)
        return padded.to(self.device), torch.tensor([len(row) for row in rows], device=self.device)


def likeliest_lengths(logits: Tensor, least: Tensor, most: Tensor, count: int) -> tuple[Tensor, Tensor]:
    """Numbers of words (B, C) to try, likeliest first, and their log P(N | X), for logits (B, L).

    Not fewer than `least` (B,) and not more than `most` (B,); where these leave less than C, the log P of the rest is
    minus infinity.
    """
    lengths = torch.arange(logits.size(1), device=logits.device)
    log_p = logits.float().log_softmax(dim=1)
    refuse_nan(log_p[:, 0])
    allowed = (lengths >= least[:, None]) & (lengths <= most[:, None])
    log_p, found = log_p.masked_fill(~allowed, DEAD).topk(min(count, len(lengths)), dim=1)
    return torch.where(log_p > DEAD, found, found[:, :1]), log_p


def repeated(tokens: Tokens, times: int) -> Tokens:
    """Every sentence so many times, one behind the other."""
    assert isinstance(tokens.layout, Padded)
    return Padded.of(tokens.ids.repeat_interleave(times, 0), tokens.layout.lengths.repeat_interleave(times))


def canvas(forced: Tensor, counts: Tensor, symbols: Symbols) -> Tensor:
    """(R, T): what is given, masks for the rest of `counts` (R,) words, the end symbol, padding."""
    places = torch.arange(int(counts.max()) + 1, device=counts.device)
    width = min(forced.size(1), len(places))
    words = torch.full((len(counts), len(places)), symbols.bos, device=counts.device)
    words[:, :width] = torch.where(forced[:, :width] == symbols.pad, symbols.bos, forced[:, :width])
    words = words.masked_fill(places == counts[:, None], symbols.eos)
    return words.masked_fill(places > counts[:, None], symbols.pad)


def hypotheses(
    words: list[list[int]], counts: list[list[int]], scores: list[list[float]], log_probs: list[list[float]]
) -> list[Hypothesis]:
    """The texts of one sentence that are possible, best first."""
    rows = zip(words, counts, scores, log_probs, strict=True)
    found = [
        Hypothesis(text[:count], score, log_prob, finished=True)
        for text, (count,), (score,), (log_prob,) in rows
        if score > DEAD
    ]
    return sorted(found, key=lambda hypothesis: -hypothesis.score)
