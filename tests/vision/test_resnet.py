from __future__ import annotations

import torch

from recordwise.vision.resnet import Classifier, ResNet


def test_width_64_is_resnet18():
    network = ResNet(mean=[0.5] * 3, deviation=[0.2] * 3)
    count = sum(parameter.numel() for parameter in network.parameters())
    assert count == 11_168_832  # ResNet-18 with a 3×3 stem and without its classifier
    assert network.dim == 512


def test_any_side_and_channel_count_give_one_vector_per_image():
    for channels, side in ((1, 28), (3, 24), (3, 32)):
        network = ResNet(mean=[0.5] * channels, deviation=[0.2] * channels, width=4)
        assert network(torch.rand(2, channels, side, side)).shape == (2, 32)


def test_inputs_are_standardised_first():
    plain = ResNet(mean=[0.0], deviation=[1.0], width=4).eval()
    scaled = ResNet(mean=[0.25], deviation=[0.5], width=4).eval()
    scaled.load_state_dict({**plain.state_dict(), "mean": scaled.mean, "deviation": scaled.deviation})
    x = torch.rand(2, 1, 16, 16)
    torch.testing.assert_close(scaled(x), plain((x - 0.25) / 0.5))


def test_a_classifier_is_a_backbone_and_a_linear_layer():
    backbone = ResNet(mean=[0.5], deviation=[0.2], width=4).eval()
    network = Classifier(backbone, backbone.dim, 7)
    x = torch.rand(3, 1, 16, 16)
    torch.testing.assert_close(network(x), backbone(x) @ network.head.weight.T + network.head.bias)
