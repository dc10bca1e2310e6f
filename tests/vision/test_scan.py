from __future__ import annotations

import math

import pytest
import torch
from torch import nn

from recordwise.errors import InvalidInput
from recordwise.vision.augment import Augment
from recordwise.vision.scan import Scan, _disagreement, scan
from recordwise.vision.self_supervised import features_of
from recordwise.vision.steps import Compute
from recordwise.vision.training import TrainingRun

CPU = Compute(device="cpu")
PLAIN = Augment()


class Colour(nn.Module):
    """A backbone that sees the mean colour and nothing else."""

    def __init__(self) -> None:
        super().__init__()
        self.gain = nn.Parameter(torch.full((3,), 10.0))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x.mean((2, 3)) * self.gain


def coloured() -> tuple[torch.Tensor, torch.Tensor]:
    kinds = torch.arange(90) % 3
    images = torch.randint(0, 60, (90, 3, 8, 8), dtype=torch.uint8, generator=torch.Generator().manual_seed(0))
    images[torch.arange(90), kinds] += 190
    return images, kinds


def test_neighbours_of_one_kind_become_one_cluster():
    images, kinds = coloured()
    same = torch.stack([torch.arange(90).roll(shift) for shift in (3, 6, 9)], dim=1)  # three others of its kind
    settings = Scan(clusters=3, heads=4, epochs=40, batch=30, rate=0.05, view=PLAIN)
    network = scan(Colour(), 3, images, same, settings, run=TrainingRun())
    clusters = features_of(network, images, CPU).argmax(1)
    table = torch.zeros(3, 3).index_put_((clusters, kinds), torch.ones(90), accumulate=True)
    assert sorted(table.max(1).values.tolist()) == [30.0, 30.0, 30.0]


def test_the_given_backbone_is_left_alone():
    images, _ = coloured()
    backbone = Colour()
    scan(backbone, 3, images, torch.arange(90)[:, None], Scan(clusters=3, heads=1, epochs=1, view=PLAIN),
         run=TrainingRun())  # fmt: skip
    assert backbone.gain.tolist() == [10.0, 10.0, 10.0]


def test_sure_agreement_that_uses_all_clusters_is_the_best_there_is():
    n, clusters = 12, 4
    sure = torch.eye(clusters).repeat(n // clusters, 1)[:, None]
    unsure = torch.full((n, 1, clusters), 1 / clusters)
    collapsed = torch.eye(clusters)[torch.zeros(n, dtype=torch.int64)][:, None]
    best = _disagreement(sure, sure, 5.0)
    assert float(best) == pytest.approx(-5 * math.log(4))
    assert best < _disagreement(unsure, unsure, 5.0)
    assert best < _disagreement(collapsed, collapsed, 5.0)
    assert best < _disagreement(sure, sure.roll(1, 0), 5.0)


@pytest.mark.parametrize(
    ("wrong", "line"),
    [
        (torch.zeros(89, 2, dtype=torch.int64), "near must be a tensor of 2 dimensions .* 90 images"),
        (torch.zeros(90, dtype=torch.int64), "near must be a tensor of 2 dimensions"),
        (torch.zeros(90, 0, dtype=torch.int64), "near must be a tensor of 2 dimensions"),
        (torch.zeros(90, 2), "near must be integers, got torch.float32"),
        (torch.full((90, 2), 90), r"near must lie in \[0, 89\], got 90"),
    ],
)
def test_neighbours_that_do_not_fit_the_images_are_refused(wrong: torch.Tensor, line: str):
    with pytest.raises(InvalidInput, match=f"^{line}"):
        scan(Colour(), 3, coloured()[0], wrong, Scan(clusters=3, view=PLAIN), run=TrainingRun())


def test_the_number_of_neighbours_is_said_by_the_neighbours_alone():
    with pytest.raises(TypeError, match="neighbours"):
        Scan(neighbours=5)  # type: ignore[call-arg]
