"""WideResNet (Zagoruyko and Komodakis 2016); depth 28 and factor 2 is the student of MixMatch."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from recordwise.extras.torch import torch

from torch import Tensor, nn
from torch.nn import functional

from recordwise.errors import InvalidInput

SLOPE = 0.1  # of the leaky rectifier, as in MixMatch


class WideBlock(nn.Module):
    """Norm, rectifier, convolution, twice, around a shortcut."""

    def __init__(self, inputs: int, outputs: int, stride: int) -> None:
        super().__init__()
        self.norm1 = nn.BatchNorm2d(inputs)
        self.conv1 = nn.Conv2d(inputs, outputs, 3, stride, padding=1, bias=False)
        self.norm2 = nn.BatchNorm2d(outputs)
        self.conv2 = nn.Conv2d(outputs, outputs, 3, padding=1, bias=False)
        self.shortcut = nn.Conv2d(inputs, outputs, 1, stride, bias=False) if inputs != outputs else None

    def forward(self, x: Tensor) -> Tensor:
        ready = functional.leaky_relu(self.norm1(x), SLOPE)
        inner = self.conv2(functional.leaky_relu(self.norm2(self.conv1(ready)), SLOPE))
        around: Tensor = x if self.shortcut is None else self.shortcut(ready)
        total: Tensor = around + inner
        return total


class WideResNet(nn.Module):
    """(n, channels, height, width) pixels in [0, 1] to (n, classes) logits.

    Args:
      mean: Mean of each channel over the public pool.
      deviation: Standard deviation of each channel over the public pool.
      depth: 6·m + 4, for m blocks in each of the three groups.
      factor: How many times wider than 16, 32, 64 channels.
    """

    mean: Tensor
    deviation: Tensor

    def __init__(
        self,
        *,
        mean: Sequence[float],
        deviation: Sequence[float],
        classes: int = 10,
        depth: int = 28,
        factor: int = 2,
    ) -> None:
        super().__init__()
        if depth < 10 or depth % 6 != 4:
            raise InvalidInput(f"depth must be 6·m + 4 with m >= 1, got {depth}")
        self.register_buffer("mean", torch.tensor(mean).view(1, -1, 1, 1))
        self.register_buffer("deviation", torch.tensor(deviation).view(1, -1, 1, 1))
        widths = (16, 16 * factor, 32 * factor, 64 * factor)
        self.stem = nn.Conv2d(len(mean), widths[0], 3, padding=1, bias=False)
        blocks: list[nn.Module] = []
        for group, (inputs, outputs) in enumerate(pairwise(widths)):
            for number in range((depth - 4) // 6):
                first = number == 0
                blocks.append(WideBlock(inputs if first else outputs, outputs, 2 if first and group else 1))
        self.blocks = nn.Sequential(*blocks)
        self.norm = nn.BatchNorm2d(widths[-1])
        self.head = nn.Linear(widths[-1], classes)
        for module in self.modules():
            if isinstance(module, nn.Conv2d):
                nn.init.kaiming_normal_(module.weight, a=SLOPE, mode="fan_out", nonlinearity="leaky_relu")

    def forward(self, x: Tensor) -> Tensor:
        x = self.blocks(self.stem((x - self.mean) / self.deviation))
        logits: Tensor = self.head(functional.leaky_relu(self.norm(x), SLOPE).mean((2, 3)))
        return logits
