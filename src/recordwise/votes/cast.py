"""Step 4: every record votes for (query, class) cells."""

from __future__ import annotations

from collections.abc import Sized

import numpy as np

from recordwise.errors import InvalidInput
from recordwise.nearest.backend import Backend
from recordwise.nearest.poll import Metric
from recordwise.nearest.search import NUMPY, nearest_queries
from recordwise.votes.ballot import Ballot, Votes
from recordwise.votes.classes import as_classes


def cast_votes(
    vectors: object,
    labels: object,
    queries: object,
    ballot: Ballot,
    *,
    metric: Metric = Metric.EUCLIDEAN,
    max_distance: float | None = None,
    prices: object | None = None,
    truncate_labels: bool = False,
    backend: Backend = NUMPY,
) -> Votes:
    """Each record's vote: its k nearest queries and its classes.

    Guarantees:
      - a record's row depends on that record and on public arguments alone;
      - add or remove one record: the tally changes by at most k·r in L1, each cell by at most one;
      - replace one record: by at most 2·k·r;
      - no record is refused for what it holds: one whose vector is not finite in float32, whose label is no class of
        the ballot, or that has more than r labels, abstains.

    Args:
      vectors: (n, dim) records.
      labels: (n,) classes; or (n, C) zeros and ones; or a sequence of sets of classes.
      queries: (s, dim) public, s as on the ballot.
      truncate_labels: A record with more than r labels keeps its r lowest classes, instead of abstaining.
      metric, max_distance, prices, backend: As for `nearest_queries`.
    """
    _match(queries, ballot)
    classes = as_classes(labels, ballot, truncate=truncate_labels)
    _equal_lengths(vectors, classes)
    k = ballot.votes_per_record
    picks = nearest_queries(
        vectors, queries, k, metric=metric, max_distance=max_distance, prices=prices, backend=backend
    )
    return Votes(ballot, picks, classes)


def _match(queries: object, ballot: Ballot) -> None:
    shape = np.asarray(queries).shape
    if shape[:1] != (ballot.num_queries,):
        raise InvalidInput(f"queries must be the {ballot.num_queries} of the ballot, got shape {shape}")


def _equal_lengths(vectors: object, labels: object) -> None:
    many, few = (len(values) if isinstance(values, Sized) else None for values in (vectors, labels))
    if many is None or many != few:
        raise InvalidInput(f"labels must be as many as the {many} vectors, got {few}")
