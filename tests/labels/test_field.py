from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from scipy.special import softmax
from tests.labels.simulated import choices_of, evidence, owned_counts, ring, tally_of

from recordwise.errors import InvalidInput
from recordwise.labels.argmax import decode_argmax
from recordwise.labels.facts import Facts
from recordwise.labels.field import critical_coupling, decode_field, each_field, field_marginals
from recordwise.labels.posterior import decode_posterior
from recordwise.privacy.noise import DiscreteLaplace, SeededNoise, permute_and_flip
from recordwise.randomness import seeded

CLASSES, QUERIES, RECORDS = 5, 60, 100


def arcs(rng):
    """Labels of queries on a circle: every class has one arc of it."""
    cuts = np.sort(rng.choice(QUERIES, CLASSES, replace=False))
    return rng.permutation(CLASSES)[np.searchsorted(cuts, np.arange(QUERIES), side="right") % CLASSES]


def simulate(run, scale, purity=0.8):
    rng = seeded(run, "field")
    truth = arcs(rng)
    counts = owned_counts(truth, np.full(QUERIES, RECORDS), purity, CLASSES, rng)
    law = DiscreteLaplace(scale)
    return truth, counts, tally_of(counts + law.sample(counts.shape, SeededNoise(run)), law)


FACTS = Facts(sizes=np.ones(QUERIES), graph=ring(QUERIES), num_records=QUERIES * RECORDS)


def test_neighbours_rescue_labels_that_noise_has_drowned():
    right = []
    for run in range(20):
        truth, _, tally = simulate(run, scale=60)
        right.append([(d(tally, FACTS).hard == truth).mean() for d in (decode_argmax, decode_field)])
    argmax, field = np.mean(right, axis=0)
    assert argmax < 0.65
    assert field > argmax + 0.2


def test_stated_confidence_is_not_much_above_the_share_of_right_labels_however_loud_the_noise():
    for scale in (15, 40, 80, 160):
        pairs = []
        for run in range(20):
            truth, _, tally = simulate(run, scale)
            labels = decode_field(tally, FACTS)
            pairs.append((labels.leads.mean(), (labels.hard == truth).mean()))
        confidence, right = np.mean(pairs, axis=0)
        assert right - 0.25 < confidence < right + 0.06


def test_without_rehearsal_the_confidence_would_be_far_too_high():
    pairs = []
    for run in range(20):
        truth, _, tally = simulate(run, 160)
        posterior = field_marginals(evidence(tally, FACTS), FACTS)
        pairs.append((posterior.max(axis=1).mean(), (posterior.argmax(axis=1) == truth).mean()))
    confidence, right = np.mean(pairs, axis=0)
    assert confidence > right + 0.2


def test_without_noise_neighbours_overrule_nothing():
    for run in range(5):
        _, counts, tally = simulate(run, scale=Fraction(1, 10), purity=0.6)
        assert (decode_field(tally, FACTS).hard == counts.argmax(axis=1)).all()


def test_without_a_graph_and_with_public_shares_that_fit_the_labels_are_those_of_single_queries():
    _, _, tally = simulate(0, scale=20)
    known = evidence(tally, Facts(sizes=np.ones(QUERIES)))
    alone = decode_posterior(tally, Facts(sizes=np.ones(QUERIES)))
    joint = field_marginals(known, FACTS, coupling=0.0)
    assert (joint.argmax(axis=1) == alone.hard).mean() > 0.9


def test_releases_that_are_decoded_together_are_decoded_as_alone():
    several = [evidence(simulate(run, scale)[2], FACTS) for run, scale in enumerate((1, 20, 60, 160))]
    assert (each_field(several, FACTS) == [field_marginals(known, FACTS) for known in several]).all()


def test_choices_profit_from_neighbours_too():
    right = []
    for run in range(20):
        truth, counts, _ = simulate(run, scale=1)
        chosen = permute_and_flip(counts, Fraction(60), SeededNoise(run))
        labels = decode_field(choices_of(chosen, CLASSES, Fraction(60)), FACTS)
        right.append(((chosen == truth).mean(), (labels.hard == truth).mean()))
    alone, joint = np.mean(right, axis=0)
    assert joint > alone + 0.15


def test_public_class_shares_help_when_they_are_true():
    rng = seeded(9, "shares")
    shares = np.array([0.6, 0.1, 0.1, 0.1, 0.1])
    right = []
    for run in range(30):
        truth = rng.choice(CLASSES, QUERIES, p=shares)
        counts = owned_counts(truth, np.full(QUERIES, RECORDS), 0.8, CLASSES, rng)
        law = DiscreteLaplace(60)
        tally = tally_of(counts + law.sample(counts.shape, SeededNoise(run)), law)
        facts = [
            Facts(sizes=np.ones(QUERIES), num_records=QUERIES * RECORDS, class_shares=some)
            for some in (shares, np.full(CLASSES, 0.2))
        ]
        right.append([(decode_field(tally, some).hard == truth).mean() for some in facts])
    true, equal = np.mean(right, axis=0)
    assert true > equal + 0.02


def test_shares_that_a_release_clearly_shows_to_be_unequal_are_not_levelled():
    rng = seeded(10, "shares")
    truth = np.where(np.arange(QUERIES) < 50, 0, 1)
    counts = owned_counts(truth, np.full(QUERIES, RECORDS), 0.9, 2, rng)
    law = DiscreteLaplace(15)
    tally = tally_of(counts + law.sample(counts.shape, SeededNoise(3)), law)
    labels = decode_field(tally, Facts(sizes=np.ones(QUERIES), num_records=QUERIES * RECORDS))
    assert (labels.hard == truth).mean() > 0.95


@pytest.mark.parametrize("num_classes", [2, 3, 10])
def test_at_the_critical_coupling_order_and_disorder_are_equally_good(num_classes):
    """Free energy of the mean field of one class ahead by x, against none ahead: below critical disorder wins."""

    def best_order(coupling):
        ahead = np.linspace(0, 0.999999, 20_001)
        first = (1 + (num_classes - 1) * ahead) / num_classes
        other = (1 - ahead) / num_classes
        energy = coupling / 2 * (first**2 + (num_classes - 1) * other**2)
        entropy = -first * np.log(first) - (num_classes - 1) * other * np.log(other)
        return ahead[np.argmax(energy + entropy)]

    critical = critical_coupling(num_classes)
    assert best_order(0.98 * critical) == 0
    assert best_order(1.02 * critical) > 0.1


def test_class_shares_of_another_number_of_classes_are_refused():
    _, _, tally = simulate(0, scale=10)
    with pytest.raises(InvalidInput, match="class_shares must have 5 classes, got 2"):
        decode_field(tally, Facts(sizes=np.ones(QUERIES), class_shares=[0.5, 0.5]))


def test_marginals_are_a_fixed_point_of_the_mean_field():
    _, _, tally = simulate(2, scale=30)
    known = evidence(tally, FACTS)
    posterior = field_marginals(known, FACTS)
    strength = 1.5 * critical_coupling(CLASSES) * FACTS.affinity
    once_more = softmax(known.log_likelihood + strength @ posterior, axis=1)
    tilt = np.log(posterior / once_more)  # what is left is the same for every query, up to a constant each
    tilt -= tilt.mean(axis=1, keepdims=True)
    sure = posterior.min(axis=1) > 1e-6
    assert np.abs(tilt[sure] - tilt[sure].mean(axis=0)).max() < 0.1
