"""What a decoder may use besides the release: public facts about the queries, and nothing private."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from recordwise.arrays import Floats, Ints
from recordwise.errors import InvalidInput, some_records


@dataclass(frozen=True, kw_only=True, eq=False)
class Facts:
    """Public facts.

    Attributes:
      sizes: (s,) how many pool samples belong to each query.
      graph: (s, s) how often pool samples lie between two queries, from `query_graph`; None when unknown.
      num_records: How many records voted, where that is public (it is, when neighbours replace a record).
      class_shares: (C,) how common each class is, where that is public knowledge.
    """

    sizes: Ints | Floats
    graph: Floats | None = None
    num_records: int | None = None
    class_shares: Floats | None = None

    def __post_init__(self) -> None:
        sizes = np.asarray(self.sizes, dtype=np.float64)
        if sizes.ndim != 1 or not (np.isfinite(sizes).all() and (sizes >= 0).all() and sizes.sum() > 0):
            raise InvalidInput(
                f"sizes must be s counts >= 0, not all zero, got shape {sizes.shape} and a sum of {sizes.sum():g}"
            )
        if self.graph is not None:
            graph = np.asarray(self.graph, dtype=np.float64)
            if graph.shape != (len(sizes), len(sizes)):
                raise InvalidInput(f"graph must have shape ({len(sizes)}, {len(sizes)}), got {graph.shape}")
            if not (np.isfinite(graph).all() and (graph >= 0).all() and np.allclose(graph, graph.T)):
                raise InvalidInput("graph must be symmetric, finite and >= 0")
        if self.num_records is not None:
            some_records(num_records=self.num_records)
        if self.class_shares is not None:
            shares = np.asarray(self.class_shares, dtype=np.float64)
            if shares.ndim != 1 or not ((shares > 0).all() and abs(shares.sum() - 1) < 1e-6):
                raise InvalidInput(f"class_shares must be positive and sum to 1, got {self.class_shares!r}")

    @cached_property
    def query_shares(self) -> NDArray[np.float64]:
        """(s,) the part of the pool that belongs to each query: public, and about the records' own."""
        sizes = np.asarray(self.sizes, dtype=np.float64)
        return np.asarray(sizes / sizes.sum())

    @cached_property
    def affinity(self) -> NDArray[np.float64]:
        """(s, s) the graph over the square roots of its degrees; its largest eigenvalue is one (zero without edges)."""
        if self.graph is None:
            return np.zeros((len(self.sizes), len(self.sizes)))
        graph = np.asarray(self.graph, dtype=np.float64) * (1 - np.eye(len(self.sizes)))
        degree = graph.sum(axis=1)
        scale = np.divide(1.0, np.sqrt(degree), where=degree > 0, out=np.zeros(len(degree)))
        return np.asarray(scale[:, None] * graph * scale)
