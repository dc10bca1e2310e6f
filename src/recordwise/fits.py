"""How often records were fitted without a ledger, in this process: each fit promises its own epsilon, and they add up.

A grid search clones its estimator, so the count is kept here. It is about records, not about data sets, because the
folds of a cross-validation share most of theirs. Nothing of it is ever written down or published.
"""

from __future__ import annotations

import threading
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from recordwise.data import Samples
from recordwise.privacy.guarantee import Guarantee, rounded_up


class RepeatedFit(UserWarning):
    """Records were fitted before, and no ledger adds up what that costs."""


class _Seen:
    """Every record that was fitted, by a hash of its row, and what its fits cost. Private: it stays in memory."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self.forget()

    def forget(self) -> None:
        self._rows: NDArray[np.int64] = np.empty(0, np.int64)
        self._spent: NDArray[np.float64] = np.empty((0, 3))  # fits, epsilon, delta

    def add(self, rows: NDArray[np.int64], epsilon: float, delta: float) -> tuple[int, float, float]:
        """Count one fit of these rows; gives the most that one of them has been through."""
        with self._lock:
            together = np.union1d(self._rows, rows)
            spent = np.zeros((len(together), 3))
            spent[np.searchsorted(together, self._rows)] = self._spent
            here = np.searchsorted(together, np.unique(rows))
            spent[here] += (1, epsilon, delta)
            self._rows, self._spent = together, spent
            times, total, slack = spent[here].max(axis=0) if len(here) else (1, epsilon, delta)
        return int(times), float(total), float(slack)


_seen = _Seen()
_counting: ContextVar[bool] = ContextVar("counting", default=True)


def count_fit(X: Samples, promise: Guarantee) -> None:
    """Note a fit of the records X that no ledger pays for; warn if some of them were fitted before."""
    if not _counting.get():
        return
    times, epsilon, delta = _seen.add(_rows(X), float(promise.epsilon), float(promise.delta))
    if times > 1:
        slack = f" and delta {rounded_up(Fraction(delta))}" if delta else ""
        warnings.warn(
            f"this is fit number {times} on some of these records, and no ledger counts them: a record in all of them "
            f"is protected at epsilon {rounded_up(Fraction(epsilon))}{slack} in all, not at "
            f"{rounded_up(promise.epsilon)}; pass ledger, which adds up and refuses",
            RepeatedFit,
            stacklevel=2,
        )


@contextmanager
def uncounted() -> Iterator[None]:
    """Fits in here are not counted: their records are public, or nobody sees what they release."""
    token = _counting.set(False)
    try:
        yield
    finally:
        _counting.reset(token)


def _rows(X: Any) -> NDArray[np.int64]:
    """A hash of each sample; Python keys it anew in every process."""
    rows = X.to_numpy() if hasattr(X, "to_numpy") else X
    return np.fromiter((hash(_content(row)) for row in rows), dtype=np.int64, count=len(rows))


def _content(row: Any) -> bytes | str:
    if isinstance(row, np.ndarray) and row.dtype.kind not in "OUS":
        return row.tobytes()
    try:
        return repr(row.tolist() if hasattr(row, "tolist") else row)
    except Exception:  # whatever a record holds, its fit is counted
        return type(row).__qualname__
