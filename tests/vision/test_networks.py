from __future__ import annotations

import pytest
import torch

from recordwise.errors import InvalidInput
from recordwise.vision.convnets import M3, M5, M7, ConvNet, Shape, majority
from recordwise.vision.densenet import DenseNet
from recordwise.vision.wide_resnet import WideResNet

GRAY = {"mean": [0.5] * 3, "deviation": [0.2] * 3}


def size(network: torch.nn.Module) -> int:
    return sum(parameter.numel() for parameter in network.parameters())


def test_wide_resnet_28_2_has_its_published_size():
    assert size(WideResNet(**GRAY)) == pytest.approx(1.47e6, rel=0.01)  # 1.5 M in the MixMatch paper


def test_densenet_121_has_its_published_size():
    network = DenseNet(**GRAY)
    assert network.dim == 1024
    assert size(network) == pytest.approx(6.95e6, rel=0.01)  # 7.98 M less the 1.02 M of its ImageNet classifier


@pytest.mark.parametrize("plan", [M3, M5, M7])
def test_digit_networks_give_a_logit_per_class(plan: Shape):
    assert ConvNet(plan)(torch.rand(2, 1, 28, 28)).shape == (2, 10)


def test_layers_that_eat_up_the_image_are_refused():
    with pytest.raises(InvalidInput, match="side"):
        ConvNet(M3, side=20)


def test_shapes_of_small_networks():
    x = torch.rand(2, 3, 16, 16)
    assert WideResNet(**GRAY, classes=4, depth=10, factor=1)(x).shape == (2, 4)
    assert DenseNet(**GRAY, growth=4, layers=(2, 2))(x).shape == (2, (2 * 4 + 2 * 4) // 2 + 2 * 4)
    with pytest.raises(InvalidInput, match="depth"):
        WideResNet(**GRAY, depth=27)


def test_the_majority_wins_and_the_first_network_breaks_a_tie():
    votes = [torch.tensor([1, 2, 3, 4]), torch.tensor([1, 5, 6, 7]), torch.tensor([0, 5, 9, 4])]
    assert majority(votes).tolist() == [1, 5, 3, 4]
