"""Records into votes: labels one by one, encoders that fail, and what their holder is told."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.base import BaseEstimator

from recordwise.data import Schema
from recordwise.distiller import PrivateDistiller
from recordwise.encoders import encode
from recordwise.errors import InvalidInput
from recordwise.queries import Queries
from recordwise.records import Records, Why, as_labels, cast, check_labels, public_classes, read_labels, tell_holder
from recordwise.votes import NOBODY, Ballot


@pytest.mark.parametrize(
    ("classes", "known", "others", "gaps"),
    [
        ([0, 1, 2], [2, 2.0, "2", " 2 ", np.int8(2), b"2"], [7, 2.5, "two", "2x"], [None, "", np.nan, b"\xff", [2]]),
        (["flu", "2"], ["2", 2, 2.0, b"2", "2 "], ["cold", 3, "2.0"], [None, "", np.nan, "\udcff", object()]),
        ([0.5, 1.5], [1.5, "1.5"], [1, "x"], [None]),
    ],
)
def test_a_label_is_read_on_its_own(classes: list[Any], known: list[Any], others: list[Any], gaps: list[Any]) -> None:
    labels = [*known, *others, *gaps]
    numbers, why = read_labels(labels, classes, 1)
    assert numbers[: len(known)].ravel().tolist() == [len(classes) - 1] * len(known)
    assert (numbers[len(known) :] == NOBODY).all()
    assert why.tolist() == [Why.VOTES] * len(known) + [Why.UNDECLARED] * len(others) + [Why.NO_LABEL] * len(gaps)
    for row in range(len(labels)):
        alone, reason = read_labels(labels[row : row + 1], classes, 1)
        assert alone[0] == numbers[row] and reason[0] == why[row]


def test_several_labels_are_a_row_of_zeros_and_ones() -> None:
    rows = [
        [1, 0, 1],
        [0, 0, 0],
        ["1", "0", 0.0],
        [1, 1, 1],
        [1, 0, 2],
        [1, 0],
        None,
        "101",
        [1, None, 0],
        [1, [1, 0], 0],
    ]
    numbers, why = read_labels(rows, ["a", "b", "c"], 2)
    assert numbers[:3].tolist() == [[0, 2], [NOBODY] * 2, [0, NOBODY]]
    assert (numbers[3:] == NOBODY).all()
    assert why.tolist() == [0, 0, 0, Why.TOO_MANY, *[Why.NO_LABEL] * 6]


def test_the_form_of_labels_is_public() -> None:
    with pytest.raises(InvalidInput, match="one label for each of the 3 records, got 2"):
        as_labels([0, 1], 3)
    with pytest.raises(InvalidInput, match="the target y is None"):
        as_labels(None, 3)
    with pytest.raises(InvalidInput, match=r"0/1 matrix \(n, 3\)"):
        check_labels(np.zeros((4, 2)), 3, 2)
    with pytest.raises(InvalidInput, match=r"shape \(n,\), got \(4, 2\)"):
        check_labels(np.zeros((4, 2)), 2, 1)


def test_classes_are_declared_or_read_off_the_labels() -> None:
    assert public_classes(None, classes=["b", "a"], labels_per_record=1).tolist() == ["b", "a"]
    with pytest.raises(InvalidInput, match="must be different"):
        public_classes(None, classes=["b", "a", "b"], labels_per_record=1)
    assert public_classes(np.array([2.0, np.nan, 1.0]), classes=None, labels_per_record=1).tolist() == [1, 2]
    assert public_classes(["b", None, " b", "a"], classes=None, labels_per_record=1).tolist() == ["a", "b"]
    assert public_classes(np.zeros((2, 3)), classes=None, labels_per_record=2).tolist() == [0, 1, 2]
    for bad in ([None], [1, "a"], np.linspace(0, 1, 9)):
        with pytest.raises(InvalidInput):
            public_classes(
                np.array(bad, dtype=object) if isinstance(bad, list) else bad, classes=None, labels_per_record=1
            )


class Picky(BaseEstimator):  # type: ignore[misc]
    """Fails on a whole batch when it does not like one sample of it, and says what was in it."""

    def fit(self, pool: Any, y: object = None) -> Picky:
        return self

    def transform(self, samples: Any) -> Any:
        if (np.abs(samples) > 100).any():
            raise RuntimeError(f"I do not like {samples}")
        return np.where(samples == 13, np.nan, samples)


@pytest.mark.parametrize("bad", [[], [0], [4], [0, 3, 4, 8], list(range(9))])
def test_an_encoder_that_fails_on_a_record_fails_for_that_record_alone(bad: list[int]) -> None:
    samples = np.arange(18.0).reshape(9, 2) / 9
    samples[bad] = 1000
    vectors = encode(Picky(), samples, dim=2)
    good = np.setdiff1d(np.arange(9), bad)
    assert np.array_equal(vectors[good], samples[good].astype(np.float32))
    assert not np.isfinite(vectors[bad]).any()


def test_votes_and_reasons() -> None:
    pool = np.array([[0.0, 0.0], [5.0, 5.0]])
    samples = [[0, 0], [5, 4], [None, 1], [1], [1000, 0], [1, 13], [5, 5]]
    labels, _ = read_labels([0, 1, 0, 0, 0, 0, 9], [0, 1], 1)
    ballot = Ballot(num_queries=2, num_classes=2)
    queries = Queries(vectors=pool.astype(np.float32), owner=np.arange(2))

    def voted(samples: Any, labels: Any, **more: Any) -> Any:
        records = Records(samples, labels, np.zeros(len(labels), dtype=np.int8), **more)
        return cast(records, schema=Schema.of(pool), encoder=Picky(), manner=None, queries=queries, ballot=ballot)

    votes, why, copied = voted(samples, labels, pool=pool)
    assert votes.cells().ravel().tolist() == [0, 3, *[NOBODY] * 5]
    assert (votes.queries[2:] == NOBODY).all() and (votes.labels[2:] == NOBODY).all()  # nothing of it is left
    assert why.tolist() == [0, 0, Why.UNREADABLE, Why.UNREADABLE, Why.NO_VECTOR, Why.NO_VECTOR, 0] and copied == 2
    abstaining, why, _ = voted(samples, labels, pool=pool, overlap="abstain")
    assert abstaining.cells().ravel().tolist() == [NOBODY, 3, *[NOBODY] * 5] and why[0] == why[6] == Why.COPY
    nobody, _, _ = voted([], labels[:0])
    assert len(nobody) == 0
    everybody, why, _ = voted([[1000, 0]] * 3, labels[:3])
    assert (everybody.cells() == NOBODY).all() and (why == Why.NO_VECTOR).all()


def test_the_holder_is_told_by_kind(caplog: pytest.LogCaptureFixture) -> None:
    tell_holder(np.zeros(5, dtype=np.int8), 0, "vote")
    assert not caplog.records
    tell_holder(np.array([0, 1, 1, 4, 5], dtype=np.int8), 3, "vote")
    first, second = (record.getMessage() for record in caplog.records)
    assert first == (
        "for the holder only: 4 of 5 records abstain: 2 with a sample that the schema cannot read, "
        "1 with a class that is not declared, 1 with more labels than labels_per_record"
    )
    assert (
        second == 'for the holder only: 3 of 5 records also lie in the pool, and vote; overlap="abstain" keeps them out'
    )


def test_classes_that_are_text_are_refused_for_labels_that_are_numbers() -> None:
    X = np.arange(12.0)[:, None]
    one = PrivateDistiller(1.0, num_queries=2, classes=["0", "1"])
    for y in (np.arange(12) % 2, np.arange(12) % 2 == 0):
        with pytest.raises(InvalidInput, match=r"such as '0', and y holds numbers \((int64|bool)\)"):
            one.fit(X, y, X_public=X)
    assert one.fit(X, [str(label % 2) for label in range(12)], X_public=X).predict(X).dtype.kind == "U"


def test_one_label_of_a_pandas_column_decides_nothing_for_the_others() -> None:
    """pandas makes a column of numbers one of objects for a single word in it."""
    X = np.arange(12.0)[:, None]
    one = PrivateDistiller(1e6, num_queries=2, classes=["0", "1"])
    numbers = pd.Series(np.arange(12) % 2)
    worded = numbers.astype(object)
    worded[3] = "unknown"
    before, after = (one.fit(X, y, X_public=X).rounds_[0].release.estimate for y in (numbers, worded))
    assert np.abs(before - after).sum() == 1


def test_records_far_from_every_query_are_told_of_too(caplog: pytest.LogCaptureFixture) -> None:
    X = np.concatenate([np.zeros(20), np.full(10, 900.0)])[:, None]
    pool = np.concatenate([np.zeros(10), np.ones(10)])[:, None]
    one = PrivateDistiller(1.0, num_queries=2, classes=[0, 1], encoder="scaler", queries={"max_distance": 5.0})
    one.fit(X, np.arange(30) % 2, X_public=pool)
    far = "10 farther than queries.max_distance from every query"
    assert f"10 of 30 records abstain: {far}" in caplog.text
    caplog.clear()
    with caplog.at_level("INFO", logger="recordwise.records"):
        one.fit(X[:20] + 0.5, np.arange(20) % 2, X_public=pool)
    assert "for the holder only: none of 20 records abstains" in caplog.text


def test_whatever_a_record_holds_the_records_have_a_fingerprint() -> None:
    """It tells them from others where a run goes on; what cannot be written down is told by its place alone."""
    inside_itself: list[Any] = []
    inside_itself.append(inside_itself)
    labels, reasons = np.zeros((2, 1), dtype=np.int32), np.zeros(2, dtype=np.int8)
    for odd in (np.datetime64("2024-02-29"), np.timedelta64(1, "D"), inside_itself, (one for one in ()), lambda: 0):
        for hold in (list, lambda held: pd.DataFrame(held, columns=["a", "b"]).astype(object)):
            ours, same, others = (Records(hold([[1, first], [odd, 2]]), labels, reasons) for first in (3, 3, 4))
            assert ours.fingerprint() == same.fingerprint() != others.fingerprint()


def test_arrays_of_dates_and_of_text_of_any_length_have_a_fingerprint() -> None:
    labels, reasons = np.zeros((2, 1), dtype=np.int32), np.zeros(2, dtype=np.int8)
    for one, other in (("2024-02-29", "NaT"), ("2024-02-29", "2024-03-01")):
        for kind in (np.dtype("M8[us]"), np.dtype("M8[ns]"), np.dtypes.StringDType()):
            first, second = (Records(np.array([[one], [end]], dtype=kind), labels, reasons) for end in (one, other))
            assert first.fingerprint() == first.fingerprint() != second.fingerprint()
