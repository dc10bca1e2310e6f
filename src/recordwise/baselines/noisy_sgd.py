"""Noisy SGD on one linear layer over public features (Abadi et al. 2016): the straightforward competitor.

Its guarantee is of another kind than ours and is named wherever it is shown: approximate, (epsilon, delta), one record,
add or remove. The noise is floating-point Gaussian, as in common implementations; ours is exact and on integers.
"""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils.validation import check_is_fitted

from recordwise.arrays import as_vectors
from recordwise.errors import positive, probability
from recordwise.privacy.guarantee import Guarantee, Neighbours, Trust
from recordwise.randomness import seeded


class NoisySGDHead(ClassifierMixin, BaseEstimator):  # type: ignore[misc]  # scikit-learn is not typed
    """Softmax regression trained on Poisson batches with clipped, noised gradients.

    Args:
      epsilon: With `delta`, what the whole training may cost.
      delta: The usual 1e-5.
      epochs: Passes over the records, on average.
      batch_size: Records per step, on average.
      learning_rate: Of plain gradient steps on the mean clipped gradient.
      clip: Each record's gradient is shortened to this length.
      random_state: Seeds batches and noise: for comparisons, not for publishing a model.
    """

    def __init__(
        self,
        epsilon: float = 1.0,
        *,
        delta: float = 1e-5,
        epochs: int = 40,
        batch_size: int = 256,
        learning_rate: float = 4.0,
        clip: float = 1.0,
        random_state: int = 0,
    ) -> None:
        self.epsilon = epsilon
        self.delta = delta
        self.epochs = epochs
        self.batch_size = batch_size
        self.learning_rate = learning_rate
        self.clip = clip
        self.random_state = random_state

    def fit(self, X: ArrayLike, y: ArrayLike) -> Self:
        positive(epsilon=self.epsilon, learning_rate=self.learning_rate, clip=self.clip)
        probability(delta=self.delta)
        vectors = _with_intercept(as_vectors("X", X))
        self.classes_, targets = np.unique(np.asarray(y), return_inverse=True)
        num_records, num_classes = len(vectors), len(self.classes_)
        rate = min(1.0, self.batch_size / num_records)
        steps = max(1, round(self.epochs / rate))
        self.noise_multiplier_ = _noise_multiplier(self.epsilon, self.delta, rate, steps)
        rng = seeded(self.random_state, "noisy-sgd")
        lengths = np.linalg.norm(vectors, axis=1)
        weights = np.zeros((vectors.shape[1], num_classes))
        for _ in range(steps):
            batch = np.flatnonzero(rng.random(num_records) < rate)
            errors = _softmax(vectors[batch] @ weights)
            errors[np.arange(len(batch)), targets[batch]] -= 1
            # A record's gradient is the outer product of its vector and its error, so its length is a product too.
            norms = lengths[batch] * np.linalg.norm(errors, axis=1)
            errors *= np.minimum(1, self.clip / np.maximum(norms, 1e-12))[:, None]
            noise = rng.normal(scale=self.noise_multiplier_ * self.clip, size=weights.shape)
            weights -= self.learning_rate * (vectors[batch].T @ errors + noise) / (rate * num_records)
        self.weights_ = weights
        self.n_features_in_ = vectors.shape[1] - 1
        return self

    @property
    def guarantee_(self) -> Guarantee:
        """What the method promises; its noise was seeded here, so a model trained by this class is not private."""
        return Guarantee(
            epsilon=Fraction(str(self.epsilon)),
            delta=Fraction(str(self.delta)),
            neighbours=Neighbours.ADD_REMOVE,
            trust=Trust.CENTRAL,
            private=False,
        )

    def predict_proba(self, X: ArrayLike) -> NDArray[np.float64]:
        check_is_fitted(self)
        return _softmax(_with_intercept(as_vectors("X", X, dim=self.n_features_in_)) @ self.weights_)

    def predict(self, X: ArrayLike) -> NDArray[np.generic]:
        probabilities = self.predict_proba(X)
        predicted: NDArray[np.generic] = self.classes_[probabilities.argmax(axis=1)]
        return predicted


def _with_intercept(vectors: NDArray[np.float32]) -> NDArray[np.float64]:
    return np.hstack([vectors.astype(np.float64), np.ones((len(vectors), 1))])


def _softmax(scores: NDArray[np.float64]) -> NDArray[np.float64]:
    powers = np.exp(scores - scores.max(axis=1, keepdims=True, initial=-math.inf))
    return np.asarray(powers / powers.sum(axis=1, keepdims=True))


def _noise_multiplier(epsilon: float, delta: float, rate: float, steps: int) -> float:
    """The least noise with which `steps` sampled Gaussian steps cost (epsilon, delta), by a Rényi accountant."""
    from dp_accounting import PoissonSampledDpEvent, SelfComposedDpEvent, calibrate_dp_mechanism
    from dp_accounting import dp_event as events
    from dp_accounting.rdp import RdpAccountant

    def training(multiplier: float) -> SelfComposedDpEvent:
        return SelfComposedDpEvent(PoissonSampledDpEvent(rate, events.GaussianDpEvent(multiplier)), steps)

    # Whole orders only: the library's series for fractional ones does not converge at these sampling rates.
    orders = [*range(2, 64), *range(64, 513, 16)]
    return float(calibrate_dp_mechanism(lambda: RdpAccountant(orders), training, epsilon, delta))
