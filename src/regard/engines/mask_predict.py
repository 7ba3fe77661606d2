"""Mask-predict (Ghazvininejad et al. 2019, section 3): predict all tokens in parallel, then refine the uncertain ones.

    Y_mask(t) = the n least likely positions,   n = N (T - t) / T         for t = 0, 1, ..., T - 1
    y_i(t)    = argmax_w P(y_i = w | X, Y_obs(t))    for i in Y_mask(t),   y_i(t - 1) for the others
    p_i(t)    = max_w    P(y_i = w | X, Y_obs(t))    for i in Y_mask(t),   p_i(t - 1) for the others

The first pass sees only the source and predicts every token independently of the others. If two translations are
equally good, it may begin with one and end with the other. Each later pass sees the most certain tokens and predicts
the others again. The number of passes T does not depend on the length N of the sentence.

N is predicted first. Several likely lengths are decoded in parallel (section 3.3), and one hypothesis is selected:

    argmax over candidates of [ log P(N | X) + sum over i of log p_i ] / (N + 1)

The paper takes the mean over the tokens alone. Here the length counts like the end symbol that it replaces. Without it,
a hypothesis of a very unlikely length wins whenever its tokens are slightly more certain.

Shapes: B sentences, R hypotheses of one length each, S source, T target with its end symbol, V vocabulary, L lengths.
"""

from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor

from regard.attention.layouts import Padded, Tokens
from regard.data.planning import groups_by_length
from regard.decoding.engine import DecodingRequest
from regard.decoding.hypothesis import NEG_INF, Hypothesis, check_no_nan
from regard.decoding.stepper import Symbols
from regard.engines.stepper_engine import pad_rows
from regard.errors import UserError
from regard.models.masked import MaskedTransformer


