from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

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


def test_other_columns_than_the_pools_are_refused() -> None:
    encoder = Table().fit(FRAME)
    with pytest.raises(InvalidInput, match=r"the pool's 3 columns \(age, job, paid\), got 2 \(age, job\)"):
        encoder.transform(FRAME[["age", "job"]])
    with pytest.raises(InvalidInput, match=r"got 3 \(job, age, paid\)"):
        encoder.transform(FRAME[["job", "age", "paid"]])
    with pytest.raises(InvalidInput, match="column 'age' must hold numbers as in the pool"):
        encoder.transform(FRAME.assign(age="old"))
    with pytest.raises(InvalidInput, match="must be finite, row 1 is not"):
        encoder.transform(FRAME.assign(age=[1, np.inf, 2, 3]))
    with pytest.raises(InvalidInput, match="at least one row"):
        Table().fit(FRAME[:0])
    with pytest.raises(InvalidInput, match="clip must be > 0, got nan"):
        Table(clip=float("nan")).fit(FRAME)
