"""Private records as they arrive: checked before anything is spent, and cut up the way their holders see them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils import assert_all_finite, column_or_1d
from sklearn.utils.multiclass import check_classification_targets

from recordwise.arrays import Bools
from recordwise.data import Kind, Samples, kind_of
from recordwise.errors import InvalidInput, whole
from recordwise.votes import NOBODY, Ballot, Votes
from recordwise.votes.classes import as_classes


def classes_and_labels(
    X: Samples, y: ArrayLike, *, classes: ArrayLike | None, labels_per_record: int
) -> tuple[NDArray[Any], NDArray[Any]]:
    """The public list of classes, and the records' labels as numbers in it: (n,), or (n, C) zeros and ones."""
    if y is None:
        raise InvalidInput("fit requires y to be passed, but the target y is None")
    labels = np.asarray(y)
    if len(labels) != len(X):
        raise InvalidInput(f"y must have one label for each of the {len(X)} records, got {len(labels)}")
    whole(labels_per_record=labels_per_record)
    if labels_per_record > 1:
        if labels.ndim != 2:
            raise InvalidInput(
                f"y must be a 0/1 matrix (n, C) when a record may have several labels, got {labels.shape}"
            )
        names = np.arange(labels.shape[1]) if classes is None else np.asarray(classes)
        if len(names) != labels.shape[1]:
            raise InvalidInput(f"classes must be as many as the {labels.shape[1]} columns of y, got {len(names)}")
        as_classes(labels, Ballot(num_queries=1, num_classes=len(names), labels_per_record=labels_per_record))
        return names, labels
    if labels.ndim != 1 and labels.shape != (len(labels), 1):
        raise InvalidInput(f"y must have shape (n,), got {labels.shape}; set labels_per_record for several labels")
    labels = column_or_1d(labels, warn=True)
    try:
        if labels.dtype.kind == "f":
            assert_all_finite(labels, input_name="y")
        check_classification_targets(labels)
        names = np.unique(labels if classes is None else np.asarray(classes))
    except TypeError as fault:
        raise InvalidInput(f"y must hold labels of one kind, without gaps: {fault}") from fault
    except ValueError as fault:
        raise InvalidInput(first_line(fault)) from fault
    if not len(names):
        raise InvalidInput("classes must name at least one class, got none")
    number_of = {name: number for number, name in enumerate(names.tolist())}
    numbers = np.array([number_of.get(label, NOBODY) for label in labels.tolist()], dtype=np.int64)
    unknown = np.flatnonzero(numbers == NOBODY)
    if len(unknown):
        held, few = labels[unknown].tolist()[0], ", ".join(map(repr, names[:10].tolist()))
        raise InvalidInput(f"y must hold declared classes ({few}), row {unknown[0]} holds {held!r}")
    return names, numbers


def silenced(votes: Votes, silent: Bools) -> Votes:
    """The votes, but for records that are to abstain."""
    return Votes(votes.ballot, np.where(silent[:, None], np.int32(NOBODY), votes.queries), votes.labels)


def by_client(votes: Votes, parties: int) -> Iterator[Votes]:
    """The votes as their holders see them: cut into as many parts as there are parties."""
    for part in np.array_split(np.arange(len(votes)), parties):
        yield Votes(votes.ballot, votes.queries[part], votes.labels[part])


def with_abstainers(votes: Votes, senders: int) -> Votes:
    """The votes, and those of as many more senders as were announced, who have no record and vote for nothing."""
    blank = [np.full((senders - len(votes), rows.shape[1]), NOBODY, np.int32) for rows in (votes.queries, votes.labels)]
    return Votes(votes.ballot, np.vstack([votes.queries, blank[0]]), np.vstack([votes.labels, blank[1]]))


def check_columns(pool: Samples, records: Samples) -> None:
    """Once a table is a matrix its columns are told apart by their place alone."""
    names, ours = (tuple(map(str, getattr(part, "columns", ()))) for part in (pool, records))
    if names and ours and names != ours:
        raise InvalidInput(f"X must have the pool's columns in its order ({', '.join(names)}), got {', '.join(ours)}")


def check_alike(pool: Samples, records: Samples) -> None:
    if not (len(pool) and len(records)):
        empty = "X_public" if not len(pool) else "X"
        raise InvalidInput(f"{empty} must hold at least one sample, got 0")
    wide = [np.shape(part) for part in (pool, records) if kind_of(part) is Kind.VECTORS]
    if len(wide) == 2 and wide[0][1] != wide[1][1]:
        raise InvalidInput(f"records must have the pool's {wide[0][1]} dimensions, got {wide[1][1]}")
    pixels = [np.asarray(part[:1]).dtype for part in (pool, records) if kind_of(part) is Kind.IMAGES]
    if len({dtype == np.uint8 for dtype in pixels}) == 2:  # an encoder takes bytes to go up to 255, all else as it is
        raise InvalidInput(f"records must have pixels like the pool's {pixels[0]}, got {pixels[1]}")


def first_line(fault: ValueError) -> str:
    return str(fault).splitlines()[0] if str(fault) else type(fault).__name__
