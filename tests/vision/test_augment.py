from __future__ import annotations

import colorsys

import pytest
import torch

from recordwise.errors import InvalidInput
from recordwise.vision.augment import Augment, pixels

EVERYTHING = Augment(
    size=24, crop=(0.2, 1.0), flip=0.5, rotate=30, shear=0.3, zoom=0.2, shift=0.1, geometry=0.5,
    brightness=0.4, contrast=0.4, saturation=0.4, hue=0.1, jitter=0.8,
    gray=0.2, invert=0.2, solarize=0.2, posterize=0.2, cutout=8,
)  # fmt: skip


def photos(count: int, channels: int = 3, side: int = 32) -> torch.Tensor:
    return torch.randint(0, 256, (count, channels, side, side), dtype=torch.uint8, generator=draws(99))


def draws(seed: int) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def test_nothing_asked_is_nothing_changed():
    images = photos(4)
    assert torch.equal(Augment()(images, draws(0)), pixels(images))


@pytest.mark.parametrize("channels", [1, 3])
def test_views_have_the_asked_size_and_stay_in_range(channels: int):
    view = EVERYTHING(photos(64, channels), draws(0))
    assert view.shape == (64, channels, 24, 24)
    assert view.dtype == torch.float32
    assert float(view.min()) >= 0
    assert float(view.max()) <= 1


def test_views_come_from_the_generator_alone():
    images = photos(8)
    first = EVERYTHING(images, draws(1))
    assert torch.equal(first, EVERYTHING(images, draws(1)))
    assert not torch.equal(first, EVERYTHING(images, draws(2)))


def test_a_certain_flip_is_a_mirror_image():
    images = photos(3)
    torch.testing.assert_close(Augment(flip=1.0)(images, draws(0)), pixels(images).flip(3), atol=1e-4, rtol=0)


def test_flips_happen_at_the_stated_rate():
    images = photos(1).expand(4000, -1, -1, -1)
    view = Augment(flip=0.3)(images, draws(0))
    flipped = float(((view - pixels(images)).abs().amax((1, 2, 3)) > 0.1).float().mean())
    assert abs(flipped - 0.3) < 0.05  # 6.9 standard deviations
    assert abs(flipped - 0.4) > 0.05  # another rate would be seen


def test_a_crop_shows_part_of_the_image_only():
    ramp = torch.linspace(0, 1, 32).expand(500, 1, 32, 32).contiguous()
    view = Augment(crop=(0.25, 0.25))(ramp, draws(0))
    extent = view.amax((1, 2, 3)) - view.amin((1, 2, 3))  # of the width, between sqrt(3/4)/2 and sqrt(4/3)/2
    assert float(extent.min()) > 0.38
    assert float(extent.max()) < 0.60


def test_a_shift_moves_by_at_most_its_share():
    dot = torch.zeros(400, 1, 31, 31)
    dot[:, :, 15, 15] = 1
    view = Augment(shift=0.2, padding="zeros")(dot, draws(0))
    assert bool((view.amax((1, 2, 3)) > 0).all())
    where = view.flatten(1).argmax(1)
    away = torch.maximum((where // 31 - 15).abs(), (where % 31 - 15).abs())
    assert 5 <= int(away.max()) <= 7


def test_hue_turns_as_the_colour_circle_does():
    red = torch.tensor([0.6, 0.4, 0.4]).view(1, 3, 1, 1).expand(200, 3, 4, 4)
    view = Augment(hue=0.1, jitter=1.0)(red, draws(0))[:, :, 0, 0]
    hues = [(colorsys.rgb_to_hsv(*colour)[0] + 0.5) % 1 - 0.5 for colour in view.tolist()]
    assert max(hues) > 0.05
    assert min(hues) < -0.05
    assert max(map(abs, hues)) < 0.2
    luma = view @ torch.tensor([0.299, 0.587, 0.114])
    torch.testing.assert_close(luma, luma[:1].expand(200), atol=1e-3, rtol=0)


def test_gray_has_equal_channels_and_inversion_undoes_itself():
    images = photos(5)
    gray = Augment(gray=1.0)(images, draws(0))
    torch.testing.assert_close(gray[:, 0], gray[:, 2])
    torch.testing.assert_close(Augment(invert=1.0)(Augment(invert=1.0)(images, draws(0)), draws(0)), pixels(images))


def test_posterize_leaves_few_levels_and_solarize_flips_the_bright_part():
    ramp = torch.linspace(0, 1, 32).expand(50, 1, 32, 32).contiguous()
    posterized = Augment(posterize=1.0)(ramp, draws(0))
    assert max(len(image.unique()) for image in posterized) <= 16
    solarized = Augment(solarize=1.0)(ramp, draws(0))
    assert torch.equal(solarized[..., :9], ramp[..., :9])  # below every threshold
    assert float(solarized[..., -1].max()) == 0.0


def test_cutout_covers_a_square():
    view = Augment(cutout=8)(torch.ones(300, 3, 32, 32), draws(0))
    covered = (view == 0.5).float().mean((1, 2, 3)) * 32 * 32
    assert float(covered.max()) <= 64
    assert float(covered.min()) >= 12  # a quarter of it lies inside at worst, less the rounding to whole pixels


@pytest.mark.parametrize(
    ("wrong", "rule"),
    [({"padding": "wrap"}, "padding"), ({"crop": (0.5, 0.2)}, "crop"), ({"flip": 1.5}, "flip")],
)
def test_impossible_settings_are_refused(wrong: dict, rule: str):
    with pytest.raises(InvalidInput, match=rule):
        Augment(**wrong)


@pytest.mark.parametrize("wrong", [{"size": -3}, {"size": 0}, {"size": 2.5}, {"cutout": -1}], ids=str)
def test_impossible_sides_are_refused(wrong: dict[str, int]):
    with pytest.raises(InvalidInput, match=f"^{next(iter(wrong))} must be a whole number"):
        Augment(**wrong)  # type: ignore[arg-type]
