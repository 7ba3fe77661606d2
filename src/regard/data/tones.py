"""A corpus of recordings that are computed: strings of digits, each digit a pair of tones.

    tones:17:3 0 3      recording 17 says "three zero three"

A name holds all that the recording depends on, so no file is needed. A recording has one voice, which multiplies all
frequencies, and a speed. Each digit has its own length and loudness, its tones glide a little, and noise covers it all:

    x(t) = e(t) [sin(2 pi f_1 t) + 0.7 sin(2 pi f_2 t)] + noise

f_1 is one of four frequencies and f_2 one of three, as on a telephone keypad. e rises and falls within 20 ms.
"""

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from regard.errors import UserError
from regard.seeding import rng

Samples = NDArray[np.float32]
PREFIX = "tones:"
WORDS = ("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine")
LOW, HIGH = (400, 560, 780, 1090), (1530, 2140, 3000)
"""The frequencies of the two tones in Hz: neighbours differ by a factor of 1.4."""
MAX_DIGITS = 6


def tone_names(split: str) -> Iterator[tuple[str, str]]:
    """Infinitely many strings of digits, each with the name of a recording; the choices depend on the split."""
    generator = rng(1, *split.encode())
    while True:
        digits = " ".join(map(str, generator.integers(0, 10, generator.integers(1, MAX_DIGITS + 1))))
        yield digits, f"{PREFIX}{generator.integers(1 << 32)}:{digits}"


def transcript(digits: str) -> str:
    """The words for digits: "3 0" -> "three zero"."""
    return " ".join(WORDS[int(digit)] for digit in digits.split())


def record_tones(name: str, rate: int) -> Samples:
    """The samples of a recording, between -1 and 1, at `rate` samples per second."""
    number, _, digits = name.removeprefix(PREFIX).partition(":")
    if not (
        number.isascii() and number.isdecimal() and digits and all(item in "0123456789" for item in digits.split())
    ):
        problem = f"{name!r} is not a generated recording"
        raise UserError(problem, "write tones:NUMBER:DIGITS, e.g. tones:1:3 0 3", code="bad-audio", where=name)
    generator = rng(int(number))
    voice, speed = np.exp(generator.uniform(-0.1, 0.1)), np.exp(generator.uniform(-0.3, 0.3))
    parts = [np.zeros(int(rate * generator.uniform(0.02, 0.1)))]
    for digit in map(int, digits.split()):
        time = np.arange(int(rate * generator.uniform(0.12, 0.26) / speed)) / rate
        glide = 1 + generator.uniform(-0.04, 0.04) * time / time[-1]
        tones = (voice * frequency * glide for frequency in (LOW[digit % 4], HIGH[digit // 4]))
        low, high = (np.sin(2 * np.pi * (np.cumsum(tone) / rate + generator.uniform())) for tone in tones)
        rise = np.clip(np.minimum(time, time[::-1]) / 0.02, 0, 1)
        parts.append(generator.uniform(0.1, 0.3) * rise * (low + 0.7 * high))
        parts.append(np.zeros(int(rate * generator.uniform(0.03, 0.12) / speed)))
    clean = np.concatenate(parts)
    noisy = clean + generator.uniform(0.02, 0.15) * generator.standard_normal(len(clean))
    return np.clip(noisy, -1, 1).astype(np.float32)
