"""Noisy SGD beside Opacus, where that is installed (`pip install opacus`): its accountant, its clipped gradients."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
import torch

from recordwise.baselines import NoisySGDFineTune
from recordwise.baselines.finetune import whole_gradients
from recordwise.baselines.gaussian_sums import UNIT, noise_for, sampled_gaussian
from recordwise.baselines.noisy_sgd import gradient_sums
from recordwise.privacy.guarantee import Neighbours
from recordwise.randomness import seeded

with warnings.catch_warnings():  # Opacus's imports warn of PyTorch's plans
    warnings.simplefilter("ignore")
    opacus = pytest.importorskip("opacus", reason="Opacus is not installed")
    from opacus.accountants import PRVAccountant
    from opacus.grad_sample import GradSampleModule
    from opacus.optimizers import DPOptimizer

pytestmark = pytest.mark.filterwarnings("ignore")

MARGIN = 0.012  # Opacus adds 0.01 for the error of its own accountant


def theirs(multiplier: float, rate: float, steps: int) -> float:
    accountant = PRVAccountant()
    accountant.history = [(multiplier, rate, steps)]
    return float(accountant.get_epsilon(1e-5))


@pytest.mark.parametrize(("multiplier", "rate", "steps"), [(1.0, 0.02, 500), (3.0, 0.25, 40), (0.8, 0.1, 10)])
def test_epsilon_agrees_with_the_installed_accountant(multiplier: float, rate: float, steps: int) -> None:
    ours = sampled_gaussian(multiplier, rate=rate, steps=steps, delta=1e-5, neighbours=Neighbours.ADD_REMOVE)
    assert ours <= theirs(multiplier, rate, steps) <= ours + MARGIN


def test_the_noise_that_a_fit_takes_costs_by_opacus_what_was_asked() -> None:
    multiplier = noise_for(1.0, 1e-5, neighbours=Neighbours.ADD_REMOVE, cells=300, rate=0.25, steps=50)
    assert 0.99 < theirs(multiplier, 0.25, 50) <= 1 + MARGIN


@pytest.mark.parametrize("hidden", [False, True], ids=["one layer", "two layers"])
@pytest.mark.parametrize("clip", [0.3, 100.0])
def test_clipped_gradient_sums_are_those_of_its_optimizer(hidden: bool, clip: float) -> None:
    """For every route to a gradient that we have: the closed form of dense layers, and PyTorch record by record."""
    rng = seeded(0, "opacus")
    x, y = rng.normal(size=(12, 5)), rng.integers(0, 3, 12)
    layers = [torch.nn.Linear(5, 4), torch.nn.Tanh(), torch.nn.Linear(4, 3)] if hidden else [torch.nn.Linear(5, 3)]
    plain = torch.nn.Sequential(*layers).double()
    with torch.no_grad():
        for weight in plain.parameters():
            weight.copy_(torch.as_tensor(rng.normal(size=tuple(weight.shape))))
    given = [weight.detach().numpy().copy() for weight in plain.parameters()]
    weights = [np.vstack([slope.T, offset]) for slope, offset in zip(given[::2], given[1::2], strict=True)]
    ours = gradient_sums(weights, np.hstack([x, np.ones((12, 1))]), y, clip=clip)

    tuner = NoisySGDFineTune(1.0, module=plain)
    tuner.module_ = tuner._copy()
    tuned = whole_gradients(tuner._gradients(torch.as_tensor(x), torch.as_tensor(y)), clip).sum(axis=0)

    module = GradSampleModule(plain, loss_reduction="sum")
    torch.nn.functional.cross_entropy(module(torch.as_tensor(x)), torch.as_tensor(y), reduction="sum").backward()
    optimizer = DPOptimizer(
        torch.optim.SGD(module.parameters(), lr=1.0),
        noise_multiplier=0.0,
        max_grad_norm=clip,
        expected_batch_size=12,
        loss_reduction="sum",
    )
    optimizer.clip_and_accumulate()
    summed = [weight.summed_grad.numpy() for weight in plain.parameters()]

    grid = 12 * 2e-3  # twelve records, each rounded to the grid of its two factors
    for layer, slope, offset in zip(ours, summed[::2], summed[1::2], strict=True):
        np.testing.assert_allclose(layer / UNIT**2, np.vstack([slope.T, offset]), atol=grid)
    flat = np.concatenate([part.ravel() for part in summed])
    np.testing.assert_allclose(tuned / UNIT**2, flat, atol=1e-5)
