"""How many cells a neighbour changes, against every pair of records there is."""

from __future__ import annotations

from itertools import combinations, product

import numpy as np
import pytest

from recordwise.privacy.guarantee import Neighbours
from recordwise.protocols.pairs import as_votes, worst_pairs
from recordwise.votes.ballot import NOBODY, Ballot, Votes

MOST_QUERIES, MOST_CLASSES = 4, 4
FORMS = [
    Ballot(num_queries=s, num_classes=c, votes_per_record=k, labels_per_record=r)
    for s, c in product(range(1, MOST_QUERIES + 1), range(1, MOST_CLASSES + 1))
    for k, r in product(range(1, s + 1), range(1, c + 1))
]


def every_tally(ballot: Ballot) -> np.ndarray:
    """(records, s·C) the tallies of all single records: up to k queries, up to r classes, none included."""

    def choices(options: int, most: int) -> list[list[int]]:
        some = [list(chosen) for size in range(most + 1) for chosen in combinations(range(options), size)]
        return [chosen + [NOBODY] * (most - len(chosen)) for chosen in some]

    queries = choices(ballot.num_queries, ballot.votes_per_record)
    labels = choices(ballot.num_classes, ballot.labels_per_record)
    rows = list(product(queries, labels))
    cast = Votes(ballot, np.array([q for q, _ in rows], np.int32), np.array([y for _, y in rows], np.int32))
    cells = cast.cells()
    tallies = np.zeros((len(rows), ballot.num_cells + 1), dtype=np.int64)
    tallies[np.arange(len(rows))[:, None], cells] = 1  # NOBODY is the last column, which is cut off
    return np.unique(tallies[:, :-1], axis=0)


def most_changed(ballot: Ballot, neighbours: Neighbours) -> int:
    """The largest number of cells in which two neighbouring tallies differ, by trying all."""
    tallies = every_tally(ballot)
    if neighbours is Neighbours.ADD_REMOVE:
        return int(tallies.sum(axis=1).max())
    sums = tallies.sum(axis=1)
    return int((sums[:, None] + sums - 2 * tallies @ tallies.T).max())


@pytest.mark.parametrize("neighbours", Neighbours)
def test_the_charge_is_the_most_cells_that_any_two_neighbours_differ_in(neighbours: Neighbours) -> None:
    """All 100 ballots of up to four queries and four classes, every pair of records on each."""
    for ballot in FORMS:
        assert ballot.cells_changed(neighbours) == most_changed(ballot, neighbours), ballot


def test_ballots_with_more_labels_than_half_of_the_classes_are_charged_less() -> None:
    every_query = Ballot(num_queries=5, num_classes=4, votes_per_record=5, labels_per_record=3)
    assert every_query.cells_changed(Neighbours.REPLACE) == 5 * 4  # every cell, and not 2·5·3
    assert every_query.cells_changed(Neighbours.ADD_REMOVE) == 5 * 3
    crowded = Ballot(num_queries=10, num_classes=10, votes_per_record=6, labels_per_record=6)
    assert crowded.cells_changed(Neighbours.REPLACE) == 2 * (36 - 2 * 2)  # records with all their votes, which meet
    roomy = Ballot(num_queries=10, num_classes=10, votes_per_record=6, labels_per_record=5)
    assert roomy.cells_changed(Neighbours.REPLACE) == 2 * 6 * 5


@pytest.mark.parametrize("neighbours", Neighbours)
def test_an_audit_compares_neighbours_that_attain_the_charge(neighbours: Neighbours) -> None:
    for ballot in [*FORMS, Ballot(num_queries=10, num_classes=10, votes_per_record=6, labels_per_record=6)]:
        pair = worst_pairs(ballot, neighbours)[0]
        before, after = (as_votes(ballot, [side] if side else []).counts() for side in pair.sides())
        assert np.abs(before - after).sum() == ballot.cells_changed(neighbours), ballot
