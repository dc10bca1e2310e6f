from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, StandardScaler
from torch import nn

from recordwise.encoders import Hog, Manner, Pca, Scaler, TorchEncoder, encode, encode_public, how_encoded
from recordwise.encoders.encoding import BATCH
from recordwise.errors import InvalidInput
from recordwise.randomness import seeded

POOL = seeded(0, "encoding").normal(size=(150, 6)).astype(np.float32)
SECRET = "diagnosis: hidden"


class Asked(TransformerMixin, BaseEstimator):  # type: ignore[misc]
    """Keeps the shapes it was given; refuses, loudly, samples that are too large."""

    def __init__(self) -> None:
        self.shapes: list[tuple[int, ...]] = []

    def fit(self, X: Any, y: object = None) -> Asked:
        return self

    def transform(self, X: NDArray[Any]) -> NDArray[Any]:
        self.shapes.append(X.shape)
        if (X > 1e3).any():
            warnings.warn(SECRET, stacklevel=2)
            raise ValueError(SECRET)
        return X[:, :2] * 2


class LooksAround(Asked):
    def transform(self, X: NDArray[Any]) -> NDArray[Any]:
        return X - X.mean(axis=0)


class Forgetful(Asked):
    def transform(self, X: NDArray[Any]) -> NDArray[Any]:
        self.calls_ = getattr(self, "calls_", 0) + 1
        return X + self.calls_


def test_our_encoders_are_exact_and_rows_of_them_too() -> None:
    assert how_encoded(Pca(dim=2).fit(POOL), POOL) is Manner.EXACT
    assert how_encoded(make_pipeline(Scaler(), Pca(dim=2)).fit(POOL), POOL) is Manner.EXACT
    assert how_encoded(make_pipeline(Scaler(), StandardScaler()).fit(POOL), POOL) is Manner.CHECKED

    class Changed(Pca):
        pass

    assert how_encoded(Changed(dim=2).fit(POOL), POOL) is not Manner.EXACT  # who knows what it overrides
    assert str(Manner.ALONE) == "one at a time"


def test_an_encoder_that_passes_on_the_pool_is_given_batches_of_one_size() -> None:
    encoder = Asked()
    assert how_encoded(encoder, POOL) is Manner.CHECKED
    encoder.shapes.clear()
    vectors = encode(encoder, POOL, manner=Manner.CHECKED)
    assert set(encoder.shapes) == {(BATCH, 6)} and len(encoder.shapes) == 3
    assert np.array_equal(vectors, POOL[:, :2] * 2)


def test_an_encoder_that_looks_around_is_given_one_sample_at_a_time() -> None:
    encoder = LooksAround()
    assert how_encoded(encoder, POOL) is Manner.ALONE
    assert not encode(encoder, POOL, manner=Manner.ALONE).any()
    assert not encode(encoder, POOL).any()  # and that is what happens to whatever was not checked
    assert encode(encoder, POOL, manner=Manner.CHECKED).any()  # so the check is not idle


def test_an_encoder_that_gives_something_else_each_time_is_refused() -> None:
    with pytest.raises(InvalidInput, match="same vector every time, Forgetful gives"):
        how_encoded(Forgetful(), POOL)


@pytest.mark.parametrize("manner", [Manner.CHECKED, Manner.ALONE])
def test_what_raises_is_not_encoded_and_nothing_is_told(manner: Manner, capfd: pytest.CaptureFixture[str]) -> None:
    records = POOL.copy()
    records[[3, 149]] = 1e6
    vectors = encode(Asked(), records, manner=manner, dim=2)
    assert np.isnan(vectors[[3, 149]]).all()
    rest = np.delete(np.arange(150), [3, 149])
    assert np.array_equal(vectors[rest], POOL[rest, :2] * 2)
    assert np.isnan(encode(Asked(), records[[3, 3]], manner=manner, dim=2)).all()
    assert capfd.readouterr() == ("", "")


