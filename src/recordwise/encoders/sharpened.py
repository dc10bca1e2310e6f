"""An encoder of vectors in which the samples of a cluster lie close together: clusters then follow classes better.

Within a cluster, samples differ by what does not tell classes apart. The pool is clustered, the scatter within clusters
is scaled to one in every direction, and both are repeated, since better distances give better clusters. It is linear
discriminant analysis (Fisher 1936) with clusters in place of classes, after Ding and Li (ICML 2007).
"""

from __future__ import annotations

from typing import Self

import numpy as np
from numpy.typing import NDArray

from recordwise.arrays import Doubles
from recordwise.data.samples import Samples
from recordwise.encoders.exact import ExactLinear
from recordwise.encoders.vectors import REACH, Projection, flat
from recordwise.errors import InvalidInput, real, whole
from recordwise.nearest.kmeans import kmeans
from recordwise.nearest.poll import Metric

FEWEST = 20  # pool samples per cluster; a smaller pool gets fewer clusters


class Sharpened(Projection):
    """Vectors (or flattened images), scaled so that the pool's clusters scatter alike in all directions.

    Directions are ordered by how far the pool varies along them. Like `Pca` it is exact, and a sample that is not as
    many finite numbers is a row of NaN.

    Args:
      clusters: How many; several per class. At most one for every 20 samples of the pool.
      rounds: How often the pool is clustered.
      ridge: Added to the scatter in every direction, in units of its mean: a direction in which clusters hardly
        scatter at all is not trusted beyond it.
      seed: Of the clusters.
    """

    def __init__(self, clusters: int = 60, rounds: int = 3, ridge: float = 0.01, seed: int = 0) -> None:
        self.clusters = clusters
        self.rounds = rounds
        self.ridge = ridge
        self.seed = seed

    def fit(self, pool: Samples, y: object = None) -> Self:
        whole(clusters=self.clusters, rounds=self.rounds)
        real(ridge=self.ridge)
        if not self.ridge > 0:
            raise InvalidInput(f"ridge must be > 0, got {self.ridge!r}")
        vectors = flat("pool", pool)
        self.mean_ = vectors.mean(axis=0, dtype=np.float64)
        centred = vectors - self.mean_
        count = max(1, min(self.clusters, len(vectors) // FEWEST))
        near = vectors
        for _ in range(self.rounds):
            components = self._components(centred, near, count)
            near = np.asarray(centred @ components, dtype=np.float32)
        self.projection_ = ExactLinear.of(components, limit=REACH * float(np.abs(centred).max()))
        return self

    def _components(self, centred: Doubles, near: NDArray[np.float32], count: int) -> Doubles:
        """(dim, dim) the map under which the clusters of `near` scatter alike in all directions."""
        different = len(np.unique(near, axis=0))
        _, owner = kmeans(near, min(count, different), metric=Metric.EUCLIDEAN, seed=self.seed)
        size = np.maximum(np.bincount(owner), 1)
        sums = np.zeros((len(size), centred.shape[1]))
        np.add.at(sums, owner, centred)
        within = _scatter(centred - (sums / size[:, None])[owner])
        mean = np.trace(within) / len(within)
        if not mean > 0:  # every cluster is one point: nothing to scale
            return np.eye(len(within))
        variance, direction = np.linalg.eigh(within + self.ridge * mean * np.eye(len(within)))
        whitening = direction / np.sqrt(variance)
        _, turn = np.linalg.eigh(_scatter(centred @ whitening))
        return np.asarray(whitening @ turn[:, ::-1])


def _scatter(vectors: Doubles) -> Doubles:
    return np.asarray(vectors.T @ vectors / len(vectors))
