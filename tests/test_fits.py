"""Fits without a ledger add up, and are said to."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV

from recordwise.distiller import PrivateDistiller
from recordwise.fits import RepeatedFit, _seen, uncounted
from recordwise.privacy.noise import Noise, SeededNoise
from recordwise.randomness import seeded

TRUTH = np.arange(200) % 2
POINTS = 9.0 * TRUTH[:, None] + seeded(0, "points").normal(size=(200, 2))
POOL, X, Y = POINTS[:80], POINTS[80:], TRUTH[80:]


@pytest.fixture(autouse=True)
def _nothing_fitted_yet() -> None:
    _seen.forget()


def distiller(**settings: Any) -> PrivateDistiller:
    return PrivateDistiller(**{"epsilon": 1.5, "num_queries": 4, "classes": [0, 1], **settings})


def told(
    one: PrivateDistiller, samples: Any = X, labels: Any = Y, pool: Any = POOL, noise: Noise | None = None
) -> list[str]:
    """What a fit says about fits before."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        one.fit(samples, labels, X_public=pool, noise=noise)
    return [str(said.message) for said in caught if issubclass(said.category, RepeatedFit)]


def test_the_second_fit_says_what_both_cost_and_clones_are_counted_too() -> None:
    one = distiller()
    assert told(one) == []
    (second,) = told(clone(one))
    assert "fit number 2 on some of these records" in second and "at epsilon 3 in all, not at 1.5" in second
    (third,) = told(distiller(epsilon=1.0, delta=1e-6, mechanism="gaussian"))
    assert "fit number 3" in third and " and delta 1e-06 in all" in third
    with uncounted():
        assert told(one) == []
    assert "fit number 4" in told(one)[0]


def test_records_are_counted_and_not_data_sets() -> None:
    """Folds differ, and share records: the fold that was fitted on its own is new, the shared part is not."""
    assert told(distiller(), X[:60], Y[:60]) == []
    assert told(distiller(), X[60:], Y[60:]) == []
    (both,) = told(distiller(), X[50:70], Y[50:70])
    assert "fit number 2" in both
    assert "fit number 3" in told(distiller(), X[65:], Y[65:])[0]


def test_a_grid_search_says_it() -> None:
    class WithPool(PrivateDistiller):
        def fit(self, X: Any, y: Any) -> WithPool:
            return super().fit(X, y, X_public=POOL)

    search = GridSearchCV(WithPool(1.0, classes=[0, 1]), {"num_queries": [3, 4]}, cv=3)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        search.fit(X, Y)
    said = [str(one.message) for one in caught if issubclass(one.category, RepeatedFit)]
    # Two settings times three folds, of which a record is in two, and a last fit on all of them.
    assert "fit number 5 on some of these records" in said[-1] and "at epsilon 5 in all, not at 1" in said[-1]


def test_what_is_accounted_for_or_not_private_or_not_new_is_not_counted(tmp_path: Path) -> None:
    for _ in range(2):
        assert told(distiller(), noise=SeededNoise(0)) == []
        assert told(distiller(account={"ledger": tmp_path / "ledger.sqlite", "budget_epsilon": 100})) == []
        assert told(distiller(account={"run_dir": tmp_path / "run"})) == []  # the second time the same release


@pytest.mark.parametrize("kind", ["words", "table"])
def test_samples_of_every_kind_are_told_apart(kind: str) -> None:
    words = np.array([f"{'cat' if label else 'dog'} number {row}" for row, label in enumerate(TRUTH)], dtype=object)
    samples = words.tolist() if kind == "words" else np.column_stack([words, POINTS.astype(object)])
    one = distiller(encoder="text" if kind == "words" else "table")
    assert told(one, samples[80:120], TRUTH[80:120], samples[:80]) == []
    assert told(one, samples[120:], TRUTH[120:], samples[:80]) == []
    assert len(told(one, samples[110:], TRUTH[110:], samples[:80])) == 1


def test_a_record_that_cannot_be_written_down_is_counted_and_raises_nothing() -> None:
    odd = [[10**5000, 1.0], *X[1:].tolist()]  # Python spells no number of so many digits
    assert told(distiller(), samples=odd) == []
    assert len(told(distiller(), samples=odd)) == 1
