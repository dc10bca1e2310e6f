"""What several clusterings of one pool agree on.

Clusterings of the same images from different random starts err in different places: one gives the sevens with a bar to
the twos, another to the threes. Their cluster numbers mean nothing across runs, so they are matched first, by the
assignment that shares the most pool members. Where all then agree, a point can be trusted: `self_label` teaches a
network the trusted images, `settled` asks the trusted neighbours of a disputed one. All of it looks at the public pool
alone, and all of it is a function of one image, so private records can be placed by it too.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from recordwise.arrays import Floats, Ints
from recordwise.errors import InvalidInput, whole
from recordwise.nearest.search import nearest_queries


@dataclass(frozen=True, eq=False)
class Consensus:
    """The cluster that most clusterings give each point (the first of them decides ties), and where all agree."""

    clusters: Ints
    unanimous: NDArray[np.bool_]


def consensus(clusterings: Sequence[Ints], *, pool: Sequence[Ints], clusters: int) -> Consensus:
    """Count votes on the same n points, after matching the clusterings on the pool.

    Args:
      clusterings: Two or more arrays of n cluster numbers below `clusters`, of the pool itself or of any other points.
      pool: What each of them says of the pool, in the same order.
    """
    if len(clusterings) < 2 or len(pool) != len(clusterings):
        raise InvalidInput(f"clusterings must be two or more, each with its pool, got {len(clusterings)}, {len(pool)}")
    for many in (clusterings, pool):
        for numbers in many:
            if np.ndim(numbers) != 1 or np.shape(numbers) != np.shape(many[0]):
                raise InvalidInput(
                    f"clusterings must be of the same points, got shapes {np.shape(many[0])} and {np.shape(numbers)}"
                )
            if not ((np.asarray(numbers) >= 0) & (np.asarray(numbers) < clusters)).all():
                raise InvalidInput(f"cluster numbers must lie in [0, {clusters})")
    votes = np.stack(
        [
            _renumbering(np.asarray(pool[0]), np.asarray(theirs), clusters)[np.asarray(numbers)]
            for numbers, theirs in zip(clusterings, pool, strict=True)
        ]
    )
    counts = np.stack([2 * (votes == cluster).sum(0) for cluster in range(clusters)], axis=1)
    counts[np.arange(len(votes[0])), votes[0]] += 1  # half a vote
    return Consensus(clusters=counts.argmax(1).astype(np.int64), unanimous=(votes == votes[0]).all(axis=0))


def settled(found: Consensus, vectors: Floats, *, pool: Consensus, pool_vectors: Floats, nearest: int = 20) -> Ints:
    """The clusters of `found`, but where it is not unanimous, the commonest one of the nearest unanimous pool points.

    Args:
      vectors: (n, d) of the points of `found`, in a space that took no part in the clusterings (pixels, say).
      pool_vectors: The same of the pool.
    """
    whole(nearest=nearest)
    clusters, disputed = found.clusters.copy(), ~found.unanimous
    if not pool.unanimous.any():
        raise InvalidInput("clusterings must agree on some point of the pool, they do on none")
    if disputed.any():
        trusted = pool.clusters[pool.unanimous]
        near = nearest_queries(
            np.asarray(vectors)[disputed], np.asarray(pool_vectors)[pool.unanimous], min(nearest, len(trusted))
        )
        said = trusted[near]
        counts = np.stack([(said == cluster).sum(1) for cluster in range(int(trusted.max()) + 1)], axis=1)
        clusters[disputed] = counts.argmax(1)
    return clusters


def _renumbering(reference: Ints, other: Ints, clusters: int) -> Ints:
    """Which number of `reference` each number of `other` stands for, so that as many points as possible keep theirs."""
    from scipy.optimize import linear_sum_assignment

    shared = np.zeros((clusters, clusters))
    np.add.at(shared, (other, reference), 1)
    return np.asarray(linear_sum_assignment(shared, maximize=True)[1])
