"""Private records: read with the public schema, one by one, into votes.

Every function here gives a record what follows from that record and from public values alone. A record that cannot be
read, encoded or labelled abstains; nothing raises because of what a record holds. How many abstained, and why, is for
their holder: it is logged on this machine and returned to nobody.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum
from pathlib import Path
from typing import Any, ClassVar, NoReturn

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils import column_or_1d
from sklearn.utils.multiclass import check_classification_targets

from recordwise.data import Samples, Schema, copies, rows
from recordwise.data.cells import missing, number_of, word_of
from recordwise.data.held import adopted_labels
from recordwise.encoders import Manner, encode
from recordwise.errors import InvalidInput, first_line, shown, whole
from recordwise.hashing import fingerprint
from recordwise.nearest.poll import Poll
from recordwise.nearest.search import NUMPY
from recordwise.progress import part
from recordwise.queries import Queries
from recordwise.settings import Settings
from recordwise.votes import NOBODY, Ballot, Votes

log = logging.getLogger("recordwise.records")  # for the holder of the records, on the holder's own machine

# Records read, encoded and connected at a time. Of each one only its votes, its labels and why it abstains are kept:
# 4·(k + 2·r) + 4 bytes. Beyond that memory does not grow with their number.
CHUNK, CHUNK_BYTES = 65_536, 1 << 28
READ = 0.3  # of the work on a chunk, about: its samples are read
COPIES_VOTE, COPIES_ABSTAIN = "vote", "abstain"  # what a record does that also lies in the pool


LABELS = "biufUSOT"  # kinds of arrays that labels may come in
MOST_CLASS = 2.0**53  # beyond, two whole numbers may be one float


class Why(IntEnum):
    """Why a record abstains."""

    VOTES = 0
    UNREADABLE = 1
    NO_VECTOR = 2
    NO_LABEL = 3
    UNDECLARED = 4
    TOO_MANY = 5
    COPY = 6
    FAR = 7


WORDS = {
    Why.UNREADABLE: "with a sample that the schema cannot read",
    Why.NO_VECTOR: "with a sample that the encoder makes no finite vector of",
    Why.NO_LABEL: "without a readable label",
    Why.UNDECLARED: "with a class that is not declared",
    Why.TOO_MANY: "with more labels than labels_per_record",
    Why.COPY: "that also lie in the pool",
    Why.FAR: "farther than queries.max_distance from every query",
}
Reasons = NDArray[np.int8]  # (n,) of Why. Private.


@dataclass(frozen=True, kw_only=True)
class RecordSettings(Settings):
    """What is publicly known of the private records, and how they are read.

    Attributes:
      schema: How records are read: a `Schema`, a mapping, or a JSON or TOML file; None is what the pool fixes.
      overlap: What records do that also lie in the pool: "vote" or "abstain". Whether a record abstains depends on that
        record and the public pool alone.
      categorical: Names of columns that hold codes: each is read as a category, whatever its cells look like.
      expected: A public guess of the number of records; needed under add-remove, where their number is private, for
        num_queries="auto" and for shuffle trust. There so many take part, whatever the number of records.
      labels_per_record: How many classes a record may have at most (r); more than one makes `y` a 0/1 matrix.
    """

    of: ClassVar[str] = "records"
    by_name: ClassVar[bool] = False
    schema: Schema | Mapping[str, Any] | str | Path | None = None
    overlap: str = COPIES_VOTE
    categorical: tuple[str, ...] = ()
    expected: int | None = None
    labels_per_record: int = 1

    def __post_init__(self) -> None:
        if not (self.schema is None or isinstance(self.schema, Schema | Mapping | str | Path)):
            raise InvalidInput(f"records.schema must be a schema, its settings or a file, got {shown(self.schema)}")
        _check_overlap(self.overlap)
        listed = isinstance(self.categorical, Sequence) and not isinstance(self.categorical, str | bytes)
        if not listed or not all(isinstance(name, str) for name in self.categorical):
            raise InvalidInput(f"records.categorical must be a list of columns, got {shown(self.categorical)}")
        object.__setattr__(self, "categorical", tuple(self.categorical))
        if self.expected is not None:
            whole(**{"records.expected": self.expected})
        whole(**{"records.labels_per_record": self.labels_per_record})


def _check_overlap(overlap: str) -> None:
    if overlap not in (COPIES_VOTE, COPIES_ABSTAIN):
        raise InvalidInput(f"overlap must be {COPIES_VOTE!r} or {COPIES_ABSTAIN!r}, got {overlap!r}")


# The public list of classes


def public_classes(labels: Any, *, classes: ArrayLike | None, labels_per_record: int) -> NDArray[Any]:
    """The list of classes: as declared and in that order, or read off the labels, which makes it public."""
    whole(labels_per_record=labels_per_record)
    if classes is not None:
        names = declared_classes(classes)
    elif labels_per_record > 1:
        shape = np.shape(labels)
        if len(shape) != 2:
            raise InvalidInput(f"y must be a 0/1 matrix (n, C) when a record may have several labels, got {shape}")
        names = np.arange(shape[1])
    else:
        names = _held_classes(labels)
    if not len(names):
        raise InvalidInput("classes must name at least one class, got none")
    return names


def declared_classes(classes: Any) -> NDArray[Any]:
    """The classes as an array, in their order: finite numbers, or text, or booleans, each of them once.

    A label is compared with them by value or by its text, so what is the same then is the same here: 1 and 1.0, and
    "a" and " a".
    """
    listed = hasattr(classes, "__array__") or (isinstance(classes, Sequence) and not isinstance(classes, str | bytes))
    form = getattr(classes, "shape", None)
    if not listed or (form is not None and len(form) != 1):
        raise InvalidInput(f"classes must be a list of names or numbers, got {shown(classes)}")
    if np.ma.is_masked(classes):
        raise InvalidInput("classes must have no gaps, one is masked")
    dtype = getattr(classes, "dtype", None)
    if isinstance(dtype, np.dtype) and dtype.kind == "f":
        classes = np.asarray(classes, dtype=np.float64)
    held = [one.item() if isinstance(one, np.generic) else one for one in classes]
    if not held:
        raise InvalidInput("classes must name at least one class, got none")
    flags = all(isinstance(one, bool) for one in held)
    numbers = all(isinstance(one, int | float) and not isinstance(one, bool) for one in held)
    if not (flags or numbers or all(isinstance(one, str | bytes) for one in held)):
        raise InvalidInput(f"classes must be all numbers, all text or all booleans, got {shown(held)}")
    meanings: list[Any] = [number_of(one) if flags or numbers else word_of(one) for one in held]
    times = Counter(meanings)
    for one, meaning in zip(held, meanings, strict=True):
        if not (abs(meaning) <= MOST_CLASS if flags or numbers else meaning and "\0" not in meaning):
            raise InvalidInput(f"classes must be finite numbers up to 2^53, or text that can be read, got {shown(one)}")
        if times[meaning] > 1:
            raise InvalidInput(f"classes must be different, {shown(one)} is there {times[meaning]} times")
    return np.array(held)


def _held_classes(held: Any) -> NDArray[Any]:
    try:
        labels = np.asarray(held)
    except ValueError as fault:
        raise InvalidInput(
            f"y must hold labels of one kind where classes are not declared: {first_line(fault)}"
        ) from fault
    if labels.ndim > 1 and labels.shape[1:] != (1,):
        raise InvalidInput(f"y must have shape (n,), got {labels.shape}; set labels_per_record for several labels")
    labels = labels.ravel()
    if labels.dtype == object:
        present = [label for label in labels.tolist() if not missing(label) and word_of(label) is not None]
        if present and all(isinstance(label, str | bytes) for label in present):
            return np.unique(np.array([word_of(label) for label in present]))
        labels = np.array(present) if len({isinstance(label, str) for label in present}) < 2 else np.array([])
        if not len(present) or labels.dtype.kind not in "biuf":
            raise InvalidInput("y must hold labels of one kind where classes are not declared")
    if labels.dtype.kind == "f":
        labels = labels[np.isfinite(labels)]
    try:
        check_classification_targets(labels)
    except (ValueError, TypeError) as fault:
        raise InvalidInput(first_line(fault)) from fault
    return np.unique(declared_classes(np.unique(labels)))


# Labels


def as_labels(y: Any, num_records: int) -> Any:
    """The labels as they came, one for each record: an array or a sequence."""
    if y is None:
        raise InvalidInput("fit requires y to be passed, but the target y is None")
    y = adopted_labels(y)
    if hasattr(y, "to_numpy"):
        y = y.to_numpy(dtype=object)
    held = y if isinstance(y, np.ndarray | Sequence) else np.asarray(y)
    if isinstance(held, str | bytes) or (isinstance(held, np.ndarray) and not held.ndim):
        raise InvalidInput(f"y must have shape (n,), got {'text' if isinstance(held, str | bytes) else ()}")
    if isinstance(held, np.ndarray) and held.dtype.kind not in LABELS:
        raise InvalidInput(f"y must hold numbers, text or booleans, got {str(held.dtype)[:60]}")
    if isinstance(held, np.ma.MaskedArray):
        gaps = np.ma.getmaskarray(held)
        held = np.array(held, dtype=object)
        held[gaps] = None  # a gap is that record's own
    if len(held) != num_records:
        raise InvalidInput(f"y must have one label for each of the {num_records} records, got {len(held)}")
    return held


def check_labels(labels: Any, num_classes: int, labels_per_record: int) -> None:
    """Refuse the form of the labels, which is public: how many columns an array has."""
    if not isinstance(labels, np.ndarray):
        return
    shape = labels.shape
    if labels_per_record > 1 and (len(shape) != 2 or shape[1] != num_classes):
        raise InvalidInput(
            f"y must be a 0/1 matrix (n, {num_classes}) when a record may have several labels, got {shape}; classes "
            "must be as many as its columns"
        )
    if labels_per_record == 1 and len(shape) != 1 and shape[1:] != (1,):
        raise InvalidInput(f"y must have shape (n,), got {shape}; set labels_per_record for several labels")


def check_names(labels: Any, names: NDArray[Any]) -> None:
    """Refuse classes that are text where an array of labels holds numbers: what is learnt would answer with text.

    Of a pandas column no type is asked: pandas takes it from the cells, so that one record's label would decide.
    """
    dtype = getattr(labels, "dtype", None)
    if names.dtype.kind in "US" and isinstance(dtype, np.dtype) and dtype.kind in "biuf":
        raise InvalidInput(
            f"classes are text, such as {shown(str(names[0]))}, and y holds numbers ({dtype}): declare classes as "
            "numbers, or pass y as text"
        )


def read_labels(
    labels: Any, names: Sequence[Any] | NDArray[Any], labels_per_record: int
) -> tuple[NDArray[np.int32], Reasons]:
    """Each record's classes (n, r) as numbers in the public list, NOBODY where it has fewer; and who has none at all.

    A label is compared with the declared classes on its own: by value where they are numbers ("2", 2 and 2.0 are class
    2), by their text otherwise.
    """
    if labels_per_record > 1:
        return _read_indicators(labels, len(names), labels_per_record)
    if isinstance(labels, np.ndarray) and labels.ndim == 2:
        labels = column_or_1d(labels, warn=True)
    known = np.asarray(names)
    by_value = known.dtype.kind in "biuf"
    read: Callable[[Any], Any] = number_of if by_value else word_of
    place_of = {read(name): place for place, name in enumerate(known.tolist())}
    numbers = np.full((len(labels), 1), NOBODY, dtype=np.int32)
    why = np.zeros(len(labels), dtype=np.int8)
    for row, label in enumerate(labels):
        value = read(label)
        if value in place_of:
            numbers[row] = place_of[value]
        else:
            why[row] = Why.NO_LABEL if word_of(label) is None else Why.UNDECLARED
    return numbers, why


def _read_indicators(held: Any, num_classes: int, labels_per_record: int) -> tuple[NDArray[np.int32], Reasons]:
    numbers = np.full((len(held), labels_per_record), NOBODY, dtype=np.int32)
    why = np.zeros(len(held), dtype=np.int8)
    for row, cells in enumerate(held):
        is_row = isinstance(cells, Sequence) or (isinstance(cells, np.ndarray) and cells.ndim == 1)
        values = [number_of(cell) for cell in cells] if is_row and not isinstance(cells, str | bytes) else []
        chosen = [place for place, value in enumerate(values) if value == 1]
        if len(values) != num_classes or any(value not in (0, 1) for value in values):
            why[row] = Why.NO_LABEL
        elif len(chosen) > labels_per_record:
            why[row] = Why.TOO_MANY
        else:
            numbers[row, : len(chosen)] = chosen
    return numbers, why


# Votes


@dataclass(frozen=True, eq=False)
class Records:
    """Private samples as they came, with their labels read. Shows nothing of them, and is never pickled.

    Attributes:
      labels: (n, r) places in the public list of classes, from `read_labels`.
      unlabelled: Who has no label, and why.
      pool: Public samples, read with the schema, to look for copies in; None does not look.
      overlap: What a record does that also lies in the pool: "vote" or "abstain". It depends on that record alone.
    """

    samples: Samples
    labels: NDArray[np.int32]
    unlabelled: Reasons
    pool: Samples | None = None
    overlap: str = COPIES_VOTE

    def __post_init__(self) -> None:
        _check_overlap(self.overlap)

    def __len__(self) -> int:
        return len(self.labels)

    def __repr__(self) -> str:
        return "Records(private)"

    def __reduce__(self) -> NoReturn:
        raise InvalidInput("records are private and must not be pickled, logged or written to disk")

    def fingerprint(self) -> str:
        """What tells these records, in their order, from any others. As private as the records."""
        try:
            return fingerprint([self.samples, self.labels])
        except Exception:  # because of one of them, which is told from others by its place and its label alone
            each = [_told(rows(self.samples, slice(row, row + 1))) for row in range(len(self))]
            return fingerprint([each, self.labels])


def _told(sample: Samples) -> str:
    """What tells one sample from others; nothing where it holds what cannot be written down."""
    try:
        return fingerprint(sample)
    except Exception:  # whatever it holds, it stays here
        return ""


def cast(
    records: Records,
    *,
    schema: Schema,
    encoder: Any,
    manner: Manner | None,
    queries: Queries,
    ballot: Ballot,
) -> tuple[Votes, Reasons, int]:
    """Every record's votes, in the order of the records; why some abstain; how many equal a pool sample. All private.

    Guarantees:
      - a record's row depends on that record and on public arguments alone, as far as `manner` promises it of vectors;
      - what a record holds never raises.
    """
    # A mistake in what is public is one for any number of records, none included.
    schema.check_form(records.samples)
    Poll.open(queries.vectors, ballot.votes_per_record, queries.metric, queries.max_distance, queries.prices)
    picks = np.full((len(records), ballot.votes_per_record), NOBODY, dtype=np.int32)
    why, copied = np.zeros(len(records), dtype=np.int8), 0
    step = max(1, min(CHUNK, CHUNK_BYTES // max(schema.sample_bytes, queries.vectors[0].nbytes)))
    for start in range(0, len(records), step):
        some = slice(start, start + step)
        with part(start, start + step, len(records)):
            with part(0.0, READ):
                read = schema.read(rows(records.samples, some))
            with part(READ, 1.0):
                vectors = encode(encoder, read.samples, manner=manner, dim=queries.vectors.shape[1])
        finite = np.isfinite(vectors).all(axis=1)
        reason = np.where(read.readable, np.where(finite, Why.VOTES, Why.NO_VECTOR), Why.UNREADABLE)
        if records.pool is not None:
            same = copies(read.samples, records.pool) & read.readable
            copied += int(same.sum())
            if records.overlap == COPIES_ABSTAIN:
                reason[same] = Why.COPY
        near = queries.nearest(vectors, ballot.votes_per_record, NUMPY)
        picks[some] = near
        why[some] = reason
    # Some mechanisms send queries and labels apart: who abstains leaves neither.
    silent = (why != Why.VOTES) | (records.labels == NOBODY).all(axis=1)
    labels = records.labels.copy()
    picks[silent], labels[silent] = NOBODY, NOBODY
    why[~silent & (picks == NOBODY).all(axis=1)] = Why.FAR
    return Votes(ballot, picks, labels), why, copied


def tell_holder(why: Reasons, copied: int, overlap: str) -> None:
    """Log, on the holder's own machine, how many records abstain and why. Nothing of it is published."""
    counts = {reason: int((why == reason).sum()) for reason in WORDS}
    if any(counts.values()):
        parts = ", ".join(f"{count:,} {WORDS[reason]}" for reason, count in counts.items() if count)
        log.warning(
            "for the holder only: %s of %s records abstain: %s", f"{sum(counts.values()):,}", f"{len(why):,}", parts
        )
    else:
        log.info("for the holder only: none of %s records abstains", f"{len(why):,}")
    if copied and overlap == COPIES_VOTE:
        log.warning(
            'for the holder only: %s of %s records also lie in the pool, and vote; overlap="abstain" keeps them out',
            f"{copied:,}",
            f"{len(why):,}",
        )
