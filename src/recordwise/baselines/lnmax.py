"""LNMAX (Papernot et al. 2017): teachers on disjoint shards vote, Laplace noise, the noisy maximum is the label."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import ClassVar

from recordwise.baselines.estimator import Private, Released
from recordwise.baselines.labeller import noisy_max
from recordwise.baselines.teachers import Pate
from recordwise.privacy.accountant import calibrate
from recordwise.privacy.events import DiscreteLaplaceTally, Event
from recordwise.privacy.guarantee import exact
from recordwise.privacy.noise import DiscreteLaplace, Noise


@dataclass(eq=False, repr=False)
class LNMax(Pate):
    """Laplace noisy maximum of teachers' votes; pure where delta is zero.

    Args:
      teachers: Disjoint shards of the records.

    Attributes:
      scale_: The noise's scale on a vote count.
    """

    name: ClassVar[str] = "lnmax"
    may_be_pure: ClassVar[bool] = True

    def most_queries(self, num_records: int, num_classes: int) -> float:
        return self.teachers * float(self.epsilon) / 8  # Laplace noise of s queries has scale 2s/epsilon, or less

    def check(self, num_records: int, dim: int, num_classes: int) -> None:
        super().check(num_records, dim, num_classes)
        epsilon, delta = exact(self.epsilon, "epsilon"), self._delta()
        if delta == 0:
            self.scale_ = 2 * self.num_queries_ / epsilon
        else:
            self.scale_ = calibrate(lambda scale: [self._event(scale)], epsilon, delta)

    def _event(self, scale: Fraction) -> DiscreteLaplaceTally:
        return DiscreteLaplaceTally(scale, 2 * self.num_queries_)

    @property
    def event(self) -> Event:
        return self._event(self.scale_)

    def answer(self, private: Private, noise: Noise) -> Released:
        return {"labels": noisy_max(self.votes(private, noise), DiscreteLaplace(self.scale_), noise)}
