from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from recordwise.errors import InvalidInput
from recordwise.votes import NOBODY, Ballot
from recordwise.votes.classes import as_classes


def ballot(num_classes: int = 4, labels_per_record: int = 2) -> Ballot:
    return Ballot(num_queries=3, num_classes=num_classes, labels_per_record=labels_per_record)


def test_one_class_per_record_is_padded_to_the_ballot() -> None:
    assert as_classes([3, 0], ballot(labels_per_record=1)).tolist() == [[3], [0]]
    assert as_classes(np.array([3.0, 0.0]), ballot()).tolist() == [[3, NOBODY], [0, NOBODY]]
    assert as_classes([], ballot()).shape == (0, 2)


@given(st.lists(st.sets(st.integers(0, 3), max_size=4), min_size=1), st.integers(1, 4))
def test_sets_and_indicators_say_the_same(labels: list[set[int]], r: int) -> None:
    indicators = np.array([[int(one in chosen) for one in range(4)] for chosen in labels])
    form = ballot(labels_per_record=r)
    rows = as_classes(labels, form, truncate=True)
    np.testing.assert_array_equal(rows, as_classes(indicators, form, truncate=True))
    assert [[one for one in row if one != NOBODY] for row in rows.tolist()] == [sorted(chosen)[:r] for chosen in labels]
    if max(map(len, labels)) > r:
        for given_as in (labels, indicators):
            with pytest.raises(InvalidInput, match=f"at most r = {r} labels"):
                as_classes(given_as, form)


@pytest.mark.parametrize(
    ("labels", "message"),
    [
        ([0, 4], r"labels must be whole numbers in \[0, 4\), row 1 holds 4"),
        ([0, -1], "row 1 holds -1"),
        ([0.0, math.nan], "row 1 holds nan"),
        ([0.0, math.inf], "row 1 holds inf"),
        ([0.5], "row 0 holds 0.5"),
        (["cat"], "labels must be whole numbers, 0/1 rows or sets"),
        ([{0}, {1, 9}], "row 1 holds 9"),
        ([{0.5}], "row 0 holds 0.5"),
        ([[0, 1, 2, 0]], "must be 0 or 1, row 0 is not"),
        ([[0.0, 1.0, math.nan, 0.0]], "must be 0 or 1, row 0 is not"),
        ([[0, 1]], r"labels must have shape \(n,\) or \(n, 4\), got \(1, 2\)"),
        (3, r"labels must have shape \(n,\)"),
        ([{0}, {0, 1, 2}], "row 1 has 3; raise r, or truncate"),
    ],
)
def test_a_wrong_label_is_refused_in_one_line(labels: object, message: str) -> None:
    with pytest.raises(InvalidInput, match=message):
        as_classes(labels, ballot())
