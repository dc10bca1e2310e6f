"""The model of a query that every Bayesian decoder shares: one class owns it, the others share what is left.

A query with label y holds about m records; a share p of them (its *purity*, every value from 1/C to 1 taken to be
equally likely) has class y and the rest is spread evenly over the other classes. m is the query's share of the pool
times the number of records. What is released about the query then has a known law, which turns a release into the
likelihood of each label. A larger count never makes its own class less likely than another, so without neighbours the
likeliest label is the largest cell.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from recordwise.arrays import softmax
from recordwise.privacy.noise.law import Law

PURITIES = 9
LEARNING_STEPS = 20
BETWEEN_EQUALS = 1e-9  # of labels that are exactly as likely, as under Laplace noise they can be, the larger cell's


@dataclass(frozen=True, kw_only=True, eq=False)
class Evidence:
    """What a release says about each query on its own.

    Attributes:
      by_purity: (s, C, R) log-likelihood of the release, for each label and purity that the query may have.
      purities: (R,) the purities tried.
      records: (s,) about how many records voted for the query; None when that is not known.
      class_shares: (C,) about how common each class is among the records.
      class_variance: The variance of `class_shares` that is due to noise.
    """

    by_purity: NDArray[np.float64]
    purities: NDArray[np.float64]
    records: NDArray[np.float64] | None
    class_shares: NDArray[np.float64]
    class_variance: float

    @cached_property
    def log_likelihood(self) -> NDArray[np.float64]:
        """(s, C) of the release, for each label the query may have, purity averaged out."""
        return log_mean_exp(self.by_purity)

    @cached_property
    def purity(self) -> NDArray[np.float64]:
        """(s, C) the expected purity, for each label the query may have."""
        return softmax(self.by_purity) @ self.purities

    def learned(self, posterior: NDArray[np.float64]) -> Evidence:
        """The same evidence, once it is learned from all queries together how common each purity is.

        Expectation maximisation, with a weight of one query per purity for "equally common".
        """
        log_common = np.zeros(len(self.purities))  # log of how common, beside the average purity
        for _ in range(LEARNING_STEPS):
            counted = np.einsum("scr,sc->r", softmax(self.by_purity + log_common), posterior)
            log_common = np.log((counted + 1) / (counted + 1).mean())
        return replace(self, by_purity=self.by_purity + log_common)

    def posterior(self) -> NDArray[np.float64]:
        """(s, C) probability of each label when all were equally likely before."""
        return softmax(self.log_likelihood)


def mix(posterior: NDArray[np.float64], purity: NDArray[np.float64]) -> NDArray[np.float64]:
    """(s, C) expected class shares of each query's records, given each label's probability and purity."""
    own = posterior * purity
    rest = posterior - own
    others = max(1, posterior.shape[1] - 1)
    return np.asarray(own + (rest.sum(axis=1, keepdims=True) - rest) / others)


def log_mean_exp(logs: NDArray[np.float64]) -> NDArray[np.float64]:
    """Log of the mean of the exponentials along the last axis."""
    top = logs.max(axis=-1)
    return np.asarray(top + np.log(np.exp(logs - top[..., None]).mean(axis=-1)))


def tried_purities(num_classes: int) -> NDArray[np.float64]:
    return np.linspace(1 / num_classes, 1, PURITIES + 1)[1:]


def count_variance(records: NDArray[np.float64]) -> NDArray[np.float64]:
    """The variance of a count itself: binomial, so at most a quarter of the records, and a whole number."""
    return np.asarray(records / 4 + 1 / 12)


def cell_log_likelihood(law: Law, residual: NDArray[np.float64], records: NDArray[np.float64]) -> NDArray[np.float64]:
    """Log-likelihood of cells that are off by `residual`, up to a constant for each number of records.

    Two errors add up, the noise and the chance in the counts. The larger one lends the sum its shape: the noise's law,
    or a normal.
    """
    chance = count_variance(records)
    scaled = residual / np.sqrt(law.std**2 + chance)
    return np.where(law.std**2 >= chance, law.log_likelihood(scaled * law.std), -(scaled**2) / 2)
