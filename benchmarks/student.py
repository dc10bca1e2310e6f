"""Seconds to teach a student from a release: `python -m benchmarks.student`.

Pool samples in 400 columns, ten classes of three bell curves each, queries that are pool samples, and a release over
twice as many records. Measured is `learn_from_counts` alone, once each, as the default student calls it: choosing the
penalty, trying a network and fitting, on the threads that it takes by itself. Nobody else teaches from such a table, so
there is no peer; the seconds that scikit-learn's logistic regression takes on the pool's true labels are there for
scale.
"""

from __future__ import annotations

import time
from fractions import Fraction

import numpy as np
from benchmarks import provenance
from numpy.typing import NDArray
from sklearn.linear_model import LogisticRegression

from recordwise.arrays import Ints
from recordwise.labels import query_graph
from recordwise.nearest.search import nearest_queries
from recordwise.pipeline import release
from recordwise.privacy.noise import SeededNoise
from recordwise.protocols.central import CentralLaplace
from recordwise.randomness import seeded
from recordwise.students import Asked, learn_from_counts
from recordwise.students.from_counts import HIDDEN
from recordwise.votes import Ballot, cast_votes

COLUMNS, CLASSES, QUERIES, EPSILON = 400, 10, 1_000, 1
POOLS = (30_000, 80_000)


def main() -> None:
    rows = [taught(samples) for samples in POOLS]
    path = provenance.write("student", rows)
    for row in rows:
        took = f"{row['ours']:.1f} s, {row['cpu_s']} s of processors"
        print(f"{row['size']['samples']:,} samples: {took}, accuracy {row['accuracy']:.3f}")
    print(f"written to {path.relative_to(path.parents[2])}")


def samples_of(rng: np.random.Generator, centres: NDArray[np.float64], count: int) -> tuple[NDArray[np.float32], Ints]:
    """`count` samples and their classes."""
    classes = rng.integers(CLASSES, size=count)
    noise = rng.standard_normal((count, COLUMNS), dtype=np.float32)
    return noise + centres[classes, rng.integers(3, size=count)].astype(np.float32), classes


def taught(count: int) -> provenance.Row:
    """One row: how long a student takes on a pool of `count` samples."""
    rng = seeded(0, "student")
    centres = 0.1 * rng.normal(size=(CLASSES, 1, COLUMNS)) + 0.25 * rng.normal(size=(CLASSES, 3, COLUMNS))
    (pool, truth), (records, labels) = samples_of(rng, centres, count), samples_of(rng, centres, 2 * count)
    queries = pool[:QUERIES]
    owner = nearest_queries(pool, queries, 1)[:, 0].astype(np.int64)
    ballot = Ballot(num_queries=QUERIES, num_classes=CLASSES)
    votes = cast_votes(records, labels, queries, ballot)
    released = release(votes, CentralLaplace(ballot=ballot, epsilon=Fraction(EPSILON)), SeededNoise(0))
    asked = Asked(release=released, owner=owner, graph=query_graph(pool, queries), num_records=len(votes))
    right: list[float] = []

    def ours() -> None:
        right.append(
            float((learn_from_counts(pool, [asked], hidden=HIDDEN).probabilities.argmax(axis=1) == truth).mean())
        )

    began = time.process_time()
    took = provenance.seconds(ours, repeats=1)
    processor = time.process_time() - began
    peer = provenance.seconds(lambda: LogisticRegression(max_iter=1_000).fit(pool, truth), repeats=1)
    return provenance.row(
        "student from counts",
        size={"samples": count, "columns": COLUMNS, "queries": QUERIES, "classes": CLASSES, "epsilon": EPSILON},
        ours=took,
        peers={"logistic regression, true labels": peer},
        unit="s",
        packages=("scipy", "scikit-learn"),
        cpu_s=round(processor, 1),  # of all threads: what is left of `ours` on a machine that others use, too
        accuracy=round(right[0], 4),
    )


if __name__ == "__main__":
    main()
