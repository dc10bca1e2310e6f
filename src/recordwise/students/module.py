"""Any PyTorch module as a student: a scikit-learn classifier around it."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, ClassifierMixin, clone

from recordwise.data.samples import Samples, rows
from recordwise.encoders.module import as_tensor, load_torch
from recordwise.errors import InvalidInput, positive, whole
from recordwise.progress import done
from recordwise.randomness import seeded

if TYPE_CHECKING:
    import torch

    from recordwise.vision.layout import Foreign


class TorchStudent(ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """A network that learns hard or soft labels by weighted cross-entropy.

    The weights after the last epoch count, unless `patience` stops earlier on a part of the pool kept aside: the pool
    and its labels are public by then, so looking at them is free. Test data is never looked at.

    Args:
      module: Gives (n, C) logits. A module is copied and trained on from its present weights; a function without
        arguments is called for a fresh one.
      epochs: Passes over the pool at most.
      batch_size: Samples per step.
      rate: Peak of the learning rate, which rises over the first tenth of the steps and falls to zero (AdamW).
      penalty: Weight decay.
      device: Where it runs: "cpu", "cuda", "mps".
      patience: Stop when so many epochs did not lower the loss on a tenth of the pool; None trains to the end.
      multi_label: Classes apply independently: a sigmoid each instead of one softmax.
      prepare: Turns a batch of samples into the module's input; `as_tensor` when None.
      progress: Called after every epoch with its number, from 1, and its mean loss.
      seed: Of fresh weights, the order of samples and dropout.
    """

    soft_targets = True

    def __init__(
        self,
        module: torch.nn.Module | Callable[[], torch.nn.Module],
        *,
        epochs: int = 20,
        batch_size: int = 128,
        rate: float = 1e-3,
        penalty: float = 1e-2,
        device: str = "cpu",
        patience: int | None = None,
        multi_label: bool = False,
        prepare: Callable[[Any], torch.Tensor] | None = None,
        progress: Callable[[int, float], None] | None = None,
        seed: int = 0,
    ) -> None:
        self.module = module
        self.epochs = epochs
        self.batch_size = batch_size
        self.rate = rate
        self.penalty = penalty
        self.device = device
        self.patience = patience
        self.multi_label = multi_label
        self.prepare = prepare
        self.progress = progress
        self.seed = seed

    def fit(self, X: Samples, y: ArrayLike, sample_weight: ArrayLike | None = None) -> Self:
        """Learn from classes (n,), or from probabilities (n, C)."""
        self._refuse_settings()
        rng = seeded(self.seed, "torch student")
        weights = np.ones(len(X)) if sample_weight is None else np.asarray(sample_weight, dtype=np.float64)
        with self._own_randomness(rng):
            self.module_ = self._placed(self._fresh())
            targets = self._targets(X, y)
            self.classes_ = np.arange(targets.shape[1])
            self._train(X, targets, weights, rng)
        return self

    def refuse_mistakes(self, X: Samples, num_classes: int) -> None:
        """Refuse wrong settings, and a module that does not give a logit per class, before it is trained."""
        self._refuse_settings()
        probe = clone(self)
        with self._own_randomness(seeded(self.seed, "torch student")):
            probe.module_ = probe._placed(probe._fresh())
            outputs = probe._logits(rows(X, slice(0, 2))).shape[1]
        if outputs != num_classes:
            raise InvalidInput(f"the student must give a logit for each of the {num_classes} classes, got {outputs}")

    def _refuse_settings(self) -> None:
        whole(epochs=self.epochs, batch_size=self.batch_size)
        positive(rate=self.rate)

    def weights(self) -> dict[str, NDArray[Any]]:
        """What it learned, by name: all that can be stored of a network whose code is the user's."""
        torch, kept = load_torch(), {name: tensor.detach().cpu() for name, tensor in self.module_.state_dict().items()}
        return {name: (one.float() if one.dtype == torch.bfloat16 else one).numpy() for name, one in kept.items()}

    def with_weights(self, weights: Mapping[str, NDArray[Any]], num_classes: int) -> Self:
        """The student as it was when these were its `weights`."""
        torch = load_torch()
        with self._own_randomness(seeded(self.seed, "torch student")):
            self.module_ = self._placed(self._fresh())
        wanted = self.module_.state_dict()
        if {name: tuple(tensor.shape) for name, tensor in wanted.items()} != {
            name: array.shape for name, array in weights.items()
        }:
            raise InvalidInput("student must be a network of the same layers as the one that was stored, it is not")
        self.module_.load_state_dict(
            {name: torch.from_numpy(array).to(wanted[name].dtype) for name, array in weights.items()}
        )
        self.classes_ = np.arange(num_classes)
        return self

    def predict_proba(self, X: Samples) -> NDArray[np.float64]:
        """(n, C) probabilities, each class on its own where `multi_label`."""
        torch = load_torch()
        logits = torch.from_numpy(self._logits(X)).double()
        probabilities: NDArray[np.float64] = (logits.sigmoid() if self.multi_label else logits.softmax(1)).numpy()
        return probabilities

    def predict(self, X: Samples) -> NDArray[np.int64]:
        probabilities = self.predict_proba(X)
        return (probabilities > 0.5).astype(np.int64) if self.multi_label else probabilities.argmax(axis=1)

    @contextmanager
    def _own_randomness(self, rng: np.random.Generator) -> Iterator[None]:
        """Fresh weights and dropout draw from PyTorch's global generator: seeded here, and given back as it was."""
        torch = load_torch()
        with torch.random.fork_rng(devices=[self.device] if self.device.startswith("cuda") else []):
            torch.manual_seed(int(rng.integers(2**63)))
            yield

    def _fresh(self) -> torch.nn.Module:
        if callable(getattr(self.module, "state_dict", None)) and not isinstance(self.module, type):
            return copy.deepcopy(self.module)  # type: ignore[return-value]
        if not callable(self.module):
            raise InvalidInput(f"module must be a PyTorch module or make one, got {type(self.module).__name__}")
        return self.module()

    def _targets(self, X: Samples, y: ArrayLike) -> NDArray[np.float32]:
        """(n, C) probabilities, with as many classes as the module has outputs."""
        outputs = self._logits(rows(X, slice(0, 2))).shape[1]
        given = np.asarray(y)
        if given.ndim == 1:
            if not (np.issubdtype(given.dtype, np.integer) and given.min() >= 0 and given.max() < outputs):
                raise InvalidInput(f"classes must be integers in [0, {outputs}), as many as the module's outputs")
            return np.asarray(given[:, None] == np.arange(outputs), dtype=np.float32)
        if given.shape != (len(X), outputs):
            raise InvalidInput(f"targets must have shape ({len(X)}, {outputs}), got {given.shape}")
        return np.asarray(given, dtype=np.float32)

    def _train(self, X: Samples, targets: NDArray[Any], weights: NDArray[np.float64], rng: np.random.Generator) -> None:
        torch = load_torch()
        order = rng.permutation(len(targets))
        aside = order[: len(order) // 10] if self.patience is not None else order[:0]
        kept = order[len(aside) :]
        steps = -(-len(kept) // self.batch_size) * self.epochs
        optimizer = torch.optim.AdamW(self.module_.parameters(), lr=self.rate, weight_decay=self.penalty)
        schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, self.rate, total_steps=max(steps, 2), pct_start=0.1)
        best, stale = np.inf, 0
        for epoch in range(1, self.epochs + 1):
            self.module_.train()
            total = 0.0
            shuffled = rng.permutation(kept)
            for start in range(0, len(shuffled), self.batch_size):
                index = np.sort(shuffled[start : start + self.batch_size])
                loss = self._loss(X, targets, weights, index)
                optimizer.zero_grad(set_to_none=True)
                loss.backward()
                optimizer.step()
                schedule.step()
                total += float(loss.detach()) * len(index)
            done(epoch, self.epochs)
            if self.progress is not None:
                self.progress(epoch, total / len(kept))
            if len(aside) and self.patience is not None:
                self.module_.eval()
                with torch.inference_mode():
                    loss_aside = float(self._loss(X, targets, weights, aside))
                stale = 0 if loss_aside < best else stale + 1
                best = min(best, loss_aside)
                if stale >= self.patience:
                    break

    def _loss(self, X: Samples, targets: NDArray[Any], weights: NDArray[np.float64], index: NDArray[np.int64]) -> Any:
        torch = load_torch()
        functional = torch.nn.functional
        logits = self.module_(self._input(rows(X, index)))
        target = torch.from_numpy(targets[index]).to(self.device)
        weight = torch.from_numpy(weights[index].astype(np.float32)).to(self.device)
        if self.multi_label:
            each = functional.binary_cross_entropy_with_logits(logits, target, reduction="none").sum(1)
        else:
            each = functional.cross_entropy(logits, target, reduction="none")
        return (each * weight).sum() / len(index)

    def _logits(self, X: Samples) -> NDArray[np.float32]:
        torch = load_torch()
        self.module_.eval()
        with torch.inference_mode():
            parts = [
                self.module_(self._input(rows(X, slice(start, start + 1024)))).float().cpu()
                for start in range(0, len(X), 1024)
            ]
        logits: NDArray[np.float32] = torch.cat(parts).numpy()
        if logits.ndim != 2:
            raise InvalidInput(f"module must give logits of shape (n, C), got {logits.shape}")
        return logits

    def _input(self, batch: Samples) -> torch.Tensor:
        return self._placed((self.prepare or as_tensor)(batch))

    def _placed(self, foreign: Foreign) -> Foreign:
        from recordwise.vision.layout import safe  # it needs PyTorch

        return safe(foreign, self.device)
