"""How far a student is to be believed within a query, where no count can check it.

A query's counts say what its samples are on average; they are explained as well by a student that tells them apart
rightly as by one that only claims to. So probabilities that match every count may still be far too sure. Two queries
that are neighbours come close to being one: both are held out, and the difference of their released shares shows how
much of the difference that the student predicts is real. That slope is taken to hold within queries, too.

So a sample has two witnesses: the student, and the queries around it (`Regions`). What a query's counts lead to believe
lies between the student's share and the released one: near the student's where held-out counts stray from it by noise
alone, nearer the released one where they stray further (`strength_of`). Between queries it changes as softly as the
samples of one lie scattered. The student's odds count to the power of the slope, those of the queries around to the
power of the rest.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.sparse import csr_array

from recordwise.arrays import Doubles, Floats, Ints, Singles, softmax
from recordwise.labels.likelihood import WHOLE
from recordwise.labels.soft import project
from recordwise.students.table import CountTable, factors_to

FEW_QUERIES = 0.75  # a slope where queries are too few to hold any out: so few regions tell less than the student
SLOPES = np.linspace(0, 1, 201)
STRENGTHS = np.geomspace(10, 1_000, 17)
USUAL, SPREAD = 20.0, 1.0  # a strength before anything is seen, and the deviation of its logarithm
WIDTH = 2.0  # variance with which a query reaches beyond its centre, in units of its samples' own
SHARPEST = 1e-6  # the least of it, in units of the variance of all samples: queries may have one sample each
ROUNDS = 5  # in which values of queries are found whose soft means are the wanted ones; more would follow noise
DOUBT = 0.03  # of the student, whatever it says: it may be wrong altogether
LEAST = 1e-4  # the share of a class around a vector: no counts rule a class out
CHUNK = 4_096  # samples at a time


def mates_of(centres: Floats) -> Ints:
    """(s,) the neighbour of each query, in pairs: those that are nearest to each other, then so among the rest.

    -1 where one is left over.
    """
    points = np.asarray(centres, dtype=np.float64)
    square = np.einsum("sd,sd->s", points, points)
    distance = square[:, None] - 2 * points @ points.T + square
    distance = np.minimum(distance, distance.T)  # rounding must not make it lopsided
    np.fill_diagonal(distance, np.inf)
    mates, free = np.full(len(points), -1), np.arange(len(points))
    while len(free) > 1:
        nearest = distance[np.ix_(free, free)].argmin(axis=1)
        mutual = nearest[nearest] == np.arange(len(free))  # the closest two always are
        mates[free[mutual]] = free[nearest[mutual]]
        free = free[~mutual]
    return mates


def folds_of(mates: Ints, count: int, rng: np.random.Generator) -> Ints:
    """(s,) folds at random in which a query and its mate are held out together."""
    first = np.flatnonzero((mates < 0) | (np.arange(len(mates)) < mates))
    fold = np.empty(len(mates), dtype=np.int64)
    fold[first] = rng.permutation(len(first)) % count
    paired = first[mates[first] >= 0]
    fold[mates[paired]] = fold[paired]
    return fold


def believable(shares: Sequence[Doubles], tables: Sequence[CountTable], mates: Sequence[Ints]) -> float:
    """How much of the differences that a student predicts between mates is real: from 0, none, to 1, all.

    The mean of the slope of released differences on predicted ones, where all slopes from 0 to 1 were equally likely.

    Args:
      shares: For each table (s, C) what was predicted of each query when it and its mate were held out.
    """
    both, own = 0.0, 0.0
    for predicted, table, mate in zip(shares, tables, mates, strict=True):
        one = np.flatnonzero(np.arange(len(mate)) < mate)
        one = one[(table.counted[one] > 0) & (table.counted[mate[one]] > 0)]
        other, variance = mate[one], table.share_variance(predicted)
        weight = 1 / (variance[one] + variance[other])
        released = table.cells / table.rates[:, None]
        step = predicted[one] - predicted[other]
        both += float((weight * step * (released[one] - released[other])).sum())
        own += float((weight * step * step).sum())
    fit = both * SLOPES - 0.5 * own * SLOPES**2
    likely = np.exp(fit - fit.max())
    return float(likely @ SLOPES / likely.sum())


def strength_of(shares: Sequence[Doubles], tables: Sequence[CountTable]) -> float:
    """Samples' worth of belief in a student's share of a query: many where released ones stray from it by noise alone.

    As a variance, share / (1 + strength) is added to that of noise and chance. The geometric mean of what it may be.

    Args:
      shares: For each table (s, C) what was predicted of each query when it was held out.
    """
    fit = -0.5 * (np.log(STRENGTHS / USUAL) / SPREAD) ** 2
    for predicted, table in zip(shares, tables, strict=True):
        expected = table.rates[:, None] * np.maximum(predicted, 1e-6)
        for number, one in enumerate(STRENGTHS):
            variance = expected * (1 + table.rates[:, None] / (1 + one)) + WHOLE
            cells, _, _ = table.law.log_likelihood(table.cells - expected, variance)
            fit[number] += table.counted @ cells.sum(axis=1)
    likely = np.exp(fit - fit.max())
    return float(np.exp(likely @ np.log(STRENGTHS) / likely.sum()))


@dataclass(frozen=True, eq=False)
class Regions:
    """The queries of one release as regions that overlap, and what is believed of each.

    Attributes:
      nearness: (dim + 1, s) coefficients; the softmax of a vector's scores says how near it is to each query.
      offsets: (s, C) added to the student's logits, as far as a vector is near.
      shares: (s, C) the class shares that are believed.
    """

    nearness: Doubles
    offsets: Doubles
    shares: Doubles

    def near(self, vectors: Singles) -> Doubles:
        """(n, s) how near each vector is to each query: a row's sum is one."""
        return softmax(vectors.astype(np.float64) @ self.nearness[:-1] + self.nearness[-1])

    def around(self, vectors: Singles) -> tuple[Doubles, Doubles]:
        """(n, C) the offsets and the shares of the queries around each vector."""
        both = np.hstack([self.offsets, self.shares])
        found = np.empty((len(vectors), both.shape[1]))
        for start in range(0, len(vectors), CHUNK):
            found[start : start + CHUNK] = self.near(vectors[start : start + CHUNK]) @ both
        return found[:, : self.offsets.shape[1]], found[:, self.offsets.shape[1] :]


