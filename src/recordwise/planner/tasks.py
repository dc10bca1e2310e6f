"""Plausible tasks: how classes might lie in this very pool, from hard to easy.

Where classes lie is private. What is public: where the pool's samples lie, how many classes there are, perhaps their
shares, perhaps the classes of a few samples, or how well such a student does when it is taught the truth. A *task* is a
probability of each class for each sample that agrees with all of it. Several are drawn, and a plan holds for their
spread. A task has

- a *shape*: where classes lie (`recordwise.planner.shapes`);
- a *level*: classes overlap just so much that a linear student that is taught the truth is right so often. It is
  declared (`attainable`), or such that samples drawn from the task predict each other as well as the labelled ones do,
  or, where nothing is known, a wide guess.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from recordwise.arrays import Doubles, Ints, Singles
from recordwise.nearest import Metric
from recordwise.nearest.kmeans import kmeans
from recordwise.planner.shapes import Seen, Shape, Task, View, discriminant, guessed_shapes, scatter_of, seen_shapes
from recordwise.randomness import seeded

# Of what lies between naming the commonest class and being always right: five equal chances, where nothing is known.
GUESS = (0.45, 0.75, 0.88, 0.95, 0.99)
LEVELS = len(GUESS)
# Levels, in the same units, that labelled samples are compared with.
GRID = (0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.68, 0.76, 0.82, 0.87, 0.91, 0.94, 0.96, 0.98, 0.99, 0.997)
DRAWS = 4  # times samples are drawn at each of them
FINER = 4  # and so many times as many levels are told apart
FOLDS = 5
TOGETHER = 5  # labelled samples, on average, in a cluster in which they are compared
OUT_OF_REACH = 0.01  # below the level that was asked for
SHUFFLES, CHANCE = 199, 0.05  # of the labels; the share of them that may do as well before nothing was learnt
FEWEST_SEEN, FEWEST_EACH, MOST_SEEN = 20, 3, 500  # labelled samples that say something: in all, of a class; so many do


@dataclass(frozen=True, kw_only=True, eq=False)
class Known:
    """What is publicly known of the task.

    Attributes:
      num_classes: How many classes there are.
      class_shares: (C,) how common they are; None is about equally.
      attainable: How often a student is right that is taught the truth; None is not known.
      seen: Samples whose class is known; None where there are none.
    """

    num_classes: int
    class_shares: Doubles | None = None
    attainable: float | None = None
    seen: Seen | None = None

    @property
    def shares(self) -> Doubles:
        """(C,) the class shares to plan with."""
        if self.class_shares is not None:
            return np.asarray(self.class_shares, dtype=np.float64)
        if self.seen is None:
            return np.full(self.num_classes, 1 / self.num_classes)
        counts = np.bincount(self.seen.labels, minlength=self.num_classes) + 1.0
        return np.asarray(counts / counts.sum())


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
    if known.seen is None:
        base = float(known.shares.max())
        guessed = [known.attainable or base + (1 - base) * part for part in GUESS]
        return [Wish(place % 2, level) for place, level in enumerate(guessed)]
    view = View(pool, student_view)
    sample = _LabelledSample(view, known.seen, known.num_classes, seed)
    wishes, ease, fit = [], [], []
    for number, shape in enumerate(_shapes(view, known, seed)):
        tasks = _reachable(view, shape, known)
        levels = _between([task.attainable for task in tasks])
        wishes += [Wish(number, float(level)) for level in levels]
        ease.append(sample.ease(tasks, levels))
        fit.append(sample.fit(tasks, levels))
    likely = np.exp(np.concatenate(fit) - np.concatenate(fit).max())
    order = np.argsort(np.concatenate(ease), kind="stable")
    passed = np.cumsum(likely[order]) / likely.sum()
    return [wishes[order[np.searchsorted(passed, (place + 0.5) / LEVELS)]] for place in range(LEVELS)]


def tasks_like(wishes: Sequence[Wish], pool: Singles, student_view: Singles, known: Known, seed: int) -> list[Task]:
    """The tasks that are wished for, over these samples."""
    view = View(pool, student_view)
    shapes = _shapes(view, known, seed)
    return [view.at_level(shapes[wish.shape], known.shares, wish.level) for wish in wishes]


def _shapes(view: View, known: Known, seed: int) -> list[Shape]:
    if known.seen is None:
        return guessed_shapes(view, known.num_classes, seed)
    return seen_shapes(view, known.seen, known.num_classes, seed)


def _reachable(view: View, shape: Shape, known: Known) -> list[Task]:
    """Tasks of a shape, at levels as far as it gets."""
    base = float(known.shares.max())
    grid = [known.attainable] if known.attainable else base + (1 - base) * np.array(GRID)
    found: list[Task] = []
    for level in grid:
        task = view.at_level(shape, known.shares, float(level))
        beyond = task.attainable < level - OUT_OF_REACH  # as sharp as this shape gets
        if not found or not (beyond and shape.straight):
            found.append(task)
        if beyond:
            break
    return found


def _between(levels: Sequence[float]) -> Doubles:
    """These levels, and some between each two of them."""
    places = np.linspace(0, len(levels) - 1, FINER * (len(levels) - 1) + 1)
    return np.interp(places, np.arange(len(levels)), np.maximum.accumulate(levels))


class _LabelledSample:
    """The samples whose class is known, as evidence: how well they predict each other.

    Three ways to predict: a discriminant of the others, the nearest other, and the commonest class of the others in the
    same cluster.
    """

    def __init__(self, view: View, seen: Seen, num_classes: int, seed: int) -> None:
        self.view, self.num_classes, self.size = view, num_classes, len(seen.labels)
        # All are clustered together: a cluster fits those better that it was made of.
        placed = np.concatenate([view.pool, seen.placed])
        count = min(len(np.unique(placed, axis=0)), max(2, self.size // TOGETHER))
        _, owner = kmeans(placed, count, metric=Metric.EUCLIDEAN, seed=seed)
        self.owner, cluster = owner[: len(view.pool)], owner[len(view.pool) :]
        self.num_clusters = count
        self.rng = seeded(seed, "planner", "levels")
        self.right = self._predict_each_other(seen.vectors, cluster, seen.labels)

    def fit(self, tasks: Sequence[Task], levels: Doubles) -> Doubles:
        """How likely it is that as many samples predict each other as well as these do, at each level: its log.

        Args:
          tasks: Of one shape, from which samples are drawn; between them what is drawn changes evenly.
        """
        drawn = np.array([[self._drawn_from(task) for _ in range(DRAWS)] for task in tasks])
        mean = self._at(levels, tasks, drawn.mean(axis=1))
        unsure = self._at(levels, tasks, drawn.var(axis=1) / DRAWS)
        variance = (mean * (1 - mean) + 0.25 / self.size) / self.size + unsure
        return np.asarray((-0.5 * ((self.right - mean) ** 2 / variance + np.log(variance))).sum(axis=1))

    def ease(self, tasks: Sequence[Task], levels: Doubles) -> Doubles:
        """How easy a task is at each level: a student knows what a line tells, and what each cluster is."""
        found = np.array([[(task.attainable + self._purity(task)) / 2] for task in tasks])
        return self._at(levels, tasks, found)[:, 0]

    @staticmethod
    def _at(levels: Doubles, tasks: Sequence[Task], found: Doubles) -> Doubles:
        """(n, d) at each level what was (t, d) found of the tasks."""
        known = np.maximum.accumulate([task.attainable for task in tasks])
        return np.stack([np.interp(levels, known, column) for column in found.T], axis=1)

    def _purity(self, task: Task) -> float:
        """The share of samples that have the commonest class of their cluster."""
        table = np.zeros((self.num_clusters, self.num_classes))
        np.add.at(table, self.owner, task.probabilities)
        return float(table.max(axis=1).sum() / len(self.owner))

    def _drawn_from(self, task: Task) -> Doubles:
        """How well as many samples of the task predict each other."""
        some = self.rng.integers(len(self.owner), size=self.size)
        if self.size <= len(self.owner):
            some = self.rng.permutation(len(self.owner))[: self.size]
        labels = _draw(task.probabilities[some], self.rng)
        return self._predict_each_other(self.view.student[some], self.owner[some], labels)

    def _predict_each_other(self, vectors: Singles, cluster: Ints, labels: Ints) -> Doubles:
        """(3,) how often each way is right."""
        fold = self.rng.permutation(len(labels)) % FOLDS
        right = 0
        for held in range(FOLDS):
            out = fold == held
            if out.all() or not out.any():
                continue
            logits = discriminant(self.view.student, vectors[~out], labels[~out], self.num_classes, vectors[out])
            right += int((logits.argmax(axis=1) == labels[out]).sum())
        wide = vectors.astype(np.float64)
        distance = (wide**2).sum(axis=1) - 2 * wide @ wide.T
        np.fill_diagonal(distance, np.inf)
        alike = labels[distance.argmin(axis=1)] == labels
        return np.array([right / len(labels), alike.mean(), self._alike_in_clusters(cluster, labels)])

    def _alike_in_clusters(self, cluster: Ints, labels: Ints) -> float:
        """How often the commonest class of the others in a cluster is right; several that are equally common share."""
        table = np.zeros((self.num_clusters, self.num_classes))
        np.add.at(table, (cluster, labels), 1.0)
        others = table[cluster] - np.eye(self.num_classes)[labels]
        commonest = others == others.max(axis=1, keepdims=True)
        return float((commonest[np.arange(len(labels)), labels] / commonest.sum(axis=1)).mean())


def as_good_by_chance(view: Singles, seen: Seen, seed: int) -> float | None:
    """The share of shuffles of the labels after which the samples predict each other as well; None where few are known.

    Each sample is ranked by a discriminant of the others and by the classes of its neighbours, class against class, so
    that a rare class counts like a common one. Of both ways the one counts that is further from chance. The labels as
    they are count as one of the shuffles, so where labels are random a share below p comes up with probability p.

    Args:
      view: (M, dim) the pool, as the student sees it.
    """
    rng = seeded(seed, "planner", "chance")
    some = rng.permutation(len(seen.labels))[:MOST_SEEN]
    common = np.flatnonzero(np.bincount(seen.labels[some]) >= FEWEST_EACH)
    some = some[np.isin(seen.labels[some], common)]
    if len(some) < FEWEST_SEEN or len(common) < 2:
        return None
    labels = np.searchsorted(common, seen.labels[some])
    alike = _likenesses(view, seen.vectors[some])
    shuffled = [labels, *(rng.permutation(labels) for _ in range(SHUFFLES))]
    found = np.array([[_ranked(one, way, len(common)) for way in alike] for one in shuffled])
    far = ((found - found.mean(axis=0)) / np.maximum(found.std(axis=0), 1e-12)).max(axis=1)
    return float((far >= far[0]).mean())


def _likenesses(view: Singles, vectors: Singles) -> tuple[Doubles, Doubles]:
    """(n, n) two ways in which samples may be alike: along the pool's axes in units of its spread, and as neighbours.

    Nobody is like itself.
    """
    wide = (vectors - view.mean(axis=0)).astype(np.float64)
    lines = wide @ np.linalg.solve(scatter_of(view), wide.T)
    apart = (wide**2).sum(axis=1) - 2 * wide @ wide.T
    np.fill_diagonal(apart, np.inf)
    near = np.zeros_like(lines)
    np.put_along_axis(near, apart.argsort(axis=1)[:, : max(3, len(near) // 20)], 1.0, axis=1)
    np.fill_diagonal(lines, 0.0)
    return lines, near


def _ranked(labels: Ints, alike: Doubles, num_classes: int) -> float:
    """How high samples stand among all by their likeness to the others of their own class, on average over classes."""
    own = np.eye(num_classes)[labels]
    to_class = alike @ own / np.maximum(own.sum(axis=0) - own, 1.0)
    rank = (to_class - to_class.mean(axis=1, keepdims=True)).argsort(axis=0).argsort(axis=0)
    return float(((rank * own).sum(axis=0) / own.sum(axis=0)).mean() / len(labels))


def _draw(probabilities: Doubles, rng: np.random.Generator) -> Ints:
    passed = probabilities.cumsum(axis=1) < rng.random((len(probabilities), 1))
    return np.asarray(np.minimum(passed.sum(axis=1), probabilities.shape[1] - 1), dtype=np.int64)
