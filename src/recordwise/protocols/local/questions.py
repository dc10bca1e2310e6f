"""Questions in waves: every record answers one yes-or-no question, and later questions follow from earlier answers.

One-shot mechanisms spread what a record may say over all s·C cells. Where every class has one query, few assignments
remain in doubt after the first answers, and the records that have not answered yet can be asked about just those. What
a record is asked depends on others' noisy answers, never on its own: the sequentially interactive local model.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from typing import TYPE_CHECKING, ClassVar, NoReturn

import numpy as np
from numpy.typing import NDArray

from recordwise.arrays import Bools, Doubles, Ints
from recordwise.errors import InvalidInput, ProtocolFault, positive, whole
from recordwise.privacy.events import Event, Pure
from recordwise.privacy.guarantee import Guarantee, Neighbours, Trust, Unit, exact
from recordwise.privacy.noise import Noise, bernoulli, exp
from recordwise.protocols.local.assignments import Answered, anywhere, next_sets, walked
from recordwise.protocols.local.indicator import Indicator
from recordwise.protocols.local.mechanism import check_replace
from recordwise.protocols.pairs import Pair, Record, repeated
from recordwise.protocols.protocol import Protocol, Silos, check_one_query_per_class
from recordwise.protocols.registry import register
from recordwise.protocols.release import Assigned
from recordwise.protocols.views import Exact, data_set, table
from recordwise.randomness import seeded
from recordwise.votes.ballot import NOBODY, Ballot, Votes

if TYPE_CHECKING:
    from recordwise.protocols.terms import Terms

MOST_CLASSES = 20  # with more the walk loses its way, and one-shot mechanisms find more
STEPS, LAST_STEPS = 10, 100  # per class: of the walk after each wave, and after the last one
FAIR = Fraction(1, 2)


class Respondents:
    """A client's records, each of which answers one question. Private: shows its size only, is never pickled.

    Guarantees:
      - a record answers one question and no second one; a call that asks a record twice is refused whole;
      - it says yes with probability e^epsilon / (e^epsilon + 1) if its cell is in the set, and 1 / (e^epsilon + 1) if
        not, exactly; if it abstains, by a fair coin. So any answer to any question is epsilon-DP for the record.
    """

    def __init__(self, votes: Votes, indicator: Indicator, noise: Noise) -> None:
        self._cells = votes.cells()[:, 0]
        self._shape = (votes.ballot.num_queries, votes.ballot.num_classes)
        self._indicator = indicator
        self._noise = noise
        self._answered = np.zeros(len(votes), dtype=np.bool_)

    @property
    def gap(self) -> float:
        """How much likelier a yes is when the cell is in the set: the same for all who answer at one epsilon."""
        return self._indicator.gap

    @property
    def private(self) -> bool:
        """False when the randomness came from a seed, in which case the answers protect nothing."""
        return self._noise.private

    def __len__(self) -> int:
        return len(self._cells)

    def __repr__(self) -> str:
        return f"Respondents({len(self):,} records)"

    def __reduce__(self) -> NoReturn:
        raise InvalidInput("respondents hold private votes and must not be pickled, logged or written to disk")

    def answer(self, rows: Ints, sets: Bools, which: Ints) -> Bools:
        """(m,) the answers of these records, safe for anybody to see: is your cell in the set?

        Args:
          rows: (m,) who is asked.
          sets: (q, s, C) the questions.
          which: (m,) the question that each of them is asked.
        """
        if sets.dtype != np.bool_ or sets.shape[1:] != self._shape:
            raise ProtocolFault(f"questions must be sets of cells (q, {self._shape}), got {sets.dtype} {sets.shape}")
        self._take_turns(rows)
        cells = self._cells[rows]
        coins = bernoulli(FAIR, len(rows), self._noise)  # for everybody, so that nobody's need for one shows
        inside = np.where(cells == NOBODY, coins, sets.reshape(len(sets), -1)[which, cells])
        return np.asarray(bernoulli(self._indicator.hit, len(rows), self._noise) == inside)

    def _take_turns(self, rows: Ints) -> None:
        if rows.size and not (rows.min() >= 0 and rows.max() < len(self)):
            raise ProtocolFault(f"rows must lie in [0, {len(self)}), got {rows.min()} to {rows.max()}")
        turns = np.bincount(rows, minlength=len(self)) + self._answered
        if (turns > 1).any():
            raise ProtocolFault(f"a record must be asked one question, record {turns.argmax()} was asked a second one")
        self._answered[rows] = True


@register
@dataclass(frozen=True, kw_only=True)
class Questions(Protocol[Respondents]):
    """One class per query, all different, from one noisy bit per record, asked in waves; s = C, k = r = 1.

    Guarantees:
      - every record answers exactly one question with one bit, whose law changes by a factor of at most e^epsilon if
        its vote is replaced by any other or by none, whatever the question is;
      - the whole transcript, all questions and all answers, is therefore epsilon-DP for every record: the questions of
        a wave are a function of earlier answers and of public randomness;
      - the release is a function of the transcript and of public randomness.

    Attributes:
      waves: How many times the next questions are made from the answers so far. Public, as is `questions`.
      questions: How many sets are asked about in a wave, the wave's records being dealt to them.
      sizes: How many pool samples each query has, by which questions are made and answers read; None takes queries
        to be equally large. Public.
    """

    name: ClassVar[str] = "questions"
    trust: ClassVar[Trust] = Trust.LOCAL
    one_query_per_class: ClassVar[bool] = True
    one_vote: ClassVar[bool] = True
    for_silos: ClassVar[bool] = False  # waves go back and forth
    ballot: Ballot
    epsilon: Fraction
    waves: int = 32
    questions: int = 8
    sizes: tuple[int, ...] | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "epsilon", exact(self.epsilon))
        positive(epsilon=self.epsilon)
        whole(waves=self.waves, questions=self.questions)
        if self.ballot.cells_per_record != 1:
            raise InvalidInput(f"questions are about one vote, so k·r must be 1, got {self.ballot.cells_per_record}")
        check_one_query_per_class(self.name, self.ballot, MOST_CLASSES)
        if self.sizes is not None and (len(self.sizes) != self.ballot.num_queries or min(self.sizes) < 0):
            raise InvalidInput(f"sizes must be {self.ballot.num_queries} counts >= 0, got {self.sizes}")

    @classmethod
    def serve(cls, terms: Terms) -> None:
        super().serve(terms)
        check_replace(terms)

    @classmethod
    def planned(cls, terms: Terms, ballot: Ballot, num_records: int) -> Questions:
        return cls(ballot=ballot, epsilon=terms.pure_epsilon())

    @classmethod
    def planned_for_silos(cls, terms: Terms, ballot: Ballot, silos: Silos) -> Questions:
        raise InvalidInput("mechanism must send one message per record: questions in waves have no wire form yet")

    def informed(self, sizes: Ints) -> Questions:
        return replace(self, sizes=tuple(sizes.tolist()))

    @cached_property
    def indicator(self) -> Indicator:
        kept = exp(self.epsilon)
        return Indicator(hit=kept / (kept + 1), miss=1 / (kept + 1))

    @property
    def event(self) -> Event:
        return Pure(self.epsilon)

    @property
    def guarantee(self) -> Guarantee:
        return Guarantee(epsilon=self.epsilon, neighbours=Neighbours.REPLACE, trust=Trust.LOCAL, unit=Unit.RECORD)

    @property
    def _query_shares(self) -> NDArray[np.float64]:
        """(s,) the share of records that each query is taken to have; Laplace's rule keeps it from being none."""
        counts = np.ones(self.ballot.num_queries) + (0 if self.sizes is None else np.array(self.sizes))
        return np.asarray(counts / counts.sum())

    def noise_std(self, num_records: int) -> float:
        """Of the votes in one set, had all records been asked about it: answers settle an assignment, not cells."""
        return math.sqrt(num_records * self.indicator.variance(voted=True))

    def client(self, votes: Votes, noise: Noise) -> Respondents:
        self.check_ballot(votes)
        return Respondents(votes, self.indicator, noise)

    def blank(self) -> Assigned:
        size = self.ballot.num_classes
        return Assigned(self.ballot, self.guarantee, np.arange(size), np.full((size, size), 1 / size), 1 / size)

    def release_of(self, counts: Ints, num_records: int, noise: Noise) -> Assigned:
        """Records that cast these counts are asked one by one: answers settle an assignment, which has no law."""
        queries, labels = np.divmod(np.repeat(np.arange(counts.size), counts.ravel()), self.ballot.num_classes)
        votes = Votes(self.ballot, queries[:, None].astype(np.int32), labels[:, None].astype(np.int32))
        return self.server([self.client(votes, noise)], noise)

    def server(self, messages: Iterable[Respondents], noise: Noise) -> Assigned:
        """The assignment; `noise` only seeds the public randomness, and a replayable one marks the release."""
        clients = list(messages)
        if not sum(map(len, clients)):
            raise ProtocolFault("a release must have at least one record to ask, got 0")
        if any(client.gap != self.indicator.gap for client in clients):
            raise ProtocolFault(f"all records must answer at epsilon {float(self.epsilon):g}, some do at another one")
        size = self.ballot.num_classes
        rng = seeded(int(noise.words(1)[0]), "questions")
        walk, answered = anywhere(size, rng), Answered.nothing(self.indicator.gap, self._query_shares)
        for wave, turn in enumerate(np.array_split(rng.permutation(sum(map(len, clients))), self.waves), start=1):
            worth = len(turn) / self.questions * (self.indicator.gap * walk.share) ** 2
            sets = next_sets(walk.assignments, answered.sizes, self.questions, worth, rng)
            which = np.arange(len(turn)) % self.questions
            said = _ask(clients, turn, sets, which)
            yes, asked = (np.bincount(which[some], minlength=self.questions) for some in (said, slice(None)))
            answered = answered.joined(sets, yes, asked)
            walk = walked(walk, answered, size * (STEPS if wave < self.waves else LAST_STEPS), rng)
        promise = replace(self.guarantee, private=noise.private and all(client.private for client in clients))
        return Assigned(self.ballot, promise, walk.best, walk.probabilities, walk.share + (1 - walk.share) / size)

    def exact_epsilon(self, pair: Pair, parties: int | None) -> Exact:
        hit, miss = float(self.indicator.hit), float(self.indicator.miss)
        other = miss if pair.after and pair.after.cells(self.ballot) else 0.5  # who abstains tosses a fair coin
        worst = max(abs(math.log(hit / other)), abs(math.log((1 - hit) / (1 - other))))
        return worst, "both answers, to a question that tells the two apart"

    def view_scores(self, side: Record | None, pair: Pair, trials: int, parties: int | None, noise: Noise) -> Doubles:
        """Every record is asked whether its cell is the first one's: its answers, all that it gives, are a view.

        A second question must be refused; where it is answered, both answers count.
        """
        clients = self.client(repeated(data_set(self.ballot, side), trials), noise)
        question, everyone = table(self.ballot, pair.before)[None] > 0, np.arange(trials)
        evidence = np.zeros(trials)
        for _ in range(2):
            try:
                evidence += clients.answer(everyone, question, np.zeros(trials, dtype=np.int64))
            except ProtocolFault:
                break
        return evidence[:, None]


def _ask(clients: list[Respondents], turn: Ints, sets: Bools, which: Ints) -> Bools:
    """(m,) the answers of records that are counted through all clients."""
    said: NDArray[np.bool_] = np.zeros(len(turn), dtype=np.bool_)
    first = 0
    for client in clients:
        theirs = (turn >= first) & (turn < first + len(client))
        said[theirs] = client.answer(turn[theirs] - first, sets, which[theirs])
        first += len(client)
    return said
