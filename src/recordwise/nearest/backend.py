"""Where the scores are computed: NumPy, or PyTorch on any device. The votes are the same, bit for bit."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Any, Protocol

from recordwise.extras.asking import optional

import numpy as np
from numpy.typing import NDArray

from recordwise.errors import InvalidInput, whole

SPAN = 1 << 14  # records per task: what a thread takes from a memory-mapped file at a time
CACHED_SCORES = 1 << 20  # 4 MiB: stay in cache between the product and the passes over it
DEVICE_SPAN, DEVICE_SCORES = 1 << 18, 1 << 26  # 256 MiB of scores: enough work for one launch on an accelerator

Single = NDArray[np.float32]


class Scorer(Protocol):
    """Scores lifted records against lifted queries, at most `batch` at a time; one scorer per thread."""

    batch: int

    def least(self, records: Single) -> tuple[NDArray[np.int32], Single]:
        """The queries (m, k) of the k least scores, and the k + 1 least scores ascending; infinite where s = k."""

    def scores(self, records: Single) -> Single:
        """All scores (m, s)."""


class Backend(Protocol):
    def span(self) -> int:
        """Records per task."""

    def workers(self) -> int:
        """Threads that may run at the same time, each with its own scorer."""

    def scorer(self, lifted: Single, k: int) -> Scorer: ...


@dataclass(frozen=True, kw_only=True)
class NumpyBackend:
    """One BLAS product per batch that fits in cache, and k + 1 passes for the least scores; needs NumPy alone.

    Attributes:
      threads: Spans of records worked on at the same time, each with one BLAS thread; None is as many as BLAS was going
        to use.
    """

    threads: int | None = None

    def __post_init__(self) -> None:
        if self.threads is not None:
            whole(threads=self.threads)

    def span(self) -> int:
        return SPAN

    def workers(self) -> int:
        if self.threads is not None:
            return self.threads
        from threadpoolctl import threadpool_info

        pools = [pool["num_threads"] for pool in threadpool_info() if pool["user_api"] == "blas"]
        return max(pools, default=os.cpu_count() or 1)

    def scorer(self, lifted: Single, k: int) -> Scorer:
        return _NumpyScorer(lifted, k)


class _NumpyScorer:
    def __init__(self, lifted: Single, k: int) -> None:
        num_queries = lifted.shape[1]
        self.batch = min(max(CACHED_SCORES // num_queries, 16), 8192)
        self._lifted, self._k = lifted, k
        self._room = np.empty((self.batch, num_queries), dtype=np.float32)
        self._starts = np.arange(self.batch) * num_queries

    def scores(self, records: Single) -> Single:
        return np.matmul(records, self._lifted, out=self._room[: len(records)])

    def least(self, records: Single) -> tuple[NDArray[np.int32], Single]:
        # Scores stand for numbers >= 0, and such floats are ordered like the integers with the same bits, whose
        # least is found faster. Negative ones, put first but backwards, are rounding errors: zero is as true.
        scores, starts = self.scores(records), self._starts[: len(records)]
        bits, flat = scores.view(np.int32), scores.reshape(-1)
        picks = np.empty((self._k, len(records)), dtype=np.intp)
        least = np.empty((self._k + 1, len(records)), dtype=np.float32)
        for nth in range(self._k):
            bits.argmin(axis=1, out=picks[nth])
            place = starts + picks[nth]
            flat.take(place, out=least[nth], mode="clip")  # nothing is out of range: clip only spares a buffer
            flat[place] = np.inf
        bits.min(axis=1, out=least[self._k].view(np.int32))
        return picks.T.astype(np.int32), np.maximum(least, 0).T


@dataclass(frozen=True, kw_only=True)
class TorchBackend:
    """The same on a PyTorch device; needs `recordwise[torch]`."""

    device: str = "cpu"

    def span(self) -> int:
        return SPAN if self.device == "cpu" else DEVICE_SPAN

    def workers(self) -> int:
        return 1

    def scorer(self, lifted: Single, k: int) -> Scorer:
        return _TorchScorer(self.device, lifted, k)


class _TorchScorer:
    def __init__(self, device: str, lifted: Single, k: int) -> None:
        torch = optional("torch", "TorchBackend", extra="torch")
        try:
            self._lifted = torch.from_numpy(lifted).to(device)
        except RuntimeError as error:
            raise InvalidInput(f"device must be one PyTorch can use here, got {device!r}: {error}") from None
        num_queries = lifted.shape[1]
        self.batch = min(max((CACHED_SCORES if device == "cpu" else DEVICE_SCORES) // num_queries, 16), 1 << 18)
        self._torch, self._k = torch, k
        _refuse_coarse_products(torch, self._lifted)

    def _scores(self, records: Single) -> Any:
        return self._torch.from_numpy(records).to(self._lifted.device) @ self._lifted

    def scores(self, records: Single) -> Single:
        scores: Single = self._scores(records).cpu().numpy()
        return scores

    def least(self, records: Single) -> tuple[NDArray[np.int32], Single]:
        scores = self._scores(records)
        found = self._torch.topk(scores, min(self._k + 1, scores.shape[1]), dim=1, largest=False)
        least = np.full((len(records), self._k + 1), np.inf, dtype=np.float32)
        least[:, : found.values.shape[1]] = found.values.cpu().numpy()
        return found.indices[:, : self._k].to(self._torch.int32).cpu().numpy(), least


def _refuse_coarse_products(torch: Any, columns: Any) -> None:
    """The certificate is about float32 arithmetic: TF32 and bfloat16 products, which PyTorch can switch on, are not."""
    fine = 1 + 2.0**-23  # the float32 after one
    probe = torch.full((4 * columns.shape[1], columns.shape[0]), 0.0, device=columns.device)
    probe[:, 0] = fine
    if not ((probe @ torch.ones_like(columns)) == fine).all():
        raise InvalidInput(
            "TorchBackend needs IEEE float32 products: set torch.set_float32_matmul_precision('highest')"
        )
