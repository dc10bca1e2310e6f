from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
import torch
from scipy import stats

from recordwise.errors import InvalidInput
from recordwise.privacy.noise import SeededNoise
from recordwise.privacy.noise.normal import Normal
from recordwise.protocols.central import CentralLaplace
from recordwise.protocols.release import Tally
from recordwise.vision.shares import Table, aligned, calibrated, class_shares, held, mean_answers, shares_of
from recordwise.votes import Ballot


def tally(counts: np.ndarray, epsilon: Fraction = Fraction(1), seed: int = 0) -> Tally:
    """The counts with noise of central discrete Laplace."""
    protocol = CentralLaplace(ballot=Ballot(num_queries=len(counts), num_classes=counts.shape[1]), epsilon=epsilon)
    noisy = counts + protocol.law.sample(counts.shape, SeededNoise(seed))
    return Tally(protocol.ballot, replace(protocol.guarantee, private=False), noisy.astype(float), protocol.law)


def test_the_posterior_is_that_of_gamma_rates_and_the_noise_summed_count_by_count():
    released = tally(np.array([[30, 6, 0], [2, 1, 17]]))
    means = np.array([[0.6, 0.3, 0.1], [0.2, 0.2, 0.6]])
    found = shares_of(released, [40, 20], records=60).posterior(torch.from_numpy(means), concentration=18.0).numpy()
    expected, counts = np.array([40.0, 20.0]), np.arange(140)
    rates = np.zeros((2, 3))
    floored = (means + 1e-3 / 3) / (1 + 1e-3)
    for q, y in np.ndindex(2, 3):
        shape, rate = 18 * floored[q, y], 18 / expected[q]
        law = stats.nbinom.pmf(counts, shape, rate / (rate + 1))
        law = law * np.exp(released.law.log_likelihood(released.estimate[q, y] - counts))
        rates[q, y] = (law / law.sum()) @ ((shape + counts) / (rate + 1))
    np.testing.assert_allclose(found, rates / rates.sum(1, keepdims=True), atol=1e-3)


def test_exact_counts_are_followed_and_hopeless_noise_is_not():
    counts = np.array([[70, 20, 10], [10, 80, 10]])
    means = torch.tensor([[0.4, 0.3, 0.3], [0.3, 0.3, 0.4]])
    clear = shares_of(tally(counts, Fraction(1000)), [1, 1], records=200).posterior(means).numpy()
    np.testing.assert_allclose(clear, counts / 100, atol=0.03)
    loud = replace(tally(counts), law=Normal(1e5))
    np.testing.assert_allclose(shares_of(loud, [1, 1], records=200).posterior(means).numpy(), means, atol=0.01)


def test_the_posterior_is_nearer_to_the_truth_than_table_and_model():
    rng = np.random.default_rng(1)
    truth = rng.dirichlet(np.full(5, 0.3), size=80)
    released = tally(rng.poisson(40 * truth), Fraction(1, 2))
    model = torch.from_numpy(np.stack([rng.dirichlet(8 * row + 0.1) for row in truth]))
    found = shares_of(released, np.ones(80), records=3200).posterior(model).numpy()
    table = np.maximum(released.estimate, 0.5)
    table /= table.sum(1, keepdims=True)
    errors = [np.abs(each - truth).sum(1).mean() for each in (found, table, model.numpy())]
    assert errors[0] < 0.8 * min(errors[1:])


def test_alignment_meets_the_shares_and_changes_nothing_that_meets_them_already():
    generator = torch.Generator().manual_seed(0)
    answers = torch.rand(600, 4, generator=generator, dtype=torch.float64).mul(4).softmax(1)
    owner = torch.randint(0, 6, (600,), generator=generator)
    goal = torch.rand(6, 4, generator=generator, dtype=torch.float64).mul(3).softmax(1)
    moved = aligned(answers, owner, goal)
    torch.testing.assert_close(mean_answers(moved, owner, 6), goal, atol=2e-3, rtol=0)
    torch.testing.assert_close(moved.sum(1), torch.ones(600, dtype=torch.float64))
    torch.testing.assert_close(aligned(moved, owner, goal), moved, atol=5e-3, rtol=0)


