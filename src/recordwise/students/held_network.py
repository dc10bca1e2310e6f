"""A network that answers to the released counts.

Labels tell a network one class per query. The tally tells it how many of a query's images are something else, though
not which. `learn_from_counts` reads the tally under the known law of its noise; its probabilities of the pool's images
are where this network begins. A slowly following teacher then answers for the whole pool; its answers are held to the
class shares that the release was found to show (over the pool, and within each query as far as the noise lets them be
known), and the network learns, on strongly changed images, those that are sure enough (FixMatch, Sohn et al. 2020; a
threshold for each class as in FlexMatch, Zhang et al. 2021).

It begins with the labels that are surest from the start, of every class and at most half of a class in any query, so
that borders are taught as well as centres; each of them stays until the teacher is sure of another.

Training on a release is post-processing: it costs no privacy.
"""

from __future__ import annotations

import copy
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Self

from recordwise.extras.torch import torch

import numpy as np
from numpy.typing import ArrayLike, NDArray
from torch import Tensor, nn
from torch.nn import functional

from recordwise.data.samples import Samples
from recordwise.errors import InvalidInput, probability, real, whole
from recordwise.randomness import seeded
from recordwise.stored import NotPlain
from recordwise.students.counts import Asked, learn_from_counts, tables_of
from recordwise.students.table import CountTable, mean_over, moved_to
from recordwise.vision.augment import Augment
from recordwise.vision.resnet import Classifier, ResNet
from recordwise.vision.saved import network_of
from recordwise.vision.schedules import warmed_up
from recordwise.vision.self_label import WEAK_VIEW
from recordwise.vision.self_supervised import features_of
from recordwise.vision.steps import Average, Batches, Compute, Recorded
from recordwise.vision.training import Training, TrainingRun, WarmedSettings, check_images, check_rows

HARD_VIEW = Augment(
    flip=0.5, rotate=30, shear=0.3, zoom=0.2, shift=0.2, geometry=0.5,
    brightness=0.6, contrast=0.6, saturation=0.6, hue=0.1, jitter=0.8,
    gray=0.1, invert=0.05, solarize=0.15, posterize=0.15, cutout=16,
)  # fmt: skip
SUREST = 0.9  # the first answers' mean confidence at most: beyond it they would be no opinion but an order

Answers = NDArray[np.float64]


@dataclass(frozen=True, kw_only=True)
class HeldToCounts(WarmedSettings):
    """Settings of a network that is held to counts.

    Attributes:
      epochs: Passes over the pool.
      batch: Images per step whose labels are the teacher's.
      labelled_batch: Images per step of those that were sure from the start, weakly changed.
      labelled: The share of each class's images that are among them.
      opinion: How much of the first answers stays in the teacher's, as a power from 0 (they are let go of) to 1.
      sure: An aligned answer counts from this probability on; for a class that fewer images are sure of, from less.
      leniency: How much less at most, as a share of `sure`.
      begin: The share of each class's images that is taught in the first epochs, by the first answers: the surest.
      first_epochs: Until then the first answers are taught, before the teacher's.
      ask_every: Epochs from one time that the teacher is asked to the next.
      keep: The share of itself that the teacher keeps at every step.
      mirror: The teacher's answer is the mean of those to an image and to its mirror image. Never for digits.
    """

    epochs: int = 300
    batch: int = 448
    labelled_batch: int = 64
    labelled: float = 0.2
    opinion: float = 0.5
    rate: float = 0.03
    sure: float = 0.95
    leniency: float = 0.25
    begin: float = 0.5
    first_epochs: int = 10
    ask_every: int = 4
    warm_up: float = 0.01
    keep: float = 0.999
    mirror: bool = True
    strong: Augment = field(default=HARD_VIEW)
    weak: Augment = field(default=WEAK_VIEW)

    def __post_init__(self) -> None:
        super().__post_init__()
        whole(labelled_batch=self.labelled_batch, first_epochs=self.first_epochs, ask_every=self.ask_every)
        probability(
            begin=self.begin,
            labelled=self.labelled,
            sure=self.sure,
            leniency=self.leniency,
            keep=self.keep,
        )
        real(opinion=self.opinion)
        if not 0 <= self.opinion <= 1:
            raise InvalidInput(f"opinion must lie between 0 and 1, got {self.opinion!r}")


