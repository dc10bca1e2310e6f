"""A run that never happened: the real pipeline on the real pool's geometry, with records of a plausible task.

Records are taken to be spread as the pool is. How many of each class vote at a query is drawn from the task, goes
through the protocol's own law of noise, and is decoded and taught by `recordwise.pipeline`. Nothing private is seen.
"""

from __future__ import annotations

import pickle
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from recordwise.arrays import NOBODY, Singles
from recordwise.design import Design
from recordwise.encoders.vectors import Scaler
from recordwise.hashing import fingerprint
from recordwise.labels import ABSTAIN, query_graph
from recordwise.nearest import Metric
from recordwise.nearest.poll import unit_rows
from recordwise.pipeline import Round, ask, label, teach
from recordwise.planner.shapes import Task
from recordwise.privacy.guarantee import members
from recordwise.privacy.noise import SeededNoise
from recordwise.progress import part
from recordwise.protocols.protocol import Protocol
from recordwise.queries import Queries
from recordwise.randomness import seeded
from recordwise.students import class_probabilities

DIM = 96  # directions that are kept of the vectors


@dataclass(frozen=True, eq=False)
class Projection:
    """Vectors in few dimensions that keep their distances: principal axes, turned so that none of them is special.

    Students scale each coordinate to unit variance. Principal axes would all become equally long by that; turned ones
    stay about as they are.
    """

    centre: NDArray[np.float64]
    axes: NDArray[np.float64]

    @classmethod
    def of(cls, vectors: Singles, seed: int) -> Projection:
        centre = vectors.mean(axis=0, dtype=np.float64)
        if vectors.shape[1] <= DIM:
            return cls(centre, np.eye(vectors.shape[1]))
        _, axes = np.linalg.eigh(np.cov((vectors - centre).T))
        turn, _ = np.linalg.qr(seeded(seed, "planner", "turn").normal(size=(DIM, DIM)))
        return cls(centre, axes[:, -DIM:] @ turn)

    def __call__(self, vectors: Singles) -> Singles:
        return np.asarray((vectors - self.centre) @ self.axes, dtype=np.float32)


@dataclass(frozen=True, kw_only=True, eq=False)
class Lens:
    """How a plan sees vectors: as they are clustered, and as the student sees them, both in few dimensions."""

    metric: Metric
    clustered: Projection
    scaler: Scaler
    taught: Projection

    def __post_init__(self) -> None:
        members(self, metric=Metric)

    @classmethod
    def of(cls, vectors: Singles, metric: Metric, seed: int) -> Lens:
        scaler = Scaler().fit(vectors)
        placed = unit_rows(vectors) if metric is Metric.COSINE else vectors
        return cls(
            metric=metric,
            clustered=Projection.of(placed, seed),
            scaler=scaler,
            taught=Projection.of(scaler.transform(vectors), seed),
        )

    def pool(self, vectors: Singles) -> Singles:
        return self.clustered(unit_rows(vectors) if self.metric is Metric.COSINE else vectors)

    def student(self, vectors: Singles) -> Singles:
        return self.taught(self.scaler.transform(vectors))


@dataclass(frozen=True, kw_only=True, eq=False)
class Sketch:
    """Some of the pool, in few dimensions.

    Attributes:
      pool: (M, d) as it is clustered.
      student_view: (M, d) as the student sees it.
      pool_size: How many samples the whole pool has.
    """

    pool: Singles
    student_view: Singles
    pool_size: int
    clusters: dict[tuple[int, int], tuple[Queries, NDArray[np.float64]]] = field(default_factory=dict)

    def asked(self, design: Design) -> tuple[Queries, NDArray[np.float64]]:
        """The first round's queries and their graph, found once for each number of them and of votes."""
        size = design.ballot.num_queries, design.ballot.votes_per_record  # prices of balanced ones depend on both
        if size not in self.clusters:
            queries = ask(self.pool, self.student_view, [], design)
            self.clusters[size] = queries, query_graph(self.pool, queries.vectors, metric=queries.metric)
        return self.clusters[size]


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """What a simulated run came to: how often the pool's labels and the student are right."""

    labels: float
    student: float


_SIMULATED: dict[str, Outcome] = {}  # by all that it depends on: a check, a run and a plan ask for the same ones


def simulate(sketch: Sketch, task: Task, design: Design, num_records: int, seed: int) -> Outcome:
    """One run; what was simulated once in this process is known."""
    about = (sketch.pool, sketch.student_view, sketch.pool_size, task.probabilities, design, num_records, seed)
    try:
        key = fingerprint(about)
    except (pickle.PicklingError, AttributeError, TypeError):  # a decoder of the user's own may have no pickle
        return _simulated(sketch, task, design, num_records, seed)
    if key not in _SIMULATED:
        _SIMULATED[key] = _simulated(sketch, task, design, num_records, seed)
    return _SIMULATED[key]


def _simulated(sketch: Sketch, task: Task, design: Design, num_records: int, seed: int) -> Outcome:
    rng = seeded(seed, "planner", "records")
    noise = SeededNoise(int(rng.integers(1 << 62)))
    rounds: list[Round] = []
    pieces = len(design.protocols) + 1
    for number, protocol in enumerate(design.protocols):
        with part(number, number + 1, pieces):
            queries, graph = sketch.asked(design)
            if rounds:
                queries = ask(sketch.pool, sketch.student_view, rounds, design)
                graph = query_graph(sketch.pool, queries.vectors, metric=queries.metric)
        counts = rng.poisson(_expected(sketch, task, queries, protocol, num_records, rng))
        released = protocol.informed(queries.sizes).release_of(counts, num_records, noise)
        # Records have one label each here, whatever the ballot allows.
        released = replace(released, ballot=replace(released.ballot, labels_per_record=1))
        rounds.append(Round(queries, graph, released, label(released, queries, graph, design)))
    with part(pieces - 1, pieces, pieces):
        taught = teach(rounds, sketch.pool, sketch.student_view, design)
    guessed = class_probabilities(taught.student, sketch.student_view, task.probabilities.shape[1]).argmax(axis=1)
    labelled = taught.labels != ABSTAIN
    return Outcome(
        labels=_right(task.probabilities[labelled], taught.labels[labelled]),
        student=_right(task.probabilities, guessed),
    )


def _right(probabilities: NDArray[np.float64], classes: NDArray[Any]) -> float:
    return float(np.take_along_axis(probabilities, classes[:, None], axis=1).mean()) if len(classes) else 0.0


def _expected(
    sketch: Sketch, task: Task, queries: Queries, protocol: Protocol[Any], num_records: int, rng: np.random.Generator
) -> NDArray[np.float64]:
    """(s, C) votes to expect.

    Records lie where the pool's samples lie, but not in the same numbers: they differ as one draw of the pool's size
    differs from another.
    """
    votes = protocol.ballot.votes_per_record
    picks = queries.owner[:, None] if votes == 1 else queries.nearest(sketch.pool, votes)
    mass = rng.gamma(max(1.0, sketch.pool_size / len(sketch.pool)), size=len(sketch.pool))
    mass *= num_records / mass.sum()
    cells = np.zeros((protocol.ballot.num_queries, protocol.ballot.num_classes))
    for pick in picks.T:
        voting = pick != NOBODY
        np.add.at(cells, pick[voting], mass[voting, None] * task.probabilities[voting])
    return cells
