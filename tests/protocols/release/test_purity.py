from __future__ import annotations

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from tests.labels.simulated import chance_by_enumeration, choices_of, evidence, matched_of, matching_chances, tally_of

from recordwise.labels.facts import Facts
from recordwise.privacy.noise import DiscreteGaussian, DiscreteLaplace, Normal
from recordwise.protocols.release.purity import cell_log_likelihood, mix, tried_purities

LAWS = [DiscreteLaplace(20), DiscreteGaussian(400), Normal(3.0), DiscreteLaplace(Fraction(1, 500))]


def test_the_likelihood_of_a_label_averages_that_of_its_purities():
    law, sizes = DiscreteLaplace(40), np.array([3, 1])
    estimate = np.array([[90.0, 10, -20], [5, 40, 7]])
    found = evidence(tally_of(estimate, law), Facts(sizes=sizes, num_records=160))
    for query, label in itertools.product(range(2), range(3)):
        records = 160 * sizes[query] / 4
        likelihood = []
        for purity in tried_purities(3):
            expected = [records * (purity if c == label else (1 - purity) / 2) for c in range(3)]
            cells = cell_log_likelihood(law, estimate[query] - expected, np.full(3, records))
            likelihood.append(math.exp(cells.sum()))
        assert found.log_likelihood[query, label] == pytest.approx(math.log(np.mean(likelihood)), rel=1e-7)
        assert found.purity[query, label] == pytest.approx(np.average(tried_purities(3), weights=likelihood), rel=1e-7)


@pytest.mark.parametrize("law", LAWS, ids=repr)
@given(estimate=arrays(np.float64, (3, 4), elements=st.integers(-300, 300).map(float)))
def test_without_neighbours_no_label_is_likelier_than_the_largest_cell(law, estimate):
    likelihood = evidence(tally_of(estimate, law), Facts(sizes=[5, 1, 2])).log_likelihood
    at_largest = np.take_along_axis(likelihood, estimate.argmax(axis=1)[:, None], axis=1)
    assert (likelihood <= at_largest + 1e-9 * np.abs(at_largest)).all()


def test_noise_below_one_vote_does_not_blur_the_counts():
    found = evidence(tally_of([[30, 20], [0, 40]], DiscreteLaplace(Fraction(1, 500))), Facts(sizes=[5, 4]))
    assert np.isfinite(found.log_likelihood).all()
    assert found.posterior().argmax(axis=1).tolist() == [0, 1]
    assert found.posterior()[1, 1] > 0.999


def test_a_choice_is_as_likely_as_permute_and_flip_makes_it():
    scale, num_classes = 7.0, 3
    found = evidence(choices_of([1, 1], num_classes, Fraction(7)), Facts(sizes=[3, 1], num_records=40))
    for query, records in enumerate((30, 10)):
        for label in range(num_classes):
            likelihood = []
            for purity in tried_purities(num_classes):
                counts = [records * (purity if c == label else (1 - purity) / 2) for c in range(3)]
                likelihood.append(chance_by_enumeration(counts, scale)[1])
            assert found.log_likelihood[query, label] == pytest.approx(math.log(np.mean(likelihood)), rel=1e-9)


def test_a_matching_of_alike_queries_is_as_likely_as_the_mechanism_makes_it():
    scale, records, chosen = 7.0, 10, (1, 2, 0)
    found = evidence(matched_of(chosen, Fraction(7)), Facts(sizes=np.ones(3), num_records=30))
    for at, purity in enumerate(tried_purities(3)):
        for labels in itertools.permutations(range(3)):
            counts = records * np.where(np.eye(3, dtype=bool)[list(labels)], purity, (1 - purity) / 2)
            likelihood = math.exp(found.by_purity[np.arange(3), labels, at].sum())
            assert likelihood == pytest.approx(matching_chances(counts, scale)[chosen], rel=1e-9)


def test_choices_without_a_known_number_of_records_still_prefer_what_was_chosen():
    found = evidence(choices_of([2, 0], 4, Fraction(10)), Facts(sizes=[1, 5]))
    assert found.posterior().argmax(axis=1).tolist() == [2, 0]
    assert found.records is None


def test_the_mix_is_a_distribution_that_gives_the_label_its_purity():
    posterior, purity = np.array([[1.0, 0, 0], [0.5, 0.5, 0]]), np.full((2, 3), 0.8)
    shares = mix(posterior, purity)
    np.testing.assert_allclose(shares, [[0.8, 0.1, 0.1], [0.45, 0.45, 0.1]])


def test_learning_finds_how_common_pure_queries_are():
    rng = np.random.default_rng(0)
    counts = np.array([rng.multinomial(100, [0.95] + [0.05 / 3] * 3) for _ in range(60)])
    found = evidence(tally_of(counts + rng.normal(0, 40, counts.shape), Normal(40.0)), Facts(sizes=np.ones(60)))
    learned = found.learned(np.eye(4)[np.zeros(60, dtype=int)])
    assert learned.purity[:, 0].mean() > found.purity[:, 0].mean() + 0.05


def test_the_number_of_votes_is_public_or_the_noisy_sum_and_never_zero():
    assert tally_of([[5, 6], [7, 8]], Normal(1.0)).votes_cast(None) == 26
    assert tally_of([[5, 6], [7, 8]], Normal(1.0), k=2).votes_cast(10) == 20
    assert tally_of([[-5, -6], [-7, 1]], Normal(3.0)).votes_cast(None) == 3.0
