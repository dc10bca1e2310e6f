from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
import torch
from tests.vision.test_scan import Colour, coloured

from recordwise.errors import InvalidInput
from recordwise.vision.augment import Augment
from recordwise.vision.self_label import SelfLabel, agreeing, self_label
from recordwise.vision.self_supervised import features_of
from recordwise.vision.steps import Compute
from recordwise.vision.training import TrainingRun

CPU = Compute(device="cpu")
SETTINGS = SelfLabel(
    epochs=30, trusting_epochs=15, batch=30, rate=0.1, keep=0.9, sure=0.6, strong=Augment(cutout=3), weak=Augment()
)


@pytest.mark.parametrize("keep", [0.9, 0.999])  # as many steps as the second averages over would be a long run
def test_wrong_labels_that_look_like_their_neighbours_are_corrected(keep: float):
    images, kinds = coloured()
    labels = kinds.clone()
    labels[::9] = (labels[::9] + 1) % 3  # ten wrong ones
    settings = replace(SETTINGS, keep=keep)
    network = self_label(
        Colour(),
        3,
        images,
        labels,
        torch.ones(90, dtype=torch.bool),
        settings,
        classes=3,
        run=TrainingRun(),
    )
    assert torch.equal(features_of(network, images, CPU).argmax(1), kinds)


def test_labels_that_are_not_trusted_are_not_looked_at():
    images, kinds = coloured()
    trusted = torch.arange(90) < 30
    spoiled = torch.where(trusted, kinds, torch.zeros_like(kinds))
    first, again = (
        self_label(Colour(), 3, images, labels, trusted, SETTINGS, classes=3, run=TrainingRun())
        for labels in (kinds, spoiled)
    )
    assert torch.equal(first.head.weight, again.head.weight)


def test_the_teachers_answers_follow_the_given_shares():
    images, kinds = coloured()
    shares = torch.tensor([0.8, 0.1, 0.1])
    unsure = replace(SETTINGS, trusting_epochs=1, epochs=6, rate=0.02)  # so that the shares can tip the balance
    told = []
    for prior in (None, shares):
        network = self_label(
            Colour(), 3, images, kinds, torch.ones(90, dtype=torch.bool), unsure,
            classes=3, prior=prior, run=TrainingRun(),
        )  # fmt: skip
        told.append(features_of(network, images, CPU).softmax(1).mean(0)[0])
    assert told[1] > told[0]


@pytest.mark.parametrize("seed", [0, 1, 3])
def test_a_class_that_is_being_forgotten_is_taught_again(seed: int):
    images, kinds = coloured()
    few = torch.arange(90)[(kinds != 2) | (torch.arange(90) < 24)]  # eight of the third kind, thirty of the others
    images, kinds = images[few], kinds[few]
    hasty = replace(SETTINGS, trusting_epochs=1, rate=0.05, sure=0.8, alignment=0.8)
    network = self_label(
        Colour(), 3, images, kinds, torch.ones(len(few), dtype=torch.bool), hasty,
        classes=3, prior=torch.tensor([30.0, 30, 8]) / 68, run=TrainingRun(seed=seed),
    )  # fmt: skip
    assert torch.equal(features_of(network, images, CPU).argmax(1), kinds)


def test_points_whose_neighbours_agree_are_trusted():
    labels = torch.tensor([0, 0, 0, 1, 1])
    neighbours = torch.tensor([[1, 2], [0, 2], [0, 3], [4, 4], [0, 1]])
    assert agreeing(labels, neighbours, 1.0).tolist() == [True, True, False, True, False]
    assert agreeing(labels, neighbours, 0.5).tolist() == [True, True, True, True, False]


def test_nobody_trusted_is_refused():
    images, kinds = coloured()
    with pytest.raises(InvalidInput, match="trusted"):
        self_label(
            Colour(),
            3,
            images,
            kinds,
            torch.zeros(90, dtype=torch.bool),
            SETTINGS,
            classes=3,
            run=TrainingRun(),
        )


@pytest.mark.parametrize(
    ("wrong", "line"),
    [
        (
            {"labels": torch.arange(91) % 3},
            r"labels must be a tensor of 1 dimension with one row for each of the 90 images",
        ),
        ({"labels": torch.zeros(89, dtype=torch.int64)}, "labels must be a tensor .* got torch.int64 of shape"),
        ({"labels": [0] * 90}, "labels must be a tensor"),
        ({"labels": torch.zeros(90)}, "labels must be integers, got torch.float32"),
        ({"labels": torch.arange(90) % 4}, r"labels must lie in \[0, 2\], got 3"),
        ({"labels": torch.arange(90) % 3 - 1}, r"labels must lie in \[0, 2\], got -1"),
        ({"trusted": torch.ones(91, dtype=torch.bool)}, "trusted must be a tensor .* 90 images"),
        ({"trusted": torch.ones(90, dtype=torch.int64)}, "trusted must be booleans, got torch.int64"),
        ({"prior": torch.ones(2) / 2}, "prior must be a tensor of 3 shares >= 0"),
        ({"prior": [0.2, 0.4, 0.4]}, "prior must be a tensor of 3 shares >= 0"),
        ({"prior": torch.tensor([-0.2, 0.6, 0.6])}, "prior must be a tensor of 3 shares >= 0"),
        ({"prior": torch.tensor([float("nan"), 0.5, 0.5])}, "prior must be a tensor of 3 shares >= 0"),
        ({"prior": torch.tensor([0.2, 0.2, 0.2])}, "prior must sum to 1"),
        ({"classes": 0}, "classes must be a whole number >= 1"),
    ],
)
def test_what_does_not_fit_the_images_is_refused(wrong: dict[str, Any], line: str):
    images, kinds = coloured()
    given = {"labels": kinds, "trusted": torch.ones(90, dtype=torch.bool), "prior": None, "classes": 3, **wrong}
    with pytest.raises(InvalidInput, match=f"^{line}"):
        self_label(Colour(), 3, images, settings=SETTINGS, run=TrainingRun(), **given)


def test_labels_and_shares_of_any_width_teach_the_same():
    images, kinds = coloured()
    short, shares = replace(SETTINGS, epochs=4, trusting_epochs=2), torch.tensor([0.5, 0.25, 0.25])
    first, again = (
        self_label(
            Colour(), 3, images, labels, torch.ones(90, dtype=torch.bool), short,
            classes=3, prior=prior, run=TrainingRun(),
        )
        for labels, prior in ((kinds, shares), (kinds.byte(), shares.double()))
    )  # fmt: skip
    assert torch.equal(first.head.weight, again.head.weight)
