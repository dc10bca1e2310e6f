"""Separation: a record's queries and its classes in two messages, multiplied by the server (the paper's Appendix B).

The paper proposes it for a large epsilon. There, one Collision message for c = k·r cells has a variance of about
4c / e^epsilon on a zero cell, and this product of two at half the budget (4k / e^(epsilon/2))·(4r / e^(epsilon/2)),
which is four times as much; at a small epsilon it is far worse. It is here to be compared with.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import TYPE_CHECKING, ClassVar

import numpy as np
from numpy.typing import NDArray

from recordwise.privacy.noise import Noise
from recordwise.protocols.local.channel import Channel, collision_buckets
from recordwise.protocols.local.hashed import HashMechanism, Sent
from recordwise.protocols.local.hits import Engine, hits
from recordwise.protocols.pairs import Record
from recordwise.protocols.registry import register
from recordwise.votes.ballot import Ballot, Votes

if TYPE_CHECKING:
    from recordwise.privacy.amplification import LocalMechanism as Amplifiable


@register
@dataclass(frozen=True, kw_only=True)
class Separation(HashMechanism):
    """Two Collision messages at epsilon / 2 each.

    Guarantees:
      - the two messages together are epsilon-DP, by addition;
      - keys and noise of the two are independent, so the product of their unbiased estimates is unbiased for a cell.
    """

    name: ClassVar[str] = "separation"

    @classmethod
    def chosen_for(cls, ballot: Ballot) -> bool:
        return False  # another is always better

    @classmethod
    def tells(cls, ballot: Ballot) -> Amplifiable:
        from recordwise.privacy.amplification.mechanisms import collision, together

        def buckets(index: int) -> Callable[[float], int]:
            """Of one half, asked for by that half's epsilon."""
            return lambda half: cls(ballot=ballot, epsilon=Fraction(2 * half)).channels[index].buckets

        widths = (ballot.votes_per_record, ballot.labels_per_record)
        queries, classes = (
            collision(width, buckets(index), collisions_counted=width == 1) for index, width in enumerate(widths)
        )
        return together(queries, classes)

    @cached_property
    def channels(self) -> tuple[Channel, Channel]:
        """For the queries, and for the classes."""
        half = self.epsilon / 2
        queries, classes = (
            Channel(
                domain=domain,
                capacity=capacity,
                epsilon=half,
                buckets=collision_buckets(capacity, half),
                independence=capacity + 1,
            )
            for domain, capacity in (
                (self.ballot.num_queries, self.ballot.votes_per_record),
                (self.ballot.num_classes, self.ballot.labels_per_record),
            )
        )
        return queries, classes

    @property
    def message_size(self) -> int:
        return sum(channel.message_size for channel in self.channels)

    @property
    def decoding_width(self) -> int:
        return self.ballot.num_queries + self.ballot.num_classes

    def randomize(self, votes: Votes, noise: Noise) -> NDArray[np.uint8]:
        queries, classes = self.channels
        return np.concatenate([queries.randomize(votes.queries, noise), classes.randomize(votes.labels, noise)], axis=1)

    def _split(self, bodies: NDArray[np.uint8]) -> tuple[NDArray[np.uint8], NDArray[np.uint8]]:
        border = self.channels[0].message_size
        return bodies[:, :border], bodies[:, border:]

    def sent(self, record: Record) -> list[Sent]:
        queries, classes = self.channels
        return [(queries, record.queries), (classes, record.labels)]

    def check(self, bodies: NDArray[np.uint8]) -> None:
        for channel, half in zip(self.channels, self._split(bodies), strict=True):
            channel.unpack(half)

    def estimate(self, bodies: NDArray[np.uint8], engine: Engine) -> NDArray[np.float64]:
        queries, classes = (
            estimates(channel, half) for channel, half in zip(self.channels, self._split(bodies), strict=True)
        )
        return queries @ classes.T

    def variance(self, *, queried: bool, labelled: bool) -> float:
        queries, classes = (channel.indicator for channel in self.channels)
        return queries.second_moment(queried) * classes.second_moment(labelled) - (queried and labelled)

    @property
    def reach(self) -> tuple[float, float]:
        queries, classes = (channel.indicator.reach for channel in self.channels)
        products = [q * y for q in queries for y in classes]
        return min(products), max(products)


def estimates(channel: Channel, messages: NDArray[np.uint8]) -> NDArray[np.float64]:
    """(domain, n) the unbiased estimate of every point in every message."""
    keys, buckets = channel.unpack(messages)
    family = channel.family
    return (hits(family, keys, buckets) - family.size(buckets) / family.prime) / channel.indicator.gap
