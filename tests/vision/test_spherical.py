from __future__ import annotations

import pytest
import torch
from torch.nn import functional

from recordwise.errors import InvalidInput
from recordwise.vision.spherical import nearest, spherical_kmeans


def directions(count: int, seed: int = 0, dim: int = 6) -> torch.Tensor:
    return functional.normalize(torch.randn(count, dim, generator=torch.Generator().manual_seed(seed)), dim=1)


def test_separated_groups_are_found():
    centres = torch.eye(6)[:4]
    points = functional.normalize(centres.repeat_interleave(25, 0) + 0.1 * directions(100), dim=1)
    found = spherical_kmeans(points, 4, torch.Generator().manual_seed(0))
    groups = found.assignment.view(4, 25)
    assert bool((groups == groups[:, :1]).all())
    assert len(groups[:, 0].unique()) == 4


def test_clusters_are_a_fixed_point():
    points = directions(200)
    found = spherical_kmeans(points, 7, torch.Generator().manual_seed(0), iterations=500)
    assert torch.equal(found.assignment, (points @ found.centres.T).argmax(1))
    again = spherical_kmeans(points, 7, torch.Generator().manual_seed(1), centres=found.centres)
    assert torch.equal(again.assignment, found.assignment)


def test_more_restarts_never_hurt():
    points = directions(150)
    one, many = (
        spherical_kmeans(points, 9, torch.Generator().manual_seed(5), restarts=restarts) for restarts in (1, 8)
    )
    assert many.cohesion >= one.cohesion


def test_as_many_clusters_as_points_leave_nothing_to_explain():
    points = directions(12)
    assert spherical_kmeans(points, 12, torch.Generator().manual_seed(0)).cohesion == pytest.approx(1, abs=1e-5)


@pytest.mark.parametrize("clusters", [0, 13])
def test_an_impossible_number_of_clusters_is_refused(clusters: int):
    with pytest.raises(InvalidInput, match="clusters"):
        spherical_kmeans(directions(12), clusters, torch.Generator().manual_seed(0))


def test_neighbours_are_the_nearest_others():
    points = directions(40)
    found = nearest(points, 5, chunk=7)
    alike = (points @ points.T).fill_diagonal_(-2)
    torch.testing.assert_close(alike.gather(1, found), alike.sort(1, descending=True).values[:, :5])
    assert not bool((found == torch.arange(40)[:, None]).any())


@pytest.mark.parametrize("count", [0, 12])
def test_an_impossible_number_of_neighbours_is_refused(count: int):
    with pytest.raises(InvalidInput, match=rf"^count must lie in \[1, 11\], the number of others, got {count}"):
        nearest(directions(12), count)
    assert nearest(directions(12), 11).shape == (12, 11)
