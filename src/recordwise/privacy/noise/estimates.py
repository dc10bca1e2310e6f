"""The error of a sum of independent, bounded, unbiased estimates: what a tally under local trust carries."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from recordwise.privacy.noise.normal import SMALLEST_STD


@dataclass(frozen=True, kw_only=True)
class SumOfEstimates:
    """Noise of a cell summed over `messages` records, each of which either voted for it or did not.

    Guarantees:
      - `two_sided_tail` is an upper bound for any number of messages and whatever the true count is (Bennett 1962,
        on either side, with the largest variance a record can contribute);
      - `std` is the root mean square over the cells of a full vote, not the worst cell's.

    Attributes:
      variance: Of one record's estimate, averaged over cells.
      largest_variance: Of one record's estimate, for the worst cell.
      below: How far one record's estimate can fall below its mean.
      above: How far one record's estimate can rise above its mean.
    """

    heavy_tailed: ClassVar[bool] = False
    # The deviation of a sum of cells, beside that of as many independent ones: cells of one message err together. Of
    # all local and shuffled mechanisms Collision does most so, nearly twice as far.
    together: ClassVar[float] = 2.0

    messages: int
    variance: float
    largest_variance: float
    below: float
    above: float

    @property
    def std(self) -> float:
        return math.sqrt(self.messages * self.variance)

    def log_likelihood(self, noise: ArrayLike) -> NDArray[np.float64]:
        """The limit law's, a normal: the sum's own law sits on a lattice that depends on the unknown count."""
        scaled = np.asarray(noise, dtype=np.float64) / max(self.std, SMALLEST_STD)
        return -0.5 * scaled * scaled

    def two_sided_tail(self, distance: float) -> float:
        if not distance > 0:
            return 1.0
        return min(1.0, self._one_sided(distance, self.above) + self._one_sided(distance, self.below))

    def _one_sided(self, distance: float, reach: float) -> float:
        if distance > self.messages * reach:
            return 0.0  # not even if every record erred by as much as it can
        total = self.messages * self.largest_variance
        u = reach * distance / total
        return math.exp(-total / reach**2 * ((1 + u) * math.log1p(u) - u))
