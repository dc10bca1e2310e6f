"""Local trust: a record's votes are randomized by whoever holds the record, one message per record.

A mechanism is its public parameters. The client half sees votes and makes bytes; the server half sees bytes. They
share nothing else, and the server's half is a sum over messages of unbiased estimates.
"""

from __future__ import annotations

import os
from abc import abstractmethod
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import TYPE_CHECKING, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from recordwise.arrays import Doubles, Ints
from recordwise.errors import InvalidInput, ProtocolFault, positive
from recordwise.privacy.events import Event, Pure
from recordwise.privacy.guarantee import Guarantee, Neighbours, Trust, Unit, exact
from recordwise.privacy.noise import Noise, SeededNoise, SumOfEstimates
from recordwise.privacy.noise.laplace import SMALLEST
from recordwise.protocols.local.answers import Answers
from recordwise.protocols.local.hits import Engine
from recordwise.protocols.pairs import NOTHING, Pair, Record, repeated
from recordwise.protocols.protocol import Protocol
from recordwise.protocols.registry import kinds
from recordwise.protocols.release import Tally
from recordwise.protocols.views import MESSAGES, data_set, difference, portions
from recordwise.protocols.views import ROWS as VIEWS
from recordwise.votes.ballot import Ballot, Votes

if TYPE_CHECKING:
    from recordwise.privacy.amplification import LocalMechanism as Amplifiable
    from recordwise.privacy.amplification.clones import Clones
    from recordwise.protocols.terms import Terms

VALUES = 1 << 22  # cells randomized or decoded at a time: memory stays bounded whatever n is
ROWS, MOST_BYTES = 1 << 17, 1 << 26  # messages decoded at a time
DEVICES = 1 << 18  # of a cohort, simulated at a time


