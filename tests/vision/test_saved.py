from __future__ import annotations

from pathlib import Path

import pytest
import torch

from recordwise.errors import ChangedInput, InvalidInput
from recordwise.vision.densenet import DenseNet
from recordwise.vision.resnet import Classifier, ResNet
from recordwise.vision.saved import load_network, load_weights, save_weights


def backbone(width: int = 2, mean: float = 0.5) -> ResNet:
    return ResNet(mean=[mean], deviation=[0.2], width=width)


def test_weights_come_back_as_they_were(tmp_path: Path):
    first, second = backbone().eval(), backbone(mean=0.1).eval()
    sha = save_weights(first, tmp_path / "w.safetensors")
    load_weights(second, tmp_path / "w.safetensors", sha256=sha)
    x = torch.rand(2, 1, 16, 16)
    assert torch.equal(first(x), second(x))
    assert [path.name for path in tmp_path.iterdir()] == ["w.safetensors"]


def test_other_weights_are_refused(tmp_path: Path):
    path = tmp_path / "w.safetensors"
    save_weights(backbone(), path)
    with pytest.raises(ChangedInput, match="SHA-256"):
        load_weights(backbone(), path, sha256="0" * 64)
    with pytest.raises(InvalidInput, match="shape"):
        load_weights(backbone(width=3), path)
    with pytest.raises(InvalidInput, match="only one of the two"):
        load_weights(torch.nn.Linear(2, 2), path)
    with pytest.raises(InvalidInput, match="file"):
        load_weights(backbone(), tmp_path / "nothing")


@pytest.mark.parametrize("network", [backbone(width=3), Classifier(backbone(), 16, 5)], ids=["backbone", "with a head"])
def test_a_file_is_enough_to_rebuild_its_network(network: torch.nn.Module, tmp_path: Path):
    path = tmp_path / "w.safetensors"
    sha = save_weights(network, path)
    before = torch.random.get_rng_state()
    again = load_network(path, sha256=sha)
    assert torch.equal(before, torch.random.get_rng_state())
    x = torch.rand(2, 1, 16, 16)
    assert type(again) is type(network)
    assert torch.equal(again(x), network.eval()(x))
    with pytest.raises(ChangedInput, match="SHA-256"):
        load_network(path, sha256="0" * 64)


def test_what_is_no_network_of_ours_is_refused(tmp_path: Path):
    path = tmp_path / "w.safetensors"
    path.write_bytes(b"anything")
    with pytest.raises(InvalidInput, match=r"must be a safetensors file, w\.safetensors is not"):
        load_network(path)
    save_weights(torch.nn.Linear(2, 2), path)
    with pytest.raises(InvalidInput, match="must hold a ResNet"):
        load_network(path)
    save_weights(DenseNet(mean=[0.5], deviation=[0.2], growth=2, layers=(1,)), path)
    with pytest.raises(InvalidInput, match="only one of the two"):
        load_network(path)


def test_a_path_may_be_text_and_its_folder_missing(tmp_path: Path):
    path = str(tmp_path / "new" / "folder" / "w.safetensors")
    sha = save_weights(backbone(), path)
    assert load_network(path, sha256=sha).state_dict().keys() == load_weights(backbone(), path).state_dict().keys()
    with pytest.raises(InvalidInput, match=r"^weights must be a file"):
        load_network(str(tmp_path))
