"""How far a released cell can be off: bounds that hold, and beside them the paper's, which sometimes do not.

A release is (alpha, beta)-accurate at a query when, with probability at least 1 - beta, all C cells of the query are
within alpha of their true counts.
"""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np

from recordwise.errors import probability, whole
from recordwise.protocols.local.indicator import Indicator
from recordwise.protocols.local.mechanism import LocalMechanism
from recordwise.votes.ballot import Ballot


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


def printed_theorem_1(ballot: Ballot, epsilon: Fraction | float, num_records: int, beta: float) -> float:
    """The paper's alpha for randomized response. Not a bound in general: see `cell_failure`.

    Its proof counts one side of two, and gives every cell the mean of a cell without votes.
    """
    flip = math.exp(float(epsilon) / (2 * ballot.cells_per_record)) + 1
    return flip / (flip - 2) * math.sqrt(3 * num_records * math.log(ballot.num_classes / beta) / flip)


def printed_theorem_2(ballot: Ballot, epsilon: Fraction | float, num_records: int, beta: float) -> float:
    """The paper's alpha for Collision with l = 2c - 1 + c·e^eps buckets. Not a bound in general: see `cell_failure`.

    Its proof prints the exponent -eta² n / 2l where the Chernoff bound it cites gives -eta² n l / 3, then goes on with
    -eta² n l / 2, counts one side of two, and gives every cell the mean of a cell without votes.
    """
    c, e = ballot.cells_per_record, math.exp(float(epsilon))
    buckets = 2 * c - 1 + c * e
    factor = buckets * (2 * c * e + c - 1) / (c * (e**2 - 1) - (e - 1))
    return factor * math.sqrt(2 * num_records * math.log(ballot.num_classes / beta) / buckets)


def cell_failure(indicator: Indicator, num_records: int, votes: int, alpha: float) -> float:
    """The exact probability that a cell with `votes` votes is off by more than alpha.

    The count of yes is a sum of two binomials; this convolves them.
    """
    from scipy.stats import binom

    hit, miss = float(indicator.hit), float(indicator.miss)
    voted = binom.pmf(np.arange(votes + 1), votes, hit)
    others = binom.pmf(np.arange(num_records - votes + 1), num_records - votes, miss)
    law = np.convolve(voted, others)
    error = (np.arange(num_records + 1) - num_records * miss) / indicator.gap - votes
    return float(law[np.abs(error) > alpha * (1 + 1e-12)].sum())
