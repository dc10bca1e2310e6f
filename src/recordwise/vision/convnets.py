"""Three plain convolutional networks for 28×28 digits, and their majority vote (An et al. 2020, arXiv 2008.10400).

M3, M5 and M7 stack 3×3, 5×5 or 7×7 convolutions without padding or pooling; they differ enough to outvote each
other's mistakes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from recordwise.extras.torch import torch

from torch import Tensor, nn

from recordwise.errors import InvalidInput


@dataclass(frozen=True)
class Shape:
    """Side of the filters, and the channels of each layer."""

    side: int
    channels: tuple[int, ...]


M3 = Shape(3, (32, 48, 64, 80, 96, 112, 128, 144, 160, 176))
M5 = Shape(5, (32, 64, 96, 128, 160))
M7 = Shape(7, (48, 96, 144, 192))


class ConvNet(nn.Module):
    """(n, 1, side, side) pixels in [0, 1] to (n, classes) logits."""

    def __init__(self, plan: Shape, *, classes: int = 10, side: int = 28) -> None:
        super().__init__()
        left = side - len(plan.channels) * (plan.side - 1)
        if left < 1:
            raise InvalidInput(f"side must be > {side - left}, what the layers of {plan} take away, got {side}")
        widths = (1, *plan.channels)
        layers: list[nn.Module] = []
        for inputs, outputs in pairwise(widths):
            layers += [nn.Conv2d(inputs, outputs, plan.side, bias=False), nn.BatchNorm2d(outputs), nn.ReLU()]
        self.layers = nn.Sequential(*layers)
        self.head = nn.Sequential(
            nn.Flatten(), nn.Linear(left * left * widths[-1], classes, bias=False), nn.BatchNorm1d(classes)
        )

    def forward(self, x: Tensor) -> Tensor:
        logits: Tensor = self.head(self.layers(2 * x - 1))
        return logits


def majority(votes: Sequence[Tensor]) -> Tensor:
    """(n,) the class that most networks chose; where they all differ, the first network's.

    Args:
      votes: The (n,) choices of each network, the most trusted first.
    """
    stacked = torch.stack(list(votes))  # (networks, n)
    support = (stacked[:, None] == stacked[None]).sum(1)
    winner = support.argmax(0)  # of equal support the first
    return stacked.gather(0, winner[None])[0]
