"""Learn features from unlabelled public images: BYOL, then BYOL with prototypes.

Bootstrap Your Own Latent (Grill et al. 2020): an online network predicts, from one view of an image, what a slowly
following target network says of another view. A second phase adds the prototype scattering loss of ProPos (Huang et al.
2022): images are clustered every epoch on the target's features, and the clusters' mean predictions are pushed apart,
which makes the features fall into groups.

Both views pass each network in one batch, images are resampled to fewer pixels than they have, and the learning rate
stays constant after its warm-up: on pools of some ten thousand images annealing it overfits.
"""

from __future__ import annotations

import copy
from dataclasses import dataclass, field

from recordwise.extras.torch import torch

from torch import Tensor, nn
from torch.nn import functional

from recordwise.errors import InvalidInput, count, positive, whole
from recordwise.vision.augment import Augment, pixels
from recordwise.vision.resnet import ResNet
from recordwise.vision.spherical import spherical_kmeans
from recordwise.vision.steps import Batches, Compute, Recorded, follow, fresh_weights
from recordwise.vision.training import MomentumSettings, Training, TrainingRun, check_images

PHOTO_VIEW = Augment(
    size=24, crop=(0.2, 1.0), flip=0.5,
    brightness=0.4, contrast=0.4, saturation=0.4, hue=0.1, jitter=0.8, gray=0.2,
)  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class Byol(MomentumSettings):
    """Settings of a pre-training run; the defaults are those for CIFAR-10.

    Attributes:
      epochs: Epochs of plain BYOL.
      prototype_epochs: Epochs with the prototype loss after that.
      follow_from, follow_to, follow_epochs: The target keeps this share of itself at every step, growing linearly.
      prototypes: Clusters of the prototype loss.
      noise: Standard deviation of the noise on the online projections while the prototype loss is on.
    """

    epochs: int = 450
    prototype_epochs: int = 200
    batch: int = 512
    rate: float = 0.1
    warm_up_epochs: int = 10
    predictor_rate: float = 5.0
    follow_from: float = 0.98
    follow_to: float = 0.996
    follow_epochs: int = 30
    width: int = 64
    hidden: int = 4096
    projection: int = 256
    prototypes: int = 10
    prototype_weight: float = 0.1
    temperature: float = 0.5
    noise: float = 0.001
    view: Augment = field(default=PHOTO_VIEW)

    def __post_init__(self) -> None:
        super().__post_init__()
        whole(width=self.width, hidden=self.hidden, projection=self.projection, prototypes=self.prototypes)
        whole(follow_epochs=self.follow_epochs)
        count(prototype_epochs=self.prototype_epochs, warm_up_epochs=self.warm_up_epochs)
        positive(temperature=self.temperature)


def perceptron(inputs: int, hidden: int, outputs: int) -> nn.Sequential:
    """The shape of both projector and predictor."""
    return nn.Sequential(
        nn.Linear(inputs, hidden, bias=False), nn.BatchNorm1d(hidden), nn.ReLU(inplace=True), nn.Linear(hidden, outputs)
    )


