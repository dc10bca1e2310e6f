"""What every protocol must keep: on any two neighbouring data sets, what is seen of it gives away what it claims.

A case is a protocol on a ballot so small that every draw of its real client, shuffler and server can be walked through
(`exact_laws`), for all records that can be exchanged; and broken twins of it, which claim the same.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable
from dataclasses import dataclass
from functools import cache, partialmethod
from typing import Any

import pytest
from exact_laws import Law, Walk, every_record, exact_law, spent

from recordwise.audit.audit import fewest_parties
from recordwise.privacy.guarantee import Neighbours
from recordwise.privacy.noise import SeededNoise, SystemNoise
from recordwise.protocols.local import hashing
from recordwise.protocols.pairs import NOTHING, Record, as_votes
from recordwise.protocols.protocol import Protocol
from recordwise.randomness import seeded
from recordwise.votes.ballot import Ballot, Votes

Others = tuple[Record, ...]
View = Callable[[Any, Record | None, Others, Walk], Hashable]


@dataclass(frozen=True, kw_only=True)
class Case:
    """A protocol, what is seen of it, and what must be caught.

    Attributes:
      twins: Broken ones, which claim what the healthy one claims.
      others: The other records, in as many ways as are tried; each a party or a sender where these count.
      tight: The claim must not exceed what is given away by more than this; 1 where any claim is kept.
      cut: What may be left out of a law on all integers; conclusions are then good to half a per cent, not exact.
      least: Paths less likely than this are not followed.
      field: Hash keys are polynomials over the field of this many elements, so that all of them can be tried.
      keys: Try so many keys of the real field instead.
      apart: Queries and classes are sent apart, so that records differ even if they vote for the same cells, or none.
    """

    healthy: Protocol[Any]
    view: View
    twins: tuple[Protocol[Any], ...]
    others: tuple[Others, ...] = ((),)
    tight: float = 0.002
    cut: float = 0.0
    least: float = 0.0
    field: int = 5
    keys: int = 0
    apart: bool = False

    def __str__(self) -> str:
        ballot = self.healthy.ballot
        form = (ballot.num_queries, ballot.num_classes, ballot.votes_per_record, ballot.labels_per_record)
        mechanism = getattr(self.healthy, "mechanism", "")
        name = type(self.healthy).__name__ + (f"-{mechanism}" if mechanism else "")
        neighbours = getattr(self.healthy, "neighbours", Neighbours.REPLACE)  # to account for one takes a while
        return f"{name}-{neighbours}-{'x'.join(map(str, form))}"


def given_away(case: Case, protocol: Protocol[Any], enough: float = math.inf) -> tuple[float, float]:
    """The epsilon, at the claimed delta, that the worst pair of neighbours tells: a lower and an upper bound.

    The claim is the healthy protocol's, and so are the neighbours. Nobody looks further once a pair tells `enough`.
    """
    with pytest.MonkeyPatch.context() as patch:
        if case.keys:
            patch.setattr(hashing.HashFamily, "draw", partialmethod(_one_of_few, case.keys))
        else:
            patch.setattr(hashing, "PRIMES", {2: case.field})
        return _given_away(case, protocol, enough)


def _one_of_few(family: hashing.HashFamily, many: int, count: int, noise: Any) -> Any:
    """Keys of which some are tried: a mechanism must be private for every single one."""
    few = seeded(0, "keys").integers(0, family.prime, (many, family.independence))
    return few[noise.uniform_below(many, count)]


def _given_away(case: Case, protocol: Protocol[Any], enough: float) -> tuple[float, float]:
    claim = case.healthy.guarantee
    parties = fewest_parties(protocol, SystemNoise())  # too few of them must be refused, or else are judged

    @cache
    def law(victim: Record | None, others: Others) -> Law:
        return exact_law(lambda walk: case.view(protocol, victim, others, walk), cut=case.cut, least=case.least)

    low = high = 0.0
    for others in case.others:
        present = others if parties is None else others[: parties - 1]
        for alike in _exchanged(case):
            for last in [len(alike)] if enough == math.inf else range(2, len(alike) + 1):
                at_least, at_most = spent([law(victim, present) for victim in alike[:last]], claim.delta)
                low, high = max(low, at_least), max(high, at_most)
                if low > enough:
                    return low, high
    return low, high


def _exchanged(case: Case) -> list[list[Record | None]]:
    """Lists of what can stand in one record's place, any two of a list being neighbours."""
    ballot, neighbours = case.healthy.ballot, case.healthy.guarantee.neighbours
    records: list[Record | None] = list(every_record(ballot))
    if not case.apart:
        records = list({record.cells(ballot): record for record in every_record(ballot)}.values())
    return [records] if neighbours is Neighbours.REPLACE else [[record, None] for record in records]


@cache
def _votes(ballot: Ballot, *records: Record) -> Votes:
    return as_votes(ballot, records)


# What is seen. `victim` is the record that is exchanged, None where it is missing.


def message(protocol: Any, victim: Record | None, others: Others, walk: Walk) -> Hashable:
    """Local trust: all that a client with these records sends."""
    assert victim is not None
    return protocol.client(_votes(protocol.ballot, victim, *others), walk).bodies.tobytes()  # type: ignore[no-any-return]


def transcript(protocol: Any, victim: Record | None, others: Others, walk: Walk) -> Hashable:
    """Questions: every answer that is given, and the release. The public randomness is one of many alike."""
    assert victim is not None
    client = protocol.client(_votes(protocol.ballot, victim, *others), walk)
    heard, answer = [], client.answer

    def overheard(*asked: Any) -> Any:
        said = answer(*asked)
        heard.append(said.tobytes())
        return said

    client.answer = overheard
    chosen = protocol.server([client], SeededNoise(0)).chosen
    return *heard, chosen.tobytes()


def release(protocol: Any, victim: Record | None, others: Others, walk: Walk) -> Hashable:
    """Central trust: the release, from a client with the record and one with all others."""
    holders = [[] if victim is None else [victim], others]
    released = protocol.server([protocol.client(_votes(protocol.ballot, *held), walk) for held in holders], walk)
    return (released.chosen if hasattr(released, "chosen") else released.estimate).tobytes()  # type: ignore[no-any-return]


def modular_sum(protocol: Any, victim: Record | None, others: Others, walk: Walk) -> Hashable:
    """Distributed trust: the sum of the shares of one party with the record and of others with one record each."""
    held = [[] if victim is None else [victim], *([other] for other in others)]
    total = protocol.aggregate(protocol.client(_votes(protocol.ballot, *records), walk) for records in held)
    protocol.release(total)
    return total.residues.tobytes()  # type: ignore[no-any-return]


def batch(protocol: Any, victim: Record | None, others: Others, walk: Walk) -> Hashable:
    """Shuffle trust: the shuffled batch. A sender that was removed still sends its noise."""
    sent = protocol.client(_votes(protocol.ballot, victim or NOTHING, *others), walk)
    given, shown = (
        list(map(bytes, part.bodies)) if hasattr(part, "bodies") else part.codes.tolist()
        for part in (sent, protocol.shuffle([sent], walk))
    )
    # Many messages have too many orders to walk through. If they come in the order that was drawn, all orders are
    # equally likely and tell nothing; so the messages are shown in an order of their own.
    drawn = [given[place] for place in walk.permutation(len(given))]
    return tuple(sorted(shown) if shown == drawn else shown)
