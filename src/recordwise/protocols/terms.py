"""What a user asks of a release, and the protocols that give it: one per round, together within the budget."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from fractions import Fraction
from typing import Any

from recordwise.errors import InvalidInput, positive, whole
from recordwise.privacy.accountant import calibrate, total_epsilon
from recordwise.privacy.events import DiscreteGaussianTally, DiscreteLaplaceTally, Event, Pure
from recordwise.privacy.guarantee import Guarantee, Neighbours, Trust, exact
from recordwise.protocols.central import CentralGaussian, CentralLaplace, CentralPermuteAndFlip
from recordwise.protocols.protocol import Protocol
from recordwise.votes.ballot import Ballot


class Mechanism(StrEnum):
    """How noise is added under central trust."""

    AUTO = "auto"
    LAPLACE = "laplace"
    PERMUTE_AND_FLIP = "permute-and-flip"
    GAUSSIAN = "gaussian"


@dataclass(frozen=True, kw_only=True)
class Terms:
    """The privacy a whole run is allowed to cost.

    Guarantees:
      - the rounds' releases together cost at most (epsilon, delta) under `neighbours`;
      - at delta = 0 they cost exactly epsilon; at delta > 0 less than one part in a thousand of it stays unused.
    """

    epsilon: Fraction
    delta: Fraction = Fraction(0)
    neighbours: Neighbours = Neighbours.REPLACE
    trust: Trust = Trust.CENTRAL
    mechanism: Mechanism = Mechanism.AUTO
    rounds: int = 1

    def __post_init__(self) -> None:
        object.__setattr__(self, "epsilon", exact(self.epsilon))
        object.__setattr__(self, "delta", exact(self.delta))
        positive(epsilon=self.epsilon)
        whole(rounds=self.rounds)
        if not 0 <= self.delta < 1:
            raise InvalidInput(f"delta must lie in [0, 1), got {float(self.delta)!r}")
        if self.mechanism is Mechanism.GAUSSIAN and self.delta == 0:
            raise InvalidInput("the gaussian mechanism needs delta > 0, got 0")

    def protocols(self, ballot: Ballot) -> tuple[Protocol[Any], ...]:
        """One protocol per round; equal rounds, so that every round's labels are equally good."""
        by_name = {
            Mechanism.LAPLACE: self._laplace,
            Mechanism.PERMUTE_AND_FLIP: self._permute_and_flip,
            Mechanism.GAUSSIAN: self._gaussian,
        }
        if self.mechanism is Mechanism.AUTO:
            # Joint decoding needs counts, so permute-and-flip is never chosen for the user; of the two tallies the
            # one with less noise is.
            tallies = [self._laplace, self._gaussian] if self.delta else [self._laplace]
            protocol = min((make(ballot) for make in tallies), key=lambda candidate: candidate.noise_std(0))
        else:
            protocol = by_name[self.mechanism](ballot)
        return (protocol,) * self.rounds

    def guarantee(self, protocols: tuple[Protocol[Any], ...]) -> Guarantee:
        """What the releases of all rounds promise together."""
        return Guarantee(
            epsilon=total_epsilon([protocol.event for protocol in protocols], self.delta),
            delta=self.delta,
            neighbours=self.neighbours,
            trust=self.trust,
        )

    def _laplace(self, ballot: Ballot) -> Protocol[Any]:
        cells = ballot.cells_changed(self.neighbours)
        scale = self._least(lambda noise: DiscreteLaplaceTally(noise, cells), cells)
        return CentralLaplace(ballot=ballot, neighbours=self.neighbours, epsilon=cells / scale)

    def _permute_and_flip(self, ballot: Ballot) -> Protocol[Any]:
        epsilon = 1 / self._least(lambda noise: Pure(1 / noise), 1)
        return CentralPermuteAndFlip(ballot=ballot, neighbours=self.neighbours, epsilon=epsilon)

    def _gaussian(self, ballot: Ballot) -> Protocol[Any]:
        cells = ballot.cells_changed(self.neighbours)
        sigma2 = calibrate(lambda noise: [DiscreteGaussianTally(noise, cells)] * self.rounds, self.epsilon, self.delta)
        return CentralGaussian(ballot=ballot, neighbours=self.neighbours, rho=cells / (2 * sigma2), delta=self.delta)

    def _least(self, event: Callable[[Fraction], Event], loss: int) -> Fraction:
        """The least noise x with which `rounds` times event(x), each of pure epsilon loss / x, fit the budget."""
        exactly = Fraction(loss * self.rounds) / self.epsilon
        if self.delta == 0:
            return exactly
        return min(exactly, calibrate(lambda noise: [event(noise)] * self.rounds, self.epsilon, self.delta))
