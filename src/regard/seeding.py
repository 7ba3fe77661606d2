"""Seeded randomness: every random choice is a function of the run's seed and of what it is for.

Nothing keeps the state of a generator between steps, so that a resumed run draws the same numbers as an uninterrupted
one. A purpose is a sequence of values: an epoch, a step, the number of a sentence.
"""

import hashlib

import numpy as np
from numpy.typing import NDArray


def rng(seed: int, *purpose: int) -> np.random.Generator:
    """Make the numpy generator for one purpose; equal arguments give equal numbers on every machine."""
    return np.random.Generator(np.random.Philox(np.random.SeedSequence((seed, *purpose))))


def random_key(seed: int, *purpose: int) -> int:
    """Derive a 64-bit key for choices that are made by hashing and not by a generator."""
    return int(np.random.SeedSequence((seed, *purpose)).generate_state(1, np.uint64)[0])


def derive_seed(seed: int, *purpose: int | str) -> int:
    """Derive a 63-bit seed for one purpose, the same on every machine."""
    return int.from_bytes(hash_bytes(seed, *purpose), "little") >> 1


def hash_bytes(*values: int | str, separator: str = "/", size: int = 8) -> bytes:
    """Hash the values, written as text, to `size` bytes (blake2b)."""
    return hashlib.blake2b(separator.join(map(str, values)).encode(), digest_size=size).digest()


def mix(numbers: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """A bijection of 64-bit numbers that looks random: the finaliser of SplitMix64 (Steele, Lea and Flood 2014)."""
    numbers = (numbers ^ (numbers >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    numbers = (numbers ^ (numbers >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return numbers ^ (numbers >> np.uint64(31))
