"""Shuffle trust, one message per sender: a local mechanism at the largest epsilon0 that shuffling allows."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property, lru_cache

import numpy as np

from recordwise.errors import InvalidInput, ProtocolFault, count, positive, probability, whole
from recordwise.privacy.amplification import LocalMechanism as Amplifiable
from recordwise.privacy.amplification import largest_epsilon0
from recordwise.privacy.amplification.clones import LEFT_OUT
from recordwise.privacy.amplification.mechanisms import (
    any_mechanism,
    collision,
    randomized_response,
    subset_selection,
    together,
    unary_encoding,
)
from recordwise.privacy.events import Approximate, Event
from recordwise.privacy.guarantee import Guarantee, Neighbours, Trust, exact
from recordwise.privacy.noise import Noise, permutation
from recordwise.protocols.local.answers import Answers
from recordwise.protocols.local.choose import AS_GOOD, AUTO
from recordwise.protocols.local.collision import Collision
from recordwise.protocols.local.law import SumOfEstimates
from recordwise.protocols.local.mechanism import LocalMechanism
from recordwise.protocols.local.parameters import MECHANISMS
from recordwise.protocols.local.randomized_response import RandomizedResponse
from recordwise.protocols.local.separation import Separation
from recordwise.protocols.local.subset_selection import SubsetSelection
from recordwise.protocols.local.unary_encoding import UnaryEncoding
from recordwise.protocols.protocol import Protocol
from recordwise.tally import Tally
from recordwise.votes.ballot import Ballot, Votes


@dataclass(frozen=True, kw_only=True)
class ShuffleSingle(Protocol[Answers]):
    """One small message per record, anonymous in a crowd.

    Guarantees:
      - the shuffled batch of at least `senders` honest senders, the record's own among them, is (epsilon, delta)-DP for
        one record that is replaced, by the variation-ratio accountant for the mechanism at hand; it stays so for a
        reader who knows `colluding` more messages of the batch and takes them away, as one's own message;
      - each message is epsilon0-DP on its own, even towards a shuffler that colludes with the server;
      - fewer than `senders` + `colluding` messages are refused, and so are messages that carry an identity.

    Attributes:
      senders: How many honest senders are planned for, whose messages no reader knows; a sender is a record.
      mechanism: A local mechanism's name, or "auto" for the least variance each can have after amplification.
      colluding: So many more messages may be known to the reader: 1 for a sender who reads, all of a silo's for a silo.
    """

    ballot: Ballot
    epsilon: Fraction
    delta: Fraction
    senders: int
    mechanism: str = AUTO
    colluding: int = 0

    def __post_init__(self) -> None:
        for name in ("epsilon", "delta"):
            object.__setattr__(self, name, exact(getattr(self, name)))
        positive(epsilon=self.epsilon)
        probability(delta=self.delta)
        whole(senders=self.senders)
        count(colluding=self.colluding)
        if self.mechanism not in (AUTO, *MECHANISMS):
            raise InvalidInput(f"mechanism must be one of {[AUTO, *MECHANISMS]}, got {self.mechanism!r}")

    @property
    def fewest(self) -> int:
        """With fewer messages than this nothing is released."""
        return self.senders + self.colluding

    @cached_property
    def local(self) -> LocalMechanism:
        """What every sender runs."""
        kinds = _candidates(self.ballot) if self.mechanism == AUTO else [MECHANISMS[self.mechanism]]
        amplified = [_amplified(kind, self.ballot, self.epsilon, self.delta, self.senders) for kind in kinds]
        least = min(candidate.mean_variance for candidate in amplified)
        equals = [candidate for candidate in amplified if candidate.mean_variance <= AS_GOOD * least]
        return min(equals, key=lambda candidate: candidate.message_size)

    @property
    def epsilon0(self) -> Fraction:
        """What one message costs its sender when nobody shuffles."""
        return self.local.epsilon

    @property
    def event(self) -> Event:
        return Approximate(self.epsilon, self.delta)

    @property
    def insider_event(self) -> Event | None:
        return self.event if self.colluding else None

    @property
    def guarantee(self) -> Guarantee:
        return Guarantee(
            epsilon=self.epsilon,
            delta=self.delta,
            neighbours=Neighbours.REPLACE,
            trust=Trust.SHUFFLE,
            honest_parties=self.senders,
            insider_epsilon=self.epsilon if self.colluding else None,
        )

    def law(self, num_senders: int) -> SumOfEstimates:
        return self.local.law(num_senders)

    def noise_std(self, num_records: int) -> float:
        return self.local.noise_std(num_records)

    def client(self, votes: Votes, noise: Noise) -> Answers:
        return self.local.client(votes, noise)

    def shuffle(self, messages: Iterable[Answers], noise: Noise) -> Answers:
        """All messages in a random order: what an honest shuffler shows the server."""
        every = list(messages)
        if any(answers.ids is not None for answers in every):
            raise ProtocolFault("a shuffled message must not say who sent it, got messages with ids")
        size = self.local.message_size
        wrong = next((answers for answers in every if answers.bodies.shape[1] != size), None)
        if wrong is not None:
            raise ProtocolFault(f"a message must have {size} bytes, got {wrong.bodies.shape[1]}")
        bodies = np.concatenate([answers.bodies for answers in every]) if every else np.empty((0, size), np.uint8)
        if len(bodies) < self.fewest:
            raise ProtocolFault(f"a batch must come from at least {self.fewest:,} senders, got {len(bodies):,}")
        private = noise.private and all(answers.private for answers in every)
        return Answers(bodies[permutation(len(bodies), noise)], private=private)

    def server(self, messages: Iterable[Answers], noise: Noise) -> Tally:
        """The tally of a shuffled batch; in one process, of the clients' messages after shuffling them."""
        batch = self.shuffle(messages, noise)
        tally = self.local.server([batch], noise)
        return replace(tally, guarantee=replace(self.guarantee, private=tally.guarantee.private))

    def to_bytes(self, messages: Answers) -> list[bytes]:
        """Each message on its own, ready to be sealed."""
        return [body.tobytes() for body in messages.bodies]

    def from_bytes(self, messages: Iterable[bytes], *, private: bool = True) -> Answers:
        """The batch that a shuffler released; refuses whatever no sender could have sent."""
        every, size = list(messages), self.local.message_size
        wrong = next((message for message in every if len(message) != size), None)
        if wrong is not None:
            raise ProtocolFault(f"a message must have {size} bytes, got {len(wrong)}")
        bodies = np.frombuffer(b"".join(every), dtype=np.uint8).reshape(-1, size)
        self.local.check(bodies)
        return Answers(bodies, private=private)


