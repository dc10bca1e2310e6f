"""Concatenation: a record's queries and its classes in one message (the paper's Appendix B), its estimator repaired.

The paper multiplies the two estimates as if they were independent. They share one report: a query and a class of the
same record are both hit only if they collide, so a *true* cell's product has mean -q / (p - q), p = e^eps / Omega and
q = 1 / l, instead of 1: slightly *below* that of a false cell, which is 0. Dividing by this known constant repairs the
mean, at a price in variance that does not pay. It is here to be compared with, and "auto" never takes it.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from recordwise.privacy.noise import Noise
from recordwise.protocols.local.channel import Channel, best_buckets, growth
from recordwise.protocols.local.hashed import HashMechanism, Sent
from recordwise.protocols.local.hits import Engine
from recordwise.protocols.local.separation import estimates
from recordwise.protocols.pairs import Record
from recordwise.protocols.registry import register
from recordwise.votes.ballot import NOBODY, Ballot, Votes


@register
@dataclass(frozen=True, kw_only=True)
class Concatenation(HashMechanism):
    """One `Channel` over s + C points of which a record sends k + r.

    Guarantees:
      - the message is epsilon-DP for at most k queries and r classes;
      - the repaired estimate is unbiased. It looks at two points beside the record's own, so its hashes are
        (k + r + 2)-wise independent.
    """

    name: ClassVar[str] = "concatenation"

    @classmethod
    def chosen_for(cls, ballot: Ballot) -> bool:
        return False  # another is always better

    @cached_property
    def channel(self) -> Channel:
        capacity = self.ballot.votes_per_record + self.ballot.labels_per_record
        e = growth(self.epsilon)

        def variance(buckets: int) -> float:  # of the repaired estimate on a zero cell: ((1 - q) / (p - q))²
            return ((buckets - 1) * (buckets + capacity * (e - 1)) / ((buckets - capacity) * (e - 1))) ** 2

        return Channel(
            domain=self.ballot.num_queries + self.ballot.num_classes,
            capacity=capacity,
            epsilon=self.epsilon,
            buckets=best_buckets(capacity, capacity + math.sqrt(capacity * (capacity - 1) * e), variance),
            independence=capacity + 2,
        )

    @property
    def message_size(self) -> int:
        return self.channel.message_size

    @property
    def raw_mean(self) -> float:
        """What the paper's product estimates on a true cell, where it should be one: -q / (p - q)."""
        return self.channel.indicator.reach[0]

    @property
    def decoding_width(self) -> int:
        return self.ballot.num_queries + self.ballot.num_classes

    def randomize(self, votes: Votes, noise: Noise) -> NDArray[np.uint8]:
        classes = np.where(votes.labels == NOBODY, NOBODY, votes.labels + self.ballot.num_queries)
        return self.channel.randomize(np.concatenate([votes.queries, classes], axis=1), noise)

    def sent(self, record: Record) -> list[Sent]:
        classes = tuple(label + self.ballot.num_queries for label in record.labels)
        return [(self.channel, record.queries + classes)]

    def check(self, bodies: NDArray[np.uint8]) -> None:
        self.channel.unpack(bodies)

    def raw_estimate(self, bodies: NDArray[np.uint8]) -> NDArray[np.float64]:
        """The paper's estimator, kept to show its error."""
        points = estimates(self.channel, bodies)
        return points[: self.ballot.num_queries] @ points[self.ballot.num_queries :].T

    def estimate(self, bodies: NDArray[np.uint8], engine: Engine) -> NDArray[np.float64]:
        return self.raw_estimate(bodies) / self.raw_mean

    def raw_second_moment(self, *, queried: bool, labelled: bool) -> float:
        """Mean square of the paper's estimate of one cell."""
        indicator = self.channel.indicator
        if not (queried and labelled):  # a point the record did not send is hashed independently of everything else
            return indicator.second_moment(queried) * indicator.second_moment(labelled)
        p, q = float(indicator.hit), float(indicator.miss)
        low, high = indicator.reach
        both, one = p * q, p - p * q
        return both * high**4 + 2 * one * (low * high) ** 2 + (1 - both - 2 * one) * low**4

    def variance(self, *, queried: bool, labelled: bool) -> float:
        moment = self.raw_second_moment(queried=queried, labelled=labelled)
        return moment / self.raw_mean**2 - (queried and labelled)

    @property
    def reach(self) -> tuple[float, float]:
        low, high = self.channel.indicator.reach
        values = [product / self.raw_mean for product in (low * low, low * high, high * high)]
        return min(values), max(values)
