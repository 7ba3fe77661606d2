"""The few likeliest of very many tokens, without sorting the many.

A search wants the eight likeliest of tens of thousands of tokens, at every step and for every hypothesis. `topk` walks
over them one by one; a maximum is taken of many at once. So the row is written as a rectangle, and each column is
looked at through its maximum first: the k largest numbers stand in the k columns whose maxima are the largest.

    3 1 4 1 5 9 2 6        3 1 4 1
                     ->    5 9 2 6    maxima 5 9 4 6, so the two largest, 9 and 6, are in the columns of 9 and 6

R rows, V vocabulary.
"""

import torch
from torch import Tensor

COLUMN = 32
"""Numbers in a column."""
BLOCK = 2**17
"""Numbers looked at together on a CPU: few enough to stay in its cache from the first look to the last."""


def top_k_log_probs(logits: Tensor, count: int) -> tuple[Tensor, Tensor]:
    """`logits` (..., V) -> log P of the `count` likeliest, likeliest first, and which they are, (..., count) each.

    Only these are normalised: log P(y) = logit(y) - log sum exp(logits).
    """
    rows = logits.flatten(0, -2)
    together = max(1, BLOCK // rows.size(1)) if rows.device.type == "cpu" else len(rows)
    blocks = [_likeliest(block, count) for block in rows.split(together)]
    log_probs, tokens = blocks[0] if len(blocks) == 1 else (torch.cat(part) for part in zip(*blocks, strict=True))
    return log_probs.view(*logits.shape[:-1], -1), tokens.view(*logits.shape[:-1], -1)


def _likeliest(logits: Tensor, count: int) -> tuple[Tensor, Tensor]:
    values, tokens = top_k(logits, count)
    return values - log_sum_exp(logits, values[:, :1]), tokens


def log_sum_exp(logits: Tensor, peak: Tensor) -> Tensor:
    """(..., V) and their maximum (..., 1) -> (..., 1)."""
    return (logits - peak).exp_().sum(dim=-1, keepdim=True).log_().add_(peak)


def top_k(scores: Tensor, count: int) -> tuple[Tensor, Tensor]:
    """`scores` (..., V) -> the `count` largest, largest first, and their places; all V where there are no more."""
    size = scores.size(-1)
    columns = size // COLUMN
    if columns < 2 * count:
        return torch.topk(scores, min(count, size), dim=-1)
    whole = COLUMN * columns
    rectangle = scores[..., :whole].unflatten(-1, (COLUMN, columns))
    best = torch.topk(rectangle.amax(dim=-2), count, dim=-1).indices.unsqueeze(-2)
    values = rectangle.gather(-1, best.expand(*rectangle.shape[:-1], count)).flatten(-2)
    places = (best + torch.arange(0, whole, columns, device=scores.device)[:, None]).flatten(-2)
    if whole < size:  # what did not fill a row of the rectangle is looked at in any case
        rest = torch.arange(whole, size, device=scores.device).expand(*scores.shape[:-1], -1)
        values, places = torch.cat([values, scores[..., whole:]], dim=-1), torch.cat([places, rest], dim=-1)
    found = torch.topk(values, count, dim=-1)
    return found.values, places.gather(-1, found.indices)
