from __future__ import annotations

import pytest
import torch

from recordwise.vision.augment import Augment
from recordwise.vision.dti import (
    GRID,
    Dti,
    Prototypes,
    Transform,
    _places,
    _start_anew,
    _thin_plate,
    assign,
    cluster_by_transformation,
    distances,
    rebuild,
)
from recordwise.vision.steps import Compute
from recordwise.vision.training import TrainingRun

CPU = Compute(device="cpu")


def bars(count: int = 120, side: int = 12) -> tuple[torch.Tensor, torch.Tensor]:
    """Thick upright or lying bars, shifted about."""
    kinds = torch.arange(count) % 2
    images = torch.zeros(count, 1, side, side)
    images[kinds == 0, :, :, 5:7] = 1
    images[kinds == 1, :, 5:7, :] = 1
    moved = Augment(shift=0.15, padding="zeros")(images, torch.Generator().manual_seed(0))
    return (moved * 255).to(torch.uint8), kinds


def using(first: torch.Tensor, *ways: Transform) -> Prototypes:
    model = Prototypes(first, width=2).eval()
    model.ways = ways
    return model


def test_transformations_begin_as_none_at_all():
    first = torch.rand(3, 1, 12, 12)
    x = torch.rand(4, 1, 12, 12)
    for way, slack in ((Transform.AFFINE, 1e-4), (Transform.THIN_PLATE, 1e-4), (Transform.MORPHOLOGICAL, 0.06)):
        model = using(first, way)
        torch.testing.assert_close(
            model.transformed(model.amounts(x), 4), first.expand(4, -1, -1, -1, -1), atol=slack, rtol=0
        )


def test_one_number_thickens_or_thins_strokes():
    bar = torch.zeros(1, 1, 12, 12)
    bar[..., 5:7] = 1
    model = using(bar, Transform.MORPHOLOGICAL)
    around = torch.zeros(1, 26)
    around[0, :25] = 6 * (torch.arange(25) != 12)  # every pixel around counts as much as the middle
    widths = []
    for lean in (-1.0, 0.0, 1.0):
        around[0, 25] = lean
        widths.append(float((model.change(bar, [around]) > 0.5).float().sum()) / 12)
    assert widths == [0, 0, 6]  # the mean of a 5 × 5 field never sees more than two bright columns of five


def test_looking_at_the_other_prototypes_without_gradients_changes_no_gradient():
    x, ways = torch.rand(20, 1, 12, 12, generator=torch.Generator().manual_seed(1)), tuple(Transform)
    model = using(torch.rand(3, 1, 12, 12, generator=torch.Generator().manual_seed(2)), *ways)
    with torch.no_grad():
        for parameter in model.heads.parameters():
            parameter.normal_(0, 0.1, generator=torch.Generator().manual_seed(3))
    parameters = list(model.parameters())
    whole = distances(model, x).min(1).values.mean()
    rebuilt, mine = rebuild(model, x)
    assert mine.argmax(1).tolist() == distances(model, x).argmin(1).tolist()
    loss = (rebuilt - x).square().mean()
    for one, other in zip(torch.autograd.grad(whole, parameters), torch.autograd.grad(loss, parameters), strict=True):
        torch.testing.assert_close(one, other, atol=1e-6, rtol=1e-3)


def test_the_spline_follows_its_control_points():
    spline = _thin_plate(12)
    assert spline.shape == (12, 12, GRID**2)
    torch.testing.assert_close(spline.sum(2), torch.ones(12, 12), atol=1e-4, rtol=0)  # all move alike: a plain shift
    line = torch.linspace(-1, 1, GRID)
    y, x = torch.meshgrid(line, line, indexing="ij")
    stretched = spline @ torch.stack([x.flatten(), y.flatten()], dim=1)  # a linear map is not bent
    torch.testing.assert_close(stretched, _places(12), atol=1e-4, rtol=0)


def test_shifted_copies_end_in_one_cluster():
    images, kinds = bars()
    settings = Dti(prototypes=2, epochs=16, batch=20, rate=5e-3, width=4, curriculum=((Transform.AFFINE, 3),))
    errors: list[float] = []
    model = cluster_by_transformation(
        images, settings, run=TrainingRun(seed=1, progress=lambda epoch, error: errors.append(error))
    )
    clusters = assign(model, images)
    agreement = float((clusters == kinds).float().mean())
    assert max(agreement, 1 - agreement) > 0.95
    assert errors[-1] < errors[0] / 2


def test_an_empty_cluster_starts_anew():
    images, _ = bars(60)
    images[30:] = images[:1]  # one image many times: random starts coincide
    settings = Dti(prototypes=4, epochs=4, batch=20, width=2, curriculum=())
    model = cluster_by_transformation(images, settings, run=TrainingRun())
    assert len(assign(model, images).unique()) >= 2


def test_a_cluster_that_starts_anew_takes_half_of_the_largest_one():
    generator = torch.Generator().manual_seed(0)
    centre = torch.rand(1, 12, 12, generator=generator)
    x = centre + 0.05 * torch.randn(400, 1, 12, 12, generator=generator)
    model, members = using(torch.stack([centre, torch.zeros(1, 12, 12)])), torch.tensor([400.0, 0.0])
    _start_anew(model, members, Dti(prototypes=2), generator)
    assert float((distances(model, x).argmin(1) == 1).float().mean()) == pytest.approx(0.5, abs=0.15)
    assert members.tolist() == [200, 200]
    one_sided = using(torch.stack([centre, model.images[1].detach()]))  # only the copy steps aside
    assert float((distances(one_sided, x).argmin(1) == 1).float().mean()) < 0.1


def test_the_curriculum_decides_which_transformations_are_used():
    images, _ = bars(40)
    settings = Dti(
        prototypes=2, epochs=2, batch=20, width=2, curriculum=((Transform.AFFINE, 1), (Transform.THIN_PLATE, 9))
    )
    model = cluster_by_transformation(images, settings, run=TrainingRun())
    assert model.ways == (Transform.AFFINE,)


@pytest.mark.parametrize("channels", [1, 3])
def test_distances_are_zero_to_the_prototype_itself(channels: int):
    first = torch.rand(3, channels, 10, 10)
    model = using(first)
    assert distances(model, first).argmin(1).tolist() == [0, 1, 2]
    torch.testing.assert_close(distances(model, first).diagonal(), torch.zeros(3))
    assert distances(using(first, *Transform), first).shape == (3, 3)
