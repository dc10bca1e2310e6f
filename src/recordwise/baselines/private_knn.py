"""Private k-NN (Zhu et al. 2020): for each query a fresh Poisson sample of the records, screening, a noisy maximum."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from fractions import Fraction
from functools import lru_cache
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from recordwise.baselines.estimator import Facts, Places, Private, Released
from recordwise.baselines.exact_nearest import nearest
from recordwise.baselines.knn import KNN
from recordwise.baselines.labeller import noisy_max
from recordwise.errors import InvalidInput
from recordwise.privacy.events import Approximate, Event
from recordwise.privacy.guarantee import Neighbours, exact
from recordwise.privacy.noise import DiscreteGaussian, Noise, bernoulli
from recordwise.privacy.search import least_noise
from recordwise.settings import AUTO
from recordwise.votes import NOBODY

SCREENING = 2  # the noise on the largest count, beside that on the counts
ORDERS = [*range(2, 64), *range(64, 513, 16), 768, 1024, 2048]


@dataclass(eq=False, repr=False)
class PrivateKNN(KNN):
    """k-NN labelling of Poisson samples; a query whose largest count stays below a threshold is not answered.

    The cost is that of the worst case, in which every query is answered. The published one counts answered queries as
    they happen to be, and so depends on the records.

    Args:
      sample_rate: With which each record takes part in a query, each by a coin of its own.
      threshold: The share of the k votes that the largest count must reach, with noise; None answers all.
    """

    name: ClassVar[str] = "private-knn"
    facts: ClassVar[Facts] = Facts(
        protects="one record",
        public="an unlabelled pool",
        rounds="one",
        data_dependent="the published figures are; ours is the worst case",
        elsewhere=KNN.facts.elsewhere,
    )

    sample_rate: float = field(default=0.5, kw_only=True)
    threshold: float | None = field(default=0.25, kw_only=True)

    def check(self, num_records: int, dim: int, num_classes: int) -> None:
        if not 0 < self.sample_rate < 1:
            raise InvalidInput(f"sample_rate must lie strictly between 0 and 1, got {self.sample_rate!r}")
        if self.threshold is not None and not 0 < self.threshold <= 1:
            raise InvalidInput(f"threshold must lie in (0, 1], got {self.threshold!r}")
        super().check(num_records, dim, num_classes)
        if self.neighbours_asked == AUTO:
            self.k_ = max(1, int(self.k_ * self.sample_rate))

    def calibrated(self) -> Fraction:
        multiplier = sampled_noise(
            float(self.epsilon), float(self.delta), float(self.sample_rate), self.num_queries_, self._relation
        )
        # A record moves two cells and, in screening, the largest count: a shift of √2/sigma and one of 1/(2 sigma).
        moved = 2 + (0 if self.threshold is None else Fraction(1, SCREENING**2))
        return Fraction(math.ceil(moved * Fraction(multiplier) ** 2 * 2**10), 2**10)

    @property
    def event(self) -> Event:
        return Approximate(exact(self.epsilon, "epsilon"), self._delta())

    def answer(self, private: Private, noise: Noise) -> Released:
        distances = self.grid_.squared_distances(private.vectors, self.asked_.vectors)
        votes = np.array([self.votes_of(row, private.labels, noise) for row in distances])
        labels = noisy_max(votes, DiscreteGaussian(self.sigma2_), noise)
        if self.threshold is not None:
            screened = DiscreteGaussian(SCREENING**2 * self.sigma2_).sample(len(votes), noise)
            labels = np.where(votes.max(axis=1) + screened >= self.threshold * self.k_, labels, NOBODY)
        return {"labels": labels}

    def votes_of(self, distances: NDArray[np.float64], labels: Places, noise: Noise) -> NDArray[np.int64]:
        drawn = np.flatnonzero(bernoulli(exact(self.sample_rate), len(labels), noise))
        return np.bincount(labels[drawn[nearest(distances[drawn], self.k_)]], minlength=len(self.classes_))


@lru_cache(maxsize=256)
def sampled_noise(epsilon: float, delta: float, rate: float, releases: int, neighbours: Neighbours) -> float:
    """The least noise multiplier with which `releases` Gaussian releases on Poisson samples cost (epsilon, delta).

    By Rényi orders, whole ones, where the bound holds for discrete Gaussian noise, too: in the expansion of
    E[(1 - q + q·P'/P)^α] every term E[(P'/P)^j] is at most the continuous noise's (Canonne, Kamath, Steinke 2020), and
    the reflection about half the shift, which exchanges P and P', settles the other direction (Mironov, Talwar, Zhang
    2019). To replace a record is to remove one and to add one: (e, d) for each makes (2e, (1 + e^e)·d).
    """
    if neighbours is Neighbours.REPLACE:
        epsilon, delta = epsilon / 2, delta / (1 + math.exp(epsilon / 2))

    def affordable(multiplier: float) -> bool:
        return sampled_epsilon(multiplier, delta, rate, releases) <= epsilon

    return least_noise(affordable, epsilon=epsilon, delta=delta)


def sampled_epsilon(multiplier: float, delta: float, rate: float, releases: int) -> float:
    """What they cost under add-remove (dp-accounting's Rényi accountant, at whole orders)."""
    from dp_accounting import PoissonSampledDpEvent, dp_event
    from dp_accounting.rdp import RdpAccountant

    accountant = RdpAccountant(ORDERS)
    accountant.compose(PoissonSampledDpEvent(rate, dp_event.GaussianDpEvent(multiplier)), releases)
    return float(accountant.get_epsilon(delta))
