"""What to expect of one choice: the real pipeline, simulated in each plausible task."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from recordwise.errors import InvalidInput
from recordwise.planner.outlook import Outlook
from recordwise.planner.simulate import Outcome
from recordwise.protocols.protocol import Protocol
from recordwise.protocols.terms import Terms
from recordwise.votes import Ballot

SPREAD = 0.1  # of the tasks beyond either end of an interval: it holds the other four fifths
BEYOND = 0.02  # and so much wider at either end: four fifths of what was measured lie inside then


@dataclass(frozen=True)
class Expected:
    """A share between 0 and 1: the mean over plausible tasks, and an interval that holds four fifths of them."""

    mean: float
    low: float
    high: float

    @classmethod
    def of(cls, values: Sequence[float]) -> Expected:
        low, high = np.quantile(values, [SPREAD, 1 - SPREAD])
        ends = max(0.0, float(low) - BEYOND), min(1.0, float(high) + BEYOND)
        return cls(round(float(np.mean(values)), 4), round(ends[0], 4), round(ends[1], 4))

    def __str__(self) -> str:
        return f"{100 * self.mean:.1f} % ({100 * self.low:.0f}-{100 * self.high:.0f})"


@dataclass(frozen=True, kw_only=True)
class Prediction:
    """What to expect of one choice.

    Attributes:
      partitions: Of the pool, each into so many queries, at an equal share of the budget: rounds with focus 0.
      label_accuracy: Share of the pool that gets its right label.
      student_accuracy: Share of new samples that the student is right about, if they are like the pool.
      noise_std: Of a released count.
      votes_per_query: Votes that a query gets on average.
    """

    num_queries: int
    votes_per_record: int
    trust: str
    mechanism: str
    partitions: int = 1
    label_accuracy: Expected
    student_accuracy: Expected
    noise_std: float
    votes_per_query: float


def predict(
    outlook: Outlook,
    terms: Terms,
    *,
    num_queries: int,
    votes_per_record: int = 1,
    places: Sequence[int] | None = None,
    room_for: int = 0,
) -> Prediction:
    """What to expect of one choice: the real pipeline, simulated in the outlook's tasks.

    Args:
      places: Of the tasks, from hard to easy; all when None.
      room_for: Simulate on as many samples as so many queries need.
    """
    ballot = Ballot(
        num_queries=num_queries,
        num_classes=outlook.known.num_classes,
        votes_per_record=votes_per_record,
        labels_per_record=outlook.labels_per_record,
    )
    if num_queries > outlook.num_samples:
        raise InvalidInput(f"num_queries must be <= the pool's {outlook.num_samples} samples, got {num_queries}")
    protocols = terms.protocols(ballot, outlook.num_records)
    return prediction(outlook, protocols, outlook.outcomes(protocols, places, room_for=room_for))


def prediction(outlook: Outlook, protocols: tuple[Protocol[Any], ...], outcomes: Sequence[Outcome]) -> Prediction:
    """What runs under these protocols came to, together."""
    protocol = protocols[0]
    ballot = protocol.ballot
    return Prediction(
        num_queries=ballot.num_queries,
        votes_per_record=ballot.votes_per_record,
        trust=str(protocol.trust),
        mechanism=protocol.full_name,
        label_accuracy=Expected.of([one.labels for one in outcomes]),
        student_accuracy=Expected.of([one.student for one in outcomes]),
        noise_std=protocol.noise_std(outlook.num_records),
        votes_per_query=outlook.num_records * ballot.votes_per_record / ballot.num_queries,
    )


def visible(protocol: Protocol[Any], num_records: int) -> float:
    """Votes per query in deviations of their noise."""
    ballot, noise = protocol.ballot, protocol.noise_std(num_records)
    return num_records * ballot.votes_per_record / ballot.num_queries / noise if noise > 0 else np.inf
