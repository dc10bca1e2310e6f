"""The neighbouring data sets that tell most about a protocol: one record that votes, and what it is exchanged for."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from recordwise.privacy.guarantee import Neighbours
from recordwise.votes.ballot import NOBODY, Ballot, Votes


@dataclass(frozen=True)
class Record:
    """What one made-up record votes for; nothing at all where both are empty."""

    queries: tuple[int, ...] = ()
    labels: tuple[int, ...] = ()

    def cells(self, ballot: Ballot) -> frozenset[int]:
        return frozenset(query * ballot.num_classes + label for query in self.queries for label in self.labels)


NOTHING = Record()


@dataclass(frozen=True, kw_only=True)
class Pair:
    """Two data sets that differ in one record; None where it is missing from one of them."""

    name: str
    before: Record
    after: Record | None

    def sides(self) -> tuple[Record | None, Record | None]:
        return self.before, self.after


def worst_pairs(ballot: Ballot, neighbours: Neighbours, *, same_queries: bool = False) -> tuple[Pair, ...]:
    """Neighbours of the given kind whose tallies differ the most.

    Every mechanism here treats all queries alike and all classes alike, so the pairs differ in how many votes the two
    records share: none, if the ballot is large enough for it, and as few as their numbers of cells allow if not.

    Args:
      same_queries: The two records disagree about the same queries; where a class has one query, votes for different
        queries with different labels can go together.
    """
    k, r = ballot.votes_per_record, ballot.labels_per_record
    first = Record(tuple(range(k)), tuple(range(r)))
    if neighbours is Neighbours.ADD_REMOVE:
        return (Pair(name="a record is added or removed", before=first, after=None),)
    last = _opposite(first, ballot, same_queries=same_queries)
    return (
        Pair(name="a record is replaced by its opposite", before=first, after=last),
        Pair(name="a record is replaced by one that abstains", before=first, after=NOTHING),
    )


def _opposite(first: Record, ballot: Ballot, *, same_queries: bool) -> Record:
    """The record that differs from the first in most cells; the one with most votes, where several do.

    Where two records with all their votes must meet, one that leaves queries or classes out may differ in more cells.
    """
    s, num_classes, k, r = ballot.num_queries, ballot.num_classes, ballot.votes_per_record, ballot.labels_per_record
    if same_queries:
        return Record(first.queries, tuple(range(num_classes - r, num_classes)))
    others = [
        Record(tuple(range(s - queries, s)), tuple(range(num_classes - labels, num_classes)))
        for queries, labels in ((k, r), (min(k, s - k), r), (k, min(r, num_classes - r)))
    ]
    return max(others, key=lambda other: len(first.cells(ballot) ^ other.cells(ballot)))


def bystander(ballot: Ballot) -> Record:
    """A record that shares no vote with either of `worst_pairs`, or abstains where the ballot is too small for it."""
    k, r = ballot.votes_per_record, ballot.labels_per_record
    if ballot.num_queries >= 3 * k:
        return Record(tuple(range(k, 2 * k)), tuple(range(r)))
    return NOTHING


def as_votes(ballot: Ballot, records: Sequence[Record]) -> Votes:
    """The records' votes, as the pipeline would have cast them."""
    queries = np.full((len(records), ballot.votes_per_record), NOBODY, dtype=np.int32)
    labels = np.full((len(records), ballot.labels_per_record), NOBODY, dtype=np.int32)
    for row, record in enumerate(records):
        queries[row, : len(record.queries)] = record.queries
        labels[row, : len(record.labels)] = record.labels
    return Votes(ballot, queries, labels)


def repeated(votes: Votes, times: int) -> Votes:
    """The same records `times` times."""
    return Votes(votes.ballot, np.tile(votes.queries, (times, 1)), np.tile(votes.labels, (times, 1)))
