"""PATE's teachers: disjoint shards of the records, one model each, one vote per query."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from recordwise.baselines.estimator import Places, Private, Vectors
from recordwise.baselines.public_scale import PublicScale
from recordwise.privacy.noise import Noise, uniform_below

WHITEN = 0.5
SHRINK = 4.0  # records' worth of the grand mean in every class mean: a teacher has few records of each class


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
    for teacher in range(teachers):
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
