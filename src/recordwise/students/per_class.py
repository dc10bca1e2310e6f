"""Any classifier as a student of samples that may have several classes: one copy of it per class."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, ClassifierMixin, clone
from sklearn.dummy import DummyClassifier

from recordwise.data.samples import Samples, rows
from recordwise.errors import InvalidInput
from recordwise.progress import part

NEGLIGIBLE = 0.01  # probabilities that are not taught


class PerClass(ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """Independent yes-or-no classifiers, one per class.

    Args:
      student: A classifier that accepts `sample_weight`; each class gets a copy.
    """

    def __init__(self, student: Any) -> None:
        self.student = student

    def state(self) -> dict[str, Any]:
        """All that it needs to be stored (`recordwise.stored`); what it was made from is not part of it."""
        return {"students": self.students_}

    @classmethod
    def from_state(cls, state: dict[str, Any]) -> Self:
        made = cls(None)
        made.students_ = list(state["students"])
        made.classes_ = np.arange(len(made.students_))
        return made

    def fit(self, X: Samples, y: ArrayLike, sample_weight: ArrayLike | None = None) -> Self:
        """Learn from probabilities (n, C) that each class applies: zeros and ones, or anything between."""
        probabilities = np.asarray(y, dtype=np.float64)
        if probabilities.ndim != 2 or not ((probabilities >= 0) & (probabilities <= 1)).all():
            raise InvalidInput(
                f"targets must be probabilities in [0, 1] of shape (n, C), got shape {probabilities.shape}"
            )
        weights = np.ones(len(probabilities)) if sample_weight is None else np.asarray(sample_weight, dtype=np.float64)
        self.students_ = []
        for number, column in enumerate(probabilities.T):
            with part(number, number + 1, probabilities.shape[1]):
                self.students_.append(self._one(X, column, weights))
        self.classes_ = np.arange(probabilities.shape[1])
        return self

    def predict_proba(self, X: Samples) -> NDArray[np.float64]:
        """(n, C) the probability that each class applies; rows need not sum to one."""
        return np.column_stack([_probability_of_one(student, X) for student in self.students_])

    def predict(self, X: Samples) -> NDArray[np.int64]:
        """(n, C) ones for the classes that apply."""
        return (self.predict_proba(X) > 0.5).astype(np.int64)

    def _one(self, X: Samples, probability: NDArray[np.float64], weights: NDArray[np.float64]) -> Any:
        index, answers, mass = as_hard(np.column_stack([1 - probability, probability]), weights)
        only_one = len(np.unique(answers)) == 1
        student = DummyClassifier(strategy="prior") if only_one else clone(self.student)
        return student.fit(rows(X, index), answers, sample_weight=mass)


def as_hard(
    probabilities: NDArray[np.float64], weights: NDArray[np.float64]
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.float64]]:
    """Soft labels as weighted hard ones: (sample, class, weight) for every probability that is not negligible.

    Cross-entropy against (n, C) probabilities is the sum over classes of probability times log-loss, so a classifier
    that accepts weights minimises it without knowing of soft labels. A sample's likeliest class is always kept.
    """
    kept = (probabilities > NEGLIGIBLE) | (probabilities >= probabilities.max(axis=1, keepdims=True))
    kept &= weights[:, None] > 0
    index, classes = np.nonzero(kept)
    mass = probabilities[index, classes] * weights[index]
    seen = mass > 0
    return index[seen], classes[seen], mass[seen]


def _probability_of_one(student: Any, X: Samples) -> NDArray[np.float64]:
    probabilities = student.predict_proba(X)
    column = np.flatnonzero(student.classes_ == 1)
    return np.asarray(probabilities[:, column[0]] if len(column) else np.zeros(len(probabilities)), dtype=np.float64)
