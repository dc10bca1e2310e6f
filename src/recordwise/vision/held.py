"""A network that answers to the released counts.

Labels tell a network one class per query. The tally tells it how many of a query's images are something else, though
not which. Here a slowly following teacher answers for the whole pool; its answers are calibrated and aligned to the
tally under the known law of the noise (`shares`); and the network learns, on strongly changed images, the aligned
answers that are sure enough (FixMatch, Sohn et al. 2020; a threshold for each class as in FlexMatch, Zhang et al.
2021). It begins with the labels that are surest from the start, of every class and at most half of a class in any
query, so that borders are taught as well as centres; each of them stays until the teacher is sure of another.

Training on a release is post-processing: it costs no privacy.
"""

from __future__ import annotations

import copy
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Self

from recordwise.extras.torch import torch

import numpy as np
from numpy.typing import ArrayLike, NDArray
from torch import Tensor, nn
from torch.nn import functional

from recordwise.errors import InvalidInput, probability, shown, whole
from recordwise.protocols.release import Tally
from recordwise.randomness import seeded
from recordwise.vision.augment import Augment
from recordwise.vision.schedules import warmed_up
from recordwise.vision.self_supervised import features_of
from recordwise.vision.shares import Table, held, shares_of
from recordwise.vision.steps import Average, Batches, Compute, Recorded
from recordwise.vision.training import (
    EVERY,
    MomentumSettings,
    Report,
    Training,
    check_images,
    check_numbers,
    check_rows,
    silent,
)

WEAK_VIEW = Augment(flip=0.5, shift=0.125)
STRONG_VIEW = Augment(
    flip=0.5, rotate=30, shear=0.3, zoom=0.2, shift=0.2, geometry=0.5,
    brightness=0.6, contrast=0.6, saturation=0.6, hue=0.1, jitter=0.8,
    gray=0.1, invert=0.05, solarize=0.15, posterize=0.15, cutout=16,
)  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class HeldToCounts(MomentumSettings):
    """Settings of a network that is held to counts.

    Attributes:
      epochs: Passes over the pool.
      batch: Images per step whose labels are the teacher's.
      labelled_batch: Images per step of those that were sure from the start, weakly changed.
      labelled: The share of each class's images that are among them.
      sure: An aligned answer counts from this probability on; for a class that fewer images are sure of, from less.
      leniency: How much less at most, as a share of `sure`.
      first_epochs: Until then the first labels alone are taught, before the teacher's.
      ask_every: Epochs from one time that the teacher is asked to the next.
      warm_up: Share of the run in which the learning rate rises.
      keep: The share of itself that the teacher keeps at every step.
      mirror: The teacher's answer is the mean of those to an image and to its mirror image. Never for digits.
    """

    epochs: int = 300
    batch: int = 448
    labelled_batch: int = 64
    labelled: float = 0.2
    rate: float = 0.03
    sure: float = 0.95
    leniency: float = 0.25
    first_epochs: int = 10
    ask_every: int = 4
    warm_up: float = 0.01
    keep: float = 0.999
    mirror: bool = True
    strong: Augment = field(default=STRONG_VIEW)
    weak: Augment = field(default=WEAK_VIEW)

    def __post_init__(self) -> None:
        super().__post_init__()
        whole(labelled_batch=self.labelled_batch, first_epochs=self.first_epochs, ask_every=self.ask_every)
        probability(
            labelled=self.labelled, sure=self.sure, leniency=self.leniency, warm_up=self.warm_up, keep=self.keep
        )


@dataclass(frozen=True, kw_only=True, eq=False)
class Counted:
    """A tally, and the query that each pool image belongs to.

    Attributes:
      owner: (n,) queries.
      records: How many records voted.
    """

    owner: ArrayLike
    tally: Tally
    records: int

    @property
    def sizes(self) -> NDArray[np.int64]:
        """(s,) how many pool images belong to each query."""
        return np.bincount(np.asarray(self.owner), minlength=len(self.tally.estimate))


