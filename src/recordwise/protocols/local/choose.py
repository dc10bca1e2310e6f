"""Which local mechanism to use: the one with the least predicted variance, and the sentence that says so."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

from recordwise.errors import InvalidInput
from recordwise.privacy.guarantee import exact
from recordwise.protocols.local.collision import Collision
from recordwise.protocols.local.mechanism import LocalMechanism
from recordwise.protocols.local.parameters import MECHANISMS
from recordwise.protocols.local.randomized_response import RandomizedResponse
from recordwise.protocols.local.separation import Separation
from recordwise.protocols.local.subset_selection import SubsetSelection
from recordwise.protocols.local.unary_encoding import UnaryEncoding
from recordwise.votes.ballot import Ballot

AUTO = "auto"
AS_GOOD = 1.01  # variances this close count as equal, and the shorter message decides


@dataclass(frozen=True)
class Choice:
    """A mechanism, and why it is the one."""

    mechanism: LocalMechanism
    reason: str


def choose(ballot: Ballot, epsilon: Fraction | float, mechanism: str = AUTO) -> Choice:
    """The mechanism of that name, or the one with the least variance and, among equals, the shortest message.

    Predictions are the mechanisms' exact variances per record, averaged over the cells of a full vote: a function of
    public parameters alone. Concatenation is never chosen, only given to who asks for it by name.
    """
    epsilon = exact(epsilon)
    if mechanism != AUTO:
        if mechanism not in MECHANISMS:
            raise InvalidInput(f"mechanism must be one of {[AUTO, *MECHANISMS]}, got {mechanism!r}")
        return Choice(MECHANISMS[mechanism](ballot=ballot, epsilon=epsilon), f"{mechanism} was asked for")
    kinds: list[type[LocalMechanism]] = [RandomizedResponse, UnaryEncoding, Collision, Separation]
    if ballot.cells_per_record == 1:
        kinds.append(SubsetSelection)
    ranked = sorted((kind(ballot=ballot, epsilon=epsilon) for kind in kinds), key=lambda m: m.mean_variance)
    equals = [candidate for candidate in ranked if candidate.mean_variance <= AS_GOOD * ranked[0].mean_variance]
    best = min(equals, key=lambda candidate: candidate.message_size)
    rank = "the least variance" if best is ranked[0] else "the shortest message within 1 % of the least variance"
    others = ", ".join(
        f"{other.name} {other.mean_variance:.4g} ({other.message_size})" for other in ranked if other is not best
    )
    return Choice(
        best,
        f"{best.name} has {rank} per record and cell at epsilon {float(epsilon):.4g}, k = {ballot.votes_per_record}, "
        f"r = {ballot.labels_per_record}, s = {ballot.num_queries}, C = {ballot.num_classes}: "
        f"{best.mean_variance:.4g} ({best.message_size} bytes), against {others}",
    )
