"""Seconds to teach a student from a release: `python -m benchmarks.student`.

Pool samples in 400 columns, ten classes of three bell curves each, k-means queries, and a release at epsilon 1 over
twice as many records. Measured is `learn_from_counts` alone, once each: choosing the penalty and fitting, on the
threads that it takes by itself. Nobody else teaches from such a table, so there is no peer; the seconds that
scikit-learn's logistic regression takes on the pool's true labels are there for scale.
"""

from __future__ import annotations

from fractions import Fraction

import numpy as np
from benchmarks import provenance
from numpy.typing import NDArray
from sklearn.linear_model import LogisticRegression

from recordwise.arrays import Ints
from recordwise.labels import neighbour_graph
from recordwise.pipeline import release
from recordwise.privacy.noise import SeededNoise
from recordwise.protocols.central import CentralLaplace
from recordwise.queries import KMeansQueries
from recordwise.randomness import seeded
from recordwise.students import Asked, learn_from_counts
from recordwise.votes import Ballot, cast_votes

COLUMNS, CLASSES, QUERIES, EPSILON = 400, 10, 1_000, 1
POOLS = (30_000, 80_000)


def main() -> None:
    rows = [taught(samples) for samples in POOLS]
    path = provenance.write("student", rows)
    for row in rows:
        print(f"{row['name']} {row['size']['samples']:,}: {row['ours']:.1f} s, accuracy {row['accuracy']:.3f}")
    print(f"written to {path.relative_to(path.parents[2])}")


def samples_of(rng: np.random.Generator, centres: NDArray[np.float64], count: int) -> tuple[NDArray[np.float32], Ints]:
    """`count` samples and their classes."""
    classes = rng.integers(CLASSES, size=count)
    noise = rng.standard_normal((count, COLUMNS), dtype=np.float32)
    return noise + centres[classes, rng.integers(3, size=count)].astype(np.float32), classes


def taught(count: int) -> provenance.Row:
    """One row: how long a student takes on a pool of `count` samples."""
    rng = seeded(0, "student")
    centres = 0.1 * rng.normal(size=(CLASSES, 1, COLUMNS)) + 0.15 * rng.normal(size=(CLASSES, 3, COLUMNS))
    (pool, truth), (records, labels) = samples_of(rng, centres, count), samples_of(rng, centres, 2 * count)
    queries = KMeansQueries(num_queries=QUERIES, seed=0).ask(pool)
    graph = neighbour_graph(pool, queries.vectors, metric=queries.metric)
    ballot = Ballot(num_queries=QUERIES, num_classes=CLASSES)
    votes = cast_votes(records, labels, queries.vectors, ballot)
    released = release(votes, CentralLaplace(ballot=ballot, epsilon=Fraction(EPSILON)), SeededNoise(0))
    asked = Asked(release=released, owner=queries.owner, graph=graph, num_records=len(votes))
    right: list[float] = []

    def ours() -> None:
        right.append(float((learn_from_counts(pool, [asked]).probabilities.argmax(axis=1) == truth).mean()))

    took = provenance.seconds(ours, repeats=1)
    peer = provenance.seconds(lambda: LogisticRegression(max_iter=1_000).fit(pool, truth), repeats=1)
    return provenance.row(
        "student from counts",
        size={"samples": count, "columns": COLUMNS, "queries": QUERIES, "classes": CLASSES, "epsilon": EPSILON},
        ours=took,
        peers={"logistic regression, true labels": peer},
        unit="s",
        packages=("scipy", "scikit-learn"),
        accuracy=round(right[0], 4),
    )


if __name__ == "__main__":
    main()