@dataclass(frozen=True, kw_only=True)
class LocalMechanism(Protocol[Answers]):
    """One epsilon-DP message per record.

    Guarantees:
      - a record's message is epsilon-DP for that record: replacing its votes by any others that the ballot allows,
        none included, changes the probability of any message by a factor of at most e^epsilon;
      - the server's estimate of every cell is unbiased, whatever the votes;
      - a record that abstains sends a message all the same, and one that looks like any other.
    """

    trust: ClassVar[Trust] = Trust.LOCAL
    for_silos: ClassVar[bool] = True
    ballot: Ballot
    epsilon: Fraction

    def __post_init__(self) -> None:
        object.__setattr__(self, "epsilon", exact(self.epsilon))
        positive(epsilon=self.epsilon)
        if not self.epsilon >= SMALLEST:
            raise InvalidInput(f"epsilon must be >= 2^-40 where each record adds noise, got {float(self.epsilon):g}")

    @classmethod
    def serve(cls, terms: Terms) -> None:
        super().serve(terms)
        check_replace(terms)

    @classmethod
    def planned(cls, terms: Terms, ballot: Ballot, num_records: int) -> Self:
        return cls(ballot=ballot, epsilon=terms.pure_epsilon())

    @classmethod
    def automatic(cls, terms: Terms, ballot: Ballot, num_records: int) -> bool:
        return cls.chosen_for(ballot)

    @classmethod
    def chosen_for(cls, ballot: Ballot) -> bool:
        """Whether "auto" considers it on this ballot, under local and shuffle trust."""
        return True

    @classmethod
    def tells(cls, ballot: Ballot) -> Amplifiable:
        """What one message can tell, as a function of epsilon0, for the accountants of shuffling."""
        from recordwise.privacy.amplification.mechanisms import any_mechanism

        return any_mechanism

    @property
    @abstractmethod
    def message_size(self) -> int:
        """Bytes of one message."""

    @property
    def decoding_width(self) -> int:
        """Values that decoding one message holds in memory."""
        return self.message_size

    @abstractmethod
    def randomize(self, votes: Votes, noise: Noise) -> NDArray[np.uint8]:
        """(n, message_size) one message per record."""

    @abstractmethod
    def check(self, bodies: NDArray[np.uint8]) -> None:
        """Refuse bytes that no client could have sent."""

    @abstractmethod
    def estimate(self, bodies: NDArray[np.uint8], engine: Engine) -> NDArray[np.float64]:
        """(s, C) sum over messages of the unbiased estimates of each record's votes."""

    @abstractmethod
    def variance(self, *, queried: bool, labelled: bool) -> float:
        """Variance of one record's estimate of one cell.

        Args:
          queried: Whether the record voted for the cell's query.
          labelled: Whether the cell's class is among the record's labels.
        """

    @property
    @abstractmethod
    def reach(self) -> tuple[float, float]:
        """The least and the largest value of one record's estimate of one cell."""

    @property
    def event(self) -> Event:
        return Pure(self.epsilon)

    @property
    def guarantee(self) -> Guarantee:
        return Guarantee(epsilon=self.epsilon, neighbours=Neighbours.REPLACE, trust=Trust.LOCAL, unit=Unit.RECORD)

    @property
    def mean_variance(self) -> float:
        """Variance of one record's estimate, averaged over the cells: what a choice between mechanisms compares."""
        queried = self.ballot.votes_per_record / self.ballot.num_queries
        labelled = self.ballot.labels_per_record / self.ballot.num_classes
        return sum(
            (queried if q else 1 - queried) * (labelled if y else 1 - labelled) * self.variance(queried=q, labelled=y)
            for q in (False, True)
            for y in (False, True)
        )

    def law(self, num_messages: int) -> SumOfEstimates:
        """The law of a cell's error after `num_messages` messages."""
        low, high = self.reach
        return SumOfEstimates(
            messages=num_messages,
            variance=self.mean_variance,
            largest_variance=max(self.variance(queried=q, labelled=y) for q in (False, True) for y in (False, True)),
            below=1 - low,  # a mean is zero or one
            above=high,
        )

    def noise_std(self, num_records: int) -> float:
        return self.law(num_records).std

    def to_wire(self, message: Answers) -> bytes:
        from recordwise.protocols.local import wire

        return wire.pack(self, message)

    def from_wire(self, content: bytes) -> Answers:
        from recordwise.protocols.local import wire

        answers = wire.unpack(self, content)
        if not answers.private:
            raise ProtocolFault("answers must not be made from a seed, these are")
        return answers

    def client(self, votes: Votes, noise: Noise) -> Answers:
        self.check_ballot(votes)
        bodies = np.empty((len(votes), self.message_size), dtype=np.uint8)
        start = 0
        for some in votes.pieces(self._at_once):
            bodies[start : start + len(some)] = self.randomize(some, noise)
            start += len(some)
        return Answers(bodies, private=noise.private)

    def clients(self, votes: Votes, noise: Noise, *, parties: int, senders: int | None = None) -> Iterator[Answers]:
        """The same messages, in the same order, a bounded number at a time: nobody need hold them all."""
        for part in votes.parts(parties):
            for some in part.pieces(self._at_once):
                yield self.client(some, noise)

    @property
    def _at_once(self) -> int:
        """Records that are randomized at a time."""
        return max(1, min(ROWS, VALUES // (8 * self.message_size)))

    def server(self, messages: Iterable[Answers], noise: Noise, *, engine: Engine = Engine.AUTO) -> Tally:
        """The tally; `noise` draws nothing here, but a replayable one marks the release as not private."""
        total = np.zeros((self.ballot.num_queries, self.ballot.num_classes))
        count, private = 0, noise.private
        waiting: list[NDArray[np.uint8]] = []  # a million frames of one message are decoded as one batch
        rows = 0
        for answers in messages:
            if answers.bodies.shape[1] != self.message_size:
                raise ProtocolFault(f"a message must have {self.message_size} bytes, got {answers.bodies.shape[1]}")
            private = private and answers.private
            count += len(answers)
            waiting.append(answers.bodies)
            rows += len(answers)
            if rows >= min(ROWS, MOST_BYTES // self.message_size):
                total += self._decode(np.concatenate(waiting), engine)
                waiting, rows = [], 0
        if not count:
            raise ProtocolFault("a release must have at least one message, got 0")
        if rows:
            total += self._decode(np.concatenate(waiting), engine)
        return Tally(self.ballot, replace(self.guarantee, private=private), total, self.law(count))

    def _decode(self, bodies: NDArray[np.uint8], engine: Engine) -> NDArray[np.float64]:
        engine = engine.settled(len(bodies) * self.ballot.num_cells)
        rows = len(bodies) if engine is Engine.TORCH else min(ROWS, max(1, VALUES // self.decoding_width))

        def decode(part: slice) -> NDArray[np.float64]:
            self.check(bodies[part])
            return self.estimate(bodies[part], engine)

        if len(bodies) <= rows:
            return decode(slice(None))
        with ThreadPoolExecutor(_cores()) as pool:  # array operations let other threads run
            parts = pool.map(decode, _parts(len(bodies), rows))
            return sum(parts, np.zeros((self.ballot.num_queries, self.ballot.num_classes)))

    def simulate_cohort(self, counts: Ints, *, seed: int) -> Tally:
        """Cells of one message depend on each other, so every device's message is made and decoded, some at a time."""
        noise = SeededNoise(seed)
        return self.server(self._cohort_messages(counts.ravel(), noise), noise)

    def _cohort_messages(self, counts: Ints, noise: Noise) -> Iterator[Answers]:
        """Every device's message, the devices in the order of their cells: decoding sums, so no order matters."""
        borders = np.cumsum(counts)
        for start in range(0, int(borders[-1]), DEVICES):
            devices = np.arange(start, min(start + DEVICES, int(borders[-1])))
            queries, classes = np.divmod(np.searchsorted(borders, devices, side="right"), self.ballot.num_classes)
            votes = Votes(self.ballot, queries.astype(np.int32)[:, None], classes.astype(np.int32)[:, None])
            yield self.client(votes, noise)

    def log_density(self, bodies: NDArray[np.uint8], record: Record) -> Doubles:
        """(n,) the logarithm of each message's probability, up to a term that is the same for every record.

        Where a mechanism does not state it, its own estimate of the record's cells stands in: an audit is then less
        sharp and no less valid.
        """
        cells = sorted(record.cells(self.ballot))
        return np.array([self.estimate(body[None], Engine.NUMPY).ravel()[cells].sum() for body in bodies])

    def view_scores(self, side: Record | None, pair: Pair, trials: int, parties: int | None, noise: Noise) -> Doubles:
        """One client with `trials` such records: every record's message is a view."""
        step = max(1, min(VIEWS, MESSAGES * 8 // self.ballot.num_cells))
        scores = []
        for count in portions(trials, step):
            bodies = self.client(repeated(data_set(self.ballot, side), count), noise).bodies
            before, after = (self.log_density(bodies, record or NOTHING) for record in pair.sides())
            scores.append(difference(before, after)[:, None])
        return np.concatenate(scores)

    def shuffled_sides(self) -> list[Clones]:
        """Messages that speak for one of two records, for the other, or for neither: on some data sets around them.

        Each is a lower bound on what a shuffled batch tells; none where no such split is known.
        """
        return []


def mechanisms() -> dict[str, type[LocalMechanism]]:
    """The mechanisms that send one message per record, by name: under local trust, and shuffled."""
    return {kind.name: kind for kind in kinds(Trust.LOCAL) if issubclass(kind, LocalMechanism)}


def check_replace(terms: Terms) -> None:
    """Refuse neighbours that differ in the number of messages."""
    if terms.neighbours is not Neighbours.REPLACE:
        raise InvalidInput(
            f"local trust hides what a record says, not that it sent a message: neighbours must be replace, "
            f"got {terms.neighbours}"
        )


def _parts(total: int, step: int) -> Iterator[slice]:
    return (slice(start, min(start + step, total)) for start in range(0, total, step))


def _cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
