"""Tens of millions of one-record devices without tens of millions of messages on a wire: for planning and experiments.

What is simulated is the released tally, in distribution the one that real devices' messages give; each protocol says
how (`Protocol.simulate_cohort`). Randomness is seeded, so a simulated tally is marked not private.
"""

from __future__ import annotations

from typing import Any

from recordwise.arrays import Ints
from recordwise.errors import InvalidInput
from recordwise.protocols.protocol import Protocol
from recordwise.protocols.release import Tally


def simulate_cohort(protocol: Protocol[Any], counts: Ints, *, seed: int) -> Tally:
    """The tally that a cohort's messages would give.

    Guarantees:
      - its law is that of `protocol.server` on the messages of these devices (tested, per mechanism);
      - it is marked not private.

    Args:
      counts: (s, C) how many devices vote for each cell, one record and one vote each.
    """
    ballot = protocol.ballot
    if ballot.cells_per_record != 1:
        raise InvalidInput(f"a device of a cohort casts one vote, so k·r must be 1, got {ballot.cells_per_record}")
    if counts.shape != (ballot.num_queries, ballot.num_classes) or not (counts >= 0).all() or not counts.sum() > 0:
        raise InvalidInput(f"counts must be ({ballot.num_queries}, {ballot.num_classes}) numbers >= 0, not all zero")
    return protocol.simulate_cohort(counts, seed=seed)
