"""ResNet-18 for small images: a 3×3 stem, no max-pooling (He et al. 2016, as usual for CIFAR-10)."""

from __future__ import annotations

from collections.abc import Sequence

from recordwise.extras.torch import torch

from torch import Tensor, nn
from torch.nn import functional


class Block(nn.Module):
    """Two 3×3 convolutions around a shortcut."""

    def __init__(self, inputs: int, outputs: int, stride: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(inputs, outputs, 3, stride, padding=1, bias=False)
        self.norm1 = nn.BatchNorm2d(outputs)
        self.conv2 = nn.Conv2d(outputs, outputs, 3, padding=1, bias=False)
        self.norm2 = nn.BatchNorm2d(outputs)
        self.shortcut = (
            nn.Identity()
            if stride == 1 and inputs == outputs
            else nn.Sequential(nn.Conv2d(inputs, outputs, 1, stride, bias=False), nn.BatchNorm2d(outputs))
        )

    def forward(self, x: Tensor) -> Tensor:
        inner = functional.relu(self.norm1(self.conv1(x)))
        return functional.relu(self.norm2(self.conv2(inner)) + self.shortcut(x))


class ResNet(nn.Module):
    """(n, channels, height, width) pixels in [0, 1] to (n, 8·width) features.

    Args:
      mean: Mean of each channel over the public pool; the network starts by standardising with it.
      deviation: Standard deviation of each channel over the public pool.
      width: Channels of the first stage; 64 gives ResNet-18.
    """

    mean: Tensor
    deviation: Tensor

    def __init__(self, *, mean: Sequence[float], deviation: Sequence[float], width: int = 64) -> None:
        super().__init__()
        self.register_buffer("mean", torch.tensor(mean).view(1, -1, 1, 1))
        self.register_buffer("deviation", torch.tensor(deviation).view(1, -1, 1, 1))
        self.dim = 8 * width
        self.stem = nn.Conv2d(len(mean), width, 3, padding=1, bias=False)
        self.norm = nn.BatchNorm2d(width)
        self.stages = nn.Sequential(
            *(
                block
                for stage, inputs in enumerate((width, width, 2 * width, 4 * width))
                for block in (
                    Block(inputs, width << stage, 1 if stage == 0 else 2),
                    Block(width << stage, width << stage, 1),
                )
            )
        )
        for module in self.modules():
            if isinstance(module, nn.Conv2d):
                nn.init.kaiming_normal_(module.weight, mode="fan_out", nonlinearity="relu")

    def forward(self, x: Tensor) -> Tensor:
        x = (x - self.mean) / self.deviation
        x = functional.relu(self.norm(self.stem(x)))
        pooled: Tensor = self.stages(x).mean((2, 3))
        return pooled


class Classifier(nn.Module):
    """A backbone and one linear layer."""

    def __init__(self, backbone: nn.Module, dim: int, classes: int) -> None:
        super().__init__()
        self.backbone = backbone
        self.head = nn.Linear(dim, classes)

    def forward(self, x: Tensor) -> Tensor:
        logits: Tensor = self.head(self.backbone(x))
        return logits
