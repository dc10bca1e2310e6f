from __future__ import annotations

import numpy as np
from tests.labels.simulated import ring, tally_of

from recordwise.labels.facts import Facts
from recordwise.labels.sets import decode_sets
from recordwise.privacy.noise import DiscreteLaplace, SeededNoise
from recordwise.randomness import seeded

QUERIES, CLASSES, RECORDS = 50, 8, 200


def simulate(seed, scale):
    """Two labels per record; each query has one or two that most of its records carry."""
    rng = seeded(seed, "sets")
    truth = np.zeros((QUERIES, CLASSES), dtype=bool)
    for row in truth:
        row[rng.choice(CLASSES, rng.integers(1, 3), replace=False)] = True
    share = np.where(truth, 0.85, 0.03)
    counts = rng.binomial(RECORDS, share)
    law = DiscreteLaplace(scale)
    return truth, tally_of(counts + law.sample(counts.shape, SeededNoise(seed)), law, r=2)


FACTS = Facts(sizes=np.ones(QUERIES), num_records=QUERIES * RECORDS)


def test_labels_that_most_records_carry_are_found():
    truth, tally = simulate(0, scale=5)
    labels = decode_sets(tally, FACTS)
    assert labels.sets is not None
    assert (labels.sets == truth).all()
    assert truth[np.arange(QUERIES), labels.hard].all()
    assert (labels.confidence > 0.9).all()


def test_never_more_than_r_labels_however_loud_the_noise():
    for seed in range(5):
        _, tally = simulate(seed, scale=400)
        labels = decode_sets(tally, FACTS)
        assert labels.sets is not None
        assert labels.sets.sum(axis=1).max() <= 2
        assert ((labels.probabilities >= 0) & (labels.probabilities <= 1)).all()


def test_stated_confidence_follows_the_share_of_right_sets():
    stated, right, cells = [], [], []
    for seed in range(40):
        truth, tally = simulate(seed, scale=35)
        labels = decode_sets(tally, FACTS)
        stated.append(labels.confidence.mean())
        right.append((labels.sets == truth).all(axis=1).mean())
        cells.append(((labels.probabilities > 0.5) == truth).mean())
    assert np.mean(cells) > 0.9
    assert abs(np.mean(stated) - np.mean(right)) < 0.25  # any share is as likely as any other to the model


def test_neighbours_help_here_too():
    rng = seeded(3, "sets")
    truth = np.zeros((QUERIES, CLASSES), dtype=bool)
    truth[:25, 1] = truth[25:, 4] = truth[10:40, 6] = True
    law = DiscreteLaplace(100)
    right = []
    for seed in range(10):
        counts = rng.binomial(RECORDS, np.where(truth, 0.85, 0.03))
        tally = tally_of(counts + law.sample(counts.shape, SeededNoise(seed)), law, r=2)
        together = Facts(sizes=np.ones(QUERIES), num_records=QUERIES * RECORDS, graph=ring(QUERIES))
        right.append([((decode_sets(tally, f).probabilities > 0.5) == truth).mean() for f in (FACTS, together)])
    alone, joint = np.mean(right, axis=0)
    assert joint > alone + 0.03


def test_without_a_public_number_of_records_each_is_taken_to_carry_r_labels():
    rng = seeded(4, "sets")
    truth = np.zeros((QUERIES, CLASSES), dtype=bool)
    for row in truth:
        row[rng.choice(CLASSES, 2, replace=False)] = True
    counts = np.where(truth, RECORDS * 0.9, RECORDS * 0.2 / 6)
    labels = decode_sets(tally_of(counts, DiscreteLaplace(2), r=2), Facts(sizes=np.ones(QUERIES)))
    assert (labels.sets == truth).all()
