"""Everything that a plan may look at, all of it public: the pool, what is known of the task, how the run is set up."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import clone

from recordwise.arrays import Ints
from recordwise.data.samples import Samples, rows
from recordwise.data.schema import Schema
from recordwise.design import Design
from recordwise.encoders import encode_public, encoder_from, how_encoded
from recordwise.encoders.encoding import Manner
from recordwise.errors import InvalidInput, some_records, whole
from recordwise.labels import DecoderSettings
from recordwise.nearest import Metric
from recordwise.planner.shapes import Seen, Task
from recordwise.planner.simulate import Lens, Outcome, Sketch, simulate
from recordwise.planner.tasks import Known, Wish, as_good_by_chance, plausible, tasks_like
from recordwise.privacy.guarantee import members
from recordwise.progress import part
from recordwise.protocols.protocol import Protocol
from recordwise.queries import KMeansQueries, Queries, QuerySettings, queries_from
from recordwise.queries.spec import KMEANS
from recordwise.randomness import seeded
from recordwise.settings import AUTO
from recordwise.students import StudentSettings
from recordwise.students.choice import NETWORK_QUERIES, PER_CLASS
from recordwise.students.from_counts import HIDDEN
from recordwise.students.spec import COUNTS

SAMPLES = 1_500  # of the pool that play it; twice, four times as many where queries are many
PER_QUERY = 5  # samples at least, as far as the pool has so many
MOST_LABELLED = 1_500  # samples whose class is looked at: every two are compared, again and again
LOOKS = 4  # pieces of looking at a pool: fit the encoder, try it, encode some of the pool, encode labelled samples
# Who stands in a plan for students that take longer, and what the plan says about it.
AFFORDABLE: dict[str, Any] = {"name": COUNTS, "hidden": None, "teaches": None}
STANDS_IN = "The linear student from counts stands for the run's own."
NO_NETWORK = (
    "The small network that a student tries from {} queries on is not simulated: where it joins, a run is better than "
    "predicted."
)


@dataclass(frozen=True, kw_only=True, eq=False)
class Sight:
    """The pool, as a plan sees it: encoded as in a run, some of it at a time, in few dimensions."""

    pool: Samples
    encoder: Any
    manner: Manner
    lens: Lens
    seed: int

    def __post_init__(self) -> None:
        members(self, manner=Manner)

    @classmethod
    def of(cls, pool: Samples, encoder: Any, metric: Metric, seed: int) -> Sight:
        """The encoder is fitted on the pool here."""
        with part(0, 1, LOOKS):
            fitted = clone(encoder_from(encoder, pool, seed=seed), safe=False).fit(pool)
        with part(1, 2, LOOKS):
            manner = how_encoded(fitted, pool)
        with part(2, 3, LOOKS):
            lens = Lens.of(_encoded(pool, fitted, manner, SAMPLES, seed), metric, seed)
        return cls(pool=pool, encoder=fitted, manner=manner, lens=lens, seed=seed)

    def some(self, count: int) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
        """Some samples, as they are clustered and as the student sees them; more of them are the same and others."""
        vectors = _encoded(self.pool, self.encoder, self.manner, count, self.seed)
        return self.lens.pool(vectors), self.lens.student(vectors)

    def placed(self, samples: Samples) -> NDArray[np.float32]:
        """Samples of the pool as they are clustered."""
        return self.lens.pool(encode_public(self.encoder, samples, manner=self.manner))

    def seen(self, labels: ArrayLike | None, num_classes: int) -> Seen | None:
        """The samples whose class is known, or some of them where they are many."""
        places = _labelled(labels, len(self.pool), num_classes)
        if not len(places):
            return None
        if len(places) > MOST_LABELLED:
            places = seeded(self.seed, "planner", "labelled").choice(places, MOST_LABELLED, replace=False)
        with part(3, LOOKS, LOOKS):
            vectors = encode_public(self.encoder, rows(self.pool, places), manner=self.manner)
        return Seen(self.lens.pool(vectors), self.lens.student(vectors), np.asarray(labels)[places])


@dataclass(frozen=True, kw_only=True, eq=False)
class Outlook:
    """What runs on this pool may be like.

    Attributes:
      num_records: How many records will vote: public under replace-one neighbours, a public guess elsewhere.
      known: What is known of the task.
      student: Who is taught.
      left_out: What the run's own student may have beyond that, in a sentence; empty where it is the same.
      left_out_from: So many queries at least, in all rounds together, or it has not.
    """

    sight: Sight
    known: Known
    wishes: Sequence[Wish]
    num_records: int
    labels_per_record: int
    queries: QuerySettings
    decoder: DecoderSettings
    student: StudentSettings
    left_out: str
    left_out_from: int
    seed: int
    sketches: dict[int, tuple[Sketch, list[Task]]] = field(default_factory=dict)

    @property
    def num_samples(self) -> int:
        """Of the pool."""
        return len(self.sight.pool)

    def outcomes(
        self, protocols: tuple[Protocol[Any], ...], places: Sequence[int] | None = None, *, room_for: int = 0
    ) -> list[Outcome]:
        """What a run under these protocols comes to, in each of the tasks, or in those at some places.

        Args:
          room_for: Play the pool with as many samples as so many queries need, where these queries need fewer.
        """
        pieces = 1 + (len(self.wishes) if places is None else len(places))
        with part(0, 1, pieces):  # else the shares that it says are done would be those of all tasks
            sketch, tasks = self._sketch(max(room_for, protocols[0].ballot.num_queries))
        design = Design(
            protocols=protocols,
            schema=Schema(kind="vectors", shape=(sketch.pool.shape[1],)),
            encoder=None,
            queries=self.queries,
            decoder=self.decoder,
            student=self.student,
            num_records=self.num_records,
            seed=self.seed,
        )
        wanted = range(len(tasks)) if places is None else places
        found = []
        for number, place in enumerate(wanted, start=1):
            with part(number, number + 1, pieces):
                found.append(simulate(sketch, tasks[place], design, self.num_records, self.seed + place))
        return found

    def sample(self) -> NDArray[np.float32]:
        """Some of the pool's vectors, in few dimensions."""
        return self._sketch(1)[0].pool

    def asked(self, num_queries: int, votes_per_record: int = 1) -> Queries:
        """The queries of the first round, on some of the pool."""
        vectors = self._sketch(num_queries)[0].pool
        return self.queries.ask(vectors, num_queries=num_queries, votes_per_record=votes_per_record, seed=self.seed)

    def queries_with_one_sample(self, num_queries: int) -> int:
        """How many of so many clusters would hold a single pool sample."""
        vectors, _ = self.sight.some(self.num_samples)
        return int((KMeansQueries(num_queries=num_queries, seed=self.seed).ask(vectors).sizes == 1).sum())

    @property
    def attainable(self) -> list[float]:
        """How often a student is right that is taught the truth, in each task."""
        return [task.attainable for task in self._sketch(1)[1]]

    @cached_property
    def by_chance(self) -> float | None:
        """The share of shuffled labels that say as much as the labelled samples do; None where these say nothing."""
        seen = self.known.seen
        return None if seen is None else as_good_by_chance(self._sketch(1)[0].student_view, seen, self.seed)

    def samples_for(self, num_queries: int) -> int:
        """How many samples of the pool play it when so many queries are asked."""
        wanted = SAMPLES
        while wanted < min(self.num_samples, PER_QUERY * num_queries):
            wanted *= 2
        return min(wanted, self.num_samples)

    def _sketch(self, num_queries: int) -> tuple[Sketch, list[Task]]:
        count = self.samples_for(num_queries)
        if count not in self.sketches:
            pool, student_view = self.sight.some(count)
            tasks = tasks_like(self.wishes, pool, student_view, self.known, self.seed)
            self.sketches[count] = Sketch(pool=pool, student_view=student_view, pool_size=self.num_samples), tasks
        return self.sketches[count]


