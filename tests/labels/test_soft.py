from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from tests.labels.simulated import evidence, tally_of

from recordwise.labels.facts import Facts
from recordwise.labels.soft import project, soft_labels
from recordwise.privacy.noise import DiscreteLaplace
from recordwise.randomness import seeded

ROWS = arrays(np.float64, (2, 4), elements=st.floats(-50, 50))


@given(rows=ROWS, other=arrays(np.float64, (2, 4), elements=st.floats(0.01, 1)))
def test_a_projection_lies_on_the_simplex_and_nothing_there_is_nearer(rows, other):
    nearest = project(rows)
    assert (nearest >= 0).all()
    np.testing.assert_allclose(nearest.sum(axis=1), 1, atol=1e-9)
    another = other / other.sum(axis=1, keepdims=True)
    distance = ((rows - nearest) ** 2).sum(axis=1)
    assert (distance <= ((rows - another) ** 2).sum(axis=1) + 1e-9).all()


def test_a_distribution_is_its_own_projection():
    rows = np.array([[0.2, 0.5, 0.3], [1.0, 0.0, 0.0]])
    np.testing.assert_allclose(project(rows), rows)


def test_without_noise_soft_labels_are_the_shares_of_the_counts():
    counts = np.array([[600.0, 300, 100, 0], [0, 50, 900, 50]])
    known = evidence(tally := tally_of(counts, DiscreteLaplace(1)), Facts(sizes=[1, 1], num_records=2000))
    np.testing.assert_allclose(soft_labels(tally, known, known.posterior()), counts / 1000, atol=0.03)


def test_soft_labels_fit_the_true_shares_better_than_projected_counts():
    rng, law = seeded(0, "soft"), DiscreteLaplace(40)
    shares = rng.dirichlet([0.3] * 6, size=400)
    counts = np.array([rng.multinomial(200, row) for row in shares])
    tally = tally_of(counts + rng.laplace(0, 40, counts.shape), law)
    known = evidence(tally, Facts(sizes=np.ones(400), num_records=80_000))
    ours = ((soft_labels(tally, known, known.posterior()) - shares) ** 2).sum(axis=1).mean()
    projected = ((project(tally.estimate / 200) - shares) ** 2).sum(axis=1).mean()
    assert ours < 0.95 * projected


def test_rows_of_negative_counts_still_give_distributions():
    tally = tally_of([[-500.0, -400, -300], [-1, -1, -1]], DiscreteLaplace(100))
    known = evidence(tally, Facts(sizes=[1, 1]))
    soft = soft_labels(tally, known, known.posterior())
    assert (soft >= 0).all()
    np.testing.assert_allclose(soft.sum(axis=1), 1)


@pytest.mark.parametrize("size", [1e17, -1e17, 1e30, -1e30])
def test_rows_of_any_size_are_projected_to_distributions(size):
    """The nearest point does not change when a constant is added to a row."""
    np.testing.assert_allclose(project(np.full((2, 4), size)), 0.25)
    np.testing.assert_allclose(project(np.array([[size, 0.0, -size]])).sum(axis=1), 1)