def test_answers_that_are_too_sure_are_tempered_as_the_records_show():
    rng = np.random.default_rng(0)
    logits = rng.normal(0, 1.5, (4000, 3))
    chances = np.exp(logits) / np.exp(logits).sum(1, keepdims=True)
    owner = logits.argmax(1) * 5 + rng.integers(5, size=4000)
    counts = np.zeros((15, 3))
    np.add.at(counts, (owner, [rng.choice(3, p=row) for row in chances]), 1)
    table = Table(torch.from_numpy(owner), shares_of(tally(counts), np.bincount(owner), records=4000))
    found = calibrated(torch.from_numpy(5 * logits), [table]).numpy()  # five times too sure
    assert np.abs(found - chances).mean() < 0.02
    assert np.abs(calibrated(torch.from_numpy(logits), [table]).numpy() - chances).mean() < 1e-6


def test_several_tables_are_all_met():
    rng = np.random.default_rng(0)
    label = rng.integers(3, size=3000)
    tables = []
    for seed, purity in enumerate((0.3, 0.7)):
        owner = np.where(rng.random(3000) < purity, label, rng.integers(3, size=3000))
        counts = np.zeros((3, 3))
        np.add.at(counts, (owner, label), 1)
        shares = shares_of(tally(counts, seed=seed), np.bincount(owner), records=3000)
        tables.append(Table(torch.from_numpy(owner), shares))
    one, both = (held(torch.zeros(3000, 3), some) for some in (tables[1:], tables))
    for table in tables:
        goal = table.shares.posterior(table.means(both))
        torch.testing.assert_close(table.means(both), goal, atol=0.01, rtol=0)
    sure_of_truth = [float(answers[np.arange(3000), label].log().mean()) for answers in (one, both)]
    assert sure_of_truth[1] > sure_of_truth[0]  # the other release told something, too


def test_classes_are_equally_common_unless_the_tally_says_otherwise():
    even = tally(np.full((50, 4), 10), Fraction(1, 100))
    np.testing.assert_allclose(class_shares(even, records=2000), 0.25)
    uneven = np.tile([20, 10, 6, 4], (50, 1))
    np.testing.assert_allclose(class_shares(tally(uneven), records=2000), [0.5, 0.25, 0.15, 0.1], atol=0.02)


def test_a_class_that_the_answers_forget_comes_back_where_the_noise_hides_the_queries():
    rng = np.random.default_rng(0)
    owner = torch.arange(900) % 30
    table = Table(owner, shares_of(tally(np.full((30, 3), 5), Fraction(1, 100)), np.full(30, 30), records=450))
    answers = torch.from_numpy(rng.dirichlet((6, 4, 0.5), size=900))
    assert answers.mean(0)[2] < 0.06
    assert 0.25 < float(table.held(answers).mean(0)[2]) < 0.42


def test_an_opinion_counts_where_the_answers_know_nothing_and_yields_where_they_are_surer():
    table = Table(torch.zeros(4, dtype=torch.int64), shares_of(tally(np.array([[50, 50]])), [4], records=100))
    opinion = torch.tensor([[0.8, 0.2], [0.2, 0.8], [0.7, 0.3], [0.3, 0.7]], dtype=torch.float64).log()
    assert held(torch.zeros(4, 2), [table], opinion).argmax(1).tolist() == [0, 1, 0, 1]
    surer = torch.tensor([[0.0, 0.0], [0.0, 0.0], [0.0, 6.0], [6.0, 0.0]])
    assert held(surer, [table], opinion).argmax(1).tolist() == [0, 1, 1, 0]


@pytest.mark.parametrize(
    ("sizes", "records", "said"), [([1], 10, "sizes"), ([0, 0], 10, "sizes"), ([1, 1], 0, "records")]
)
def test_what_makes_no_table_is_refused(sizes, records, said):
    with pytest.raises(InvalidInput, match=said) as refusal:
        shares_of(tally(np.ones((2, 3))), sizes, records=records)
    assert "\n" not in str(refusal.value)
