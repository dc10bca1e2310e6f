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
        abstaining = np.array([len(chosen) > r for chosen in labels])
        rows[abstaining] = NOBODY
        for given_as in (labels, indicators):
            np.testing.assert_array_equal(as_classes(given_as, form), rows)


@pytest.mark.parametrize(
    "label",
    [
        4,
        -1,
        math.nan,
        math.inf,
        0.5,
        "cat",
        b"1",
        None,
        {1, 9},
        {0.5},
        {"a"},
        {0, 1, 2},
        [0, 1, 2, 0],
        [0, 1],
        10**30,
        1j,
    ],
    ids=str,
)
def test_a_label_that_is_no_class_abstains_and_changes_no_other(label: object) -> None:
    assert as_classes([3, label, 0, {2, 1}], ballot()).tolist() == [
        [3, NOBODY],
        [NOBODY, NOBODY],
        [0, NOBODY],
        [1, 2],
    ]
    assert as_classes([3, label, 0], ballot()).tolist() == [[3, NOBODY], [NOBODY, NOBODY], [0, NOBODY]]


def test_rows_of_marks_are_read_one_by_one() -> None:
    rows = np.array([[0, 1, 2, 0], [1, 0, 0, 1], [0, 0, 0, 0], [1, 1, 1, 0]])
    expected = [[NOBODY, NOBODY], [0, 3], [NOBODY, NOBODY], [NOBODY, NOBODY]]
    assert as_classes(rows, ballot()).tolist() == as_classes(rows.tolist(), ballot()).tolist() == expected
    assert as_classes([*rows.tolist(), [1, 0]], ballot()).tolist() == [*expected, [NOBODY, NOBODY]]  # one is too short
    assert as_classes(np.where(rows == 2, np.nan, rows), ballot()).tolist() == expected


@pytest.mark.parametrize(
    ("labels", "message"),
    [
        (np.array(["cat"]), "labels must be whole numbers, 0/1 rows or sets"),
        (np.array([[0, 1]]), r"labels must have shape \(n,\) or \(n, 4\), got \(1, 2\)"),
        (3, r"labels must have shape \(n,\)"),
    ],
)
def test_an_array_of_another_shape_or_type_is_refused_in_one_line(labels: object, message: str) -> None:
    with pytest.raises(InvalidInput, match=message):
        as_classes(labels, ballot())
