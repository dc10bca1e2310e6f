"""Priced connections: every query hears about equally many records, and a record still votes on its own.

Reverse k-NN can leave a query with few records or none. Balancing the loads over all private records together would
lose the sensitivity bound: records on a chain q1-r1-q2-r2-..., each near two queries, may all move when one of them is
replaced. So the balanced assignment is solved on the *public* pool and only its prices, one per query, are kept. They
are published with the queries, and each record takes the k queries of least distance + price.

The prices are the multipliers of the transport problem "pool samples choose k queries each, all queries get equal
loads". The dual is concave, with slope (load - equal share) in each price: whoever is asked for too often gets dearer.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from recordwise.arrays import as_vectors
from recordwise.errors import InvalidInput, whole
from recordwise.nearest.backend import Backend
from recordwise.nearest.poll import Metric, Poll
from recordwise.nearest.search import NUMPY, nearest_queries

PRIOR = 0.1  # of an equal share, added to every load, so that an empty query gets cheaper by a finite step
FIRST_STEP = 0.5  # in units of the distance between a sample's k-th and (k+1)-th nearest query
FASTER, SLOWER = 1.2, 0.5  # a price that keeps its direction takes larger steps, one that turns smaller ones


def balanced_prices(
    pool: object,
    queries: object,
    k: int,
    *,
    metric: Metric = Metric.EUCLIDEAN,
    rounds: int = 100,
    backend: Backend = NUMPY,
) -> NDArray[np.float64]:
    """Prices (s,), the least of them zero, under which the pool's votes are spread most evenly over the queries.

    Guarantees:
      - a function of public arguments alone, so the prices cost no privacy and are published;
      - votes cast with them obey the sensitivity of `cast_votes`: the prices are constants to a record.

    Args:
      pool: (n, dim) public vectors.
      rounds: Ascent steps, each of which lets the whole pool vote once; the best prices seen are returned.
    """
    whole(rounds=rounds)
    vectors = as_vectors("pool", pool)
    if not len(vectors):
        raise InvalidInput("pool must not be empty: the prices are solved on it")
    num_queries = Poll.open(queries, k, metric, None, None).num_queries
    prices = best = np.zeros(num_queries)
    if k == num_queries:  # everybody votes for every query whatever the prices
        return best
    share = len(vectors) * k / num_queries
    step = np.full(num_queries, FIRST_STEP * _typical_gap(vectors, queries, k, metric, backend))
    direction, least = np.zeros(num_queries), np.inf
    for _ in range(rounds):
        picks = nearest_queries(vectors, queries, k, metric=metric, prices=prices, backend=backend)
        load = np.bincount(picks[picks >= 0], minlength=num_queries) / share
        if load.std() < least:
            best, least = prices, float(load.std())
        slope = np.clip(np.log((load + PRIOR) / (1 + PRIOR)), -1, 1)
        turned = np.sign(slope) * direction
        step = step * np.where(turned > 0, FASTER, np.where(turned < 0, SLOWER, 1.0))
        direction = np.sign(slope)
        prices = prices + step * slope
    cheapest: float = best.min()
    return best - cheapest


def _typical_gap(vectors: NDArray[np.float32], queries: object, k: int, metric: Metric, backend: Backend) -> float:
    """The mean difference between a sample's distances to its k-th and its (k+1)-th nearest query."""
    poll = Poll.open(queries, k + 1, metric, None, None)
    picks = nearest_queries(vectors, queries, k + 1, metric=metric, backend=backend)
    rows, ranks = (picks >= 0).nonzero()
    distance = np.zeros(picks.shape)
    distance[rows, ranks] = poll.distances(vectors[rows], picks[rows, ranks].astype(np.intp))
    distance.sort(axis=1)
    return float(np.mean(distance[:, k] - distance[:, k - 1]))
