from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from recordwise.errors import InvalidInput
from recordwise.labels import ABSTAIN, Labels

LABELS = Labels(
    hard=np.array([2, 0, 1]),
    probabilities=np.eye(3)[[2, 0, 1]],
    confidence=np.array([0.9, 0.5, 0.7]),
    leads=np.ones(3),
    decoder="any",
    sets=np.eye(3, dtype=bool)[[2, 0, 1]],
)


def test_labels_less_likely_than_the_threshold_become_abstentions():
    kept = LABELS.abstain_below(0.7)
    assert kept.hard.tolist() == [2, ABSTAIN, 1]
    assert kept.answered.tolist() == [True, False, True]
    assert kept.sets is not None
    assert kept.sets.any(axis=1).tolist() == [True, False, True]
    assert (kept.confidence == LABELS.confidence).all()


def test_where_confidence_is_a_guess_labels_that_noise_may_have_flipped_become_abstentions():
    noisy = replace(LABELS, leads=np.array([0.6, 0.9, 0.7]))
    assert noisy.abstain_below(0.7, by_leads=True).hard.tolist() == [ABSTAIN, 0, 1]


def test_abstaining_below_zero_keeps_everything():
    assert LABELS.abstain_below(0.0).answered.all()


@pytest.mark.parametrize("threshold", [-0.1, 1.1, float("nan")])
def test_a_threshold_is_a_probability(threshold):
    with pytest.raises(InvalidInput, match=r"confidence must lie in \[0, 1\]"):
        LABELS.abstain_below(threshold)
