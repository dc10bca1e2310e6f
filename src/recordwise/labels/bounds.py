"""What can be promised about a hard label before and after the noise is drawn: bounds that hold, for any law.

A release is (alpha, beta)-accurate at a query when, with probability at least 1 - beta, all C of its cells are less
than alpha away from their true counts.
"""

from __future__ import annotations

import math

import numpy as np

from recordwise.arrays import Bools
from recordwise.errors import probability, whole
from recordwise.privacy.noise.law import Law
from recordwise.privacy.search import least
from recordwise.protocols.release import Tally


def accuracy(law: Law, num_classes: int, beta: float) -> float:
    """The alpha for which a query's cells are (alpha, beta)-accurate.

    Guarantees:
      - P(some cell is off by alpha or more) <= beta, whether or not the cells' noise is independent: both tails of each
        cell, added over the C cells.
    """
    whole(num_classes=num_classes)
    probability(beta=beta)
    return least(lambda alpha: num_classes * law.two_sided_tail(alpha) <= beta, 0.0, law.std or 1.0, within=1e-9)


def sufficient_gap(law: Law, num_classes: int, beta: float) -> float:
    """The lead that suffices: a class with this many votes more than any other is the largest cell, except for beta.

    Guarantees:
      - P(the largest noisy cell is the leading class) >= 1 - beta when its lead is at least this.
    """
    return 2 * accuracy(law, num_classes, beta)


def certified(tally: Tally, beta: float) -> Bools:
    """(s,) the queries whose largest noisy cell leads by enough to be the commonest class, except for beta.

    Guarantees:
      - for each query, whatever the records are: P(certified, and the largest cell is not the commonest class) <= beta.
    """
    if tally.ballot.num_classes == 1:
        return np.ones(len(tally.estimate), dtype=bool)
    top = np.partition(tally.estimate, -2, axis=1)
    return np.asarray(top[:, -1] - top[:, -2] >= sufficient_gap(tally.law, tally.ballot.num_classes, beta))


def sufficient_lead(scale: float, num_classes: int, beta: float) -> float:
    """The lead, in votes, with which permute-and-flip chooses the leading class, except for beta.

    Guarantees:
      - P(the leading class is chosen) >= 1 - beta when its lead is at least this: each of the C - 1 rivals precedes it
        with probability one half, and is then accepted with probability exp(-lead / scale).
    """
    probability(beta=beta)
    whole(num_classes=num_classes)
    return max(0.0, scale * math.log(max(1, num_classes - 1) / (2 * beta)))
