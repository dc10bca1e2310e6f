"""SimCLR (Chen et al. 2020): two views of an image should be nearer each other than to any other image's view.

The paper that Recordwise follows used it for CIFAR-10. `self_supervised` is what our results use; this one is here to
compare with.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from recordwise.extras.torch import torch

from torch import Tensor, nn
from torch.nn import functional

from recordwise.errors import positive, whole
from recordwise.vision.augment import Augment
from recordwise.vision.resnet import ResNet
from recordwise.vision.self_supervised import PHOTO_VIEW, channel_statistics, perceptron
from recordwise.vision.steps import Batches, Recorded, fresh_weights
from recordwise.vision.training import Training, TrainingRun, WarmedSettings, check_images, warmed_epoch


@dataclass(frozen=True, kw_only=True)
class SimClr(WarmedSettings):
    """Settings of SimCLR; the defaults are usual for CIFAR-10."""

    epochs: int = 400
    batch: int = 512
    rate: float = 0.4
    warm_up: float = 0.025
    weight_decay: float = 1e-4
    temperature: float = 0.5
    width: int = 64
    hidden: int = 2048
    projection: int = 128
    view: Augment = field(default=PHOTO_VIEW)

    def __post_init__(self) -> None:
        super().__post_init__()
        whole(width=self.width, hidden=self.hidden, projection=self.projection)
        positive(temperature=self.temperature)


def simclr(
    images: Tensor,
    settings: SimClr,
    *,
    run: TrainingRun,
) -> nn.Module:
    """A backbone learnt from public images alone.

    Args:
      images: (n, channels, height, width) uint8, public, on `run.compute.device`.
    """
    compute = run.compute
    check_images(images)
    with fresh_weights(run.seed):
        mean, deviation = channel_statistics(images)
        backbone = ResNet(mean=mean, deviation=deviation, width=settings.width)
        projector = perceptron(backbone.dim, settings.hidden, settings.projection)
    compute.ready(backbone).train()
    compute.ready(projector).train()
    see, project = compute.fused(backbone), compute.fused(projector)
    generator = compute.generator(run.seed)
    parameters = [*backbone.parameters(), *projector.parameters()]
    descent = settings.descent(parameters)
    batches = Batches(torch.arange(len(images), device=images.device), settings.batch, generator)
    total = torch.zeros((), device=images.device)

    def step() -> None:
        chosen = images[batches.next()]
        views = torch.cat([settings.view(chosen, generator), settings.view(chosen, generator)])
        with compute.mixed():
            projected = project(see(views))
        loss = contrast(functional.normalize(projected.float(), dim=1), settings.temperature)
        descent.update(torch.autograd.grad(loss, parameters))
        total.add_(loss.detach())

    training = Training(
        warmed_epoch(Recorded(step, compute, generator), batches, total, descent, settings),
        {"backbone": backbone, "projector": projector, "descent": descent, "generator": generator},
        settings=settings,
        run=run,
        inputs={"images": images},
    )
    training.finish(settings.epochs)
    return backbone.eval()


def contrast(units: Tensor, temperature: float) -> Tensor:
    """The mean over 2n unit vectors, twins n apart, of −log softmax of the twin among all others (NT-Xent)."""
    alike = units @ units.T / temperature
    alike = alike.masked_fill(torch.eye(len(units), dtype=torch.bool, device=units.device), -torch.inf)
    twin = (units * units.roll(len(units) // 2, 0)).sum(1) / temperature
    return (torch.logsumexp(alike, dim=1) - twin).mean()
