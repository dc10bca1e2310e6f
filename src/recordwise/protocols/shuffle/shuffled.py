"""What mechanisms of shuffle trust share: a crowd of honest senders, and readers who know some of what was sent."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import TYPE_CHECKING, ClassVar, Self, TypeVar

from recordwise.errors import InvalidInput, count, positive, probability, whole
from recordwise.privacy.events import Approximate, Event
from recordwise.privacy.guarantee import Guarantee, Neighbours, Trust, exact
from recordwise.privacy.noise import Noise
from recordwise.protocols.protocol import Protocol
from recordwise.votes.ballot import Ballot, Votes

if TYPE_CHECKING:
    from collections.abc import Iterable

    from recordwise.protocols.terms import Terms

Message = TypeVar("Message")


@dataclass(frozen=True, kw_only=True)
class Shuffled(Protocol[Message]):
    """A release that hides each sender in a crowd.

    Attributes:
      senders: How many honest senders are planned for, whose messages no reader knows; a sender is a record.
      colluding: What so many more senders sent may be known to the reader.
    """

    trust: ClassVar[Trust] = Trust.SHUFFLE
    ballot: Ballot
    epsilon: Fraction
    delta: Fraction
    senders: int
    colluding: int = 0

    def __post_init__(self) -> None:
        for name in ("epsilon", "delta"):
            object.__setattr__(self, name, exact(getattr(self, name)))
        positive(epsilon=self.epsilon)
        probability(delta=self.delta)
        whole(senders=self.senders)
        count(colluding=self.colluding)

    @classmethod
    def serve(cls, terms: Terms) -> None:
        """Refuse pure terms: what hides in a crowd may, with a small probability, stand out."""
        super().serve(terms)
        if terms.delta == 0:
            raise InvalidInput("shuffle trust needs delta > 0, got 0")

    @property
    def fewest(self) -> int:
        """With fewer senders than this nothing is released."""
        return self.senders + self.colluding

    @property
    def relation(self) -> Neighbours:
        """The neighbouring relation of the guarantee."""
        return Neighbours.REPLACE

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
            neighbours=self.relation,
            trust=Trust.SHUFFLE,
            honest_parties=self.senders,
            insider_epsilon=self.epsilon if self.colluding else None,
        )

    @abstractmethod
    def shuffle(self, messages: Iterable[Message], noise: Noise) -> Message:
        """All messages in a random order: what an honest shuffler shows the server."""

    def release_nobody(self, parties: int, noise: Noise) -> None:
        self.shuffle([self.client(Votes.of_nobody(self.ballot, parties), noise)], noise)

    def without_insiders(self, parties: int | None) -> tuple[Self, int | None]:
        """A batch without the readers' own messages, as if they had sent none."""
        return replace(self, colluding=0), None if parties is None else max(1, parties - self.colluding)
