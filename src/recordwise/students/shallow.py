"""Students for a first use: a linear one and a small network, both on scaled vectors and without a GPU."""

from __future__ import annotations

import warnings
from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression
from sklearn.neural_network import MLPClassifier

from recordwise.data.samples import Samples
from recordwise.encoders.vectors import Scaler, flat
from recordwise.randomness import seeded


class _Scaled(ClassifierMixin, BaseEstimator, ABC):  # type: ignore[misc]
    """A scikit-learn classifier on samples scaled to unit variance; images are flattened."""

    def fit(self, X: Samples, y: ArrayLike, sample_weight: ArrayLike | None = None) -> Self:
        self.scaler_ = Scaler().fit(X)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)  # the last step is what we want, settled or not
            self.model_ = self._model(len(X)).fit(self.scaler_.transform(X), y, sample_weight=sample_weight)
        self.classes_ = self.model_.classes_
        self.n_features_in_ = self.model_.n_features_in_
        return self

    def predict(self, X: Samples) -> NDArray[Any]:
        return np.asarray(self.model_.predict(self._scaled(X)))

    def predict_proba(self, X: Samples) -> NDArray[np.float64]:
        return np.asarray(self.model_.predict_proba(self._scaled(X)), dtype=np.float64)

    def _scaled(self, X: Samples) -> NDArray[np.float32]:
        return self.scaler_.transform(flat("samples", X))

    @abstractmethod
    def _model(self, num_samples: int) -> Any:
        """The unfitted classifier."""


class Linear(_Scaled):
    """Logistic regression.

    Args:
      strength: Inverse weight of the L2 penalty on the coefficients (scikit-learn's C).
      max_iter: Steps of the solver at most.
    """

    def __init__(self, strength: float = 0.1, max_iter: int = 200) -> None:
        self.strength = strength
        self.max_iter = max_iter

    def _model(self, num_samples: int) -> LogisticRegression:
        return LogisticRegression(C=self.strength, max_iter=self.max_iter)


class Mlp(_Scaled):
    """A network with hidden layers of rectified units, trained by Adam for a fixed number of epochs.

    Args:
      hidden: Units of each hidden layer.
      epochs: Passes over the pool; the last one counts.
      penalty: Weight of the L2 penalty.
      seed: Of its first weights and of the order of samples.
    """

    def __init__(self, hidden: Sequence[int] = (128,), epochs: int = 30, penalty: float = 1e-3, seed: int = 0) -> None:
        self.hidden = hidden
        self.epochs = epochs
        self.penalty = penalty
        self.seed = seed

    def _model(self, num_samples: int) -> MLPClassifier:
        return MLPClassifier(
            tuple(self.hidden),
            alpha=self.penalty,
            batch_size=min(128, max(8, num_samples // 20)),  # a small pool still gets its steps
            max_iter=self.epochs,
            n_iter_no_change=self.epochs,
            random_state=int(seeded(self.seed, "mlp").integers(2**31)),
        )
