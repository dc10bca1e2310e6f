"""Training that may be killed: one epoch after another, and on disk what a run needs to go on.

A checkpoint is one file of tensors, numbers and text; reading it runs no code. It holds all that training changes
(weights, those of followers, the optimiser's memory, the state of the random numbers) and what must not have changed
when a run goes on: its settings, its seed, its device and what it learns from.
"""

from __future__ import annotations

import io
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields, is_dataclass
from functools import cached_property
from pathlib import Path
from pickle import UnpicklingError
from typing import Any, Protocol

from recordwise.extras.torch import torch

from torch import Tensor, nn

from recordwise.durable import write_whole
from recordwise.errors import ChangedInput, InvalidInput, positive, probability, shown, whole
from recordwise.hashing import fingerprint
from recordwise.progress import done
from recordwise.vision.schedules import warmed_up
from recordwise.vision.steps import Batches, Compute, MomentumDescent

EVERY = 10  # epochs from one checkpoint to the next
FORMAT = "2"  # of what is kept, to be raised when a way to train keeps other things

Report = Callable[[int, float], None]


def silent(epoch: int, value: float) -> None:
    """Reports nothing."""


@dataclass(frozen=True, kw_only=True)
class TrainingRun:
    """One run of a way to train: from which seed, where, and what is left for one that is killed.

    Attributes:
      seed: Of the first weights, the batches and the views.
      checkpoint: The run goes on from this file where it exists, and writes it; None keeps nothing.
      checkpoint_every: Epochs from one writing to the next; after the last it is written anyway.
      progress: Called with the number, from 0, and the value of each epoch.
    """

    seed: int = 0
    compute: Compute = field(default_factory=Compute)
    checkpoint: str | Path | None = None
    checkpoint_every: int = EVERY
    progress: Report = silent

    def __post_init__(self) -> None:
        whole(checkpoint_every=self.checkpoint_every)


@dataclass(frozen=True, kw_only=True)
class Settings:
    """What every way to train a network is told; each has defaults of its own, and adds to them.

    Attributes:
      epochs: Passes over the images.
      batch: Images per step.
      rate: The largest learning rate.
    """

    epochs: int
    batch: int
    rate: float

    def __post_init__(self) -> None:
        whole(epochs=self.epochs, batch=self.batch)
        positive(rate=self.rate)


@dataclass(frozen=True, kw_only=True)
class MomentumSettings(Settings):
    """The same for those that descend with momentum."""

    momentum: float = 0.9
    weight_decay: float = 5e-4

    def descent(self, parameters: Sequence[Tensor], *, nesterov: bool = False) -> MomentumDescent:
        return MomentumDescent(parameters, momentum=self.momentum, weight_decay=self.weight_decay, nesterov=nesterov)


@dataclass(frozen=True, kw_only=True)
class WarmedSettings(MomentumSettings):
    """The same for those whose learning rate rises first, and then falls along half a cosine.

    Attributes:
      warm_up: Share of the run in which the learning rate rises.
    """

    warm_up: float

    def __post_init__(self) -> None:
        super().__post_init__()
        probability(warm_up=self.warm_up)


def warmed_epoch(
    step: Callable[[], None], batches: Batches, total: Tensor, descent: MomentumDescent, settings: WarmedSettings
) -> Callable[[int], float]:
    """One epoch of such a run: every batch once. It gives the mean of what steps add to `total`."""

    def one_epoch(epoch: int) -> float:
        total.zero_()
        batches.shuffle()
        for batch in range(len(batches)):
            share = (epoch + (batch + 1) / len(batches)) / settings.epochs
            descent.rate.fill_(settings.rate * warmed_up(share, settings.warm_up))
            step()
        return float(total) / len(batches)

    return one_epoch


class Stateful(Protocol):
    """A module, or an optimiser."""

    def state_dict(self) -> dict[str, Any]: ...

    def load_state_dict(self, state_dict: dict[str, Any], /) -> object: ...


