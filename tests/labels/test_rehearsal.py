from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from scipy.stats import kstest, laplace, norm
from tests.labels.simulated import chance_by_enumeration, choices_of, evidence, matched_of, matching_chances, tally_of

from recordwise.labels.facts import Facts
from recordwise.labels.rehearsal import rehearsed, tempered
from recordwise.privacy.noise import DiscreteLaplace, Normal
from recordwise.randomness import seeded

FALSE_FAILURE = 1e-9
FACTS = Facts(sizes=np.ones(40), num_records=4_000)


def example():
    rng = seeded(0, "rehearsal-test")
    counts = np.eye(3)[rng.integers(3, size=40)] * 70 + 10
    tally = tally_of(counts + rng.laplace(0, 60, counts.shape), DiscreteLaplace(60))
    return tally, evidence(tally, FACTS)


def each_tempered(temperature):
    return lambda several, facts: np.stack([tempered(known.posterior(), temperature) for known in several])


def test_a_decoder_that_is_always_certain_is_brought_down_to_how_often_it_is_right():
    tally, known = example()

    def cocksure(several, facts):
        return np.stack([np.clip(np.eye(3)[known.posterior().argmax(axis=1)], 1e-4, 1) for known in several])

    (stated,) = cocksure([known], FACTS)
    calm = rehearsed(tally, known, FACTS, stated, cocksure)
    assert stated.max(axis=1).mean() > 0.99
    assert calm.max(axis=1).mean() < 0.85
    assert (calm.argmax(axis=1) == stated.argmax(axis=1)).all()
    np.testing.assert_allclose(calm.sum(axis=1), 1)


def test_an_honest_or_a_timid_decoder_is_left_alone():
    tally, known = example()
    for decode in (each_tempered(2.0), lambda several, facts: np.full((len(several), 40, 3), 1 / 3)):
        (stated,) = decode([known], FACTS)
        np.testing.assert_allclose(rehearsed(tally, known, FACTS, stated, decode), stated, atol=1e-12)


def test_rehearsing_twice_gives_the_same():
    tally, known = example()
    again = [rehearsed(tally, known, FACTS, known.posterior(), each_tempered(0.3)) for _ in "ab"]
    assert (again[0] == again[1]).all()


@pytest.mark.parametrize(
    ("law", "oracle", "wrong"),
    [(DiscreteLaplace(30), laplace(scale=30), laplace(scale=33)), (Normal(5.0), norm(scale=5), norm(scale=5.5))],
    ids=["laplace", "normal"],
)
def test_simulated_noise_has_the_law_of_the_release(law, oracle, wrong):
    tally = tally_of(np.zeros((200, 200)), law).simulated(np.zeros((200, 200)), seeded(1, "imagined"))
    noise = tally.estimate.ravel()
    assert kstest(noise, oracle.cdf).pvalue > FALSE_FAILURE
    assert kstest(noise, wrong.cdf).pvalue < FALSE_FAILURE


def test_simulated_choices_have_the_law_of_permute_and_flip():
    counts, runs = [9.0, 6.0, 1.0], 100_000
    release = choices_of(np.zeros(runs, dtype=int), 3, Fraction(4))
    chosen = release.simulated(np.tile(counts, (runs, 1)), seeded(2, "imagined")).chosen
    seen = np.bincount(chosen, minlength=3) / runs
    slack = np.sqrt(np.log(2 * 3 / FALSE_FAILURE) / (2 * runs))  # Hoeffding, over three classes
    assert np.abs(seen - chance_by_enumeration(counts, 4.0)).max() < slack
    assert np.abs(seen - chance_by_enumeration(counts, 3.0)).max() > slack


def test_simulated_matchings_have_the_law_of_the_mechanism():
    counts, runs = np.array([[9.0, 6.0], [4.0, 3.0]]), 5000
    rng = seeded(3, "imagined")
    release = matched_of([0, 1], Fraction(2))
    kept = np.mean([release.simulated(counts, rng).chosen.tolist() == [0, 1] for _ in range(runs)])
    slack = np.sqrt(np.log(2 / FALSE_FAILURE) / (2 * runs))  # Hoeffding
    assert abs(kept - matching_chances(counts, 2.0)[0, 1]) < slack
    assert abs(kept - matching_chances(counts, 1.0)[0, 1]) > slack
