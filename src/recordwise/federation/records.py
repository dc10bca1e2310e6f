"""A silo's records, and their votes on what is asked: step 4 of the pipeline, on the silo's own machine."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from recordwise.data import Loaded, Samples, Schema
from recordwise.errors import InvalidInput
from recordwise.federation import encoder_bytes
from recordwise.federation.plan import Ask, Plan
from recordwise.votes import Votes

if TYPE_CHECKING:
    from recordwise.pipeline import Question


class Voters(Protocol):
    """Records that can vote, wherever they lie."""

    def votes(self, plan: Plan, ask: Ask) -> Votes: ...


@dataclass(frozen=True, eq=False)
class SiloRecords:
    """Private samples with labels, read when they are asked for, with the schema of whoever asks."""

    read: Callable[[Schema], Loaded]

    @classmethod
    def of(cls, samples: Samples, labels: Any) -> SiloRecords:
        """Records that are in memory already."""
        return cls(lambda schema: Loaded(samples=samples, labels=labels))

    def __repr__(self) -> str:
        return "SiloRecords(private)"

    def votes(self, plan: Plan, ask: Ask) -> Votes:
        """Every record's votes, in the order of the records. Private; who abstains is told on this machine alone."""
        from recordwise.pipeline import vote  # loads scikit-learn, which a silo that waits does not need
        from recordwise.records import Records, read_labels

        loaded = self.read(plan.schema)
        if loaded.labels is None:
            raise InvalidInput("records.labels must name where the records' labels are")
        labels, unlabelled = read_labels(loaded.labels, plan.classes, plan.protocol.ballot.labels_per_record)
        return vote(Records(loaded.samples, labels, unlabelled), question(plan, ask))


def question(plan: Plan, ask: Ask) -> Question:
    """What a round asks, from what came over the wire. The pool is not there, so no encoder was tried out on it."""
    import numpy as np

    from recordwise.pipeline import Question
    from recordwise.queries import Queries

    queries = Queries(
        vectors=ask.queries,
        owner=np.empty(0, dtype=np.int64),
        metric=plan.metric,
        max_distance=plan.max_distance,
        prices=ask.prices,
    )
    return Question(
        round=ask.round,
        schema=plan.schema,
        encoder=encoder_bytes.from_bytes(plan.encoder),
        manner=None,
        queries=queries,
        protocol=plan.protocol,
    )
