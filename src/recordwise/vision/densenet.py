"""DenseNet-121 for small images (Huang et al. 2017): a 3×3 stem, no max-pooling."""

from __future__ import annotations

from collections.abc import Sequence

from recordwise.extras.torch import torch

from torch import Tensor, nn
from torch.nn import functional


class DenseLayer(nn.Module):
    """A bottleneck whose output is appended to its input."""

    def __init__(self, inputs: int, growth: int) -> None:
        super().__init__()
        self.norm1 = nn.BatchNorm2d(inputs)
        self.conv1 = nn.Conv2d(inputs, 4 * growth, 1, bias=False)
        self.norm2 = nn.BatchNorm2d(4 * growth)
        self.conv2 = nn.Conv2d(4 * growth, growth, 3, padding=1, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        inner = self.conv1(functional.relu(self.norm1(x)))
        return torch.cat([x, self.conv2(functional.relu(self.norm2(inner)))], dim=1)


class Transition(nn.Module):
    """Half the channels, half the side."""

    def __init__(self, inputs: int) -> None:
        super().__init__()
        self.norm = nn.BatchNorm2d(inputs)
        self.conv = nn.Conv2d(inputs, inputs // 2, 1, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        return functional.avg_pool2d(self.conv(functional.relu(self.norm(x))), 2)


class DenseNet(nn.Module):
    """(n, channels, height, width) pixels in [0, 1] to (n, dim) features.

    Args:
      mean: Mean of each channel over the public pool.
      deviation: Standard deviation of each channel over the public pool.
      growth: Channels that each layer adds.
      layers: Layers in each of the four blocks; the default is DenseNet-121.
    """

    mean: Tensor
    deviation: Tensor

    def __init__(
        self,
        *,
        mean: Sequence[float],
        deviation: Sequence[float],
        growth: int = 32,
        layers: Sequence[int] = (6, 12, 24, 16),
    ) -> None:
        super().__init__()
        self.register_buffer("mean", torch.tensor(mean).view(1, -1, 1, 1))
        self.register_buffer("deviation", torch.tensor(deviation).view(1, -1, 1, 1))
        width = 2 * growth
        self.stem = nn.Conv2d(len(mean), width, 3, padding=1, bias=False)
        parts: list[nn.Module] = []
        for block, count in enumerate(layers):
            if block:
                parts.append(Transition(width))
                width //= 2
            for _ in range(count):
                parts.append(DenseLayer(width, growth))
                width += growth
        self.parts = nn.Sequential(*parts)
        self.norm = nn.BatchNorm2d(width)
        self.dim = width

    def forward(self, x: Tensor) -> Tensor:
        x = self.parts(self.stem((x - self.mean) / self.deviation))
        return functional.relu(self.norm(x)).mean((2, 3))
