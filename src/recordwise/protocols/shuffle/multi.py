"""Shuffle trust, several messages per sender: discrete Laplace noise in shares, hidden in a flood that cancels.

A message is a cell and a sign. Per cell each sender draws Z1, Z2 ~ NB(1/n, q) and Z3 ~ NB(shape/n, e^(-1/scale)), and
sends x + Z1 + Z3 positive and Z2 + Z3 negative messages (Ghazi et al. 2020, 2021). The server subtracts: over n senders
the error is exactly discrete Laplace noise. Z3 cancels; it is there because the server also sees how many messages
there are. `privacy.flood` says how much of it is needed.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from typing import TYPE_CHECKING, ClassVar

import numpy as np
from numpy.typing import NDArray

from recordwise.arrays import Doubles, Ints
from recordwise.errors import InvalidInput, ProtocolFault, probability
from recordwise.privacy.flood import Flood, calibrate_flood
from recordwise.privacy.guarantee import Neighbours, exact, members
from recordwise.privacy.noise import (
    DiscreteLaplace,
    NegativeBinomial,
    Noise,
    PolyaDifference,
    SeededNoise,
    permutation,
)
from recordwise.privacy.outcomes import epsilon_below
from recordwise.protocols.pairs import Pair, Record
from recordwise.protocols.protocol import Silos
from recordwise.protocols.registry import register
from recordwise.protocols.release import Tally
from recordwise.protocols.shuffle.shuffled import Shuffled
from recordwise.protocols.views import FAR, MESSAGES, Exact, blocks, change, difference, table
from recordwise.votes.ballot import Ballot, Votes

if TYPE_CHECKING:
    from recordwise.protocols.terms import Terms

MESSAGE_BYTES = 4
AT_ONCE = 1 << 18  # messages made at a time
MOST_MESSAGES = 100.0  # per sender: "auto" floods the shuffler no further than this


@dataclass(frozen=True, eq=False)
class Increments:
    """Messages of one or many senders: 2·cell for a positive one, 2·cell + 1 for a negative one.

    Private before they are shuffled: shows its size only.

    Attributes:
      codes: (messages,) codes.
      senders: How many records' senders they come from; 0 for a piece of messages whose senders another one counts.
    """

    codes: NDArray[np.uint32]
    senders: int
    private: bool

    def __repr__(self) -> str:
        return f"Increments({len(self.codes):,} messages of {self.senders:,} senders)"


@register
@dataclass(frozen=True, kw_only=True)
class ShuffleMulti(Shuffled[Increments]):
    """Counts by many small messages: nearly the error of central trust, without a trusted server.

    Guarantees:
      - the shuffled batch of at least `senders` honest senders is (epsilon, delta)-DP for one record under
        `neighbours`: epsilon and delta are split evenly over the cells that a neighbour changes; it stays so for a
        reader who knows what `colluding` more senders sent and takes it away;
      - with exactly `senders` senders, every cell's error is discrete Laplace of scale
        cells_changed / ((1 - flood_share)·epsilon); more senders only add noise;
      - fewer than `senders` + `colluding` are refused.

    The number of senders is public. A sender is a record: one that abstains, or was removed, still sends its noise.

    Attributes:
      senders: How many honest senders the noise is planned for, whose messages no reader knows.
      colluding: What so many more senders sent may be known to the reader: 1 for a sender who reads.
      flood_share: The part of epsilon spent on hiding the numbers of messages: less means less error and more messages.
    """

    name: ClassVar[str] = "multi-message"
    for_silos: ClassVar[bool] = False  # how many messages one silo sends tells about its records
    flood_share: Fraction = Fraction(1, 10)
    neighbours: Neighbours = Neighbours.REPLACE

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "flood_share", exact(self.flood_share))
        members(self, neighbours=Neighbours)
        probability(flood_share=self.flood_share)
        if not 2 * self.ballot.num_cells <= 2**32:
            raise InvalidInput(f"cells must be <= 2^31 to fit a message, got {self.ballot.num_cells:,}")

    @classmethod
    def planned(cls, terms: Terms, ballot: Ballot, num_records: int) -> ShuffleMulti:
        return cls(
            ballot=ballot,
            epsilon=terms.epsilon / terms.rounds,
            delta=terms.delta / terms.rounds,
            senders=terms.honest(num_records),
            colluding=num_records - terms.honest(num_records),
            neighbours=terms.neighbours,
        )

    @classmethod
    def planned_for_silos(cls, terms: Terms, ballot: Ballot, silos: Silos) -> ShuffleMulti:
        raise InvalidInput("mechanism must send one message per record to be shuffled between silos")

    @classmethod
    def automatic(cls, terms: Terms, ballot: Ballot, num_records: int) -> bool:
        return cls.planned(terms, ballot, num_records).expected_messages <= MOST_MESSAGES

    @property
    def relation(self) -> Neighbours:
        return self.neighbours

    @property
    def _noise_epsilon(self) -> Fraction:
        """What one cell's discrete Laplace noise costs."""
        return (1 - self.flood_share) * self.epsilon / self.ballot.cells_changed(self.neighbours)

    @cached_property
    def flood(self) -> Flood:
        """The cancelling messages of one cell, summed over all senders."""
        cells = self.ballot.cells_changed(self.neighbours)
        return calibrate_flood(self._noise_epsilon, self.flood_share * self.epsilon / cells, self.delta / cells)

    @property
    def expected_messages(self) -> float:
        """Messages one sender sends on average: its votes, and its shares of noise and flood in every cell."""
        one_sign = NegativeBinomial(Fraction(1), 1 / self._noise_epsilon).mean + self.flood.mean
        return self.ballot.cells_per_record + 2 * self.ballot.num_cells * one_sign / self.senders

    @property
    def message_size(self) -> int:
        return math.ceil(MESSAGE_BYTES * self.expected_messages)

    def law(self, num_senders: int) -> DiscreteLaplace | PolyaDifference:
        """The law of a cell's error when `num_senders` take part."""
        scale = 1 / self._noise_epsilon
        if num_senders == self.senders:
            return DiscreteLaplace(scale)
        return PolyaDifference(Fraction(num_senders, self.senders), scale)

    def noise_std(self, num_records: int) -> float:
        return self.law(max(num_records, self.senders)).std

    def client(self, votes: Votes, noise: Noise) -> Increments:
        """The messages of the senders of these records, one each: shapes add up, so they are drawn together."""
        self.check_ballot(votes)
        if not len(votes):
            return Increments(np.empty(0, dtype=np.uint32), 0, noise.private)
        parts = list(self._messages(votes, len(votes), noise))
        return Increments(np.concatenate([part.codes for part in parts]), len(votes), noise.private)

    def clients(self, votes: Votes, noise: Noise, *, parties: int, senders: int | None = None) -> Iterator[Increments]:
        """The same messages, a bounded number at a time: nobody need hold them all.

        Fewer records than senders leave some senders without one; more records share senders.
        """
        self.check_ballot(votes)
        for part in votes.parts(parties) if senders is None else [votes]:
            taking_part = len(part) if senders is None else senders
            if taking_part:
                yield from self._messages(part, taking_part, noise)

    def _messages(self, votes: Votes, senders: int, noise: Noise) -> Iterator[Increments]:
        """Messages in pieces; the first one tells how many senders all of them come from."""
        positives, negatives = self._numbers(votes.counts().ravel(), senders, noise)
        cells = np.arange(self.ballot.num_cells, dtype=np.uint32)
        codes, ends = np.concatenate([2 * cells, 2 * cells + 1]), np.cumsum(np.concatenate([positives, negatives]))
        for start in range(0, max(1, int(ends[-1])), AT_ONCE):
            places = np.arange(start, min(start + AT_ONCE, int(ends[-1])))
            some = codes[np.searchsorted(ends, places, side="right")]
            yield Increments(some, 0 if start else senders, noise.private)

    def shuffle(self, messages: Iterable[Increments], noise: Noise) -> Increments:
        parts = list(messages)
        codes = np.concatenate([part.codes for part in parts]) if parts else np.empty(0, dtype=np.uint32)
        shuffled = codes[permutation(len(codes), noise)]
        private = noise.private and all(part.private for part in parts)
        senders = sum(part.senders for part in parts)
        self._refuse_fewer(senders)
        return Increments(shuffled, senders, private)

    def server(self, messages: Iterable[Increments], noise: Noise) -> Tally:
        """The tally of a batch. It is the same for any order of the messages, so they need not be held together.

        `shuffle` makes what an honest shuffler shows; where one process plays all parties, nobody is shown a batch.
        """
        counts, senders, private = np.zeros(2 * self.ballot.num_cells, dtype=np.int64), 0, noise.private
        for part in messages:
            counts += np.bincount(self._checked(part.codes), minlength=len(counts))
            senders, private = senders + part.senders, private and part.private
        self._refuse_fewer(senders)
        return self._tally(counts[::2] - counts[1::2], senders, private)

    def simulate_cohort(self, counts: Ints, *, seed: int) -> Tally:
        """The numbers of positive and negative messages have known laws, so they are drawn as such."""
        devices = int(counts.sum())
        self._refuse_fewer(devices)
        positives, negatives = self._numbers(counts.ravel(), devices, SeededNoise(seed))
        return self._tally(positives - negatives, devices, private=False)

    def view_cost(self, parties: int | None) -> float:
        return self.expected_messages * self.senders

    def shrunk(self) -> ShuffleMulti:
        return replace(self, ballot=self.ballot.block())  # cells are treated alike

    def exact_epsilon(self, pair: Pair, parties: int | None) -> Exact:
        senders = parties or self.senders
        if senders != self.senders:
            return None  # the laws of too few senders are not written down anywhere; they are sampled
        changed = change(self.ballot, pair)
        up, down = self._two_counts()
        forth = [up] * int((changed > 0).sum()) + [down] * int((changed < 0).sum())
        back = [(q, p) for p, q in forth]
        found = max(epsilon_below(side, float(self.delta)) for side in (forth, back))
        return found, "both counts of every changed cell, convolved"

    def view_scores(self, side: Record | None, pair: Pair, trials: int, parties: int | None, noise: Noise) -> Doubles:
        """Every block of a shuffled batch is a view: the numbers of positive and negative messages in its cells.

        Scores: the likelihood ratio of both numbers, and that of their difference alone.
        """
        ballot, senders, law = self.ballot, parties or self.senders, self.law(self.senders)
        log_f, loss = self._flood_log_sums(), float(self._noise_epsilon)
        per_cell = self.expected_messages * self.senders / ballot.num_cells
        scores = []
        for wide, victims in blocks(self, side, trials, int(MESSAGES / per_cell), most_blocks=senders):
            rest = Votes.of_nobody(wide.ballot, senders - len(victims))
            batch = wide.shuffle([wide.client(votes, noise) for votes in (victims, rest)], noise)
            counts = np.bincount(batch.codes, minlength=2 * wide.ballot.num_cells)
            seen = counts.reshape(-1, ballot.num_queries, ballot.num_classes, 2)
            positive, negative = seen[..., 0], seen[..., 1]
            both, tallied = [], []
            for record in pair.sides():
                votes = table(ballot, record)
                both.append(_log_two_counts(positive - votes, negative, log_f, loss).sum(axis=(1, 2)))
                tallied.append(law.log_likelihood(positive - negative - votes).sum(axis=(1, 2)))
            scores.append(np.stack([difference(*both), difference(*tallied)], axis=1))
        return np.concatenate(scores)

    def _two_counts(self) -> tuple[tuple[Doubles, Doubles], tuple[Doubles, Doubles]]:
        """The laws of a cell's positive and negative messages when nobody votes for it and when one record does.

        The pair (a, b) without a vote has probability (1-q)²·q^|a-b|·F(min(a, b)) (see `privacy.flood`), and with one
        that of (a - 1, b). Pairs with a > b all have the ratio q, so they are one outcome; those with a <= b are told
        apart by a alone.
        """
        q, log_f = math.exp(-self._noise_epsilon), self._flood_log_sums()
        without = (1 - q) * np.exp(log_f)  # a = 0, 1, ... and a <= b
        with_one = np.append(0.0, (1 - q) * q * np.exp(log_f[:-1]))  # of a - 1 and b >= a
        p = np.append(without, max(0.0, 1 - float(without.sum())))
        r = np.append(with_one, max(0.0, 1 - float(with_one.sum())))
        return (p, r), (r, p)

    def _flood_log_sums(self) -> Doubles:
        """log F(b) for b = 0, 1, ..., F(b) = sum over z <= b of e^(-2·noise_epsilon·(b-z))·P(flood = z)."""
        law, noise_epsilon = NegativeBinomial(self.flood.shape, self.flood.scale), float(self._noise_epsilon)
        last = math.ceil(law.mean + 40 * law.std + 40 / noise_epsilon) + 10
        at = np.arange(last + 1)
        with np.errstate(divide="ignore"):
            log_h = np.log(law.pmf(at))
        tilt = 2 * noise_epsilon * at
        log_f: Doubles = np.logaddexp.accumulate(log_h + tilt) - tilt
        return log_f

    def to_bytes(self, messages: Increments) -> list[bytes]:
        """Each message on its own, ready to be sealed."""
        content = messages.codes.astype(">u4").tobytes()
        return [content[start : start + MESSAGE_BYTES] for start in range(0, len(content), MESSAGE_BYTES)]

    def from_bytes(self, messages: Iterable[bytes], *, senders: int) -> Increments:
        """The batch that a shuffler released; refuses whatever is not a message about this ballot."""
        batch = list(messages)
        wrong = next((message for message in batch if len(message) != MESSAGE_BYTES), None)
        if wrong is not None:
            raise ProtocolFault(f"a message must have {MESSAGE_BYTES} bytes, got {len(wrong)}")
        codes = np.frombuffer(b"".join(batch), dtype=">u4").astype(np.uint32)
        return Increments(self._checked(codes), senders, private=True)

    def _numbers(
        self, counts: NDArray[np.int64], senders: int, noise: Noise
    ) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Positive and negative messages per cell, from `senders` senders who cast `counts` together."""
        share = Fraction(senders, self.senders)
        one_sided = NegativeBinomial(share, 1 / self._noise_epsilon)
        cancelling = NegativeBinomial(share * self.flood.shape, self.flood.scale).sample(counts.size, noise)
        return (
            counts + one_sided.sample(counts.size, noise) + cancelling,
            one_sided.sample(counts.size, noise) + cancelling,
        )

    def _refuse_fewer(self, senders: int) -> None:
        if senders < self.fewest:
            raise ProtocolFault(f"a batch must come from at least {self.fewest:,} senders, got {senders:,}")

    def _checked(self, codes: NDArray[np.uint32]) -> NDArray[np.uint32]:
        if codes.size and not codes.max() < 2 * self.ballot.num_cells:
            raise ProtocolFault(f"a message must lie below {2 * self.ballot.num_cells}, got {int(codes.max())}")
        return codes

    def _tally(self, difference: NDArray[np.int64], senders: int, private: bool) -> Tally:
        shape = (self.ballot.num_queries, self.ballot.num_classes)
        guarantee = replace(self.guarantee, private=private)
        return Tally(self.ballot, guarantee, difference.astype(np.float64).reshape(shape), self.law(senders))


def _log_two_counts(positive: Ints, negative: Ints, log_f: Doubles, noise_epsilon: float) -> Doubles:
    """The logarithm of what `_two_counts` says about one cell, up to a constant."""
    least = np.minimum(positive, negative)
    inside = log_f[np.clip(least, 0, len(log_f) - 1)]
    return np.where(least < 0, -FAR, inside - noise_epsilon * np.abs(positive - negative))