def hold_to_counts(
    network: nn.Module,
    images: Tensor,
    counted: Sequence[Counted],
    settings: HeldToCounts,
    *,
    first: Tensor | None = None,
    seed: int,
    compute: Compute,
    checkpoint: str | Path | None = None,
    checkpoint_every: int = EVERY,
    progress: Report = silent,
) -> nn.Module:
    """The teacher after the last epoch, in evaluation mode. `network` should start from self-supervised weights.

    Goes on from `checkpoint` where that exists.

    Args:
      images: (n, channels, height, width) uint8 on `compute.device`.
      counted: One release or several, each with its own queries. None where a release has no counts: the network then
        learns from `first` and itself.
      first: (n, C) probabilities to begin with: the soft labels of a decoder that knows the neighbours, or better a
        linear student's on features of several encoders. They stay a second opinion: the teacher's answers are
        multiplied by them. If None, each image gets the class shares that the tallies show for its queries.
      progress: Called with each epoch's number and the share of images whose label counted.
    """
    check_images(images)
    tables = [_table(one, images) for one in counted]
    begun = _first(first, tables, images)
    learner = compute.ready(network).train()
    average = Average(learner, settings.keep)
    teacher = average.network.eval()
    run, ask = compute.fused(learner), compute.fused(teacher)
    generator = compute.generator(seed)
    parameters = list(learner.parameters())
    descent = settings.descent(parameters, nesterov=True)
    opinion = begun.clamp(min=1e-9).log()
    answers = held(opinion, tables)
    anchors = answers.argmax(1)
    known = choose_labelled(answers, tables[0].owner if tables else torch.zeros_like(anchors), settings, seed=seed)
    labels, weights, anchored = anchors.clone(), known.float(), known.float()
    with_label = Batches(known.nonzero().flatten(), settings.labelled_batch, generator)
    every = Batches(torch.arange(len(images), device=images.device), settings.batch, generator)
    counting = torch.zeros((), device=images.device)

    def step() -> None:
        taught, untaught = with_label.next(), every.next()
        views = (settings.weak(images[taught], generator), settings.strong(images[untaught], generator))
        wanted = torch.cat([anchors[taught], labels[untaught]])
        counts = torch.cat([anchored[taught] / len(taught), weights[untaught] / len(untaught)])
        with compute.mixed():
            logits = run(torch.cat(views))
        loss = (functional.cross_entropy(logits.float(), wanted, reduction="none") * counts).sum()
        descent.update(torch.autograd.grad(loss, parameters))
        average.follow()
        counting.add_(weights[untaught].mean())

    recorded, steps = Recorded(step, compute, generator), len(every)

    def one_epoch(epoch: int) -> float:
        if epoch >= settings.first_epochs and (epoch - settings.first_epochs) % settings.ask_every == 0:
            logits = features_of(ask, images, compute, mirror=settings.mirror)  # type: ignore[arg-type]
            label, counts = pseudo_labels(held(logits, tables, opinion), settings)
            labels.copy_(label)  # in place: a recorded step knows tensors by their addresses
            weights.copy_(counts)
            anchored.copy_(
                known & ~((counts > 0) & (label != anchors))
            )  # a label is given up where the teacher is sure
        counting.zero_()
        every.shuffle()
        with_label.shuffle()
        for batch in range(steps):
            if batch and batch % len(with_label) == 0:
                with_label.shuffle()
            descent.rate.fill_(
                settings.rate * warmed_up((epoch + (batch + 1) / steps) / settings.epochs, settings.warm_up)
            )
            recorded()
        return float(counting) / steps

    training = Training(
        one_epoch,
        {"learner": learner, "teacher": average, "descent": descent, "generator": generator,
         "labels": labels, "weights": weights, "anchored": anchored},
        settings=settings,
        seed=seed,
        compute=compute,
        inputs={"network": network, "images": images, "first": begun,
                **{f"owner {i}": table.owner for i, table in enumerate(tables)},
                **{f"tally {i}": torch.as_tensor(one.tally.estimate) for i, one in enumerate(counted)}},
    )  # fmt: skip
    training.run(settings.epochs, checkpoint=checkpoint, every=checkpoint_every, progress=progress)
    return teacher


def pseudo_labels(answers: Tensor, settings: HeldToCounts) -> tuple[Tensor, Tensor]:
    """(n,) the likeliest class of each image, and one or zero: whether that is sure enough to be taught.

    A class needs `sure` if no other has reached that for a larger part of its images; the smaller its part is beside
    the largest, the less it needs, down to `sure` less its share `leniency`.
    """
    confidence, label = answers.max(1)
    reached = torch.bincount(label[confidence >= settings.sure], minlength=answers.shape[1]) / answers.sum(0)
    behind = 1 - reached / reached.max().clamp(min=1e-9)
    needed = settings.sure * (1 - settings.leniency * behind)
    return label, (confidence >= needed[label]).float()


