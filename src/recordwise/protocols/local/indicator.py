"""A yes or no seen once per record and cell, and the unbiased estimate of a vote it gives."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from recordwise.privacy.noise import Real


@dataclass(frozen=True, kw_only=True)
class Indicator:
    """Says yes with probability `hit` where the record voted and `miss` where it did not.

    Its estimate of the vote is (yes - miss) / (hit - miss), of mean one and zero.
    """

    hit: Real
    miss: Real

    @cached_property
    def gap(self) -> float:
        return float(self.hit - self.miss)  # subtracted exactly: at a small epsilon the two nearly agree

    @cached_property
    def chances(self) -> tuple[float, float]:
        """Of a yes without a vote, and with one."""
        return float(self.miss), float(self.hit)

    def variance(self, voted: bool) -> float:
        """Variance of the estimate."""
        chance = self.chances[voted]
        return chance * (1 - chance) / self.gap**2

    def second_moment(self, voted: bool) -> float:
        return self.variance(voted) + voted

    @cached_property
    def reach(self) -> tuple[float, float]:
        """The two values the estimate takes."""
        miss, _ = self.chances
        return -miss / self.gap, (1 - miss) / self.gap
