"""Bounds as the papers print them, to compare with ours. None of them is used by the package."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
from scipy.stats import binom

from recordwise.privacy.flood import Flood
from recordwise.privacy.guarantee import exact
from recordwise.protocols.local.indicator import Indicator
from recordwise.votes.ballot import Ballot


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
    hit, miss = float(indicator.hit), float(indicator.miss)
    voted = binom.pmf(np.arange(votes + 1), votes, hit)
    others = binom.pmf(np.arange(num_records - votes + 1), num_records - votes, miss)
    law = np.convolve(voted, others)
    error = (np.arange(num_records + 1) - num_records * miss) / indicator.gap - votes
    return float(law[np.abs(error) > alpha * (1 + 1e-12)].sum())


def published_flood(flood_epsilon: Fraction | float, delta: Fraction | float) -> Flood:
    """The parameters proved in closed form by Ghazi et al.: rho = 3(1 + ln 1/delta), success e^(-0.2·flood_epsilon)."""
    shape = 3 * (1 + math.log(1 / delta))
    return Flood(exact(shape), 5 / exact(flood_epsilon))