def mask_predict(
    predict: Callable[[Tensor], Tensor], words: Tensor, free: Tensor, iterations: int, symbols: Symbols
) -> tuple[Tensor, Tensor]:
    """Fill the `free` positions (R, T) of `words` (R, T); the tokens at other positions do not change.

    `predict` maps words (R, T) with masks to logits (R, T, V). Returns the words and their log p_i (R, T), which is 0
    at positions that are not free. The mask is the beginning symbol, which occurs in no sentence.
    """
    counts = free.sum(dim=1, keepdim=True)  # N
    max_count = int(counts.max())
    masked, log_p = free, torch.zeros(words.shape, device=words.device)
    for t in range(iterations):
        if max_count * (iterations - t) // iterations == 0:
            break  # n is 0 in every row
        if t:
            masked = least_likely(log_p, free, counts * (iterations - t) // iterations)
        best_log_p, best_words = argmax_words(predict(words.masked_fill(masked, symbols.bos)), symbols)
        words, log_p = torch.where(masked, best_words, words), torch.where(masked, best_log_p, log_p)
    return words, log_p


def least_likely(log_p: Tensor, free: Tensor, count: Tensor) -> Tensor:
    """(R, T) bool: the `count` (R, 1) free positions with the smallest log p; the first ones among equals."""
    order = log_p.masked_fill(~free, torch.inf).argsort(dim=1, stable=True)
    return order.argsort(dim=1) < count


def argmax_words(logits: Tensor, symbols: Symbols) -> tuple[Tensor, Tensor]:
    """(R, T, V) -> log p and id of the most likely token that is not a special symbol, (R, T) each."""
    log_probs = logits.float().log_softmax(dim=-1)
    check_no_nan(log_probs[..., 0])
    log_probs[..., sorted({symbols.bos, symbols.eos, symbols.pad})] = NEG_INF
    best, words = log_probs.max(dim=-1)
    return best, words


class MaskPredict:
    """The engine of a masked model on its `device`. Prefixes are visible from the first pass on and do not change.

    The score of a hypothesis is the mean log probability of its length and of the tokens behind the prefix; log_prob is
    their sum. Nothing is random, so `sentence_ids` have no effect.
    """

    def __init__(self, model: MaskedTransformer, symbols: Symbols, device: torch.device) -> None:
        self.model, self.symbols, self.device = model, symbols, device

    def decode(self, request: DecodingRequest) -> list[list[Hypothesis]]:
        """Decode in batches of at most `settings.batch_tokens` source tokens."""
        settings = request.settings
        if settings.search != "mask_predict":
            problem = f'mask-predict models do not generate token by token, as `search = "{settings.search}"` does'
            raise UserError(problem, 'set `search = "mask_predict"`', code="unsupported", where="decoding.search")
        max_prefix = self.model.settings.max_length - 1
        if any(len(prefix) > max_prefix for prefix in request.prefixes):
            problem = f"a prefix has more than {max_prefix} tokens, and `model.max_length` is {max_prefix + 1}"
            raise UserError(problem, "use a shorter prefix", code="too-long", where="prefix")
        results: list[list[Hypothesis]] = [[] for _ in request.sources]
        groups = list(groups_by_length([len(source) for source in request.sources], settings.batch_tokens))
        for index, hypotheses in request.decode_groups(groups, self._decode_batch):
            results[index] = sorted(hypotheses, key=lambda hypothesis: -hypothesis.score)[: settings.nbest]
        return results

    @torch.inference_mode()
    def _decode_batch(self, request: DecodingRequest) -> list[list[Hypothesis]]:
        """One hypothesis for every candidate length of each sentence; similar lengths are decoded together."""
        settings = request.settings
        src, prefix = (
            Padded.of(*pad_rows(rows, self.symbols.pad, self.device)) for rows in (request.sources, request.prefixes)
        )
        memory, length = self.model.encode(src)
        minimum = torch.tensor([len(tokens) for tokens in request.prefixes], device=self.device)
        # max_new_tokens counts the end symbol
        maximum = minimum + torch.tensor(request.max_new_tokens, device=self.device) - 1
        log_p = self.model.predict_length(length).float().log_softmax(dim=1)
        sentences, counts, log_p = top_lengths(log_p, minimum, maximum, settings.length_candidates)
        results: list[list[Hypothesis]] = [[] for _ in request.sources]
        for group in groups_by_length((counts + 1).tolist(), settings.batch_tokens):
            rows = torch.tensor(group, device=self.device)
            sentence, count = sentences[rows], counts[rows]
            words, word_log_p = self._fill(
                select_rows(src, sentence), memory[sentence], select_rows(prefix, sentence), count, settings.iterations
            )
            log_prob = word_log_p.sum(dim=1) + log_p[rows]
            score = log_prob / (count - minimum[sentence] + 1)
            columns = (column.tolist() for column in (sentence, words, count, score, log_prob))
            for index, tokens, n, row_score, row_log_prob in zip(*columns, strict=True):
                results[index].append(Hypothesis(tokens[:n], row_score, row_log_prob, finished=True))
        return results

    def _fill(
        self, src: Tokens, memory: Tensor, prefix: Tokens, counts: Tensor, iterations: int
    ) -> tuple[Tensor, Tensor]:
        """Sentences of `counts` (R,) words that begin with `prefix` -> words and log p (R, T)."""
        words, free = masked_target(prefix, counts, self.symbols)
        layout = Padded(counts + 1, words.size(1))

        def predict(target: Tensor) -> Tensor:
            return self.model.predict(Tokens(target, layout), memory, src)

        return mask_predict(predict, words, free, iterations, self.symbols)


def top_lengths(log_p: Tensor, minimum: Tensor, maximum: Tensor, count: int) -> tuple[Tensor, Tensor, Tensor]:
    """The `count` most likely lengths of each sentence from `minimum` to `maximum` (B,), by log P(N | X) (B, L).

    Returns R of them: index of the sentence, length, log P. There are fewer if the bounds allow fewer.
    """
    check_no_nan(log_p[:, 0])
    lengths = torch.arange(log_p.size(1), device=log_p.device)
    allowed = (lengths >= minimum[:, None]) & (lengths <= maximum[:, None])
    best, best_lengths = log_p.masked_fill(~allowed, NEG_INF).topk(min(count, len(lengths)), dim=1)
    sentences, ranks = (best > NEG_INF).nonzero(as_tuple=True)
    return sentences, best_lengths[sentences, ranks], best[sentences, ranks]


def select_rows(tokens: Tokens, rows: Tensor) -> Tokens:
    """Only these rows, in this order; a row may occur several times."""
    assert isinstance(tokens.layout, Padded)
    return Padded.of(tokens.ids[rows], tokens.layout.lengths[rows])


def masked_target(prefix: Tokens, counts: Tensor, symbols: Symbols) -> tuple[Tensor, Tensor]:
    """(R, T): prefix, masks up to `counts` (R,) words, end symbol, padding; and (R, T) bool: where the masks are."""
    positions = torch.arange(int(counts.max()) + 1, device=counts.device)
    assert isinstance(prefix.layout, Padded)
    free = (positions >= prefix.layout.lengths[:, None]) & (positions < counts[:, None])
    words = F.pad(prefix.ids, (0, len(positions)), value=symbols.pad)[:, : len(positions)]
    words = words.masked_fill(positions == counts[:, None], symbols.eos)
    return words.masked_fill(free, symbols.bos), free
