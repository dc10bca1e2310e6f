"""The rule of `recordwise.nearest.poll` once more, in plain Python floats, record by record and query by query."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from recordwise.nearest import Metric
from recordwise.votes import NOBODY


def unit(vector: Sequence[float]) -> list[float]:
    total = 0.0
    for value in vector:
        total += value * value
    length = math.sqrt(total)
    return [float(np.float32(value / length)) for value in vector]


def distance(record: Sequence[float], query: Sequence[float]) -> float:
    total = 0.0
    for a, b in zip(record, query, strict=True):
        difference = a - b
        total += difference * difference
    return total


def nearest(
    vectors: NDArray[np.float32],
    queries: NDArray[np.float32],
    k: int,
    *,
    metric: Metric = Metric.EUCLIDEAN,
    max_distance: float | None = None,
    prices: Sequence[float] | None = None,
) -> NDArray[np.int32]:
    asked = [[float(value) for value in query] for query in queries]
    cost = [0.0] * len(asked) if prices is None else [float(price) for price in prices]
    limit = math.inf
    if max_distance is not None:
        limit = 2 * max_distance if metric is Metric.COSINE else max_distance * max_distance
    if metric is Metric.COSINE:
        asked = [unit(query) for query in asked]
    picks = np.full((len(vectors), k), NOBODY, dtype=np.int32)
    for row, vector in enumerate(vectors):
        record = [float(value) for value in vector]
        if metric is Metric.COSINE:
            if not any(record):
                continue
            record = unit(record)
        away = [distance(record, query) for query in asked]
        order = sorted(range(len(asked)), key=lambda query: (away[query] + cost[query], query))
        chosen = sorted(query for query in order[:k] if away[query] <= limit)
        picks[row, : len(chosen)] = chosen
    return picks
