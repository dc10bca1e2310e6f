"""A record's labels, in the one form that votes are cast in: at most r classes each."""

from __future__ import annotations

from collections.abc import Sequence
from collections.abc import Set as AbstractSet
from typing import Any

import numpy as np
from numpy.typing import NDArray

from recordwise.errors import InvalidInput
from recordwise.votes.ballot import NOBODY, Ballot


def as_classes(labels: object, ballot: Ballot, *, truncate: bool = False, first_row: int = 0) -> NDArray[np.int32]:
    """Each record's classes (n, r), ascending, padded with NOBODY; or one line that says why not.

    Args:
      labels: (n,) one class per record; or (n, C) zeros and ones; or a sequence of sets of classes.
      truncate: A record with more than r labels keeps its r lowest classes, instead of being refused.
      first_row: Number of the first record, for messages.
    """
    if isinstance(labels, Sequence) and len(labels) and all(isinstance(one, AbstractSet) for one in labels):
        rows, classes = _of_sets(labels, ballot, first_row)
        num_records = len(labels)
    else:
        array = np.asarray(labels)
        if array.dtype.kind not in "iubf":
            raise InvalidInput(f"labels must be whole numbers, 0/1 rows or sets of whole numbers, got {array.dtype}")
        num_records = len(array) if array.ndim else 0
        if array.ndim == 1:
            rows, classes = np.arange(num_records), _in_range(array, ballot.num_classes, first_row)
        elif array.ndim == 2 and array.shape[1] == ballot.num_classes:
            rows, classes = _of_indicators(array, first_row)
        else:
            raise InvalidInput(f"labels must have shape (n,) or (n, {ballot.num_classes}), got {array.shape}")
    return _pad(rows, classes, num_records, ballot, truncate, first_row)


def _in_range(classes: NDArray[Any], num_classes: int, first_row: int) -> NDArray[np.intp]:
    valid = (classes >= 0) & (classes < num_classes) & (classes == np.floor(classes))
    if not valid.all():
        bad = int(np.flatnonzero(~valid)[0])
        raise InvalidInput(
            f"labels must be whole numbers in [0, {num_classes}), row {first_row + bad} holds {classes[bad].item()!r}"
        )
    return classes.astype(np.intp)


def _of_indicators(array: NDArray[Any], first_row: int) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    binary = ((array == 0) | (array == 1)).all(axis=1)
    if not binary.all():
        bad = first_row + int(np.flatnonzero(~binary)[0])
        raise InvalidInput(f"labels given as rows of one number per class must be 0 or 1, row {bad} is not")
    rows, classes = array.nonzero()
    return rows, classes


def _of_sets(
    labels: Sequence[AbstractSet[object]], ballot: Ballot, first_row: int
) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    rows, classes = [], []
    for row, chosen in enumerate(labels):
        for one in chosen:
            if not (hasattr(one, "__index__") and 0 <= one.__index__() < ballot.num_classes):
                raise InvalidInput(
                    f"labels must be whole numbers in [0, {ballot.num_classes}), row {first_row + row} holds {one!r}"
                )
            rows.append(row)
            classes.append(one.__index__())
    order = np.lexsort((classes, rows))
    return np.array(rows, dtype=np.intp)[order], np.array(classes, dtype=np.intp)[order]


def _pad(
    rows: NDArray[np.intp],
    classes: NDArray[np.intp],
    num_records: int,
    ballot: Ballot,
    truncate: bool,
    first_row: int,
) -> NDArray[np.int32]:
    rank = np.arange(len(rows)) - np.searchsorted(rows, rows)  # rows and, within a row, classes are ascending
    keep = rank < ballot.labels_per_record
    if not (truncate or keep.all()):
        bad = int(rows[~keep][0])
        raise InvalidInput(
            f"a record must have at most r = {ballot.labels_per_record} labels, row {first_row + bad} has "
            f"{int((rows == bad).sum())}; raise r, or truncate to the lowest classes"
        )
    padded = np.full((num_records, ballot.labels_per_record), NOBODY, dtype=np.int32)
    padded[rows[keep], rank[keep]] = classes[keep]
    return padded
