"""How many queries to ask: numbers of them are tried by simulation, as long as more of them pay."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Any

import numpy as np

from recordwise.arrays import Doubles, Ints
from recordwise.data.samples import Samples
from recordwise.errors import InvalidInput, whole
from recordwise.hashing import fingerprint
from recordwise.planner.outlook import Outlook, look
from recordwise.planner.predicting import Prediction, predict, visible
from recordwise.progress import Progress, part, step
from recordwise.protocols.terms import Terms
from recordwise.votes import Ballot

FACTORS = (1, 2, 4, 10, 20, 50)  # queries per class to begin with; then twice as many, as long as it pays
SMALLEST = 2  # pool samples that a query should own on average, at least
HOPELESS = 0.25  # votes per query, in deviations of their noise, below which more queries are not tried
WORSE, PATIENCE = 0.01, 2  # so much below the best, so many times in a row, ends the search
LEAST_TRIED = 5  # numbers of queries that are tried anyway, unless they get worse
GAIN = 0.005  # by which more queries must be better, to go on
AS_GOOD = 0.0075  # about as good as the best is whatever is so near
BETWEEN, NARROW = 4, 1.35  # sizes tried between the best and its neighbours, at most; a gap that is not worth one
MOST_BETWEEN = 1_000  # queries in all of these sizes together: where many are asked, a plan takes long
CLEAR = 4.25  # votes per query, in deviations of their noise, that are usual
FEWEST = 3  # per class at least, of what is usual
SHARE, MOST = 10, 1_000  # samples to a query, and queries, at most
NEARBY = 1.0  # how far, in logs of sizes, what was found at one of them says something about another
SEARCHED = (1, 3)  # tasks, from hard to easy, that are enough to compare numbers of queries where noise is low
LOW = 3.0  # so low is it: votes per query, in deviations of their noise, with ten queries per class

_RECOMMENDED: dict[Any, int] = {}  # by all that it depends on: a search parameter by parameter asks again and again


def search(
    outlook: Outlook,
    terms: Terms,
    *,
    num_queries: Sequence[int] | None = None,
    votes_per_record: int = 1,
    places: Sequence[int] | None = None,
    progress: Progress | None = None,
) -> Tried:
    """Numbers of queries from few to many, as long as more of them pay; then some between the best and its neighbours.

    Args:
      num_queries: Those to try; None finds them.
      places: Of the tasks in which each is tried.
    """
    usual = usual_queries(outlook, terms, votes_per_record)
    sizes = _candidates(outlook, terms, votes_per_record, usual) if num_queries is None else num_queries
    tried = Tried(outlook, terms, usual, {"votes_per_record": votes_per_record, "places": places})
    pieces = len(sizes) + (BETWEEN if num_queries is None else 0)
    with step(progress, "plan: numbers of queries"):
        for number, size in enumerate(sizes):
            try:
                with part(number, number + 1, pieces):
                    tried.add(size)
            except InvalidInput:  # a pool of copies: it has fewer different samples than queries
                if num_queries is not None or not tried.found:
                    raise
                break
            if num_queries is None and size >= usual and _past_the_best(tried.standing):
                break
        spent = 0
        for number in range(len(sizes), pieces):
            if (middle := tried.between()) is None or (spent := spent + middle) > MOST_BETWEEN:
                break
            with part(number, number + 1, pieces):
                tried.add(middle)
    return tried


class Tried:
    """Numbers of queries that were tried, in order, and where each stands.

    More queries are simulated on more samples, from which any student learns more. So where two sizes need different
    numbers of them, both are tried on the larger one. (What was simulated once is known.)

    Attributes:
      usual: The number of queries to take where others are about as good.
      found: A prediction for each size.
      standing: The student's accuracy at the first size that was tried, and for each further one what it adds to the
        nearest one on equally many samples.
    """

    def __init__(self, outlook: Outlook, terms: Terms, usual: int, how: dict[str, Any]) -> None:
        self.outlook, self.terms, self.usual, self.how = outlook, terms, usual, how
        self.found: list[Prediction] = []
        self.standing: list[float] = []

    def add(self, size: int) -> None:
        """Try one more."""
        one = predict(self.outlook, self.terms, num_queries=size, **self.how)
        stands = one.student_accuracy.mean
        if self.found:
            near = min(range(len(self.found)), key=lambda at: abs(np.log(self.found[at].num_queries / size)))
            both = size, self.found[near].num_queries
            here, there = (
                predict(self.outlook, self.terms, num_queries=n, room_for=max(both), **self.how) for n in both
            )
            stands = self.standing[near] + here.student_accuracy.mean - there.student_accuracy.mean
        place = sum(other.num_queries <= size for other in self.found)
        self.found.insert(place, one)
        self.standing.insert(place, stands)

    @property
    def as_good(self) -> Ints:
        """The places of the sizes that are about as good as the best; what stands nearby counts, too.

        A few simulated runs are noisy, and the truth changes slowly with the number of queries.
        """
        smooth = _smooth(np.log([one.num_queries for one in self.found]), np.array(self.standing))
        return np.flatnonzero(smooth >= smooth.max() - AS_GOOD)

    @property
    def best(self) -> int:
        """The place of the size to take: of those that are about as good, the nearest to what is usual.

        Plausible tasks do not tell these apart, and the real one may be finer than they are, or coarser.
        """
        some = self.as_good
        return int(min(some, key=lambda place: abs(np.log(self.found[place].num_queries / self.usual))))

    def between(self) -> int | None:
        """The size in the middle of the wider gap beside the best; None where none may be better."""
        sizes, best = [one.num_queries for one in self.found], self.best
        beside = range(max(0, best - 1), min(len(sizes), best + 2))
        gaps = [(sizes[after] / sizes[before], sizes[before], sizes[after]) for before, after in pairwise(beside)]
        if not gaps or max(gaps)[0] < NARROW or set(beside) <= set(self.as_good):
            return None
        _, before, after = max(gaps)
        middle = round(math.sqrt(before * after))
        return middle if before < middle < after else None


def usual_queries(outlook: Outlook, terms: Terms, votes_per_record: int = 1) -> int:
    """A rule of thumb: so many that the votes of a query stand out from their noise, but not too few or too small."""
    classes = outlook.known.num_classes
    if terms.one_query_per_class or outlook.num_samples <= classes:
        return min(classes, outlook.num_samples)
    some = max(votes_per_record, min(FACTORS[-1] * classes, outlook.num_samples))
    clear = some * visibility(some, outlook, terms, votes_per_record) / CLEAR  # noise hardly depends on the number
    most = max(FEWEST * classes, min(MOST, outlook.num_samples // SHARE))
    return int(max(votes_per_record, min(outlook.num_samples, np.clip(clear, FEWEST * classes, most))))


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
        _RECOMMENDED[key] = quickly_found(outlook, terms, votes_per_record=votes_per_record, progress=progress)
    return _RECOMMENDED[key]


def quickly_found(
    outlook: Outlook, terms: Terms, *, votes_per_record: int = 1, progress: Progress | None = None
) -> int:
    """The best number of queries, where no prediction is wanted.

    Where noise is low, numbers of queries are compared in two of the tasks: their order is clear there.
    """
    typical = max(votes_per_record, min(10 * outlook.known.num_classes, outlook.num_samples))
    places = SEARCHED if visibility(typical, outlook, terms, votes_per_record) > LOW else None
    tried = search(outlook, terms, votes_per_record=votes_per_record, places=places, progress=progress)
    return tried.found[tried.best].num_queries


def _candidates(outlook: Outlook, terms: Terms, votes: int, usual: int) -> list[int]:
    """From one query per class upwards, as long as queries own some samples and get votes that noise leaves visible.

    The usual number is always one of them.
    """
    classes = outlook.known.num_classes
    if terms.one_query_per_class or outlook.num_samples <= classes:
        return [min(classes, outlook.num_samples)]
    found: list[int] = []
    for size in _growing(classes):
        small = size > max(classes, min(outlook.num_samples // SMALLEST, outlook.num_records * votes))
        if found and (small or visibility(size, outlook, terms, votes) < HOPELESS):
            return sorted({*found, usual})
        if size >= votes:
            found.append(size)
    raise AssertionError("sizes grow without end")


def _growing(classes: int) -> Iterator[int]:
    yield from (classes * factor for factor in FACTORS)
    size = classes * FACTORS[-1]
    while True:
        size *= 2
        yield size


def visibility(size: int, outlook: Outlook, terms: Terms, votes: int) -> float:
    """Votes per query in deviations of their noise, for so many queries."""
    ballot = Ballot(
        num_queries=size,
        num_classes=outlook.known.num_classes,
        votes_per_record=votes,
        labels_per_record=outlook.labels_per_record,
    )
    return visible(terms.protocols(ballot, outlook.num_records)[0], outlook.num_records)


def _smooth(where: Doubles, stands: Doubles) -> Doubles:
    """What the parabola says at each place that fits best nearby: near its top such a curve is one.

    A mean of what is nearby would lower the top and hold up what lies beyond it.
    """
    found = []
    for here in where:
        apart = where - here
        weight = np.exp(-0.25 * (apart / NEARBY) ** 2)  # its square counts
        powers = np.vander(apart, 3, increasing=True)
        found.append(np.linalg.lstsq(weight[:, None] * powers, weight * stands, rcond=None)[0][0])
    return np.array(found)


def _past_the_best(right: Sequence[float]) -> bool:
    """Whether the last sizes were clearly worse, no better for long, or hardly better than the one before them."""
    last, before = max(right[-PATIENCE:]), right[:-PATIENCE]
    worse = len(before) > 0 and last < max(right) - WORSE
    hardly = len(right) > LEAST_TRIED and last < before[-1] + GAIN
    return worse or hardly or right.index(max(right)) < len(before) - 1
