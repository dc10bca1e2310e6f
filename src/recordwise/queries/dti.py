"""Clusters that see through shape changes: deep transformation-invariant clustering (Monnier et al. 2020).

Each cluster is a prototype image. Before an image is compared with a prototype, the prototype is transformed to look as
much like it as it can: moved by an affine map, thickened or thinned by a learnt kernel, bent by a thin-plate spline. A
small network predicts the transformations, and both learn to rebuild the pool. Transformations join one after another,
gentle ones first (the curriculum), or prototypes would turn into blobs that bend into anything.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum

import torch
from torch import Tensor, nn
from torch.nn import functional

from recordwise.encoders.augment import pixels
from recordwise.encoders.steps import Batches, Compute, Recorded, fresh_weights
from recordwise.errors import positive, whole

GRID = 4  # control points of the spline along each side
KERNEL = 5  # side of the morphing kernel


class Transform(StrEnum):
    """One way to change a prototype; the curriculum is a sequence of them."""

    AFFINE = "affine"
    MORPHOLOGICAL = "morphological"
    THIN_PLATE = "thin-plate"


@dataclass(frozen=True, kw_only=True)
class Dti:
    """Settings of DTI clustering; the defaults are those for MNIST.

    Attributes:
      prototypes: How many clusters.
      curriculum: Each transformation, and the epoch from which it joins.
      least_share: A cluster with less than this share of its fair share of images starts anew from a large one.
    """

    prototypes: int = 10
    epochs: int = 60
    batch: int = 128
    rate: float = 1e-3
    width: int = 16
    curriculum: tuple[tuple[Transform, int], ...] = (
        (Transform.AFFINE, 5),
        (Transform.MORPHOLOGICAL, 20),
        (Transform.THIN_PLATE, 35),
    )
    least_share: float = 0.2

    def __post_init__(self) -> None:
        whole(prototypes=self.prototypes, epochs=self.epochs, batch=self.batch, width=self.width)
        positive(rate=self.rate)


class Prototypes(nn.Module):
    """K images and the network that says how each must change to look like a given image.

    Args:
      first: (K, channels, height, width) in [0, 1], where the prototypes begin.
    """

    def __init__(self, first: Tensor, width: int = 16) -> None:
        super().__init__()
        clusters, channels, side = first.shape[0], first.shape[1], first.shape[2]
        self.images = nn.Parameter(first.clone())
        self.see = nn.Sequential(
            nn.Conv2d(channels, width, 5, 2, 2), nn.BatchNorm2d(width), nn.ReLU(),
            nn.Conv2d(width, 2 * width, 5, 2, 2), nn.BatchNorm2d(2 * width), nn.ReLU(),
            nn.Conv2d(2 * width, 4 * width, 5, 2, 2), nn.BatchNorm2d(4 * width), nn.ReLU(),
            nn.Flatten(),
        )  # fmt: skip
        across = (side + 7) // 8  # three halvings, each rounded up
        sizes = {Transform.AFFINE: 6, Transform.MORPHOLOGICAL: KERNEL**2, Transform.THIN_PLATE: 2 * GRID**2}
        self.ways = nn.ModuleDict(
            {str(way): nn.Linear(4 * width * across**2, clusters * size) for way, size in sizes.items()}
        )
        for layer in self.ways.values():  # every transformation begins as none at all
            nn.init.zeros_(layer.weight)  # type: ignore[arg-type]
            nn.init.zeros_(layer.bias)  # type: ignore[arg-type]
        self.register_buffer("spline", _thin_plate(side))

    def forward(self, x: Tensor, ways: tuple[Transform, ...]) -> Tensor:
        """(n, K, channels, height, width): each prototype, changed to look like each image."""
        n, clusters = len(x), len(self.images)
        shape = (n * clusters, *self.images.shape[1:])
        changed = self.images.expand(n, -1, -1, -1, -1).reshape(shape)
        if not ways:
            return changed.view(n, clusters, *shape[1:])
        seen = self.see(x)
        for way in ways:
            amount = self.ways[str(way)](seen).view(n * clusters, -1)
            changed = getattr(self, f"_{way.name.lower()}")(changed, amount)
        return changed.view(n, clusters, *shape[1:])

    def _affine(self, images: Tensor, amount: Tensor) -> Tensor:
        still = torch.eye(2, 3, device=images.device)
        return _resample(images, functional.affine_grid(still + 0.1 * amount.view(-1, 2, 3), list(images.shape),
                                                        align_corners=False))  # fmt: skip

    def _morphological(self, images: Tensor, amount: Tensor) -> Tensor:
        """A soft dilation or erosion: each pixel becomes a weighted mean of those around it.

        The kernel's weights lean towards the middle, so that no change is a kernel that is all middle.
        """
        middle = torch.zeros(KERNEL**2, device=images.device)
        middle[KERNEL**2 // 2] = 6.0
        kernel = (middle + amount).softmax(1)
        around = functional.unfold(images, KERNEL, padding=KERNEL // 2)  # (m, channels·25, pixels)
        around = around.view(len(images), images.shape[1], KERNEL**2, -1)
        return (around * kernel[:, None, :, None]).sum(2).view_as(images)

    def _thin_plate(self, images: Tensor, amount: Tensor) -> Tensor:
        side = images.shape[2]
        moved = torch.einsum("pc,mcd->mpd", self.spline, 0.1 * amount.view(-1, GRID**2, 2))
        return _resample(images, _places(side).to(images.device) + moved.view(-1, side, side, 2))


def cluster_by_transformation(
    images: Tensor,
    settings: Dti,
    *,
    seed: int,
    compute: Compute,
    progress: Callable[[int, float], None] = lambda epoch, error: None,
) -> Prototypes:
    """Prototypes of public images: (n, channels, side, side) uint8 on `compute.device`."""
    generator = compute.generator(seed)
    start = torch.randperm(len(images), generator=generator, device=images.device)[: settings.prototypes]
    with fresh_weights(seed):
        model = Prototypes(pixels(images[start]).cpu(), settings.width)
    compute.ready(model).train()
    descent = torch.optim.Adam(model.parameters(), lr=settings.rate, capturable=compute.on_gpu)
    batches = Batches(torch.arange(len(images), device=images.device), settings.batch, generator)
    members = torch.zeros(settings.prototypes, device=images.device)
    total = torch.zeros((), device=images.device)
    ways: tuple[Transform, ...] = ()

    def step() -> None:
        x = pixels(images[batches.next()])
        error, owner = distances(model, x, ways).min(1)
        loss = error.mean()
        parameters = list(model.parameters())
        found = torch.autograd.grad(loss, parameters, allow_unused=True)
        for parameter, gradient in zip(parameters, found, strict=True):
            parameter.grad = gradient
        descent.step()
        members.add_((owner[:, None] == torch.arange(len(members), device=x.device)).float().sum(0))
        total.add_(loss.detach())

    recorded = Recorded(step, compute, generator)
    for epoch in range(settings.epochs):
        due = tuple(way for way, begins in settings.curriculum if epoch >= begins)
        if due != ways:
            ways, recorded = due, Recorded(step, compute, generator)
        total.zero_()
        members.zero_()
        batches.shuffle()
        for _ in range(len(batches)):
            recorded()
        progress(epoch, float(total) / len(batches))
        if epoch < settings.epochs - 1:
            _start_anew(model, members, settings, generator)
    model.curriculum = ways  # type: ignore[assignment]
    return model.eval()


@torch.no_grad()
def assign(model: Prototypes, images: Tensor, *, chunk: int = 256) -> Tensor:
    """(n,) the prototype each image is nearest to, once the prototype has done its best to look like it."""
    ways: tuple[Transform, ...] = model.curriculum  # type: ignore[assignment]
    return torch.cat([distances(model, pixels(part), ways).argmin(1) for part in torch.split(images, chunk)])


def distances(model: Prototypes, x: Tensor, ways: tuple[Transform, ...]) -> Tensor:
    """(n, K) mean squared difference between each image and each transformed prototype."""
    different: Tensor = model(x, ways) - x[:, None]
    return different.square().mean((2, 3, 4))


@torch.no_grad()
def _start_anew(model: Prototypes, members: Tensor, settings: Dti, generator: torch.Generator) -> None:
    """A nearly empty cluster takes over a slightly changed copy of the largest one's prototype."""
    fair = float(members.sum()) / len(members)
    for cluster in (members < settings.least_share * fair).nonzero().flatten().tolist():
        largest = int(members.argmax())
        noise = torch.randn(model.images[0].shape, generator=generator, device=members.device)
        model.images[cluster] = model.images[largest] + 0.02 * noise
        for layer in model.ways.values():
            for table in (layer.weight, layer.bias):
                rows = table.view(len(members), -1)  # type: ignore[operator]
                rows[cluster] = rows[largest]
        members[largest] /= 2
        members[cluster] = members[largest]


