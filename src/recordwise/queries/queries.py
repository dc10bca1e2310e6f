"""What the private records are asked, and which pool sample each answer is for."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from recordwise.arrays import Ints, as_vectors
from recordwise.errors import InvalidInput
from recordwise.privacy.guarantee import members
from recordwise.votes.ballot import NOBODY
from recordwise.votes.poll import Metric


@dataclass(frozen=True, kw_only=True, eq=False)
class Queries:
    """s public points that records vote for. Public: published before any record is looked at.

    Attributes:
      vectors: (s, dim) the points.
      owner: (m,) the query each pool sample belongs to, NOBODY where there is none.
      samples: (s,) the pool samples that the queries are, or None when they are centres of clusters.
      metric: What "nearest" means.
    """

    vectors: NDArray[np.float32]
    owner: Ints
    samples: Ints | None = None
    metric: Metric = Metric.EUCLIDEAN

    def __post_init__(self) -> None:
        as_vectors("queries", self.vectors)
        members(self, metric=Metric)
        if self.owner.ndim != 1 or not ((self.owner >= NOBODY) & (self.owner < len(self))).all():
            raise InvalidInput(f"owner must name one of the {len(self)} queries, or {NOBODY}, for each pool sample")
        if self.samples is not None and (
            self.samples.shape != (len(self),) or not ((self.samples >= 0) & (self.samples < len(self.owner))).all()
        ):
            raise InvalidInput(f"samples must name one of the {len(self.owner)} pool samples for each query")

    def __len__(self) -> int:
        return len(self.vectors)

    @property
    def sizes(self) -> Ints:
        """(s,) how many pool samples belong to each query."""
        return np.bincount(self.owner[self.owner != NOBODY], minlength=len(self)).astype(np.int64)
