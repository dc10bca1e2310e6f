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
from recordwise.protocols.local.hashed import HashMechanism, Sent
from recordwise.protocols.local.hits import Engine, count_hits
from recordwise.protocols.pairs import Record
from recordwise.protocols.registry import register
from recordwise.votes.ballot import Ballot, Votes

if TYPE_CHECKING:
    from recordwise.privacy.amplification import LocalMechanism as Amplifiable
    from recordwise.privacy.amplification.clones import Clones


@register
@dataclass(frozen=True, kw_only=True)
class Collision(HashMechanism):
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

    def sent(self, record: Record) -> list[Sent]:
        return [(self.channel, tuple(sorted(record.cells(self.ballot))))]

    def check(self, bodies: NDArray[np.uint8]) -> None:
        self.channel.unpack(bodies)

    def estimate(self, bodies: NDArray[np.uint8], engine: Engine) -> NDArray[np.float64]:
        keys, buckets = self.channel.unpack(bodies)
        family = self.channel.family
        seen = count_hits(family, keys, buckets, engine)
        expected = int(family.size(buckets).sum()) / family.prime
        estimate = (seen.astype(np.float64) - expected) / self.channel.indicator.gap
        return estimate.reshape(self.ballot.num_queries, self.ballot.num_classes)

    def variance(self, *, queried: bool, labelled: bool) -> float:
        return self.channel.indicator.variance(queried and labelled)

    @property
    def reach(self) -> tuple[float, float]:
        return self.channel.indicator.reach

    def shuffled_sides(self) -> list[Clones]:
        """The reported bucket holds one cell and not the other."""
        from recordwise.privacy.amplification.clones import Clones

        if self.ballot.cells_per_record > 1:
            return []
        buckets, hit = self.channel.buckets, float(self.channel.hot)
        miss = (1 - hit) / (buckets - 1)
        # Pairs of cells fall into one bucket with a probability of 1/l, and unequal buckets add next to nothing.
        together = 1 / buckets + 2 * buckets / self.channel.family.prime
        apart, all_apart = 1 - together, 1 - 3 * together
        sides = [Clones(hit=hit * apart, miss=miss * apart, blanket=apart / buckets)]  # all others abstain
        if all_apart > 0 and self.ballot.num_cells > 2:  # all others vote for a third cell, in a bucket of its own
            sides.append(Clones(hit=hit * all_apart, miss=miss * all_apart, blanket=miss * all_apart))
        return sides