def test_a_row_of_other_length_or_beyond_float32_is_not_encoded() -> None:
    wide = FunctionTransformer(lambda X: np.hstack([X, X]) if X[0, 0] > 5 else X)
    records = POOL.copy()
    records[3, 0] = 9
    vectors = encode(wide, records, dim=6)
    assert np.isnan(vectors[3]).all() and np.array_equal(np.delete(vectors, 3, 0), np.delete(POOL, 3, 0))
    huge = encode(FunctionTransformer(lambda X: X.astype(np.float64) * 1e308), POOL + 5, dim=6)
    assert np.isnan(huge).all()
    assert encode(wide, POOL[:0], dim=6).shape == (0, 6)


def test_an_array_of_another_shape_abstains_where_it_is_private_and_is_refused_where_it_is_public() -> None:
    encoder = Pca(dim=2).fit(POOL)
    assert np.isnan(encode(encoder, POOL[:, :5], dim=2)).all()
    with pytest.raises(InvalidInput, match="samples must have 6 dimensions, got 5"):
        encode_public(encoder, POOL[:, :5])
    images = seeded(0, "images").random((4, 16, 16))
    hog = Hog().fit(images)
    assert np.isnan(encode(hog, images[:, :8], dim=3)).all()


def test_what_is_wrong_with_public_samples_is_said_in_one_line() -> None:
    bad = POOL.copy()
    bad[7, 2] = np.nan
    for encoder in (Scaler().fit(POOL), Pca(dim=2).fit(POOL)):
        with pytest.raises(InvalidInput, match="encoded samples must be finite, row 7"):
            encode_public(encoder, bad)
    with pytest.raises(InvalidInput, match="such as StandardScaler can encode: Input X contains infinity") as refusal:
        encode_public(StandardScaler().fit(POOL), np.full((3, 6), np.inf))
    assert "\n" not in str(refusal.value)
    with pytest.raises(InvalidInput, match="at least one sample"):
        encode_public(Scaler().fit(POOL), POOL[:0])
    with pytest.raises(InvalidInput, match=r"must give \(n, dim\) vectors"):
        encode_public(FunctionTransformer(lambda X: X[:, 0]), POOL)


def test_a_module_runs_on_one_thread_and_leaves_pytorch_as_it_was() -> None:
    seen: list[tuple[int, bool]] = []

    class Watch(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            seen.append((torch.get_num_threads(), torch.are_deterministic_algorithms_enabled()))
            return x

    before = torch.get_num_threads()
    torch.set_num_threads(2)
    try:
        TorchEncoder(Watch()).fit(POOL).transform(POOL)
        assert torch.get_num_threads() == 2
    finally:
        torch.set_num_threads(before)
    assert set(seen) == {(1, True)}
    assert not torch.are_deterministic_algorithms_enabled()


def test_a_module_is_given_its_own_batch_size_and_filled_up() -> None:
    seen: list[int] = []

    class Watch(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            seen.append(len(x))
            return x

    encoder = TorchEncoder(Watch(), batch_size=40).fit(POOL)
    assert how_encoded(encoder, POOL) is Manner.CHECKED
    assert set(seen) == {40}
    seen.clear()
    assert np.array_equal(encode(encoder, POOL, manner=Manner.CHECKED), POOL)
    assert seen == [40] * 4


def test_a_list_of_images_is_scaled_one_by_one() -> None:
    encoder = TorchEncoder(nn.Flatten())
    images = [np.full((2, 2), 51, dtype=np.uint8), np.full((2, 2), 0.5, dtype=np.float32)]
    assert encoder.transform(images).tolist() == [[np.float32(0.2)] * 4, [0.5] * 4]


class Counting:
    """Notes how many samples it is given."""

    def __init__(self) -> None:
        self.sizes: list[int] = []

    def transform(self, samples: Any) -> Any:
        self.sizes.append(len(samples))
        return np.zeros((len(samples), 2))


def test_a_manner_may_be_spelled_as_a_word() -> None:
    """Taken for another one, batches of a size of their own would be run."""
    for manner in Manner:
        with_member, with_word = Counting(), Counting()
        encode(with_member, POOL[:5], manner=manner)
        encode(with_word, POOL[:5], manner=str(manner))  # type: ignore[arg-type]
        assert with_member.sizes == with_word.sizes
    with pytest.raises(InvalidInput, match="manner must be one of"):
        encode(Counting(), POOL, manner="in a hurry")  # type: ignore[arg-type]
