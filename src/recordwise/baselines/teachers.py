"""PATE's teachers: disjoint shards of the records, one model each, one vote per query."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from recordwise.baselines.estimator import Facts, Places, Private, Vectors
from recordwise.baselines.labeller import Labeller
from recordwise.baselines.public_scale import PublicScale
from recordwise.errors import whole
from recordwise.privacy.noise import Noise, uniform_below
from recordwise.progress import counted

WHITEN = 0.5
SHRINK = 4.0  # records' worth of the grand mean in every class mean: a teacher has few records of each class


@dataclass(eq=False, repr=False)
class Pate(Labeller):
    """What both of PATE's noisy maxima share: the teachers, and their votes.

    Args:
      teachers: Disjoint shards of the records.
    """

    facts: ClassVar[Facts] = Facts(
        protects="one record, and in fact all that one teacher was taught",
        public="an unlabelled pool",
        rounds="one",
        data_dependent="the published figures are; GNMAX can give its own beside the worst case",
        elsewhere=(
            "distributed: yes, by secure sums of the teachers' votes, one teacher per silo; shuffle and local: "
            "nothing, for a device with one record is no teacher"
        ),
    )

    teachers: int = field(default=250, kw_only=True)

    def check(self, num_records: int, dim: int, num_classes: int) -> None:
        super().check(num_records, dim, num_classes)
        whole(teachers=self.teachers)

    def look(self, pool: Vectors) -> None:
        self.scale_of_teachers_ = PublicScale.of(pool, pool.shape[1], whiten=WHITEN)

    def votes(self, private: Private, noise: Noise) -> NDArray[np.int64]:
        """(s, C) counts. Private."""
        return teacher_votes(
            private,
            self.asked_.vectors,
            self.scale_of_teachers_,
            teachers=self.teachers,
            num_classes=len(self.classes_),
            noise=noise,
        )


def teacher_votes(
    private: Private, queries: Vectors, scale: PublicScale, *, teachers: int, num_classes: int, noise: Noise
) -> NDArray[np.int64]:
    """(s, C) how many teachers give each query each class. Private.

    Guarantees:
      - every record goes to one teacher, drawn for it alone; so one record more, less or another changes one teacher;
      - a teacher has one vote per query: one record moves at most one vote in each row, from one cell to another.
        A teacher without records votes too, for the first class.
    """
    shard = uniform_below(teachers, len(private.labels), noise)
    asked = scale(queries)
    votes = np.zeros((len(queries), num_classes), dtype=np.int64)
    for teacher in counted(range(teachers), teachers):
        mine = shard == teacher
        # Scaled apart from the others': in one product of floats, a record could change the last bits of other rows.
        vectors = scale(private.vectors[mine])
        votes[np.arange(len(queries)), _taught(vectors, private.labels[mine], asked, num_classes)] += 1
    return votes


def _taught(vectors: NDArray[Any], labels: Places, asked: NDArray[Any], num_classes: int) -> Places:
    """Linear discriminant analysis with the pool's covariance, which `PublicScale` took: the nearest class mean."""
    one_hot = np.eye(num_classes)[labels]
    counts = one_hot.sum(axis=0)[:, None]
    grand = vectors.mean(axis=0) if len(vectors) else np.zeros(asked.shape[1])
    means = (one_hot.T @ vectors + SHRINK * grand) / (counts + SHRINK)
    scores = 2 * asked @ means.T - (means * means).sum(axis=1)
    scores[:, counts[:, 0] == 0] = -np.inf
    return np.asarray(scores.argmax(axis=1), dtype=np.int64)
