"""Noisy SGD (Abadi et al. 2016): a head of dense layers on public features, from clipped and noised gradients.

Written out for dense layers: a record's gradient of a layer is the outer product of the layer's input and the error at
its output, so its length is a product of two lengths, and a batch costs a few matrix products. The gradient sums are
integers with exact discrete Gaussian noise (`gaussian_sums`), and the batches are Poisson samples drawn from the same
source as the noise: nothing in the released weights comes from floating-point noise, as it does in common libraries.
Layers are applied exactly (`recordwise.encoders.exact`): in a common product of floats, the last bits of a record's
gradient follow from how many others there are, and rounded to the grid they could move all records at once.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass, field
from fractions import Fraction
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from recordwise.arrays import softmax
from recordwise.baselines.estimator import Facts, Places, Private, Released, Rival, Vectors
from recordwise.baselines.gaussian_sums import noise_for, noised, outer_sum, shorten
from recordwise.baselines.public_scale import PublicScale
from recordwise.encoders.exact import ExactLinear
from recordwise.errors import positive, whole
from recordwise.privacy.noise import Noise, bernoulli
from recordwise.progress import counted
from recordwise.randomness import seeded

Weights = list[NDArray[np.float64]]
LIMIT = 8.0  # of a number that enters a layer, forwards or backwards: those here are at most one


@dataclass(eq=False, repr=False)
class NoisySGD1(Rival):
    """Softmax regression by noisy SGD.

    Args:
      steps: Gradient steps; "auto" takes more of them the more a step can tell, by public numbers alone.
      batch_rate: With which each record takes part in a step, each by a coin of its own.
      learning_rate: Of steps on the mean clipped gradient.
      momentum: Of those steps.
      clip: The length to which each record's gradient is shortened.
      whiten: How far the pool's spectrum is flattened before training, in [0, 1].

    Attributes:
      noise_multiplier_: The noise of a step, in units of `clip`.
      weights_: Of each layer, with the intercepts as last row; the mean over the last half of the steps.
    """

    name: ClassVar[str] = "noisy-sgd-1"
    facts: ClassVar[Facts] = Facts(
        protects="one record",
        public="features; no pool needed",
        rounds="one per step",
        data_dependent="no",
        elsewhere=(
            "distributed: yes, by secure sums of integer gradients, one per step, every party online for all of them; "
            "shuffle and local: a noisy gradient per record and step, useful from millions of records on"
        ),
    )

    steps: int | str = field(default="auto", kw_only=True)
    batch_rate: float = field(default=0.25, kw_only=True)
    learning_rate: float = field(default=20.0, kw_only=True)
    momentum: float = field(default=0.9, kw_only=True)
    clip: float = field(default=1.0, kw_only=True)
    whiten: float = field(default=0.0, kw_only=True)

    @property
    def hidden_units(self) -> tuple[int, ...]:
        return ()

    def check(self, num_records: int, dim: int, num_classes: int) -> None:
        positive(learning_rate=self.learning_rate, clip=self.clip, batch_rate=self.batch_rate)
        self.steps_ = self._steps(num_records)
        cells = sum(w.size for w in first_weights(dim, self.hidden_units, num_classes, self.random_state))
        self.noise_multiplier_ = noise_for(
            float(self.epsilon),
            float(self.delta),
            neighbours=self._relation,
            cells=cells,
            rate=float(self.batch_rate),
            steps=self.steps_,
        )

    def _steps(self, num_records: int) -> int:
        if self.steps != "auto":
            whole(steps=self.steps)
            return int(self.steps)
        # Signal grows with the number of records, noise with 1/epsilon: 10 steps where they meet, 100 where it is easy.
        return int(np.clip(round(num_records * float(self.epsilon) / 200), 10, 100))

    def prepare(self, pool: Vectors | None, dim: int) -> None:
        self.scale_ = PublicScale.of(pool, dim, whiten=self.whiten)

    def release(self, private: Private, noise: Noise) -> Released:
        inputs = self.scale_(private.vectors)
        weights = first_weights(inputs.shape[1] - 1, self.hidden_units, len(self.classes_), self.random_state)
        speed = [np.zeros_like(layer) for layer in weights]
        mean = [np.zeros_like(layer) for layer in weights]
        averaged = 0
        rate = Fraction(str(float(self.batch_rate)))
        for step in counted(range(self.steps_), self.steps_):
            chosen = np.flatnonzero(bernoulli(rate, len(inputs), noise))
            sums = gradient_sums(weights, inputs[chosen], private.labels[chosen], clip=self.clip)
            for layer, (weight, total) in enumerate(zip(weights, sums, strict=True)):
                noisy = noised(total, noise_multiplier=self.noise_multiplier_, clip=self.clip, noise=noise)
                speed[layer] = self.momentum * speed[layer] + noisy / (float(rate) * private.count)
                weight -= self.learning_rate * (1 - self.momentum) * speed[layer]
            if 2 * (step + 1) > self.steps_:
                averaged += 1
                for held, weight in zip(mean, weights, strict=True):
                    held += (weight - held) / averaged
        return {f"layer_{number}": layer for number, layer in enumerate(mean)}

    def learn(self, released: Released, pool: Vectors | None) -> None:
        self.weights_ = [released[f"layer_{number}"] for number in range(len(released))]

    def probabilities(self, vectors: Vectors) -> NDArray[np.float64]:
        return softmax(forward(self.weights_, self.scale_(vectors))[-1])


@dataclass(eq=False, repr=False)
class NoisySGD2(NoisySGD1):
    """Noisy SGD on two layers, with bounded units between (Papernot et al. 2021 find these the better ones).

    Args:
      hidden: Units of the layer between.
    """

    name: ClassVar[str] = "noisy-sgd-2"

    hidden: int = field(default=64, kw_only=True)

    @property
    def hidden_units(self) -> tuple[int, ...]:
        whole(hidden=self.hidden)
        return (self.hidden,)


def first_weights(dim: int, hidden: tuple[int, ...], num_classes: int, seed: int) -> Weights:
    """Where training starts, without looking at anything: zero at the last layer, random before it."""
    rng = seeded(seed, "noisy-sgd")
    widths = [dim, *hidden]
    layers = [
        np.vstack([rng.normal(scale=ins**-0.5, size=(ins, outs)), np.zeros((1, outs))])
        for ins, outs in itertools.pairwise(widths)
    ]
    return [*layers, np.zeros((widths[-1] + 1, num_classes))]


def forward(weights: Weights, inputs: NDArray[np.float64]) -> list[NDArray[np.float64]]:
    """What enters each layer (with a last column of ones), and the scores."""
    seen = [inputs]
    for layer in weights[:-1]:
        units = np.tanh(_times(seen[-1], layer))
        seen.append(np.hstack([units, np.ones((len(units), 1))]))
    return [*seen, _times(seen[-1], weights[-1])]


def _times(rows: NDArray[np.float64], layer: NDArray[np.float64]) -> NDArray[np.float64]:
    """The product, each of its rows a function of that row alone, to the last bit."""
    return ExactLinear.of(layer, limit=LIMIT)(rows.copy())


def gradient_sums(
    weights: Weights, inputs: NDArray[np.float64], labels: Places, *, clip: float
) -> list[NDArray[np.float64]]:
    """Per layer the sum of the records' gradients, each shortened to `clip` over all layers together; in grid steps.

    Guarantees:
      - one record more or less changes all the sums together by at most `clip` in length, as integers.
    """
    *seen, scores = forward(weights, inputs)
    error = softmax(scores)
    error[np.arange(len(labels)), labels] -= 1
    errors = [error]
    for layer, entered in zip(weights[:0:-1], seen[:0:-1], strict=True):
        units = entered[:, :-1]
        errors.insert(0, _times(errors[0], layer[:-1].T) * (1 - units * units))
    squares = [(x * x).sum(axis=1) * (e * e).sum(axis=1) for x, e in zip(seen, errors, strict=True)]
    factor = shorten(np.sqrt(np.sum(squares, axis=0)), clip)[:, None]
    return [outer_sum(x, e * factor) for x, e in zip(seen, errors, strict=True)]
