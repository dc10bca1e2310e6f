"""One training step after another, as fast as the machine allows.

A small network on a big GPU spends its time waiting for Python. Here a step (draw a batch, augment it, run the
networks, update the weights) is recorded once as a CUDA graph and replayed, so nothing that varies between steps may
live in Python: the batch order, the learning rate and the random numbers are tensors on the device.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from recordwise.extras.torch import torch

import numpy as np
from numpy.typing import NDArray
from torch import Tensor, nn

from recordwise.errors import InvalidInput, shown
from recordwise.vision.layout import ready

Module = TypeVar("Module", bound=nn.Module)

EAGER_STEPS = 3  # library handles, convolution algorithms and lazily made buffers must exist before recording


@dataclass(frozen=True, kw_only=True)
class Compute:
    """Where training runs, and how.

    Attributes:
      device: A PyTorch device.
      compile: Fuse the networks' kernels with `torch.compile` (minutes for the first step, then faster).
      record: Replay each step as one CUDA graph; ignored on a CPU.
    """

    device: str = "cpu"
    compile: bool = False
    record: bool = True

    def __post_init__(self) -> None:
        try:
            device = torch.device(self.device)
        except (RuntimeError, TypeError):
            raise InvalidInput(f"device must be one that PyTorch knows, got {shown(self.device)}") from None
        if device.type == "cuda" and (device.index or 0) >= torch.cuda.device_count():
            raise InvalidInput(
                f"device must be one of the {torch.cuda.device_count()} CUDA devices here, or cpu, got {self.device!r}"
            )

    @property
    def on_gpu(self) -> bool:
        return torch.device(self.device).type == "cuda"

    def ready(self, module: Module) -> Module:
        """The module on the device, its weights in the order in memory that suits the device."""
        return ready(module, self.device)

    def fused(self, module: nn.Module) -> Callable[..., Tensor]:
        """The module's forward pass, compiled if asked for; shapes are fixed."""
        return torch.compile(module, dynamic=False) if self.compile else module

    def mixed(self) -> AbstractContextManager[None]:
        """bfloat16 arithmetic on a GPU, float32 on a CPU."""
        # Recorded steps must not reuse a weight cast in an earlier step, so autocast keeps no cache.
        return torch.autocast(torch.device(self.device).type, torch.bfloat16, enabled=self.on_gpu, cache_enabled=False)

    def images(self, samples: NDArray[np.uint8]) -> Tensor:
        """(n, height, width) or (n, height, width, channels) bytes, channels first, on the device."""
        if samples.dtype != np.uint8 or samples.ndim not in (3, 4):
            raise InvalidInput(
                f"images must be bytes of shape (n, height, width) or (n, height, width, channels), "
                f"got {samples.dtype} of shape {samples.shape}"
            )
        images = torch.from_numpy(np.ascontiguousarray(samples))
        images = images[:, None] if images.ndim == 3 else images.permute(0, 3, 1, 2)
        return images.contiguous().to(self.device)

    def generator(self, seed: int) -> torch.Generator:
        return torch.Generator(self.device).manual_seed(seed)


class Recorded:
    """A step that runs the same kernels at every call: eager at first, then replayed from a graph.

    Guarantees:
      - each call is exactly one step, the recording call too;
      - a replayed step draws fresh random numbers from `generator`.
    """

    def __init__(self, step: Callable[[], None], compute: Compute, generator: torch.Generator) -> None:
        self._step = step
        self._generator = generator
        self._records = compute.record and compute.on_gpu
        self._calls = 0
        self._graph: torch.cuda.CUDAGraph | None = None
        self._stream = torch.cuda.Stream() if self._records else None  # type: ignore[no-untyped-call]

    def __call__(self) -> None:
        self._calls += 1
        if self._stream is None:
            self._step()
        elif self._graph is not None:
            self._graph.replay()
        elif self._calls <= EAGER_STEPS:
            self._stream.wait_stream(torch.cuda.current_stream())
            with torch.cuda.stream(self._stream):
                self._step()
            torch.cuda.current_stream().wait_stream(self._stream)
        else:
            self._graph = torch.cuda.CUDAGraph()
            self._graph.register_generator_state(self._generator)
            with torch.cuda.graph(self._graph, stream=self._stream):
                self._step()
            self._graph.replay()


