"""The misfit of a released table as a function of logits."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from scipy.special import softmax

from recordwise.labels.likelihood import cell_law
from recordwise.privacy.noise import DiscreteLaplace, Law, Normal
from recordwise.students.table import CountTable, loss, mean_over, row_log_likelihoods, tilted


def table_of(seed: int, law: Law, *, num_samples: int = 60, num_queries: int = 5, num_classes: int = 3) -> CountTable:
    rng = np.random.default_rng(seed)
    owner = np.concatenate([np.arange(num_queries), rng.integers(-1, num_queries, num_samples - num_queries)])
    sizes = np.bincount(owner[owner >= 0], minlength=num_queries)
    return CountTable(
        mean=mean_over(owner, num_queries),
        cells=rng.normal(20, 15, size=(num_queries, num_classes)).round(),
        law=cell_law(law),
        rates=rng.uniform(20, 80, num_queries),
        grain=1 / sizes,
        prior=rng.dirichlet(np.ones(num_classes), num_queries),
        counted=np.array([1.0, 1, 0, 1, 1]),
    )


@pytest.mark.parametrize("law", [DiscreteLaplace(Fraction(3)), DiscreteLaplace(Fraction(50)), Normal(4.0)], ids=repr)
def test_the_gradient_is_that_of_the_loss(law: Law) -> None:
    tables = [table_of(0, law), table_of(1, law)]
    rng = np.random.default_rng(2)
    logits = rng.normal(size=(60, 3)).astype(np.float32)
    _, gradient = loss(logits, tables)
    for _ in range(5):
        direction = rng.normal(size=logits.shape).astype(np.float32)
        step = np.float32(1e-2)
        slope = (loss(logits + step * direction, tables)[0] - loss(logits - step * direction, tables)[0]) / (2 * step)
        assert slope == pytest.approx(float((gradient * direction).sum()), rel=0.01, abs=0.05)


def test_rows_that_do_not_count_change_nothing_but_the_prior() -> None:
    table = table_of(0, Normal(4.0))
    other = table_of(0, Normal(4.0))
    other.cells[2] = 1e6
    logits = np.random.default_rng(2).normal(size=(60, 3)).astype(np.float32)
    assert loss(logits, [table])[0] == loss(logits, [other])[0]
    assert len(row_log_likelihoods(softmax(logits, axis=1), [table])) == 4


def test_tilted_chances_have_the_shares_that_are_believed() -> None:
    table = table_of(3, Normal(0.5))
    probabilities = softmax(np.random.default_rng(2).normal(size=(60, 3)).astype(np.float32), axis=1)
    moved = tilted(probabilities, [table])
    wanted = table.believed((table.mean @ probabilities).astype(np.float64))
    before, after = (np.abs(table.mean @ one - wanted).max() for one in (probabilities, moved))
    assert after < 0.02 < before
    assert np.allclose(moved.sum(axis=1), 1, atol=1e-5)


def test_a_sample_of_no_query_is_left_as_it_is() -> None:
    table = table_of(3, Normal(0.5))
    nobody = np.asarray(table.mean.sum(axis=0)).ravel() == 0
    assert nobody.any()
    probabilities = softmax(np.random.default_rng(2).normal(size=(60, 3)).astype(np.float32), axis=1)
    assert np.allclose(tilted(probabilities, [table])[nobody], probabilities[nobody], atol=1e-6)


def test_of_some_samples_means_are_taken_over_those() -> None:
    table = table_of(0, Normal(4.0))
    kept = np.arange(0, 60, 2)
    values = np.random.default_rng(0).normal(size=(60, 1)).astype(np.float32)
    some = table.of_samples(kept)
    for query in range(5):
        members = [i for i in kept if table.mean[[query]].toarray()[0, i] > 0]
        if members:
            assert (some.mean @ values[kept])[query, 0] == pytest.approx(float(values[members].mean()), abs=1e-5)
        else:
            assert some.counted[query] == 0


def test_the_loss_for_modules_is_the_same() -> None:
    torch = pytest.importorskip("torch")
    from recordwise.students.table_loss import table_loss

    rng = np.random.default_rng(0)
    owner = np.concatenate([np.arange(5), rng.integers(0, 5, 55)])
    sizes = np.bincount(owner)
    for law in (cell_law(DiscreteLaplace(Fraction(3))), cell_law(Normal(4.0))):
        cells, rates = rng.normal(20, 15, size=(5, 3)).round(), rng.uniform(20, 80, 5)
        table = CountTable(
            mean=mean_over(owner, 5), cells=cells, law=law, rates=rates, grain=1 / sizes,
            prior=np.zeros((5, 3)), counted=np.ones(5),
        )  # fmt: skip
        values = rng.normal(size=(60, 3)).astype(np.float32)
        expected, gradient = loss(values, [table])
        logits = torch.tensor(values, dtype=torch.float64, requires_grad=True)
        facts = [torch.from_numpy(one) for one in (owner, cells, rates, sizes)]
        found = table_loss(logits, *facts, law)
        found.backward()
        assert float(found.detach()) == pytest.approx(expected, rel=1e-4)
        assert np.allclose(logits.grad.numpy(), gradient, atol=1e-2)
