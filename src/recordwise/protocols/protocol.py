"""Step 5, release: what central, distributed, local and shuffle trust have in common.

A protocol is a client that sees only its own votes, perhaps a shuffler, and a server that sees only messages.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable
from typing import Generic, TypeVar

from recordwise.arrays import Ints
from recordwise.errors import InvalidInput
from recordwise.privacy.events import Event
from recordwise.privacy.guarantee import Guarantee
from recordwise.privacy.noise.source import Noise
from recordwise.tally import Release
from recordwise.votes.ballot import Ballot, Votes

Message = TypeVar("Message")


class Protocol(ABC, Generic[Message]):
    """A private way to release the tally of votes on one ballot.

    Subclasses are frozen dataclasses: public choices are fields, private facts are arguments, and every noise
    parameter is derived from the budget, the ballot and the neighbouring relation, never typed in.
    """

    ballot: Ballot

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

    @abstractmethod
    def client(self, votes: Votes, noise: Noise) -> Message:
        """What one client sends for its records."""

    @abstractmethod
    def server(self, messages: Iterable[Message], noise: Noise) -> Release:
        """What is published, from the clients' messages alone."""

    @abstractmethod
    def noise_std(self, num_records: int) -> float:
        """The standard deviation of a released cell's error when `num_records` records vote."""

    def knowing(self, sizes: Ints) -> Protocol[Message]:
        """The same protocol, told how many pool samples each query has: public, and of no use to most."""
        return self


def one_query_per_class(mechanism: str, ballot: Ballot, most_classes: int) -> None:
    """Refuse a ballot on which the mechanism cannot give every class one query."""
    if ballot.num_queries != ballot.num_classes:
        raise InvalidInput(
            f"mechanism {mechanism!r} gives every class one query, so s must be the {ballot.num_classes} classes, "
            f"got {ballot.num_queries}"
        )
    if ballot.num_classes > most_classes:
        raise InvalidInput(f"mechanism {mechanism!r} takes at most {most_classes} classes, got {ballot.num_classes}")
