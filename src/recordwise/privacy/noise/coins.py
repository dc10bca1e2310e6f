"""Coins whose probability is a real number, exactly."""

from __future__ import annotations

from fractions import Fraction
from functools import partial

import numpy as np
from numpy.typing import NDArray

from recordwise.errors import InvalidInput, positive
from recordwise.privacy.guarantee import exact
from recordwise.privacy.noise.real import Number, Real, exp, less, real
from recordwise.privacy.noise.source import Noise
from recordwise.privacy.noise.uniform import Size, Uniform, below, chunks


def bernoulli(probability: Number, size: Size, noise: Noise) -> NDArray[np.bool_]:
    """Independent coins that are True with exactly this probability.

    The first 16 bits of a uniform real settle all but about one coin in 65,536; the rest reveal more.

    Args:
      probability: A Fraction, or a Real such as `exp(e) / (exp(e) + 1)` with e a Fraction.
    """
    probability = real(probability)
    low, high = probability.bounds(64)
    if high < 0 or low > 2**64:
        raise InvalidInput(f"probability must lie in [0, 1], got {float(probability)!r}")
    low, high = low >> 48, -(-high >> 48)  # a first digit below `low` is True, one of at least `high` False
    result = np.empty(size, dtype=np.bool_)
    flat = result.reshape(-1)
    for part in chunks(size):
        count = part.stop - part.start
        digits = noise.words(-(-count // 4)).view(np.uint16)[:count]
        flat[part] = digits < low
        for i in np.flatnonzero((digits >= low) & (digits < high)):
            flat[part.start + i] = less(Uniform(int(digits[i]), 16, noise), probability)
    return result


def bernoulli_exp(numerators: NDArray[np.int64], scale: Fraction, noise: Noise) -> NDArray[np.bool_]:
    """One independent coin per numerator, True with probability exactly exp(-numerator / scale).

    Args:
      numerators: Integers >= 0, of any shape.
      scale: Greater than zero.
    """
    scale = exact(scale)
    positive(scale=scale)
    if numerators.size and not numerators.min() >= 0:
        raise InvalidInput(f"numerators must be >= 0, got {numerators.min()}")
    result = np.empty(numerators.shape, dtype=np.bool_)
    flat, numerators = result.reshape(-1), numerators.ravel()
    rate = float(1 / scale)
    for part in chunks(numerators.size):
        # Two roundings in the exponent x cost at most x·exp(-x)·2^-51, far inside the margin.
        approximate = np.exp(numerators[part] * -rate)
        flat[part] = below(approximate, partial(_threshold, numerators[part], scale), noise)
    return result


def _threshold(numerators: NDArray[np.int64], scale: Fraction, position: int) -> Real:
    return exp(-int(numerators[position]) / scale)
