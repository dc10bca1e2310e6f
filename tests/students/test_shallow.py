from __future__ import annotations

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.datasets import load_digits
from sklearn.linear_model import LogisticRegression
from sklearn.preprocessing import StandardScaler

from recordwise.students import Linear, Mlp

X, Y = load_digits(return_X_y=True)
HALF = len(X) // 2


def test_linear_is_logistic_regression_on_scaled_samples() -> None:
    scaler = StandardScaler().fit(X[:HALF])
    reference = LogisticRegression(C=0.1, max_iter=200).fit(scaler.transform(X[:HALF]), Y[:HALF])
    ours = Linear().fit(X[:HALF], Y[:HALF])
    np.testing.assert_allclose(
        ours.predict_proba(X[HALF:]), reference.predict_proba(scaler.transform(X[HALF:])), atol=1e-3
    )


@pytest.mark.parametrize("student", [Linear(), Mlp()])
def test_students_learn_digits(student: Linear | Mlp) -> None:
    fitted = clone(student).fit(X[:HALF], Y[:HALF])
    assert fitted.score(X[HALF:], Y[HALF:]) > 0.9
    images = X.reshape(-1, 8, 8)
    assert np.array_equal(clone(student).fit(images[:HALF], Y[:HALF]).predict(images), fitted.predict(X))


def test_a_network_is_a_function_of_its_seed() -> None:
    first, again, other = (Mlp(hidden=(8,), epochs=3, seed=seed).fit(X, Y).predict_proba(X[:9]) for seed in (1, 1, 2))
    assert np.array_equal(first, again)
    assert not np.array_equal(first, other)
