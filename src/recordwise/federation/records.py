"""A silo's records, and their votes on what is asked: steps 1 and 4, on the silo's own machine."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from recordwise.data import Loaded, Samples, rows
from recordwise.encoders import encode
from recordwise.errors import InvalidInput
from recordwise.federation.plan import Plan
from recordwise.votes import Ballot, Votes, cast_votes

CHUNK = 65_536  # records encoded and connected at a time, so that memory does not grow with their number


class Voters(Protocol):
    """Records that can vote, wherever they lie."""

    def votes(self, encoder: Any, queries: NDArray[np.float32], plan: Plan) -> Votes: ...


@dataclass(frozen=True, eq=False)
class Records:
    """Private samples with labels."""

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
        numbers = class_numbers(self.labels, plan.classes, ballot)
        picks, labels = [], []
        for start in range(0, len(self), CHUNK):
            some = slice(start, start + CHUNK)
            vectors = encode(encoder, rows(self.samples, some), dim=queries.shape[1])
            part = cast_votes(
                vectors, numbers[some], queries, ballot, metric=plan.metric, max_distance=plan.max_distance
            )
            picks.append(part.queries)
            labels.append(part.labels)
        if not picks:
            raise InvalidInput("a silo must hold at least one record, got 0")
        return Votes(ballot, np.concatenate(picks), np.concatenate(labels))


def class_numbers(labels: NDArray[Any], classes: tuple[Any, ...], ballot: Ballot) -> NDArray[Any]:
    """Labels as places in the public list of classes; a 0/1 matrix stays as it is."""
    values = np.asarray(labels)
    if ballot.labels_per_record > 1:
        return values
    known = np.asarray(classes)
    if values.ndim != 1 or (known.dtype.kind in "US") != (values.dtype.kind in "USO"):
        raise InvalidInput(f"labels must be (n,) values of the kind of the {len(known)} declared classes")
    order = np.argsort(known)
    place = np.searchsorted(known, values, sorter=order).clip(0, len(known) - 1)
    numbers: NDArray[np.intp] = order[place]
    unknown = np.flatnonzero(known[numbers] != values)
    if len(unknown):
        raise InvalidInput(f"labels must be declared classes, row {unknown[0]} holds another")
    return numbers
