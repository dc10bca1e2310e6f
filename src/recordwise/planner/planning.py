"""What a budget buys on this very pool, before any of it is spent: how many queries to ask, and what to expect."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np

from recordwise.data.samples import Samples
from recordwise.errors import InvalidInput, RecordwiseError, whole
from recordwise.hashing import fingerprint
from recordwise.planner.outlook import Outlook, look
from recordwise.planner.simulate import Outcome
from recordwise.privacy.guarantee import Trust
from recordwise.progress import Progress, part, step
from recordwise.protocols.protocol import Protocol
from recordwise.protocols.registry import names
from recordwise.protocols.terms import Terms
from recordwise.settings import AUTO
from recordwise.votes import Ballot

FACTORS = (1, 2, 4, 10, 20, 50)  # queries per class to begin with; then twice as many, as long as it pays
SMALLEST = 2  # pool samples that a query should own on average, at least
HOPELESS = 0.25  # votes per query, in deviations of their noise, below which more queries are not tried
WORSE, PATIENCE = 0.01, 2  # so much below the best, so many times in a row, ends the search
LEAST_TRIED = 5  # numbers of queries that are tried anyway, unless they get worse
MARGIN = 0.005  # by which more votes per record must be better, and more queries, to go on
SEARCHED = (1, 3)  # tasks, from hard to easy, that are enough to compare numbers of queries where noise is low
LOW = 2.0  # so low is it: votes per query, in deviations of their noise, with ten queries per class
SPREAD = 0.1  # of the tasks beyond either end of an interval: it holds the other four fifths
BEYOND = 0.02  # and so much wider at either end: then four fifths of what was measured lay inside (docs/concepts)

_RECOMMENDED: dict[Any, int] = {}  # by all that it depends on: a search parameter by parameter asks again and again


@dataclass(frozen=True)
class Expected:
    """A share between 0 and 1: the mean over plausible tasks, and an interval that holds four fifths of them."""

    mean: float
    low: float
    high: float

    @classmethod
    def of(cls, values: Sequence[float]) -> Expected:
        low, high = np.quantile(values, [SPREAD, 1 - SPREAD])
        ends = max(0.0, float(low) - BEYOND), min(1.0, float(high) + BEYOND)
        return cls(round(float(np.mean(values)), 4), round(ends[0], 4), round(ends[1], 4))

    def __str__(self) -> str:
        return f"{100 * self.mean:.1f} % ({100 * self.low:.0f}-{100 * self.high:.0f})"


@dataclass(frozen=True, kw_only=True)
class Prediction:
    """What to expect of one choice.

    Attributes:
      partitions: Of the pool, each into so many queries, at an equal share of the budget: rounds with focus 0.
      label_accuracy: Share of the pool that gets its right label.
      student_accuracy: Share of new samples that the student is right about, if they are like the pool.
      noise_std: Of a released count.
      votes_per_query: Votes that a query gets on average.
    """

    num_queries: int
    votes_per_record: int
    trust: str
    mechanism: str
    partitions: int = 1
    label_accuracy: Expected
    student_accuracy: Expected
    noise_std: float
    votes_per_query: float


@dataclass(frozen=True, kw_only=True)
class BudgetPlan:
    """Predictions for several choices, and the one to take.

    Attributes:
      considered: The numbers of queries and votes that were tried.
      compared: The recommended choice under other mechanisms and other trust, for the same budget.
      attainable: How often a student would be right that is taught true labels.
      commonest: The share of the commonest class: right so often is whoever knows nothing else.
      basis: What the prediction knows of the task.
      left_out: What the run's own student may have beyond the one that was simulated; empty where they are the same.
    """

    recommended: Prediction
    considered: tuple[Prediction, ...]
    compared: tuple[Prediction, ...]
    attainable: Expected
    commonest: float
    basis: str
    left_out: str = ""

    @classmethod
    def of(
        cls,
        outlook: Outlook,
        recommended: Prediction,
        considered: Sequence[Prediction],
        compared: Sequence[Prediction] = (),
    ) -> BudgetPlan:
        """Predictions, beside what the outlook itself says."""
        return cls(
            recommended=recommended,
            considered=tuple(considered),
            compared=tuple(compared),
            attainable=Expected.of(outlook.attainable),
            commonest=round(float(outlook.known.shares.max()), 4),
            basis=basis(outlook),
            left_out=outlook.left_out,
        )

    @property
    def gain(self) -> Expected:
        """The part of what can be learnt beyond the commonest class that this budget buys."""
        return self.gain_of(self.recommended)

    def gain_of(self, one: Prediction) -> Expected:
        room = max(self.attainable.mean - self.commonest, 1e-6)
        parts = [(value - self.commonest) / room for value in asdict(one.student_accuracy).values()]
        return Expected(*(round(min(1.0, max(0.0, part)), 4) for part in parts))

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)

    def as_text(self) -> str:
        lines = [
            f"Predicted from {self.basis}. In brackets: four plausible tasks of five.",
            f"With true labels a student would be right {self.attainable}; naming the commonest class "
            f"{100 * self.commonest:.1f} %.",
            *([self.left_out] if self.left_out else []),
            "",
            _line("", "queries", "votes each", "labels right", "student right", "noise (std)", "votes per query"),
            *(_row("->" if one == self.recommended else "", one) + _split(one) for one in self.considered),
        ]
        if self.compared:
            lines += ["", "The same budget under other mechanisms and other trust:"]
            lines += [f"{_row('', one)}  {one.trust}, {one.mechanism}" for one in self.compared]
        return "\n".join(line.rstrip() for line in lines)


def _line(mark: str, *cells: str) -> str:
    return f"{mark:<2} " + "  ".join(
        f"{cell:>{width}}" for cell, width in zip(cells, (7, 10, 15, 15, 11, 15), strict=True)
    )


def _row(mark: str, one: Prediction) -> str:
    return _line(
        mark,
        str(one.num_queries),
        str(one.votes_per_record),
        str(one.label_accuracy),
        str(one.student_accuracy),
        f"{one.noise_std:.1f}",
        f"{one.votes_per_query:.1f}",
    )


def _split(one: Prediction) -> str:
    """How to ask several partitions of the pool."""
    return "" if one.partitions == 1 else f"  {one.partitions} partitions: rounds = {one.partitions}, queries.focus = 0"


def predict(
    outlook: Outlook,
    terms: Terms,
    *,
    num_queries: int,
    votes_per_record: int = 1,
    places: Sequence[int] | None = None,
    room_for: int = 0,
) -> Prediction:
    """What to expect of one choice: the real pipeline, simulated in the outlook's tasks.

    Args:
      places: Of the tasks, from hard to easy; all when None.
      room_for: Simulate on as many samples as so many queries need.
    """
    ballot = Ballot(
        num_queries=num_queries,
        num_classes=outlook.known.num_classes,
        votes_per_record=votes_per_record,
        labels_per_record=outlook.labels_per_record,
    )
    if num_queries > outlook.num_samples:
        raise InvalidInput(f"num_queries must be <= the pool's {outlook.num_samples} samples, got {num_queries}")
    protocols = terms.protocols(ballot, outlook.num_records)
    return prediction(outlook, protocols, outlook.outcomes(protocols, places, room_for=room_for))


def prediction(outlook: Outlook, protocols: tuple[Protocol[Any], ...], outcomes: Sequence[Outcome]) -> Prediction:
    """What runs under these protocols came to, together."""
    protocol = protocols[0]
    ballot = protocol.ballot
    return Prediction(
        num_queries=ballot.num_queries,
        votes_per_record=ballot.votes_per_record,
        trust=str(protocol.trust),
        mechanism=protocol.name,
        label_accuracy=Expected.of([one.labels for one in outcomes]),
        student_accuracy=Expected.of([one.student for one in outcomes]),
        noise_std=protocol.noise_std(outlook.num_records),
        votes_per_query=outlook.num_records * ballot.votes_per_record / ballot.num_queries,
    )


def plan(
    outlook: Outlook,
    terms: Terms,
    *,
    num_queries: Sequence[int] | None = None,
    votes_per_record: Sequence[int] | None = None,
    compare: bool = True,
    progress: Progress | None = None,
) -> BudgetPlan:
    """Predictions, and the choice whose student is expected to be right most often.

    Args:
      num_queries: Numbers of queries to consider; None searches from one per class upwards as long as it pays.
      votes_per_record: Votes per record to consider; None is 1 and, for the best number of queries, 2.
      compare: Also predict two partitions of the pool, other mechanisms and other trust at the same budget.
    """
    for votes in votes_per_record or ():
        whole(votes_per_record=votes)
    first, *more = votes_per_record or ((1,) if terms.one_vote else (1, 2))
    considered, standing = search(outlook, terms, num_queries=num_queries, votes_per_record=first, progress=progress)
    recommended = considered[_best(standing)]
    size = recommended.num_queries
    with step(progress, "plan: votes per record"):
        for number, votes in enumerate(more):
            if votes <= size:
                with part(number, number + 1, len(more)):
                    considered.append(predict(outlook, terms, num_queries=size, votes_per_record=votes))
                if considered[-1].student_accuracy.mean > recommended.student_accuracy.mean + MARGIN:
                    recommended = considered[-1]
    compared = _compared(outlook, terms, recommended, progress) if compare else []
    if compare and terms.rounds == 1 and not terms.one_query_per_class:
        with step(progress, "plan: partitions"):
            considered.append(in_two(outlook, terms, recommended))
        if considered[-1].student_accuracy.mean > recommended.student_accuracy.mean + MARGIN:
            recommended = considered[-1]
    return BudgetPlan.of(outlook, recommended, considered, compared)


def in_two(outlook: Outlook, terms: Terms, chosen: Prediction) -> Prediction:
    """The same choice with two partitions of the pool, at half the budget each."""
    evenly = replace(outlook, queries=replace(outlook.queries, focus=0.0))
    ballot = chosen.num_queries, chosen.votes_per_record
    told = predict(evenly, replace(terms, rounds=2), num_queries=ballot[0], votes_per_record=ballot[1])
    return replace(told, partitions=2)


def search(
    outlook: Outlook,
    terms: Terms,
    *,
    num_queries: Sequence[int] | None = None,
    votes_per_record: int = 1,
    places: Sequence[int] | None = None,
    progress: Progress | None = None,
) -> tuple[list[Prediction], list[float]]:
    """Numbers of queries from few to many, as long as more of them pay, each tried in the tasks at these places.

    More queries are simulated on more samples, from which any student learns more. So where two sizes need different
    numbers of them, both are tried on the larger one. (What was simulated once is known.)

    Returns:
      A prediction for each size, and where it stands: the student's accuracy at the first size, and for each further
      one what it adds on equally many samples.
    """
    sizes = _candidates(outlook, terms, votes_per_record) if num_queries is None else num_queries
    found: list[Prediction] = []
    standing: list[float] = []
    tried: dict[str, Any] = {"votes_per_record": votes_per_record, "places": places}
    with step(progress, "plan: numbers of queries"):
        for number, size in enumerate(sizes):
            try:
                with part(number, number + 1, len(sizes)):
                    one = predict(outlook, terms, num_queries=size, **tried)
            except InvalidInput:  # a pool of copies: it has fewer different samples than queries
                if num_queries is not None or not found:
                    raise
                break
            here = before = one
            if found:
                both = size, found[-1].num_queries
                here, before = (predict(outlook, terms, num_queries=n, room_for=max(both), **tried) for n in both)
            added = here.student_accuracy.mean - before.student_accuracy.mean
            standing.append(standing[-1] + added if found else one.student_accuracy.mean)
            found.append(one)
            if num_queries is None and _past_the_best(standing):
                break
    return found, standing


def recommend_queries(
    terms: Terms,
    pool: Samples,
    *,
    num_records: int,
    num_classes: int,
    votes_per_record: int = 1,
    progress: Progress | None = None,
    **setup: Any,
) -> int:
    """How many queries to ask when nobody says.

    Where noise is low, numbers of queries are compared in two of the tasks: their order is clear there, and no
    prediction is shown.

    Args:
      pool: Public, as the schema reads it.
      num_records: How many records will vote, or a public guess.
      setup: What else `look` takes.
    """
    if terms.one_query_per_class:
        return num_classes
    whole(votes_per_record=votes_per_record)
    if num_classes < 2 or len(pool) <= num_classes:
        return min(num_classes, len(pool))
    key = (terms, num_records, num_classes, votes_per_record, fingerprint({"pool": pool, **setup}))
    if key not in _RECOMMENDED:
        outlook = look(pool, num_records=num_records, num_classes=num_classes, **setup)
        typical = max(votes_per_record, min(10 * num_classes, len(pool)))
        places = SEARCHED if _visible(typical, outlook, terms, votes_per_record) > LOW else None
        found, standing = search(outlook, terms, votes_per_record=votes_per_record, places=places, progress=progress)
        _RECOMMENDED[key] = found[_best(standing)].num_queries
    return _RECOMMENDED[key]


def _candidates(outlook: Outlook, terms: Terms, votes: int) -> list[int]:
    """From one query per class upwards, as long as queries own some samples and get votes that noise leaves visible."""
    classes = outlook.known.num_classes
    if terms.one_query_per_class or outlook.num_samples <= classes:
        return [min(classes, outlook.num_samples)]
    found: list[int] = []
    for size in _growing(classes):
        small = size > max(classes, min(outlook.num_samples // SMALLEST, outlook.num_records * votes))
        if found and (small or _visible(size, outlook, terms, votes) < HOPELESS):
            return found
        if size >= votes:
            found.append(size)
    raise AssertionError("sizes grow without end")


def _growing(classes: int) -> Iterator[int]:
    yield from (classes * factor for factor in FACTORS)
    size = classes * FACTORS[-1]
    while True:
        size *= 2
        yield size


def _visible(size: int, outlook: Outlook, terms: Terms, votes: int) -> float:
    """`visible`, for so many queries."""
    ballot = Ballot(
        num_queries=size,
        num_classes=outlook.known.num_classes,
        votes_per_record=votes,
        labels_per_record=outlook.labels_per_record,
    )
    return visible(terms.protocols(ballot, outlook.num_records)[0], outlook.num_records)


def visible(protocol: Protocol[Any], num_records: int) -> float:
    """Votes per query in deviations of their noise."""
    ballot, noise = protocol.ballot, protocol.noise_std(num_records)
    return num_records * ballot.votes_per_record / ballot.num_queries / noise if noise > 0 else np.inf


def _past_the_best(right: Sequence[float]) -> bool:
    """Whether the last sizes were clearly worse, no better for long, or hardly better than the one before them."""
    last, before = max(right[-PATIENCE:]), right[:-PATIENCE]
    worse = len(before) > 0 and last < max(right) - WORSE
    hardly = len(right) > LEAST_TRIED and last < before[-1] + MARGIN
    return worse or hardly or right.index(max(right)) < len(before) - 1


def _best(right: Sequence[float]) -> int:
    """The size with the best student; one counts half for itself and a quarter for each neighbour.

    A few simulated runs are noisy, and the truth changes slowly with the number of queries.
    """
    padded = np.concatenate([right[:1], right, right[-1:]])
    return int((padded[:-2] / 4 + padded[1:-1] / 2 + padded[2:] / 4).argmax())


def _compared(outlook: Outlook, terms: Terms, chosen: Prediction, progress: Progress | None) -> list[Prediction]:
    """The other mechanisms of the same trust, and what "auto" takes under each other trust that can keep the terms."""
    others = [_kept_by(terms, terms.trust, name) for name in names(terms.trust)]
    others += [_kept_by(terms, trust, AUTO) for trust in Trust if trust is not terms.trust]
    found: list[Prediction] = []
    with step(progress, "plan: mechanisms and trust"):
        for number, other in enumerate(others):
            if other is None:
                continue
            size = outlook.known.num_classes if other.one_query_per_class else chosen.num_queries
            votes = 1 if other.one_vote else chosen.votes_per_record
            try:
                with part(number, number + 1, len(others)):
                    one = predict(outlook, other, num_queries=size, votes_per_record=votes)
            except RecordwiseError:
                continue  # it cannot keep these terms on this ballot
            if (one.trust, one.mechanism) != (chosen.trust, chosen.mechanism) and one not in found:
                found.append(one)
    return found


def _kept_by(terms: Terms, trust: Trust, mechanism: str) -> Terms | None:
    """The same budget under another trust or mechanism; None where it cannot be kept so."""
    parties = max(2, terms.parties) if trust is Trust.DISTRIBUTED else terms.parties
    try:
        return replace(terms, trust=trust, mechanism=mechanism, parties=parties)
    except RecordwiseError:
        return None


def basis(outlook: Outlook) -> str:
    """What a prediction knows of the task, in words."""
    known = outlook.known
    parts = [f"the pool's geometry, {known.num_classes} classes and {outlook.num_records} records"]
    if known.class_shares is not None:
        parts.append("declared class shares")
    if known.labels is not None:
        parts.append(f"{len(known.labels)} labelled pool samples")
    if known.attainable is not None:
        parts.append(f"{100 * known.attainable:.1f} % attainable with true labels, as declared")
    if known.labels is None and known.attainable is None:
        parts.append("a wide guess of how hard the task is")
    return ", ".join(parts)
