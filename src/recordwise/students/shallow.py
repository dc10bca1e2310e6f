"""Students for a first use: a linear one and a small network, both on scaled vectors and without a GPU."""

from __future__ import annotations

import warnings
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from itertools import pairwise
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression
from sklearn.neural_network import MLPClassifier
from sklearn.preprocessing import LabelBinarizer
from sklearn.utils.class_weight import compute_class_weight

from recordwise.arrays import Doubles
from recordwise.data.samples import Samples
from recordwise.encoders.vectors import Scaler, flat
from recordwise.errors import InvalidInput
from recordwise.progress import done
from recordwise.randomness import seeded
from recordwise.students.weights import ClassWeight, check_threshold, class_weights


class _Scaled(ClassifierMixin, BaseEstimator, ABC):  # type: ignore[misc]
    """A scikit-learn classifier on samples scaled to unit variance; images are flattened.

    Subclasses have the settings `class_weight` and `threshold`.
    """

    class_weight: ClassWeight
    threshold: float | None

    def fit(self, X: Samples, y: ArrayLike, sample_weight: ArrayLike | None = None) -> Self:
        classes, place = np.unique(np.ravel(y), return_inverse=True)
        check_threshold(self.threshold, len(classes))
        mass = np.ones(len(place)) if sample_weight is None else np.asarray(sample_weight, dtype=np.float64)
        self.class_weights_ = self._weights(classes, np.bincount(place, weights=mass).astype(np.float64))
        if self.class_weight is not None:
            sample_weight = mass * self.class_weights_[place]
        self.scaler_ = Scaler().fit(X)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)  # the last step is what we want, settled or not
            self.model_ = self._model(len(X))
            with self._watched(self.model_):
                self.model_.fit(self.scaler_.transform(X), y, sample_weight=sample_weight)
        self.classes_ = self.model_.classes_
        self.n_features_in_ = self.model_.n_features_in_
        return self

    def _weights(self, classes: NDArray[Any], mass: Doubles) -> Doubles:
        """(C,) of the classes that are there; a mapping may know more."""
        if isinstance(self.class_weight, Mapping):
            return np.asarray(compute_class_weight(dict(self.class_weight), classes=classes, y=classes))
        return class_weights(self.class_weight, classes, mass)

    def _watched(self, model: Any) -> AbstractContextManager[None]:
        """Says how far its training is, where scikit-learn lets it be known."""
        return nullcontext()

    def predict(self, X: Samples) -> NDArray[Any]:
        """(n,) the likeliest class; of two, the second where its probability reaches the threshold."""
        if self.threshold is not None:
            return np.asarray(self.classes_[(self.predict_proba(X)[:, 1] >= self.threshold).astype(np.int64)])
        return np.asarray(self.model_.predict(self._scaled(X)))

    def predict_proba(self, X: Samples) -> NDArray[np.float64]:
        return np.asarray(self.model_.predict_proba(self._scaled(X)), dtype=np.float64)

    def _scaled(self, X: Samples) -> NDArray[np.float32]:
        return self.scaler_.transform(flat("samples", X))

    def state(self) -> dict[str, Any]:
        """All that it needs to be stored (`recordwise.stored`): settings, the scaler, and what was learned."""
        weights = None if self.class_weight is None else self.class_weights_.tolist()
        kept = {**self.get_params(), "class_weight": weights, "scaler": self.scaler_, "classes": self.classes_}
        return {**kept, **self._learned()}

    @classmethod
    def from_state(cls, state: dict[str, Any]) -> Self:
        """The student whose `state` this is; what no fitting leaves is refused."""
        settings = {name: state.pop(name, default) for name, default in cls().get_params().items()}
        made = cls(**settings)
        made.scaler_, made.classes_ = state.pop("scaler"), state.pop("classes")
        made.n_features_in_ = len(made.scaler_.mean_)
        made.model_ = made._model(1)
        made.model_.classes_, made.model_.n_features_in_ = made.classes_, made.n_features_in_
        made.class_weights_ = class_weights(made.class_weight, made.classes_, np.ones(len(made.classes_)))
        check_threshold(made.threshold, len(made.classes_))
        outputs = 1 if len(made.classes_) == 2 else len(made.classes_)
        if type(made.scaler_) is not Scaler or made.classes_.ndim != 1 or not made._learn(outputs, **state):
            raise InvalidInput(f"must be such as fitting leaves it, this {cls.__name__} is not")
        return made

    @abstractmethod
    def _model(self, num_samples: int) -> Any:
        """The unfitted classifier."""

    @abstractmethod
    def _learned(self) -> dict[str, Any]:
        """What the classifier learned."""

    @abstractmethod
    def _learn(self, outputs: int, **learned: Any) -> bool:
        """Put that into the classifier; False where it does not fit together."""


