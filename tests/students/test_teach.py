from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from sklearn.linear_model import LogisticRegression
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from torch import nn

from recordwise.errors import InvalidInput
from recordwise.students import Linear, Mlp, PerClass, TorchStudent, class_probabilities, student_from, teach

RNG = np.random.default_rng(0)
POOL = RNG.normal(size=(300, 2)).astype(np.float32)
TRUE = (POOL[:, 0] > 0).astype(int) + 2 * (POOL[:, 1] > 0)  # classes 0 to 3, one per quadrant
PROBABILITIES = np.eye(4)[TRUE] * 0.7 + 0.075

STUDENTS = [
    Linear(strength=10.0),
    Mlp(),
    LogisticRegression(),
    make_pipeline(StandardScaler(), LogisticRegression()),
    KNeighborsClassifier(),
    TorchStudent(lambda: nn.Linear(2, 4), epochs=40, rate=0.1),
]


@pytest.mark.parametrize("student", STUDENTS, ids=lambda student: type(student).__name__)
@pytest.mark.parametrize("soft", [False, True])
def test_any_classifier_learns_the_labels_that_count(student: object, soft: bool) -> None:
    wrong = np.arange(300) < 100
    probabilities = np.where(wrong[:, None], 1 - PROBABILITIES[:, ::-1], PROBABILITIES)
    probabilities /= probabilities.sum(axis=1, keepdims=True)
    taught = teach(student_from(student, seed=0), POOL, probabilities, weights=np.where(wrong, 0.0, 0.9), soft=soft)
    assert (taught.predict(POOL) == TRUE).mean() > 0.9
    assert class_probabilities(taught, POOL, 6).shape == (300, 6)


@pytest.mark.parametrize("student", [Linear(), TorchStudent(lambda: nn.Linear(2, 2), epochs=30, rate=0.1)])
def test_soft_labels_teach_how_likely_a_class_is(student: object) -> None:
    probabilities = np.tile([0.2, 0.8], (300, 1))
    soft = teach(student_from(student, seed=0), POOL, probabilities, soft=True)
    np.testing.assert_allclose(soft.predict_proba(POOL)[:, 1], 0.8, atol=0.05)


def test_soft_labels_are_cross_entropy() -> None:
    """Weighted copies give the coefficients that minimising the cross-entropy against the probabilities gives."""
    from scipy.optimize import minimize

    probabilities = RNG.uniform(0.1, 0.9, 300)
    weights = RNG.uniform(0.5, 1.5, 300)
    weights /= weights.mean()

    def loss(w: np.ndarray) -> float:
        z = POOL @ w[:2] + w[2]
        return (
            float((weights * (probabilities * np.logaddexp(0, -z) + (1 - probabilities) * np.logaddexp(0, z))).sum())
            + w[:2] @ w[:2] / 2
        )

    best = minimize(loss, np.zeros(3), tol=1e-10).x
    student = LogisticRegression(tol=1e-8)
    fitted = teach(student, POOL, np.column_stack([1 - probabilities, probabilities]), weights=weights)
    np.testing.assert_allclose([*fitted.coef_[0], fitted.intercept_[0]], best, atol=1e-3)


def test_abstained_samples_are_never_seen() -> None:
    pool = POOL.copy()
    pool[:50] = np.nan
    weights = np.where(np.arange(300) < 50, 0.0, 1.0)
    assert teach(LogisticRegression(), pool, PROBABILITIES, weights=weights).score(POOL[50:], TRUE[50:]) > 0.9


@pytest.mark.parametrize("student", [Linear(), LogisticRegression(), TorchStudent(lambda: nn.Linear(2, 4), epochs=1)])
def test_a_release_that_names_one_class_still_gives_a_student(student: object) -> None:
    taught = teach(student_from(student, seed=0), POOL, np.eye(4)[np.full(300, 2)])
    probabilities = class_probabilities(taught, POOL, 4)
    assert probabilities.shape == (300, 4)
    if not isinstance(student, TorchStudent):
        assert (probabilities.argmax(axis=1) == 2).all()


@pytest.mark.parametrize("student", [Linear(strength=10.0), TorchStudent(lambda: nn.Linear(2, 3), epochs=60, rate=0.1)])
def test_several_classes_at_once_are_learned_one_by_one(student: object) -> None:
    applies = np.column_stack([POOL[:, 0] > 0, POOL[:, 1] > 0, np.zeros(300)]).astype(float)
    taught = teach(student_from(student, seed=0), POOL, applies * 0.9 + 0.05, multi_label=True)
    predicted = taught.predict(POOL)
    assert predicted.shape == (300, 3)
    assert (predicted == applies).mean() > 0.95
    assert class_probabilities(taught, POOL, 3).shape == (300, 3)
    hard = teach(student_from(student, seed=0), POOL, applies * 0.9 + 0.05, multi_label=True, soft=False)
    assert (hard.predict(POOL) == applies).mean() > 0.95


def test_tables_and_texts_are_taught_as_they_are() -> None:
    frame = pd.DataFrame(POOL, columns=["a", "b"])
    taught = teach(make_pipeline(StandardScaler(), LogisticRegression()), frame, PROBABILITIES)
    assert taught.score(frame, TRUE) > 0.9


@pytest.mark.parametrize(
    ("probabilities", "weights", "rule"),
    [
        (PROBABILITIES[:5], None, "as many as the 300 samples"),
        (PROBABILITIES, np.ones(5), "as many as the 300 samples"),
        (PROBABILITIES * np.nan, None, r"probabilities must lie in \[0, 1\]"),
        (PROBABILITIES * 0, None, "must not all be zero"),
        (PROBABILITIES, -np.ones(300), "weights must be finite and >= 0"),
        (PROBABILITIES, np.full(300, np.nan), "weights must be finite and >= 0"),
        (PROBABILITIES, np.zeros(300), "nothing to teach"),
    ],
)
def test_bad_lessons_are_refused(probabilities: np.ndarray, weights: np.ndarray | None, rule: str) -> None:
    with pytest.raises(InvalidInput, match=rule):
        teach(Linear(), POOL, probabilities, weights=weights)


def test_per_class_needs_chances() -> None:
    with pytest.raises(InvalidInput, match=r"probabilities in \[0, 1\] of shape"):
        PerClass(Linear()).fit(POOL, TRUE)