class Batches:
    """The indices of one random batch after another, without replacement within an epoch.

    `next()` only touches tensors on the device, so a recorded step may call it.
    """

    def __init__(self, indices: Tensor, batch: int, generator: torch.Generator) -> None:
        self._indices = indices
        self._batch = min(batch, len(indices))
        self._generator = generator
        self._order = indices.clone()
        self._cursor = torch.zeros(1, dtype=torch.int64, device=indices.device)
        self._offsets = torch.arange(self._batch, device=indices.device)

    def __len__(self) -> int:
        """Whole batches in an epoch; what is left over waits for the next shuffle."""
        return len(self._indices) // self._batch

    def shuffle(self) -> None:
        order = torch.randperm(len(self._indices), generator=self._generator, device=self._indices.device)
        self._order.copy_(self._indices[order])
        self._cursor.zero_()

    def next(self) -> Tensor:
        index = self._order[self._cursor + self._offsets]
        self._cursor += self._batch
        return index


class MomentumDescent:
    """Stochastic gradient descent with momentum and weight decay; the learning rate is a tensor to fill in."""

    def __init__(
        self, parameters: Sequence[Tensor], *, momentum: float = 0.9, weight_decay: float = 5e-4, nesterov: bool = False
    ) -> None:
        self._parameters = list(parameters)
        self._velocity = [torch.zeros_like(parameter) for parameter in self._parameters]
        self._momentum, self._decay, self._nesterov = momentum, weight_decay, nesterov
        self.rate = torch.zeros((), device=self._parameters[0].device)

    def state_dict(self) -> dict[str, list[Tensor]]:
        return {"velocity": self._velocity}

    def load_state_dict(self, state_dict: dict[str, list[Tensor]]) -> None:
        for mine, kept in zip(self._velocity, state_dict["velocity"], strict=True):
            mine.copy_(kept)

    @torch.no_grad()
    def update(self, gradients: Sequence[Tensor]) -> None:
        step = list(torch._foreach_add(list(gradients), self._parameters, alpha=self._decay))
        torch._foreach_mul_(self._velocity, self._momentum)
        torch._foreach_add_(self._velocity, step)
        if self._nesterov:
            torch._foreach_add_(step, self._velocity, alpha=self._momentum)
        else:
            step = list(self._velocity)
        torch._foreach_sub_(self._parameters, list(torch._foreach_mul(step, self.rate)))


@torch.no_grad()
def follow(leader: nn.Module, follower: nn.Module, keep: Tensor | float, *, buffers: bool) -> None:
    """Move the follower's weights towards the leader's: follower = keep·follower + (1 − keep)·leader."""
    theirs: list[Tensor] = list(leader.parameters())
    ours: list[Tensor] = list(follower.parameters())
    if buffers:  # running statistics of batch normalisation; its integer counters play no part
        theirs += [b for b in leader.buffers() if b.is_floating_point()]
        ours += [b for b in follower.buffers() if b.is_floating_point()]
    missing = list(torch._foreach_sub(theirs, ours))
    torch._foreach_add_(ours, list(torch._foreach_mul(missing, 1 - keep)))


class Average(Generic[Module]):
    """A copy of a learner whose weights are the running average of the learner's.

    The share that it keeps of itself grows from nothing to `keep`. A constant share would leave some of the first,
    random weights in it after a short run: a third at 0.996 after 270 steps.
    """

    def __init__(self, learner: Module, keep: float) -> None:
        self.network = copy.deepcopy(learner).requires_grad_(False)
        self._learner, self._keep = learner, keep
        self._steps = torch.zeros((), device=next(learner.parameters()).device)

    def follow(self) -> None:
        """Take in the learner's weights after a step."""
        share = (self._steps / (self._steps + 10)).clamp(max=self._keep)
        follow(self._learner, self.network, share, buffers=True)
        self._steps += 1

    def state_dict(self) -> dict[str, Any]:
        return {"network": self.network.state_dict(), "steps": self._steps}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        self.network.load_state_dict(state_dict["network"])
        self._steps.copy_(state_dict["steps"])


@contextmanager
def fresh_weights(seed: int) -> Iterator[None]:
    """Inside, new modules draw their first weights from `seed`; outside, nothing has changed."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        yield
