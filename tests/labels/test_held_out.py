"""Decoding without some queries' cells."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
from tests.labels.simulated import owned_counts, ring, tally_of

from recordwise.labels import decode
from recordwise.labels.held_out import decode_seen
from recordwise.privacy.noise import DiscreteLaplace, SeededNoise

LAW = DiscreteLaplace(Fraction(10))
LABELS = np.repeat(np.arange(3), 10)
RATES = np.full(30, 40.0)


def tally(seed: int = 0):  # type: ignore[no-untyped-def]
    counts = owned_counts(LABELS, RATES.astype(np.int64), 0.9, 3, np.random.default_rng(seed))
    return tally_of(counts + LAW.sample(counts.shape, SeededNoise(seed)), LAW)


def test_unseen_cells_change_nothing() -> None:
    one = tally()
    seen = np.arange(30) % 5 != 2
    other = one.estimate.copy()
    other[~seen] = np.random.default_rng(5).normal(size=(6, 3)) * 1_000
    before, after = decode_seen(one, RATES, ring(30), seen), decode_seen(tally_of(other, LAW), RATES, ring(30), seen)
    assert (before.probabilities == after.probabilities).all() and (before.confidence == after.confidence).all()


def test_unseen_queries_follow_their_neighbours() -> None:
    seen = np.arange(30) % 5 != 2
    labels = decode_seen(tally(), RATES, ring(30), seen)
    assert (labels.hard[~seen] == LABELS[~seen]).all()
    assert np.allclose(labels.probabilities.sum(axis=1), 1)


def test_with_everything_seen_it_is_the_decoder() -> None:
    every = decode_seen(tally(), RATES, ring(30), np.ones(30, dtype=bool))
    plain = decode(tally(), sizes=RATES, graph=ring(30), num_records=1_200)
    assert (every.probabilities == plain.probabilities).all()
