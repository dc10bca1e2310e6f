"""Plausible tasks: how classes might lie in this very pool, from hard to easy.

Where classes lie is private. What is public: where the pool's samples lie, how many classes there are, perhaps their
shares, perhaps the classes of a few samples, or how well such a student does when it is taught the truth. A *task* is a
probability of each class for each sample that agrees with all of it. Several are drawn, and a plan holds for their
spread. A task has

- a *shape*: classes are groups of neighbouring clusters, or random cuts through the pool; with labelled samples, cuts
  where a discriminant of these samples puts them, whatever is nearest to them, or what spreads from them to neighbours
  of neighbours. Cuts may have settled where the pool is thin;
- a *level*: classes overlap just so much that a linear student that is taught the truth is right so often. It is
  declared (`attainable`), or such that samples drawn from the task predict each other as well as the labelled ones do,
  or, where nothing is known, a wide guess.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from sklearn.cluster import AgglomerativeClustering

from recordwise.arrays import Doubles, Ints, Singles, softmax
from recordwise.nearest import Metric, nearest_queries
from recordwise.nearest.kmeans import kmeans
from recordwise.randomness import seeded

# Of what lies between naming the commonest class and being always right: five equal chances, where nothing is known.
GUESS = (0.45, 0.75, 0.88, 0.95, 0.99)
LEVELS = len(GUESS)
# Levels, in the same units, that labelled samples are compared with.
GRID = (0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.68, 0.76, 0.82, 0.87, 0.91, 0.94, 0.96, 0.98, 0.99, 0.997)
DRAWS = 4  # times samples are drawn at each of them
FOLDS = 5
RIDGE = 0.1  # of the discriminant of few samples, in units of the pool's mean variance
SHARP, STEPS = 8.0, 10  # of the search for an overlap, in logs of a temperature
BALANCED, SHARPLY, BALANCING = 15, 0.2, 3  # steps towards the class shares: first at one temperature, then at each
OUT_OF_REACH = 0.01  # below the level that was asked for
CLUSTERS_PER_CLASS = 4
NEIGHBOURS, SETTLING, SHARPENED = 10, 10, 1.5  # of the samples that a sample follows, how often, and how eagerly
SPREADING = 30  # steps from neighbour to neighbour, from the labelled samples on


@dataclass(frozen=True, kw_only=True, eq=False)
class Known:
    """What is publicly known of the task.

    Attributes:
      num_classes: How many classes there are.
      class_shares: (C,) how common they are; None is about equally.
      attainable: How often a student is right that is taught the truth; None is not known.
      vectors: (h, dim) samples whose class is known, as the student sees them; None where there are none.
      labels: (h,) their classes.
    """

    num_classes: int
    class_shares: Doubles | None = None
    attainable: float | None = None
    vectors: Singles | None = None
    labels: Ints | None = None

    @property
    def shares(self) -> Doubles:
        """(C,) the class shares to plan with."""
        if self.class_shares is not None:
            return np.asarray(self.class_shares, dtype=np.float64)
        if self.labels is None:
            return np.full(self.num_classes, 1 / self.num_classes)
        counts = np.bincount(self.labels, minlength=self.num_classes) + 1.0
        return np.asarray(counts / counts.sum())


@dataclass(frozen=True, kw_only=True, eq=False)
class Task:
    """One way in which classes may lie.

    Attributes:
      probabilities: (M, C) of each class for each sample.
      attainable: How often a linear student is right that is taught all of them.
    """

    probabilities: Doubles
    attainable: float


@dataclass(frozen=True, eq=False)
class Shape:
    """Where classes lie.

    Attributes:
      logits: (M, C) of each class for each sample.
      straight: Where borders are too crooked for a linear student to be right as often as wished, it gets those that
        such a student would draw.
    """

    logits: Doubles
    straight: bool = True


@dataclass(frozen=True)
class Wish:
    """A task, whatever samples play the pool: which shape, at which level."""

    shape: int
    level: float


def plausible(pool: Singles, student_view: Singles, known: Known, seed: int) -> list[Wish]:
    """Equally likely tasks, from hard to easy.

    Args:
      pool: (M, dim) samples, as they are clustered.
      student_view: (M, dim) the same samples, as the student sees them.
    """
    base = float(known.shares.max())
    if known.vectors is None or known.labels is None:
        levels = [known.attainable or base + (1 - base) * part for part in GUESS]
        return [Wish(place % 2, level) for place, level in enumerate(levels)]
    view = _View(pool, student_view)
    rng = seeded(seed, "planner", "levels")
    seen = _predict_each_other(view.student, known.vectors, known.labels, known.num_classes, rng)
    grid = [known.attainable] if known.attainable else base + (1 - base) * np.array(GRID)
    wishes, fit = [], []
    for number, shape in enumerate(_shapes(view, known, seed)):
        for level in grid:
            task = view.at_level(shape, known.shares, float(level))
            beyond = task.attainable < level - OUT_OF_REACH  # as sharp as this shape gets
            if beyond and shape.straight:
                continue
            drawn = np.array([_drawn_from(task, view, known, rng) for _ in range(DRAWS)])
            mean = drawn.mean(axis=0)
            variance = (mean * (1 - mean) + 0.25 / len(known.labels)) / len(known.labels) + drawn.var(axis=0) / DRAWS
            fit.append(float((-0.5 * ((seen - mean) ** 2 / variance + np.log(variance))).sum()))
            wishes.append(Wish(number, task.attainable))
            if beyond:
                break
    weight = np.exp(np.array(fit) - max(fit))
    order = np.argsort([wish.level for wish in wishes], kind="stable")
    passed = np.cumsum(weight[order]) / weight.sum()
    return [wishes[order[np.searchsorted(passed, (place + 0.5) / LEVELS)]] for place in range(LEVELS)]


def tasks_like(wishes: Sequence[Wish], pool: Singles, student_view: Singles, known: Known, seed: int) -> list[Task]:
    """The tasks that are wished for, over these samples."""
    view = _View(pool, student_view)
    shapes = _shapes(view, known, seed)
    return [view.at_level(shapes[wish.shape], known.shares, wish.level) for wish in wishes]


def _drawn_from(task: Task, view: _View, known: Known, rng: np.random.Generator) -> Doubles:
    """How well as many samples of the task as are labelled in truth predict each other."""
    assert known.labels is not None
    some = rng.integers(len(view.student), size=len(known.labels))
    if len(known.labels) <= len(view.student):
        some = rng.permutation(len(view.student))[: len(known.labels)]
    labels = _draw(task.probabilities[some], rng)
    return _predict_each_other(view.student, view.student[some], labels, known.num_classes, rng)


def _draw(probabilities: Doubles, rng: np.random.Generator) -> Ints:
    passed = probabilities.cumsum(axis=1) < rng.random((len(probabilities), 1))
    return np.asarray(np.minimum(passed.sum(axis=1), probabilities.shape[1] - 1), dtype=np.int64)


def _predict_each_other(
    view: Singles, vectors: Singles, labels: Ints, num_classes: int, rng: np.random.Generator
) -> Doubles:
    """(2,) how often a discriminant of some of the samples, and the nearest of them, are right about the others."""
    fold = rng.permutation(len(labels)) % FOLDS
    right = 0
    for held in range(FOLDS):
        out = fold == held
        if out.all() or not out.any():
            continue
        logits = _discriminant(view, vectors[~out], labels[~out], num_classes, vectors[out])
        right += int((logits.argmax(axis=1) == labels[out]).sum())
    wide = vectors.astype(np.float64)
    distance = (wide**2).sum(axis=1) - 2 * wide @ wide.T
    np.fill_diagonal(distance, np.inf)
    alike = labels[distance.argmin(axis=1)] == labels
    return np.array([right / len(labels), alike.mean()])


def _discriminant(view: Singles, vectors: Singles, labels: Ints, num_classes: int, at: Singles) -> Doubles:
    """(n, C) logits at some samples: Gaussian classes around the labelled samples, with the pool's own covariance."""
    centre = view.mean(axis=0, dtype=np.float64)
    scatter = np.cov(view.T.astype(np.float64)).reshape(view.shape[1], view.shape[1])
    scatter += RIDGE * np.trace(scatter) / len(scatter) * np.eye(len(scatter))
    counts = np.bincount(labels, minlength=num_classes)
    means = np.zeros((num_classes, view.shape[1]))
    np.add.at(means, labels, vectors - centre)
    means /= (counts + 1.0)[:, None]  # as if each class had one more sample, in the middle of the pool
    slope = np.linalg.solve(scatter, means.T)
    shares = np.log((counts + 0.5) / (counts + 0.5).sum())
    return np.asarray((at - centre) @ slope - 0.5 * (means.T * slope).sum(axis=0) + shares)


