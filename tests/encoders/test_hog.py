from __future__ import annotations

import numpy as np
import pytest
from skimage.feature import hog
from sklearn.datasets import load_digits

from recordwise.encoders import Hog, Manner, how_encoded
from recordwise.errors import InvalidInput

RNG = np.random.default_rng(0)


@pytest.mark.parametrize("cell", [3, 4, 7])
@pytest.mark.parametrize("block", [1, 2, 3])
@pytest.mark.parametrize("shape", [(28, 28), (30, 25), (32, 32, 3)])
def test_hog_agrees_with_scikit_image(cell: int, block: int, shape: tuple[int, ...]) -> None:
    """The same numbers to float32 rounding; smooth images, because a rounded angle may fall on a bin's border."""
    waves = RNG.normal(size=(5, *shape)).cumsum(axis=1).cumsum(axis=2)
    ours = Hog(cell=cell, block=block, orientations=8).fit(waves).transform(waves)
    axis = -1 if len(shape) == 3 else None
    theirs = np.array([hog(wave, 8, (cell, cell), (block, block), channel_axis=axis) for wave in waves])
    assert ours.dtype == np.float32
    np.testing.assert_allclose(ours, theirs, atol=1e-5)


def test_bytes_and_floats_give_the_same_histograms() -> None:
    images = RNG.integers(0, 256, (4, 16, 16), dtype=np.uint8)
    encoder = Hog(cell=4).fit(images)
    np.testing.assert_allclose(encoder.transform(images), encoder.transform(images / 255), atol=2e-3)


def test_a_pixel_border_and_an_image_without_edges_are_harmless() -> None:
    flat = np.full((2, 9, 13), 7.0)
    assert np.array_equal(Hog(cell=4).fit(flat).transform(flat), np.zeros((2, 1 * 2 * 4 * 9)))


def test_cells_are_an_eighth_of_the_image_unless_said_otherwise() -> None:
    sizes = {8: 2, 12: 2, 28: 4, 32: 4, 64: 8}
    assert {side: Hog().fit(np.zeros((1, side, side))).cell_ for side in sizes} == sizes


def test_digits_of_one_class_lie_closer_than_others() -> None:
    digits = load_digits()
    vectors = Hog().fit(digits.images).transform(digits.images)
    centres = np.array([vectors[digits.target == digit].mean(axis=0) for digit in range(10)])
    nearest = ((vectors[:, None] - centres) ** 2).sum(axis=2).argmin(axis=1)
    assert (nearest == digits.target).mean() > 0.9  # the mean gradient of each digit tells most of them apart


@pytest.mark.parametrize(
    ("images", "settings", "rule"),
    [
        (np.zeros((2, 4)), {}, "images must be numbers of shape"),
        (np.zeros((2, 6, 6)), {"cell": 4}, "at least 8 pixels wide and high"),
        (np.zeros((2, 16, 16)), {"cell": 0}, "cell must be a whole number >= 1, got 0"),
    ],
)
def test_images_that_cannot_be_cut_into_blocks_are_refused(images: np.ndarray, settings: dict, rule: str) -> None:
    with pytest.raises(InvalidInput, match=rule):
        Hog(**settings).fit(images)


def test_other_images_than_the_pools_are_refused() -> None:
    encoder = Hog().fit(np.zeros((2, 16, 16)))
    with pytest.raises(InvalidInput, match=r"must have the pool's shape \(16, 16\), got \(8, 8\)"):
        encoder.transform(np.zeros((2, 8, 8)))
    assert np.isnan(encoder.transform(np.full((1, 16, 16), np.nan))).all()
    assert np.isnan(encoder.transform(RNG.normal(size=(1, 16, 16)) * 1e38)).all()


def test_sides_may_be_numpy_s_numbers() -> None:
    pool = np.zeros((3, 16, 16))
    assert how_encoded(Hog(cell=np.int64(4), block=np.int32(2)).fit(pool), pool) is Manner.EXACT  # type: ignore[arg-type]
