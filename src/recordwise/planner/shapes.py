"""Where classes may lie in a pool: shapes, and how far they overlap.

Classes are groups of neighbouring clusters, or random cuts through the pool; with labelled samples, cuts where a
discriminant of these samples puts them, whatever is nearest to them, what spreads from them to neighbours of
neighbours, or the clusters that they lie in. Cuts may have settled where the pool is thin.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from sklearn.cluster import AgglomerativeClustering

from recordwise.arrays import Doubles, Ints, Singles, softmax
from recordwise.nearest import Metric, nearest_queries
from recordwise.nearest.kmeans import kmeans
from recordwise.randomness import seeded

RIDGE = 0.1  # of the discriminant of few samples, in units of the pool's mean variance
LEAST = 1e-9  # variance that is taken to be there: a pool may hold one sample many times
SHARP, STEPS = 8.0, 10  # of the search for an overlap, in logs of a temperature
BALANCED, SHARPLY, BALANCING = 15, 0.2, 3  # steps towards the class shares: first at one temperature, then at each
CLUSTERS_PER_CLASS = 4  # in groups of neighbouring ones
CLUMPS_PER_CLASS = (2, 4)  # each with the class of the labelled samples in it
NEIGHBOURS, SETTLING, SHARPENED = 10, 10, 1.5  # of the samples that a sample follows, how often, and how eagerly
SPREADING = 30  # steps from neighbour to neighbour, from the labelled samples on


@dataclass(frozen=True, eq=False)
class Seen:
    """Samples whose class is known.

    Attributes:
      placed: (h, dim) as they are clustered.
      vectors: (h, dim) as the student sees them.
      labels: (h,) their classes.
    """

    placed: Singles
    vectors: Singles
    labels: Ints


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


def guessed_shapes(view: View, num_classes: int, seed: int) -> list[Shape]:
    """The ways in which classes may lie where no sample's class is known."""
    directions = seeded(seed, "planner", "directions").normal(size=(view.student.shape[1], num_classes))
    cuts = view.student.astype(np.float64) @ directions
    return [Shape(_groups(view.pool, num_classes, seed)), Shape(view.settled(cuts))]


def seen_shapes(view: View, seen: Seen, num_classes: int, seed: int) -> list[Shape]:
    """The ways in which classes may lie around the labelled samples."""
    cuts = discriminant(view.student, seen.vectors, seen.labels, num_classes, view.student)
    return [
        Shape(cuts),
        Shape(view.settled(cuts)),
        Shape(_near(view.student, seen.vectors, seen.labels, num_classes), straight=False),
        Shape(view.spread(seen.vectors, seen.labels, num_classes), straight=False),
        *(Shape(_clumps(view.pool, cuts, seen, many * num_classes, seed), straight=False) for many in CLUMPS_PER_CLASS),
    ]


def discriminant(view: Singles, vectors: Singles, labels: Ints, num_classes: int, at: Singles) -> Doubles:
    """(n, C) logits at some samples: Gaussian classes around the labelled samples, with the pool's own covariance."""
    centre = view.mean(axis=0, dtype=np.float64)
    counts = np.bincount(labels, minlength=num_classes)
    means = np.zeros((num_classes, view.shape[1]))
    np.add.at(means, labels, vectors - centre)
    means /= (counts + 1.0)[:, None]  # as if each class had one more sample, in the middle of the pool
    slope = np.linalg.solve(scatter_of(view), means.T)
    shares = np.log((counts + 0.5) / (counts + 0.5).sum())
    return np.asarray((at - centre) @ slope - 0.5 * (means.T * slope).sum(axis=0) + shares)


def scatter_of(view: Singles) -> Doubles:
    """(dim, dim) the pool's covariance, with a ridge for the sake of few samples."""
    scatter = np.cov(view.T.astype(np.float64)).reshape(view.shape[1], view.shape[1])
    return np.asarray(scatter + max(RIDGE * np.trace(scatter) / len(scatter), LEAST) * np.eye(len(scatter)))


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
    """Classes that are groups of neighbouring clusters."""
    centres, _ = _clusters(pool, CLUSTERS_PER_CLASS * num_classes, seed)
    group = np.arange(len(centres))
    if len(centres) > num_classes:
        group = AgglomerativeClustering(n_clusters=num_classes).fit_predict(centres)
    return _by_cluster(pool, centres, group, num_classes)


def _clumps(pool: Singles, cuts: Doubles, seen: Seen, count: int, seed: int) -> Doubles:
    """Classes that are some clusters each, wherever these lie: those in which they are the commonest labelled class.

    Where no labelled sample lies, and among equals, the (M, C) logits of the discriminant decide.
    """
    centres, owner = _clusters(pool, count, seed)
    belief = np.zeros((len(centres), cuts.shape[1]))
    np.add.at(belief, owner, softmax(cuts))
    belief /= np.maximum(belief.sum(axis=1, keepdims=True), 1e-9)
    np.add.at(belief, (nearest_queries(seen.placed, centres, 1)[:, 0], seen.labels), 1.0)
    return _by_cluster(pool, centres, belief.argmax(axis=1), cuts.shape[1])


def _clusters(pool: Singles, count: int, seed: int) -> tuple[Singles, Ints]:
    """Centres, and the cluster of each sample: others than those that are asked, or these would be all too pure."""
    own = int(seeded(seed, "planner", "clusters").integers(1 << 31))
    return kmeans(pool, min(len(np.unique(pool, axis=0)), count), metric=Metric.EUCLIDEAN, seed=own)


def _by_cluster(pool: Singles, centres: Singles, classes: Ints, num_classes: int) -> Doubles:
    """(M, C) logits where each cluster has a class: the nearer a class's nearest cluster, the likelier it is."""
    wide = centres.astype(np.float64)
    near = 2 * pool @ wide.T - (wide**2).sum(axis=1)  # minus the squared distance, up to what all clusters share
    logits = np.full((len(pool), num_classes), near.min())  # a class without a cluster is far from everything
    for cluster, which in enumerate(classes):
        logits[:, which] = np.maximum(logits[:, which], near[:, cluster])
    return logits


class View:
    """The samples, as they are clustered and as the student sees them."""

    def __init__(self, pool: Singles, student: Singles) -> None:
        self.pool, self.student = pool, student
        self.centred = student - student.mean(axis=0, dtype=np.float64)
        self.scatter = self.centred.T @ self.centred / len(student)
        spread = max(float(np.trace(self.scatter)) / len(self.scatter), LEAST)
        self.ridge = 1e-3 * spread * np.eye(len(self.scatter))
        near = min(NEIGHBOURS, len(pool))
        self.near = nearest_queries(pool, pool, near).astype(np.int64)

    def settled(self, logits: Doubles) -> Doubles:
        """Classes whose borders have moved to where the pool is thin: each sample follows its neighbours."""
        probabilities = softmax(logits / (float(logits.std()) or 1.0))
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
    scaled = logits / (float(logits.std()) or 1.0)
    for _ in range(BALANCED):
        found = softmax(scaled / SHARPLY).mean(axis=0)
        scaled = scaled + SHARPLY * np.log(shares / np.maximum(found, 1e-4))
    return scaled
