from __future__ import annotations

import numpy as np
import pytest
from sklearn.decomposition import PCA
from sklearn.preprocessing import StandardScaler

from recordwise.encoders import Pca, Scaler
from recordwise.errors import InvalidInput
from recordwise.randomness import seeded

RNG = np.random.default_rng(0)
POOL = RNG.normal(size=(200, 6)) * [1, 2, 3, 4, 5, 0] + 7


def test_the_scaler_agrees_with_scikit_learn() -> None:
    new = RNG.normal(size=(10, 6))
    ours = Scaler().fit(POOL).transform(new)
    assert ours.dtype == np.float32
    np.testing.assert_allclose(ours, StandardScaler().fit(POOL).transform(new), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("value", [0.0, 0.1, 1e30])
def test_a_dimension_that_does_not_vary_stays_finite(value: float) -> None:
    pool = np.full((30, 2), value)
    assert np.array_equal(Scaler().fit(pool).transform(pool), np.zeros((30, 2)))


def test_principal_components_keep_the_distances_that_matter() -> None:
    pool = RNG.normal(size=(300, 2)) @ RNG.normal(size=(2, 40))  # a plane
    reduced = Pca(dim=2).fit(pool).transform(pool)
    assert reduced.shape == (300, 2)
    for a, b in RNG.integers(0, 300, (20, 2)):
        assert np.linalg.norm(reduced[a] - reduced[b]) == pytest.approx(np.linalg.norm(pool[a] - pool[b]), rel=1e-3)


def test_principal_components_are_at_most_what_the_pool_has() -> None:
    assert Pca(dim=64).fit(POOL[:4]).transform(POOL).shape == (200, 3)
    assert Pca(dim=64).fit(POOL).transform(POOL[:3]).shape == (3, 6)


@pytest.mark.parametrize("whiten", [False, True])
@pytest.mark.parametrize("offset", [0.0, 300.0])
def test_the_grid_moves_a_coordinate_by_less_than_a_millionth(whiten: bool, offset: float) -> None:
    pool = (RNG.normal(size=(400, 30)) @ RNG.normal(size=(30, 100)) + offset).astype(np.float32)
    pca = PCA(20, whiten=whiten, svd_solver="covariance_eigh").fit(pool)
    expected = (pool.astype(np.float64) - pca.mean_.astype(np.float64)) @ pca.components_.T.astype(np.float64)
    expected /= np.sqrt(pca.explained_variance_.astype(np.float64)) if whiten else 1.0
    ours = Pca(dim=20, whiten=whiten).fit(pool).transform(pool)
    assert np.abs(ours - expected).max() < 1e-6 * np.abs(expected).max()


def test_a_vector_far_beyond_the_pool_is_taken_to_lie_at_the_edge_of_the_grid() -> None:
    encoder = Pca(dim=1).fit(np.array([[-1.0, 0.0], [1.0, 0.0]]))
    far, farther = np.abs(encoder.transform(np.array([[100.0, 0.0], [1e30, 0.0]]))).ravel()
    assert far == farther and 8 <= far <= 16


def test_a_wide_pool_is_reduced_by_the_seeded_solver() -> None:
    pool = RNG.normal(size=(30, 3)) @ RNG.normal(size=(3, 2001))
    ours = Pca(dim=3, seed=1).fit(pool).transform(pool)
    assert np.array_equal(ours, Pca(dim=3, seed=1).fit(pool).transform(pool))
    full = np.linalg.norm(pool[:, None] - pool[None], axis=2)
    np.testing.assert_allclose(np.linalg.norm(ours[:, None] - ours[None], axis=2), full, rtol=1e-3, atol=0.05)


@pytest.mark.parametrize("encoder", [Scaler(), Pca(dim=2)])
def test_images_are_flattened_and_what_is_not_finite_is_not_encoded(encoder: Scaler | Pca) -> None:
    images = RNG.normal(size=(20, 3, 4))
    fitted = encoder.fit(images)
    assert np.array_equal(fitted.transform(images), fitted.transform(images.reshape(20, 12)))
    with pytest.raises(InvalidInput, match="samples must have 12 dimensions, got 11"):
        fitted.transform(np.zeros((2, 11)))
    encoded = fitted.transform(np.array([[0.0] * 12, [0.0] * 11 + [np.nan], [0.0] * 11 + [np.inf]]))
    assert np.isfinite(encoded[0]).all() and np.isnan(encoded[1]).any() and not np.isfinite(encoded[2]).all()
    with pytest.raises(InvalidInput, match="must be finite, row 1"):
        encoder.fit(np.array([[0.0] * 12, [np.nan] * 12]))
    with pytest.raises(InvalidInput, match="at least one sample"):
        encoder.fit(np.zeros((0, 12)))


def test_samples_span_one_direction_less_than_they_are() -> None:
    rng = seeded(0, "few samples")
    pool = rng.normal(size=(20, 50)).astype(np.float32)
    encoder = Pca(dim=64).fit(pool)
    assert encoder.transform(pool).shape == (20, 19)
    scaled = Scaler().fit(encoder.transform(pool)).transform(encoder.transform(rng.normal(size=(200, 50))))
    assert np.abs(scaled).max() < 50  # a twentieth would be thousands: the pool varies along it by rounding alone
