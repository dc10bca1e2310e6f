"""How likely a released cell is, given the count to expect: the noise's law and the chance in the count together.

A cell is a count plus noise. The count varies about its expectation (which record happens to be there), and that part
is taken as a normal of given variance. The noise has its own law, and its shape is kept: a Laplace law convolved with a
normal has a closed form, a normal law stays normal. Gradients are exact.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from scipy.special import log_ndtr

from recordwise.arrays import Doubles
from recordwise.privacy.noise.law import Law

WHOLE = 1 / 12  # the variance of rounding to a whole number: no count varies less
SMALLEST_SCALE = 0.02  # noise below it cannot hide a vote, and would only cost digits
FAINTEST = 1e-3  # beside the deviation of the count: noise below it drowns in chance, and would cost all digits


@dataclass(frozen=True)
class CellLaw:
    """The law of one cell's error, by the shape of its noise.

    Attributes:
      scale: Of the Laplace law with the noise's variance; None where the noise is normal, or a sum of many estimates.
      variance: Of the noise.
    """

    scale: float | None
    variance: float

    def log_likelihood(self, residual: Doubles, variance: Doubles) -> tuple[Doubles, Doubles, Doubles]:
        """Log-density of cells that are off by `residual`, where the count itself has this variance.

        Returns:
          The log-density, its derivative by the residual, and its derivative by the variance.
        """
        if self.scale is None:
            total = variance + self.variance
            square = residual * residual / total
            log_density = -0.5 * (square + np.log(2 * math.pi * total))
            return log_density, -residual / total, 0.5 * (square - 1) / total
        # Laplace and normal: two one-sided exponentials, each convolved with the normal.
        std = np.sqrt(variance)
        b = np.maximum(self.scale, FAINTEST * std)
        above = variance / (2 * b * b) - residual / b + log_ndtr(residual / std - std / b)
        below = variance / (2 * b * b) + residual / b + log_ndtr(-residual / std - std / b)
        both = np.logaddexp(above, below)
        # The normal's density stands in both derivatives and cancels in the one by the residual.
        peak = np.exp(-0.5 * residual * residual / variance - 0.5 * math.log(2 * math.pi) - both)
        by_residual = (np.exp(below - both) - np.exp(above - both)) / b
        by_variance = 1 / (2 * b * b) - peak / (b * std)
        return both - np.log(2 * b), by_residual, by_variance


def cell_law(law: Law) -> CellLaw:
    """The law of a released cell's error.

    Heavy-tailed noise (discrete Laplace, and what secure sums of its shares leave) is taken as the Laplace law of equal
    variance; everything else (discrete Gaussian, sums of local estimates) as the normal of equal variance.
    """
    scale = max(law.std / math.sqrt(2), SMALLEST_SCALE) if law.heavy_tailed else None
    return CellLaw(scale=scale, variance=law.std**2)