def _shapes(view: _View, known: Known, seed: int) -> list[Shape]:
    """The ways in which classes may lie."""
    if known.vectors is not None and known.labels is not None:
        cuts = _discriminant(view.student, known.vectors, known.labels, known.num_classes, view.student)
        return [
            Shape(cuts),
            Shape(view.settled(cuts)),
            Shape(_near(view.student, known.vectors, known.labels, known.num_classes), straight=False),
            Shape(view.spread(known.vectors, known.labels, known.num_classes), straight=False),
        ]
    directions = seeded(seed, "planner", "directions").normal(size=(view.student.shape[1], known.num_classes))
    cuts = view.student.astype(np.float64) @ directions
    return [Shape(_groups(view.pool, known.num_classes, seed)), Shape(view.settled(cuts))]


def _near(view: Singles, vectors: Singles, labels: Ints, num_classes: int) -> Doubles:
    """Logits of the classes of the labelled samples nearby: as far as a labelled sample's nearest neighbour lies."""
    wide = vectors.astype(np.float64)
    apart = (wide**2).sum(axis=1)[:, None] + (wide**2).sum(axis=1) - 2 * wide @ wide.T
    np.fill_diagonal(apart, np.inf)
    reach = max(float(np.median(apart.min(axis=1))), np.finfo(float).tiny)
    distance = (wide**2).sum(axis=1) - 2 * view @ wide.T + (view.astype(np.float64) ** 2).sum(axis=1)[:, None]
    weight = softmax(-distance / reach)
    return np.asarray(np.log(weight @ np.eye(num_classes)[labels] + 1e-3))