def _resample(images: Tensor, grid: Tensor) -> Tensor:
    return functional.grid_sample(images, grid, mode="bilinear", padding_mode="border", align_corners=False)


def _places(side: int) -> Tensor:
    """(1, side, side, 2) where the pixels of a square image lie in [−1, 1]², as (x, y)."""
    line = (torch.arange(side) + 0.5) * 2 / side - 1
    y, x = torch.meshgrid(line, line, indexing="ij")
    return torch.stack([x, y], dim=-1)[None]


def _thin_plate(side: int) -> Tensor:
    """(side², GRID²) how far each pixel moves when a control point does: the thin-plate spline, solved once."""
    line = torch.linspace(-1, 1, GRID, dtype=torch.float64)
    y, x = torch.meshgrid(line, line, indexing="ij")
    control = torch.stack([x.flatten(), y.flatten()], dim=1)
    pixel = _places(side).view(-1, 2).double()

    def bend(points: Tensor) -> Tensor:
        squared = (points[:, None] - control[None]).square().sum(-1)
        return squared * torch.where(squared > 0, squared, 1.0).log()

    def flat(points: Tensor) -> Tensor:
        return torch.cat([torch.ones(len(points), 1, dtype=torch.float64), points], dim=1)

    count = len(control)
    system = torch.zeros(count + 3, count + 3, dtype=torch.float64)
    system[:count, :count], system[:count, count:], system[count:, :count] = (
        bend(control),
        flat(control),
        flat(control).T,
    )
    solved = torch.linalg.solve(system, torch.eye(count + 3, dtype=torch.float64)[:, :count])
    followed: Tensor = torch.cat([bend(pixel), flat(pixel)], dim=1) @ solved
    return followed.float()
