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

Shapes: B sentences, R texts of a length each, S source, T target with its end symbol, V vocabulary, L lengths.
"""

from collections.abc import Callable, Sequence

import torch
import torch.nn.functional as F
from torch import Tensor

from regard.attention.layouts import Padded, Tokens
from regard.data.planning import groups_by_length
from regard.decoding.hypothesis import NEG_INF, Hypothesis, check_no_nan
from regard.decoding.settings import DecodingSettings
from regard.decoding.stepper import Symbols
from regard.engines.stepper_engine import pad_rows
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
        best, likeliest = argmax_words(predict(words.masked_fill(masked, symbols.bos)), symbols)
        words, log_p = torch.where(masked, likeliest, words), torch.where(masked, best, log_p)
    return words, log_p


def least_likely(log_p: Tensor, free: Tensor, count: Tensor) -> Tensor:
    """(R, T) bool: the `count` (R, 1) free places with the smallest log p; of equal ones the first."""
    order = log_p.masked_fill(~free, torch.inf).argsort(dim=1, stable=True)
    return order.argsort(dim=1) < count


def argmax_words(logits: Tensor, symbols: Symbols) -> tuple[Tensor, Tensor]:
    """(R, T, V) -> log p of the likeliest word and which it is, (R, T) each; special symbols are no words."""
    log_probs = logits.float().log_softmax(dim=-1)
    check_no_nan(log_probs[..., 0])
    log_probs[..., sorted({symbols.bos, symbols.eos, symbols.pad})] = NEG_INF
    best, words = log_probs.max(dim=-1)
    return best, words


class MaskPredict:
    """A masked model on its `device`, as an engine; given `prefixes` are seen from the first pass on, and kept."""

    def __init__(self, model: MaskedTransformer, symbols: Symbols, device: torch.device) -> None:
        self.model, self.symbols, self.device = model, symbols, device

    def decode(
        self,
        sources: Sequence[Sequence[int]],
        max_new_tokens: Sequence[int],
        settings: DecodingSettings,
        *,
        prefixes: Sequence[Sequence[int]] | None = None,
        sentence_ids: Sequence[int] | None = None,
    ) -> list[list[Hypothesis]]:
        """See `Engine.decode`. A text's score is the mean log probability of its length and of the words that were not
        given, log_prob their sum; nothing is drawn at random, so `sentence_ids` are not read."""
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
        for group in groups_by_length([len(source) for source in sources], settings.batch_tokens):
            with torch.inference_mode():
                answers = self._decode(
                    [sources[i] for i in group], [max_new_tokens[i] for i in group], [given[i] for i in group], settings
                )
            for index, texts in zip(group, answers, strict=True):
                found[index] = sorted(texts, key=lambda text: -text.score)[: settings.nbest]
        return found

    def _decode(
        self,
        sources: Sequence[Sequence[int]],
        max_new_tokens: Sequence[int],
        prefixes: Sequence[Sequence[int]],
        settings: DecodingSettings,
    ) -> list[list[Hypothesis]]:
        """A text of every length tried for each sentence; texts of like length are filled in together."""
        src, given = (Padded.of(*pad_rows(rows, self.symbols.pad, self.device)) for rows in (sources, prefixes))
        memory, length = self.model.encode(src)
        least = torch.tensor([len(prefix) for prefix in prefixes], device=self.device)
        most = least + torch.tensor(max_new_tokens, device=self.device) - 1  # a limit counts the end symbol
        log_p = self.model.predict_length(length).float().log_softmax(dim=1)
        owners, counts, log_p = top_lengths(log_p, least, most, settings.length_candidates)
        found: list[list[Hypothesis]] = [[] for _ in sources]
        for group in groups_by_length((counts + 1).tolist(), settings.batch_tokens):
            rows = torch.tensor(group, device=self.device)
            owner, count = owners[rows], counts[rows]
            words, free_log_p = self._fill(
                kept(src, owner), memory[owner], kept(given, owner), count, settings.iterations
            )
            log_prob = free_log_p.sum(dim=1) + log_p[rows]
            score = log_prob / (count - least[owner] + 1)
            for sentence, *text in zip(*(x.tolist() for x in (owner, words, count, score, log_prob)), strict=True):
                found[sentence].append(hypothesis(*text))
        return found

    def _fill(
        self, src: Tokens, memory: Tensor, given: Tokens, counts: Tensor, iterations: int
    ) -> tuple[Tensor, Tensor]:
        """Texts of `counts` (R,) words for the sources of R rows, what is `given` first -> words and log p (R, T)."""
        words, free = masked_target(given, counts, self.symbols)
        layout = Padded(counts + 1, words.size(1))

        def predict(target: Tensor) -> Tensor:
            return self.model.predict(Tokens(target, layout), memory, src)

        return mask_predict(predict, words, free, iterations, self.symbols)


def top_lengths(log_p: Tensor, least: Tensor, most: Tensor, count: int) -> tuple[Tensor, Tensor, Tensor]:
    """The `count` likeliest numbers of words of each sentence, from `least` to `most` (B,), given log P(N | X) (B, L).

    Returned are R of them: whose they are, the numbers, and their log P; fewer where the bounds leave fewer.
    """
    check_no_nan(log_p[:, 0])
    lengths = torch.arange(log_p.size(1), device=log_p.device)
    allowed = (lengths >= least[:, None]) & (lengths <= most[:, None])
    best, sentence_ids = log_p.masked_fill(~allowed, NEG_INF).topk(min(count, len(lengths)), dim=1)
    owners, places = (best > NEG_INF).nonzero(as_tuple=True)
    return owners, sentence_ids[owners, places], best[owners, places]


def kept(tokens: Tokens, sentences: Tensor) -> Tokens:
    """Only these sentences, in this order, some of them several times."""
    assert isinstance(tokens.layout, Padded)
    return Padded.of(tokens.ids[sentences], tokens.layout.lengths[sentences])


def masked_target(given: Tokens, counts: Tensor, symbols: Symbols) -> tuple[Tensor, Tensor]:
    """(R, T): what is given, masks up to `counts` (R,) words, the end symbol, padding; and where the masks stand."""
    places = torch.arange(int(counts.max()) + 1, device=counts.device)
    assert isinstance(given.layout, Padded)
    free = (places >= given.layout.lengths[:, None]) & (places < counts[:, None])
    words = F.pad(given.ids, (0, len(places)), value=symbols.pad)[:, : len(places)]
    words = words.masked_fill(places == counts[:, None], symbols.eos)
    return words.masked_fill(free, symbols.bos), free


def hypothesis(words: list[int], count: int, score: float, log_prob: float) -> Hypothesis:
    """A text ends where it was announced to."""
    return Hypothesis(words[:count], score, log_prob, finished=True)
