"""A random order of n things in constant memory: where is the i-th, for any i, without a list of all.

A Feistel network with four rounds is a bijection of numbers with 2b bits, for any function F (Luby and Rackoff 1988):

    (L, R)  ->  (R, L xor F(R, key of the round))        L, R: the upper and the lower b bits

F is a hash with a key, so the order looks random. If n is not a power of four, a result of n or more is permuted again
until it is below n (cycle walking; Black and Rogaway 2002): since the network is a bijection, each number follows its
cycle back into the first n, and no two numbers arrive at the same place. The network has fewer than 4 n numbers, so
fewer than four rounds of walking are needed on average.
"""

import numpy as np

from regard.data.arrays import Array
from regard.seeding import mix, random_key

ROUNDS = 4


def permute(positions: Array, count: int, seed: int, *purpose: int) -> Array:
    """Map positions to the numbers 0 ... count - 1 at them, in an order that depends on (seed, purpose) only."""
    bits = max(1, ((count - 1).bit_length() + 1) // 2)
    keys = [np.uint64(random_key(seed, *purpose, number)) for number in range(ROUNDS)]
    numbers = _network(positions.astype(np.uint64), bits, keys)
    while len(outside := np.flatnonzero(numbers >= count)):
        numbers[outside] = _network(numbers[outside], bits, keys)
    return numbers.astype(np.int64)


def _network(numbers: Array, bits: int, keys: list[np.uint64]) -> Array:
    """A bijection of numbers with 2 x `bits` bits."""
    shift, mask = np.uint64(bits), np.uint64((1 << bits) - 1)
    left, right = numbers >> shift, numbers & mask
    for key in keys:
        left, right = right, left ^ (mix(mix(right) ^ key) & mask)
    return (left << shift) | right
