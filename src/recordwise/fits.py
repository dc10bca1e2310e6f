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
        self._rows: NDArray[np.int64] = np.empty(0, np.int64)  # ascending
        # Records have few distinct costs, so each is kept once, and a record points to its own.
        self._spent: list[tuple[int, float, float]] = [(0, 0.0, 0.0)]  # fits, epsilon, delta
        self._cost: NDArray[np.int32] = np.empty(0, np.int32)

    def add(self, rows: NDArray[np.int64], epsilon: float, delta: float) -> tuple[int, float, float]:
        """Count one fit of these rows, which are sorted; gives the most that one of them has been through."""
        rows.sort()
        fresh = np.ones(len(rows), dtype=np.bool_)
        fresh[1:] = rows[1:] != rows[:-1]
        rows = rows[fresh]
        if not len(rows):
            return 1, epsilon, delta
        with self._lock:
            if not len(
                self._rows
            ):  # nothing to look up: the first fit, which is the only one for most, takes little room
                self._spent.append((1, epsilon, delta))
                self._rows, self._cost = rows, np.full(len(rows), len(self._spent) - 1, dtype=np.int32)
                return self._spent[-1]
            here = np.searchsorted(self._rows, rows)
            known = np.zeros(len(rows), dtype=np.bool_)
            inside = here < len(self._rows)
            known[inside] = self._rows[here[inside]] == rows[inside]
            if not known.all():
                new, at = rows[~known], here[~known]
                self._rows, self._cost = np.insert(self._rows, at, new), np.insert(self._cost, at, 0)
                here = np.searchsorted(self._rows, rows)
            after: dict[int, int] = {}
            for cost in np.unique(self._cost[here]).tolist():
                times, total, slack = self._spent[cost]
                after[cost] = len(self._spent)
                self._spent.append((times + 1, total + epsilon, slack + delta))
            moved = np.arange(len(self._spent), dtype=np.int32)
            moved[list(after)] = list(after.values())
            self._cost[here] = moved[self._cost[here]]
            reached = [self._spent[cost] for cost in after.values()]
        times, total, slack = (max(column) for column in zip(*reached, strict=True))
        return times, total, slack


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
