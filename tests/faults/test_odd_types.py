"""Samples, labels and classes of types that are none: decided before anything is charged, in Python too."""

from __future__ import annotations

from array import array
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from recordwise.distiller import PrivateDistiller
from recordwise.errors import InvalidInput
from recordwise.privacy.ledger import Ledger
from recordwise.randomness import seeded
from recordwise.records import declared_classes

Y = seeded(0, "odd").integers(3, size=70)
X = seeded(1, "odd").normal(size=(70, 3)) + 4 * Y[:, None]
RECORDS, LABELS, POOL = X[:40], Y[:40], X[40:]


def fit(
    folder: Path, X: Any = RECORDS, y: Any = LABELS, pool: Any = POOL, classes: Any = (0, 1, 2)
) -> PrivateDistiller:
    account = {"ledger": str(folder / "l.sqlite"), "budget_epsilon": 100}
    one = PrivateDistiller(4.0, num_queries=6, classes=classes, student="linear", account=account)
    return one.fit(X, y, X_public=pool)


def refused(folder: Path, rule: str, **changed: Any) -> None:
    """One line, and nothing was charged."""
    with pytest.raises(InvalidInput, match=rule) as caught:
        fit(folder, **changed)
    assert "\n" not in str(caught.value)
    place = folder / "l.sqlite"
    assert not place.exists() or not any(Ledger.open(place).history(one.name) for one in Ledger.open(place).budgets())


FORMS: dict[str, tuple[Callable[[Any], Any], str]] = {
    "complex": (lambda A: A.astype(complex), "Complex data not supported|type complex128"),
    "timedelta": (lambda A: A.astype("timedelta64[D]"), "timedelta64"),
    "structured": (lambda A: np.array([tuple(row) for row in A], dtype=[("a", "f8"), ("b", "f8"), ("c", "f8")]), "'a'"),
    "0-d": (lambda A: np.array(5.0), "one row for each sample, got a single float64"),
    "0-d object": (lambda A: np.array(None), "one row for each sample, got a single object"),
    "nothing": (lambda A: None, "one row for each sample, got NoneType"),
    "a number": (lambda A: 5, "one row for each sample, got int"),
    "text": (lambda A: "text", "one row for each sample, got str"),
    "a generator": (lambda A: (row for row in A), "one row for each sample, got generator"),
    "a mapping": (lambda A: {"a": A}, "one row for each sample, got dict"),
    "a frame without columns": (lambda A: pd.DataFrame(index=range(len(A))), "column|dimensions"),
    "five axes": (lambda A: np.zeros((len(A), 1, 1, 1, 1)), "shape|images"),
}


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("where", ["X", "pool"])
def test_samples_of_a_type_that_is_none_are_refused_before_the_charge(tmp_path: Path, form: str, where: str) -> None:
    made, rule = FORMS[form]
    refused(tmp_path, rule, **{where: made(RECORDS if where == "X" else POOL)})


