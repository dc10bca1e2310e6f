"""What a record is asked: the public queries, and the exact rule by which it picks its k nearest ones.

The rule is arithmetic, operation by operation, so that a record's votes depend on the record and on public constants
alone: not on the batch it came in, on the number of threads, on a BLAS library or on a device. In IEEE 754 binary64,
each operation rounded to nearest, for a record x and a query q given in binary32:

    distance = ((x_1 - q_1)² + (x_2 - q_2)²) + ... + (x_d - q_d)²       from left to right, nothing fused
    cost     = distance + price of q                                    prices are zero unless given

A record picks the k queries of least cost, the lower index first where costs are equal. For the cosine metric, x and q
are first replaced by x_j / sqrt(x_1² + ... + x_d²), computed likewise and rounded to binary32; `distance` is then
twice the cosine distance, up to that rounding. Nothing here can overflow: a binary32 squared is far inside binary64.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

import numpy as np
from numpy.typing import NDArray

from recordwise.arrays import as_vectors
from recordwise.errors import InvalidInput, whole
from recordwise.privacy.guarantee import members, one_of
from recordwise.votes.ballot import NOBODY

PAIR_VALUES = 1 << 20  # coordinates of (record, query) pairs compared at a time: 8 MiB


class Metric(StrEnum):
    EUCLIDEAN = "euclidean"
    COSINE = "cosine"


def _sum_in_order(terms: NDArray[np.float64]) -> NDArray[np.float64]:
    """Row sums from left to right; a running sum, unlike np.sum, leaves no choice of order."""
    return np.add.accumulate(terms, axis=1)[:, -1]


def unit_rows(vectors: NDArray[np.float32]) -> NDArray[np.float32]:
    """Rows divided by their lengths, by the rule of this module; no row may be zero."""
    exact = vectors.astype(np.float64)
    length = np.sqrt(_sum_in_order(exact * exact))
    return (exact / length[:, None]).astype(np.float32)


@dataclass(frozen=True, eq=False, kw_only=True)
class Poll:
    """Queries ready to be compared with records: public.

    Attributes:
      queries: (s, dim); of length one when the metric is cosine.
      prices: (s,) added to the distances.
      limit: The largest `distance` at which a record still votes.
    """

    queries: NDArray[np.float32]
    prices: NDArray[np.float64]
    votes_per_record: int
    metric: Metric
    limit: float

    def __post_init__(self) -> None:
        members(self, metric=Metric)

    @classmethod
    def open(
        cls, queries: object, votes_per_record: int, metric: Metric, max_distance: float | None, prices: object | None
    ) -> Poll:
        """Check what is public, once."""
        asked = as_vectors("queries", queries)
        num_queries, dim = asked.shape
        whole(dim=dim, k=votes_per_record)
        if votes_per_record > num_queries:
            raise InvalidInput(f"k must be <= the {num_queries} queries, got {votes_per_record}")
        metric = one_of(Metric, metric=metric)
        if metric is Metric.COSINE:
            if not asked.any(axis=1).all():
                zero = int(np.flatnonzero(~asked.any(axis=1))[0])
                raise InvalidInput(f"queries must have a direction under the cosine metric, row {zero} is zero")
            asked = unit_rows(asked)
        cost = np.zeros(num_queries) if prices is None else np.asarray(prices, dtype=np.float64)
        if cost.shape != (num_queries,) or not np.isfinite(cost).all():
            raise InvalidInput(f"prices must be {num_queries} finite numbers, got shape {cost.shape}")
        if max_distance is None:
            limit = np.inf
        elif max_distance >= 0:
            limit = 2.0 * max_distance if metric is Metric.COSINE else float(max_distance) * float(max_distance)
        else:
            raise InvalidInput(f"max_distance must be >= 0, got {max_distance!r}")
        return cls(queries=asked, prices=cost, votes_per_record=votes_per_record, metric=metric, limit=limit)

    @property
    def num_queries(self) -> int:
        return len(self.queries)

    @property
    def dim(self) -> int:
        return int(self.queries.shape[1])

    def distances(self, vectors: NDArray[np.float32], asked: NDArray[np.intp]) -> NDArray[np.float64]:
        """The distance between each row of `vectors` and the query asked of it, by the rule of this module."""
        records = (unit_rows(vectors) if self.metric is Metric.COSINE else vectors).astype(np.float64)
        difference = records - self.queries[asked]
        return _sum_in_order(difference * difference)

    def pick(self, vectors: NDArray[np.float32], rows: NDArray[np.intp], asked: NDArray[np.intp]) -> NDArray[np.int32]:
        """Apply the rule to some records, each compared with some queries only.

        Args:
          vectors: (m, dim), none of them zero when the metric is cosine.
          rows: Ascending; together with `asked` the pairs to compare. Each record's k nearest must be among its pairs.

        Returns:
          (m, k) queries, NOBODY where the limit is exceeded; in no particular order.
        """
        step = max(1, PAIR_VALUES // self.dim)
        distance = np.empty(len(rows))
        for start in range(0, len(rows), step):
            pairs = slice(start, start + step)
            distance[pairs] = self.distances(vectors[rows[pairs]], asked[pairs])
        order = np.lexsort((asked, distance + self.prices[asked], rows))
        rows, asked, distance = rows[order], asked[order], distance[order]
        rank = np.arange(len(rows)) - np.searchsorted(rows, rows)
        votes = (rank < self.votes_per_record) & (distance <= self.limit)
        picks = np.full((len(vectors), self.votes_per_record), NOBODY, dtype=np.int32)
        picks[rows[votes], rank[votes]] = asked[votes]
        return picks