def hold_to_counts(
    network: nn.Module,
    images: Tensor,
    first: Tensor,
    tables: Sequence[CountTable],
    settings: HeldToCounts,
    *,
    run: TrainingRun,
) -> nn.Module:
    """The teacher after the last epoch, in evaluation mode. `network` should start from weights that know the pool.

    Args:
      images: (n, channels, height, width) uint8 on `run.compute.device`.
      first: (n, C) probabilities to begin with: `Learnt.probabilities`, on features of as many encoders as there are.
      tables: `tables_of` the releases, one or several, each with its own queries; none where a release has no counts.
      run: Its progress is told each epoch's number and the share of images whose label counted.
    """
    compute = run.compute
    check_images(images)
    check_rows(images, dims=2, first=first)
    if not bool(((first >= 0) & (first <= 1)).all()):
        raise InvalidInput(
            f"first must be probabilities, got numbers from {float(first.min())} to {float(first.max())}"
        )
    for table in tables:
        if table.mean.shape[1] != len(images) or table.cells.shape[1] != first.shape[1]:
            raise InvalidInput(
                f"tables must be about the {len(images)} images and {first.shape[1]} classes of first, got one about "
                f"{table.mean.shape[1]} and {table.cells.shape[1]}"
            )
    alignment = Alignment(first.double().cpu().numpy(), tables)
    begun = alignment.opinion
    learner = compute.ready(network).train()
    average = Average(learner, settings.keep)
    teacher = average.network.eval()
    forward = compute.fused(learner)
    generator = compute.generator(run.seed)
    parameters = list(learner.parameters())
    descent = settings.descent(parameters, nesterov=True)

    def there(values: NDArray[np.generic]) -> Tensor:
        return torch.from_numpy(values).to(images.device)

    anchors = there(begun.argmax(1))
    known = there(choose_labelled(begun, alignment.cells, settings, seed=run.seed))
    sure = there(surest(begun, settings.begin)).float()
    labels, weights, anchored = anchors.clone(), torch.maximum(known.float(), sure), known.float()
    with_label = Batches(known.nonzero().flatten(), settings.labelled_batch, generator)
    all_batches = Batches(torch.arange(len(images), device=images.device), settings.batch, generator)
    counting = torch.zeros((), device=images.device)

    def step() -> None:
        taught, untaught = with_label.next(), all_batches.next()
        views = (settings.weak(images[taught], generator), settings.strong(images[untaught], generator))
        wanted = torch.cat([anchors[taught], labels[untaught]])
        counts = torch.cat([anchored[taught] / len(taught), weights[untaught] / len(untaught)])
        with compute.mixed():
            logits = forward(torch.cat(views))
        loss = (functional.cross_entropy(logits.float(), wanted, reduction="none") * counts).sum()
        descent.update(torch.autograd.grad(loss, parameters))
        average.follow()
        counting.add_(weights[untaught].mean())

    recorded, steps = Recorded(step, compute, generator), len(all_batches)

    def ask() -> None:
        logits = features_of(teacher, images, compute, mirror=settings.mirror, chunk=5000)
        answers = alignment(logits.double().softmax(1).cpu().numpy(), settings.opinion)
        label, counts = (there(part) for part in pseudo_labels(answers, settings))
        labels.copy_(label)  # in place: a recorded step knows tensors by their addresses
        weights.copy_(counts)
        anchored.copy_(known & ~((counts > 0) & (label != anchors)))  # given up where the teacher is sure of another

    def one_epoch(epoch: int) -> float:
        if epoch >= settings.first_epochs and (epoch - settings.first_epochs) % settings.ask_every == 0:
            ask()
        counting.zero_()
        all_batches.shuffle()
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
        run=run,
        inputs={"network": network, "images": images, "first": first,
                **{f"tally {i}": torch.as_tensor(table.cells) for i, table in enumerate(tables)}},
    )  # fmt: skip
    training.finish(settings.epochs)
    return teacher


