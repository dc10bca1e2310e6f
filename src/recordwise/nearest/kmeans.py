"""k-means by the same exact rule by which records vote, from starts that are nearly clusters already.

Samples are merged, always the two groups whose merging costs least (Ward 1963), until as many groups are left as
clusters are wanted; their means are where k-means starts. Starts that are drawn leave two centres in one cluster and
none in another, which k-means does not mend. Where there are too many clusters to merge samples into, starts are drawn
by k-means++ (Arthur and Vassilvitskii 2007).
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_matrix

from recordwise.arrays import NOBODY, Ints
from recordwise.errors import InvalidInput
from recordwise.nearest.poll import Metric, unit_rows
from recordwise.nearest.search import nearest_queries
from recordwise.progress import done, part
from recordwise.randomness import seeded

ITERATIONS = 50
SETTLED = 1e-3  # stop when fewer than this share of the samples changes cluster
STARTED = 0.3  # of the work, about: starting points are found
MERGED, SHARE = 3_000, 0.9  # samples, at most, and of all, that are merged to find where to start: seeds differ in them
FEWEST = 2  # of them per cluster, below which merging tells too little
START_FROM = 20  # where starting points are drawn: among so many samples per cluster


def kmeans(
    vectors: NDArray[np.float32],
    clusters: int,
    *,
    metric: Metric,
    seed: int,
    weights: NDArray[np.float64] | None = None,
) -> tuple[NDArray[np.float32], Ints]:
    """Centres (clusters, dim), none of them empty, and the nearest centre of each vector, (m,).

    Guarantees:
      - a vector's centre is the query that `nearest_queries` picks for it;
      - the same vectors, seed and weights give the same centres, for any number of threads;
      - a zero vector, which has no direction, belongs to NOBODY under the cosine metric.

    Args:
      weights: (m,) how much each vector counts, at least zero; one each when None.
    """
    usable = np.flatnonzero(vectors.any(axis=1)) if metric is Metric.COSINE else np.arange(len(vectors))
    points = unit_rows(vectors[usable]) if metric is Metric.COSINE else vectors[usable]
    mass = np.ones(len(points)) if weights is None else np.asarray(weights, dtype=np.float64)[usable]
    if clusters > len(points):
        raise InvalidInput(f"num_queries must be <= the pool's {len(points)} samples, got {clusters}")
    with part(0.0, STARTED):
        centres = _start(points, mass, clusters, metric, seed)
    owner = _settle(points, mass, centres, metric)
    with part(STARTED, 1.0):
        for iteration in range(1, ITERATIONS + 1):
            centres = _means(points, mass, owner, centres, metric)
            before, owner = owner, _settle(points, mass, centres, metric)
            changing = np.count_nonzero(owner != before) / len(points)
            if changing <= SETTLED:
                break
            # About the same share of the samples that still change stops changing each time.
            done(max(iteration / ITERATIONS, math.log(changing) / math.log(SETTLED)))
    everyone = np.full(len(vectors), NOBODY, dtype=np.int64)
    everyone[usable] = owner
    return centres, everyone


def _start(
    points: NDArray[np.float32], mass: NDArray[np.float64], clusters: int, metric: Metric, seed: int
) -> NDArray[np.float32]:
    """Starting centres: means of merged samples; or some that are drawn, where merging finds fewer."""
    rng = seeded(seed, "kmeans")
    if FEWEST * clusters <= min(MERGED, SHARE * len(points)):
        merged = _merged(points, mass, clusters, metric, rng)
        if len(merged) == clusters:
            return merged
    few = START_FROM * clusters
    if few < len(points):
        drawn = np.sort(rng.choice(len(points), few, replace=False))
        try:
            return _spread(points[drawn], mass[drawn], clusters, rng)
        except InvalidInput:  # too few different samples among those drawn: look at all of them
            pass
    return _spread(points, mass, clusters, rng)


def _merged(
    points: NDArray[np.float32], mass: NDArray[np.float64], clusters: int, metric: Metric, rng: np.random.Generator
) -> NDArray[np.float32]:
    """Means of samples merged by Ward's rule, at most `clusters` of them: samples that are the same stay together."""
    from scipy.cluster.hierarchy import fcluster, linkage
    from scipy.spatial.distance import pdist

    count, evenly = min(MERGED, int(SHARE * len(points))), bool((mass == mass[0]).all())
    drawn = np.sort(rng.choice(len(points), count, replace=not evenly, p=None if evenly else mass / mass.sum()))
    some = points[drawn]
    owner = fcluster(linkage(pdist(some.astype(np.float64)), "ward"), clusters, "maxclust") - 1
    _, first = np.unique(owner, return_index=True)
    return _means(some, np.ones(count), owner.astype(np.int32), some[first], metric)


def _spread(
    points: NDArray[np.float32], mass: NDArray[np.float64], clusters: int, rng: np.random.Generator
) -> NDArray[np.float32]:
    distance = np.full(len(points), 1.0)
    chosen: list[int] = []
    while len(chosen) < clusters:
        chance = np.cumsum(mass * distance) if len(chosen) else np.cumsum(mass)
        if not chance[-1] > 0:
            raise InvalidInput(f"num_queries must be <= the pool's {len(chosen)} different samples, got {clusters}")
        pick = int(np.searchsorted(chance, rng.random() * chance[-1], side="right"))
        chosen.append(min(pick, len(points) - 1))
        offset = points - points[chosen[-1]]
        new = np.einsum("nd,nd->n", offset, offset).astype(np.float64)  # not BLAS: the same for any number of threads
        distance = new if len(chosen) == 1 else np.minimum(distance, new)
        done(len(chosen), clusters)
    return points[chosen]


def _settle(
    points: NDArray[np.float32], mass: NDArray[np.float64], centres: NDArray[np.float32], metric: Metric
) -> NDArray[np.int32]:
    """The nearest centre of each point. A centre that nobody is nearest to moves to a point far from its own.

    Such a move brings that point's distance to zero and costs nothing, so this ends.
    """
    while True:
        owner = nearest_queries(points, centres, 1, metric=metric)[:, 0]
        empty = np.flatnonzero(np.bincount(owner, minlength=len(centres)) == 0)
        if not len(empty):
            return owner
        offset = points - centres[owner]
        distance = np.einsum("nd,nd->n", offset, offset) * (mass > 0)
        farthest = np.argsort(-distance, kind="stable")[: len(empty)]
        centres[empty] = np.where(distance[farthest, None] > 0, points[farthest], centres[empty])
        if not distance[farthest[0]] > 0:
            return owner  # as many centres as there are different points, up to rounding


def _means(
    points: NDArray[np.float32],
    mass: NDArray[np.float64],
    owner: NDArray[np.int32],
    centres: NDArray[np.float32],
    metric: Metric,
) -> NDArray[np.float32]:
    """Weighted means of the clusters, or their directions; a cluster that has none keeps its centre."""
    members = csr_matrix((mass, (owner, np.arange(len(points)))), shape=(len(centres), len(points)))
    total = np.bincount(owner, weights=mass, minlength=len(centres))
    means = (members @ points.astype(np.float64) / np.where(total > 0, total, 1)[:, None]).astype(np.float32)
    if metric is Metric.EUCLIDEAN:
        return np.where(total[:, None] > 0, means, centres)
    directed = means.any(axis=1)
    moved = centres.copy()
    moved[directed] = unit_rows(means[directed])
    return moved
