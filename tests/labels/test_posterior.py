"""Posterior labels: right as often as they say, when the records are as the model says."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from tests.labels.simulated import choices_of, owned_counts, tally_of

from recordwise.labels.argmax import decode_argmax
from recordwise.labels.facts import Facts
from recordwise.labels.posterior import decode_posterior
from recordwise.privacy.noise import DiscreteGaussian, DiscreteLaplace, SeededNoise, permute_and_flip
from recordwise.protocols.release.purity import tried_purities
from recordwise.randomness import seeded

FALSE_FAILURE = 1e-9
QUERIES, CLASSES, RECORDS = 20_000, 5, 60


def slack(number):
    """Hoeffding: a mean of so many independent indicators strays further with probability FALSE_FAILURE."""
    return np.sqrt(np.log(2 / FALSE_FAILURE) / (2 * number))


def as_the_model_says(seed):
    rng = seeded(seed, "calibration")
    labels = rng.integers(CLASSES, size=QUERIES)
    purity = rng.choice(tried_purities(CLASSES), size=QUERIES)
    counts = np.zeros((QUERIES, CLASSES), dtype=np.int64)
    for value in np.unique(purity):
        some = purity == value
        counts[some] = owned_counts(labels[some], np.full(some.sum(), RECORDS), value, CLASSES, rng)
    return labels, counts


def check_calibration(labels, truth, twin=None):
    right = labels.hard == truth
    bands = [(0.2, 0.5), (0.5, 0.8), (0.8, 0.95), (0.95, 1.01)]
    for low, high in bands:
        some = (labels.leads >= low) & (labels.leads < high)
        assert some.sum() > 500
        assert abs(right[some].mean() - labels.leads[some].mean()) < slack(some.sum()) + 0.01
    if twin is not None:  # a decoder that is told half the noise is caught
        some = (twin.leads >= 0.5) & (twin.leads < 0.95)
        assert (twin.hard == truth)[some].mean() < twin.leads[some].mean() - slack(some.sum()) - 0.01


@pytest.mark.parametrize("law", [DiscreteLaplace(12), DiscreteGaussian(300)], ids=repr)
def test_labels_of_a_tally_are_right_as_often_as_they_say(law):
    truth, counts = as_the_model_says(0)
    estimate = counts + law.sample(counts.shape, SeededNoise(0))
    facts = Facts(sizes=np.ones(QUERIES), num_records=QUERIES * RECORDS)
    half = DiscreteLaplace(law.scale / 2) if isinstance(law, DiscreteLaplace) else DiscreteGaussian(law.sigma2 / 4)
    check_calibration(
        decode_posterior(tally_of(estimate, law), facts), truth, decode_posterior(tally_of(estimate, half), facts)
    )


def test_labels_of_choices_are_right_as_often_as_they_say():
    truth, counts = as_the_model_says(1)
    scale = Fraction(12)
    chosen = permute_and_flip(counts, scale, SeededNoise(1))
    facts = Facts(sizes=np.ones(QUERIES), num_records=QUERIES * RECORDS)
    labels = decode_posterior(choices_of(chosen, CLASSES, scale), facts)
    right = labels.hard == truth
    assert abs(right.mean() - labels.leads.mean()) < slack(QUERIES) + 0.01
    twin = decode_posterior(choices_of(chosen, CLASSES, scale / 2), facts)
    assert right.mean() < twin.leads.mean() - slack(QUERIES) - 0.01


def test_among_labels_that_stay_the_share_of_wrong_ones_is_as_promised():
    _, counts = as_the_model_says(2)
    law = DiscreteLaplace(12)
    estimate = counts + law.sample(counts.shape, SeededNoise(2))
    facts = Facts(sizes=np.ones(QUERIES), num_records=QUERIES * RECORDS)
    labels = decode_posterior(tally_of(estimate, law), facts).abstain_below(0.8)
    stay = labels.answered
    assert 1_000 < stay.sum() < QUERIES
    of_the_label = counts[np.arange(QUERIES), labels.hard] / RECORDS  # the records for which it is right
    assert of_the_label[stay].mean() >= 0.8 - slack(stay.sum())


def test_a_label_is_right_for_as_many_records_as_its_confidence_says():
    _, counts = as_the_model_says(3)
    law = DiscreteLaplace(12)
    facts = Facts(sizes=np.ones(QUERIES), num_records=QUERIES * RECORDS)
    labels = decode_posterior(tally_of(counts + law.sample(counts.shape, SeededNoise(3)), law), facts)
    of_the_label = counts[np.arange(QUERIES), labels.hard] / RECORDS
    assert abs(of_the_label.mean() - labels.confidence.mean()) < slack(QUERIES) + 0.02
    assert labels.leads.mean() > of_the_label.mean() + 0.1  # what noise did not flip is another thing


def test_labels_are_those_of_the_largest_cells():
    rng = seeded(3, "argmax")
    estimate = rng.normal(0, 50, (300, 6))
    release, facts = tally_of(estimate, DiscreteLaplace(30)), Facts(sizes=rng.integers(1, 9, 300))
    chosen = decode_posterior(release, facts)
    largest = decode_argmax(release, facts).hard
    assert (chosen.hard == largest).all()