def _groups(pool: Singles, num_classes: int, seed: int) -> Doubles:
    """Classes that are groups of neighbouring clusters: the nearer a class's nearest cluster, the likelier it is."""
    count = min(len(np.unique(pool, axis=0)), CLUSTERS_PER_CLASS * num_classes)
    centres, _ = kmeans(pool, count, metric=Metric.EUCLIDEAN, seed=seed)
    group = np.arange(count)
    if count > num_classes:
        group = AgglomerativeClustering(n_clusters=num_classes).fit_predict(centres)
    wide = centres.astype(np.float64)
    near = 2 * pool @ wide.T - (wide**2).sum(axis=1)  # minus the squared distance, up to what all clusters share
    groups = np.full((len(pool), num_classes), near.min())  # a class without a cluster is far from everything
    for cluster, which in enumerate(group):
        groups[:, which] = np.maximum(groups[:, which], near[:, cluster])
    return groups


class _View:
    """The samples, as they are clustered and as the student sees them."""

    def __init__(self, pool: Singles, student: Singles) -> None:
        self.pool, self.student = pool, student
        self.centred = student - student.mean(axis=0, dtype=np.float64)
        self.scatter = self.centred.T @ self.centred / len(student)
        spread = max(float(np.trace(self.scatter)) / len(self.scatter), 1e-9)  # a pool may hold one sample many times
        self.ridge = 1e-3 * spread * np.eye(len(self.scatter))
        near = min(NEIGHBOURS, len(pool))
        self.near = nearest_queries(pool, pool, near).astype(np.int64)

    def settled(self, logits: Doubles) -> Doubles:
        """Classes whose borders have moved to where the pool is thin: each sample follows its neighbours."""
        probabilities = softmax(logits / max(float(logits.std()), np.finfo(float).tiny))
        shares = probabilities.mean(axis=0)
        for _ in range(SETTLING):
            balance = shares / np.maximum(probabilities.mean(axis=0), 1e-9)
            probabilities = probabilities[self.near].mean(axis=1) ** SHARPENED * balance
            probabilities /= probabilities.sum(axis=1, keepdims=True)
        return np.asarray(np.log(probabilities[self.near].mean(axis=1) + 1e-6))

    def spread(self, vectors: Singles, labels: Ints, num_classes: int) -> Doubles:
        """Classes that spread from the labelled samples to neighbours, and on: borders as crooked as the pool."""
        places = nearest_queries(vectors, self.student, 1)[:, 0]
        known = np.zeros((len(self.pool), num_classes))
        np.add.at(known, (places, labels), 1.0)
        seen = known.any(axis=1)
        known[seen] /= known[seen].sum(axis=1, keepdims=True)
        probabilities = np.full_like(known, 1 / num_classes)
        for _ in range(SPREADING):
            probabilities = probabilities[self.near].mean(axis=1)
            probabilities[seen] = known[seen]
        return np.asarray(np.log(probabilities + 1e-3))

    def at_level(self, shape: Shape, shares: Doubles, level: float) -> Task:
        """The task whose classes overlap just so much that a student taught the truth is right at the wanted rate."""
        logits = _balanced(shape.logits, shares)
        sharpest = self._overlapping(logits, shares, -SHARP)
        if sharpest.attainable < level:
            if not shape.straight:
                return sharpest
            logits = _balanced(self._taught(sharpest.probabilities), shares)
        sharp, blurred = -SHARP, SHARP / 2  # log temperatures
        for _ in range(STEPS):
            middle = (sharp + blurred) / 2
            above = self._overlapping(logits, shares, middle).attainable > level
            sharp, blurred = (middle, blurred) if above else (sharp, middle)
        return self._overlapping(logits, shares, sharp)

    def _taught(self, probabilities: Doubles) -> Doubles:
        """(M, C) logits of a linear student that is taught all of them: a discriminant, which no class can mask."""
        counts = np.maximum(probabilities.sum(axis=0), 1e-9)
        means = (probabilities.T @ self.centred) / counts[:, None]
        shares = counts / counts.sum()
        slope = np.linalg.solve(self.scatter - (means.T * shares) @ means + self.ridge, means.T)
        return np.asarray(self.centred @ slope - 0.5 * (means.T * slope).sum(axis=0) + np.log(shares))

    def _overlapping(self, logits: Doubles, shares: Doubles, log_temperature: float) -> Task:
        scaled = logits / np.exp(log_temperature)
        probabilities = softmax(scaled)
        for _ in range(BALANCING):
            scaled = scaled + np.log(shares / np.maximum(probabilities.mean(axis=0), 1e-12))
            probabilities = softmax(scaled)
        chosen = self._taught(probabilities).argmax(axis=1)
        right = np.take_along_axis(probabilities, chosen[:, None], axis=1)
        return Task(probabilities=probabilities, attainable=float(right.mean()))


def _balanced(logits: Doubles, shares: Doubles) -> Doubles:
    """The same logits in units of their deviation, shifted until the classes have their shares."""
    scaled = logits / max(float(logits.std()), np.finfo(float).tiny)
    for _ in range(BALANCED):
        found = softmax(scaled / SHARPLY).mean(axis=0)
        scaled = scaled + SHARPLY * np.log(shares / np.maximum(found, 1e-4))
    return scaled
