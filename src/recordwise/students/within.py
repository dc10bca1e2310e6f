"""How far a student is to be believed within a query, where no count can check it.

A query's counts say what its samples are on average; they are explained as well by a student that tells them apart
rightly as by one that only claims to. So probabilities that match every count may still be far too sure. Two queries
that are neighbours come close to being one: both are held out, and the difference of their released shares shows how
much of the difference that the student predicts is real. That slope is taken to hold within queries, too.

So a sample's probabilities are those of its query, plus that much of what the student makes of it (`Regions`): the mean
over a query is what its counts lead to believe, and the spread about it is what neighbours bear out. What the counts
lead to believe lies between the student's share and the released one: near the student's where held-out counts stray
from it by noise alone, nearer the released one where they stray further (`strength_of`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from recordwise.arrays import Doubles, Floats, Ints, Singles, softmax
from recordwise.labels.likelihood import WHOLE
from recordwise.students.table import CountTable, factors_to

UNKNOWN = 0.5  # the mean of what a slope may be, before anything is seen
SLOPES = np.linspace(0, 1, 201)
STRENGTHS = np.geomspace(10, 1_000, 17)
USUAL, SPREAD = 20.0, 1.0  # a strength before anything is seen, and the deviation of its logarithm
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
    """The queries of one release as regions, and what is believed of each.

    Attributes:
      nearness: (dim + 1, s) coefficients; the region of a vector is the one with the largest score.
      offsets: (s, C) added to the student's logits there: its mean over the region is then as believed.
      shares: (s, C) the class shares that are believed.
      weight: Of the shares, beside the student's own probabilities.
    """

    nearness: Doubles
    offsets: Doubles
    shares: Doubles
    weight: float

    def at(self, vectors: Singles) -> Ints:
        """(n,) the region that each vector lies in."""
        found = [np.zeros(0, dtype=np.int64)]
        for start in range(0, len(vectors), CHUNK):
            some = vectors[start : start + CHUNK].astype(np.float64)
            found.append((some @ self.nearness[:-1] + self.nearness[-1]).argmax(axis=1))
        return np.concatenate(found)


def regions_of(
    vectors: Singles, scale: Doubles, probabilities: Singles, tables: Sequence[CountTable], slope: float
) -> tuple[Regions, ...]:
    """The regions around the centres of the queries that have samples.

    Args:
      scale: (dim,) in which the queries' distances are measured, for each of the vectors' units.
      probabilities: (m, C) of the pool's samples, by the student alone.
      slope: What of it is believed within queries; the rest goes to the shares, of all tables alike.
    """
    believed = [table.believed((table.mean @ probabilities).astype(np.float64)) for table in tables]
    _, offsets = factors_to(probabilities, [table.mean for table in tables], believed)
    found = []
    for table, shares, offset in zip(tables, believed, offsets, strict=True):
        kept = table.counted > 0
        centres = (table.mean[kept] @ vectors).astype(np.float64)
        nearness = np.vstack([(centres * scale**2).T, -0.5 * ((centres * scale) ** 2).sum(axis=1)])
        found.append(Regions(nearness, offset[kept], shares[kept], (1 - slope) / len(tables)))
    return tuple(found)


def with_regions(vectors: Singles, logits: Floats, regions: Sequence[Regions]) -> Doubles:
    """(n, C) the probabilities by the student's logits and by each vector's regions."""
    places = [one.at(vectors) for one in regions]
    own = sum((one.offsets[place] for one, place in zip(regions, places, strict=True)), logits.astype(np.float64))
    shares = [one.weight * one.shares[place] for one, place in zip(regions, places, strict=True)]
    return sum(shares, (1 - sum(one.weight for one in regions)) * softmax(own))
