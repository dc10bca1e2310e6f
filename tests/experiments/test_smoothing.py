from __future__ import annotations

from fractions import Fraction

import numpy as np
from experiments.smoothing import LEASH, ROUGHNESS, decode_smoothing
from scipy.optimize import minimize
from tests.labels.simulated import choices_of, ring, tally_of

from recordwise.labels.argmax import decode_argmax
from recordwise.labels.facts import Facts
from recordwise.privacy.noise import DiscreteLaplace, Normal
from recordwise.randomness import seeded


def test_smoothed_shares_maximise_the_posterior():
    rng, std = seeded(0, "smoothing"), 20.0
    estimate = rng.normal(30, 25, (6, 2))
    facts = Facts(sizes=[4, 1, 2, 3, 2, 4], graph=ring(6, 1), num_records=400)
    records = 400 * facts.query_shares

    def cost(shares):
        fit = (estimate[:, 0] - records * shares) ** 2 / (std**2 + records / 4 + 1 / 12)
        away = shares - 0.5
        return fit.sum() + ROUGHNESS * ((1 + LEASH) * away @ away - away @ facts.affinity @ away)

    best = minimize(cost, np.full(6, 0.5), tol=1e-14).x
    other = minimize(lambda x: cost(x) - cost_difference(x, estimate, records, std), np.full(6, 0.5), tol=1e-14).x
    labels = decode_smoothing(tally_of(estimate, Normal(std)), facts)
    assert (labels.hard == (other > best)).all()


def cost_difference(shares, estimate, records, std):
    variance = std**2 + records / 4 + 1 / 12
    return (((estimate[:, 0] - records * shares) ** 2 - (estimate[:, 1] - records * shares) ** 2) / variance).sum()


def test_neighbours_lose_their_weight_with_the_noise():
    rng = seeded(1, "smoothing")
    counts = rng.integers(0, 100, (40, 4)).astype(float)
    facts = Facts(sizes=counts.sum(axis=1), graph=ring(40))
    exact = decode_smoothing(tally_of(counts, DiscreteLaplace(Fraction(1, 50))), facts)
    ahead = np.sort(counts, axis=1)[:, -1] - np.sort(counts, axis=1)[:, -2] > 3
    assert (exact.hard == counts.argmax(axis=1))[ahead].all()
    noisy = decode_smoothing(tally_of(counts, DiscreteLaplace(500)), facts)
    assert (noisy.hard == counts.argmax(axis=1)).mean() < 0.9


def test_smoothing_repairs_a_stray_query_among_agreeing_neighbours():
    counts = np.tile([80.0, 10.0, 10.0], (12, 1))
    counts[5] = [20, 45, 35]
    release, facts = tally_of(counts, Normal(40.0)), Facts(sizes=np.ones(12), graph=ring(12))
    assert decode_argmax(release, facts).hard[5] == 1
    smoothed = decode_smoothing(release, facts)
    assert (smoothed.hard == 0).all()
    assert smoothed.leads[5] < smoothed.leads[0]
    np.testing.assert_allclose(smoothed.probabilities.sum(axis=1), 1)


def test_choices_are_smoothed_too():
    chosen = np.zeros(12, dtype=int)
    chosen[4] = 2
    labels = decode_smoothing(
        choices_of(chosen, 3, Fraction(50)), Facts(sizes=np.ones(12), graph=ring(12), num_records=600)
    )
    assert (labels.hard == 0).all()