def regions_of(
    vectors: Singles, scale: Doubles, probabilities: Singles, tables: Sequence[CountTable]
) -> tuple[Regions, ...]:
    """The regions around the centres of the queries that have samples.

    Args:
      scale: (dim,) in which the queries' distances are measured, for each of the vectors' units.
      probabilities: (m, C) of the pool's samples, by the student alone.
    """
    believed = [table.believed((table.mean @ probabilities).astype(np.float64)) for table in tables]
    _, offsets = factors_to(probabilities, [table.mean for table in tables], believed)
    found = []
    for table, shares, offset in zip(tables, believed, offsets, strict=True):
        kept = table.counted > 0
        regions = Regions(_nearness(vectors, scale, table.mean[kept]), offset[kept], shares[kept])
        found.append(_unmixed(regions, vectors, table.mean[kept]))
    return tuple(found)


def _nearness(vectors: Singles, scale: Doubles, mean: csr_array) -> Doubles:
    """(dim + 1, s) a vector's scores are the log-densities of normal laws around the centres, but for a constant."""
    owned = np.asarray(mean.sum(axis=0)).ravel() > 0
    sizes = np.asarray((mean > 0).sum(axis=1), dtype=np.float64).ravel()
    centres = (mean @ vectors).astype(np.float64) * scale
    some = (vectors[owned] * scale).astype(np.float64)
    middle = some.mean(axis=0)
    total = (some - middle).T @ (some - middle) / len(some)
    between = ((centres - middle).T * (sizes / sizes.sum())) @ (centres - middle)
    within = total - between
    # Of as many directions as the samples of a query really fill: a normal law in few of many would be far too narrow.
    directions = max(1.0, np.trace(within) ** 2 / max(float((within**2).sum()), np.finfo(float).tiny))
    variance = max(WIDTH * np.trace(within) / directions, SHARPEST * np.trace(total)) or 1.0
    return np.vstack([(centres * scale).T, -0.5 * (centres**2).sum(axis=1)]) / variance


def _unmixed(regions: Regions, vectors: Singles, mean: csr_array) -> Regions:
    """Regions whose offsets and shares have, over each query's own samples, the means that they are given with."""
    own, mixing = csr_array(mean.T), np.zeros((mean.shape[0], mean.shape[0]))
    for start in range(0, len(vectors), CHUNK):
        mixing += own[start : start + CHUNK].T @ regions.near(vectors[start : start + CHUNK])
    offsets, shares = regions.offsets, regions.shares
    for _ in range(ROUNDS):
        offsets = offsets + regions.offsets - mixing @ offsets
        shares = project(shares + regions.shares - mixing @ shares)
    return Regions(regions.nearness, offsets, shares)


def with_regions(vectors: Singles, logits: Floats, regions: Sequence[Regions], slope: float) -> Doubles:
    """(n, C) the probabilities by the student's logits and by the queries around each vector.

    Args:
      slope: What the student's odds count beside those of the queries around.
    """
    if not regions:
        return softmax(logits.astype(np.float64))
    offsets, shares = zip(*(one.around(vectors) for one in regions), strict=True)
    around = np.maximum(sum(shares) / len(regions), LEAST)
    own = (1 - DOUBT) * softmax(logits.astype(np.float64) + sum(offsets)) + DOUBT * around
    odds = own**slope * around ** (1 - slope)
    return np.asarray(odds / odds.sum(axis=1, keepdims=True))
