from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn

from recordwise.errors import InvalidInput
from recordwise.vision.augment import Augment
from recordwise.vision.imitate import Imitate, imitate
from recordwise.vision.steps import Compute
from recordwise.vision.training import TrainingRun

CPU = Compute(device="cpu")
SETTINGS = Imitate(epochs=30, batch=50, view=Augment(), keep=0.9)


def seen(count: int, seed: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Images, and what two encoders say of them: the brightness of their halves, at very different scales."""
    rng = np.random.default_rng(seed)
    bright = rng.integers(0, 200, (count, 2))
    images = np.repeat(bright, 2, axis=1)[:, None, None, :].repeat(4, axis=2) + rng.integers(0, 50, (count, 1, 4, 4))
    vectors = bright * np.array([1.0, 0.01])
    return torch.from_numpy(images.astype(np.uint8)), torch.from_numpy(vectors).float()


def backbone() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(nn.Flatten(), nn.Linear(16, 8), nn.ReLU())


def explained(network: nn.Module, images: torch.Tensor, vectors: torch.Tensor) -> torch.Tensor:
    """The share of each column's variance that a linear map of the features explains."""
    with torch.no_grad():
        features = network(images.float() / 255)
    features = torch.cat([features, torch.ones(len(features), 1)], dim=1).double()
    wanted = vectors.double()
    left = wanted - features @ torch.linalg.lstsq(features, wanted, driver="gelsd").solution
    return 1 - left.var(0) / wanted.var(0)


def test_what_encoders_said_of_the_pool_can_be_read_from_the_network_on_other_images():
    images, vectors = seen(400, 0)
    values: list[float] = []
    network = imitate(
        backbone(),
        8,
        images,
        vectors,
        SETTINGS,
        run=TrainingRun(progress=lambda _, value: values.append(value)),
    )
    assert values[-1] < 0.3 * values[0]
    assert bool((explained(network, *seen(300, 1)) > 0.9).all())  # the narrow column, too
    assert all(parameter.requires_grad for parameter in network.parameters())  # ready to be taught on


def test_a_run_that_was_stopped_goes_on_as_if_it_had_not_been(tmp_path: Path):
    images, vectors = seen(200, 0)

    def stop(epoch: int, value: float) -> None:
        if epoch == 14:
            raise KeyboardInterrupt

    whole = imitate(backbone(), 8, images, vectors, SETTINGS, run=TrainingRun())
    run = tmp_path / "run.pt"
    with pytest.raises(KeyboardInterrupt):
        imitate(
            backbone(),
            8,
            images,
            vectors,
            SETTINGS,
            run=TrainingRun(checkpoint=run, progress=stop),
        )
    resumed = imitate(backbone(), 8, images, vectors, SETTINGS, run=TrainingRun(checkpoint=run))
    assert torch.equal(whole[1].weight, resumed[1].weight)  # type: ignore[index]


def test_vectors_that_say_nothing_are_refused():
    images, vectors = seen(50, 0)
    with pytest.raises(InvalidInput, match="differ between images"):
        imitate(backbone(), 8, images, torch.ones_like(vectors), SETTINGS, run=TrainingRun())
    with pytest.raises(InvalidInput, match="vectors"):
        imitate(backbone(), 8, images, vectors[:5], SETTINGS, run=TrainingRun())
