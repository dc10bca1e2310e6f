"""A network learns to see what encoders saw: their features of the pool become the weights that it starts from.

Features of several encoders, side by side, are worth more than one encoder's weights, and a pool's features are small
where weights are not. A network that gives them back from changed images has learnt what they have in common, in a
fraction of the time that learning them took; afterwards one network has to be run instead of several.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from recordwise.extras.torch import torch

from torch import Tensor, nn
from torch.nn import functional

from recordwise.errors import InvalidInput, probability
from recordwise.vision.augment import Augment
from recordwise.vision.steps import Average, Batches, Recorded, fresh_weights
from recordwise.vision.training import (
    Training,
    TrainingRun,
    WarmedSettings,
    check_images,
    check_rows,
    warmed_epoch,
)

CLOSE_VIEW = Augment(
    crop=(0.4, 1.0), flip=0.5, brightness=0.4, contrast=0.4, saturation=0.4, hue=0.1, jitter=0.8, gray=0.1, cutout=8
)


@dataclass(frozen=True, kw_only=True)
class Imitate(WarmedSettings):
    """Settings of a run that imitates encoders.

    Attributes:
      keep: The share of itself that the average of the weights keeps at every step.
    """

    epochs: int = 150
    batch: int = 512
    rate: float = 0.1
    warm_up: float = 0.05
    keep: float = 0.999
    view: Augment = field(default=CLOSE_VIEW)

    def __post_init__(self) -> None:
        super().__post_init__()
        probability(keep=self.keep)


def imitate(
    backbone: nn.Module,
    dim: int,
    images: Tensor,
    vectors: Tensor,
    settings: Imitate,
    *,
    run: TrainingRun,
) -> nn.Module:
    """The backbone, its weights averaged over the run, in evaluation mode.

    Args:
      backbone: Gives (n, dim) features of images.
      images: (n, channels, height, width) uint8 on `run.compute.device`.
      vectors: (n, d) what the encoders say of each image, several encoders' side by side.
      run: Its progress is told each epoch's number and one less the mean cosine between what it says and the vectors.
    """
    compute = run.compute
    check_images(images)
    check_rows(images, dims=2, vectors=vectors)
    goal = _evened(vectors)
    with fresh_weights(run.seed):
        network = nn.Sequential(backbone, nn.Linear(dim, goal.shape[1]))
    learner = compute.ready(network).train()
    average = Average(learner, settings.keep)
    forward, generator = compute.fused(learner), compute.generator(run.seed)
    parameters = list(learner.parameters())
    descent = settings.descent(parameters, nesterov=True)
    batches = Batches(torch.arange(len(images), device=images.device), settings.batch, generator)
    total = torch.zeros((), device=images.device)

    def step() -> None:
        index = batches.next()
        with compute.mixed():
            said = forward(settings.view(images[index], generator))
        # Directions, not lengths: a squared error of lengths is too steep for the rate that the backbone wants.
        loss = 1 - functional.cosine_similarity(said.float(), goal[index]).mean()
        descent.update(torch.autograd.grad(loss, parameters))
        average.follow()
        total.add_(loss.detach())

    training = Training(
        warmed_epoch(Recorded(step, compute, generator), batches, total, descent, settings),
        {"learner": learner, "average": average, "descent": descent, "generator": generator},
        settings=settings,
        run=run,
        inputs={"network": network, "images": images, "vectors": vectors},
    )
    training.finish(settings.epochs)
    imitated: nn.Module = average.network[0].requires_grad_(True).eval()
    return imitated


def _evened(vectors: Tensor) -> Tensor:
    """The vectors, centred; wide columns narrowed to the root of their width.

    As they are, few wide directions would be all that is learnt; evened out fully, mostly the noise of the rest.
    """
    centred = vectors.float() - vectors.float().mean(0)
    width = centred.std(0, unbiased=False)
    if not bool((width > 0).any()):
        raise InvalidInput("vectors must differ between images, got the same for all")
    return centred / width.clamp(min=1e-12).sqrt()
