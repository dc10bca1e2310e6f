from __future__ import annotations

import math

import torch
from torch.nn import functional

from recordwise.vision.augment import Augment
from recordwise.vision.self_supervised import features_of
from recordwise.vision.simclr import SimClr, contrast, simclr
from recordwise.vision.steps import Compute
from recordwise.vision.training import TrainingRun

CPU = Compute(device="cpu")
TINY = SimClr(
    epochs=2, batch=16, width=2, hidden=16, projection=8, warm_up=0.2, view=Augment(size=12, crop=(0.5, 1.0), flip=0.5)
)


def test_the_loss_is_cross_entropy_on_finding_the_twin():
    units = functional.normalize(torch.randn(12, 5, generator=torch.Generator().manual_seed(0)), dim=1)
    logits = (units @ units.T / 0.5).fill_diagonal_(-1e9)
    oracle = functional.cross_entropy(logits, (torch.arange(12) + 6) % 12)
    torch.testing.assert_close(contrast(units, 0.5), oracle)


def test_equal_twins_far_from_others_cost_least():
    apart = torch.eye(4).repeat(2, 1)
    together = torch.ones(8, 4) / 2
    torch.testing.assert_close(contrast(together, 0.5), torch.tensor(math.log(7)))
    assert contrast(apart, 0.5) < contrast(together, 0.5)


def test_the_same_seed_gives_the_same_encoder_and_the_loss_falls():
    images = torch.randint(0, 256, (64, 3, 16, 16), dtype=torch.uint8, generator=torch.Generator().manual_seed(0))
    losses: list[float] = []
    first = simclr(images, TINY, run=TrainingRun(seed=1, progress=lambda epoch, loss: losses.append(loss)))
    again = simclr(images, TINY, run=TrainingRun(seed=1))
    assert torch.equal(features_of(first, images, CPU), features_of(again, images, CPU))
    assert losses[-1] < losses[0]
