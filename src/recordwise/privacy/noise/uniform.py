"""Uniform reals revealed 64 bits at a time, and the one decision every sampler here takes: is it below a number?

A uniform real U in [0, 1) has infinitely many random bits; its first word fixes it to within 2^-64. Nearly always
that settles on which side of a threshold U lies, and a float evaluation of the threshold settles it as well, provided
that its error has a proven bound. The few draws too close to call reveal more bits and compare them with an enclosure
of the threshold (`real`). Floats so decide how fast a sampler is, never what it returns: the output is the exact
function of the bits that the law prescribes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from math import prod

import numpy as np
from numpy.typing import NDArray

from recordwise.privacy.noise.real import Enclosure, Real, less
from recordwise.privacy.noise.source import Noise

MARGIN = 2.0**-36  # thresholds are evaluated in floats to better than this; a wider margin only costs time
SMALL_WORD = 1 << 44  # a word at least this large fixes U to a relative 2^-44: enough for its logarithm
CHUNK = 1 << 16  # draws held in memory at a time

Size = int | tuple[int, ...]


class Uniform(Real):
    """A uniform real in [0, 1) whose first bits are drawn already and whose other bits are drawn when asked for."""

    __slots__ = ("_bits", "_noise", "_prefix")

    def __init__(self, prefix: int, bits: int, noise: Noise) -> None:
        super().__init__(self._reveal)
        self._prefix, self._bits, self._noise = prefix, bits, noise

    def _reveal(self, bits: int) -> Enclosure:
        while self._bits < bits:
            self._prefix = (self._prefix << 64) | int(self._noise.words(1)[0])
            self._bits += 64
        prefix = self._prefix >> self._bits - bits
        return prefix, prefix + 1

    def bounds(self, bits: int) -> Enclosure:
        return self._reveal(bits)  # exact at any precision, so no bits beyond those asked for are revealed


def below(approximate: NDArray[np.float64], exact: Callable[[int], Real], noise: Noise) -> NDArray[np.bool_]:
    """Whether U < threshold, for an independent uniform U per threshold: coins of exactly known probability.

    Args:
      approximate: The thresholds, each within MARGIN / 2.
      exact: The threshold at a (flat) position.
    """
    words = noise.words(approximate.size)
    excess = words.reshape(approximate.shape) * 2.0**-64 - approximate
    result = excess < 0
    for i in np.flatnonzero(~(np.abs(excess) > MARGIN)):  # written so that a NaN counts as too close to call
        result.flat[i] = less(Uniform(int(words[i]), 64, noise), exact(int(i)))
    return result


def chunks(size: Size) -> Iterator[slice]:
    """Slices that together cover `size` draws, so that memory stays bounded whatever is asked for."""
    total = prod(size) if isinstance(size, tuple) else int(size)
    for start in range(0, total, CHUNK):
        yield slice(start, min(start + CHUNK, total))