class Linear(_Scaled):
    """Logistic regression.

    Args:
      strength: Inverse weight of the L2 penalty on the coefficients (scikit-learn's C).
      max_iter: Steps of the solver at most.
      class_weight: As in scikit-learn: None, "balanced", or weights: by class, or a list in the order of classes.
      threshold: Of two classes, the second is the answer where its probability is at least this; None answers the
        likelier class.
    """

    def __init__(
        self,
        strength: float = 0.1,
        max_iter: int = 200,
        class_weight: ClassWeight = None,
        threshold: float | None = None,
    ) -> None:
        self.strength = strength
        self.max_iter = max_iter
        self.class_weight = class_weight
        self.threshold = threshold

    def _model(self, num_samples: int) -> LogisticRegression:
        return LogisticRegression(C=self.strength, max_iter=self.max_iter)

    def _learned(self) -> dict[str, Any]:
        return {"coefficients": self.model_.coef_, "intercept": self.model_.intercept_}

    def _learn(self, outputs: int, **learned: Any) -> bool:
        self.model_.coef_, self.model_.intercept_ = learned["coefficients"], learned["intercept"]
        shapes = learned["coefficients"].shape, learned["intercept"].shape
        return bool(shapes == ((outputs, self.n_features_in_), (outputs,)))


class Mlp(_Scaled):
    """A network with hidden layers of rectified units, trained by Adam for a fixed number of epochs.

    Args:
      hidden: Units of each hidden layer.
      epochs: Passes over the pool; the last one counts.
      penalty: Weight of the L2 penalty.
      seed: Of its first weights and of the order of samples.
      class_weight: As in scikit-learn: None, "balanced", or weights: by class, or a list in the order of classes.
      threshold: Of two classes, the second is the answer where its probability is at least this; None answers the
        likelier class.
    """

    def __init__(
        self,
        hidden: Sequence[int] = (128,),
        epochs: int = 30,
        penalty: float = 1e-3,
        seed: int = 0,
        class_weight: ClassWeight = None,
        threshold: float | None = None,
    ) -> None:
        self.hidden = hidden
        self.epochs = epochs
        self.penalty = penalty
        self.seed = seed
        self.class_weight = class_weight
        self.threshold = threshold

    def _model(self, num_samples: int) -> MLPClassifier:
        return MLPClassifier(
            tuple(self.hidden),
            alpha=self.penalty,
            batch_size=min(128, max(8, num_samples // 20)),  # a small pool still gets its steps
            max_iter=self.epochs,
            n_iter_no_change=self.epochs,
            random_state=int(seeded(self.seed, "mlp").integers(2**31)),
        )

    @contextmanager
    def _watched(self, model: MLPClassifier) -> Iterator[None]:
        after_epoch = model._update_no_improvement_count  # scikit-learn has no other place to stand and watch

        def counted(*args: Any, **more: Any) -> None:
            done(model.n_iter_, self.epochs)
            after_epoch(*args, **more)

        model._update_no_improvement_count = counted
        try:
            yield
        finally:
            del model._update_no_improvement_count

    def _learned(self) -> dict[str, Any]:
        return {"weights": self.model_.coefs_, "biases": self.model_.intercepts_}

    def _learn(self, outputs: int, **learned: Any) -> bool:
        model, weights, biases = self.model_, learned["weights"], learned["biases"]
        model.coefs_, model.intercepts_ = weights, biases
        model.n_layers_, model.n_outputs_ = len(weights) + 1, outputs
        model.out_activation_ = "logistic" if outputs == 1 else "softmax"
        model._label_binarizer = LabelBinarizer().fit(self.classes_)
        sizes = (self.n_features_in_, *self.hidden, outputs)
        return [w.shape for w in weights] == list(pairwise(sizes)) and [b.shape for b in biases] == [
            (size,) for size in sizes[1:]
        ]
