from __future__ import annotations

import numpy as np
from tests.labels.simulated import owned_counts, tally_of

from recordwise.labels.argmax import decode_argmax
from recordwise.labels.assignment import decode_assignment
from recordwise.labels.facts import Facts
from recordwise.labels.model_average import decode_model_average
from recordwise.privacy.noise import DiscreteLaplace, SeededNoise
from recordwise.randomness import seeded

CLASSES, RECORDS = 8, 200
FACTS = Facts(sizes=np.ones(CLASSES), num_records=CLASSES * RECORDS)


def accuracies(draw_labels, scale, runs=120):
    """How often labels are right: argmax, assignment, average."""
    right = []
    for run in range(runs):
        rng = seeded(run, "matching")
        truth = draw_labels(rng)
        counts = owned_counts(truth, np.full(CLASSES, RECORDS), 0.8, CLASSES, rng)
        law = DiscreteLaplace(scale)
        tally = tally_of(counts + law.sample(counts.shape, SeededNoise(run)), law)
        right.append(
            [(d(tally, FACTS).hard == truth).mean() for d in (decode_argmax, decode_assignment, decode_model_average)]
        )
    return np.mean(right, axis=0)


def test_clusters_that_are_classes_are_matched_almost_as_well_as_by_assignment():
    argmax, assignment, average = accuracies(lambda rng: rng.permutation(CLASSES), scale=70)
    assert assignment > argmax + 0.05
    assert average > argmax + 0.7 * (assignment - argmax)


def test_clusters_that_are_not_classes_are_not_forced_to_be():
    argmax, assignment, average = accuracies(lambda rng: rng.integers(CLASSES, size=CLASSES), scale=25)
    assert assignment < argmax - 0.1
    assert average > argmax - 0.02
