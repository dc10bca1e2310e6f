"""Any PyTorch module as an encoder."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Self

from recordwise.extras.asking import optional

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, TransformerMixin

from recordwise.data.samples import Samples, rows
from recordwise.errors import InvalidInput, whole
from recordwise.hashing import fingerprint
from recordwise.stored import NotPlain

if TYPE_CHECKING:
    import torch


class TorchEncoder(TransformerMixin, BaseEstimator):  # type: ignore[misc]
    """The output of a PyTorch module, flattened to vectors. The module must be a function of public data alone.

    It runs on one thread, with deterministic algorithms. Even so the last bits of a row may depend on how many others
    are in its batch and on its place among them: records are encoded by `recordwise.encoders.encode`, which sees to it.

    Args:
      module: Takes a batch of tensors, gives (n, ...) floats. Used in evaluation mode; fitting does not train it.
      device: Where it runs: "cpu", "cuda", "mps".
      batch_size: Samples at a time.
      prepare: Turns a batch of samples into the module's input; `as_tensor` when None.
    """

    def __init__(
        self,
        module: torch.nn.Module,
        device: str = "cpu",
        batch_size: int = 256,
        prepare: Callable[[Any], torch.Tensor] | None = None,
    ) -> None:
        self.module = module
        self.device = device
        self.batch_size = batch_size
        self.prepare = prepare

    def fit(self, pool: Samples, y: object = None) -> Self:
        whole(batch_size=self.batch_size)
        if not callable(getattr(self.module, "state_dict", None)):
            raise InvalidInput(f"module must be a PyTorch module, got {type(self.module).__name__}")
        return self

    def transform(self, samples: Samples) -> NDArray[np.float32]:
        torch = load_torch()
        module = self.module.to(self.device)
        training = module.training
        module.eval()
        vectors = []
        try:
            with torch.inference_mode(), deterministic(torch):
                for start in range(0, len(samples), self.batch_size):
                    batch = rows(samples, slice(start, start + self.batch_size))
                    tensor = (self.prepare or as_tensor)(batch).to(self.device)
                    vectors.append(module(tensor).flatten(1).float().cpu().numpy())
        finally:
            module.train(training)
        return np.concatenate(vectors)

    def __sklearn_is_fitted__(self) -> bool:
        return True

    def state(self) -> dict[str, Any]:
        """All that it needs to be stored (`recordwise.stored`): only where the network's code is ours."""
        load_torch()
        from recordwise.encoders.pretrained import parts_of

        parts = parts_of(self.module) if self.prepare is None else None
        if parts is None:
            raise NotPlain(f"must be a network from a file, got {type(self.module).__name__}")
        return {"parts": parts, "device": self.device, "batch_size": self.batch_size}

    @classmethod
    def from_state(cls, state: dict[str, Any]) -> Self:
        torch = load_torch()
        from recordwise.encoders.pretrained import module_from

        device = str(state["device"])
        if device.startswith("cuda") and not torch.cuda.is_available():
            device = "cpu"
        whole(batch_size=state["batch_size"])
        return cls(module_from(state["parts"]), device, state["batch_size"])

    @property
    def fingerprint(self) -> str:
        """Of the module and of what it is shown; on which device and in what batches is no part of it."""
        return fingerprint([self.module, self.prepare])

    def __repr__(self, N_CHAR_MAX: int = 700) -> str:
        """The kind of module and its fingerprint: two encoders that print alike encode alike."""
        return f"TorchEncoder({type(self.module).__name__}, SHA-256 {self.fingerprint})"


@contextmanager
def deterministic(torch: Any) -> Iterator[None]:
    """One thread, and deterministic algorithms where PyTorch has them; afterwards as it was."""
    threads, mode = torch.get_num_threads(), torch.get_deterministic_debug_mode()
    torch.set_num_threads(1)
    torch.set_deterministic_debug_mode("warn")  # what has no such algorithm runs as it is; `how_encoded` finds out
    try:
        with torch.backends.cudnn.flags(deterministic=True, benchmark=False), warnings.catch_warnings():
            warnings.filterwarnings("ignore", message=".*deterministic", category=UserWarning)
            yield
    finally:
        torch.set_deterministic_debug_mode(mode)
        torch.set_num_threads(threads)


def as_tensor(samples: Samples) -> torch.Tensor:
    """Float tensors: vectors as they are, images channels first, bytes divided by 255, floats as they are.

    A list's samples are read one by one, so that none is scaled by the type of another.
    """
    if isinstance(samples, list | tuple):
        tensors: torch.Tensor = load_torch().cat([as_tensor(np.asarray(sample)[None]) for sample in samples])
        return tensors
    array: NDArray[Any] = np.asarray(samples)
    scale = 255 if array.dtype == np.uint8 else 1
    if array.ndim > 2 and scale == 1 and array.dtype.kind in "iu":
        raise InvalidInput(f"images must be bytes, or floats on the scale the network knows, got {array.dtype}")
    if array.ndim == 3:
        array = array[:, None]
    elif array.ndim == 4:
        array = array.transpose(0, 3, 1, 2)
    tensor: torch.Tensor = load_torch().from_numpy(np.ascontiguousarray(array, dtype=np.float32)) / scale
    return tensor


def load_torch() -> Any:
    """PyTorch, or one line that says what to install."""
    return optional("torch", "a PyTorch module", extra="torch")
