"""The likeliest tokens of every row in one pass over the logits, on a GPU.

Sorting 32,000 numbers to find eight is a waste, and so is reading them more than once. A program takes a row and walks
over it with L lanes, lane l seeing tokens l, l + L, l + 2L ...; each lane keeps the best it has seen and, for the
normalisation, a running maximum and sum. Then the best of the lanes is the best of the row; its lane is read again for
the best below it, and so on. What is compared is a key of 64 bits, the logit's order above, the token's below, so that
all keys differ and among equal logits the lowest token wins.

V vocabulary, L lanes.
"""

# mypy: disable-error-code="import-untyped,import-not-found,untyped-decorator,no-untyped-def"
import triton
import triton.language as tl

NO_CANDIDATE = tl.constexpr(-(2**63))
INT32_MAX = tl.constexpr(0x7FFFFFFF)


@triton.jit
def sort_key(logit, token, vocabulary, first_forbidden, second_forbidden):
    """An integer that orders by logit, then by token downwards; `NO_CANDIDATE` for what is no candidate."""
    logit = tl.where(logit == 0, 0.0, logit)  # minus zero equals zero, but its bits do not
    bits = logit.to(tl.int32, bitcast=True)
    ordered = tl.where(bits >= 0, bits, bits ^ INT32_MAX).to(tl.int64)
    candidate = (token < vocabulary) & (token != first_forbidden) & (token != second_forbidden)
    return tl.where(candidate, (ordered << 32) | (token ^ INT32_MAX).to(tl.int64), NO_CANDIDATE)


@triton.jit
def top_k_kernel(
    logits, top_logits, top_tokens, log_z, vocabulary, first_forbidden, second_forbidden,
    COUNT: tl.constexpr, LANES: tl.constexpr, ROUNDS: tl.constexpr,
):  # fmt: skip
    """One program a row: `COUNT` greatest logits with their tokens, and log sum exp."""
    row = tl.program_id(0).to(tl.int64)
    start = logits + row * vocabulary
    lane = tl.arange(0, LANES)
    peak = tl.full([LANES], -3e38, tl.float32)
    share = tl.zeros([LANES], tl.float32)
    best = tl.full([LANES], NO_CANDIDATE, tl.int64)
    for begin in range(0, vocabulary, LANES):
        token = begin + lane
        x = tl.load(start + token, mask=token < vocabulary, other=-float("inf")).to(tl.float32)
        # sum of exp(x - peak), with one exponential whichever of the two is the greater
        fall = tl.exp(-tl.abs(x - peak))
        share = tl.where(x > peak, share * fall + 1.0, share + fall)
        peak = tl.maximum(peak, x)
        best = tl.maximum(best, sort_key(x, token, vocabulary, first_forbidden, second_forbidden))
    highest = tl.max(peak, axis=0)
    tl.store(log_z + row, highest + tl.log(tl.sum(share * tl.exp(peak - highest), axis=0)))
    for place in range(COUNT):
        key = tl.max(best, axis=0)
        token = (key & INT32_MAX).to(tl.int32) ^ INT32_MAX
        ordered = (key >> 32).to(tl.int32)
        logit = tl.where(ordered >= 0, ordered, ordered ^ INT32_MAX).to(tl.float32, bitcast=True)
        nothing = key == NO_CANDIDATE
        tl.store(top_logits + row * COUNT + place, tl.where(nothing, -float("inf"), logit))
        tl.store(top_tokens + row * COUNT + place, tl.where(nothing, 0, token).to(tl.int64))
        members = token % LANES + tl.arange(0, ROUNDS) * LANES
        members = tl.where(nothing, vocabulary, members)
        x = tl.load(start + members, mask=members < vocabulary, other=-float("inf")).to(tl.float32)
        keys = sort_key(x, members, vocabulary, first_forbidden, second_forbidden)
        below = tl.max(tl.where(keys < key, keys, NO_CANDIDATE), axis=0)
        best = tl.where(lane == token % LANES, below, best)
