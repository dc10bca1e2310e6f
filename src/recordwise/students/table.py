"""How well class probabilities of the pool's samples explain a released table, and in which direction to improve them.

A query's cells are expected to hold rate · (mean probability of the class over the query's pool samples). The loss is
the negative log-likelihood of the released cells under the law of their error, plus a weak prior: some pseudo-records
per query, spread as the joint decoder says. All of it is a function of per-sample logits, so any student that has a
gradient can be fitted.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csc_array, csr_array

from recordwise.arrays import Doubles, Ints, Singles, softmax
from recordwise.labels.likelihood import WHOLE, CellLaw
from recordwise.labels.soft import project

MISFIT = 0.02  # variance of a query's class share around what the best student says, as a share of p
PSEUDO = 0.01  # pseudo-records of the decoder's opinion, as a share of a query's records
STRENGTH = 10.0  # samples' worth of belief in a student's share of a query beside the released one, if unmeasured
TILTS = 8


@dataclass(frozen=True, kw_only=True, eq=False)
class CountTable:
    """One released table, the pool samples behind its rows, and what is expected of them.

    Attributes:
      mean: (s, m) sparse: the mean over each query's pool samples.
      cells: (s, C) as released.
      law: Of a cell's error.
      rates: (s,) expected votes.
      grain: (s,) one over the number of the query's pool samples.
      prior: (s, C) the decoder's class shares.
      counted: (s,) one where the row's cells count, zero where they are held out.
      strength: Samples' worth of belief in a student's own share of a query, beside the released one.
    """

    mean: csr_array
    cells: Doubles
    law: CellLaw
    rates: Doubles
    grain: Doubles
    prior: Doubles
    counted: Doubles
    strength: float = STRENGTH

    @cached_property
    def of_each_sample(self) -> csc_array:
        """(m, s) the same numbers, by sample: every step of a fit multiplies by both."""
        return self.mean.T

    def log_likelihood(self, shares: Doubles) -> tuple[Doubles, Doubles]:
        """(s,) of each row, for (s, C) class shares, and (s, C) its derivative by the shares."""
        expected = self.rates[:, None] * shares
        # A count varies by chance, by the pool samples that stand for the records, and by what no student explains.
        growth = (1 + self.rates * (self.grain + MISFIT))[:, None]
        fit, by_residual, by_variance = self.law.log_likelihood(self.cells - expected, expected * growth + WHOLE)
        return fit.sum(axis=1), self.rates[:, None] * (by_variance * growth - by_residual)

    def share_variance(self, shares: Doubles) -> Doubles:
        """(s, C) the variance of the released shares around these, by noise and by chance."""
        rates = self.rates[:, None]
        return np.asarray((self.law.variance + rates * np.maximum(shares, 0.01)) / rates**2)

    def trust(self, shares: Doubles) -> Doubles:
        """(s, C) how far the released shares are to be followed from these, each weighed by its variance."""
        own = np.maximum(shares * (1 - shares), 1e-4) / (1 + self.strength)
        return np.asarray(self.counted[:, None] * own / (own + self.share_variance(shares)))

    def believed(self, shares: Doubles) -> Doubles:
        """(s, C) class shares between the student's and the released ones."""
        return project(shares + self.trust(shares) * (self.cells / self.rates[:, None] - shares))

    def of_samples(self, kept: Ints) -> CountTable:
        """The same table over some of the pool's samples; a query that loses all of them no longer counts."""
        some = self.mean[:, kept]
        part = np.asarray(some.sum(axis=1), dtype=np.float64).ravel()
        scaled = csr_array(some.multiply((1 / np.maximum(part, 1e-12))[:, None])).astype(np.float32)
        return replace(self, mean=scaled, counted=self.counted * (part > 0))


def mean_over(owner: Ints, num_queries: int) -> csr_array:
    """(s, m) the mean over the pool samples that each query owns; samples of no query (-1) count nowhere."""
    members = np.flatnonzero(owner >= 0)
    size = np.bincount(owner[members], minlength=num_queries)
    return csr_array(
        ((1 / size[owner[members]]).astype(np.float32), (owner[members], members)), shape=(num_queries, len(owner))
    )


def loss(logits: Singles, tables: Sequence[CountTable]) -> tuple[float, Singles]:
    """The negative log-likelihood of the tables with the decoder's pseudo-records, and its (m, C) gradient."""
    probabilities = softmax(logits)
    total, by_probability = 0.0, np.zeros_like(probabilities)
    for table in tables:
        shares = np.maximum((table.mean @ probabilities).astype(np.float64), 1e-9)
        fit, by_share = table.log_likelihood(shares)
        pseudo = PSEUDO * table.rates[:, None] * table.prior
        total -= float(table.counted @ fit) + float((pseudo * np.log(shares)).sum())
        downhill = -table.counted[:, None] * by_share - pseudo / shares
        by_probability += table.of_each_sample @ downhill.astype(np.float32)
    mean = np.einsum("mc,mc->m", by_probability, probabilities)
    return total, probabilities * (by_probability - mean[:, None])


def row_log_likelihoods(probabilities: Singles, tables: Sequence[CountTable]) -> Doubles:
    """The log-likelihoods of all counted rows of all tables, one after the other."""
    found = []
    for table in tables:
        fit, _ = table.log_likelihood(np.maximum((table.mean @ probabilities).astype(np.float64), 1e-9))
        found.append(fit[table.counted > 0])
    return np.concatenate(found)


def tilted(probabilities: Singles, tables: Sequence[CountTable]) -> Singles:
    """The probabilities, moved within each query until their means are the class shares that are believed of it."""
    wanted = [table.believed((table.mean @ probabilities).astype(np.float64)) for table in tables]
    return moved_to(probabilities, [table.mean for table in tables], wanted)


def moved_to(probabilities: NDArray[Any], means: Sequence[csr_array], wanted: Sequence[Doubles]) -> Singles:
    """The probabilities, times one factor for each query and class, until their (s, C) means are the wanted shares.

    Args:
      means: As from `mean_over`, one for each partition of the samples.
    """
    return factors_to(probabilities, means, wanted)[0]


def factors_to(
    probabilities: NDArray[Any], means: Sequence[csr_array], wanted: Sequence[Doubles]
) -> tuple[Singles, list[Doubles]]:
    """As `moved_to`, and the logarithms of each partition's (s, C) factors."""
    moved = probabilities.astype(np.float32)
    members = [(mean.T > 0).astype(np.float32) for mean in means]
    factors = [np.zeros_like(target) for target in wanted]
    for _ in range(TILTS):
        for mean, member, target, total in zip(means, members, wanted, factors, strict=True):
            ratio = (target + 1e-3) / ((mean @ moved).astype(np.float64) + 1e-3)
            total += np.log(ratio)
            factor = member @ ratio.astype(np.float32)
            moved = moved * np.where(factor > 0, factor, 1.0)
            moved = moved / moved.sum(axis=1, keepdims=True)
    return np.asarray(moved, dtype=np.float32), factors
