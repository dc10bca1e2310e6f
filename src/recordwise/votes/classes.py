"""A record's labels, in the one form that votes are cast in: at most r classes each.

A label that is no class of the ballot belongs to one private record. That record abstains; a refusal would reveal
something about it.
"""

from __future__ import annotations

from collections.abc import Sequence
from collections.abc import Set as AbstractSet
from typing import Any

import numpy as np
from numpy.typing import NDArray

from recordwise.errors import InvalidInput
from recordwise.votes.ballot import NOBODY, Ballot


def as_classes(labels: object, ballot: Ballot, *, truncate: bool = False) -> NDArray[np.int32]:
    """Each record's classes (n, r), ascending, padded with NOBODY.

    Guarantees:
      - a row depends on that record's label alone;
      - a record abstains, all NOBODY, if one of its labels is no class of the ballot, or if it has more than r.

    Args:
      labels: (n,) one class per record; or (n, C) zeros and ones; or a sequence of sets of classes. An array of another
        shape or type is refused.
      truncate: A record with more than r labels keeps its r lowest classes, instead of abstaining.
    """
    array = labels if isinstance(labels, np.ndarray) else _as_array(labels)
    if array.dtype == object and array.ndim == 1:
        chosen = [_classes_of(label, ballot.num_classes) for label in array]
        rows = np.repeat(np.arange(len(array)), [len(classes) for classes in chosen])
        classes = np.array([one for classes in chosen for one in classes], dtype=np.intp)
    elif array.dtype.kind not in "iubf":
        raise InvalidInput(f"labels must be whole numbers, 0/1 rows or sets of whole numbers, got {array.dtype}")
    elif array.ndim == 1:
        rows = np.flatnonzero((array >= 0) & (array < ballot.num_classes) & (array == np.floor(array)))
        classes = array[rows].astype(np.intp)
    elif array.ndim == 2 and array.shape[1] == ballot.num_classes:
        binary = ((array == 0) | (array == 1)).all(axis=1)
        rows, classes = ((array == 1) & binary[:, None]).nonzero()
    else:
        raise InvalidInput(f"labels must have shape (n,) or (n, {ballot.num_classes}), got {array.shape}")
    return _pad(rows, classes, len(array), ballot, truncate)


def _as_array(labels: object) -> NDArray[Any]:
    """A sequence as an array of numbers if its labels are all numbers or rows of them, else of one object each."""
    try:
        array = np.asarray(labels)
    except ValueError:  # rows of several lengths
        array = np.empty(0, dtype=object)
    if array.dtype.kind in "iubf" or not isinstance(labels, Sequence):
        return array
    objects = np.empty(len(labels), dtype=object)
    objects[:] = list(labels)
    return objects


def _classes_of(label: Any, num_classes: int) -> list[int]:
    """The classes, ascending, that one label of any form means; none if one of them is not on the ballot."""
    try:
        if isinstance(label, AbstractSet):
            chosen = sorted({_whole(one) for one in label})
        elif np.ndim(label) == 1 and len(label) == num_classes:
            marks = [_whole(mark) for mark in label]
            chosen = [number for number, mark in enumerate(marks) if mark] if set(marks) <= {0, 1} else [NOBODY]
        else:
            chosen = [_whole(label)]
    except Exception:  # whatever a label holds, it is that record's
        return []
    return chosen if all(0 <= one < num_classes for one in chosen) else []


def _whole(value: Any) -> int:
    if isinstance(value, str | bytes) or value != int(value):
        raise ValueError
    return int(value)


def _pad(
    rows: NDArray[np.intp], classes: NDArray[np.intp], num_records: int, ballot: Ballot, truncate: bool
) -> NDArray[np.int32]:
    rank = np.arange(len(rows)) - np.searchsorted(rows, rows)  # rows and, within a row, classes are ascending
    keep = rank < ballot.labels_per_record
    padded = np.full((num_records, ballot.labels_per_record), NOBODY, dtype=np.int32)
    padded[rows[keep], rank[keep]] = classes[keep]
    if not truncate:
        padded[rows[~keep]] = NOBODY
    return padded
