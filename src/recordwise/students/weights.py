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
from sklearn.base import clone
from sklearn.svm import SVC, NuSVC

from recordwise.arrays import Doubles
from recordwise.data.cells import number_of, word_of
from recordwise.errors import InvalidInput, real, shown

ClassWeight = str | Mapping[Any, float] | Sequence[float] | None

BALANCED = "balanced"
WEIGHTS, THRESHOLD = "class weights", "threshold"  # how a reader is told of them
_SETTING = "class_weight"
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


def weights_of(student: Any) -> Doubles | None:
    """(C,) by what a taught student's odds were multiplied, in the order of its `classes_`.

    None where that is not known of a classifier of the user's: weights that it works out itself ("balanced"), that a
    part of it has, or that a support vector machine has, whose probabilities are fitted without them.
    """
    known = getattr(student, "class_weights_", None)
    if known is not None:
        return np.asarray(known, dtype=np.float64)
    given = _asked(student).get(_SETTING)
    if not isinstance(given, Mapping) or isinstance(student, SVC | NuSVC):
        return None
    return np.array([given.get(place, 1.0) for place in np.asarray(student.classes_).tolist()], dtype=np.float64)


def rules_in_words(student: Any, classes: Sequence[str]) -> dict[str, str]:
    """How a taught student was told to choose between classes, by what it is called; nothing where it was not."""
    weights, found = weights_of(student), {}
    copies = getattr(student, "students_", ())  # of sets, each class has a copy that says whether it is there
    if weights is not None and (weights != 1).any():
        found[WEIGHTS] = _named(dict(zip(student.classes_, weights, strict=True)), classes)
    for one in copies or (student,):
        if weights is None and (asked := _asked(one)):
            found[WEIGHTS] = "; ".join(_named(each, ("no", "yes") if copies else classes) for each in asked.values())
    if _is_ours(student) and student.threshold is not None:
        found[THRESHOLD] = f"it answers {classes[1]} where its probability is at least {student.threshold:.4g}"
    return found


def without_rules(student: Any) -> Any:
    """The same kind of student, not taught, without class weights and a threshold of its own."""
    rules = dict.fromkeys([*_asked(student), *([THRESHOLD] if _is_ours(student) else [])])
    return clone(student).set_params(**rules) if rules else student


def _asked(student: Any) -> dict[str, Any]:
    """The class weights that a student and its parts were made with, by the names of the settings."""
    if isinstance(student, type) or not hasattr(student, "get_params"):
        return {}
    held = student.get_params()
    return {name: one for name, one in held.items() if name.split("__")[-1] == _SETTING and one is not None}


def _is_ours(student: Any) -> bool:
    """Whether it is one whose weights are kept when it is taught, and which may have a threshold."""
    return hasattr(student, "class_weights_") and hasattr(student, "threshold")


def _named(class_weight: Any, classes: Sequence[str]) -> str:
    """Weights by place with the names of classes, or what a classifier works out itself."""
    if not isinstance(class_weight, Mapping):
        return str(class_weight)
    return ", ".join(f"{classes[int(place)]} {weight:.4g}" for place, weight in class_weight.items())


def unweighted(student: Any, probabilities: NDArray[np.float64]) -> NDArray[np.float64]:
    """(n, C) what a student's probabilities are without the class weights that are known of it: chances again.

    Weighted log-loss is least at odds that are the weights times the true ones, so dividing by them undoes it.
    """
    weights = weights_of(student)
    if weights is None:
        return probabilities
    odds = probabilities.copy()
    odds[:, np.asarray(student.classes_, dtype=np.int64)] /= weights
    return np.asarray(odds / odds.sum(axis=1, keepdims=True))
