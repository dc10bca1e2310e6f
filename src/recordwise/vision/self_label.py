"""Teach a network from labels that are partly wrong: trust some first, then its own sure answers.

The network begins as a copy of a self-supervised backbone. For a few epochs it learns the labels of trusted images.
Then a slowly following teacher labels weakly changed images, and the network must give strongly changed ones the same
label wherever the teacher is sure (FixMatch, Sohn et al. 2020; alignment as in ReMixMatch, Berthelot et al.
2020). Wrong labels that look like their neighbours' are corrected on the way. A class that the teacher names less than
half as often as it should is being forgotten, and nothing would bring it back: its trusted images are then taught their
labels again.

It serves twice: cluster numbers as labels sharpen a clustering; labels released from private votes make a student,
as training on a release is free post-processing.
"""

from __future__ import annotations

import copy
from dataclasses import dataclass, field

from recordwise.extras.torch import torch

from torch import Tensor, nn
from torch.nn import functional

from recordwise.errors import InvalidInput, probability, shown, whole
from recordwise.vision.augment import Augment
from recordwise.vision.resnet import Classifier
from recordwise.vision.scan import STRONG_VIEW
from recordwise.vision.schedules import cosine
from recordwise.vision.steps import Average, Batches, Recorded, fresh_weights
from recordwise.vision.training import (
    MomentumSettings,
    Training,
    TrainingRun,
    check_flags,
    check_images,
    check_numbers,
)

WEAK_VIEW = Augment(flip=0.5, shift=0.125)


@dataclass(frozen=True, kw_only=True)
class SelfLabel(MomentumSettings):
    """Settings of self-labelling.

    Attributes:
      trusting_epochs: The first epochs, with trusted labels only.
      sure: The teacher's answer counts from this probability on.
      keep: The share of itself that the teacher keeps at every step.
      alignment: The share of itself that the mean of the teacher's answers keeps at every step.
    """

    epochs: int = 90
    trusting_epochs: int = 8
    batch: int = 512
    rate: float = 0.03
    sure: float = 0.95
    keep: float = 0.996
    alignment: float = 0.99
    strong: Augment = field(default=STRONG_VIEW)
    weak: Augment = field(default=WEAK_VIEW)

    def __post_init__(self) -> None:
        super().__post_init__()
        whole(trusting_epochs=self.trusting_epochs)
        probability(sure=self.sure, keep=self.keep, alignment=self.alignment)


def agreeing(labels: Tensor, near: Tensor, share: float = 0.9) -> Tensor:
    """Which points carry the label that at least `share` of their neighbours carry."""
    same = (labels[near] == labels[:, None]).float().mean(1)
    return same >= share - 1e-6


def self_label(
    backbone: nn.Module,
    dim: int,
    images: Tensor,
    labels: Tensor,
    trusted: Tensor,
    settings: SelfLabel,
    *,
    classes: int,
    prior: Tensor | None = None,
    run: TrainingRun,
) -> Classifier:
    """The teacher after the last epoch, fine-tuned from a copy of `backbone`.

    Args:
      dim: Outputs of the backbone.
      images: (n, channels, height, width) uint8 on `run.compute.device`.
      labels: (n,) classes.
      trusted: (n,) whether the first epochs may learn an image's label.
      prior: (classes,) the shares the teacher's answers are aligned to; uniform if None.
      run: Its progress is told each epoch's number and the share of images whose label counted.
    """
    compute = run.compute
    whole(classes=classes)
    check_images(images)
    check_numbers(images, below=classes, dims=1, labels=labels)
    check_flags(images, trusted=trusted)
    labels = labels.long()  # as an index, a byte would be a mask
    if not bool(trusted.any()):
        raise InvalidInput("trusted must name at least one image, got none")
    body = copy.deepcopy(backbone).requires_grad_(True)
    with fresh_weights(run.seed):
        student = Classifier(body, dim, classes)
    compute.ready(student).train()
    average = Average(student, settings.keep)
    teacher = average.network.eval()
    forward, ask = compute.fused(student), compute.fused(teacher)
    generator = compute.generator(run.seed)
    parameters = list(student.parameters())
    descent = settings.descent(parameters, nesterov=True)
    goal = _shares(prior, classes).to(images.device)
    usual = goal.clone()
    counted = torch.zeros((), device=images.device)

    def learn(batch: Tensor, answer: Tensor, weight: Tensor) -> None:
        with compute.mixed():
            logits = forward(settings.strong(batch, generator))
        loss = (functional.cross_entropy(logits.float(), answer, reduction="none") * weight).mean()
        descent.update(torch.autograd.grad(loss, parameters))
        average.follow()
        counted.add_(weight.mean())

    def trust() -> None:
        index = first.next()
        learn(images[index], labels[index], torch.ones(len(index), device=index.device))

    def believe() -> None:
        index = all_batches.next()
        batch = images[index]
        with torch.no_grad(), compute.mixed():
            answer = ask(settings.weak(batch, generator)).float().softmax(1)
        usual.lerp_(answer.mean(0), 1 - settings.alignment)
        aligned = functional.normalize(answer * (goal / usual.clamp(min=1e-6)), p=1, dim=1)
        confidence, said = aligned.max(1)
        again = trusted[index] & (usual < goal / 2)[labels[index]]
        learn(batch, torch.where(again, labels[index], said), (again | (confidence >= settings.sure)).float())

    first = Batches(trusted.nonzero().flatten(), settings.batch, generator)
    all_batches = Batches(torch.arange(len(images), device=images.device), settings.batch, generator)
    trusting, believing = Recorded(trust, compute, generator), Recorded(believe, compute, generator)

    def one_epoch(epoch: int) -> float:
        early = epoch < settings.trusting_epochs
        batches, step = (first, trusting) if early else (all_batches, believing)
        counted.zero_()
        batches.shuffle()
        for batch in range(len(batches)):
            descent.rate.fill_(settings.rate * cosine((epoch + batch / len(batches)) / settings.epochs))
            step()
        return float(counted) / len(batches)

    training = Training(
        one_epoch,
        {"student": student, "teacher": average, "descent": descent, "usual": usual, "generator": generator},
        settings=settings,
        run=run,
        inputs={"backbone": backbone, "images": images, "labels": labels, "trusted": trusted, "prior": goal},
    )
    training.finish(settings.epochs)
    return teacher


def _shares(prior: Tensor | None, classes: int) -> Tensor:
    """The prior, looked at; uniform if there is none."""
    if prior is None:
        return torch.full((classes,), 1 / classes)
    if not (isinstance(prior, Tensor) and prior.shape == (classes,) and bool((prior >= 0).all())):
        raise InvalidInput(f"prior must be a tensor of {classes} shares >= 0, got {shown(prior)}")
    if not abs(float(prior.sum()) - 1) <= 1e-3:
        raise InvalidInput(f"prior must sum to 1, got {float(prior.sum())}")
    return prior.float()
