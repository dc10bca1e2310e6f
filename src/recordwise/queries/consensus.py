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

from recordwise.arrays import Ints
from recordwise.errors import InvalidInput


@dataclass(frozen=True, eq=False)
class Consensus:
    """The cluster that most clusterings give each point (the first of them decides ties), and where all agree."""

    clusters: Ints
    unanimous: NDArray[np.bool_]


def consensus(clusterings: Sequence[Ints], clusters: int) -> Consensus:
    """Match clusterings of the same points to the first of them, and count votes.

    Args:
      clusterings: Two or more arrays of n cluster numbers below `clusters`.
    """
    if len(clusterings) < 2:
        raise InvalidInput(f"clusterings must be two or more, got {len(clusterings)}")
    first, *others = (np.asarray(numbers) for numbers in clusterings)
    for numbers in (first, *others):
        if first.ndim != 1 or numbers.shape != first.shape:
            raise InvalidInput(f"clusterings must be of the same points, got shapes {first.shape} and {numbers.shape}")
        if not ((numbers >= 0) & (numbers < clusters)).all():
            raise InvalidInput(f"cluster numbers must lie in [0, {clusters})")
    votes = np.stack([first, *(matched_to(first, numbers, clusters) for numbers in others)])
    counts = np.stack([2 * (votes == cluster).sum(0) for cluster in range(clusters)], axis=1)
    counts[np.arange(len(first)), first] += 1  # half a vote
    return Consensus(clusters=counts.argmax(1).astype(np.int64), unanimous=(votes == first).all(axis=0))


def matched_to(reference: Ints, other: Ints, clusters: int) -> Ints:
    """`other` renumbered so that as many points as possible keep their cluster of `reference`."""
    from scipy.optimize import linear_sum_assignment

    shared = np.zeros((clusters, clusters))
    np.add.at(shared, (other, reference), 1)
    return np.asarray(linear_sum_assignment(shared, maximize=True)[1])[other]
