"""Ind-kNN (Zhu, Zhao, Wang 2023): fixed-radius neighbours with an allowance for each record of its own.

A record votes on a query if it lies within a public radius of it, and as long as its own allowance lasts: an individual
Rényi filter (Feldman and Zrnic 2021). Who votes on a query no longer depends on other records, so a record pays only
for queries near it. Reverse k-NN goes one step farther: the record chooses its queries among all that are asked.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np

from recordwise.baselines.estimator import Facts, Private, Released, Vectors
from recordwise.baselines.exact_nearest import Grid
from recordwise.baselines.labeller import Labeller, noisy_max
from recordwise.errors import probability, whole
from recordwise.privacy.accountant import calibrate
from recordwise.privacy.events import DiscreteGaussianTally, Event
from recordwise.privacy.guarantee import exact
from recordwise.privacy.noise import DiscreteGaussian, Noise


@dataclass(eq=False, repr=False)
class IndKNN(Labeller):
    """The Gaussian noisy maximum of votes within a radius, at most `allowance` of them per record.

    The kernel is the indicator of the radius: a vote counts one and costs one.

    Args:
      allowance: On how many queries a record may vote; it takes them in the order in which they are asked.
      reach: The radius of a query: within it lies this multiple of a query's share of the pool.

    Attributes:
      sigma2_: The variance parameter of the noise on a count.
    """

    name: ClassVar[str] = "ind-knn"
    facts: ClassVar[Facts] = Facts(
        protects="one record",
        public="an unlabelled pool",
        rounds="one",
        data_dependent="no",
        elsewhere="distributed: yes, one secure sum; shuffle and local: yes, by the protocols of reverse k-NN",
    )

    allowance: int = field(default=3, kw_only=True)
    reach: float = field(default=1.0, kw_only=True)

    def most_queries(self, num_records: int, num_classes: int) -> float:
        # n/s votes against a noise that does not grow with s: three times as many votes as noise.
        noise = math.sqrt(2 * self.allowance * math.log(1 / float(self.delta))) / float(self.epsilon)
        return num_records / (3 * noise)

    def check(self, num_records: int, dim: int, num_classes: int) -> None:
        whole(allowance=self.allowance)
        super().check(num_records, dim, num_classes)
        probability(reach=self.reach / self.num_queries_)
        # A replaced record takes its votes away and casts others: counts, so their squares add up at most.
        self.cells_ = self.allowance * self._relation.records_changed
        self.sigma2_ = calibrate(
            lambda sigma2: [DiscreteGaussianTally(sigma2, self.cells_)], exact(self.epsilon, "epsilon"), self._delta()
        )

    @property
    def event(self) -> Event:
        return DiscreteGaussianTally(self.sigma2_, self.cells_)

    def look(self, pool: Vectors) -> None:
        self.grid_ = Grid.of(pool)
        distances = self.grid_.squared_distances(pool, self.asked_.vectors)
        self.radius_ = np.quantile(distances, self.reach / self.num_queries_, axis=1)

    def answer(self, private: Private, noise: Noise) -> Released:
        near = self.grid_.squared_distances(private.vectors, self.asked_.vectors) <= self.radius_[:, None]
        near &= near.cumsum(axis=0) <= self.allowance  # who has spent the allowance is out
        votes = np.rint(near @ np.eye(len(self.classes_))[private.labels]).astype(np.int64)
        return {"labels": noisy_max(votes, DiscreteGaussian(self.sigma2_), noise)}
