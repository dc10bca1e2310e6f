from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import pytest
import torch
from torch.nn import functional

from recordwise.errors import InvalidInput
from recordwise.vision.augment import Augment
from recordwise.vision.self_supervised import (
    Byol,
    Pretraining,
    channel_statistics,
    features_of,
    pretrain,
    scattering,
)
from recordwise.vision.simclr import SimClr
from recordwise.vision.steps import Compute
from recordwise.vision.training import TrainingRun

CPU = Compute(device="cpu")
TINY = Byol(
    epochs=2, prototype_epochs=1, batch=16, width=2, hidden=16, projection=8, prototypes=3, warm_up_epochs=1,
    view=Augment(size=12, crop=(0.5, 1.0), flip=0.5),
)  # fmt: skip


@pytest.fixture
def images() -> torch.Tensor:
    return torch.randint(0, 256, (48, 3, 16, 16), dtype=torch.uint8, generator=torch.Generator().manual_seed(0))


def test_the_same_seed_gives_the_same_encoder(images: torch.Tensor):
    first, again, other = (pretrain(images, TINY, run=TrainingRun(seed=seed)) for seed in (1, 1, 2))
    assert torch.equal(features_of(first, images, CPU), features_of(again, images, CPU))
    assert not torch.equal(features_of(first, images, CPU), features_of(other, images, CPU))


def test_pretraining_tells_textures_apart_better_than_chance():
    # Four kinds of stripes; a random network sees pixels, a trained one what survives a crop.
    generator = torch.Generator().manual_seed(0)
    kinds = torch.arange(160) % 4
    grid = torch.arange(16).float()
    phase = torch.rand(160, 1, 1, generator=generator) * 2 * math.pi
    angle = (kinds * math.pi / 4).view(-1, 1, 1)
    wave = torch.sin((grid.view(1, -1, 1) * angle.sin() + grid.view(1, 1, -1) * angle.cos()) * 1.2 + phase)
    images = ((wave[:, None] + 1) * 127).to(torch.uint8)
    settings = replace(TINY, epochs=8, prototype_epochs=0, width=4, view=Augment(size=12, crop=(0.4, 1.0)))
    backbone = pretrain(images, settings, run=TrainingRun(seed=3))
    seen = functional.normalize(features_of(backbone, images, CPU), dim=1)
    alike = (seen @ seen.T).fill_diagonal_(-1)
    assert float((kinds[alike.argmax(1)] == kinds).float().mean()) > 0.7


def test_the_target_moves_only_a_little(images: torch.Tensor):
    run = Pretraining(images, TINY, run=TrainingRun(seed=1))
    before = [parameter.clone() for parameter in run.target.parameters()]
    run.run_epoch()
    for old, target, online in zip(before, run.target.parameters(), run.online.parameters(), strict=True):
        assert float((target - old).norm()) <= float((online.detach() - old).norm()) + 1e-6


def test_prototypes_far_apart_cost_less_than_prototypes_in_one_place():
    member = torch.eye(3).repeat_interleave(4, 0)
    apart = torch.eye(3).repeat_interleave(4, 0)
    together = functional.normalize(torch.ones(12, 3), dim=1)
    assert scattering(apart, apart, member, 0.5) < scattering(together, together, member, 0.5)
    # Twins alike, others orthogonal: log(e^2 + 2) - 2.
    torch.testing.assert_close(scattering(apart, apart, member, 0.5), torch.tensor(math.log(math.e**2 + 2) - 2))


def test_an_empty_group_plays_no_part():
    member = torch.eye(3).repeat_interleave(4, 0)
    points = torch.eye(3).repeat_interleave(4, 0)
    with_empty = functional.pad(member, (0, 1))
    torch.testing.assert_close(scattering(points, points, with_empty, 0.5), scattering(points, points, member, 0.5))


def test_channel_statistics_are_those_of_the_pool(images: torch.Tensor):
    mean, deviation = channel_statistics(images)
    flat = images.double().div(255).transpose(0, 1).flatten(1)
    torch.testing.assert_close(torch.tensor(mean).double(), flat.mean(1))
    torch.testing.assert_close(torch.tensor(deviation).double(), flat.std(1, correction=0))


def test_mirrored_features_do_not_see_left_and_right(images: torch.Tensor):
    backbone = pretrain(images, replace(TINY, epochs=1, prototype_epochs=0), run=TrainingRun(seed=1))
    once = features_of(backbone, images, CPU, mirror=True)
    torch.testing.assert_close(once, features_of(backbone, images.flip(3), CPU, mirror=True, chunk=7))


@pytest.mark.parametrize(
    "wrong",
    [{"prototype_epochs": -1}, {"warm_up_epochs": -1}, {"follow_epochs": 0}, {"hidden": 0}, {"projection": 0}],
    ids=str,
)
def test_impossible_settings_are_refused(wrong: dict[str, Any]):
    name = next(iter(wrong))
    with pytest.raises(InvalidInput, match=f"^{name} must be a whole number >= "):
        Byol(**wrong)
    if name in ("hidden", "projection"):
        with pytest.raises(InvalidInput, match=f"^{name} must be"):
            SimClr(**wrong)
    Byol(prototype_epochs=0, warm_up_epochs=0)
