"""Fitting the default student to a large release: `python -m benchmarks.student`.

A made-up pool of 80,000 samples and 400 columns in ten classes, 1,000 queries, a central release at epsilon 1. All of
`learn_from_counts` is timed: decoding, folds, choices, the fit and the pool's probabilities. Logistic regression by
scikit-learn on the true labels of the same pool, which a release does not have, is there for scale.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from fractions import Fraction

import numpy as np
from benchmarks import provenance
from numpy.typing import NDArray
from sklearn.linear_model import LogisticRegression

from recordwise.arrays import Ints
from recordwise.labels import neighbour_graph
from recordwise.nearest.poll import Metric
from recordwise.nearest.search import nearest_queries
from recordwise.pipeline import release
from recordwise.privacy.noise import SeededNoise
from recordwise.protocols.central import CentralLaplace
from recordwise.randomness import seeded
from recordwise.students import Asked, learn_from_counts
from recordwise.votes import Ballot, Votes

SAMPLES, DIM, QUERIES, CLASSES = 80_000, 400, 1_000, 10


def main() -> None:
    pool, truth = made()
    asked = released(pool, truth)
    taken, cpu, accuracy = timed(
        lambda: (learn_from_counts(pool, [asked]).probabilities.argmax(axis=1) == truth).mean()
    )
    peer, _, reached = timed(lambda: LogisticRegression(max_iter=100).fit(pool, truth).score(pool, truth))
    row = provenance.row(
        "student from counts",
        size={"samples": SAMPLES, "dim": DIM, "queries": QUERIES, "classes": CLASSES},
        ours=round(taken, 1),
        peers={"scikit-learn, true labels": round(peer, 1)},
        unit="s",
        packages=("scikit-learn", "scipy"),
        cpu_s=round(cpu, 1),
        label_accuracy=round(float(accuracy), 4),
        peer_accuracy=round(float(reached), 4),
    )
    provenance.write("student", [row])
    print(f"{taken:.1f} s ({cpu:.1f} s of processors), labels {accuracy:.1%}; scikit-learn {peer:.1f} s, {reached:.1%}")


def made() -> tuple[NDArray[np.float32], Ints]:
    """Classes in three lumps each, in directions of which the first few vary most, as features do."""
    rng = seeded(0, "student")
    truth = rng.integers(0, CLASSES, SAMPLES)
    centres = rng.normal(size=(3 * CLASSES, DIM)) * 0.35
    spread = (1 + np.arange(DIM)) ** -0.3
    lump = truth * 3 + rng.integers(0, 3, SAMPLES)
    return ((centres[lump] + rng.normal(size=(SAMPLES, DIM))) * spread).astype(np.float32), truth


def released(pool: NDArray[np.float32], truth: Ints) -> Asked:
    """Votes of as many records as there are samples, which look like them; queries are some of these."""
    queries = pool[:QUERIES]
    owner = nearest_queries(pool, queries, k=1)[:, 0].astype(np.int64)
    protocol = CentralLaplace(ballot=Ballot(num_queries=QUERIES, num_classes=CLASSES), epsilon=Fraction(1))
    votes = Votes(protocol.ballot, owner[:, None], truth[:, None])
    return Asked(
        release=release(votes, protocol, SeededNoise(0)),
        owner=owner,
        graph=neighbour_graph(pool, queries, metric=Metric.EUCLIDEAN),
        num_records=SAMPLES,
    )


def timed(work: Callable[[], float]) -> tuple[float, float, float]:
    """Seconds by the clock, seconds of all processors, and what came out; once, for it takes long."""
    start, used = time.perf_counter(), time.process_time()
    found = work()
    return time.perf_counter() - start, time.process_time() - used, found


if __name__ == "__main__":
    main()