def test_one_complex_number_is_a_gap_of_its_record(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """pandas makes a whole column complex for it, and so would tell of it; a pool is public."""
    odd, plain = pd.DataFrame(RECORDS, columns=list("abc")).astype(complex), pd.DataFrame(POOL, columns=list("abc"))
    odd.iloc[3, 0] += 2j
    assert odd.dtypes.tolist() == [np.complex128] * 3
    labels = pd.Series(LABELS).astype(complex)
    labels[5] = 1j
    fit(tmp_path, X=odd, y=labels, pool=plain)
    assert "2 of 40 records abstain" in caplog.text
    (tmp_path / "other").mkdir()
    refused(tmp_path / "other", "Complex data not supported in 'a'", pool=plain.astype(complex), X=odd)


def test_records_in_time_do_not_fit_a_pool_of_numbers(tmp_path: Path) -> None:
    refused(tmp_path, r"datetime64\[D\] is not supported", X=RECORDS.astype("datetime64[D]"))


@pytest.mark.parametrize("held", [lambda A: memoryview(np.ascontiguousarray(A)), lambda A: A.tolist(), tuple])
def test_what_holds_numbers_is_no_part_of_them(tmp_path: Path, held: Callable[[Any], Any]) -> None:
    assert fit(tmp_path, X=held(RECORDS), pool=held(POOL)).schema_.shape == (3,)


def test_a_masked_cell_is_a_gap_of_its_record(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    gaps = np.zeros_like(RECORDS, dtype=bool)
    gaps[:2, 0] = True
    fit(tmp_path, X=np.ma.masked_array(RECORDS, mask=gaps), y=np.ma.masked_array(LABELS, mask=np.arange(40) > 37))
    assert "4 of 40 records abstain" in caplog.text
    refused(tmp_path / "..", "row 0 holds a gap", pool=np.ma.masked_array(POOL, mask=POOL[0, 0] == POOL))


@pytest.mark.parametrize(
    ("labels", "rule"),
    [
        (LABELS.astype(complex), "numbers, text or booleans, got complex128"),
        (LABELS.astype("datetime64[D]"), r"got datetime64\[D\]"),
        (LABELS.astype("timedelta64[D]"), r"got timedelta64\[D\]"),
        (np.zeros(40, dtype=[("a", int)]), "numbers, text or booleans"),
        (np.array(1), r"shape \(n,\), got \(\)"),
        ("x" * 40, r"shape \(n,\), got text"),
        (LABELS[:3], "one label for each of the 40 records, got 3"),
    ],
)
def test_labels_of_a_type_that_is_none_are_refused_before_the_charge(tmp_path: Path, labels: Any, rule: str) -> None:
    refused(tmp_path, rule, y=labels)


@pytest.mark.parametrize(
    ("classes", "rule"),
    [
        ([0, 0, 1], "must be different, 0 is there 2 times"),
        ([0, 1, 1.0], "must be different, 1 is there 2 times"),
        (["a", "a"], "must be different, 'a' is there 2 times"),
        (["a", " a"], "must be different"),
        ([2**53 + 2, 0], "up to 2"),
        ([1, True], "all numbers, all text or all booleans"),
        (["a", 1], "all numbers, all text or all booleans"),
        ([None, 1], "all numbers, all text or all booleans"),
        ([1j, 2], "all numbers, all text or all booleans"),
        (np.arange(3).astype("datetime64[D]"), "all numbers, all text or all booleans"),
        (np.arange(3).astype("timedelta64[D]"), "all numbers, all text or all booleans"),
        (np.zeros(2, dtype=[("a", int)]), "all numbers, all text or all booleans"),
        ([float("nan"), 1], "finite"),
        ([float("inf"), 1], "finite"),
        ([10**400, 1], "finite"),
        (["", "a"], "can be read"),
        (["\ud800", "a"], "can be read"),
        (["a\0", "a"], "can be read"),
        ([[0, 1], [2, 3]], "all numbers"),
        (np.eye(2), "a list of names or numbers"),
        (np.array(3), "a list of names or numbers"),
        ("abc", "a list of names or numbers"),
        ({0, 1}, "a list of names or numbers"),
        ({"a": 1}, "a list of names or numbers"),
        (iter([0, 1]), "a list of names or numbers"),
        (5, "a list of names or numbers"),
        ([], "at least one class"),
        (np.ma.masked_array([0, 1, 2], mask=[1, 0, 0]), "must have no gaps"),
    ],
)
def test_classes_that_are_none_are_refused_before_the_charge(tmp_path: Path, classes: Any, rule: str) -> None:
    refused(tmp_path, rule, classes=classes)


@pytest.mark.parametrize(
    "classes",
    [[0, 1, 2], (2.5, 0.5), range(3), ["b", "a"], [b"a", b"b"], [True, False], np.arange(3), array("i", [1, 2])],
)
def test_classes_that_are_some_keep_their_order(classes: Any) -> None:
    assert declared_classes(classes).tolist() == list(classes)


def test_an_odd_record_is_its_own_business(tmp_path: Path) -> None:
    """The same oddities in a list, where each is one record's, refuse nothing."""
    odd = [1j, np.timedelta64(1, "D"), None, {}, "text", np.array(5.0), pd.NaT]
    fit(tmp_path, X=[*RECORDS.tolist(), *([cell, 1, 2] for cell in odd)], y=[*LABELS.tolist(), *odd])
