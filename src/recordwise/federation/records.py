"""A silo's records, and their votes on what is asked: steps 1 and 4, on the silo's own machine."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from recordwise.data import Loaded, Samples, rows
from recordwise.errors import InvalidInput
from recordwise.federation.plan import Plan
from recordwise.votes import NOBODY, Ballot, Votes, cast_votes

log = logging.getLogger("recordwise.federation")  # for the operator of this machine alone

CHUNK = 65_536  # records encoded and connected at a time, so that memory does not grow with their number


class Voters(Protocol):
    """Records that can vote, wherever they lie."""

    def votes(self, encoder: Any, queries: NDArray[np.float32], plan: Plan) -> Votes: ...


@dataclass(frozen=True, eq=False)
class Records:
    """Private samples with labels.

    Guarantees:
      - a record that cannot be encoded, or whose class nobody declared, abstains: no record makes the others' votes
        fail, and which ones abstain is told on this machine alone.
    """

    samples: Samples
    labels: NDArray[Any]

    @classmethod
    def of(cls, loaded: Loaded) -> Records:
        if loaded.labels is None:
            raise InvalidInput("records.labels must name where the records' labels are")
        return cls(loaded.samples, loaded.labels)

    def __len__(self) -> int:
        return len(self.labels)

    def __repr__(self) -> str:
        return "Records(private)"

    def votes(self, encoder: Any, queries: NDArray[np.float32], plan: Plan) -> Votes:
        """Every record's votes, in the order of the records. Private."""
        ballot = plan.protocol.ballot
        numbers, declared = class_numbers(self.labels, plan.classes, ballot)
        picks = [np.empty((0, ballot.votes_per_record), np.int32)]
        labels = [np.empty((0, ballot.labels_per_record), np.int32)]
        lost = 0
        for start in range(0, len(self), CHUNK):
            some = slice(start, start + CHUNK)
            vectors, encoded = _encoded(encoder, rows(self.samples, some), queries[0])
            part = cast_votes(
                vectors, numbers[some], queries, ballot, metric=plan.metric, max_distance=plan.max_distance
            )
            silent = ~(encoded & declared[some])
            lost += int((~encoded).sum())
            picks.append(np.where(silent[:, None], np.int32(NOBODY), part.queries))
            labels.append(np.where(silent[:, None], np.int32(NOBODY), part.labels))
        if lost or not declared.all():
            log.warning(
                "of %d records %d abstain because they cannot be encoded, %d because nobody declared their class",
                len(self),
                lost,
                int((~declared).sum()),
            )
        return Votes(ballot, np.concatenate(picks), np.concatenate(labels))


def class_numbers(
    labels: NDArray[Any], classes: tuple[Any, ...], ballot: Ballot
) -> tuple[NDArray[Any], NDArray[np.bool_]]:
    """Labels as places in the public list of classes, or as rows of 0 and 1; and which are declared."""
    values = np.asarray(labels)
    if ballot.labels_per_record > 1:
        if values.ndim != 2 or values.shape[1] != ballot.num_classes:
            return np.zeros((len(values), ballot.num_classes), np.int8), np.zeros(len(values), np.bool_)
        ones = values == 1
        declared = (ones | (values == 0)).all(axis=1) & (ones.sum(axis=1) <= ballot.labels_per_record)
        return np.where(declared[:, None], ones, False).astype(np.int8), declared
    places = {one: place for place, one in enumerate(classes)}
    numbers = np.array(
        [_place(value, places) for value in (values.tolist() if values.ndim == 1 else [None] * len(values))]
    )
    declared = numbers != NOBODY
    return np.where(declared, numbers, 0).astype(np.intp), declared.astype(np.bool_)


def _place(value: Any, places: dict[Any, int]) -> int:
    try:
        return places.get(value, NOBODY)
    except TypeError:  # not hashable, so no class
        return NOBODY


def _encoded(
    encoder: Any, samples: Samples, anywhere: NDArray[np.float32]
) -> tuple[NDArray[np.float32], NDArray[np.bool_]]:
    """A vector for each sample, `anywhere` for those that have none; and which have one."""
    from recordwise.encoders import encode  # loads scikit-learn, which a silo that waits does not need

    try:
        vectors = encode(encoder, samples)
        if vectors.shape == (len(samples), len(anywhere)):
            return vectors, np.ones(len(samples), np.bool_)
    except Exception:  # one of them, at least: whatever a record makes an encoder raise
        log.debug("a batch is encoded record by record", exc_info=True)
    vectors, encoded = np.tile(anywhere, (len(samples), 1)), np.zeros(len(samples), np.bool_)
    for row in range(len(samples)):
        try:
            vectors[row] = encode(encoder, rows(samples, slice(row, row + 1)))[0]
            encoded[row] = True
        except Exception:
            continue
    return vectors, encoded
