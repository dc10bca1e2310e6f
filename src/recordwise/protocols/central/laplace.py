"""Discrete Laplace noise on every cell of a tally."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, ClassVar

from recordwise.privacy.events import DiscreteLaplaceTally, Event
from recordwise.privacy.noise import DiscreteLaplace
from recordwise.protocols.central.counts import NoisyCells, PureCentral
from recordwise.protocols.pairs import Pair
from recordwise.protocols.registry import register
from recordwise.protocols.views import Exact, change, pure_cells
from recordwise.votes.ballot import Ballot

if TYPE_CHECKING:
    from recordwise.protocols.terms import Terms


@register
@dataclass(frozen=True, kw_only=True)
class CentralLaplace(NoisyCells, PureCentral):
    """Discrete Laplace noise on every cell: pure epsilon.

    Guarantees:
      - one release is epsilon-DP for one record under `neighbours`;
      - its scale is the number of cells a neighbour changes, over epsilon, as an exact fraction.
    """

    name: ClassVar[str] = "laplace"
    sells_votes: ClassVar[bool] = True

    @classmethod
    def planned(cls, terms: Terms, ballot: Ballot, num_records: int) -> CentralLaplace:
        return cls(ballot=ballot, neighbours=terms.neighbours, epsilon=terms.laplace_epsilon(ballot))

    @classmethod
    def automatic(cls, terms: Terms, ballot: Ballot, num_records: int) -> bool:
        return True

    @classmethod
    def paid_by_vote(cls, terms: Terms, ballot: Ballot, round_epsilon: Fraction) -> CentralLaplace:
        # All its votes cost a record its part of the round, whatever cells two neighbours share.
        share = Fraction(ballot.cells_changed(terms.neighbours), ballot.cells_per_record)
        epsilon = round_epsilon * share / terms.neighbours.records_changed
        return cls(ballot=ballot, neighbours=terms.neighbours, epsilon=epsilon)

    @property
    def law(self) -> DiscreteLaplace:
        return DiscreteLaplace(self.ballot.cells_changed(self.neighbours) / self.epsilon)

    @property
    def event(self) -> Event:
        return DiscreteLaplaceTally(self.law.scale, self.ballot.cells_changed(self.neighbours))

    @property
    def epsilon_per_vote(self) -> Fraction:
        return 1 / self.law.scale

    def exact_epsilon(self, pair: Pair, parties: int | None) -> Exact:
        return pure_cells(self.law, change(self.ballot, pair)), "the largest ratio of every changed cell, added up"