class Alignment:
    """Answers are moved to the class shares that first answers and releases agree on.

    Over the whole pool classes are equally common, unless a table shows otherwise beyond its noise; then they are as
    common as the first answers say. Within a query the shares lie between the answers' own and the first answers',
    nearer to these the better the release tells them (`CountTable.trust`): where the noise is loud the network is left
    alone.

    Args:
      first: (n, C) probabilities that have the releases in them, such as `Learnt.probabilities`.
    """

    def __init__(self, first: Answers, tables: Sequence[CountTable]) -> None:
        self._tables = tables
        self._pool = mean_over(np.zeros(len(first), dtype=np.int64), 1)
        self._means = [self._pool, *(table.mean for table in tables)]
        even = not any(classes_differ(table) for table in tables)
        over = np.full((1, first.shape[1]), 1 / first.shape[1]) if even else self._pool @ first
        self._goals = [over, *(table.mean @ first for table in tables)]
        self.opinion = np.asarray(moved_to(tempered(first), [self._pool], [over]), dtype=np.float64)

    @property
    def cells(self) -> NDArray[np.int64]:
        """(n,) the query of each image in the first table, one after the last for images of none."""
        if not self._tables:
            return np.zeros(len(self.opinion), dtype=np.int64)
        mean = self._tables[0].mean.tocoo()
        found = np.full(len(self.opinion), mean.shape[0], dtype=np.int64)
        found[mean.col] = mean.row
        return found

    def __call__(self, answers: Answers, power: float) -> Answers:
        """(n, C) the answers, multiplied by that power of the first ones, then moved."""
        mixed = np.maximum(answers, 1e-12) * self.opinion**power
        mixed /= mixed.sum(axis=1, keepdims=True)
        wanted = [self._goals[0]]
        for table, goal in zip(self._tables, self._goals[1:], strict=True):
            shares = table.mean @ mixed
            wanted.append(shares + table.trust(shares) * (goal - shares))
        return np.asarray(moved_to(mixed, self._means, wanted), dtype=np.float64)


def classes_differ(table: CountTable) -> bool:
    """Whether the columns' sums vary more than their noise does, by two deviations of a noise's variance."""
    queries, classes = table.cells.shape
    if classes == 1:
        return False
    chance = 1 + 2 * np.sqrt(2 / (classes - 1))
    noise = queries * table.law.variance + table.rates.sum() / classes
    return bool(table.cells.sum(axis=0).var(ddof=1) > chance * noise)


def tempered(first: Answers, most: float = SUREST) -> Answers:
    """The answers, flattened until their mean confidence is `most`; as they are where it is less."""
    logs = np.log(np.maximum(first, 1e-30))  # the confidence of two images may differ though both round to one

    def flat(temperature: float) -> Answers:
        powers = np.exp((logs - logs.max(axis=1, keepdims=True)) / temperature)
        return np.asarray(powers / powers.sum(axis=1, keepdims=True))

    low, high = 1.0, 64.0
    if flat(low).max(axis=1).mean() <= most:
        return flat(low)
    for _ in range(20):
        middle = (low * high) ** 0.5
        low, high = (middle, high) if flat(middle).max(axis=1).mean() > most else (low, middle)
    return flat(high)


def pseudo_labels(answers: Answers, settings: HeldToCounts) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
    """(n,) the likeliest class of each image, and one or zero: whether that is sure enough to be taught.

    A class needs `sure` if no other has reached that for a larger part of its images; the smaller its part is beside
    the largest, the less it needs, down to `sure` less its share `leniency`.
    """
    confidence, label = answers.max(axis=1), answers.argmax(axis=1)
    counts = np.bincount(label[confidence >= settings.sure], minlength=answers.shape[1])
    reached = counts / np.maximum(answers.sum(axis=0), 1e-9)
    behind = 1 - reached / max(reached.max(), 1e-9)
    needed = settings.sure * (1 - settings.leniency * behind)
    return label, (confidence >= needed[label]).astype(np.float32)


def surest(answers: Answers, share: float) -> NDArray[np.bool_]:
    """(n,) whether an image is among that share of its class's images that are surest."""
    confidence, label = answers.max(axis=1), answers.argmax(axis=1)
    quota = np.ceil(share * np.bincount(label, minlength=answers.shape[1]))
    return np.asarray(_rank(label, np.arange(len(label), dtype=np.float64), confidence) < quota[label])


