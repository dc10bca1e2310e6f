"""Random views of images, drawn in plain PyTorch on whichever device holds the batch.

All geometry (crop, flip, rotation, shear, zoom, shift) is one affine map and one resampling. Every random number comes
from the generator that is passed in, so that a recorded step can replay a view with fresh draws.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from recordwise.extras.torch import torch

import numpy as np
from torch import Generator, Tensor
from torch.nn import functional

from recordwise.errors import InvalidInput, count, whole
from recordwise.vision.layout import laid_out

LUMA = (0.299, 0.587, 0.114)
YIQ = np.array([LUMA, (0.5959, -0.2746, -0.3213), (0.2115, -0.5227, 0.3112)])
# A turn of the colour plane by an angle is HUE[0] + cos·HUE[1] + sin·HUE[2], as matrices on RGB.
HUE = tuple(
    (np.linalg.inv(YIQ) @ np.array(plane, dtype=float) @ YIQ).tolist()
    for plane in (np.diag([1, 0, 0]), np.diag([0, 1, 1]), [[0, 0, 0], [0, 0, -1], [0, 1, 0]])
)


@dataclass(frozen=True, kw_only=True)
class Augment:
    """What may happen to an image; the default is nothing at all.

    Attributes:
      size: Side of the result; None keeps the input's.
      crop: Least and largest share of the area that a random crop keeps; its aspect ratio lies in [3/4, 4/3].
      flip: Probability of mirroring left and right. Never for digits.
      rotate: Largest angle in degrees.
      shear: Largest shear.
      zoom: Largest relative change of scale.
      shift: Largest shift, as a share of the side.
      geometry: Probability with which each of rotate, shear, zoom and shift happens.
      padding: What lies outside the image: "reflection", "border" or "zeros".
      brightness, contrast, saturation: Factors are drawn from [1 − value, 1 + value].
      hue: Largest turn of the colour circle, as a share of it.
      jitter: Probability of the four changes above, which come together.
      gray, invert, solarize, posterize: Probability of each.
      cutout: Side of a gray square at a random place, in pixels.
    """

    size: int | None = None
    crop: tuple[float, float] | None = None
    flip: float = 0.0
    rotate: float = 0.0
    shear: float = 0.0
    zoom: float = 0.0
    shift: float = 0.0
    geometry: float = 1.0
    padding: str = "reflection"
    brightness: float = 0.0
    contrast: float = 0.0
    saturation: float = 0.0
    hue: float = 0.0
    jitter: float = 0.0
    gray: float = 0.0
    invert: float = 0.0
    solarize: float = 0.0
    posterize: float = 0.0
    cutout: int = 0

    def __post_init__(self) -> None:
        if self.size is not None:
            whole(size=self.size)
        count(cutout=self.cutout)
        if self.padding not in ("reflection", "border", "zeros"):
            raise InvalidInput(f"padding must be reflection, border or zeros, got {self.padding!r}")
        if self.crop is not None and not 0 < self.crop[0] <= self.crop[1] <= 1:
            raise InvalidInput(f"crop must be two shares with 0 < least <= largest <= 1, got {self.crop!r}")
        for name in ("flip", "geometry", "jitter", "gray", "invert", "solarize", "posterize"):
            if not 0 <= getattr(self, name) <= 1:
                raise InvalidInput(f"{name} must be a probability, got {getattr(self, name)!r}")

    @torch.no_grad()
    def __call__(self, images: Tensor, generator: Generator) -> Tensor:
        """One random view of each image: (n, channels, height, width), uint8 or [0, 1], to float32 in [0, 1]."""
        x = pixels(images)
        draw = _Draw(len(x), x.device, generator)
        if self._moves or (self.size is not None and self.size != x.shape[-1]):
            side = self.size or x.shape[-1]
            grid = functional.affine_grid(self._placement(draw), [len(x), x.shape[1], side, side], align_corners=False)
            x = functional.grid_sample(x, grid, mode="bilinear", padding_mode=self.padding, align_corners=False)
        x = self._recolour(x, draw)
        x = _cut_out(x, self.cutout, draw) if self.cutout else x
        return laid_out(x)

    @property
    def _moves(self) -> bool:
        return self.crop is not None or any((self.flip, self.rotate, self.shear, self.zoom, self.shift))

    def _placement(self, draw: _Draw) -> Tensor:
        """(n, 2, 3) maps from places in the view to places in the image, both in [−1, 1]."""

        def some(largest: float) -> Tensor:
            return draw.between(-largest, largest) * draw.chance(self.geometry)

        angle, shear = some(math.radians(self.rotate)), some(self.shear)
        scale = torch.exp(some(math.log1p(self.zoom)))
        cos, sin = torch.cos(angle) * scale, torch.sin(angle) * scale
        turn = torch.stack([cos, shear * cos - sin, sin, shear * sin + cos], dim=1).view(-1, 2, 2)
        centre = torch.stack([some(2 * self.shift), some(2 * self.shift)], dim=1)
        if self.crop is not None:
            area = draw.between(*self.crop)
            ratio = torch.exp(draw.between(math.log(3 / 4), math.log(4 / 3)))
            extent = torch.stack([(area * ratio).sqrt(), (area / ratio).sqrt()], dim=1).clamp(max=1)
            centre = centre + (1 - extent) * torch.stack([draw.between(-1, 1), draw.between(-1, 1)], dim=1)
            turn = turn * extent[:, :, None]
        if self.flip:
            mirror = torch.stack([1 - 2 * draw.chance(self.flip), torch.ones_like(angle)], dim=1)
            turn = turn * mirror[:, None, :]
        return torch.cat([turn, centre[:, :, None]], dim=2)

    def _recolour(self, x: Tensor, draw: _Draw) -> Tensor:
        colours = x.shape[1] == 3
        if self.jitter:
            happens = draw.chance(self.jitter)
            factor = [
                (1 + draw.between(-span, span) * happens).view(-1, 1, 1, 1)
                for span in (self.brightness, self.contrast, self.saturation)
            ]
            x = (x * factor[0]).clamp(0, 1)
            middle = _luma(x).mean((1, 2, 3), keepdim=True)
            x = (middle + (x - middle) * factor[1]).clamp(0, 1)
            if colours:
                luma = _luma(x)
                x = (luma + (x - luma) * factor[2]).clamp(0, 1)
                x = _turn_hue(x, draw.between(-self.hue, self.hue) * happens)
        if self.gray and colours:
            x = torch.where(draw.yes(self.gray), _luma(x).expand_as(x), x)
        if self.invert:
            x = torch.where(draw.yes(self.invert), 1 - x, x)
        if self.solarize:
            threshold = draw.between(0.3, 1.0).view(-1, 1, 1, 1)
            x = torch.where(draw.yes(self.solarize) & (x >= threshold), 1 - x, x)
        if self.posterize:
            levels = torch.exp2(torch.floor(draw.between(2.0, 5.0))).view(-1, 1, 1, 1)  # 4, 8 or 16 of them
            x = torch.where(draw.yes(self.posterize), torch.floor(x * levels).clamp(max=levels - 1) / (levels - 1), x)
        return x


def pixels(images: Tensor) -> Tensor:
    """Images as float32 in [0, 1], in the order in memory that suits their device."""
    x = images.float().div(255) if images.dtype == torch.uint8 else images.float()
    return laid_out(x)


class _Draw:
    """One random number per image."""

    def __init__(self, count: int, device: torch.device, generator: Generator) -> None:
        self.count, self.device, self.generator = count, device, generator

    def between(self, low: float, high: float) -> Tensor:
        return low + (high - low) * torch.rand(self.count, generator=self.generator, device=self.device)

    def chance(self, probability: float) -> Tensor:
        return (self.between(0, 1) < probability).float()

    def yes(self, probability: float) -> Tensor:
        return (self.between(0, 1) < probability).view(-1, 1, 1, 1)


def _luma(x: Tensor) -> Tensor:
    if x.shape[1] == 1:
        return x
    return (LUMA[0] * x[:, 0] + LUMA[1] * x[:, 1] + LUMA[2] * x[:, 2]).unsqueeze(1)


def _turn_hue(x: Tensor, turns: Tensor) -> Tensor:
    """Rotate the colour plane of YIQ, which turns the hue and leaves the luma alone."""
    cos, sin = torch.cos(2 * math.pi * turns), torch.sin(2 * math.pi * turns)
    still, along, across = HUE
    # Python numbers, not a constant tensor: a recorded step may not copy from the host.
    cells = [still[i][j] + along[i][j] * cos + across[i][j] * sin for i in range(3) for j in range(3)]
    return torch.einsum("nij,njhw->nihw", torch.stack(cells, dim=1).view(-1, 3, 3), x).clamp(0, 1)


def _cut_out(x: Tensor, side: int, draw: _Draw) -> Tensor:
    height, width = x.shape[2:]
    top = draw.between(-side / 2, height - side / 2).view(-1, 1, 1, 1)
    left = draw.between(-side / 2, width - side / 2).view(-1, 1, 1, 1)
    rows = torch.arange(height, device=x.device).view(1, 1, -1, 1)
    columns = torch.arange(width, device=x.device).view(1, 1, 1, -1)
    inside = (rows >= top) & (rows < top + side) & (columns >= left) & (columns < left + side)
    return x.masked_fill(inside, 0.5)
