"""As many clusters as classes: a network that gives an image and its neighbours the same cluster.

SCAN (Van Gansbeke et al. 2020): starting from self-supervised features, an image and one of its nearest neighbours
should be assigned alike and surely, while all clusters stay in use. The backbone learns along: on frozen features this
fails. Several heads share it, and the one with the lowest loss is kept, which needs no labels.
"""

from __future__ import annotations

import copy
from dataclasses import dataclass, field

from recordwise.extras.torch import torch

from torch import Tensor, nn

from recordwise.errors import positive, whole
from recordwise.vision.augment import Augment
from recordwise.vision.resnet import Classifier
from recordwise.vision.steps import Batches, Recorded, fresh_weights
from recordwise.vision.training import Settings, Training, TrainingRun, check_images, check_numbers

STRONG_VIEW = Augment(
    flip=0.5, rotate=30, shear=0.3, zoom=0.2, shift=0.125, geometry=0.5,
    brightness=0.4, contrast=0.4, saturation=0.4, hue=0.1, jitter=0.8,
    gray=0.1, solarize=0.2, posterize=0.2, cutout=15,
)  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class Scan(Settings):
    """Settings of SCAN fine-tuning.

    Attributes:
      entropy: Weight of the entropy of the mean assignment, which keeps every cluster in use.
    """

    clusters: int = 10
    heads: int = 10
    epochs: int = 60
    batch: int = 256
    rate: float = 2e-4
    weight_decay: float = 0.0
    entropy: float = 5.0
    view: Augment = field(default=STRONG_VIEW)

    def __post_init__(self) -> None:
        super().__post_init__()
        whole(clusters=self.clusters, heads=self.heads)
        positive(entropy=self.entropy)


def scan(
    backbone: nn.Module,
    dim: int,
    images: Tensor,
    near: Tensor,
    settings: Scan,
    *,
    run: TrainingRun,
) -> Classifier:
    """A network of `clusters` outputs, fine-tuned from a copy of `backbone` on public images.

    Args:
      dim: Outputs of the backbone.
      images: (n, channels, height, width) uint8 on `run.compute.device`.
      near: (n, m) indices of each image's nearest others, one of which is its partner.
    """
    compute = run.compute
    check_images(images)
    check_numbers(images, below=len(images), dims=2, near=near)
    near = near.long()  # as an index, a byte would be a mask
    body = compute.ready(copy.deepcopy(backbone)).requires_grad_(True).train()
    with fresh_weights(run.seed):
        heads = compute.ready(nn.Linear(dim, settings.heads * settings.clusters))
    forward, generator = compute.fused(body), compute.generator(run.seed)
    parameters = [*body.parameters(), *heads.parameters()]
    descent = torch.optim.Adam(
        parameters, lr=settings.rate, weight_decay=settings.weight_decay, capturable=compute.on_gpu
    )
    batches = Batches(torch.arange(len(images), device=images.device), settings.batch, generator)
    losses = torch.zeros(settings.heads, device=images.device)

    def step() -> None:
        anchor = batches.next()
        pick = torch.randint(near.shape[1], anchor.shape, generator=generator, device=anchor.device)
        both = torch.cat([anchor, near[anchor, pick]])
        views = settings.view(images[both], generator)
        with compute.mixed():
            logits = heads(forward(views))
        sure = logits.float().view(2, len(anchor), settings.heads, settings.clusters).softmax(-1)
        each = _disagreement(sure[0], sure[1], settings.entropy)
        for parameter, gradient in zip(parameters, torch.autograd.grad(each.sum(), parameters), strict=True):
            parameter.grad = gradient
        descent.step()
        losses.add_(each.detach())

    recorded = Recorded(step, compute, generator)

    def one_epoch(epoch: int) -> float:
        losses.zero_()
        batches.shuffle()
        for _ in range(len(batches)):
            recorded()
        return float(losses.min()) / len(batches)

    training = Training(
        one_epoch,
        {"body": body, "heads": heads, "descent": descent, "losses": losses, "generator": generator},
        settings=settings,
        run=run,
        inputs={"backbone": backbone, "images": images, "near": near},
    )
    training.finish(settings.epochs)
    best = int(losses.argmin())
    network = Classifier(body, dim, settings.clusters)
    chosen = slice(best * settings.clusters, (best + 1) * settings.clusters)
    with torch.no_grad():
        network.head.weight.copy_(heads.weight[chosen])
        network.head.bias.copy_(heads.bias[chosen])
    compute.ready(network)
    return network.eval()


def _disagreement(mine: Tensor, theirs: Tensor, weight: float) -> Tensor:
    """(heads,) SCAN losses from (n, heads, clusters) assignments of images and of their neighbours."""
    together = (mine * theirs).sum(-1).clamp(min=1e-8).log().mean(0)
    used = mine.mean(0).clamp(min=1e-8)
    return -together + weight * (used * used.log()).sum(-1)