def look(
    pool: Samples,
    *,
    encoder: Any,
    num_classes: int,
    num_records: int,
    labels: ArrayLike | None = None,
    class_shares: ArrayLike | None = None,
    attainable: float | None = None,
    labels_per_record: int = 1,
    queries: Any = KMEANS,
    decoder: Any = AUTO,
    student: Any = COUNTS,
    seed: int = 0,
) -> Outlook:
    """Look at a public pool.

    Args:
      pool: As the schema reads it.
      encoder: As `encoders.encoder_from` takes it; fitted on the pool here.
      num_records: How many records will vote, or a public guess.
      labels: (m,) the class, as its place in the list of classes, of pool samples for which it is known; -1 elsewhere.
      class_shares: (C,) how common the classes are, where that is public.
      attainable: How often a student is right that is taught true labels, where somebody knows.
    """
    some_records(num_records=num_records)
    whole(num_classes=num_classes)
    if num_classes < 2:
        raise InvalidInput(f"num_classes must be >= 2 for a plan, with fewer no label can be wrong, got {num_classes}")
    given = queries_from(queries)
    asked = given if isinstance(given, QuerySettings) else QuerySettings()  # others may not ask a part of the pool
    stated = _stated(num_classes, class_shares, attainable)
    sight = Sight.of(pool, encoder, asked.metric, seed)
    known = replace(stated, seen=sight.seen(labels, num_classes))
    taught, left_out, left_out_from = _affordable(StudentSettings.given(student).model, num_classes)
    return Outlook(
        sight=sight,
        known=known,
        wishes=plausible(*sight.some(SAMPLES), known, seed),
        num_records=num_records,
        labels_per_record=labels_per_record,
        # A lens makes vectors to which the Euclidean metric belongs, and in which no distance is a record's own.
        queries=replace(asked, metric=Metric.EUCLIDEAN, max_distance=None),
        decoder=replace(DecoderSettings.given(decoder), min_confidence=0.0),
        student=StudentSettings(taught),
        left_out=left_out,
        left_out_from=left_out_from,
        seed=seed,
    )


