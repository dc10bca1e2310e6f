from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from recordwise.data import Schema
from recordwise.encoders import Table
from recordwise.errors import InvalidInput

FRAME = pd.DataFrame(
    {"age": [20.0, 30.0, 40.0, None], "job": ["cook", "clerk", "cook", None], "paid": [True, False, True, True]}
)


def test_numbers_are_scaled_and_categories_get_a_coordinate_each() -> None:
    vectors = Table().fit(FRAME).transform(FRAME)
    assert vectors.dtype == np.float32
    deviation = np.std([20, 30, 40])
    expected_age = [-10 / deviation, 0, 10 / deviation, 0]
    np.testing.assert_allclose(vectors[:, 0], expected_age, rtol=1e-6)
    assert vectors[:, 1].tolist() == [0, 0, 0, 1]  # the pool has gaps in this column, so a coordinate tells them
    assert vectors[:, 2:5].tolist() == [[0, 0, 1], [0, 1, 0], [0, 0, 1], [1, 0, 0]]  # missing, clerk, cook
    assert vectors.shape == (4, 6)


def test_frames_object_arrays_and_number_types_agree() -> None:
    encoder = Table().fit(FRAME)
    expected = encoder.transform(FRAME)
    assert np.array_equal(encoder.transform(FRAME.to_numpy(dtype=object)), expected)
    assert np.array_equal(encoder.transform(FRAME.convert_dtypes()), expected)
    assert np.array_equal(Table().fit(FRAME.to_numpy(dtype=object)).transform(FRAME), expected)
    assert np.array_equal(encoder.transform(FRAME.astype({"job": "category"})), expected)


def test_extreme_numbers_count_no_more_than_the_clip_and_squash_nobody() -> None:
    ordinary = np.arange(100.0)
    pool = np.append(ordinary, 1e6)[:, None].astype(object)
    encoder = Table(clip=2.0).fit(pool)
    high = pool.astype(float).mean() + 2 * pool.astype(float).std()
    far, farther = encoder.transform(np.array([[high], [1e9]], dtype=object)).ravel()
    assert far == pytest.approx(farther)
    squashed = 99 / pool.astype(float).std()
    assert np.ptp(encoder.transform(ordinary[:, None].astype(object))) > 4 * squashed
    np.testing.assert_allclose(encoder.transform(pool).std(), 1, rtol=1e-5)


def test_unknown_and_rare_values_are_all_zeros() -> None:
    pool = np.array([["a"], ["a"], ["b"], ["b"], ["c"]], dtype=object)
    encoder = Table(max_values=2).fit(pool)
    assert encoder.transform(np.array([["a"], ["b"], ["c"], ["new"], [None]], dtype=object)).tolist() == [
        [1, 0],
        [0, 1],
        [0, 0],
        [0, 0],
        [0, 0],
    ]


def test_columns_of_one_value_or_of_gaps_are_harmless() -> None:
    pool = np.array([[None, 5.0], [None, 5.0]], dtype=object)
    assert Table().fit(pool).transform(pool).tolist() == [[0, 1, 0], [0, 1, 0]]


def test_columns_are_matched_by_name_and_others_than_the_pools_are_refused() -> None:
    encoder = Table().fit(FRAME)
    assert np.array_equal(encoder.transform(FRAME[["job", "age", "paid"]]), encoder.transform(FRAME))
    with pytest.raises(InvalidInput, match=r"the pool's columns \(age, job, paid\), it lacks paid"):
        encoder.transform(FRAME[["age", "job"]])
    with pytest.raises(InvalidInput, match="the pool's 3 columns, got 2"):
        encoder.transform(FRAME[["age", "job"]].to_numpy())
    with pytest.raises(InvalidInput, match="at least one"):
        Table().fit(FRAME[:0])
    with pytest.raises(InvalidInput, match="shape"):
        Table().fit(["a", "b"])
    with pytest.raises(InvalidInput, match="clip must be > 0, got nan"):
        Table(clip=float("nan")).fit(FRAME)


@pytest.mark.parametrize("cell", [None, float("nan"), float("inf"), "old", b"\xff", "", [1], object(), 10**400])
def test_a_cell_that_does_not_fit_is_a_gap_of_its_row_alone(cell: object) -> None:
    encoder = Table().fit(FRAME)
    rows = [[25.0, "cook", True], [25.0, "cook", True]]
    plain = encoder.transform(rows)
    rows[1][0] = cell
    changed = encoder.transform(rows)
    assert np.array_equal(changed[0], plain[0])
    assert np.array_equal(changed[1], encoder.transform([[None, "cook", True]])[0])
    assert np.isnan(encoder.transform([rows[0], [cell]])[1]).all()


def test_dates_are_numbers_of_days() -> None:
    pool = pd.DataFrame({"on": pd.to_datetime(["2020-01-01", "2020-01-11"]), "n": [0, 1]})
    encoder = Table().fit(pool)
    assert encoder.schema_.columns[0].kind == "date"
    vectors = encoder.transform([["2020-01-06", 0], [pd.Timestamp("2020-01-06"), 0], [18267.0, 0], ["6.1.", 0]])
    assert vectors[:, 0].tolist() == [0, 0, 0, 0]
    assert encoder.transform(pool)[:, 0].tolist() == [-1, 1]


def test_dates_lie_in_a_year_a_week_and_a_day() -> None:
    hours = pd.date_range("2020-01-01", "2023-12-31", freq="7h")
    pool = pd.DataFrame({"when": hours, "group": ["a", "b"] * (len(hours) // 2) + ["a"] * (len(hours) % 2)})
    encoder = Table().fit(Schema.of(pool).pool(pool))  # as a run shows it to the encoder
    days = ["2021-12-31T10:00", "2022-01-01T10:00", "2022-07-01T10:00", "2022-01-08T10:00", "2022-01-01T22:00", None]
    asked = np.array([[None if day is None else np.datetime64(day), "a"] for day in days], dtype=object)
    vectors = encoder.transform(asked)
    assert vectors.shape[1] == 1 + 6 + 2  # when, three circles, two groups
    year, week, day = vectors[:, 1:3], vectors[:, 3:5], vectors[:, 5:7]
    near, far = np.linalg.norm(year[0] - year[1]), np.linalg.norm(year[1] - year[2])
    assert near < 0.02 < 1 < far  # December lies beside January, July opposite
    assert np.array_equal(week[1], week[3]) and not np.array_equal(week[0], week[1])
    assert np.array_equal(day[0], day[1]) and np.linalg.norm(day[1] - day[4]) > 1
    assert not vectors[5, 1:7].any()  # a gap is in the middle of everything
    np.testing.assert_allclose((vectors[:5, 1:7] ** 2).sum(axis=1), 1, rtol=1e-6)  # together as much as one column
    assert Table(calendar=False).fit(Schema.of(pool).pool(pool)).transform(asked).shape[1] == 1 + 2


def test_a_circle_that_the_pool_does_not_fill_is_left_out() -> None:
    def circles(days: list[str]) -> list[str]:
        pool = pd.DataFrame({"when": pd.to_datetime(days), "n": range(len(days))})
        return Table().fit(Schema.of(pool).pool(pool)).encodings_[0].circles  # type: ignore[union-attr]

    assert circles([f"2024-03-{day:02}" for day in range(1, 12)]) == []  # eleven days are less than two weeks
    assert circles([f"2024-03-{day:02}" for day in range(1, 30)]) == ["week"]
    assert circles([f"{year}-03-01" for year in range(1990, 2024)]) == ["week"]  # the same day of every year
    assert circles(["2024-03-01 08:00", "2024-03-01 17:00"]) == ["day"]
