"""Students that read the release itself, as settings: `learn_from_counts` does the work."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from sklearn.base import BaseEstimator

from recordwise.data.samples import Kind, Samples, kind_of
from recordwise.errors import InvalidInput
from recordwise.students.counts import Asked, Learnt, learn_from_counts


class FromCounts(BaseEstimator):  # type: ignore[misc]
    """A student that explains the whole table of counts, where a release has one.

    Args:
      hidden: Units of a small network to try on top of the linear student; None tries none.
      class_weight: As in scikit-learn, by the place of each class in `classes_`: None, "balanced" or a mapping.
      seed: Of its choices and of a network's first weights.
    """

    def __init__(
        self, hidden: int | None = None, class_weight: str | Mapping[int, float] | None = None, seed: int = 0
    ) -> None:
        self.hidden = hidden
        self.class_weight = class_weight
        self.seed = seed

    def refuse_mistakes(self, pool: Samples) -> None:
        """Refuse samples that it cannot learn from, before anything is paid."""
        if kind_of(pool) not in (Kind.VECTORS, Kind.IMAGES):
            raise InvalidInput("student 'counts' learns from numbers: student.input must be 'vectors' here")

    def learn(self, pool: Samples, asked: Sequence[Asked]) -> Learnt:
        return learn_from_counts(pool, asked, hidden=self.hidden, class_weight=self.class_weight, seed=self.seed)


def reads_counts(student: Any) -> bool:
    """Whether a student wants the releases themselves, and not the labels that were decoded from them."""
    return isinstance(student, FromCounts)
