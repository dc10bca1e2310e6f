"""Everything about a run that is decided before a record is looked at."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from recordwise.data import Schema
from recordwise.labels import DecoderSettings
from recordwise.protocols.protocol import Protocol
from recordwise.students import StudentSettings, student_from
from recordwise.votes import Ballot


@dataclass(frozen=True, kw_only=True, eq=False)
class Design:
    """Everything about a run that is decided before a record is looked at. Public.

    Attributes:
      protocols: One per round.
      encoder: Not fitted yet.
      queries: What the first round asks, as `queries.first_queries` takes it.
      num_records: Where it is public, as it is under replace-one neighbours; else None. Of silos, the most that
        there may be.
      seed: Of clusters and student, never of noise.
      counted: Whether `num_records` is how many there are.
      stops: Whether a later round is asked only where it is expected to earn its price.
    """

    protocols: tuple[Protocol[Any], ...]
    schema: Schema
    encoder: Any
    queries: Any
    decoder: DecoderSettings
    student: StudentSettings
    num_records: int | None
    seed: int
    counted: bool = True
    stops: bool = False

    @property
    def ballot(self) -> Ballot:
        return self.protocols[0].ballot

    def new_student(self) -> Any:
        return student_from(self.student.model, seed=self.seed)
