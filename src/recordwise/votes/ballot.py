"""The two values of step 4: the public form of a vote, and the private votes themselves."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import NoReturn

import numpy as np
from numpy.typing import NDArray

from recordwise.arrays import (
    NOBODY as NOBODY,  # pads queries of records that abstain, labels of those with fewer than r
)
from recordwise.errors import InvalidInput, whole
from recordwise.privacy.guarantee import Neighbours, one_of

MOST_CELLS = 10**9  # of a tally: eight gigabytes
PIECE = 1 << 16  # records counted or compared at a time: beyond the votes themselves, memory does not grow with them


@dataclass(frozen=True, kw_only=True)
class Ballot:
    """What may be voted for: public, and all that a mechanism's sensitivity depends on."""

    num_queries: int
    num_classes: int
    votes_per_record: int = 1
    labels_per_record: int = 1

    def __post_init__(self) -> None:
        whole(
            num_queries=self.num_queries,
            num_classes=self.num_classes,
            votes_per_record=self.votes_per_record,
            labels_per_record=self.labels_per_record,
        )
        if self.num_cells > MOST_CELLS:
            raise InvalidInput(f"a ballot must have at most {MOST_CELLS:,} cells, got {self.num_cells:,}")
        if self.votes_per_record > self.num_queries:
            raise InvalidInput(f"k must be <= the {self.num_queries} queries, got {self.votes_per_record}")
        if self.labels_per_record > self.num_classes:
            raise InvalidInput(f"r must be <= the {self.num_classes} classes, got {self.labels_per_record}")

    @property
    def num_cells(self) -> int:
        return self.num_queries * self.num_classes

    @property
    def cells_per_record(self) -> int:
        """At most this many cells (query, class) does one record vote for: c = k·r."""
        return self.votes_per_record * self.labels_per_record

    def cells_changed(self, neighbours: Neighbours) -> int:
        """At most this many cells differ, each by one, between the tallies of two neighbouring data sets.

        It is the L1 sensitivity of the tally and the square of its L2 sensitivity, and some pair attains it.

        A record votes for a rectangle, queries by classes. Two records of k queries and r classes differ in 2kr cells,
        unless both pairs of sides must meet: 2k - s queries and 2r - C classes at least, where these are positive.
        Every cell in which the rectangles meet takes two away. They can also stay apart, one of them being smaller:
        together they then cover the s queries, or the C classes, once. In each side's length by itself the number of
        cells is linear between these corners, so the largest of the three is the most there is.
        """
        k, r = self.votes_per_record, self.labels_per_record
        if one_of(Neighbours, neighbours=neighbours) is Neighbours.ADD_REMOVE:
            return k * r
        meeting = max(0, 2 * k - self.num_queries) * max(0, 2 * r - self.num_classes)
        return max(2 * (k * r - meeting), min(2 * k, self.num_queries) * r, k * min(2 * r, self.num_classes))

    def block(self, *, every_class: bool = False) -> Ballot:
        """The part on which two neighbours can differ; with every class where classes compete for a query."""
        queries = min(self.num_queries, 2 * self.votes_per_record)
        classes = self.num_classes if every_class else min(self.num_classes, 2 * self.labels_per_record)
        return replace(self, num_queries=queries, num_classes=classes)


@dataclass(frozen=True, eq=False)
class Votes:
    """Each record's queries and labels. Private: shows shapes only, refuses to be pickled.

    Guarantees, relied on by every protocol:
      - a record's row depends on that record and public constants alone;
      - a record votes for at most k queries and at most r classes, each at most once.

    Attributes:
      queries: (n, k) indices, NOBODY where a record casts fewer than k votes.
      labels: (n, r) classes, NOBODY where a record has fewer than r labels.
    """

    ballot: Ballot
    queries: NDArray[np.int32]
    labels: NDArray[np.int32]

    def __post_init__(self) -> None:
        for name, rows, width, bound in (
            ("queries", self.queries, self.ballot.votes_per_record, self.ballot.num_queries),
            ("labels", self.labels, self.ballot.labels_per_record, self.ballot.num_classes),
        ):
            if rows.ndim != 2 or rows.shape[1] != width or len(rows) != len(self.queries):
                raise InvalidInput(f"{name} must have shape ({len(self.queries)}, {width}), got {rows.shape}")
            if rows.size and not (rows.min() >= NOBODY and rows.max() < bound):
                raise InvalidInput(f"{name} must lie in [0, {bound}), or be {NOBODY} for none")
            if any(map(_repeats, _pieces(rows))):
                raise InvalidInput(
                    f"{name} of one record must differ: a second vote for one cell breaks the sensitivity"
                )

    @classmethod
    def of_nobody(cls, ballot: Ballot, count: int) -> Votes:
        """The votes of so many records that all abstain."""
        widths = (ballot.votes_per_record, ballot.labels_per_record)
        return cls(ballot, *(np.full((count, width), NOBODY, dtype=np.int32) for width in widths))

    def __len__(self) -> int:
        return len(self.queries)

    def cells(self) -> NDArray[np.int32]:
        """(n, k·r) flat cell indices query·C + class, NOBODY where there is no vote. Private."""
        flat = self.queries[:, :, None] * self.ballot.num_classes + self.labels[:, None, :]
        flat[(self.queries == NOBODY)[:, :, None] | (self.labels == NOBODY)[:, None, :]] = NOBODY
        return flat.reshape(len(self), self.ballot.cells_per_record).astype(np.int32, copy=False)

    def counts(self) -> NDArray[np.int64]:
        """(s, C) exact tally of these votes. Private."""
        counts = np.zeros(self.ballot.num_cells, dtype=np.int64)
        for piece in self.pieces(PIECE):
            cells = piece.cells().ravel()
            counts += np.bincount(cells[cells != NOBODY], minlength=len(counts))
        return counts.reshape(self.ballot.num_queries, self.ballot.num_classes)

    def pieces(self, size: int) -> Iterator[Votes]:
        """These votes, so many records at a time, in their order. Nothing is copied."""
        if 0 < len(self) <= size:
            yield self
            return
        for queries, labels in zip(_pieces(self.queries, size), _pieces(self.labels, size), strict=True):
            yield Votes(self.ballot, queries, labels)

    def parts(self, count: int) -> Iterator[Votes]:
        """These votes, in their order, in so many parts of equal size but for one record. Nothing is copied."""
        share, more = divmod(len(self), count)
        ends = [(number + 1) * share + min(number + 1, more) for number in range(count)]
        for start, end in pairwise([0, *ends]):
            yield Votes(self.ballot, self.queries[start:end], self.labels[start:end])

    def __repr__(self) -> str:
        return f"Votes({len(self):,} records, {self.ballot})"

    def __reduce__(self) -> NoReturn:
        raise InvalidInput("votes are private and must not be pickled, logged or written to disk")


def _pieces(rows: NDArray[np.int32], size: int = PIECE) -> Iterator[NDArray[np.int32]]:
    return (rows[start : start + size] for start in range(0, len(rows), size))


def _repeats(rows: NDArray[np.int32]) -> bool:
    """Whether some row holds one number twice, NOBODY aside."""
    if rows.shape[1] == 1:
        return False
    ordered = np.sort(rows, axis=1)
    return bool(((ordered[:, 1:] == ordered[:, :-1]) & (ordered[:, 1:] != NOBODY)).any())
