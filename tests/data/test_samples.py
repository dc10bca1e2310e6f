from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from recordwise.data import Kind, kind_of, rows
from recordwise.errors import InvalidInput

MIXED = pd.DataFrame({"a": [1.0, 2.0], "b": ["x", "y"]})


@pytest.mark.parametrize(
    ("samples", "kind"),
    [
        (np.zeros((2, 28, 28), np.uint8), Kind.IMAGES),
        (np.zeros((2, 8, 8, 3), np.float32), Kind.IMAGES),
        (["a", "b"], Kind.TEXT),
        (np.array(["a", "b"]), Kind.TEXT),
        (np.array(["a", "b"], dtype=object), Kind.TEXT),
        (pd.Series(["a", "b"]), Kind.TEXT),
        (MIXED, Kind.TABLE),
        (MIXED.astype({"b": "category"}), Kind.TABLE),
        (MIXED.to_numpy(), Kind.TABLE),
        (MIXED[["a"]], Kind.VECTORS),
        (np.zeros((2, 3)), Kind.VECTORS),
        ([[1, 2], [3, 4]], Kind.VECTORS),
    ],
)
def test_the_kind_follows_from_type_and_shape(samples: object, kind: Kind) -> None:
    assert kind_of(samples) is kind


@pytest.mark.parametrize("samples", [np.zeros(3), np.zeros((1, 1, 1, 1, 1)), 5, np.zeros((2, 2, 2), dtype="U1")])
def test_other_samples_are_refused(samples: object) -> None:
    with pytest.raises(InvalidInput, match="samples must be images"):
        kind_of(samples)


@pytest.mark.parametrize("samples", [MIXED, MIXED.to_numpy(), ["a", "b"], np.arange(2)])
def test_rows_keeps_type_and_order(samples: object) -> None:
    taken = rows(samples, np.array([1, 0]))
    assert type(taken) is type(samples)
    again = rows(taken, np.array([1, 0]))
    assert (
        again.equals(samples) if isinstance(samples, pd.DataFrame) else list(map(str, again)) == list(map(str, samples))
    )