def choose_labelled(
    answers: Answers, owner: NDArray[np.int64], settings: HeldToCounts, *, seed: int
) -> NDArray[np.bool_]:
    """(n,) whether an image's first label is taught: of each class the surest, but at most half of those in one query.

    So every class is there, however unsure, and its borders as well as the middle of its purest queries.
    """
    rng = seeded(seed, "labelled")
    confidence, label = answers.max(axis=1), answers.argmax(axis=1)
    belongs = owner * answers.shape[1] + label
    tie = rng.random(len(label))
    quota = np.ceil(settings.labelled * answers.sum(axis=0))
    cap = np.ceil(np.bincount(belongs) / 2)
    free = _rank(belongs, tie, confidence) < cap[belongs]
    chosen = free & (_rank(label, tie, np.where(free, confidence, -1.0)) < quota[label])
    for one in set(range(answers.shape[1])) - set(label[chosen].tolist()):
        chosen[int(answers[:, one].argmax())] = True
    return np.asarray(chosen)


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
        run: TrainingRun | None = None,
    ) -> None:
        self.network, self.settings, self.run = network, settings or HeldToCounts(), run or TrainingRun()

    def fit(
        self,
        images: NDArray[np.uint8],
        asked: Asked | Sequence[Asked],
        *,
        vectors: Samples | None = None,
        first: ArrayLike | None = None,
    ) -> Self:
        """Learn the pool, bytes (n, height, width) or (n, height, width, channels), from releases about it.

        Args:
          vectors: Encoders' features of the images, for the student from counts whose answers are the first; the
            images themselves if None.
          first: (n, C) those answers, where they are known already.
        """
        releases = [asked] if isinstance(asked, Asked) else list(asked)
        if first is None:
            if not releases:
                raise InvalidInput("a network is taught by releases in asked or by first, got neither")
            first = learn_from_counts(
                images if vectors is None else vectors, releases, seed=self.run.seed
            ).probabilities
        self.network_ = hold_to_counts(
            copy.deepcopy(self.network),
            self.run.compute.images(images),
            torch.as_tensor(np.asarray(first), device=self.run.compute.device),
            tables_of(releases) if releases else [],
            self.settings,
            run=self.run,
        )
        self.classes_ = np.arange(self.predict_proba(images[:1]).shape[1])
        return self

    def predict_proba(self, images: NDArray[np.uint8]) -> NDArray[np.float64]:
        """(n, C) probabilities."""
        return averaged([self.network_], images, compute=self.run.compute, mirror=self.settings.mirror)

    def predict(self, images: NDArray[np.uint8]) -> NDArray[np.int64]:
        return np.asarray(self.predict_proba(images).argmax(axis=1))

    def state(self) -> dict[str, Any]:
        """All that it needs to be stored (`recordwise.stored`): the weights of a network whose code is ours."""
        if type(self.network_) is not Classifier or type(self.network_.backbone) is not ResNet:
            raise NotPlain(f"must be a ResNet with a head, got {type(self.network_).__name__}")
        weights = {name: tensor.cpu().numpy() for name, tensor in self.network_.state_dict().items()}
        return {"weights": weights, "mirror": self.settings.mirror}

    @classmethod
    def from_state(cls, state: dict[str, Any]) -> Self:
        """The classifier whose `state` this is, on the CPU."""
        network = network_of({name: torch.from_numpy(array) for name, array in state["weights"].items()}, "a student")
        made = cls(network, HeldToCounts(mirror=bool(state["mirror"])))
        made.network_, made.classes_ = network, np.arange(len(state["weights"]["head.bias"]))
        return made


def averaged(
    networks: Sequence[nn.Module], images: NDArray[np.uint8], *, compute: Compute, mirror: bool
) -> NDArray[np.float64]:
    """(n, C) the mean probabilities of several networks: an ensemble's answer."""
    pixels = compute.images(images)
    each = [features_of(network, pixels, compute, mirror=mirror).double().softmax(1) for network in networks]
    answer: NDArray[np.float64] = torch.stack(each).mean(0).cpu().numpy()
    return answer