class Pretraining(Training):
    """A BYOL run in progress.

    Args:
      images: (n, channels, height, width) uint8, public, on `run.compute.device`.
    """

    settings: Byol

    def __init__(self, images: Tensor, settings: Byol, *, run: TrainingRun) -> None:
        compute = run.compute
        check_images(images)
        if settings.prototype_epochs and settings.prototypes > len(images):  # else seen after the last plain epoch
            raise InvalidInput(
                f"prototypes must lie in [1, {len(images)}], the number of images, got {settings.prototypes}"
            )
        self.images = images
        with fresh_weights(run.seed):
            mean, deviation = channel_statistics(images)
            backbone = ResNet(mean=mean, deviation=deviation, width=settings.width)
            projector = perceptron(backbone.dim, settings.hidden, settings.projection)
            predictor = perceptron(settings.projection, settings.hidden, settings.projection)
        self.online = compute.ready(nn.ModuleList([backbone, projector]))
        self.predictor = compute.ready(predictor)
        self.target = copy.deepcopy(self.online).requires_grad_(False)
        self.generator = compute.generator(run.seed)
        self.batches = Batches(torch.arange(len(images), device=images.device), settings.batch, self.generator)
        self.descent = settings.descent(list(self.online.parameters()))
        self.predictor_descent = settings.descent(list(self.predictor.parameters()))
        self.keep = torch.zeros((), device=images.device)
        self.loss = torch.zeros((), device=images.device)
        self.groups = torch.zeros(len(images), dtype=torch.int64, device=images.device)
        self.centres = torch.zeros(settings.prototypes, backbone.dim, device=images.device)
        networks = [*self.online.children(), self.predictor, *self.target.children()]
        forward = [compute.fused(network) for network in networks]
        self._backbone, self._projector, self._predictor, self._target_backbone, self._target_projector = forward
        self._plain = Recorded(lambda: self._step(prototypes=False), compute, self.generator)
        self._grouped = Recorded(lambda: self._step(prototypes=True), compute, self.generator)
        super().__init__(
            self._pass,
            {
                "online": self.online,
                "predictor": self.predictor,
                "target": self.target,
                "descent": self.descent,
                "predictor_descent": self.predictor_descent,
                "centres": self.centres,
                "generator": self.generator,
            },
            settings=settings,
            run=run,
            inputs={"images": images},
        )

    @property
    def backbone(self) -> nn.Module:
        """The target's backbone: the encoder that comes out."""
        return self.target[0]

    def _pass(self, epoch: int) -> float:
        """One pass over the images; returns the mean loss."""
        settings, steps = self.settings, len(self.batches)
        grouped = epoch >= settings.epochs
        if grouped:
            self._regroup(first=epoch == settings.epochs)
        step = self._grouped if grouped else self._plain
        self.loss.zero_()
        self.batches.shuffle()
        for batch in range(steps):
            progress = epoch + batch / steps
            rate = settings.rate * min(1.0, (progress + 1 / steps) / max(settings.warm_up_epochs, 1e-9))
            self.descent.rate.fill_(rate)
            self.predictor_descent.rate.fill_(rate * settings.predictor_rate)
            grown = min(1.0, progress / settings.follow_epochs)
            self.keep.fill_(settings.follow_from + (settings.follow_to - settings.follow_from) * grown)
            step()
        return float(self.loss) / steps

    def _step(self, *, prototypes: bool) -> None:
        settings, index = self.settings, self.batches.next()
        images = self.images[index]
        views = torch.cat([settings.view(images, self.generator), settings.view(images, self.generator)])
        with self.run.compute.mixed():
            with torch.no_grad():
                goal = self._target_projector(self._target_backbone(views))
            projected = self._projector(self._backbone(views))
            if prototypes:
                wobble = torch.randn(
                    projected.shape, generator=self.generator, device=projected.device, dtype=projected.dtype
                )
                projected = projected + settings.noise * wobble
            predicted = self._predictor(projected)
        predicted = functional.normalize(predicted.float(), dim=1)
        goal = functional.normalize(goal.float(), dim=1).roll(len(images), 0)  # the other view of the same image
        loss = 2 - 2 * (predicted * goal).sum(1).mean()
        if prototypes:
            member = self.groups[index][:, None] == torch.arange(settings.prototypes, device=index.device)
            for mine, theirs in zip(predicted.chunk(2), goal.chunk(2), strict=True):
                apart = scattering(mine, theirs, member.float(), settings.temperature)
                loss = loss + settings.prototype_weight / 2 * apart
        leaders = [*self.online.parameters()]
        gradients = torch.autograd.grad(loss, [*leaders, *self.predictor.parameters()])
        self.descent.update(gradients[: len(leaders)])
        self.predictor_descent.update(gradients[len(leaders) :])
        follow(self.online, self.target, self.keep, buffers=False)
        self.loss += loss.detach()

    def _regroup(self, *, first: bool) -> None:
        """Cluster the pool on the target's features, from the second time on starting from last epoch's centres."""
        features = functional.normalize(features_of(self.backbone, self.images, self.run.compute), dim=1)
        self.target.train()
        begin = None if first else self.centres
        found = spherical_kmeans(features, self.settings.prototypes, self.generator, centres=begin)
        self.centres.copy_(found.centres)
        self.groups.copy_(found.assignment)


def pretrain(
    images: Tensor,
    settings: Byol,
    *,
    run: TrainingRun,
) -> nn.Module:
    """A backbone learnt from public images alone."""
    training = Pretraining(images, settings, run=run)
    training.finish(settings.epochs + settings.prototype_epochs)
    return training.backbone.eval()


def scattering(predicted: Tensor, goal: Tensor, member: Tensor, temperature: float) -> Tensor:
    """How badly the groups' means are told apart: contrast of K prototypes with their twins from the target.

    Args:
      predicted: (n, d) unit vectors with gradients.
      goal: (n, d) unit vectors without.
      member: (n, K) one-hot groups; a group nobody belongs to plays no part.
    """
    present = member.sum(0) > 0
    mine = functional.normalize(member.T @ predicted, dim=1)
    theirs = functional.normalize(member.T @ goal, dim=1)
    alike = mine @ mine.T / temperature
    twin = (mine * theirs).sum(1) / temperature
    alike = torch.where(torch.eye(len(mine), dtype=torch.bool, device=mine.device), twin[:, None], alike)
    alike = alike.masked_fill(~present[None, :], -torch.inf)
    loss = torch.where(present, torch.logsumexp(alike, dim=1) - twin, 0.0)
    return loss.sum() / present.sum()


@torch.no_grad()
def features_of(
    network: nn.Module, images: Tensor, compute: Compute, *, mirror: bool = False, chunk: int = 2500
) -> Tensor:
    """(n, dim) float32 outputs of a network in evaluation mode, averaged over both mirror images if asked."""
    network.eval()
    parts = []
    for part in torch.split(images, chunk):
        x = pixels(part)
        with compute.mixed():
            out = network(x).float()
            if mirror:
                out = (out + network(x.flip(3)).float()) / 2
        parts.append(out)
    return torch.cat(parts)


def channel_statistics(images: Tensor) -> tuple[list[float], list[float]]:
    """Mean and standard deviation of each channel of uint8 images, in [0, 1]."""
    count = images.numel() / images.shape[1]
    wide = [images[:, channel].double() / 255 for channel in range(images.shape[1])]
    mean = [float(channel.sum()) / count for channel in wide]
    deviation = [float((channel - m).square().mean().sqrt()) for channel, m in zip(wide, mean, strict=True)]
    return mean, [max(d, 1e-3) for d in deviation]
