"""Clusters that see through shape changes: deep transformation-invariant clustering (Monnier et al. 2020).

Each cluster is a prototype image. Before an image is compared with a prototype, the prototype is transformed to look as
much like it as it can: moved by an affine map, thickened or thinned by a learnt kernel, bent by a thin-plate spline. A
small network predicts the transformations, and both learn to rebuild the pool. Transformations join one after another,
gentle ones first (the curriculum), or prototypes would turn into blobs that bend into anything.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from recordwise.extras.torch import torch

from torch import Tensor, nn
from torch.nn import functional

from recordwise.errors import InvalidInput, whole
from recordwise.privacy.guarantee import one_of
from recordwise.vision.augment import pixels
from recordwise.vision.steps import Batches, Recorded, fresh_weights
from recordwise.vision.training import Settings, Training, TrainingRun, check_images

GRID = 4  # control points of the spline along each side
KERNEL = 5  # side of the morphing kernel
LEAN = 10.0  # how much one unit of the network's answer leans towards bright pixels


class Transform(StrEnum):
    """One way to change a prototype; the curriculum is a sequence of them."""

    AFFINE = "affine"
    MORPHOLOGICAL = "morphological"
    THIN_PLATE = "thin-plate"


@dataclass(frozen=True, kw_only=True)
class Dti(Settings):
    """Settings of DTI clustering; the defaults are those for MNIST.

    Attributes:
      prototypes: How many clusters.
      curriculum: Each transformation, and the epoch from which it joins.
      slow_from: The epoch from which the learning rate is a tenth.
      decay: Weight decay of the network, not of the prototypes.
      least_share: A cluster with less than this share of its fair share of images starts anew from a large one.
    """

    prototypes: int = 10
    epochs: int = 60
    batch: int = 128
    rate: float = 1e-3
    decay: float = 1e-6
    width: int = 16
    curriculum: tuple[tuple[Transform, int], ...] = (
        (Transform.AFFINE, 5),
        (Transform.MORPHOLOGICAL, 20),
        (Transform.THIN_PLATE, 35),
    )
    slow_from: int = 50
    least_share: float = 0.2

    def __post_init__(self) -> None:
        super().__post_init__()
        whole(prototypes=self.prototypes, width=self.width)
        ways = tuple((one_of(Transform, transform=way), begins) for way, begins in self.curriculum)
        object.__setattr__(self, "curriculum", ways)

    def ways(self, epoch: int) -> tuple[Transform, ...]:
        """The transformations in use in an epoch."""
        return tuple(way for way, begins in self.curriculum if epoch >= begins)


class Prototypes(nn.Module):
    """K images and the network that says how each must change to look like a given image.

    Args:
      first: (K, channels, side, side) in [0, 1], where the prototypes begin.

    Attributes:
      ways: The transformations in use, in this order.
    """

    places: Tensor
    spline: Tensor
    middle: Tensor

    def __init__(self, first: Tensor, width: int = 16) -> None:
        super().__init__()
        clusters, channels, side = first.shape[0], first.shape[1], first.shape[2]
        self.ways: tuple[Transform, ...] = ()
        self.images = nn.Parameter(first.clone())
        self.see = nn.Sequential(
            nn.Conv2d(channels, width, 5, 2, 2), nn.BatchNorm2d(width), nn.ReLU(),
            nn.Conv2d(width, 2 * width, 5, 2, 2), nn.BatchNorm2d(2 * width), nn.ReLU(),
            nn.Conv2d(2 * width, 4 * width, 5, 2, 2), nn.BatchNorm2d(4 * width), nn.ReLU(),
            nn.Flatten(),
        )  # fmt: skip
        across = (side + 7) // 8  # three halvings, each rounded up
        sizes = {Transform.AFFINE: 6, Transform.MORPHOLOGICAL: KERNEL**2 + 1, Transform.THIN_PLATE: 2 * GRID**2}
        self.heads = nn.ModuleDict(
            {str(way): nn.Linear(4 * width * across**2, clusters * size) for way, size in sizes.items()}
        )
        for layer in self.heads.values():  # every transformation begins as none at all
            nn.init.zeros_(layer.weight)  # type: ignore[arg-type]
            nn.init.zeros_(layer.bias)  # type: ignore[arg-type]
        middle = torch.zeros(KERNEL**2)
        middle[KERNEL**2 // 2] = 6.0
        self.register_buffer("middle", middle)  # a recorded step must find all constants on the device
        self.register_buffer("places", _places(side))
        self.register_buffer("spline", _thin_plate(side))

    def amounts(self, x: Tensor) -> list[Tensor]:
        """For each transformation in use, (n, K, size): how much of it each prototype needs for each image."""
        if not self.ways:
            return []
        seen = self.see(x)
        return [self.heads[str(way)](seen).view(len(x), len(self.images), -1) for way in self.ways]

    def change(self, images: Tensor, amounts: list[Tensor]) -> Tensor:
        """(m, channels, side, side) prototypes, each changed by its own (m, size) amounts."""
        for way, amount in zip(self.ways, amounts, strict=True):
            images = getattr(self, f"_{way.name.lower()}")(images, amount)
        return images

    def transformed(self, amounts: list[Tensor], n: int) -> Tensor:
        """(n, K, channels, side, side): each prototype, changed to look like each image."""
        shape = (n, *self.images.shape)
        copies = self.images.expand(shape).flatten(0, 1)
        return self.change(copies, [amount.flatten(0, 1) for amount in amounts]).view(shape)

    def _affine(self, images: Tensor, amount: Tensor) -> Tensor:
        turn, shift = torch.split(0.1 * amount.view(-1, 2, 3), [2, 1], dim=2)
        moved = torch.einsum("hwc,mdc->mhwd", self.places, turn) + shift.view(-1, 1, 1, 2)
        return _resample(images, self.places + moved)

    def _morphological(self, images: Tensor, amount: Tensor) -> Tensor:
        """A soft dilation or erosion: each pixel becomes a mean of those around it that leans to bright or dark ones.

        A kernel says who counts as around; it favours the middle, so that no change is a kernel that is all middle.
        Weights exp(lean·pixel) make the mean a soft maximum for a large lean and a soft minimum for a negative one.
        """
        m, channels = images.shape[:2]
        kernel = (self.middle + amount[:, :-1]).softmax(1).view(m, 1, KERNEL, KERNEL).repeat_interleave(channels, 0)
        weight = (LEAN * amount[:, -1, None, None, None] * images).clamp(-20, 20).exp()

        def around(values: Tensor) -> Tensor:  # every image has its own kernel: one group of channels each
            flat = values.reshape(1, m * channels, *values.shape[2:])
            return functional.conv2d(flat, kernel, padding=KERNEL // 2, groups=m * channels).view_as(values)

        return around(weight * images) / around(weight)

    def _thin_plate(self, images: Tensor, amount: Tensor) -> Tensor:
        moved = torch.einsum("hwp,mpd->mhwd", self.spline, 0.1 * amount.view(-1, GRID**2, 2))
        return _resample(images, self.places + moved)


def cluster_by_transformation(
    images: Tensor,
    settings: Dti,
    *,
    run: TrainingRun,
) -> Prototypes:
    """Prototypes of public images: (n, channels, side, side) uint8 on `run.compute.device`."""
    compute = run.compute
    check_images(images)
    if images.shape[2] != images.shape[3]:
        raise InvalidInput(f"images must be square, got shape {tuple(images.shape)}")
    if settings.prototypes > len(images):
        raise InvalidInput(
            f"prototypes must lie in [1, {len(images)}], the number of images, got {settings.prototypes}"
        )
    generator = compute.generator(run.seed)
    start = torch.randperm(len(images), generator=generator, device=images.device)[: settings.prototypes]
    with fresh_weights(run.seed):
        model = Prototypes(pixels(images[start]).cpu(), settings.width)
    model.to(compute.device).train()
    parameters = [model.images, *model.see.parameters(), *model.heads.parameters()]
    groups: list[dict[str, Any]] = [
        {"params": parameters[:1]},
        {"params": parameters[1:], "weight_decay": settings.decay},
    ]
    descent = torch.optim.Adam(groups, lr=settings.rate, capturable=compute.on_gpu)
    batches = Batches(torch.arange(len(images), device=images.device), settings.batch, generator)
    members = torch.zeros(settings.prototypes, device=images.device)
    total = torch.zeros((), device=images.device)

    def step() -> None:
        x = pixels(images[batches.next()])
        rebuilt, mine = rebuild(model, x)
        loss = (rebuilt - x).square().mean()
        found = torch.autograd.grad(loss, parameters, allow_unused=True)
        for parameter, gradient in zip(parameters, found, strict=True):
            parameter.grad = gradient
        descent.step()
        members.add_(mine.sum(0))
        total.add_(loss.detach())

    recorded: Recorded | None = None

    def one_epoch(epoch: int) -> float:
        nonlocal recorded
        slow = epoch >= settings.slow_from
        if recorded is None or epoch == settings.slow_from or settings.ways(epoch) != model.ways:  # another step
            model.ways = settings.ways(epoch)
            for group in descent.param_groups:
                group["lr"] = settings.rate / 10 if slow else settings.rate
            recorded = Recorded(step, compute, generator)
        total.zero_()
        members.zero_()
        batches.shuffle()
        for _ in range(len(batches)):
            recorded()
        if not slow:
            _start_anew(model, members, settings, generator)
        return float(total) / len(batches)

    training = Training(
        one_epoch,
        {"model": model, "descent": descent, "generator": generator},
        settings=settings,
        run=run,
        inputs={"images": images},
    )
    training.finish(settings.epochs)
    model.ways = settings.ways(settings.epochs - 1)
    return model.eval()


def rebuild(model: Prototypes, x: Tensor) -> tuple[Tensor, Tensor]:
    """Each image as its nearest prototype shows it, and (n, K) which prototype that is, as ones and zeros.

    The others play no part in the error, so they are only looked at, which saves nearly all gradients.
    """
    amounts = model.amounts(x)
    with torch.no_grad():
        nearest = _errors(model, x, amounts).argmin(1)
        mine = (nearest[:, None] == torch.arange(len(model.images), device=x.device)).float()
    prototypes = (mine @ model.images.flatten(1)).view_as(x)
    return model.change(prototypes, [torch.einsum("nk,nks->ns", mine, amount) for amount in amounts]), mine


@torch.no_grad()
def assign(model: Prototypes, images: Tensor, *, chunk: int = 256) -> Tensor:
    """(n,) the prototype each image is nearest to, once the prototype has done its best to look like it."""
    return torch.cat([distances(model, pixels(part)).argmin(1) for part in torch.split(images, chunk)])


def distances(model: Prototypes, x: Tensor) -> Tensor:
    """(n, K) mean squared difference between each image and each transformed prototype."""
    return _errors(model, x, model.amounts(x))


def _errors(model: Prototypes, x: Tensor, amounts: list[Tensor]) -> Tensor:
    return (model.transformed(amounts, len(x)) - x[:, None]).square().mean((2, 3, 4))


@torch.no_grad()
def _start_anew(model: Prototypes, members: Tensor, settings: Dti, generator: torch.Generator) -> None:
    """A nearly empty cluster takes over half of the largest one: its prototype and transformations.

    Both halves step aside a little, in opposite directions. If only the copy did, it would lose nearly every image to
    the original, and start anew forever.
    """
    fair = float(members.sum()) / len(members)
    for cluster in (members < settings.least_share * fair).nonzero().flatten().tolist():
        largest = int(members.argmax())
        aside = 0.02 * torch.randn(model.images[0].shape, generator=generator, device=members.device)
        model.images[cluster] = model.images[largest] + aside
        model.images[largest] -= aside
        for layer in model.heads.values():
            for table in (layer.weight, layer.bias):
                rows = table.view(len(members), -1)  # type: ignore[operator]
                rows[cluster] = rows[largest]
        members[largest] /= 2
        members[cluster] = members[largest]


def _resample(images: Tensor, grid: Tensor) -> Tensor:
    return functional.grid_sample(images, grid, mode="bilinear", padding_mode="border", align_corners=False)


def _places(side: int) -> Tensor:
    """(side, side, 2) where the pixels of a square image lie in [−1, 1]², as (x, y)."""
    line = (torch.arange(side) + 0.5) * 2 / side - 1
    y, x = torch.meshgrid(line, line, indexing="ij")
    return torch.stack([x, y], dim=-1)


def _thin_plate(side: int) -> Tensor:
    """(side, side, GRID²) how far each pixel moves when a control point does: the thin-plate spline, solved once."""
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
    return followed.float().view(side, side, count)
