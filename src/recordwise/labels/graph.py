"""The public geometry of the queries: which of them lie between the same pool samples."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from recordwise.arrays import Floats, as_vectors
from recordwise.errors import InvalidInput, whole
from recordwise.nearest.poll import Metric
from recordwise.nearest.search import nearest_queries

CHUNK = 4_096  # pool samples at a time
DISCOUNT = 0.5  # of each further neighbour: a sample says most about the queries that it lies between


def query_graph(
    pool: Floats, queries: Floats, *, nearest: int = 5, discount: float = DISCOUNT, metric: Metric = Metric.EUCLIDEAN
) -> NDArray[np.float64]:
    """How often pool samples have two queries among their `nearest`, the nearer ones counting more.

    A sample gives its i-th nearest query the weight discount^i, and every pair of its queries the product of their
    weights. With `discount` 1 this counts samples. Discounting follows the boundaries between classes much better when
    queries are few (docs/concepts/decoding.md).

    Returns:
      (s, s) symmetric, zero on the diagonal. Public.
    """
    from scipy.sparse import csr_array

    pool, queries = as_vectors("pool", pool), as_vectors("queries", queries)
    whole(nearest=nearest)
    if not 0 < discount <= 1:
        raise InvalidInput(f"discount must lie in (0, 1], got {discount!r}")
    near = min(nearest, len(queries))
    weights = discount ** np.arange(near)
    graph = np.zeros((len(queries), len(queries)))
    for start in range(0, len(pool), CHUNK):
        found = _from_near_to_far(pool[start : start + CHUNK], queries, near, metric)
        row, place = np.nonzero(found >= 0)  # a zero vector has no direction, so no neighbours under the cosine metric
        between = csr_array((weights[place], (row, found[row, place])), shape=(len(found), len(queries)))
        graph += (between.T @ between).toarray()
    np.fill_diagonal(graph, 0.0)
    return graph


def _from_near_to_far(
    pool: NDArray[np.float32], queries: NDArray[np.float32], near: int, metric: Metric
) -> NDArray[np.int64]:
    """(m, near) the nearest queries of each sample, the nearest first; -1 where there is none."""
    found = nearest_queries(pool, queries, near, metric=metric).astype(np.int64)
    points = queries[found].astype(np.float64)
    if metric is Metric.COSINE:
        points /= np.maximum(np.linalg.norm(points, axis=2, keepdims=True), np.finfo(float).tiny)
    distance = np.einsum("mnd,mnd->mn", points, points) - 2 * np.einsum("mnd,md->mn", points, pool.astype(np.float64))
    order = np.argsort(np.where(found >= 0, distance, np.inf), axis=1, kind="stable")
    return np.take_along_axis(found, order, axis=1)
