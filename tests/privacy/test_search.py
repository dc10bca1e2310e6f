"""The least value that is enough: it is, and hardly less is not."""

from __future__ import annotations

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from recordwise.errors import OutOfRegime
from recordwise.privacy.search import least, least_noise


@given(border=st.floats(1e-6, 1e6), high=st.floats(1e-3, 1e3))
def test_what_is_found_is_enough_and_close_to_the_border(border: float, high: float) -> None:
    found = least(lambda value: value >= border, 0.0, high, within=1e-6)
    assert border <= found <= border * (1 + 2e-6)


def test_fractions_stay_exact_and_nothing_below_the_start_is_tried() -> None:
    tried: list[Fraction] = []
    found = least(lambda x: not tried.append(x) and x * x >= 2, Fraction(1), Fraction(2), within=Fraction(1, 1000))  # type: ignore[func-returns-value]
    assert isinstance(found, Fraction) and found * found >= 2 > (found * Fraction(998, 1000)) ** 2
    assert min(tried) > 1


def test_it_ends_where_anything_above_zero_is_enough() -> None:
    assert 0 < least(lambda value: value > 0, 0.0, 1.0, within=1e-3) < 1e-300
    assert 0 < least(lambda value: True, 0.0, 1.0, within=1e-3) < 1e-300


def test_a_search_without_an_end_is_refused() -> None:
    with pytest.raises(OutOfRegime, match="nothing will do"):
        least(lambda value: False, 0.0, 1.0, within=1e-3, most=100, beyond="nothing will do")
    with pytest.raises(OutOfRegime, match=r"no amount of noise reaches epsilon 0.1 at delta 1e-06"):
        least_noise(lambda value: False, epsilon=0.1, delta=1e-6)
    with pytest.raises(OutOfRegime):
        least(lambda value: value != value, 0.0, 1.0, within=1e-3)
