"""What a user asks of a run, and the protocols that give it: one per round, together within the budget."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import KW_ONLY, dataclass, replace
from fractions import Fraction
from typing import Any, ClassVar

from recordwise.errors import InvalidInput, count, positive, whole
from recordwise.privacy.accountant import calibrate, total_epsilon
from recordwise.privacy.events import DiscreteLaplaceTally, Event, Pure
from recordwise.privacy.guarantee import Guarantee, Neighbours, Trust, exact, members, one_of
from recordwise.protocols.choose import least_noise, reason
from recordwise.protocols.protocol import Protocol, Silos
from recordwise.protocols.registry import kind_named, kinds
from recordwise.settings import AUTO, Settings
from recordwise.votes.ballot import Ballot

SMALLEST_APPROXIMATE = Fraction(1, 10**6)


@dataclass(frozen=True)
class TrustSettings(Settings):
    """Who may see votes without noise.

    Attributes:
      name: "central", "distributed", "local" or "shuffle".
      parties: Under distributed trust, how many parties hold the records. One party makes all noise itself, and could
        take it away: it is trusted like the aggregator under central trust.
      colluding: Under distributed and shuffle trust, how many of those who add noise may read the release, or tell
        their noise to somebody who does. 0 counts everybody's noise; the guarantee says what then holds against them.
    """

    of: ClassVar[str] = "trust"
    name: Trust = Trust.CENTRAL
    _: KW_ONLY
    parties: int = 1
    colluding: int = 1

    def __post_init__(self) -> None:
        object.__setattr__(self, "name", one_of(Trust, trust=self.name))
        whole(**{"trust.parties": self.parties})
        count(**{"trust.colluding": self.colluding})


@dataclass(frozen=True, kw_only=True)
class Terms:
    """The privacy a whole run is allowed to cost.

    Guarantees:
      - the rounds' releases together cost at most (epsilon, delta) under `neighbours`;
      - at delta = 0 they cost exactly epsilon; at delta > 0 central and local rounds leave less than one part in a
        thousand of it unused, and shuffled rounds share it evenly.

    Attributes:
      mechanism: "auto", or a name that `registry.names` lists for the trust.
      parties: Under distributed trust, how many parties hold the records; each adds its share of the noise. A single
        party makes all the noise and could take it away: it is trusted as an aggregator is under central trust.
      colluding: Under distributed and shuffle trust, so many of those who add noise may read the release, or tell
        their noise to somebody who does: it does not count. 0 counts everybody's, and the guarantee says what is left.
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
        if self.delta and self.epsilon < SMALLEST_APPROXIMATE:
            raise InvalidInput(
                f"epsilon must be >= {float(SMALLEST_APPROXIMATE):g} at delta > 0, where accountants still end, got "
                f"{float(self.epsilon):g}"
            )
        if not self._serving():
            self._wanted()[0].serve(self)  # its refusal says what is wrong with the terms

    @property
    def one_query_per_class(self) -> bool:
        """Whether the mechanism asked for takes clusters to be the classes."""
        return all(kind.one_query_per_class for kind in self._wanted())

    @property
    def one_vote(self) -> bool:
        """Whether the mechanism asked for is about one vote per record."""
        return all(kind.one_vote for kind in self._wanted())

    def protocols(self, ballot: Ballot, num_records: int) -> tuple[Protocol[Any], ...]:
        """One protocol per round; equal rounds, so that every round's labels are equally good.

        Args:
          num_records: How many records will vote: the senders under shuffle trust, and a public bound on any count
            under distributed trust. Central and local protocols do not depend on it.
        """
        return (least_noise(self._candidates(ballot, num_records), num_records),) * self.rounds

    def protocols_for_silos(self, ballot: Ballot, silos: Silos) -> tuple[Protocol[Any], ...]:
        """One protocol per round, for silos of which some may vanish or work against the others."""
        able, refusal = [], InvalidInput(f"no mechanism of {self.trust} trust is chosen for this ballot: name one")
        for kind in self._considered(ballot, silos.most_records):
            try:
                able.append(kind.planned_for_silos(self, ballot, silos))
            except InvalidInput as error:
                refusal = error
        if not able:
            raise refusal
        return (least_noise(able, silos.least_records),) * self.rounds

    def protocols_paid_by_vote(self, ballot: Ballot, round_epsilon: Fraction) -> tuple[Protocol[Any], ...]:
        """One protocol per round, in which all its votes together cost a record `round_epsilon`.

        Such rounds may cost more than epsilon together: it is each record that must not pay more.
        """
        if not 0 < round_epsilon <= self.epsilon:
            raise InvalidInput(f"round_epsilon must lie in (0, {float(self.epsilon):g}], got {float(round_epsilon):g}")
        able = [kind for kind in self._serving() if kind.sells_votes]
        if not able or self.delta:
            known = ", ".join(f"{kind.name} ({kind.trust} trust)" for kind in kinds() if kind.sells_votes)
            raise InvalidInput(f"round_epsilon needs delta 0 and a mechanism that charges vote by vote: {known}")
        return (able[0].paid_by_vote(self, ballot, round_epsilon),) * self.rounds

    def reason(self, ballot: Ballot, num_records: int) -> str:
        """Why a round gets the protocol it gets."""
        candidates = self._candidates(ballot, num_records)
        return reason(least_noise(candidates, num_records), candidates, num_records)

    def guarantee(self, protocols: tuple[Protocol[Any], ...]) -> Guarantee:
        """What the releases of all rounds promise together."""
        return promised(protocols, self.delta)

    # What mechanisms ask when they plan a round

    def honest(self, senders: int) -> int:
        """How many of those who add noise are relied on: all but the colluding, and never none."""
        return max(1, senders - self.colluding)

    def laplace_epsilon(self, ballot: Ballot) -> Fraction:
        """A round's pure epsilon, for discrete Laplace noise on all cells."""
        cells = ballot.cells_changed(self.neighbours)
        return cells / self._least_scale(lambda scale: DiscreteLaplaceTally(scale, cells), cells)

    def pure_epsilon(self) -> Fraction:
        """A round's epsilon, for a mechanism of which nothing else is known."""
        return 1 / self._least_scale(lambda scale: Pure(1 / scale), 1)

    def _least_scale(self, event: Callable[[Fraction], Event], loss: int) -> Fraction:
        """The least x with which `rounds` times event(x), each of pure epsilon loss / x, fit the budget."""
        exactly = Fraction(loss * self.rounds) / self.epsilon
        if self.delta == 0:
            return exactly
        return min(exactly, calibrate(lambda scale: [event(scale)] * self.rounds, self.epsilon, self.delta))

    def _candidates(self, ballot: Ballot, num_records: int) -> list[Protocol[Any]]:
        able = [kind.planned(self, ballot, num_records) for kind in self._considered(ballot, num_records)]
        if not able:
            raise InvalidInput(f"no mechanism of {self.trust} trust is chosen for this ballot: name one as mechanism")
        return able

    def _considered(self, ballot: Ballot, num_records: int) -> list[type[Protocol[Any]]]:
        """The mechanism asked for, or those among which "auto" chooses."""
        if self.mechanism != AUTO:
            return self._serving()
        return [kind for kind in self._serving() if kind.automatic(self, ballot, num_records)]

    def _wanted(self) -> list[type[Protocol[Any]]]:
        return kinds(self.trust) if self.mechanism == AUTO else [kind_named(self.trust, self.mechanism)]

    def _serving(self) -> list[type[Protocol[Any]]]:
        """The mechanisms asked for that can keep these terms."""
        serving = []
        for kind in self._wanted():
            try:
                kind.serve(self)
            except InvalidInput:
                continue
            serving.append(kind)
        return serving


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
