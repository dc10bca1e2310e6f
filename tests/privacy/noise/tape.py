"""A source of noise that plays chosen words, exact binomial checks, and high-precision numbers to compare with."""

from __future__ import annotations

from collections.abc import Iterable
from fractions import Fraction

import mpmath
import numpy as np
from numpy.typing import NDArray
from scipy.stats import binomtest

FALSE_FAILURE = 1e-9  # a thousand such checks every day for ten years: under 1 % chance of one false alarm


class Tape:
    """Plays the given words, then seeded ones, and remembers all it played."""

    private = False

    def __init__(self, words: Iterable[int], seed: int = 0) -> None:
        self._given = [int(word) for word in words]
        self._rest = np.random.default_rng(seed)
        self.played: list[int] = []

    def words(self, count: int) -> NDArray[np.uint64]:
        given, self._given = self._given[:count], self._given[count:]
        more = self._rest.integers(0, 2**64, size=count - len(given), dtype=np.uint64)
        words = np.concatenate([np.array(given, dtype=np.uint64), more])
        self.played += [int(word) for word in words]
        words.flags.writeable = False  # as the operating system's are
        return words


def real_bits(number: mpmath.mpf, words: int) -> list[int]:
    """The first binary digits of a number in [0, 1), as 64-bit words."""
    digits = int(mpmath.floor(number * mpmath.mpf(2) ** (64 * words)))
    return [(digits >> 64 * (words - 1 - i)) & (2**64 - 1) for i in range(words)]


def near(number: mpmath.mpf, agreeing: int) -> list[list[int]]:
    """Tapes of reals just below and just above a number, which agree with it in `agreeing` words or a bit less."""
    digits = int(mpmath.floor(number * mpmath.mpf(2) ** (64 * agreeing)))
    tapes = []
    for step in (-2, -1, 0, 1, 2):
        value = digits + step
        if 0 <= value < 1 << 64 * agreeing:
            tapes.append([(value >> 64 * (agreeing - 1 - i)) & (2**64 - 1) for i in range(agreeing)])
    return tapes


def interval(words: list[int], *, dropped: int = 0) -> tuple[mpmath.mpf, mpmath.mpf]:
    """The reals in [0, 1] that begin with these words; `dropped` bits of the first word say something else."""
    value = words[0] >> dropped
    for word in words[1:]:
        value = (value << 64) | word
    unit = mpmath.mpf(2) ** -(64 * len(words) - dropped)
    return value * unit, (value + 1) * unit


def strata(bits: int) -> NDArray[np.uint64]:
    """The middle of each of 2^bits equal parts of all words: every prefix once."""
    return (np.arange(2**bits, dtype=np.uint64) << np.uint64(64 - bits)) + np.uint64(1 << (63 - bits))


def mp(number: Fraction) -> mpmath.mpf:
    return mpmath.mpf(number.numerator) / number.denominator


def worst_p_value(samples: NDArray[np.int64], values: NDArray[np.int64], probabilities: NDArray[np.float64]) -> float:
    """Exact binomial tests of how often each value occurs and of the rest, corrected for their number."""
    observed = [int((samples == value).sum()) for value in values]
    tests = [*zip(observed, probabilities, strict=True), (len(samples) - sum(observed), 1 - probabilities.sum())]
    worst = min(binomtest(count, len(samples), min(1.0, max(0.0, float(p)))).pvalue for count, p in tests)
    return min(1.0, float(worst) * len(tests))
