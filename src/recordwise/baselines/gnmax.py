"""GNMAX (Papernot et al. 2018): teachers on disjoint shards vote, Gaussian noise, the noisy maximum is the label."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any, ClassVar

import numpy as np

from recordwise.baselines.data_dependent import SMOOTH, Sanitised, noisy_max_history, sanitise, sanitising_rdp
from recordwise.baselines.estimator import Private, Released, Vectors
from recordwise.baselines.labeller import noisy_max
from recordwise.baselines.teachers import Pate
from recordwise.errors import InvalidInput, OutOfRegime, positive
from recordwise.privacy.accountant import calibrate
from recordwise.privacy.events import Approximate, DiscreteGaussianTally, Event
from recordwise.privacy.guarantee import exact
from recordwise.privacy.noise import DiscreteGaussian, Noise
from recordwise.votes import NOBODY


@dataclass(eq=False, repr=False)
class GNMax(Pate):
    """Gaussian noisy maximum of teachers' votes, with PATE's confident aggregation where a threshold is given.

    `guarantee_` is the worst case over all records, which the noise is calibrated to. `data_dependent_` is what PATE's
    papers print: the cost on these very votes, which is much smaller where teachers agree. It depends on the records,
    so it is itself released with noise scaled to its smooth sensitivity, and paid for.

    Args:
      teachers: Disjoint shards of the records.
      threshold: Confident aggregation: answer only where so large a share of teachers agrees, after noise.
      data_dependent: Publish the data-dependent epsilon as well; the noise on votes grows to pay for it.
      order: The Rényi order at which it is published.

    Attributes:
      sigma_: The noise's deviation on a vote count; `screen_sigma_` that on the largest count.
      data_dependent_: The sanitised bound, or None.
    """

    name: ClassVar[str] = "gnmax"
    threshold: float | None = field(default=None, kw_only=True)
    data_dependent: bool = field(default=False, kw_only=True)
    order: float = field(default=20.0, kw_only=True)

    def most_queries(self, num_records: int, num_classes: int) -> float:
        # The noise of s queries has about √(2s·2 ln(1/delta))/epsilon; a quarter of the teachers outvotes it.
        return (self.teachers * float(self.epsilon) / 4) ** 2 / (4 * math.log(1 / float(self.delta)))

    def check(self, num_records: int, dim: int, num_classes: int) -> None:
        super().check(num_records, dim, num_classes)
        if self.threshold is not None and not 0 < self.threshold <= 1:
            raise InvalidInput(f"threshold must lie in (0, 1], got {self.threshold!r}")
        positive(order=self.order - 1)
        epsilon, delta = exact(self.epsilon, "epsilon"), self._delta()
        self.sigma2_ = self._with_sanitising() if self.data_dependent else calibrate(self._events, epsilon, delta)

    @property
    def sigma_(self) -> float:
        return math.sqrt(self.sigma2_)

    @property
    def screen_sigma_(self) -> float:
        return math.sqrt(4 * self.sigma2_)

    def _events(self, sigma2: Fraction) -> list[Event]:
        """A moved vote changes two cells by one in every query, and the largest count by one."""
        asked: list[Event] = [DiscreteGaussianTally(sigma2, 2 * self.num_queries_)]
        return asked if self.threshold is None else [*asked, DiscreteGaussianTally(4 * sigma2, self.num_queries_)]

    def _with_sanitising(self) -> Fraction:
        """The least variance with which votes and sanitised figure cost (epsilon, delta) together, by Rényi orders."""
        per_order = self.num_queries_ * (1 if self.threshold is None else Fraction(9, 8))
        best = math.inf
        for order in np.linspace(1.05, self.order / (2 * SMOOTH), 400)[:-1]:
            left = (
                float(self.epsilon) - sanitising_rdp(order, self.order) - math.log(1 / float(self.delta)) / (order - 1)
            )
            best = min(best, order * float(per_order) / left) if left > 0 else best
        if not math.isfinite(best):
            raise OutOfRegime(
                f"epsilon must be larger to publish a data-dependent one at order {self.order:g}, got {self.epsilon:g}"
            )
        return Fraction(math.ceil(best * 2**10), 2**10)

    @property
    def event(self) -> Event:
        if self.data_dependent or self.threshold is not None:
            return Approximate(exact(self.epsilon, "epsilon"), self._delta())
        return self._events(self.sigma2_)[0]

    def answer(self, private: Private, noise: Noise) -> Released:
        votes = self.votes(private, noise)
        labels = noisy_max(votes, DiscreteGaussian(self.sigma2_), noise)
        needed = None
        if self.threshold is not None:
            needed = math.ceil(self.threshold * self.teachers)
            largest = votes.max(axis=1) + DiscreteGaussian(4 * self.sigma2_).sample(len(votes), noise)
            labels = np.where(largest >= needed, labels, NOBODY)
        released: Released = {"labels": labels}
        if self.data_dependent:
            history = noisy_max_history(
                votes,
                answered=labels != NOBODY,
                sigma=self.sigma_,
                needed=needed,
                screen_sigma=self.screen_sigma_,
                order=self.order,
            )
            bound = sanitise(history, order=self.order, delta=float(self.delta), noise=noise)
            released["data_dependent"] = np.array([min(bound.epsilon, float(self.epsilon)), bound.delta])
        return released

    def learn(self, released: Released, pool: Vectors | None) -> None:
        super().learn(released, pool)
        held: Any = released.get("data_dependent")
        self.data_dependent_ = None if held is None else Sanitised(float(held[0]), float(held[1]))
