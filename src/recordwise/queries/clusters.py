"""Round 1 asks clusters of the whole pool; later rounds ask smaller ones where the student is least sure."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

import numpy as np
from numpy.typing import NDArray

from recordwise.arrays import NOBODY, Floats, Ints, as_vectors
from recordwise.errors import InvalidInput, whole
from recordwise.nearest.kmeans import kmeans
from recordwise.nearest.poll import Metric
from recordwise.nearest.search import nearest_queries
from recordwise.privacy.guarantee import members
from recordwise.queries.queries import Queries

FOCUS = 0.5  # of later rounds, where nobody says: half on the whole pool, half on where the student is unsure


@dataclass(frozen=True, kw_only=True)
class KMeansQueries:
    """Clusters of the pool, by k-means from merged samples.

    Guarantees:
      - a function of the pool and the seed alone;
      - every query owns at least one pool sample, and a pool sample belongs to the query it would vote for.

    Attributes:
      real_samples: Ask the sample nearest each centre, which can be shown to a person, instead of the centre.
    """

    num_queries: int
    seed: int
    metric: Metric = Metric.EUCLIDEAN
    real_samples: bool = False

    def __post_init__(self) -> None:
        whole(num_queries=self.num_queries)
        members(self, metric=Metric)

    def ask(self, pool: Floats) -> Queries:
        """The queries of a pool of vectors (m, dim)."""
        return _clusters(self, as_vectors("pool", pool), weights=None, asked=None)


class Uncertainty(StrEnum):
    """How unsure a student is, from its class probabilities; both lie between 0 (sure) and 1 (no idea)."""

    ENTROPY = "entropy"  # over the log of the number of classes
    MARGIN = "margin"  # one minus the gap between the two likeliest classes

    def of(self, probabilities: Floats) -> NDArray[np.float64]:
        """(m,) from (m, C) probabilities."""
        given = np.asarray(probabilities, dtype=np.float64)
        if given.ndim != 2 or not ((given >= 0) & (given <= 1 + 1e-6)).all():
            raise InvalidInput(f"probabilities must lie in [0, 1] with shape (m, C), got shape {given.shape}")
        if given.shape[1] < 2:
            return np.zeros(len(given))
        if self is Uncertainty.ENTROPY:
            information = -np.log(given, where=given > 0, out=np.zeros_like(given))
            unsure = (given * information).sum(axis=1) / np.log(given.shape[1])
        else:
            likeliest = np.partition(given, -2, axis=1)
            unsure = 1 - (likeliest[:, -1] - likeliest[:, -2])
        return np.asarray(np.clip(unsure, 0.0, 1.0))


@dataclass(frozen=True, kw_only=True)
class UncertainQueries:
    """Clusters of the pool that are smaller where the student is less sure.

    k-means in which a sample weighs 1 - focus plus focus times its uncertainty over the mean uncertainty. The whole
    pool stays covered on purpose: every record votes for its nearest queries, so queries in doubtful regions alone
    would collect the votes of all the records that lie elsewhere.

    Attributes:
      uncertainty: How unsure a student is of a sample.
      focus: 0 asks the pool evenly, 1 only where the student is unsure at all.
      real_samples: Ask the nearest sample that was not asked before instead of a centre.
    """

    num_queries: int
    seed: int
    metric: Metric = Metric.EUCLIDEAN
    uncertainty: Uncertainty = Uncertainty.ENTROPY
    focus: float = FOCUS
    real_samples: bool = False

    def __post_init__(self) -> None:
        whole(num_queries=self.num_queries)
        members(self, metric=Metric, uncertainty=Uncertainty)
        if not 0 <= self.focus <= 1:
            raise InvalidInput(f"focus must lie in [0, 1], got {self.focus!r}")

    def ask(self, pool: Floats, probabilities: Floats, asked: Ints | None = None) -> Queries:
        """The next queries of a pool of vectors (m, dim), from the student's probabilities (m, C) on it.

        Args:
          asked: Pool samples that were queries before; with `real_samples` they are not asked again.
        """
        vectors = as_vectors("pool", pool)
        unsure = self.uncertainty.of(probabilities)
        if len(unsure) != len(vectors):
            raise InvalidInput(f"probabilities must be as many as the {len(vectors)} pool samples, got {len(unsure)}")
        mean = float(unsure.mean())
        weights = (1 - self.focus) + self.focus * (unsure / mean if mean > 0 else np.ones_like(unsure))
        return _clusters(self, vectors, weights=weights, asked=asked)


def _clusters(
    wish: KMeansQueries | UncertainQueries,
    pool: NDArray[np.float32],
    *,
    weights: NDArray[np.float64] | None,
    asked: Ints | None,
) -> Queries:
    centres, owner = kmeans(pool, wish.num_queries, metric=wish.metric, seed=wish.seed, weights=weights)
    if not wish.real_samples:
        return Queries(vectors=centres, owner=owner, metric=wish.metric)
    samples = _representatives(pool, centres, owner, asked)
    nearest = nearest_queries(pool, pool[samples], 1, metric=wish.metric)[:, 0].astype(np.int64)
    return Queries(vectors=pool[samples], owner=nearest, samples=samples, metric=wish.metric)


def _representatives(pool: NDArray[np.float32], centres: NDArray[np.float32], owner: Ints, asked: Ints | None) -> Ints:
    """Of each cluster the sample nearest its centre; one that was asked before only if all its samples were."""
    members = np.flatnonzero(owner != NOBODY)
    offset = pool[members] - centres[owner[members]]
    distance = np.einsum("nd,nd->n", offset, offset)
    again = np.isin(members, [] if asked is None else asked)
    order = np.lexsort((members, distance, again, owner[members]))
    first = np.unique(owner[members][order], return_index=True)[1]
    return members[order][first]
