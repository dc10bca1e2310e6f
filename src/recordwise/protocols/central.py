"""Central trust: an aggregator is trusted with exact counts and adds the noise.

Four mechanisms, one exchange: clients send counts, the server adds them up and releases once.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import NoReturn

import numpy as np
from numpy.typing import NDArray

from recordwise.errors import InvalidInput, ProtocolFault, positive, probability
from recordwise.privacy.accountant import calibrate, total_epsilon
from recordwise.privacy.events import DiscreteGaussianTally, DiscreteLaplaceTally, Event, Pure
from recordwise.privacy.guarantee import Guarantee, Neighbours, Trust, exact, members
from recordwise.privacy.noise import DiscreteGaussian, DiscreteLaplace, Noise, exponential_matching, permute_and_flip
from recordwise.privacy.noise.matching import MOST_CLASSES
from recordwise.protocols.protocol import Protocol, one_query_per_class
from recordwise.tally import Choices, Matched, Tally
from recordwise.votes.ballot import Ballot, Votes


class ExactCounts:
    """A client's exact tally, on its way to a trusted aggregator. Private: shows its shape only, is never pickled."""

    def __init__(self, counts: NDArray[np.int64]) -> None:
        self.counts = counts

    def __repr__(self) -> str:
        return f"ExactCounts{self.counts.shape}"

    def __reduce__(self) -> NoReturn:
        raise InvalidInput("exact counts are private and must not be pickled, logged or written to disk")


@dataclass(frozen=True, kw_only=True)
class _Central(Protocol[ExactCounts]):
    ballot: Ballot
    neighbours: Neighbours = Neighbours.REPLACE

    def __post_init__(self) -> None:
        members(self, neighbours=Neighbours)

    def client(self, votes: Votes, noise: Noise) -> ExactCounts:
        if votes.ballot != self.ballot:
            raise ProtocolFault(f"votes were cast on {votes.ballot}, this release is about {self.ballot}")
        return ExactCounts(votes.counts())

    def _total(self, messages: Iterable[ExactCounts]) -> NDArray[np.int64]:
        total = np.zeros((self.ballot.num_queries, self.ballot.num_classes), dtype=np.int64)
        for message in messages:
            if message.counts.shape != total.shape:
                raise ProtocolFault(f"counts must have shape {total.shape}, got {message.counts.shape}")
            total += message.counts
        return total


@dataclass(frozen=True, kw_only=True)
class _PureCentral(_Central):
    """One release of plain pure epsilon."""

    epsilon: Fraction

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "epsilon", exact(self.epsilon))
        positive(epsilon=self.epsilon)

    @property
    def event(self) -> Event:
        return Pure(self.epsilon)

    @property
    def guarantee(self) -> Guarantee:
        return Guarantee(epsilon=self.epsilon, neighbours=self.neighbours, trust=Trust.CENTRAL)


@dataclass(frozen=True, kw_only=True)
class CentralLaplace(_PureCentral):
    """Discrete Laplace noise on every cell: pure epsilon.

    Guarantees:
      - one release is epsilon-DP for one record under `neighbours`;
      - its scale is the number of cells a neighbour changes, over epsilon, as an exact fraction.
    """

    @property
    def law(self) -> DiscreteLaplace:
        return DiscreteLaplace(self.ballot.cells_changed(self.neighbours) / self.epsilon)

    @property
    def event(self) -> Event:
        return DiscreteLaplaceTally(self.law.scale, self.ballot.cells_changed(self.neighbours))

    def server(self, messages: Iterable[ExactCounts], noise: Noise) -> Tally:
        total = self._total(messages)
        estimate = (total + self.law.sample(total.shape, noise)).astype(np.float64)
        return Tally(self.ballot, replace(self.guarantee, private=noise.private), estimate, self.law)

    def noise_std(self, num_records: int) -> float:
        return self.law.std


