"""Step 7, teach: a student learns the pool with the labels that the private records voted for.

Post-processing of a private release: whatever is done here costs no privacy.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import replace
from numbers import Real
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.dummy import DummyClassifier
from sklearn.pipeline import Pipeline
from sklearn.utils.validation import has_fit_parameter

from recordwise.arrays import Floats
from recordwise.data.samples import Samples, rows
from recordwise.errors import InvalidInput, RecordwiseError, first_line, shown
from recordwise.students.counts import Asked, Learnt
from recordwise.students.from_counts import FromCounts
from recordwise.students.per_class import PerClass, as_hard
from recordwise.students.spec import student_from


def teach(
    student: Any,
    samples: Samples,
    probabilities: Floats,
    *,
    weights: Floats | None = None,
    soft: bool = True,
    multi_label: bool = False,
) -> Any:
    """The student, fitted; or a stand-in that always answers the same where there is only one answer to learn.

    Args:
      student: A classifier with `fit` and `predict_proba`, as `student_from` builds it. It is fitted in place.
      samples: The m samples of the pool, encoded or raw.
      probabilities: (m, C) the probability of each class for each sample: the soft label of its query.
      weights: (m,) how much each sample counts, such as the chance that noise did not flip its label; those of weight
        zero (of queries that abstained) are left out. One each when None.
      soft: Learn all probabilities, not only the likeliest class. A student that takes no weights cannot, and
        learns the likeliest class.
      multi_label: Every class applies or not on its own; probabilities of a sample need not sum to one.
    """
    targets = np.asarray(probabilities, dtype=np.float64)
    mass = np.ones(len(targets)) if weights is None else np.asarray(weights, dtype=np.float64)
    _check(samples, targets, mass)
    taught = np.flatnonzero(mass > 0)
    samples, targets, mass = rows(samples, taught), targets[taught], mass[taught] / mass[taught].mean()
    if multi_label:
        answers = targets if soft else (targets > 0.5).astype(np.float64)
        learner = student.set_params(multi_label=True) if "multi_label" in student.get_params() else PerClass(student)
        return learner.fit(samples, answers, sample_weight=mass)
    if not targets.sum(axis=1).min() > 0:
        raise InvalidInput("probabilities of a sample must not all be zero unless it may have several classes, or none")
    targets /= targets.sum(axis=1, keepdims=True)
    if getattr(student, "soft_targets", False):
        answers = targets if soft else np.eye(targets.shape[1])[targets.argmax(axis=1)]
        return student.fit(samples, answers, sample_weight=mass)
    weighted = _weight_argument(student)
    if weighted is None or not soft:
        index, classes = np.arange(len(targets)), targets.argmax(axis=1)
    else:
        index, classes, mass = as_hard(targets, mass)
        samples = rows(samples, index)
    if len(np.unique(classes)) == 1:
        return DummyClassifier(strategy="prior").fit(np.zeros((len(classes), 1)), classes)
    return student.fit(samples, classes, **({} if weighted is None else {weighted: mass}))


def learn(student: FromCounts, pool: Samples, material: Samples, asked: Sequence[Asked]) -> Learnt:
    """What the releases teach: the student that explains them best, or another one that is taught by it.

    Args:
      pool: The pool's vectors.
      material: What a student learns from: the same vectors, or the samples.
    """
    learnt = student.learn(pool, material, asked)
    if student.teaches is None:
        return learnt
    other = teach(student_from(student.teaches, seed=student.seed), material, learnt.probabilities)
    return replace(learnt, student=other)


def try_student(student: Any, samples: Samples, num_classes: int, *, several: bool = False) -> None:
    """Refuse a student that cannot be taught, before labels are paid for.

    It is taught some of the pool with made-up labels; a thousand, so that components or folds do not run out of them.
    One that can refuse mistakes itself, as a torch module does, is only asked: it may take long to teach.
    """
    if callable(getattr(student, "refuse_mistakes", None)):
        student.refuse_mistakes(samples, num_classes)
        if getattr(student, "teaches", None) is not None:
            try_student(student_from(student.teaches, seed=student.seed), samples, num_classes)
        return
    count = min(len(samples), max(1000, 10 * num_classes))
    some = rows(samples, np.linspace(0, len(samples) - 1, count).astype(np.int64))
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            teach(student, some, np.eye(num_classes)[np.arange(count) % num_classes], multi_label=several)
    except RecordwiseError:
        raise
    except Exception as fault:
        raise InvalidInput(
            f"student must learn from {count} of the pool's samples, it failed: {first_line(fault)}"
        ) from fault


def refuse_weights(student: Any) -> None:
    """Refuse class weights and thresholds, of a student or of a part of it, where a release is of choices alone.

    It does not say how pure queries are, so soft labels are about the same guess for all, and weights or a threshold
    beyond it would answer one class everywhere.
    """
    if getattr(student, "teaches", None) is not None:
        refuse_weights(student_from(student.teaches, seed=student.seed))
    settings = student.get_params() if hasattr(student, "get_params") else {}
    asked = [("class_weight", value) for name, value in settings.items() if name.split("__")[-1] == "class_weight"]
    # A part that is no classifier may cut something else, such as columns.
    parts = [student, *(part for part in settings.values() if hasattr(part, "predict_proba"))]
    cuts = [getattr(part, "threshold", None) for part in parts]
    asked += [("threshold", cut) for cut in cuts if isinstance(cut, Real)]
    for name, value in asked:
        if value is not None:
            raise InvalidInput(
                f"student.{name} needs a mechanism that releases counts, such as 'auto' takes, got {shown(value)}: "
                "without counts nothing shows how many of a query's records have its label, and every sample may get "
                "the same answer"
            )


def _check(samples: Samples, targets: NDArray[np.float64], mass: NDArray[np.float64]) -> None:
    if targets.ndim != 2 or len(targets) != len(samples) or mass.shape != (len(samples),):
        raise InvalidInput(
            f"probabilities and weights must be as many as the {len(samples)} samples, got {targets.shape} and "
            f"{mass.shape}"
        )
    if not ((targets >= 0) & (targets <= 1 + 1e-9)).all():
        raise InvalidInput("probabilities must lie in [0, 1]")
    if not (np.isfinite(mass) & (mass >= 0)).all():
        raise InvalidInput("weights must be finite and >= 0")
    if not mass.any():
        raise InvalidInput("there is nothing to teach: every sample has weight zero; abstain less, or spend more")


def _weight_argument(student: Any) -> str | None:
    """The keyword under which a classifier's `fit` takes weights."""
    if isinstance(student, Pipeline):
        name, last = student.steps[-1]
        return f"{name}__sample_weight" if has_fit_parameter(last, "sample_weight") else None
    return "sample_weight" if has_fit_parameter(student, "sample_weight") else None
