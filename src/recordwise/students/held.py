"""A network on images that is held to the counts, as settings: `recordwise.vision` does the work, and needs PyTorch."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from recordwise.data.samples import Kind, Samples, kind_of
from recordwise.errors import InvalidInput, whole
from recordwise.students.counts import Asked, Learnt, learn_from_counts
from recordwise.students.from_counts import FromCounts


class Held(FromCounts):
    """A ResNet-18 that imitates the encoder's features of the pool, then learns the pool while held to the counts.

    It sees the images themselves (`student_input="samples"`); the encoder's vectors are where its first answers come
    from, by `learn_from_counts`.

    Args:
      epochs: Passes over the pool.
      imitate_epochs: Passes in which it learns the encoder's features before.
      width: Channels of the first stage; 64 gives ResNet-18.
      mirror: Images may be mirrored left and right. Never for digits.
      batch: Images per step.
      device: Where it runs: "cpu", "cuda".
      checkpoint: A folder in which a killed run finds what it needs to go on; None keeps nothing.
      progress: Called with each epoch's number and the share of images whose label counted.
      class_weight, seed: As of the student from counts.
    """

    def __init__(
        self,
        epochs: int = 300,
        imitate_epochs: int = 150,
        width: int = 64,
        mirror: bool = True,
        batch: int = 448,
        device: str = "cpu",
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
        self.checkpoint = checkpoint
        self.progress = progress

    def refuse_mistakes(self, pool: Samples) -> None:
        """Refuse samples and settings that it cannot learn from, before anything is paid."""
        whole(epochs=self.epochs, imitate_epochs=self.imitate_epochs, width=self.width, batch=self.batch)
        if kind_of(pool) is not Kind.IMAGES or np.asarray(pool[:1]).dtype != np.uint8:
            raise InvalidInput("student 'held' learns from images of bytes: student_input must be 'samples' here")
        from recordwise.vision.steps import Compute  # says which extra is needed, and which devices there are

        Compute(device=self.device)

    def learn(self, pool: Samples, asked: Sequence[Asked], vectors: Samples | None = None) -> Learnt:
        from recordwise.vision.student import held_network  # it needs PyTorch

        images = np.asarray(pool)
        learnt = learn_from_counts(images if vectors is None else vectors, asked, seed=self.seed)
        student = held_network(images, images if vectors is None else vectors, asked, learnt.probabilities, self)
        return replace(learnt, student=student)
