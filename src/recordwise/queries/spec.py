"""Queries by name, by settings, or ready-made: what the first round asks."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from recordwise.errors import InvalidInput, shown
from recordwise.nearest import Metric, nearest_queries
from recordwise.queries.clusters import KMeansQueries
from recordwise.queries.queries import Queries
from recordwise.votes.connection import balanced_prices

KMEANS = "kmeans"
SETTINGS = {"real_samples": False, "balanced": False}


def check_queries(spec: Any) -> None:
    """Refuse what names no queries, before any work is done."""
    if isinstance(spec, Queries) or (not isinstance(spec, str | Mapping) and callable(getattr(spec, "ask", None))):
        return
    _settings(spec)


def first_queries(
    spec: Any, pool: NDArray[np.float32], *, num_queries: int, votes_per_record: int, metric: Metric, seed: int
) -> Queries:
    """The queries of the first round.

    Args:
      spec: "kmeans", or with settings {"name": "kmeans", "real_samples": true, "balanced": true}; ready `Queries`, such
        as clusters of the caller's own; or an object whose `ask(pool)` gives them. "balanced" prices the queries on the
        pool, so that none is picked by too many; a record still votes on its own.
    """
    if isinstance(spec, Queries) or not isinstance(spec, str | Mapping):
        found = spec if isinstance(spec, Queries) else spec.ask(pool)
        _check(found, pool, num_queries)
        return found
    settings = _settings(spec)
    found = KMeansQueries(
        num_queries=num_queries, seed=seed, metric=metric, real_samples=bool(settings["real_samples"])
    ).ask(pool)
    if not settings["balanced"]:
        return found
    prices = balanced_prices(pool, found.vectors, votes_per_record, metric=metric)
    # A pool sample belongs to the query that it would vote for first, at these prices.
    owner = nearest_queries(pool, found.vectors, 1, metric=metric, prices=prices)[:, 0].astype(np.int64)
    return replace(found, prices=prices, owner=owner)


def _settings(spec: Any) -> dict[str, Any]:
    given = {"name": spec} if isinstance(spec, str) else dict(spec) if isinstance(spec, Mapping) else {}
    if given.pop("name", None) != KMEANS:
        raise InvalidInput(
            f"queries must be {KMEANS!r}, settings of it, Queries or an object with ask(pool), got {shown(spec)}"
        )
    for name in given:
        if name not in SETTINGS:
            raise InvalidInput(f"queries {KMEANS!r} has no setting {name!r}, it has {', '.join(SETTINGS)}")
    return {**SETTINGS, **given}


def _check(found: Any, pool: NDArray[np.float32], num_queries: int) -> None:
    if not isinstance(found, Queries):
        raise InvalidInput(f"queries must be Queries, ask(pool) gave {type(found).__name__}")
    if len(found) != num_queries or len(found.owner) != len(pool) or found.vectors.shape[1] != pool.shape[1]:
        raise InvalidInput(
            f"queries must be {num_queries} of {pool.shape[1]} dimensions with an owner for each of {len(pool)} "
            f"samples, got {len(found)} of {found.vectors.shape[1]} with {len(found.owner)}"
        )
