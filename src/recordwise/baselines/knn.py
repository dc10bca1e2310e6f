"""k-NN labelling: the k nearest records of each query vote for its label. What reverse k-NN turns round.

One record may be among the nearest of every query, so s queries cost s times what one does: the noise grows with the
root of s (with s itself at delta 0). In reverse k-NN a record votes for its own k nearest queries, however many are
asked, and the noise does not grow.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from fractions import Fraction
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from recordwise.baselines.estimator import Facts, Places, Private, Released, Vectors
from recordwise.baselines.exact_nearest import Grid, nearest
from recordwise.baselines.labeller import Labeller, noisy_max
from recordwise.errors import whole
from recordwise.privacy.accountant import calibrate
from recordwise.privacy.events import DiscreteGaussianTally, Event
from recordwise.privacy.guarantee import exact
from recordwise.privacy.noise import DiscreteGaussian, Noise
from recordwise.settings import AUTO


@dataclass(eq=False, repr=False)
class KNN(Labeller):
    """The Gaussian noisy maximum of the k nearest records' labels.

    A record that comes, goes or is replaced takes one place among the k nearest from one other record, so it moves one
    vote of a query at most: two cells change by one, under either kind of neighbours.

    Args:
      neighbours_asked: How many records vote on a query (k); "auto" is half of a query's share of the records.

    Attributes:
      sigma2_: The variance parameter of the noise on a count.
    """

    name: ClassVar[str] = "knn"
    facts: ClassVar[Facts] = Facts(
        protects="one record",
        public="an unlabelled pool",
        rounds="one",
        data_dependent="no",
        elsewhere="nothing: who is nearest is a question about all records together, which one party must see",
    )

    neighbours_asked: int | str = field(default=AUTO, kw_only=True)

    def most_queries(self, num_records: int, num_classes: int) -> float:
        # k = n/2s votes against a noise of √(4s·ln(1/delta))/epsilon: three times as many votes as noise.
        return float(
            (num_records * float(self.epsilon) / (6 * math.sqrt(4 * math.log(1 / float(self.delta))))) ** (2 / 3)
        )

    def check(self, num_records: int, dim: int, num_classes: int) -> None:
        super().check(num_records, dim, num_classes)
        if self.neighbours_asked == AUTO:
            self.k_ = max(1, num_records // (2 * self.num_queries_))
        else:
            whole(neighbours_asked=self.neighbours_asked)
            self.k_ = int(self.neighbours_asked)
        self.sigma2_ = self.calibrated()

    def calibrated(self) -> Fraction:
        """The noise that the budget asks for."""
        return calibrate(
            lambda sigma2: [DiscreteGaussianTally(sigma2, 2 * self.num_queries_)],
            exact(self.epsilon, "epsilon"),
            self._delta(),
        )

    @property
    def event(self) -> Event:
        return DiscreteGaussianTally(self.sigma2_, 2 * self.num_queries_)

    def look(self, pool: Vectors) -> None:
        self.grid_ = Grid.of(pool)

    def answer(self, private: Private, noise: Noise) -> Released:
        distances = self.grid_.squared_distances(private.vectors, self.asked_.vectors)
        votes = np.array([self.votes_of(row, private.labels, noise) for row in distances])
        return {"labels": noisy_max(votes, DiscreteGaussian(self.sigma2_), noise)}

    def votes_of(self, distances: NDArray[np.float64], labels: Places, noise: Noise) -> NDArray[np.int64]:
        """(C,) the nearest records' labels, counted. Private."""
        return np.bincount(labels[nearest(distances, self.k_)], minlength=len(self.classes_))
