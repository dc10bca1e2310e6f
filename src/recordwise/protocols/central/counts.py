"""What all central mechanisms share: clients send exact counts, the server adds them up and releases once."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import ClassVar, NoReturn, Self

import numpy as np
from numpy.typing import NDArray

from recordwise.arrays import Doubles, Ints
from recordwise.errors import InvalidInput, ProtocolFault, positive
from recordwise.privacy.events import Event, Pure
from recordwise.privacy.guarantee import Guarantee, Neighbours, Trust, exact, members
from recordwise.privacy.noise import DiscreteGaussian, DiscreteLaplace, Noise
from recordwise.protocols.pairs import Pair, Record
from recordwise.protocols.protocol import Protocol
from recordwise.protocols.release import Release, Tally
from recordwise.protocols.views import noisy_cells
from recordwise.votes.ballot import Ballot, Votes

MOST_COUNT = 2**40  # sums of counts must stay whole numbers


class ExactCounts:
    """A client's exact tally, on its way to a trusted aggregator. Private: shows its shape only, is never pickled."""

    def __init__(self, counts: NDArray[np.int64]) -> None:
        self.counts = counts

    def __repr__(self) -> str:
        return f"ExactCounts{self.counts.shape}"

    def __reduce__(self) -> NoReturn:
        raise InvalidInput("exact counts are private and must not be pickled, logged or written to disk")


@dataclass(frozen=True, kw_only=True)
class Central(Protocol[ExactCounts]):
    """A release of exact counts: a subclass says how noise is added to their sum."""

    trust: ClassVar[Trust] = Trust.CENTRAL
    for_silos: ClassVar[bool] = True
    ballot: Ballot
    neighbours: Neighbours = Neighbours.REPLACE

    def __post_init__(self) -> None:
        members(self, neighbours=Neighbours)

    @abstractmethod
    def protect(self, counts: Ints, promise: Guarantee, noise: Noise) -> Release:
        """The release of these counts."""

    def client(self, votes: Votes, noise: Noise) -> ExactCounts:
        self.check_ballot(votes)
        return ExactCounts(votes.counts())

    def server(self, messages: Iterable[ExactCounts], noise: Noise) -> Release:
        return self.protect(self._total(messages), replace(self.guarantee, private=noise.private), noise)

    def _total(self, messages: Iterable[ExactCounts]) -> Ints:
        total = np.zeros((self.ballot.num_queries, self.ballot.num_classes), dtype=np.int64)
        for message in messages:
            if message.counts.shape != total.shape:
                raise ProtocolFault(f"counts must have shape {total.shape}, got {message.counts.shape}")
            total += message.counts
        return total

    def to_wire(self, message: ExactCounts) -> bytes:
        return message.counts.astype("<i8").tobytes()

    def from_wire(self, content: bytes) -> ExactCounts:
        if len(content) != 8 * self.ballot.num_cells:
            raise ProtocolFault(f"counts must have {8 * self.ballot.num_cells} bytes, got {len(content)}")
        counts = np.frombuffer(content, dtype="<i8").astype(np.int64)
        if not (counts.min() >= 0 and counts.max() <= MOST_COUNT):
            raise ProtocolFault(f"a count must lie in [0, {MOST_COUNT}], one does not")
        return ExactCounts(counts.reshape(self.ballot.num_queries, self.ballot.num_classes))

    def release_of(self, counts: Ints, num_records: int, noise: Noise) -> Release:
        return self.protect(counts, replace(self.guarantee, private=False), noise)


class NoisyCells(Central):
    """Noise of one law on every cell; cells are treated alike."""

    @property
    @abstractmethod
    def law(self) -> DiscreteLaplace | DiscreteGaussian:
        """The law of a cell's noise."""

    def protect(self, counts: Ints, promise: Guarantee, noise: Noise) -> Tally:
        estimate = (counts + self.law.sample(counts.shape, noise)).astype(np.float64)
        return Tally(self.ballot, promise, estimate, self.law)

    def noise_std(self, num_records: int) -> float:
        return self.law.std

    def shrunk(self) -> Self:
        return replace(self, ballot=self.ballot.block())

    def view_scores(self, side: Record | None, pair: Pair, trials: int, parties: int | None, noise: Noise) -> Doubles:
        return noisy_cells(self, self.law, side, pair, trials, noise)


@dataclass(frozen=True, kw_only=True)
class PureCentral(Central):
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
