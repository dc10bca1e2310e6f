"""Noisy counts: the votes of every query for every class, each with noise of the same known law."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from recordwise.arrays import Doubles
from recordwise.errors import MOST_RECORDS, InvalidInput
from recordwise.privacy.guarantee import Guarantee, exact
from recordwise.privacy.noise import DiscreteGaussian, DiscreteLaplace, Normal, PolyaDifference, SumOfEstimates
from recordwise.privacy.noise.distribution import distribution
from recordwise.privacy.noise.law import Law
from recordwise.protocols.release.purity import (
    BETWEEN_EQUALS,
    Evidence,
    cell_log_likelihood,
    count_variance,
    tried_purities,
)
from recordwise.protocols.release.release import Undecoded, plain
from recordwise.votes.ballot import Ballot

# An honest release is refused with a probability below 1e-30: that bounds the chance that noise takes any of its cells
# a hundredth as far. The hundred is for senders who lie under local trust: a few must not stop the release of all. A
# party of a secure sum that lies can write what it likes, and stop it: so it could by sending nothing.
REFUSED, FAR = 1e-30, 100
LARGEST = 2.0**100  # deviation of noise, and distance from all counts: the square of it is a float
LAWS: dict[str, Any] = {
    law.__name__: law for law in (DiscreteLaplace, DiscreteGaussian, PolyaDifference, Normal, SumOfEstimates)
}


@dataclass(frozen=True, eq=False)
class Tally(Undecoded):
    """An unbiased s × C estimate of the votes, safe to publish.

    Attributes:
      estimate: (s, C) true count plus noise; cells can be negative.
      law: The law of each cell's noise, the same for every cell.
    """

    estimate: NDArray[np.float64]
    law: Law

    @property
    def noise_std(self) -> float:
        return self.law.std

    @property
    def tally(self) -> Tally:
        return self

    @property
    def decoders(self) -> tuple[str, ...]:
        return ("sets",) if self.ballot.labels_per_record > 1 else super().decoders

    def votes_cast(self, num_records: int | None) -> float:
        """How many votes it counts: k for each record, or, where records are not counted in public, its noisy sum.

        The sum is held at half its own noise at least, and at the votes of as many records as anybody has at most: it
        only sets the size of what is looked for.
        """
        if num_records is not None:
            return float(num_records * self.ballot.votes_per_record)
        noise = self.law.std * np.sqrt(self.estimate.size)
        seen = max(float(self.estimate.sum()) / self.ballot.labels_per_record, 0.5 * float(noise), 1.0)
        return min(seen, float(MOST_RECORDS * self.ballot.votes_per_record))

    def evidence(self, query_shares: Doubles, num_records: int | None) -> Evidence:
        total = self.votes_cast(num_records)
        num_queries, num_classes = self.estimate.shape
        records = total * query_shares
        purity = tried_purities(num_classes)
        expected = records[:, None, None]
        seen = self.estimate[:, :, None]
        as_own = cell_log_likelihood(self.law, seen - expected * purity, expected)
        as_other = cell_log_likelihood(self.law, seen - expected * (1 - purity) / max(1, num_classes - 1), expected)
        larger = BETWEEN_EQUALS * self.estimate / np.sqrt(self.law.std**2 + count_variance(records))[:, None]
        return Evidence(
            by_purity=as_other.sum(axis=1, keepdims=True) + as_own - as_other + larger[:, :, None],
            purities=purity,
            records=records,
            class_shares=self.estimate.sum(axis=0) / total,
            class_variance=num_queries * (self.law.std / total) ** 2,
        )

    def simulated(self, counts: NDArray[np.float64], rng: np.random.Generator) -> Self:
        noise, below = distribution(self.law)
        return replace(self, estimate=counts + np.interp(rng.random(counts.shape), below, noise))

    def scores(self) -> NDArray[np.float64]:
        return self.estimate

    def check(self) -> None:
        shape = (self.ballot.num_queries, self.ballot.num_classes)
        if self.estimate.shape != shape or not np.isfinite(self.estimate).all():
            raise InvalidInput(f"estimate must be finite with shape {shape}, got {self.estimate.shape}")
        if not self.law.std <= LARGEST:
            raise InvalidInput(f"law must have a deviation <= 2^100, got {self.law.std:.4g}")
        low, high = float(self.estimate.min()), float(self.estimate.max())
        beyond = max(-low, high - MOST_RECORDS)  # what must be noise: a record votes once for a cell
        if self.estimate.size * self.law.two_sided_tail(min(beyond, LARGEST) / FAR) < REFUSED:
            raise InvalidInput(
                f"estimate must be votes of at most {MOST_RECORDS:,} records plus noise of deviation "
                f"{self.law.std:.4g}, got a cell of {low if beyond == -low else high:.4g}"
            )

    def parts(self) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        return {"law": type(self.law).__name__, "parameters": plain(self.law)}, {"array": self.estimate}

    @classmethod
    def from_parts(
        cls, ballot: Ballot, guarantee: Guarantee, about: dict[str, Any], arrays: dict[str, NDArray[Any]]
    ) -> Self:
        parameters = {name: exact(v, name) if isinstance(v, str) else v for name, v in about["parameters"].items()}
        estimate = arrays["array"].astype(np.float64, casting="safe")
        return cls(ballot, guarantee, estimate, LAWS[about["law"]](**parameters))
