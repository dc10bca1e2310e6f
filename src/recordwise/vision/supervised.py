"""Teach a network soft labels that carry different weights.

Labels from a noisy tally are not equally sure. Here each image's label is a distribution over classes (the posterior
under the known noise), and its weight how much it should count: noise-aware training, all of it post-processing.
"""

from __future__ import annotations

from dataclasses import dataclass

from recordwise.extras.torch import torch

from torch import Tensor, nn

from recordwise.errors import InvalidInput, probability
from recordwise.vision.augment import Augment
from recordwise.vision.steps import Average, Batches, Recorded
from recordwise.vision.training import (
    Training,
    TrainingRun,
    WarmedSettings,
    check_images,
    check_rows,
    warmed_epoch,
)


@dataclass(frozen=True, kw_only=True)
class Supervised(WarmedSettings):
    """Settings of a supervised run; what comes out is the average of the weights after the last epoch.

    Attributes:
      keep: The share of itself that the average keeps at every step.
    """

    view: Augment
    batch: int = 128
    rate: float = 0.05
    warm_up: float = 0.1
    keep: float = 0.995

    def __post_init__(self) -> None:
        super().__post_init__()
        probability(keep=self.keep)


def train(
    network: nn.Module,
    images: Tensor,
    targets: Tensor,
    weights: Tensor,
    settings: Supervised,
    *,
    run: TrainingRun,
) -> nn.Module:
    """The network's averaged twin after the last epoch, in evaluation mode.

    Args:
      images: (n, channels, height, width) uint8 on `run.compute.device`.
      targets: (n, C) probabilities.
      weights: (n,) at least 0; an image of weight 0 is left out.
    """
    compute = run.compute
    check_images(images)
    check_rows(images, dims=2, targets=targets)
    check_rows(images, dims=1, weights=weights)
    used = (weights > 0).nonzero().flatten()
    if not len(used):
        raise InvalidInput("weights must be > 0 for at least one image, got none")
    learner = compute.ready(network).train()
    average = Average(learner, settings.keep)
    forward, generator = compute.fused(learner), compute.generator(run.seed)
    parameters = list(learner.parameters())
    descent = settings.descent(parameters, nesterov=True)
    batches = Batches(used, settings.batch, generator)
    total = torch.zeros((), device=images.device)

    def step() -> None:
        index = batches.next()
        with compute.mixed():
            logits = forward(settings.view(images[index], generator))
        wrong = -(targets[index] * logits.float().log_softmax(1)).sum(1)
        loss = (wrong * weights[index]).sum() / weights[index].sum()
        descent.update(torch.autograd.grad(loss, parameters))
        average.follow()
        total.add_(loss.detach())

    training = Training(
        warmed_epoch(Recorded(step, compute, generator), batches, total, descent, settings),
        {"learner": learner, "average": average, "descent": descent, "generator": generator},
        settings=settings,
        run=run,
        inputs={"network": network, "images": images, "targets": targets, "weights": weights},
    )
    training.finish(settings.epochs)
    return average.network.eval()
