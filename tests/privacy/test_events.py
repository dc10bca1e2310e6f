from __future__ import annotations

import json
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from recordwise.errors import InvalidInput
from recordwise.privacy.events import (
    Approximate,
    DiscreteGaussianTally,
    DiscreteLaplaceTally,
    Event,
    Filtered,
    Pure,
    from_json,
    to_json,
)

positives = st.fractions(min_value=Fraction(1, 10**9), max_value=10**9)
counts = st.integers(1, 10**6)
events = st.one_of(
    st.builds(Pure, positives),
    st.builds(DiscreteLaplaceTally, positives, counts),
    st.builds(DiscreteGaussianTally, positives, counts),
    st.builds(Approximate, positives, st.fractions(Fraction(1, 10**12), Fraction(1, 2))),
    st.builds(Filtered, positives, st.text(min_size=1)),
)


@given(events)
def test_an_event_survives_being_written_down(event: Event) -> None:
    assert from_json(json.loads(json.dumps(to_json(event)))) == event


def test_numpy_numbers_are_written_as_numbers() -> None:
    event = DiscreteLaplaceTally(np.float64(0.1), np.int64(2))  # type: ignore[arg-type]
    assert to_json(event) == {"event": "DiscreteLaplaceTally", "scale": "1/10", "cells_changed": 2}
    assert from_json(json.loads(json.dumps(to_json(event)))) == event


@pytest.mark.parametrize("record", [{}, {"event": "Magic"}, {"event": "Pure"}, {"event": "Pure", "scale": "1"}])
def test_records_of_no_event_are_refused(record: dict[str, Any]) -> None:
    with pytest.raises(InvalidInput, match=r"unknown privacy event|has other fields than"):
        from_json(record)


@pytest.mark.parametrize(
    ("kind", "fields", "message"),
    [
        (Pure, (0,), "epsilon must be > 0"),
        (Pure, (float("nan"),), "must be a finite number"),
        (DiscreteLaplaceTally, (0, 1), "scale must be > 0"),
        (DiscreteLaplaceTally, (1, 0), "cells_changed must be a whole number >= 1, got 0"),
        (DiscreteLaplaceTally, (1, 1.5), "cells_changed must be a whole number >= 1, got 1.5"),
        (DiscreteGaussianTally, (-1, 1), "sigma2 must be > 0"),
        (Approximate, (1, 0), "delta must lie strictly between 0 and 1, got 0.0"),
        (Approximate, (1, 1), "delta must lie strictly between 0 and 1, got 1.0"),
        (Filtered, (1, ""), "guard must name a record filter, got ''"),
    ],
)
def test_events_that_cannot_have_happened_are_refused(kind: Any, fields: tuple[Any, ...], message: str) -> None:
    with pytest.raises(InvalidInput, match=message):
        kind(*fields)


def test_the_discrete_gaussian_knows_its_zero_concentrated_cost() -> None:
    # sigma² = kr / rho under replacement, where 2kr cells change.
    assert DiscreteGaussianTally(Fraction(3) / Fraction(1, 7), 6).rho == Fraction(1, 7)