def choose_labelled(answers: Tensor, owner: Tensor, settings: HeldToCounts, *, seed: int) -> Tensor:
    """(n,) whether an image's first label is taught: of each class the surest, but at most half of those in one query.

    So every class is there, however unsure, and its borders as well as the middle of its purest queries.
    """
    rng = seeded(seed, "labelled")
    confidence, label = (part.cpu().numpy() for part in answers.max(1))
    belongs = owner.cpu().numpy() * answers.shape[1] + label
    tie = rng.random(len(label))
    quota = np.ceil(settings.labelled * answers.sum(0).cpu().numpy())
    cap = np.ceil(np.bincount(belongs) / 2)
    free = _rank(belongs, tie, confidence) < cap[belongs]
    chosen = free & (_rank(label, tie, np.where(free, confidence, -1.0)) < quota[label])
    for one in set(range(answers.shape[1])) - set(label[chosen].tolist()):
        chosen[int(answers[:, one].argmax())] = True
    return torch.from_numpy(chosen).to(answers.device)


def _rank(group: NDArray[np.int64], tie: NDArray[np.float64], value: NDArray[np.float64]) -> NDArray[np.int64]:
    """(n,) how many of an item's group have a larger value; ties are broken by `tie`."""
    order = np.lexsort((tie, -value, group))
    begins = np.searchsorted(group[order], group[order])
    rank = np.empty(len(group), dtype=np.int64)
    rank[order] = np.arange(len(group)) - begins
    return rank


class CountsNetwork:
    """A network held to counts, as a classifier of images in plain arrays.

    Args:
      network: Gives (n, C) logits of images (n, channels, height, width) in [0, 1]; trained on from its weights.
    """

    def __init__(
        self,
        network: nn.Module,
        settings: HeldToCounts | None = None,
        *,
        compute: Compute | None = None,
        seed: int = 0,
        checkpoint: str | Path | None = None,
        checkpoint_every: int = EVERY,
        progress: Report = silent,
    ) -> None:
        self.network, self.settings = network, settings or HeldToCounts()
        self.compute, self.seed = compute or Compute(), seed
        self.checkpoint, self.checkpoint_every, self.progress = checkpoint, checkpoint_every, progress

    def fit(
        self, images: NDArray[np.uint8], counted: Counted | Sequence[Counted], first: ArrayLike | None = None
    ) -> Self:
        """Learn the pool, bytes (n, height, width) or (n, height, width, channels), from releases about it."""
        self.network_ = hold_to_counts(
            copy.deepcopy(self.network),
            self.compute.images(images),
            [counted] if isinstance(counted, Counted) else counted,
            self.settings,
            first=None if first is None else torch.as_tensor(np.asarray(first), device=self.compute.device),
            seed=self.seed,
            compute=self.compute,
            checkpoint=self.checkpoint,
            checkpoint_every=self.checkpoint_every,
            progress=self.progress,
        )
        self.classes_ = np.arange(self.predict_proba(images[:1]).shape[1])
        return self

    def predict_proba(self, images: NDArray[np.uint8]) -> NDArray[np.float64]:
        """(n, C) probabilities."""
        return averaged([self.network_], images, compute=self.compute, mirror=self.settings.mirror)

    def predict(self, images: NDArray[np.uint8]) -> NDArray[np.int64]:
        return np.asarray(self.predict_proba(images).argmax(axis=1))


def averaged(
    networks: Sequence[nn.Module], images: NDArray[np.uint8], *, compute: Compute, mirror: bool
) -> NDArray[np.float64]:
    """(n, C) the mean probabilities of several networks: an ensemble's answer."""
    pixels = compute.images(images)
    each = [features_of(network, pixels, compute, mirror=mirror).double().softmax(1) for network in networks]
    answer: NDArray[np.float64] = torch.stack(each).mean(0).cpu().numpy()
    return answer


def _table(one: Counted, images: Tensor) -> Table:
    owner = torch.as_tensor(np.asarray(one.owner), device=images.device)
    check_numbers(images, below=len(one.tally.estimate), dims=1, owner=owner)
    return Table(owner.long(), shares_of(one.tally, one.sizes, records=one.records, device=images.device))


def _first(first: Tensor | None, tables: Sequence[Table], images: Tensor) -> Tensor:
    """The probabilities to begin with: those given, or what the tallies say together."""
    if first is None and not tables:
        raise InvalidInput("a network is taught by releases in counted or by first, got neither")
    known = {table.shares.log_noise.shape[1] for table in tables}
    if first is not None:
        check_rows(images, dims=2, first=first)
        if not bool(((first >= 0) & (first <= 1)).all()):
            raise InvalidInput(f"first must be probabilities, got {shown(first)}")
        known |= {first.shape[1]}
    if len(known) > 1:
        raise InvalidInput(f"counted and first must be about the same classes, got {sorted(known)} of them")
    if first is not None:
        return first.double()
    even = torch.full((len(images), known.pop()), 1.0, device=images.device).double().softmax(1)
    for table in tables:
        even = even * table.shares.posterior(table.means(even))[table.owner]
        even = even / even.sum(1, keepdim=True)
    return even
