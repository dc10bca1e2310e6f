"""Collision: all of a record's cells in one hash key and one bucket."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import TYPE_CHECKING, ClassVar

import numpy as np
from numpy.typing import NDArray

from recordwise.privacy.noise import Noise
from recordwise.protocols.local.channel import Channel, collision_buckets
from recordwise.protocols.local.matching import Engine, count_matches
from recordwise.protocols.local.mechanism import LocalMechanism
from recordwise.protocols.registry import register
from recordwise.votes.ballot import Ballot, Votes

if TYPE_CHECKING:
    from recordwise.privacy.amplification import LocalMechanism as Amplifiable


@register
@dataclass(frozen=True, kw_only=True)
class Collision(LocalMechanism):
    """One `Channel` over the s·C cells: the best mechanism for many cells and several votes per record.

    Guarantees:
      - the message is epsilon-DP for every set of at most c = k·r cells, and larger sets cannot be sent;
      - the estimate ([H(v) = z] - size(z)/prime) / (hit - 1/l) is unbiased: exactly on cells the record did not vote
        for, to a relative l / (prime² (hit - 1/l)) on those it did. (There the mean of size(z)/prime replaces 1/l; no
        size is off by a whole element, so no bucket is reported more than 1/prime too often, and both errors multiply.)
    """

    name: ClassVar[str] = "collision"

    @classmethod
    def tells(cls, ballot: Ballot) -> Amplifiable:
        from recordwise.privacy.amplification.mechanisms import collision

        cells = ballot.cells_per_record

        def buckets(epsilon0: float) -> int:
            return cls(ballot=ballot, epsilon=Fraction(epsilon0)).channel.buckets

        # Its hash values at two cells are independent, so two cells collide with probability sum of p² >= 1/l.
        return collision(cells, buckets, collisions_counted=cells == 1)

    @cached_property
    def channel(self) -> Channel:
        capacity = self.ballot.cells_per_record
        return Channel(
            domain=self.ballot.num_cells,
            capacity=capacity,
            epsilon=self.epsilon,
            buckets=collision_buckets(capacity, self.epsilon),
            independence=capacity + 1,
        )

    @property
    def message_size(self) -> int:
        return self.channel.message_size

    def randomize(self, votes: Votes, noise: Noise) -> NDArray[np.uint8]:
        return self.channel.randomize(votes.cells(), noise)

    def check(self, bodies: NDArray[np.uint8]) -> None:
        self.channel.unpack(bodies)

    def estimate(self, bodies: NDArray[np.uint8], engine: Engine) -> NDArray[np.float64]:
        keys, buckets = self.channel.unpack(bodies)
        family = self.channel.family
        seen = count_matches(family, keys, buckets, engine)
        expected = int(family.size(buckets).sum()) / family.prime
        estimate = (seen.astype(np.float64) - expected) / self.channel.indicator.gap
        return estimate.reshape(self.ballot.num_queries, self.ballot.num_classes)

    def variance(self, *, queried: bool, labelled: bool) -> float:
        return self.channel.indicator.variance(queried and labelled)

    @property
    def reach(self) -> tuple[float, float]:
        return self.channel.indicator.reach
