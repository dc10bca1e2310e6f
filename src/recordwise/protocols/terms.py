"""What a user asks of a run, and the protocols that give it: one per round, together within the budget."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

from recordwise.errors import InvalidInput, count, positive, whole
from recordwise.privacy.accountant import calibrate, total_epsilon
from recordwise.privacy.events import DiscreteGaussianTally, DiscreteLaplaceTally, Event, Pure
from recordwise.privacy.guarantee import Guarantee, Neighbours, Trust, exact, members
from recordwise.protocols.central import CentralGaussian, CentralLaplace, CentralMatching, CentralPermuteAndFlip
from recordwise.protocols.distributed import DistributedLaplace
from recordwise.protocols.local.choose import choose
from recordwise.protocols.local.parameters import MECHANISMS as LOCAL
from recordwise.protocols.local.questions import Questions
from recordwise.protocols.protocol import Protocol
from recordwise.protocols.shuffle import ShuffleMulti, ShuffleSingle
from recordwise.votes.ballot import Ballot

AUTO, LAPLACE, PERMUTE_AND_FLIP, MATCHING, GAUSSIAN, QUESTIONS, MULTI_MESSAGE = (
    "auto",
    "laplace",
    "permute-and-flip",
    "matching",
    "gaussian",
    Questions.name,
    "multi-message",
)
MECHANISMS: dict[Trust, tuple[str, ...]] = {
    Trust.CENTRAL: (AUTO, LAPLACE, PERMUTE_AND_FLIP, MATCHING, GAUSSIAN),
    Trust.DISTRIBUTED: (AUTO, LAPLACE),
    Trust.LOCAL: (AUTO, *LOCAL, QUESTIONS),
    Trust.SHUFFLE: (AUTO, MULTI_MESSAGE, *LOCAL),
}
ONE_EACH = (MATCHING, QUESTIONS)  # they take clusters to be the classes, and give every class one
MOST_MESSAGES = 100.0  # per sender: "auto" floods the shuffler no further than this


@dataclass(frozen=True, kw_only=True)
class Terms:
    """The privacy a whole run is allowed to cost.

    Guarantees:
      - the rounds' releases together cost at most (epsilon, delta) under `neighbours`;
      - at delta = 0 they cost exactly epsilon; at delta > 0 central and local rounds leave less than one part in a
        thousand of it unused, and shuffled rounds share it evenly.

    Attributes:
      mechanism: One of MECHANISMS for the trust at hand.
      parties: Under distributed trust, how many parties hold the records; each adds its share of the noise. A single
        party makes all the noise and could take it away: it is trusted as an aggregator is under central trust.
      colluding: Under distributed and shuffle trust, so many of those who add noise may read the release, or tell
        their noise to who does: it does not count. 0 counts everybody's, and the guarantee says what is left then.
    """

    epsilon: Fraction
    delta: Fraction = Fraction(0)
    neighbours: Neighbours = Neighbours.REPLACE
    trust: Trust = Trust.CENTRAL
    mechanism: str = AUTO
    rounds: int = 1
    parties: int = 1
    colluding: int = 1

    def __post_init__(self) -> None:
        object.__setattr__(self, "epsilon", exact(self.epsilon, "epsilon"))
        object.__setattr__(self, "delta", exact(self.delta, "delta"))
        members(self, neighbours=Neighbours, trust=Trust)
        positive(epsilon=self.epsilon)
        whole(rounds=self.rounds, parties=self.parties)
        count(colluding=self.colluding)
        if self.trust is Trust.DISTRIBUTED and not self.colluding < max(2, self.parties):
            raise InvalidInput(f"colluding must leave one of {self.parties} parties honest, got {self.colluding}")
        if not 0 <= self.delta < 1:
            raise InvalidInput(f"delta must lie in [0, 1), got {float(self.delta)!r}")
        allowed = MECHANISMS[self.trust]
        if self.mechanism not in allowed:
            raise InvalidInput(f"mechanism under {self.trust} trust must be one of {allowed}, got {self.mechanism!r}")
        if self.delta == 0 and (self.trust is Trust.SHUFFLE or self.mechanism == GAUSSIAN):
            wish = "shuffle trust" if self.trust is Trust.SHUFFLE else "the gaussian mechanism"
            raise InvalidInput(f"{wish} needs delta > 0, got 0")
        if self.mechanism in ONE_EACH and self.rounds > 1:
            raise InvalidInput(
                f"mechanism {self.mechanism!r} takes every class to have one cluster, and later rounds ask single "
                f"samples: rounds must be 1, got {self.rounds}"
            )
        if self.trust is Trust.LOCAL and self.neighbours is not Neighbours.REPLACE:
            raise InvalidInput(
                f"local trust hides what a record says, not that it sent a message: neighbours must be replace, "
                f"got {self.neighbours}"
            )

    def protocols(self, ballot: Ballot, num_records: int) -> tuple[Protocol[Any], ...]:
        """One protocol per round; equal rounds, so that every round's labels are equally good.

        Args:
          num_records: How many records will vote: the senders under shuffle trust, and a public bound on any count
            under distributed trust. Central and local protocols do not depend on it.
        """
        make = {
            Trust.CENTRAL: self._central,
            Trust.DISTRIBUTED: self._distributed,
            Trust.LOCAL: self._local,
            Trust.SHUFFLE: self._shuffle,
        }[self.trust]
        return (make(ballot, num_records),) * self.rounds

    def guarantee(self, protocols: tuple[Protocol[Any], ...]) -> Guarantee:
        """What the releases of all rounds promise together."""
        return promised(protocols, self.delta)

    def _central(self, ballot: Ballot, num_records: int) -> Protocol[Any]:
        makers = {
            LAPLACE: self._laplace,
            PERMUTE_AND_FLIP: self._permute_and_flip,
            MATCHING: self._matching,
            GAUSSIAN: self._gaussian,
        }
        if self.mechanism != AUTO:
            return makers[self.mechanism](ballot)
        # Joint decoding needs counts, so permute-and-flip is never chosen for the user, and matching takes clusters to
        # be the classes, which only the user can know; of the tallies the one with less noise is.
        tallies = [self._laplace(ballot), *([self._gaussian(ballot)] if self.delta else [])]
        return min(tallies, key=lambda protocol: protocol.noise_std(num_records))

    def _laplace(self, ballot: Ballot) -> Protocol[Any]:
        return CentralLaplace(ballot=ballot, neighbours=self.neighbours, epsilon=self._laplace_epsilon(ballot))

    def _permute_and_flip(self, ballot: Ballot) -> Protocol[Any]:
        return CentralPermuteAndFlip(ballot=ballot, neighbours=self.neighbours, epsilon=self._pure_epsilon())

    def _matching(self, ballot: Ballot) -> Protocol[Any]:
        return CentralMatching(ballot=ballot, neighbours=self.neighbours, epsilon=self._pure_epsilon())

    def _gaussian(self, ballot: Ballot) -> Protocol[Any]:
        cells = ballot.cells_changed(self.neighbours)
        sigma2 = calibrate(lambda noise: [DiscreteGaussianTally(noise, cells)] * self.rounds, self.epsilon, self.delta)
        return CentralGaussian(ballot=ballot, neighbours=self.neighbours, rho=cells / (2 * sigma2), delta=self.delta)

    def _distributed(self, ballot: Ballot, num_records: int) -> Protocol[Any]:
        honest = self._honest(self.parties)
        return DistributedLaplace(
            ballot=ballot,
            epsilon=self._laplace_epsilon(ballot),
            survivors=honest,
            colluding=self.parties - honest,
            parties=self.parties,
            largest_count=num_records,
            neighbours=self.neighbours,
        )

    def _local(self, ballot: Ballot, num_records: int) -> Protocol[Any]:
        if self.mechanism == QUESTIONS:
            return Questions(ballot=ballot, epsilon=self._pure_epsilon())
        return choose(ballot, self._pure_epsilon(), self.mechanism).mechanism

    def _shuffle(self, ballot: Ballot, num_records: int) -> Protocol[Any]:
        honest = self._honest(num_records)
        share = {"epsilon": self.epsilon / self.rounds, "delta": self.delta / self.rounds, "senders": honest}
        share["colluding"] = num_records - honest
        multi = ShuffleMulti(ballot=ballot, neighbours=self.neighbours, **share)  # type: ignore[arg-type]
        if self.mechanism == MULTI_MESSAGE:
            return multi
        if self.neighbours is not Neighbours.REPLACE:
            raise InvalidInput(
                f"one message per sender tells how many senders there are: neighbours must be replace, or mechanism "
                f"{MULTI_MESSAGE!r}, got {self.neighbours}"
            )
        single = ShuffleSingle(ballot=ballot, mechanism=self.mechanism, **share)  # type: ignore[arg-type]
        if self.mechanism != AUTO or multi.expected_messages > MOST_MESSAGES:
            return single
        return min(single, multi, key=lambda protocol: protocol.noise_std(num_records))

    def _honest(self, senders: int) -> int:
        """How many of those who add noise are relied on: all but the colluding, and never none."""
        return max(1, senders - self.colluding)

    def _laplace_epsilon(self, ballot: Ballot) -> Fraction:
        cells = ballot.cells_changed(self.neighbours)
        return cells / self._least_noise(lambda noise: DiscreteLaplaceTally(noise, cells), cells)

    def _pure_epsilon(self) -> Fraction:
        return 1 / self._least_noise(lambda noise: Pure(1 / noise), 1)

    def _least_noise(self, event: Callable[[Fraction], Event], loss: int) -> Fraction:
        """The least noise x with which `rounds` times event(x), each of pure epsilon loss / x, fit the budget."""
        exactly = Fraction(loss * self.rounds) / self.epsilon
        if self.delta == 0:
            return exactly
        return min(exactly, calibrate(lambda noise: [event(noise)] * self.rounds, self.epsilon, self.delta))


def promised(protocols: Sequence[Protocol[Any]], delta: Fraction) -> Guarantee:
    """What one release of each protocol promises, all together, at `delta`."""
    insiders = [protocol.insider_event for protocol in protocols]
    known = [event for event in insiders if event is not None]
    return replace(
        protocols[0].guarantee,
        epsilon=total_epsilon([protocol.event for protocol in protocols], delta),
        delta=delta,
        insider_epsilon=total_epsilon(known, delta) if len(known) == len(insiders) else None,
    )
