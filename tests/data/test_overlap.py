from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from recordwise.data import copies, overlap
from recordwise.errors import InvalidInput

small = st.lists(
    st.lists(st.sampled_from([0.0, -0.0, 1.0, 2.5, np.nan]), min_size=3, max_size=3), min_size=1, max_size=8
)


def brute_force(public: np.ndarray, private: np.ndarray) -> list[bool]:
    def same(a: np.ndarray, b: np.ndarray) -> bool:
        return bool(((a == b) | ((a != a) & (b != b))).all())

    return [any(same(a, b) for b in private) for a in public]


@given(public=small, private=small, dtype=st.sampled_from([np.float32, np.float64]))
def test_copies_agree_with_comparing_every_pair(public: list, private: list, dtype: type) -> None:
    a, b = np.array(public, dtype=np.float64), np.array(private, dtype=dtype)
    assert copies(a, b).tolist() == brute_force(a, b)
    assert copies(a.astype(object), b.astype(object)).tolist() == brute_force(a, b)


def test_a_hash_that_always_collides_changes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(overlap, "_hashes", lambda content: np.zeros(len(content), dtype=np.uint64))
    assert copies(np.arange(6).reshape(3, 2), np.array([[2, 3], [7, 7]])).tolist() == [False, True, False]


def test_reading_in_small_chunks_changes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    public, private = np.arange(20).reshape(10, 2), np.arange(10, 40).reshape(15, 2)
    whole = copies(public, private)
    monkeypatch.setattr(overlap, "_CHUNK_BYTES", 32)
    assert copies(public, private).tolist() == whole.tolist() == [False] * 5 + [True] * 5


def test_images_text_and_tables_are_compared_by_value() -> None:
    images = np.random.default_rng(0).integers(0, 255, (6, 5, 5, 3), dtype=np.uint8)
    assert copies(images[:4], images[3:].astype(np.int64)).tolist() == [False, False, False, True]
    assert copies(["a", "b"], np.array(["b", "c"], dtype=object)).tolist() == [False, True]
    frame = pd.DataFrame({"age": [1, 2], "job": ["x", None]})
    assert copies(frame, np.array([[2.0, None]], dtype=object)).tolist() == [False, True]
    assert copies(np.zeros((2, 3)), np.zeros((2, 4))).tolist() == [False, False]


def test_samples_of_two_kinds_are_not_compared() -> None:
    with pytest.raises(InvalidInput, match="must be of one kind, got images and text"):
        copies(["a"], np.zeros((2, 2, 2)))
