from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from torch import nn

from recordwise.errors import InvalidInput
from recordwise.vision.augment import Augment
from recordwise.vision.mixmatch import MixMatch, _beta, mixmatch, sharpen
from recordwise.vision.self_supervised import features_of
from recordwise.vision.steps import Compute
from recordwise.vision.supervised import Supervised, train
from recordwise.vision.training import TrainingRun

CPU = Compute(device="cpu")
SETTINGS = Supervised(epochs=12, view=Augment(), batch=16, rate=0.5, keep=0.9)


def halves(count: int = 96) -> tuple[torch.Tensor, torch.Tensor]:
    """Images bright on the left or on the right."""
    side = torch.arange(count) % 2
    images = torch.randint(0, 80, (count, 1, 6, 6), dtype=torch.uint8, generator=torch.Generator().manual_seed(0))
    images[side == 0, :, :, :3] += 150
    images[side == 1, :, :, 3:] += 150
    return images, side


def network() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(nn.Flatten(), nn.Linear(36, 2))


def test_soft_labels_are_learnt_with_their_weights():
    images, side = halves()
    targets = torch.eye(2)[side]
    wrong = torch.arange(96) % 3 == 0
    targets[wrong] = 1 - targets[wrong]
    doubtful = torch.where(wrong, 0.05, 1.0)
    student = train(network(), images, targets, doubtful, SETTINGS, run=TrainingRun())
    assert torch.equal(features_of(student, images, CPU).argmax(1), side)


def test_weight_zero_means_left_out():
    images, side = halves()
    targets = torch.eye(2)[side]
    weights = (torch.arange(96) < 48).float()
    spoiled = torch.where(weights[:, None] > 0, targets, 1 - targets)
    first, again = (train(network(), images, t, weights, SETTINGS, run=TrainingRun()) for t in (targets, spoiled))
    assert torch.equal(first[1].weight, again[1].weight)
    with pytest.raises(InvalidInput, match="weights"):
        train(network(), images, targets, torch.zeros(96), SETTINGS, run=TrainingRun())


def test_the_same_seed_teaches_the_same_student():
    images, side = halves()
    moving = replace(SETTINGS, view=Augment(shift=0.1, cutout=2), epochs=2)
    one, two, other = (
        train(network(), images, torch.eye(2)[side], torch.ones(96), moving, run=TrainingRun(seed=seed))
        for seed in (1, 1, 2)
    )
    assert torch.equal(one[1].weight, two[1].weight)
    assert not torch.equal(one[1].weight, other[1].weight)


def test_shapes_must_match():
    images, side = halves()
    with pytest.raises(InvalidInput, match="96 images"):
        train(network(), images, torch.eye(2)[side][:5], torch.ones(96), SETTINGS, run=TrainingRun())


def test_mixmatch_learns_from_few_labels():
    images, side = halves()
    few = torch.arange(96) < 6
    settings = MixMatch(epochs=15, batch=6, rate=0.2, keep=0.9, unlabelled_weight=5.0, view=Augment())
    student = mixmatch(network(), images, torch.eye(2)[side], few, settings, run=TrainingRun())
    assert float((features_of(student, images, CPU).argmax(1) == side).float().mean()) > 0.95


def test_mixmatch_learns_where_most_images_are_labelled_and_the_run_is_short():
    images, side = halves()
    most = torch.arange(96) < 90
    settings = MixMatch(epochs=4, batch=6, rate=0.2, unlabelled_weight=5.0, view=Augment())
    student = mixmatch(network(), images, torch.eye(2)[side], most, settings, run=TrainingRun())
    assert float((features_of(student, images, CPU).argmax(1) == side).float().mean()) > 0.95


def test_mixmatch_never_looks_at_labels_of_the_unlabelled():
    images, side = halves()
    few = torch.arange(96) < 6
    targets = torch.eye(2)[side]
    spoiled = torch.where(few[:, None], targets, 1 - targets)
    settings = MixMatch(epochs=1, batch=6)
    first, again = (mixmatch(network(), images, t, few, settings, run=TrainingRun()) for t in (targets, spoiled))
    assert torch.equal(first[1].weight, again[1].weight)
    with pytest.raises(InvalidInput, match="unlabelled"):
        mixmatch(network(), images, targets, torch.ones(96, dtype=torch.bool), settings, run=TrainingRun())


def test_sharpening_keeps_a_distribution_and_its_order():
    answers = torch.tensor([[0.6, 0.3, 0.1]])
    sharp = sharpen(answers, 0.5)
    torch.testing.assert_close(sharp, torch.tensor([[0.36, 0.09, 0.01]]) / 0.46)


def test_mixing_weights_follow_the_beta_distribution():
    draws = _beta(0.75, 100_000, torch.device("cpu"), torch.Generator().manual_seed(0))
    assert float(draws.mean()) == pytest.approx(0.5, abs=0.007)  # 7 standard errors
    assert float(draws.var()) == pytest.approx(1 / (4 * (2 * 0.75 + 1)), abs=0.002)
    assert float(draws.var()) != pytest.approx(1 / (4 * (2 * 1.0 + 1)), abs=0.002)  # Beta(1, 1) would be seen


@pytest.mark.parametrize(
    ("wrong", "line"),
    [
        ({"labelled": (torch.arange(96) < 6).long()}, "labelled must be booleans, got torch.int64"),
        ({"labelled": torch.arange(97) < 6}, "labelled must be a tensor .* 96 images"),
        ({"targets": torch.ones(95, 2)}, "targets must be a tensor .* 96 images"),
        ({"targets": torch.ones(96)}, "targets must be a tensor of 2 dimensions"),
    ],
)
def test_mixmatch_refuses_what_does_not_fit_the_images(wrong: dict[str, torch.Tensor], line: str):
    images, side = halves()
    given = {"targets": torch.eye(2)[side], "labelled": torch.arange(96) < 6, **wrong}
    with pytest.raises(InvalidInput, match=f"^{line}"):
        mixmatch(network(), images, settings=MixMatch(epochs=1), run=TrainingRun(), **given)
