"""Noisy SGD on the last block of a network (fine-tuning): per-record gradients of any PyTorch module.

Slower than a head by far: a record's gradient is a vector of all trained weights, and one is made for each record of a
batch. Each gradient is shortened and rounded to whole grid steps, they are added as integers, and the noise is discrete
Gaussian (`gaussian_sums`). A head's gradients are a record's own to the last bit; these are as far as PyTorch gives a
sample the same bits at every place of a batch: batches have one size, so that no bit follows from how many there are.
"""

from __future__ import annotations

import copy
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from recordwise.arrays import softmax
from recordwise.baselines.estimator import Facts, Private, Released, Rival, Vectors
from recordwise.baselines.gaussian_sums import UNIT, noise_for, noised, shorten
from recordwise.baselines.noisy_sgd import NoisySGD1
from recordwise.errors import InvalidInput, positive, whole
from recordwise.privacy.noise import Noise, bernoulli
from recordwise.progress import counted

CHUNK = 64  # gradients made at a time, always as many


@dataclass(eq=False, repr=False)
class NoisySGDFineTune(Rival):
    """Fine-tuning by noisy SGD: the named parameters of a module that gives one score per class.

    The module runs in evaluation mode throughout: batch normalisation keeps its public means, for means over a batch
    would mix records. It sees vectors as the encoder makes them; `shape` turns them into what it expects, such as
    (3, 32, 32).

    Args:
      module: A PyTorch module; it is copied. Its weights are public.
      trained: Beginnings of the names of the parameters to train: the last block and the head.
      shape: Of one sample as the module takes it; None leaves it a vector.
      steps: Gradient steps.
      batch_rate: With which each record takes part in a step, each by a coin of its own.
      learning_rate: Of steps on the mean clipped gradient.
      clip: The length to which each record's gradient is shortened.

    Attributes:
      module_: The trained copy.
    """

    name: ClassVar[str] = "noisy-sgd-finetune"
    facts: ClassVar[Facts] = NoisySGD1.facts

    module: Any = field(default=None, kw_only=True)
    trained: tuple[str, ...] = field(default=(), kw_only=True)
    shape: tuple[int, ...] | None = field(default=None, kw_only=True)
    steps: int = field(default=50, kw_only=True)
    batch_rate: float = field(default=0.1, kw_only=True)
    learning_rate: float = field(default=1.0, kw_only=True)
    clip: float = field(default=1.0, kw_only=True)

    def check(self, num_records: int, dim: int, num_classes: int) -> None:
        whole(steps=self.steps)
        positive(learning_rate=self.learning_rate, clip=self.clip, batch_rate=self.batch_rate)
        self.module_ = self._copy()
        cells = sum(self._weights()[name].numel() for name in self.names_)
        self.noise_multiplier_ = noise_for(
            float(self.epsilon),
            float(self.delta),
            neighbours=self._relation,
            cells=cells,
            rate=float(self.batch_rate),
            steps=self.steps,
        )

    def _copy(self) -> Any:
        from recordwise.extras.torch import torch

        if not isinstance(self.module, torch.nn.Module):
            raise InvalidInput(f"module must be a PyTorch module, got {type(self.module).__name__}")
        module = copy.deepcopy(self.module).eval()
        names = [name for name, _ in module.named_parameters()]
        self.names_ = [name for name in names if name.startswith(tuple(self.trained) or ("",))]
        if not self.names_:
            raise InvalidInput(f"trained must begin names of parameters such as {names[-1]!r}, got {self.trained!r}")
        return module

    def _weights(self) -> dict[str, Any]:
        return dict(self.module_.named_parameters())

    def prepare(self, pool: Vectors | None, dim: int) -> None:
        pass

    def release(self, private: Private, noise: Noise) -> Released:
        from recordwise.extras.torch import torch

        weights = self._weights()
        inputs, labels = torch.as_tensor(self._shaped(private.vectors)), torch.as_tensor(private.labels)
        rate = Fraction(str(float(self.batch_rate)))
        for _ in counted(range(self.steps), self.steps):
            chosen = np.flatnonzero(bernoulli(rate, len(labels), noise))
            total = np.zeros(sum(weights[name].numel() for name in self.names_))
            for start in range(0, len(chosen), CHUNK):
                # The last one fills its batch up.
                some = torch.as_tensor(chosen[np.minimum(np.arange(start, start + CHUNK), len(chosen) - 1)])
                found = self._gradients(inputs[some], labels[some])[: len(chosen) - start]
                total += whole_gradients(found, self.clip).sum(axis=0)
            noisy = noised(total, noise_multiplier=self.noise_multiplier_, clip=self.clip, noise=noise)
            self._step(noisy / (float(rate) * private.count))
        return {f"weight_{number}": weights[name].detach().numpy() for number, name in enumerate(self.names_)}

    def _gradients(self, inputs: Any, labels: Any) -> NDArray[np.float64]:
        """(n, weights) of the loss of each record by itself."""
        from recordwise.extras.torch import torch

        from torch.func import functional_call, grad, vmap

        held = {name: weight.detach() for name, weight in self.module_.named_parameters()}
        fixed = {name: weight for name, weight in held.items() if name not in self.names_}
        fixed |= dict(self.module_.named_buffers())

        def loss(weights: dict[str, Any], sample: Any, label: Any) -> Any:
            scores = functional_call(self.module_, weights | fixed, (sample[None],))
            return torch.nn.functional.cross_entropy(scores, label[None])

        chosen = {name: held[name] for name in self.names_}
        found = vmap(grad(loss), in_dims=(None, 0, 0))(chosen, inputs, labels)
        flat = [found[name].reshape(len(labels), -1) for name in self.names_]
        return np.asarray(torch.cat(flat, dim=1).numpy(), dtype=np.float64)

    def _step(self, gradient: NDArray[np.float64]) -> None:
        from recordwise.extras.torch import torch

        start = 0
        with torch.no_grad():
            for name in self.names_:
                weight = self._weights()[name]
                part = gradient[start : start + weight.numel()].reshape(weight.shape)
                weight -= self.learning_rate * torch.as_tensor(part, dtype=weight.dtype)
                start += weight.numel()

    def learn(self, released: Released, pool: Vectors | None) -> None:
        from recordwise.extras.torch import torch

        self.module_ = self._copy()
        with torch.no_grad():
            for number, name in enumerate(self.names_):
                self._weights()[name].copy_(torch.as_tensor(released[f"weight_{number}"]))

    def probabilities(self, vectors: Vectors) -> NDArray[np.float64]:
        from recordwise.extras.torch import torch

        with torch.no_grad():
            scores = self.module_(torch.as_tensor(self._shaped(vectors)))
        return softmax(scores.numpy().astype(np.float64))

    def _shaped(self, vectors: Vectors) -> NDArray[np.float32]:
        return vectors if self.shape is None else vectors.reshape(len(vectors), *self.shape)


def whole_gradients(gradients: NDArray[np.float64], clip: float) -> NDArray[np.float64]:
    """Each row shortened to `clip` and rounded towards zero to whole grid steps."""
    factor = shorten(np.linalg.norm(gradients, axis=1), clip)
    return np.trunc(gradients * factor[:, None] * UNIT**2)