@dataclass(frozen=True, kw_only=True)
class CentralPermuteAndFlip(_PureCentral):
    """One class per query by permute-and-flip (McKenna and Sheldon 2020), for r = 1: pure epsilon.

    Guarantees:
      - all s answers together are epsilon-DP for one record under `neighbours`: a record changes the counts of k
        queries (2k when replaced), each by one in one direction, and acceptance is exp((count - max) / scale) with
        scale = (queries changed) / epsilon;
      - it is *not* bounded-range, so it composes as a plain pure mechanism.
    """

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.ballot.labels_per_record != 1:
            raise InvalidInput(
                f"permute-and-flip picks one class per query, so r must be 1, got {self.ballot.labels_per_record}"
            )

    @property
    def scale(self) -> Fraction:
        return self.ballot.cells_changed(self.neighbours) / self.epsilon

    def server(self, messages: Iterable[ExactCounts], noise: Noise) -> Choices:
        chosen = permute_and_flip(self._total(messages), self.scale, noise)
        return Choices(self.ballot, replace(self.guarantee, private=noise.private), chosen, self.scale)

    def noise_std(self, num_records: int) -> float:
        return float(self.scale)  # its law is report-noisy-max with exponential noise, whose deviation is its scale


@dataclass(frozen=True, kw_only=True)
class CentralMatching(_PureCentral):
    """One class per query, all different, by the exponential mechanism over all matchings; s = C, r = 1: pure epsilon.

    A matching scores the votes that its pairs got and is chosen with probability proportional to exp(score / scale).
    Of a record's k votes, all for one class, it counts the one for the query that has this class, if there is one: so
    a record is worth 0 or 1 to any matching, whatever k is.

    Guarantees:
      - add or remove one record: all scores move by 0 or 1 in one direction, and so does the log of their sum, in
        units of the scale 1 / epsilon: the release is epsilon-DP;
      - replace one record: scores move by at most 1 in either direction, and the scale is 2 / epsilon: epsilon-DP;
      - the noise does not grow with k;
      - it is epsilon-bounded-range (log-ratios of outcomes lie within epsilon of each other), and is charged as a plain
        pure mechanism, which is never too little.
    """

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.ballot.labels_per_record != 1:
            raise InvalidInput(
                f"matching picks one class per query, so r must be 1, got {self.ballot.labels_per_record}"
            )
        one_query_per_class("matching", self.ballot, MOST_CLASSES)

    @property
    def scale(self) -> Fraction:
        return self.neighbours.records_changed / self.epsilon

    def server(self, messages: Iterable[ExactCounts], noise: Noise) -> Matched:
        chosen = exponential_matching(self._total(messages), self.scale, noise)
        return Matched(self.ballot, replace(self.guarantee, private=noise.private), chosen, self.scale)

    def noise_std(self, num_records: int) -> float:
        return float(self.scale) * math.pi / math.sqrt(6)  # as if every score got Gumbel noise and the best one won


@dataclass(frozen=True, kw_only=True)
class CentralGaussian(_Central):
    """Discrete Gaussian noise on every cell: rho-zCDP, printed as (epsilon, delta) by the numerical accountant.

    Guarantees:
      - sigma² = cells_changed / (2 rho), which is kr/rho (replace) or kr/(2 rho) (add or remove);
      - one release is (epsilon, delta)-DP with the epsilon that `accountant.total_epsilon` certifies.
    """

    rho: Fraction
    delta: Fraction

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "rho", exact(self.rho))
        object.__setattr__(self, "delta", exact(self.delta))
        positive(rho=self.rho)
        probability(delta=self.delta)

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

    def server(self, messages: Iterable[ExactCounts], noise: Noise) -> Tally:
        total = self._total(messages)
        estimate = (total + self.law.sample(total.shape, noise)).astype(np.float64)
        return Tally(self.ballot, replace(self.guarantee, private=noise.private), estimate, self.law)

    def noise_std(self, num_records: int) -> float:
        return self.law.std
