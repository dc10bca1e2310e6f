"""Shuffle trust, one message per sender: a local mechanism at the largest epsilon0 that shuffling allows."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property, lru_cache
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from recordwise.arrays import Doubles, Ints
from recordwise.errors import InvalidInput, ProtocolFault
from recordwise.privacy.amplification import largest_epsilon0
from recordwise.privacy.amplification.clones import LEFT_OUT
from recordwise.privacy.guarantee import Neighbours
from recordwise.privacy.noise import Noise, SumOfEstimates, permutation
from recordwise.protocols.choose import least_noise
from recordwise.protocols.local.answers import Answers
from recordwise.protocols.local.mechanism import LocalMechanism, mechanisms
from recordwise.protocols.pairs import NOTHING, Pair, Record, as_votes, bystander, repeated
from recordwise.protocols.protocol import Silos
from recordwise.protocols.registry import register
from recordwise.protocols.release import Tally
from recordwise.protocols.shuffle.shuffled import Shuffled
from recordwise.protocols.views import ROWS, Exact, change, data_set, portions
from recordwise.settings import AUTO
from recordwise.votes.ballot import Ballot, Votes

if TYPE_CHECKING:
    from recordwise.protocols.terms import Terms

FEW = 1 << 12  # so many records are put in order at once; more are dealt to 256 groups first
NAMED = "a shuffled message must not say who sent it, got messages with ids"


@register
@dataclass(frozen=True, kw_only=True)
class ShuffleSingle(Shuffled[Answers]):
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

    name: ClassVar[str] = "single-message"
    for_silos: ClassVar[bool] = True
    mechanism: str = AUTO

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.mechanism not in (AUTO, *mechanisms()):
            raise InvalidInput(f"mechanism must be one of {[AUTO, *mechanisms()]}, got {self.mechanism!r}")

    @classmethod
    def names(cls) -> tuple[str, ...]:
        return tuple(mechanisms())  # whatever sends one message per record can be shuffled

    @classmethod
    def serve(cls, terms: Terms) -> None:
        super().serve(terms)
        if terms.neighbours is not Neighbours.REPLACE:
            raise InvalidInput(
                f"one message per sender tells how many senders there are: neighbours must be replace, or mechanism "
                f"'multi-message', got {terms.neighbours}"
            )

    @classmethod
    def planned(cls, terms: Terms, ballot: Ballot, num_records: int) -> ShuffleSingle:
        return cls(
            ballot=ballot,
            epsilon=terms.epsilon / terms.rounds,
            delta=terms.delta / terms.rounds,
            senders=terms.honest(num_records),
            colluding=num_records - terms.honest(num_records),
            mechanism=terms.mechanism,
        )

    @classmethod
    def planned_for_silos(cls, terms: Terms, ballot: Ballot, silos: Silos) -> ShuffleSingle:
        """The messages of colluding silos do not count among the senders, so no more of them are left out."""
        one = replace(cls.planned(terms, ballot, silos.least_records), senders=silos.least_records, colluding=0)
        return replace(one, mechanism=one.local.name)  # silos need not choose again

    def check_silos(self, silos: Silos) -> None:
        if self.colluding:  # a silo knows all messages of its own, not just so many
            raise InvalidInput(
                f"colluding silos are left out whole, so a message's colluding must be 0, got {self.colluding}"
            )

    @classmethod
    def automatic(cls, terms: Terms, ballot: Ballot, num_records: int) -> bool:
        return True

    @cached_property
    def local(self) -> LocalMechanism:
        """What every sender runs."""
        known = mechanisms()
        kinds = (
            [kind for kind in known.values() if kind.chosen_for(self.ballot)]
            if self.mechanism == AUTO
            else [known[self.mechanism]]
        )
        amplified = [_amplified(kind, self.ballot, self.epsilon, self.delta, self.senders) for kind in kinds]
        return least_noise(amplified, self.senders)

    @property
    def full_name(self) -> str:
        return f"{self.name} of {self.local.name}"

    @property
    def title(self) -> str:
        return f"{self.local.name} at epsilon0 {float(self.epsilon0):.4g}, shuffled"

    @property
    def message_size(self) -> int:
        return self.local.message_size

    @property
    def epsilon0(self) -> Fraction:
        """What one message costs its sender when nobody shuffles."""
        return self.local.epsilon

    def law(self, num_senders: int) -> SumOfEstimates:
        return self.local.law(num_senders)

    def noise_std(self, num_records: int) -> float:
        return self.local.noise_std(num_records)

    def client(self, votes: Votes, noise: Noise) -> Answers:
        return self.local.client(votes, noise)

    def shuffle(self, messages: Iterable[Answers], noise: Noise) -> Answers:
        batch = list(messages)
        if any(answers.ids is not None for answers in batch):
            raise ProtocolFault(NAMED)
        size = self.local.message_size
        wrong = next((answers for answers in batch if answers.bodies.shape[1] != size), None)
        if wrong is not None:
            raise ProtocolFault(f"a message must have {size} bytes, got {wrong.bodies.shape[1]}")
        bodies = np.concatenate([answers.bodies for answers in batch]) if batch else np.empty((0, size), np.uint8)
        self._refuse_fewer(len(bodies))
        private = noise.private and all(answers.private for answers in batch)
        return Answers(bodies[permutation(len(bodies), noise)], private=private)

    def server(self, messages: Iterable[Answers], noise: Noise) -> Tally:
        """The tally of a batch, whose order must be random: that of an honest shuffler, or of `clients`.

        The last bits of a sum of floats follow from the order of its terms, and would reveal who sent what.
        """
        arrived = 0

        def anonymous() -> Iterator[Answers]:
            nonlocal arrived
            for answers in messages:
                if answers.ids is not None:
                    raise ProtocolFault(NAMED)
                arrived += len(answers)
                yield answers
            self._refuse_fewer(arrived)

        tally = self.local.server(anonymous(), noise)
        return replace(tally, guarantee=replace(self.guarantee, private=tally.guarantee.private))

    def clients(self, votes: Votes, noise: Noise, *, parties: int, senders: int | None = None) -> Iterator[Answers]:
        """Every record's message, in a random order: what a shuffler would make of them, without all of them at hand.

        Messages are drawn independently, so it is the same whether they or their senders are put in order.
        """
        for some in in_random_order(votes, noise):
            yield from self.local.clients(some, noise, parties=1)

    def _refuse_fewer(self, arrived: int) -> None:
        if arrived < self.fewest:
            raise ProtocolFault(f"a batch must come from at least {self.fewest:,} senders, got {arrived:,}")

    def view_cost(self, parties: int | None) -> float:
        return (parties or self.senders) * max(1.0, self.message_size / 16)

    def simulate_cohort(self, counts: Ints, *, seed: int) -> Tally:
        if int(counts.sum()) < self.fewest:
            raise InvalidInput(f"a cohort must have >= {self.fewest:,} devices as planned, got {int(counts.sum()):,}")
        tally = self.local.simulate_cohort(counts, seed=seed)  # the order of messages changes no sum
        return replace(tally, guarantee=replace(self.guarantee, private=False))

    def exact_epsilon(self, pair: Pair, parties: int | None) -> Exact:
        if int(np.abs(change(self.ballot, pair)).sum()) < 2 * self.ballot.cells_per_record:
            return None
        senders = parties or self.senders
        found = [side.epsilon_below(float(self.delta), senders=senders) for side in self.local.shuffled_sides()]
        return (max(found), f"how many of {senders:,} messages speak for either record") if found else None

    def view_scores(self, side: Record | None, pair: Pair, trials: int, parties: int | None, noise: Noise) -> Doubles:
        """A batch is a view: its likelihood ratio, all other senders being alike, and that of its first message.

        A batch has, up to a factor, the probability of the sum over its messages m of p(m) / p(m of the others).
        """
        local, senders, third = self.local, parties or self.senders, bystander(self.ballot)
        votes, others = data_set(self.ballot, side), as_votes(self.ballot, [third])
        scores = []
        for count in portions(trials, max(1, ROWS // senders)):
            own, theirs = (
                self.client(repeated(records, times), noise).bodies
                for records, times in ((votes, count), (others, count * (senders - 1)))
            )
            batches = []
            for trial in range(count):
                rest = theirs[trial * (senders - 1) : (trial + 1) * (senders - 1)]
                messages = [Answers(bodies, private=noise.private) for bodies in (own[trial : trial + 1], rest)]
                batches.append(self.shuffle(messages, noise).bodies)
            bodies = np.concatenate(batches)
            usual = local.log_density(bodies, third)
            one, other = (
                (local.log_density(bodies, record or NOTHING) - usual).reshape(count, senders)
                for record in pair.sides()
            )
            batch = np.logaddexp.reduce(one, axis=1) - np.logaddexp.reduce(other, axis=1)
            scores.append(np.stack([batch, one[:, 0] - other[:, 0]], axis=1))
        return np.concatenate(scores)

    def to_bytes(self, messages: Answers) -> list[bytes]:
        """Each message on its own, ready to be sealed."""
        return [body.tobytes() for body in messages.bodies]

    def from_bytes(self, messages: Iterable[bytes]) -> Answers:
        """The batch that a shuffler released; refuses whatever no sender could have sent."""
        batch, size = list(messages), self.local.message_size
        wrong = next((message for message in batch if len(message) != size), None)
        if wrong is not None:
            raise ProtocolFault(f"a message must have {size} bytes, got {len(wrong)}")
        bodies = np.frombuffer(b"".join(batch), dtype=np.uint8).reshape(-1, size)
        self.local.check(bodies)
        return Answers(bodies)


def in_random_order(votes: Votes, noise: Noise) -> Iterator[Votes]:
    """These votes in a uniformly random order, some at a time. Private.

    Each record is dealt to a group, all groups being as likely, and put in order within it: so every order has the same
    probability, and beyond the votes memory grows by two bytes a record.
    """
    groups = np.zeros(len(votes), dtype=np.uint8)
    if len(votes) > FEW:
        for start in range(0, len(votes), FEW):
            some = groups[start : start + FEW]
            some[:] = noise.words(len(some)) >> np.uint64(56)
    for group in np.unique(groups):
        held = np.flatnonzero(groups == group)
        order = held[permutation(len(held), noise)]
        yield Votes(votes.ballot, votes.queries[order], votes.labels[order])


@lru_cache(maxsize=256)
def _amplified(
    kind: type[LocalMechanism], ballot: Ballot, epsilon: Fraction, delta: Fraction, senders: int
) -> LocalMechanism:
    """The mechanism at the largest epsilon0, to six digits, that is certified to meet the target."""
    target, slack = math.nextafter(float(epsilon), 0), math.nextafter(float(delta), 0)
    tells = kind.tells(ballot)
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
