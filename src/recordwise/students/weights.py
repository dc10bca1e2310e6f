"""Class weights and thresholds, as a user writes them and as a student uses them.

A weight multiplies how much a class counts, as in scikit-learn: in the loss of a student of labels, and in the odds of
the one from counts. Weights are given by the names of the declared classes, or in their order. A student knows classes
as numbers from zero on, so names become those numbers once, where the classes are known (`students.spec.placed`).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from numbers import Real
from typing import Any

import numpy as np
from numpy.typing import NDArray

from recordwise.arrays import Doubles
from recordwise.data.cells import number_of, word_of
from recordwise.errors import InvalidInput, real, shown

ClassWeight = str | Mapping[Any, float] | Sequence[float] | None

BALANCED = "balanced"
LARGEST = 1e9  # weight of a class: single floats hold what a sample weighs then


def class_weights(class_weight: ClassWeight, classes: Iterable[Any], mass: Doubles) -> Doubles:
    """(C,) the weight of each class.

    Args:
      mass: (C,) how common the classes are: "balanced" weighs them by its inverse.
    """
    if class_weight is None:
        return np.ones(len(mass))
    if isinstance(class_weight, str) and class_weight == BALANCED:
        return np.asarray(1 / np.maximum(len(mass) * mass / mass.sum(), 1e-9))
    return weights_in_order(class_weight, classes)


def weights_in_order(class_weight: Any, classes: Iterable[Any]) -> Doubles:
    """(C,) weights in the order of the classes; a class that a mapping leaves out weighs 1.

    Names are compared as labels are: by value where classes are numbers, else by their text.
    """
    names = np.asarray(list(classes)).tolist()
    if isinstance(class_weight, Mapping):
        weights = _by_name(class_weight, names)
    elif isinstance(class_weight, Sequence | np.ndarray) and not isinstance(class_weight, str | bytes):
        weights = list(class_weight)
    else:
        raise InvalidInput(
            f"class_weight must be {BALANCED!r}, weights by class or a list of them, got {shown(class_weight)}"
        )
    if len(weights) != len(names):
        missing = len(weights) < len(names)
        which = f"{shown(names[len(weights)])} has none" if missing else f"{shown(weights[len(names)])} is left over"
        raise InvalidInput(f"class_weight must hold one weight for each of {shown(names)}, in this order: {which}")
    for name, weight in zip(names, weights, strict=True):
        if not (isinstance(weight, Real) and 1 / LARGEST <= float(weight) <= LARGEST):
            raise InvalidInput(
                f"class_weight of {shown(name)} must be a number > 0, from {1 / LARGEST:g} to {LARGEST:g}, got "
                f"{shown(weight)}"
            )
    return np.array(weights, dtype=np.float64)


def _by_name(class_weight: Mapping[Any, Any], names: Sequence[Any]) -> list[Any]:
    meaning = word_of if isinstance(names[0], str | bytes) else number_of
    place = {meaning(name): number for number, name in enumerate(names)}
    found: dict[int, Any] = {}
    for name, weight in class_weight.items():
        number = place.get(meaning(name))
        if number is None:
            raise InvalidInput(f"class_weight must name declared classes, {shown(name)} is none of {shown(names)}")
        if number in found:
            raise InvalidInput(f"class_weight must name each class once, {shown(name)} is there twice")
        found[number] = weight
    return [found.get(number, 1.0) for number in range(len(names))]


def check_threshold(threshold: float | None, num_classes: int) -> None:
    """Refuse a threshold that does not part two classes."""
    if threshold is None:
        return
    real(threshold=threshold)
    if num_classes != 2 or not 0 < threshold < 1:
        raise InvalidInput(f"threshold must lie in (0, 1) and needs two classes, got {threshold!r} and {num_classes}")


def unweighted(student: Any, probabilities: NDArray[np.float64]) -> NDArray[np.float64]:
    """(n, C) what a student's probabilities are without its class weights: chances again.

    Weighted log-loss is least at odds that are the weights times the true ones, so dividing by them undoes it.
    """
    weights = getattr(student, "class_weights_", None)
    if weights is None:
        return probabilities
    odds = probabilities.copy()
    odds[:, np.asarray(student.classes_, dtype=np.int64)] /= weights
    return np.asarray(odds / odds.sum(axis=1, keepdims=True))
