from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from scipy.sparse import csr_matrix
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.decomposition import NMF
from sklearn.feature_extraction.text import TfidfVectorizer
from torch import nn

from recordwise.encoders import Hog, Pca, Scaler, Table, Text, TorchEncoder, encode, encoder_from
from recordwise.errors import InvalidInput

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
    assert encode(by_name.fit(IMAGES), IMAGES).shape == (30, 30)


def test_transformers_and_modules_are_taken_as_they_are() -> None:
    own = NMF(2)
    assert encoder_from(own, IMAGES, seed=0) is own
    module = encoder_from(nn.Flatten(), IMAGES, seed=0)
    assert isinstance(module, TorchEncoder)
    assert np.array_equal(encode(module.fit(IMAGES), IMAGES), IMAGES.reshape(30, 64))


@pytest.mark.parametrize(
    ("spec", "rule"),
    [
        ("gabor", "must be auto or made of scaler, pca, hog, text, table, got 'gabor'"),
        ({"dim": 3}, "got None"),
        ({"name": "pca", "dims": 3}, "encoder 'pca' has no setting 'dims', it has dim, seed, whiten"),
        ([], r"got \[\]"),
        (7, "got 7"),
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
        encode(Broken(), IMAGES)


def test_very_small_images_are_encoded_by_their_pixels() -> None:
    small, large = np.zeros((4, 8, 8), dtype=np.uint8), np.zeros((4, 28, 28), dtype=np.uint8)
    assert isinstance(encoder_from("auto", small, seed=0), Pca)
    assert isinstance(encoder_from("auto", large, seed=0)[0], Hog)
