"""The k most likely of very many tokens, without sorting all of them.

A search needs the eight most likely of tens of thousands of tokens, at every step and for every hypothesis. `topk`
reads them one by one, but a maximum is taken over many numbers at once. So the row is written as a rectangle, and the
maximum of each column is computed first: the k largest numbers are in the k columns with the largest maxima.

    3 1 4 1 5 9 2 6        3 1 4 1
                     ->    5 9 2 6    maxima 5 9 4 6, so the two largest, 9 and 6, are in the columns of 9 and 6

Shapes: R rows, V vocabulary.
"""

import torch
from torch import Tensor

COLUMN = 32
"""Numbers in a column."""
BLOCK = 2**17
"""Numbers processed together on a CPU: few enough to stay in its cache."""


def top_k_log_probs(logits: Tensor, count: int) -> tuple[Tensor, Tensor]:
    """`logits` (..., V) -> log P of the `count` most likely tokens, best first, and their ids, (..., count) each.

    Only these are normalised: log P(y) = logit(y) - log sum exp(logits).
    """
    rows = logits.flatten(0, -2)
    size = max(1, BLOCK // rows.size(1)) if rows.device.type == "cpu" else len(rows)
    blocks = []
    for block in rows.split(size):
        values, tokens = top_k(block, count)
        blocks.append((values - log_sum_exp(block, values[:, :1]), tokens))
    log_probs, tokens = blocks[0] if len(blocks) == 1 else (torch.cat(column) for column in zip(*blocks, strict=True))
    return log_probs.view(*logits.shape[:-1], -1), tokens.view(*logits.shape[:-1], -1)


def log_sum_exp(logits: Tensor, maximum: Tensor) -> Tensor:
    """(..., V) and their maximum (..., 1) -> (..., 1)."""
    return (logits - maximum).exp_().sum(dim=-1, keepdim=True).log_().add_(maximum)


def top_k(scores: Tensor, count: int) -> tuple[Tensor, Tensor]:
    """`scores` (..., V) -> the `count` largest, largest first, and their indices; all V if there are fewer."""
    size = scores.size(-1)
    columns = size // COLUMN
    if columns < 2 * count:
        return torch.topk(scores, min(count, size), dim=-1)
    whole = COLUMN * columns
    rectangle = scores[..., :whole].unflatten(-1, (COLUMN, columns))
    best = torch.topk(rectangle.amax(dim=-2), count, dim=-1).indices.unsqueeze(-2)
    values = rectangle.gather(-1, best.expand(*rectangle.shape[:-1], count)).flatten(-2)
    indices = (best + torch.arange(0, whole, columns, device=scores.device)[:, None]).flatten(-2)
    if whole < size:  # the numbers that do not fill a row of the rectangle are always candidates
        remainder = torch.arange(whole, size, device=scores.device).expand(*scores.shape[:-1], -1)
        values, indices = torch.cat([values, scores[..., whole:]], dim=-1), torch.cat([indices, remainder], dim=-1)
    top = torch.topk(values, count, dim=-1)
    return top.values, indices.gather(-1, top.indices)
