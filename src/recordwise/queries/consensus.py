"""What several clusterings of one pool agree on.

Clusterings of the same images from different random starts err in different places: one gives the sevens with a bar to
the twos, another to the threes. Their cluster numbers mean nothing across runs, so they are matched first, by the
assignment that shares the most members. An image is trusted where all clusterings then agree, and a network taught the
trusted images decides about the others (`self_label`). All of it looks at the public pool alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from recordwise.arrays import Floats, Ints
from recordwise.errors import InvalidInput


@dataclass(frozen=True, eq=False)
class Consensus:
    """The cluster of each point, by the mean of all clusterings, and whether they were unanimous."""

    clusters: Ints
    unanimous: NDArray[np.bool_]


def consensus(clusterings: Sequence[Floats]) -> Consensus:
    """Match (n, K) cluster probabilities of the same n points to the first of them, and average.

    Raises:
      InvalidInput: Unless there are two or more, of one shape, finite and not negative.
    """
    if len(clusterings) < 2:
        raise InvalidInput(f"clusterings must be two or more, got {len(clusterings)}")
    first, *others = (np.asarray(probabilities, dtype=np.float64) for probabilities in clusterings)
    for other in (first, *others):
        if first.ndim != 2 or other.shape != first.shape:
            raise InvalidInput(f"clusterings must all be (n, K) of one shape, got {first.shape} and {other.shape}")
        if not (np.isfinite(other).all() and (other >= 0).all()):
            raise InvalidInput("clusterings must hold probabilities, got some below zero or not finite")
    matched = [first, *(matched_to(first, other) for other in others)]
    votes = np.stack([probabilities.argmax(1) for probabilities in matched])
    return Consensus(
        clusters=np.mean(matched, axis=0).argmax(1).astype(np.int64), unanimous=(votes == votes[0]).all(axis=0)
    )


def matched_to(reference: NDArray[np.float64], other: NDArray[np.float64]) -> NDArray[np.float64]:
    """The columns of `other`, reordered so that as many points as possible keep the cluster of `reference`."""
    from scipy.optimize import linear_sum_assignment

    shared = np.zeros((reference.shape[1], other.shape[1]))
    np.add.at(shared, (reference.argmax(1), other.argmax(1)), 1)
    return other[:, linear_sum_assignment(shared, maximize=True)[1]]
