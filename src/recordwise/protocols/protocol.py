"""Step 5, release: a mechanism is one class, and this is all that anybody else asks of it.

A protocol is a client that sees only its own votes, perhaps a shuffler, and a server that sees only messages. Planner,
ledger, pipeline, report and audit know no mechanism by name: they call these methods.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import TYPE_CHECKING, Any, ClassVar, Generic, TypeVar

import numpy as np
from numpy.typing import NDArray

from recordwise.arrays import Doubles, Ints
from recordwise.errors import InvalidInput, ProtocolFault
from recordwise.privacy.events import Event
from recordwise.privacy.guarantee import Guarantee, Trust
from recordwise.privacy.noise import Normal
from recordwise.privacy.noise.source import Noise
from recordwise.protocols.pairs import Pair, Record
from recordwise.protocols.release import Release, Tally
from recordwise.protocols.views import Exact, release_scores
from recordwise.votes.ballot import Ballot, Votes

if TYPE_CHECKING:
    from recordwise.protocols.terms import Terms

Message = TypeVar("Message")


@dataclass(frozen=True, kw_only=True)
class Silos:
    """What is public about the silos of a federation.

    Attributes:
      parties: So many are asked.
      threshold: Without the answers of so many nothing is released.
      colluding: So many may work against the others, or read the release and know what they added themselves.
      least_records, most_records: They hold so many together; under shuffle trust the least does not count those of the
        `colluding` largest silos.
    """

    parties: int
    threshold: int
    colluding: int
    least_records: int
    most_records: int


class Protocol(ABC, Generic[Message]):
    """A private way to release the tally of votes on one ballot.

    Subclasses are frozen dataclasses, made known by `registry.register`: public choices are fields, private facts are
    arguments, and every noise parameter is derived from the budget, the ballot and the neighbouring relation, never
    typed in.

    Attributes:
      name: What a user calls it.
      trust: Who may see votes before noise covers them.
      one_query_per_class: It takes clusters to be the classes: s = C, and one round.
      one_vote: It is about one cell per record: k = r = 1.
      sells_votes: A record may pay for the votes it casts, one by one (`paid_by_vote`).
      for_silos: It works between machines: one message per silo, whose length tells nothing that is private. A silo
        builds no other mechanism from a plan.
    """

    name: ClassVar[str]
    trust: ClassVar[Trust]
    one_query_per_class: ClassVar[bool] = False
    one_vote: ClassVar[bool] = False
    sells_votes: ClassVar[bool] = False
    for_silos: ClassVar[bool] = False
    ballot: Ballot

    # Before a run

    @classmethod
    def names(cls) -> tuple[str, ...]:
        """The names it answers to under its trust."""
        return (cls.name,)

    @classmethod
    def serve(cls, terms: Terms) -> None:
        """Refuse terms that it cannot keep, whatever the ballot."""
        if cls.one_query_per_class and terms.rounds > 1:
            raise InvalidInput(
                f"mechanism {cls.name!r} takes every class to have one cluster, and later rounds ask single samples: "
                f"rounds must be 1, got {terms.rounds}"
            )

    @classmethod
    @abstractmethod
    def planned(cls, terms: Terms, ballot: Ballot, num_records: int) -> Protocol[Any]:
        """One round of it, such that all rounds together keep the terms."""

    @classmethod
    def automatic(cls, terms: Terms, ballot: Ballot, num_records: int) -> bool:
        """Whether "auto" may take it; of those it may take, it takes the one with the least noise."""
        return False

    @classmethod
    def paid_by_vote(cls, terms: Terms, ballot: Ballot, round_epsilon: Fraction) -> Protocol[Any]:
        """One round in which all its votes together cost a record `round_epsilon`, and fewer cost it less."""
        raise InvalidInput(f"mechanism {cls.name!r} charges every record for all its votes")

    def informed(self, sizes: Ints) -> Protocol[Message]:
        """The same protocol, told how many pool samples each query has: public, and of no use to most."""
        return self

    # What it promises

    @property
    @abstractmethod
    def event(self) -> Event:
        """What one release does to one record, for the accountant."""

    @property
    def insider_event(self) -> Event | None:
        """What one release does to one record when a sender reads it and takes the own noise away; None if unknown."""
        return None

    @property
    @abstractmethod
    def guarantee(self) -> Guarantee:
        """What one release promises on its own."""

    @property
    def epsilon_per_vote(self) -> Fraction | None:
        """What one vote costs a record that casts fewer than it may; None where every record pays for all of them."""
        return None

    @abstractmethod
    def noise_std(self, num_records: int) -> float:
        """The standard deviation of a released cell's error when `num_records` records vote."""

    # Messages

    @property
    def message_size(self) -> int:
        """About how many bytes are sent per record; 0 where a client sends one message for all of them."""
        return 0

    @abstractmethod
    def client(self, votes: Votes, noise: Noise) -> Message:
        """What one client sends for its records."""

    @abstractmethod
    def server(self, messages: Iterable[Message], noise: Noise) -> Release:
        """What is published, from the clients' messages alone."""

    def clients(self, votes: Votes, noise: Noise, *, parties: int, senders: int | None = None) -> Iterator[Message]:
        """What all clients send when one process plays them: the votes cut into as many parts as there are parties.

        Args:
          senders: How many take part, where that shows in a release and the number of records is private.
        """
        for part in votes.parts(parties):
            yield self.client(part, noise)

    # Between machines

    @classmethod
    def planned_for_silos(cls, terms: Terms, ballot: Ballot, silos: Silos) -> Protocol[Any]:
        """One round of it for silos of which some may vanish or work against the others."""
        return cls.planned(terms, ballot, silos.most_records)

    def check_silos(self, silos: Silos) -> None:
        """Refuse silos among which it would not keep its promise."""

    def to_wire(self, message: Message) -> bytes:
        """A client's message as bytes that hold no code."""
        raise InvalidInput(f"mechanism {self.name!r} is for one process: its messages have no wire form")

    def from_wire(self, content: bytes) -> Message:
        """The message that `to_wire` wrote; refuses whatever no client could have sent."""
        raise InvalidInput(f"mechanism {self.name!r} is for one process: its messages have no wire form")

    # Releases without records

    def blank(self) -> Release:
        """A release of its kind that says nothing about anybody."""
        empty = np.zeros((self.ballot.num_queries, self.ballot.num_classes))
        return Tally(self.ballot, self.guarantee, empty, Normal(1.0))

    def release_of(self, counts: Ints, num_records: int, noise: Noise) -> Release:
        """A release of given counts, by its law or a normal one of the same deviation: to plan with, never to publish.

        Args:
          counts: (s, C) votes, one label per record.
        """
        std = self.noise_std(num_records)
        promise = replace(self.guarantee, private=False)
        return Tally(self.ballot, promise, counts + normal(counts.shape, std, noise), Normal(std))

    def simulate_cohort(self, counts: Ints, *, seed: int) -> Tally:
        """The tally that so many one-record devices' messages would give, by the same law, without sending them all.

        Args:
          counts: (s, C) how many devices vote for each cell, one record and one vote each.
        """
        raise InvalidInput(f"a cohort runs a local, shuffled or distributed protocol, got {type(self).__name__}")

    # For an audit

    def exact_epsilon(self, pair: Pair, parties: int | None) -> Exact:
        """The exact epsilon at the claim's delta, and how it was computed; None where the domain does not allow it.

        Args:
          parties: The fewest parties from which it makes a release; None where it does not count them.
        """
        return None

    def view_scores(self, side: Record | None, pair: Pair, trials: int, parties: int | None, noise: Noise) -> Doubles:
        """(trials, kinds) scores of independent views of one of the pair's data sets: the larger, the more like it.

        They decide how sharp the bound of an audit is, never whether it holds.
        """
        return release_scores(self, side, pair, trials, noise)

    @property
    def fewest(self) -> int | None:
        """With fewer senders or parties than this nothing is released; None where nobody else is relied on."""
        return None

    def shrunk(self) -> Protocol[Message]:
        """The same protocol on the smallest ballot that shows all that two neighbours can change."""
        return self

    def without_insiders(self, parties: int | None) -> tuple[Protocol[Message], int | None]:
        """What is left of a release about so many parties for readers who take away what they sent themselves."""
        return self, parties

    def release_nobody(self, parties: int, noise: Noise) -> None:
        """Release what so many parties without records send; refuses too few of them."""

    def view_cost(self, parties: int | None) -> float:
        """Messages, or as much work, that one look at a release takes."""
        return 0.0

    # In words

    def __str__(self) -> str:
        ballot = self.ballot
        return (
            f"{self.title}, {ballot.num_queries} queries, {ballot.num_classes} classes, "
            f"k = {ballot.votes_per_record}, r = {ballot.labels_per_record}"
        )

    @property
    def full_name(self) -> str:
        """What tells it from the other mechanisms of its trust."""
        return self.name

    @property
    def title(self) -> str:
        """What to call it in a report."""
        return f"{self.name} ({self.trust} trust)"

    def check_ballot(self, votes: Votes) -> None:
        """Refuse votes that were cast on another ballot."""
        if votes.ballot != self.ballot:
            raise ProtocolFault(f"votes were cast on {votes.ballot}, this release is about {self.ballot}")


def normal(shape: tuple[int, ...], std: float, noise: Noise) -> NDArray[np.float64]:
    """Normal deviates, for plans alone: floating point is not private."""
    from scipy.special import ndtri  # a device, which plans nothing, does without SciPy

    words = noise.words(int(np.prod(shape)))
    return np.asarray(std * ndtri((words + 0.5) / 2**64)).reshape(shape)


def check_one_query_per_class(mechanism: str, ballot: Ballot, most_classes: int) -> None:
    """Refuse a ballot on which the mechanism cannot give every class one query."""
    if ballot.num_queries != ballot.num_classes:
        raise InvalidInput(
            f"mechanism {mechanism!r} gives every class one query, so s must be the {ballot.num_classes} classes, "
            f"got {ballot.num_queries}"
        )
    if ballot.num_classes > most_classes:
        raise InvalidInput(f"mechanism {mechanism!r} takes at most {most_classes} classes, got {ballot.num_classes}")