class Training:
    """A run in progress.

    Guarantees:
      - a run that was killed and goes on ends as if it had not been, bit for bit where the device computes so;
      - another run's checkpoint is refused, and the message names what differs;
      - a checkpoint is written whole or not at all.

    Args:
      one_epoch: Trains the epoch of the given number, from 0, and returns the value to report of it.
      state: All that an epoch leaves to the next, by name.
      inputs: What the run learns from and the networks it begins with, by name.
    """

    def __init__(
        self,
        one_epoch: Callable[[int], float],
        state: Mapping[str, Stateful | Tensor | torch.Generator],
        *,
        settings: Settings,
        run: TrainingRun,
        inputs: Mapping[str, Tensor | nn.Module],
    ) -> None:
        self.settings, self.run = settings, run
        self.epoch = 0
        self._one_epoch, self._state, self._inputs = one_epoch, state, inputs

    def run_epoch(self) -> float:
        """Train one more epoch; returns its value."""
        value = self._one_epoch(self.epoch)
        self.epoch += 1
        return value

    def finish(self, epochs: int) -> None:
        """Train up to this many epochs in all, going on from the run's checkpoint if there is one."""
        kept = self.run.checkpoint
        if kept is not None:
            self.resume(kept)
        while self.epoch < epochs:
            self.run.progress(self.epoch, self.run_epoch())
            done(self.epoch, epochs)
            if kept is not None and (self.epoch % self.run.checkpoint_every == 0 or self.epoch == epochs):
                self.save(kept)

    def save(self, path: str | Path) -> None:
        """Write all that a killed run needs to go on."""
        path = Path(path)
        path.parent.mkdir(parents=True, exist_ok=True)
        state = {name: _state_of(holder) for name, holder in self._state.items()}
        content = io.BytesIO()
        torch.save({"facts": self._facts, "epoch": self.epoch, "state": state}, content)
        write_whole(path, content.getvalue())

    def resume(self, path: str | Path) -> None:
        """Go on from what `save` wrote; from the beginning if that is nothing."""
        facts = self._facts  # looked at before the first epoch, because training may change the network it was given
        path = Path(path)
        if not path.exists():
            return
        other = InvalidInput(f"checkpoint must be what a training run wrote, {path.name} is not")
        if not path.is_file():
            raise other
        try:
            kept = torch.load(path, map_location="cpu", weights_only=True)
            before, epoch, state = kept["facts"], kept["epoch"], kept["state"]
        except (RuntimeError, UnpicklingError, EOFError, LookupError, TypeError) as fault:
            raise other from fault
        if not (isinstance(before, dict) and isinstance(epoch, int) and isinstance(state, dict)):
            raise other
        for name in {**facts, **before}:
            if before.get(name) != facts.get(name):
                raise ChangedInput(
                    f"{name} was {before.get(name)} when {path.name} was written and is {facts.get(name)} now; "
                    "undo the change, or name another checkpoint"
                )
        for name, holder in self._state.items():
            _restore(holder, state[name])
        self.epoch = epoch

    @cached_property
    def _facts(self) -> dict[str, str]:
        return {
            "format": FORMAT,
            "method": type(self.settings).__name__,
            **_leaves(self.settings),
            "seed": str(self.run.seed),
            "device": torch.device(self.run.compute.device).type,  # each kind has random numbers of its own
            **{f"SHA-256 of {name}": fingerprint(value) for name, value in self._inputs.items()},
        }


def check_images(images: object) -> None:
    """Require a pool of images."""
    if not (isinstance(images, Tensor) and images.dtype == torch.uint8 and images.ndim == 4 and images.numel()):
        raise InvalidInput(f"images must be a uint8 tensor (n, channels, height, width), n >= 1, got {_seen(images)}")


def check_rows(images: Tensor, *, dims: int, **given: object) -> None:
    """Require tensors of this many dimensions, with one row for each image."""
    for name, value in given.items():
        if not (isinstance(value, Tensor) and value.ndim == dims and len(value) == len(images) and value.numel()):
            raise InvalidInput(
                f"{name} must be a tensor of {dims} dimension{'s'[: dims - 1]} with one row for each of the "
                f"{len(images)} images, got {_seen(value)}"
            )


def check_flags(images: Tensor, **given: Tensor) -> None:
    """Require booleans, one for each image: `~` on integers flips bits."""
    check_rows(images, dims=1, **given)
    for name, value in given.items():
        if value.dtype != torch.bool:
            raise InvalidInput(f"{name} must be booleans, got {_seen(value)}")


def check_numbers(images: Tensor, *, below: int, dims: int, **given: Tensor) -> None:
    """Require whole numbers in [0, below) for each image."""
    check_rows(images, dims=dims, **given)
    for name, value in given.items():
        if value.dtype == torch.bool or value.is_floating_point() or value.is_complex():
            raise InvalidInput(f"{name} must be integers, got {_seen(value)}")
        least, largest = int(value.min()), int(value.max())
        if least < 0 or largest >= below:
            raise InvalidInput(f"{name} must lie in [0, {below - 1}], got {least if least < 0 else largest}")


def _seen(value: object) -> str:
    """A tensor's type and shape, and anything else as it is."""
    return f"{value.dtype} of shape {tuple(value.shape)}" if isinstance(value, Tensor) else shown(value)


def _state_of(holder: Stateful | Tensor | torch.Generator) -> Any:
    if isinstance(holder, Tensor):
        return holder
    return holder.get_state() if isinstance(holder, torch.Generator) else holder.state_dict()


def _restore(holder: Stateful | Tensor | torch.Generator, kept: Any) -> None:
    """Fill in place: a recorded step knows its tensors by their addresses."""
    if isinstance(holder, Tensor):
        holder.copy_(kept)
    elif isinstance(holder, torch.Generator):
        holder.set_state(kept)
    else:
        holder.load_state_dict(kept)


def _leaves(settings: Any, within: str = "") -> dict[str, str]:
    """Every setting as text, those of a view inside as "view.crop"."""
    leaves: dict[str, str] = {}
    for one in fields(settings):
        value = getattr(settings, one.name)
        name = f"{within}{one.name}"
        leaves |= _leaves(value, f"{name}.") if is_dataclass(value) else {name: repr(value)}
    return leaves
