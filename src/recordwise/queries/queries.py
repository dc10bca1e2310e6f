"""What the private records are asked, and which pool sample each answer is for."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from recordwise.arrays import NOBODY, Ints, as_vectors
from recordwise.errors import InvalidInput, real
from recordwise.nearest.backend import Backend
from recordwise.nearest.poll import Metric
from recordwise.nearest.search import NUMPY, nearest_queries
from recordwise.privacy.guarantee import members


@dataclass(frozen=True, kw_only=True, eq=False)
class Queries:
    """s public points that records vote for. Public: published before any record is looked at.

    Attributes:
      vectors: (s, dim) the points.
      owner: (m,) the query each pool sample belongs to, NOBODY where there is none.
      samples: (s,) the pool samples that the queries are, or None when they are centres of clusters.
      metric: What "nearest" means.
      max_distance: A record farther than this from a query does not vote for it; None for any distance.
      prices: (s,) added to squared distances, so that no query is picked by too many (`votes.balanced_prices`).
    """

    vectors: NDArray[np.float32]
    owner: Ints
    samples: Ints | None = None
    metric: Metric = Metric.EUCLIDEAN
    max_distance: float | None = None
    prices: NDArray[np.float64] | None = None

    def __post_init__(self) -> None:
        as_vectors("queries", self.vectors)
        members(self, metric=Metric)
        if self.owner.ndim != 1 or not ((self.owner >= NOBODY) & (self.owner < len(self))).all():
            raise InvalidInput(f"owner must name one of the {len(self)} queries, or {NOBODY}, for each pool sample")
        if self.samples is not None and (
            self.samples.shape != (len(self),) or not ((self.samples >= 0) & (self.samples < len(self.owner))).all()
        ):
            raise InvalidInput(f"samples must name one of the {len(self.owner)} pool samples for each query")
        if self.max_distance is not None:
            real(max_distance=self.max_distance)
            if not self.max_distance >= 0:
                raise InvalidInput(f"max_distance must be >= 0, got {self.max_distance!r}")
        if self.prices is not None and not (self.prices.shape == (len(self),) and np.isfinite(self.prices).all()):
            raise InvalidInput(f"prices must be {len(self)} finite numbers, got shape {self.prices.shape}")

    def __len__(self) -> int:
        return len(self.vectors)

    def nearest(self, vectors: object, votes_per_record: int, backend: Backend = NUMPY) -> NDArray[np.int32]:
        """(n, votes_per_record) the queries that each vector votes for; see `nearest_queries`."""
        return nearest_queries(
            vectors,
            self.vectors,
            votes_per_record,
            metric=self.metric,
            max_distance=self.max_distance,
            prices=self.prices,
            backend=backend,
        )

    @property
    def sizes(self) -> Ints:
        """(s,) how many pool samples belong to each query."""
        return np.bincount(self.owner[self.owner != NOBODY], minlength=len(self)).astype(np.int64)
