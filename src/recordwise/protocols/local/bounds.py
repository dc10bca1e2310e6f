"""How far a released cell can be off.

A release is (alpha, beta)-accurate at a query when, with probability at least 1 - beta, all C cells of the query are
within alpha of their true counts.
"""

from __future__ import annotations

from recordwise.errors import probability, whole
from recordwise.protocols.local.mechanism import LocalMechanism


def accuracy_bound(mechanism: LocalMechanism, num_records: int, beta: float) -> float:
    """The alpha for which a tally of `num_records` messages is (alpha, beta)-accurate at every single query.

    Guarantees:
      - it holds whatever the votes are and for any number of records: Bennett's inequality on both sides of each cell,
        with the largest variance and reach of one record's estimate, and a union over the query's C cells.
    """
    whole(num_records=num_records)
    probability(beta=beta)
    law = mechanism.law(num_records)
    low, high = 0.0, num_records * max(law.above, law.below)
    while high - low > 1e-9 * high:
        middle = (low + high) / 2
        if mechanism.ballot.num_classes * law.two_sided_tail(middle) > beta:
            low = middle
        else:
            high = middle
    return high
