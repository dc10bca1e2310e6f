"""The normal law, for errors that are known through their variance only."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from recordwise.errors import positive

SMALLEST_STD = 1e-150  # at a huge epsilon the noise is too small for a float, and so is its square


@dataclass(frozen=True)
class Normal:
    """A normal error of mean zero: what the sum of many small independent errors comes to.

    It describes noise and never makes any: adding floats drawn from it to counts would not be private.
    """

    heavy_tailed: ClassVar[bool] = False

    std: float

    def __post_init__(self) -> None:
        positive(std=self.std)

    def log_likelihood(self, noise: ArrayLike) -> NDArray[np.float64]:
        return (np.asarray(noise, dtype=np.float64) / max(self.std, SMALLEST_STD)) ** 2 / -2

    def two_sided_tail(self, distance: float) -> float:
        return min(1.0, math.erfc(distance / (self.std * math.sqrt(2))) * (1 + 1e-12))
