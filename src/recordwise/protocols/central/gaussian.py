"""Discrete Gaussian noise on every cell of a tally."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from recordwise.errors import InvalidInput, positive, probability
from recordwise.privacy.accountant import calibrate, total_epsilon
from recordwise.privacy.events import DiscreteGaussianTally, Event
from recordwise.privacy.guarantee import Guarantee, Neighbours, Trust, exact
from recordwise.privacy.noise import DiscreteGaussian
from recordwise.privacy.outcomes import epsilon_below
from recordwise.protocols.central.counts import NoisyCells
from recordwise.protocols.pairs import Pair
from recordwise.protocols.registry import register
from recordwise.protocols.views import Exact, change
from recordwise.votes.ballot import Ballot

if TYPE_CHECKING:
    from recordwise.protocols.terms import Terms


@register
@dataclass(frozen=True, kw_only=True)
class CentralGaussian(NoisyCells):
    """Discrete Gaussian noise on every cell: rho-zCDP, printed as (epsilon, delta) by the numerical accountant.

    Guarantees:
      - sigma² = cells_changed / (2 rho), which is kr/rho (replace) or kr/(2 rho) (add or remove);
      - one release is (epsilon, delta)-DP with the epsilon that `accountant.total_epsilon` certifies.
    """

    name: ClassVar[str] = "gaussian"
    rho: Fraction
    delta: Fraction

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "rho", exact(self.rho))
        object.__setattr__(self, "delta", exact(self.delta))
        positive(rho=self.rho)
        probability(delta=self.delta)

    @classmethod
    def serve(cls, terms: Terms) -> None:
        super().serve(terms)
        if terms.delta == 0:
            raise InvalidInput("the gaussian mechanism needs delta > 0, got 0")

    @classmethod
    def planned(cls, terms: Terms, ballot: Ballot, num_records: int) -> CentralGaussian:
        return cls.calibrated(
            ballot=ballot,
            epsilon=terms.epsilon,
            delta=terms.delta,
            rounds=terms.rounds,
            neighbours=terms.neighbours,
        )

    @classmethod
    def automatic(cls, terms: Terms, ballot: Ballot, num_records: int) -> bool:
        return terms.delta > 0

    @classmethod
    def calibrated(
        cls,
        *,
        ballot: Ballot,
        epsilon: Fraction | float,
        delta: Fraction | float,
        rounds: int = 1,
        neighbours: Neighbours = Neighbours.REPLACE,
    ) -> CentralGaussian:
        """The least noise with which `rounds` releases together cost at most (epsilon, delta)."""
        positive(epsilon=epsilon)
        probability(delta=delta)
        cells = ballot.cells_changed(neighbours)
        sigma2 = calibrate(lambda sigma2: [DiscreteGaussianTally(sigma2, cells)] * rounds, exact(epsilon), exact(delta))
        return cls(ballot=ballot, neighbours=neighbours, rho=cells / (2 * sigma2), delta=exact(delta))

    @property
    def law(self) -> DiscreteGaussian:
        return DiscreteGaussian(self.ballot.cells_changed(self.neighbours) / (2 * self.rho))

    @property
    def event(self) -> Event:
        return DiscreteGaussianTally(self.law.sigma2, self.ballot.cells_changed(self.neighbours))

    @property
    def guarantee(self) -> Guarantee:
        epsilon = total_epsilon([self.event], self.delta)
        return Guarantee(epsilon=epsilon, delta=self.delta, neighbours=self.neighbours, trust=Trust.CENTRAL)

    def exact_epsilon(self, pair: Pair, parties: int | None) -> Exact:
        reach = math.ceil(12 * self.law.std) + 2
        noise = np.arange(-reach, reach + 1)
        one = self.law.pmf(noise), self.law.pmf(noise - 1)  # the law is symmetric: up or down makes no difference
        cells = [one] * int(np.abs(change(self.ballot, pair)).sum())
        return epsilon_below(cells, float(self.delta)), "the loss of every changed cell, convolved"
