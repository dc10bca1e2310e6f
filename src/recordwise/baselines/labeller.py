"""Methods that label public queries and teach a student on them: what they share."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.validation import check_is_fitted

from recordwise.baselines.estimator import Private, Released, Rival, Vectors
from recordwise.data import Samples
from recordwise.errors import InvalidInput, whole
from recordwise.nearest import Metric
from recordwise.privacy.noise import Noise
from recordwise.queries import KMeansQueries
from recordwise.settings import AUTO
from recordwise.students import class_probabilities, student_from, teach
from recordwise.students.spec import placed
from recordwise.votes import NOBODY

FEWEST, MOST = 10, 500  # what "auto" asks at least and at most


@dataclass(eq=False, repr=False)
class Labeller(Rival):
    """Asks for labels of k-means centres of the pool; every pool sample gets the label of its centre.

    Args:
      num_queries: How many centres; "auto" is as many as the budget labels well, by public numbers alone.
      student: As `PrivateDistiller` takes it, but for "counts".

    Attributes:
      asked_: The queries, with the pool samples that belong to each.
      labels_: The label of each query as its place in `classes_`, -1 where it was not answered.
    """

    needs_pool: ClassVar[bool] = True

    num_queries: int | str = field(default=AUTO, kw_only=True)
    student: Any = field(default="linear", kw_only=True)

    @abstractmethod
    def most_queries(self, num_records: int, num_classes: int) -> float:
        """How many queries can be asked before the noise drowns the votes."""

    @abstractmethod
    def answer(self, private: Private, noise: Noise) -> Released:
        """At least `labels`: one per query, -1 for none."""

    def check(self, num_records: int, dim: int, num_classes: int) -> None:
        if self.num_queries == AUTO:
            fewest = max(FEWEST, num_classes)
            most = min(max(fewest, MOST), max(1, self.pool_size_ // 2))
            self.num_queries_ = int(np.clip(self.most_queries(num_records, num_classes), min(fewest, most), most))
        else:
            whole(num_queries=self.num_queries)
            self.num_queries_ = int(self.num_queries)

    def prepare(self, pool: Vectors | None, dim: int) -> None:
        assert pool is not None
        if self.num_queries_ > len(pool):
            raise InvalidInput(f"num_queries must be <= the pool's {len(pool)} samples, got {self.num_queries_}")
        student_from(placed(self.student, self.classes_), seed=self.random_state)  # refused now, if it is none
        self.asked_ = KMeansQueries(num_queries=self.num_queries_, seed=self.random_state, metric=Metric.EUCLIDEAN).ask(
            pool
        )
        self.look(pool)

    @abstractmethod
    def look(self, pool: Vectors) -> None:
        """What else is made of the pool."""

    def release(self, private: Private, noise: Noise) -> Released:
        return self.answer(private, noise)

    def learn(self, released: Released, pool: Vectors | None) -> None:
        assert pool is not None
        self.labels_ = released["labels"]
        owner = self.asked_.owner
        answered = (owner != NOBODY) & (self.labels_[owner] != NOBODY)
        num_classes = len(self.classes_)
        # Nothing answered is an answer too: all classes are alike then.
        probabilities = np.full((len(pool), num_classes), 1 / num_classes)
        probabilities[answered] = np.eye(num_classes)[self.labels_[owner[answered]]]
        weights = answered.astype(np.float64) if answered.any() else np.ones(len(pool))
        student = student_from(placed(self.student, self.classes_), seed=self.random_state)
        self.student_ = teach(student, pool, probabilities, weights=weights)

    def predict(self, X: Samples) -> NDArray[Any]:
        """The student's own answers, which a threshold may decide."""
        check_is_fitted(self, "released_")
        return np.asarray(self.classes_[self.student_.predict(self._public_vectors(X))])

    def probabilities(self, vectors: Vectors) -> NDArray[np.float64]:
        return class_probabilities(self.student_, vectors, len(self.classes_))


def noisy_max(votes: NDArray[np.int64], law: Any, noise: Noise) -> NDArray[np.int64]:
    """The class with the most votes in each row, after noise of this law on every cell; the first one on a tie."""
    chosen: NDArray[np.int64] = (votes + law.sample(votes.shape, noise)).argmax(axis=1)
    return chosen
