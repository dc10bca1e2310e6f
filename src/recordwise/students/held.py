"""A network on images that is held to the counts, as settings: `recordwise.vision` does the work, and needs PyTorch."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from recordwise.data.samples import Kind, Samples, kind_of
from recordwise.encoders.vectors import flat
from recordwise.errors import InvalidInput, whole
from recordwise.progress import part
from recordwise.students.answers import class_probabilities
from recordwise.students.counts import Asked, Learnt, learn_from_counts
from recordwise.students.from_counts import WITHOUT_COUNTS, FromCounts

if TYPE_CHECKING:
    from recordwise.students.held_network import CountsNetwork


class Held(FromCounts):
    """A ResNet-18 that imitates the encoder's features of the pool, then learns the pool while held to the counts.

    It sees the images themselves (its input is "samples"). Its first answers are those of the student from counts, on
    the encoder's vectors.

    Args:
      epochs: Passes over the pool.
      imitate_epochs: Passes in which it learns the encoder's features before.
      width: Channels of the first stage; 64 gives ResNet-18.
      mirror: Images may be mirrored left and right. Never for digits.
      batch: Images per step.
      device: Where it runs: "cpu", "cuda".
      compile: Fuse the network's kernels first; worth its minute on a GPU.
      checkpoint: A folder in which a killed run finds what it needs to go on; None keeps nothing.
      progress: Called with the number of each epoch of the second part and the share of images whose label counted.
      seed: Of its first weights, batches and views.
    """

    own_input: ClassVar[str] = "samples"

    def __init__(
        self,
        epochs: int = 300,
        imitate_epochs: int = 150,
        width: int = 64,
        mirror: bool = True,
        batch: int = 448,
        device: str = "cpu",
        compile: bool = False,
        checkpoint: str | Path | None = None,
        progress: Callable[[int, float], None] | None = None,
        seed: int = 0,
    ) -> None:
        super().__init__(seed=seed)
        self.epochs = epochs
        self.imitate_epochs = imitate_epochs
        self.width = width
        self.mirror = mirror
        self.batch = batch
        self.device = device
        self.compile = compile
        self.checkpoint = checkpoint
        self.progress = progress

    def refuse_mistakes(self, pool: Samples, num_classes: int) -> None:
        """Refuse samples and settings that it cannot learn from, before anything is paid."""
        whole(epochs=self.epochs, imitate_epochs=self.imitate_epochs, width=self.width, batch=self.batch)
        if kind_of(pool) is not Kind.IMAGES or np.asarray(pool[:1]).dtype != np.uint8:
            raise InvalidInput("student 'held' learns from images of bytes: student.input must be 'samples' here")
        from recordwise.vision.steps import Compute

        Compute(device=self.device)  # says which devices there are

    def learn(self, pool: Samples, material: Samples, asked: Sequence[Asked]) -> Learnt:
        learnt = learn_from_counts(pool, asked, seed=self.seed)
        return replace(learnt, student=self.network(material, learnt.probabilities, asked, pool))

    def without_counts(self, teach: Callable[[Any, Samples], Any], pool: Samples, material: Samples) -> Any:
        """Its first answers are then those of a student of the labels."""
        taught = teach(WITHOUT_COUNTS, pool)
        first = class_probabilities(taught.student, pool, taught.probabilities.shape[1])
        return replace(taught, student=self.network(material, first, [], pool))

    def network(self, pool: Samples, first: Any, asked: Sequence[Asked], vectors: Samples) -> CountsNetwork:
        """The network, taught; without any release where only first answers are known.

        Args:
          first: (n, C) probabilities to begin with.
          vectors: What the encoder makes of the pool.
        """
        from recordwise.extras.torch import torch

        from recordwise.students.held_network import HARD_VIEW, CountsNetwork, HeldToCounts
        from recordwise.vision.imitate import CLOSE_VIEW, Imitate, imitate
        from recordwise.vision.resnet import Classifier, ResNet
        from recordwise.vision.self_label import WEAK_VIEW
        from recordwise.vision.self_supervised import channel_statistics
        from recordwise.vision.steps import Compute, fresh_weights
        from recordwise.vision.training import TrainingRun, silent

        compute = Compute(device=self.device, compile=self.compile)
        images = compute.images(np.asarray(pool))
        mean, deviation = channel_statistics(images)
        flip = 0.5 if self.mirror else 0.0
        kept = None if self.checkpoint is None else Path(self.checkpoint)
        run = TrainingRun(seed=self.seed, compute=compute)
        seen = torch.from_numpy(flat("vectors", vectors)).to(compute.device)
        view = replace(CLOSE_VIEW, flip=flip)
        with fresh_weights(self.seed):
            body = ResNet(mean=mean, deviation=deviation, width=self.width)
            head = Classifier(body, body.dim, first.shape[1]).head
        both = self.imitate_epochs + self.epochs
        with part(0, self.imitate_epochs, both):
            imitated = imitate(
                body, body.dim, images, seen, Imitate(epochs=self.imitate_epochs, batch=self.batch, view=view),
                run=replace(run, checkpoint=kept and kept / "imitate.pt"),
            )  # fmt: skip
        network = Classifier(imitated, body.dim, first.shape[1])
        network.head.load_state_dict(head.state_dict())
        settings = HeldToCounts(
            epochs=self.epochs, batch=self.batch, labelled_batch=max(1, self.batch // 7), mirror=self.mirror,
            strong=replace(HARD_VIEW, flip=flip), weak=replace(WEAK_VIEW, flip=flip),
        )  # fmt: skip
        student = CountsNetwork(
            network, settings,
            run=replace(run, checkpoint=kept and kept / "held.pt", progress=self.progress or silent),
        )  # fmt: skip
        with part(self.imitate_epochs, both, both):
            return student.fit(np.asarray(pool), asked, first=first)
