"""Clusters and neighbours by direction, in PyTorch on the device that holds the features."""

from __future__ import annotations

from dataclasses import dataclass

from recordwise.extras.torch import torch

from torch import Generator, Tensor
from torch.nn import functional

from recordwise.errors import InvalidInput


@dataclass(frozen=True, eq=False)
class Clusters:
    """Unit centres (k, d), the cluster of each point (n,), and the mean cosine between them."""

    centres: Tensor
    assignment: Tensor
    cohesion: float


def spherical_kmeans(
    features: Tensor,
    clusters: int,
    generator: Generator,
    *,
    centres: Tensor | None = None,
    restarts: int = 10,
    iterations: int = 50,
) -> Clusters:
    """The best of several k-means runs on unit vectors, or one run that goes on from `centres`.

    Sums are matrix products, not scattered additions, so the same inputs give the same clusters on a GPU too.
    """
    if not 1 <= clusters <= len(features):
        raise InvalidInput(f"clusters must lie in [1, {len(features)}], the number of points, got {clusters}")
    starts = [centres] if centres is not None else [_spread(features, clusters, generator) for _ in range(restarts)]
    return max((_lloyd(features, start, iterations) for start in starts), key=lambda found: found.cohesion)


def nearest(features: Tensor, count: int, *, chunk: int = 4096) -> Tensor:
    """(n, count) indices of each unit vector's nearest others by cosine, nearest first."""
    if not 1 <= count < len(features):
        raise InvalidInput(f"count must lie in [1, {len(features) - 1}], the number of others, got {count}")
    found = []
    for start in range(0, len(features), chunk):
        rows = features[start : start + chunk]
        alike = rows @ features.T
        alike[torch.arange(len(rows)), torch.arange(start, start + len(rows))] = -torch.inf
        found.append(alike.topk(count, dim=1).indices)
    return torch.cat(found)


def _spread(features: Tensor, clusters: int, generator: Generator) -> Tensor:
    """k-means++ starting points: each drawn in proportion to its squared distance from those before."""
    n, device = len(features), features.device
    chosen = torch.randint(n, (1,), generator=generator, device=device)
    distance = torch.full((n,), torch.inf, device=device)
    for _ in range(clusters - 1):
        distance = torch.minimum(distance, (2 - 2 * features @ features[chosen[-1]]).clamp(min=1e-12))
        chosen = torch.cat([chosen, torch.multinomial(distance, 1, generator=generator)])
    return features[chosen]


def _lloyd(features: Tensor, centres: Tensor, iterations: int) -> Clusters:
    assignment = (features @ centres.T).argmax(1)
    for _ in range(iterations):
        member = functional.one_hot(assignment, len(centres)).to(features.dtype)
        total = member.T @ features
        empty = total.norm(dim=1) == 0
        centres = torch.where(empty[:, None], centres, functional.normalize(total, dim=1))
        moved = (features @ centres.T).argmax(1)
        if torch.equal(moved, assignment):
            break
        assignment = moved
    alike = (features * centres[assignment]).sum(1)
    return Clusters(centres, assignment, float(alike.mean()))
