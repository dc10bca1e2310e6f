"""Students that read the release itself, as settings: `learn_from_counts` does the work, and `learn` calls it.

A student that reads counts says `reads_counts` and has the methods below; nobody asks for its class.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, ClassVar, TypeVar

import numpy as np
from sklearn.base import BaseEstimator

from recordwise.data.samples import Kind, Samples, kind_of
from recordwise.errors import InvalidInput, whole
from recordwise.students.counts import Asked, Learnt, learn_from_counts
from recordwise.students.weights import ClassWeight, check_threshold, class_weights

WITHOUT_COUNTS = "linear"  # who learns labels where a release has no counts
HIDDEN = 32  # units of the network that may join, unless somebody says

Taught = TypeVar("Taught")


class FromCounts(BaseEstimator):  # type: ignore[misc]
    """A student that explains the whole table of counts, where a release has one.

    Args:
      hidden: Units of a small network to try on top of the linear student, where there are 50 queries or more and ten
        per class. It joins only where held-out rows of the release are clearly likelier with it. None tries none.
      class_weight: As in scikit-learn: None, "balanced", or weights: by the names of classes as declared, or a list in
        their order. They move probabilities as well as answers.
      threshold: Of two classes, the second is the answer where its probability is at least this; probabilities stay
        as they are. None answers the likelier class.
      teaches: Another student, as in `student_from`: it is taught the class probabilities that were learnt from counts,
        which is how networks and any other classifier learn from counts. None is the student from counts itself.
      seed: Of its choices and of a network's first weights.
    """

    reads_counts: ClassVar[bool] = True

    def __init__(
        self,
        hidden: int | None = HIDDEN,
        class_weight: ClassWeight = None,
        threshold: float | None = None,
        teaches: Any = None,
        seed: int = 0,
    ) -> None:
        self.hidden = hidden
        self.class_weight = class_weight
        self.threshold = threshold
        self.teaches = teaches
        self.seed = seed

    def refuse_mistakes(self, pool: Samples, num_classes: int) -> None:
        """Refuse what it cannot learn from, before anything is paid."""
        if self.teaches is None and kind_of(pool) not in (Kind.VECTORS, Kind.IMAGES):
            raise InvalidInput("student 'counts' learns from numbers: student.input must be 'vectors' here")
        if self.hidden is not None:
            whole(hidden=self.hidden)
        class_weights(self.class_weight, range(num_classes), np.ones(num_classes))
        check_threshold(self.threshold, num_classes)
        if self.teaches is not None and (self.threshold is not None or self.class_weight is not None):
            raise InvalidInput(
                "class_weight and threshold must be left out where another student is taught: say them there"
            )

    def learn(self, pool: Samples, material: Samples, asked: Sequence[Asked]) -> Learnt:
        """What the releases teach.

        Args:
          pool: The pool's vectors.
          material: What a student learns from: the same vectors, or the samples.
        """
        return learn_from_counts(
            material if self.teaches is None else pool,
            asked,
            hidden=self.hidden,
            class_weight=self.class_weight,
            threshold=self.threshold,
            seed=self.seed,
        )

    def without_counts(self, teach: Callable[[Any, Samples], Taught], pool: Samples, material: Samples) -> Taught:
        """What is taught instead where a release has no counts.

        Args:
          teach: Teaches a student, as `student_from` takes it, the pool's labels on vectors or samples.
        """
        asked = {"name": WITHOUT_COUNTS, "class_weight": self.class_weight, "threshold": self.threshold}
        return teach(asked if self.teaches is None else self.teaches, material)


def reads_counts(student: Any) -> bool:
    """Whether a student wants the releases themselves, and not the labels that were decoded from them."""
    return bool(getattr(student, "reads_counts", False))
