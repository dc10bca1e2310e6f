"""Queries by name, by settings, or ready-made: what the first round asks."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import KW_ONLY, dataclass, replace
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from recordwise.errors import InvalidInput, real, shown
from recordwise.nearest import Metric, nearest_queries
from recordwise.plugins import brought
from recordwise.privacy.guarantee import one_of
from recordwise.queries.clusters import FOCUS, KMeansQueries
from recordwise.queries.queries import Queries
from recordwise.settings import Settings
from recordwise.votes.connection import balanced_prices

KMEANS = "kmeans"


@dataclass(frozen=True)
class QuerySettings(Settings):
    """Clusters of the pool, and which records vote for them.

    Attributes:
      name: "kmeans".
      metric: "euclidean" or "cosine".
      max_distance: A record farther than this from a query does not vote for it. Public.
      real_samples: Ask the pool sample nearest to each cluster's centre instead of the centre.
      balanced: Price the queries on the pool, so that none is picked by too many; a record still votes on its own.
      focus: Of later rounds: 0 asks other clusters of the pool, evenly, and 1 only where the student is unsure.
    """

    of: ClassVar[str] = "queries"
    name: str = KMEANS
    _: KW_ONLY
    metric: Metric = Metric.EUCLIDEAN
    max_distance: float | None = None
    real_samples: bool = False
    balanced: bool = False
    focus: float = FOCUS

    def __post_init__(self) -> None:
        if self.name != KMEANS:
            raise InvalidInput(
                f"queries must be {KMEANS!r}, settings of it, Queries or an object with ask(pool), got {self.name!r}"
            )
        object.__setattr__(self, "metric", one_of(Metric, **{"queries.metric": self.metric}))
        if self.max_distance is not None:
            real(**{"queries.max_distance": self.max_distance})
            if not self.max_distance >= 0:
                raise InvalidInput(f"queries.max_distance must be >= 0, got {self.max_distance!r}")
        real(**{"queries.focus": self.focus})
        if not 0 <= self.focus <= 1:
            raise InvalidInput(f"queries.focus must lie in [0, 1], got {self.focus!r}")

    def ask(self, pool: NDArray[np.float32], *, num_queries: int, votes_per_record: int, seed: int) -> Queries:
        """The queries of a pool."""
        found = KMeansQueries(
            num_queries=num_queries, seed=seed, metric=self.metric, real_samples=bool(self.real_samples)
        ).ask(pool)
        found = replace(found, max_distance=self.max_distance)
        if not self.balanced:
            return found
        prices = balanced_prices(pool, found.vectors, votes_per_record, metric=self.metric)
        # A pool sample belongs to the query that it would vote for first, at these prices.
        owner = nearest_queries(pool, found.vectors, 1, metric=self.metric, prices=prices)[:, 0].astype(np.int64)
        return replace(found, prices=prices, owner=owner)


def queries_from(spec: Any) -> Any:
    """What the first round asks: settings, ready `Queries` or an object with `ask(pool)`; anything else is refused."""
    if isinstance(spec, str | Mapping):
        settings = {"name": spec} if isinstance(spec, str) else dict(spec)
        name = settings.get("name", KMEANS)
        if name != KMEANS and (kind := brought("queries", name)) is not None:
            settings.pop("name")
            return kind(**settings)
        return QuerySettings.given(spec)
    if isinstance(spec, QuerySettings):
        return spec
    if isinstance(spec, type):
        raise InvalidInput(f"queries must be an object and not a class: {spec.__name__}() instead of {spec.__name__}")
    if isinstance(spec, Queries) or callable(getattr(spec, "ask", None)):
        return spec
    raise InvalidInput(
        f"queries must be {KMEANS!r}, settings of it, Queries or an object with ask(pool), got {shown(spec)}"
    )


def focus_of(spec: Any) -> float:
    """How far later rounds ask where the student is unsure, as `QuerySettings` says; others leave it to us."""
    return spec.focus if isinstance(spec, QuerySettings) else FOCUS


def first_queries(
    spec: Any, pool: NDArray[np.float32], *, num_queries: int, votes_per_record: int, seed: int
) -> Queries:
    """The queries of the first round.

    Args:
      spec: "kmeans", or with settings {"name": "kmeans", "metric": "cosine", "balanced": true} or `QuerySettings`;
        ready `Queries`, such as clusters of the caller's own; or an object whose `ask(pool)` gives them.
    """
    asked = queries_from(spec)
    if isinstance(asked, QuerySettings):
        return asked.ask(pool, num_queries=num_queries, votes_per_record=votes_per_record, seed=seed)
    found = asked if isinstance(asked, Queries) else asked.ask(pool)
    _check(found, pool, num_queries)
    return found


def _check(found: Any, pool: NDArray[np.float32], num_queries: int) -> None:
    if not isinstance(found, Queries):
        raise InvalidInput(f"queries must be Queries, ask(pool) gave {type(found).__name__}")
    if len(found) != num_queries or len(found.owner) != len(pool) or found.vectors.shape[1] != pool.shape[1]:
        raise InvalidInput(
            f"queries must be {num_queries} of {pool.shape[1]} dimensions with an owner for each of {len(pool)} "
            f"samples, got {len(found)} of {found.vectors.shape[1]} with {len(found.owner)}"
        )
    if not (found.owner >= 0).any():
        raise InvalidInput("queries must own at least one sample of the pool, they own none: nothing could be taught")
