"""Step 4: every record votes for (query, class) cells; kept as Votes, or counted as a stream in bounded memory."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sized
from itertools import zip_longest
from threading import Lock

import numpy as np
from numpy.typing import NDArray

from recordwise.errors import InvalidInput
from recordwise.votes.backend import Backend
from recordwise.votes.ballot import Ballot, Votes
from recordwise.votes.classes import as_classes
from recordwise.votes.nearest import NUMPY, as_records, for_each_span, nearest_queries
from recordwise.votes.poll import Metric, Poll


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


def count_votes(
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
) -> NDArray[np.int64]:
    """The exact tally (s, C) of the votes `cast_votes` would return, in memory that does not grow with n. Private.

    Args:
      vectors: (n, dim) array, memory-mapped or not; or an iterable of such blocks.
      labels: As for `cast_votes`; or an iterable of blocks cut like those of `vectors`.
      queries, metric, max_distance, prices, truncate_labels, backend: As for `cast_votes`.
    """
    _match(queries, ballot)
    poll = Poll.open(queries, ballot.votes_per_record, metric, max_distance, prices)
    total = np.zeros((ballot.num_queries, ballot.num_classes), dtype=np.int64)
    adding = Lock()
    for block, block_labels in _blocks(vectors, labels):
        records = as_records(block, poll)
        _equal_lengths(records, block_labels)

        def work(rows: slice, picks: NDArray[np.int32], block_labels: object = block_labels) -> None:
            some = block_labels[rows]  # type: ignore[index]  # a sequence, by _blocks
            classes = as_classes(some, ballot, truncate=truncate_labels)
            counts = Votes(ballot, picks, classes).counts()
            with adding:
                np.add(total, counts, out=total)

        for_each_span(records, poll, backend, work)
    return total


def _match(queries: object, ballot: Ballot) -> None:
    shape = np.asarray(queries).shape
    if shape[:1] != (ballot.num_queries,):
        raise InvalidInput(f"queries must be the {ballot.num_queries} of the ballot, got shape {shape}")


def _equal_lengths(vectors: object, labels: object) -> None:
    many, few = (len(values) if isinstance(values, Sized) else None for values in (vectors, labels))
    if many is None or many != few:
        raise InvalidInput(f"labels must be as many as the {many} vectors, got {few}")


def _blocks(vectors: object, labels: object) -> Iterator[tuple[object, object]]:
    """One pair when vectors are an array, else a pair per block."""
    if hasattr(vectors, "shape"):
        yield vectors, labels
    elif isinstance(vectors, Iterable) and isinstance(labels, Iterable):
        for block, block_labels in zip_longest(vectors, labels):
            if block is None or block_labels is None:
                raise InvalidInput("labels must come in as many blocks as vectors")
            yield block, block_labels
    else:
        raise InvalidInput(f"vectors must be an array or an iterable of arrays, got {type(vectors).__name__}")
