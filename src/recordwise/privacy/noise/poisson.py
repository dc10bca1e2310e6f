"""Poisson numbers of modest mean, exactly: a uniform real is looked up in the cumulative probabilities."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from recordwise.errors import InvalidInput
from recordwise.privacy.noise.real import Number, Real, exp, less, real
from recordwise.privacy.noise.source import Noise
from recordwise.privacy.noise.uniform import MARGIN, Uniform

LARGEST = 64  # up to this mean a plain table in floats keeps well within the margin


def poisson(mean: Number, count: int, noise: Noise) -> NDArray[np.int64]:
    """Independent integers N with P(N = k) = exp(-mean)·mean^k / k!, exactly.

    Args:
      mean: A Fraction or a Real between 0 and 64.
    """
    mean = real(mean)
    about = float(mean)
    if not 0 <= about <= LARGEST:
        raise InvalidInput(f"mean must lie in [0, {LARGEST}], got {about!r}")
    term, terms = math.exp(-about), [math.exp(-about)]
    while len(terms) <= about or term > 2.0**-60:
        term *= about / len(terms)
        terms.append(term)
    at_most = np.cumsum(terms)  # some 200 terms, each with a few hundred roundings: off by less than 2^-44
    words = noise.words(count)
    u = words * 2.0**-64
    numbers = np.searchsorted(at_most, u - MARGIN, side="right")
    for i in np.flatnonzero(numbers != np.searchsorted(at_most, u + MARGIN, side="right")):
        uniform = Uniform(int(words[i]), 64, noise)
        numbers[i] = 0
        while not less(uniform, _at_most(mean, int(numbers[i]))):
            numbers[i] += 1
    return numbers.astype(np.int64, copy=False)


def _at_most(mean: Real, k: int) -> Real:
    """P(N <= k)."""
    total = term = exp(-mean)
    for j in range(1, k + 1):
        term = term * mean * Fraction(1, j)
        total = total + term
    return total