def _affordable(student: Any, num_classes: int) -> tuple[Any, str, int]:
    """The linear student that a plan teaches instead; what that leaves out, and from how many queries on."""
    given = dict(student) if isinstance(student, Mapping) else {"name": student}
    if given.get("name") == "linear":
        return student, "", 0
    if given.get("name") != COUNTS:
        return AFFORDABLE, STANDS_IN, 0
    if given.get("teaches") is not None:
        return {**given, **AFFORDABLE}, STANDS_IN, 0
    if given.get("hidden", HIDDEN) is None:
        return {**given, **AFFORDABLE}, "", 0
    tried_from = max(NETWORK_QUERIES, PER_CLASS * num_classes)
    return {**given, **AFFORDABLE}, NO_NETWORK.format(tried_from), tried_from


def _stated(num_classes: int, class_shares: ArrayLike | None, attainable: float | None) -> Known:
    """What is known of the task without a look at the pool."""
    known = Known(num_classes=num_classes, class_shares=_shares(class_shares, num_classes), attainable=attainable)
    if attainable is not None and not float(known.shares.max()) < attainable <= 1:
        raise InvalidInput(f"attainable must lie in ({known.shares.max():.3g}, 1], got {attainable!r}")
    return known


def _encoded(pool: Samples, encoder: Any, manner: Manner, count: int, seed: int) -> NDArray[np.float32]:
    """The vectors of some of the pool's samples; more of them are the same and others."""
    order = seeded(seed, "planner", "samples").permutation(len(pool))[:count]
    vectors = encode_public(encoder, rows(pool, order), manner=manner)
    return np.asarray(vectors[vectors.any(axis=1)] if vectors.any() else vectors, dtype=np.float32)


def _shares(given: ArrayLike | None, num_classes: int) -> NDArray[np.float64] | None:
    if given is None:
        return None
    shares = np.asarray(given, dtype=np.float64)
    if shares.shape != (num_classes,) or not ((shares > 0).all() and abs(shares.sum() - 1) < 1e-3):
        raise InvalidInput(f"class_shares must be {num_classes} numbers > 0 that sum to 1, got {given!r}")
    return np.asarray(shares / shares.sum())


def _labelled(labels: ArrayLike | None, num_samples: int, num_classes: int) -> Ints:
    """The samples whose class is known."""
    if labels is None:
        return np.zeros(0, dtype=np.int64)
    given = np.asarray(labels)
    if given.shape != (num_samples,) or given.dtype.kind not in "iu" or not (given < num_classes).all():
        raise InvalidInput(f"labels must be classes < {num_classes}, or -1, of {num_samples} samples")
    return np.flatnonzero(given >= 0)