def amplifiable(kind: type[LocalMechanism], ballot: Ballot) -> Amplifiable:
    """What one message of a local mechanism can tell, as a function of epsilon0: for the accountants."""
    cells, k, r = ballot.cells_per_record, ballot.votes_per_record, ballot.labels_per_record

    def at(epsilon0: float) -> LocalMechanism:
        return kind(ballot=ballot, epsilon=Fraction(epsilon0))

    if kind is Collision:
        # Its hash values at two cells are independent, so two cells collide with probability sum of p² >= 1/l.
        return collision(cells, lambda e0: at(e0).channel.buckets, collisions_counted=cells == 1)  # type: ignore[attr-defined]
    if kind is RandomizedResponse:
        return randomized_response(cells)
    if kind is UnaryEncoding:
        return unary_encoding(cells)
    if kind is SubsetSelection:
        return subset_selection(ballot.num_cells + 1, lambda e0: at(e0).subset_size)  # type: ignore[attr-defined]
    if kind is Separation:
        queries, classes = (
            collision(width, _half_buckets(at, index), collisions_counted=width == 1)
            for index, width in enumerate((k, r))
        )
        return together(queries, classes)
    return any_mechanism


def _half_buckets(at: Callable[[float], LocalMechanism], index: int) -> Callable[[float], int]:
    """Separation's numbers of buckets, asked for by the epsilon of one half."""
    return lambda half: int(at(2 * half).channels[index].buckets)  # type: ignore[attr-defined]


def _candidates(ballot: Ballot) -> list[type[LocalMechanism]]:
    kinds: list[type[LocalMechanism]] = [RandomizedResponse, UnaryEncoding, Collision, Separation]
    return [*kinds, SubsetSelection] if ballot.cells_per_record == 1 else kinds


@lru_cache(maxsize=256)
def _amplified(
    kind: type[LocalMechanism], ballot: Ballot, epsilon: Fraction, delta: Fraction, senders: int
) -> LocalMechanism:
    """The mechanism at the largest epsilon0, to six digits, that is certified to meet the target."""
    target, slack = math.nextafter(float(epsilon), 0), math.nextafter(float(delta), 0)
    tells = amplifiable(kind, ballot)
    epsilon0 = largest_epsilon0(target, slack, senders=senders, mechanism=tells)
    digits = 6 - math.ceil(math.log10(epsilon0))
    steps = math.floor(Fraction(epsilon0) * Fraction(10) ** digits)
    while (rounded := Fraction(steps) / Fraction(10) ** digits) > epsilon:
        # Rounding may change an integer parameter of the mechanism, so the rounded value is certified by itself.
        clones = tells(float(rounded) * (1 + 1e-15)).clones
        if clones.delta_above(target, senders=senders, left_out=LEFT_OUT * slack) <= slack:
            return kind(ballot=ballot, epsilon=rounded)
        steps -= 1
    return kind(ballot=ballot, epsilon=epsilon)
