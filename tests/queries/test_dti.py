from __future__ import annotations

import pytest
import torch

from recordwise.encoders.augment import Augment
from recordwise.encoders.steps import Compute
from recordwise.queries.dti import (
    GRID,
    Dti,
    Prototypes,
    Transform,
    _places,
    _thin_plate,
    assign,
    cluster_by_transformation,
    distances,
)

CPU = Compute(device="cpu")
ALL = tuple(Transform)


def bars(count: int = 120, side: int = 12) -> tuple[torch.Tensor, torch.Tensor]:
    """Thick upright or lying bars, shifted about."""
    kinds = torch.arange(count) % 2
    images = torch.zeros(count, 1, side, side)
    images[kinds == 0, :, :, 5:7] = 1
    images[kinds == 1, :, 5:7, :] = 1
    moved = Augment(shift=0.15, padding="zeros")(images, torch.Generator().manual_seed(0))
    return (moved * 255).to(torch.uint8), kinds


def test_transformations_begin_as_none_at_all():
    first = torch.rand(3, 1, 12, 12)
    model = Prototypes(first, width=2).eval()
    x = torch.rand(4, 1, 12, 12)
    for way in (Transform.AFFINE, Transform.THIN_PLATE):
        torch.testing.assert_close(model(x, (way,)), first.expand(4, -1, -1, -1, -1), atol=1e-4, rtol=0)
    inside = (..., slice(2, -2), slice(2, -2))  # beyond the border the kernel sees nothing
    nearly = model(x, (Transform.MORPHOLOGICAL,))
    torch.testing.assert_close(nearly[inside], first.expand(4, -1, -1, -1, -1)[inside], atol=0.06, rtol=0)


def test_the_spline_follows_its_control_points():
    spline = _thin_plate(12)
    assert spline.shape == (144, GRID**2)
    torch.testing.assert_close(spline.sum(1), torch.ones(144), atol=1e-4, rtol=0)  # all move alike: a plain shift
    line = torch.linspace(-1, 1, GRID)
    y, x = torch.meshgrid(line, line, indexing="ij")
    stretched = spline @ torch.stack([x.flatten(), y.flatten()], dim=1)  # a linear map is not bent
    torch.testing.assert_close(stretched, _places(12).view(-1, 2), atol=1e-4, rtol=0)


def test_shifted_copies_end_in_one_cluster():
    images, kinds = bars()
    settings = Dti(prototypes=2, epochs=16, batch=20, rate=5e-3, width=4, curriculum=((Transform.AFFINE, 3),))
    errors: list[float] = []
    model = cluster_by_transformation(
        images, settings, seed=1, compute=CPU, progress=lambda epoch, error: errors.append(error)
    )
    clusters = assign(model, images)
    agreement = float((clusters == kinds).float().mean())
    assert max(agreement, 1 - agreement) > 0.95
    assert errors[-1] < errors[0] / 2


def test_an_empty_cluster_starts_anew():
    images, _ = bars(60)
    images[30:] = images[:1]  # one image many times: random starts coincide
    settings = Dti(prototypes=4, epochs=4, batch=20, width=2, curriculum=())
    model = cluster_by_transformation(images, settings, seed=0, compute=CPU)
    assert len(assign(model, images).unique()) >= 2


def test_the_curriculum_decides_which_transformations_are_used():
    images, _ = bars(40)
    settings = Dti(
        prototypes=2, epochs=2, batch=20, width=2, curriculum=((Transform.AFFINE, 1), (Transform.THIN_PLATE, 9))
    )
    model = cluster_by_transformation(images, settings, seed=0, compute=CPU)
    assert model.curriculum == (Transform.AFFINE,)


@pytest.mark.parametrize("channels", [1, 3])
def test_distances_are_zero_to_the_prototype_itself(channels: int):
    first = torch.rand(3, channels, 10, 10)
    model = Prototypes(first, width=2).eval()
    assert distances(model, first, ()).argmin(1).tolist() == [0, 1, 2]
    torch.testing.assert_close(distances(model, first, ()).diagonal(), torch.zeros(3))
    assert distances(model, first, ALL).shape == (3, 3)
