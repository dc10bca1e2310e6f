"""Exact epsilon on one pair of neighbours, from the probabilities a protocol states and draws from."""

from __future__ import annotations

import math
from functools import singledispatch
from typing import Any

import numpy as np
from numpy.typing import NDArray

from recordwise.arrays import Doubles
from recordwise.audit.cells import choice_log_probabilities, crowd, divided, rivals, table
from recordwise.audit.messages import bucket_log_density, parts
from recordwise.audit.neighbours import Pair
from recordwise.labels.assignment import all_assignments
from recordwise.privacy.amplification.clones import Clones
from recordwise.privacy.flood import Flood
from recordwise.privacy.noise import NegativeBinomial
from recordwise.protocols.central import CentralGaussian, CentralLaplace, CentralMatching, CentralPermuteAndFlip
from recordwise.protocols.distributed import DistributedLaplace
from recordwise.protocols.local import (
    Collision,
    Concatenation,
    LocalMechanism,
    Questions,
    RandomizedResponse,
    Separation,
    SubsetSelection,
    UnaryEncoding,
)
from recordwise.protocols.protocol import Protocol
from recordwise.protocols.shuffle import ShuffleMulti, ShuffleSingle
from recordwise.randomness import seeded

KEYS = 2000  # hash functions tried: a mechanism must be private for every single one
FINENESS = 2000  # steps of the grid per epsilon: losses are rounded down to it, so that the bound stays below the truth
MOST_BINS = 1 << 22

Exact = tuple[float, str] | None


@singledispatch
def exact_epsilon(protocol: Protocol[Any], pair: Pair, parties: int | None) -> Exact:
    """The exact epsilon at the claim's delta, and how it was computed; None where the domain does not allow it.

    Args:
      parties: The fewest parties from which the protocol makes a release; None where it does not count them.
    """
    return None


@exact_epsilon.register
def _(protocol: CentralLaplace, pair: Pair, parties: int | None) -> Exact:
    return _pure_cells(protocol.law, _change(protocol, pair)), "the largest ratio of every changed cell, added up"


@exact_epsilon.register
def _(protocol: DistributedLaplace, pair: Pair, parties: int | None) -> Exact:
    law = protocol.law(max(1, (parties or protocol.fewest) - protocol.colluding))  # readers take their shares away
    return _pure_cells(law, _change(protocol, pair)), f"the law of {parties} parties' shares, every changed cell"


@exact_epsilon.register
def _(protocol: CentralGaussian, pair: Pair, parties: int | None) -> Exact:
    law = protocol.law
    reach = math.ceil(12 * law.std) + 2
    noise = np.arange(-reach, reach + 1)
    p, q = law.pmf(noise), law.pmf(noise - 1)
    change = _change(protocol, pair)
    cells = [(p, q)] * int(np.abs(change).sum())  # the law is symmetric: up or down makes no difference
    return epsilon_below(cells, float(protocol.delta)), "the loss of every changed cell, convolved"


@exact_epsilon.register
def _(protocol: CentralPermuteAndFlip, pair: Pair, parties: int | None) -> Exact:
    ballot, scale = protocol.ballot, float(protocol.scale)
    others = crowd(ballot, scale)
    before, after = (choice_log_probabilities(others + table(ballot, side), scale) for side in pair.sides())
    ratios = before - after
    worst = max(float(ratios.max(axis=1).sum()), float((-ratios).max(axis=1).sum()))
    return worst, "the law of every query's choice, two classes level or one vote apart"


@exact_epsilon.register
def _(protocol: CentralMatching, pair: Pair, parties: int | None) -> Exact:
    ballot, scale = protocol.ballot, float(protocol.scale)
    before, after = (table(ballot, side) for side in pair.sides())
    others = divided(before - after, scale, level=False)
    sums = [all_assignments((others + votes) / scale)[1] for votes in (before, after)]
    gains = [float(((before - after) * matching).sum()) / scale for matching in rivals(before - after)]
    # log-ratio of a matching's probabilities: its gain, less what the sum of all weights gained
    worst = max(abs(gain - (sums[0] - sums[1])) for gain in gains)
    return worst, "the sum over all matchings, two of them far ahead of the rest"


@exact_epsilon.register
def _(protocol: RandomizedResponse | UnaryEncoding, pair: Pair, parties: int | None) -> Exact:
    hit, miss = float(protocol.indicator.hit), float(protocol.indicator.miss)
    up = max(math.log(hit / miss), math.log((1 - hit) / (1 - miss)))
    down = max(math.log(miss / hit), math.log((1 - miss) / (1 - hit)))
    gained, lost = _gained_and_lost(protocol, pair)
    return max(gained * up + lost * down, gained * down + lost * up), "all settings of the bits that differ"


@exact_epsilon.register
def _(protocol: Questions, pair: Pair, parties: int | None) -> Exact:
    hit, miss = float(protocol.indicator.hit), float(protocol.indicator.miss)
    other = miss if pair.after and pair.after.cells(protocol.ballot) else 0.5  # who abstains tosses a fair coin
    worst = max(abs(math.log(hit / other)), abs(math.log((1 - hit) / (1 - other))))
    return worst, "both answers, to a question that tells the two apart"


@exact_epsilon.register
def _(protocol: SubsetSelection, pair: Pair, parties: int | None) -> Exact:
    hit, miss = float(protocol.indicator.hit), float(protocol.indicator.miss)
    size, bits = protocol.subset_size, protocol.num_bits
    with_own = math.log(hit) - _log_choose(bits - 1, size - 1)  # one set that holds the record's own cell
    without = math.log(1 - hit) - _log_choose(bits - 1, size)
    assert abs(miss - (size - hit) / (bits - 1)) < 1e-9
    return abs(with_own - without) if sum(_gained_and_lost(protocol, pair)) else 0.0, "a set with, and one without"


@exact_epsilon.register
def _(protocol: Collision | Separation | Concatenation, pair: Pair, parties: int | None) -> Exact:
    assert pair.after is not None
    forth = back = 0.0
    for (channel, old), (_, new) in zip(parts(protocol, pair.before), parts(protocol, pair.after), strict=True):
        rng = seeded(0, "audit", "keys")
        keys = rng.integers(0, channel.family.prime, (KEYS, channel.independence))
        hits = [channel.family.apply(keys, np.array([points])) for points in (old, new) if points]
        buckets = np.concatenate([*hits, _free_bucket(np.concatenate(hits, axis=1), channel.buckets)], axis=1)
        before, after = (bucket_log_density(channel, points, keys, buckets) for points in (old, new))
        with np.errstate(invalid="ignore"):
            ratio = np.where(before == after, 0.0, before - after)
        forth, back = forth + float(ratio.max()), back + float((-ratio).max())
    return max(forth, back), f"all buckets under {KEYS:,} hash functions"


@exact_epsilon.register
def _(protocol: ShuffleMulti, pair: Pair, parties: int | None) -> Exact:
    senders = parties or protocol.senders
    if senders != protocol.senders:
        return None  # the laws of too few senders are not written down anywhere; they are sampled
    change = _change(protocol, pair)
    up, down = _two_counts(float(1 / protocol.law(senders).scale), protocol.flood)
    cells = [up] * int((change > 0).sum()) + [down] * int((change < 0).sum())
    forth, back = cells, [(q, p) for p, q in cells]
    found = max(epsilon_below(side, float(protocol.delta)) for side in (forth, back))
    return found, "both counts of every changed cell, convolved"


@exact_epsilon.register
def _(protocol: ShuffleSingle, pair: Pair, parties: int | None) -> Exact:
    if sum(_gained_and_lost(protocol, pair)) < 2 * protocol.ballot.cells_per_record:
        return None
    senders = parties or protocol.senders
    found = [sides.epsilon_below(float(protocol.delta), senders=senders) for sides in _sides(protocol.local)]
    return (max(found), f"how many of {senders:,} messages speak for either record") if found else None


def epsilon_below(cells: list[tuple[Doubles, Doubles]], delta: float) -> float:
    """The epsilon at `delta` of independent parts, outcome i having probability p[i] or q[i]; from below.

    Losses are rounded down to a grid, which only makes the two laws look closer.
    """
    if not cells:
        return 0.0
    losses = []
    for p, q in cells:
        seen = p > 0
        with np.errstate(divide="ignore"):
            losses.append((p[seen], np.log(p[seen]) - np.log(q[seen])))
    if delta == 0:
        return float(sum(loss.max() for _, loss in losses))
    finite = [loss[np.isfinite(loss)] for _, loss in losses]
    widest = sum(float(np.abs(loss).max()) for loss in finite)
    spread = math.sqrt(sum(float((mass * np.minimum(np.abs(loss), 50) ** 2).sum()) for mass, loss in losses))
    step = max(spread / FINENESS, widest / MOST_BINS)
    total, lowest, sure = np.ones(1), 0, 1.0
    for mass, loss in losses:
        known = np.isfinite(loss)
        place = np.floor(loss[known] / step).astype(np.int64)
        sure *= 1 - float(mass[~known].sum())  # an outcome that only one side can have gives everything away
        total, lowest = (
            _convolve(total, np.bincount(place - place.min(), mass[known]).astype(np.float64)),
            lowest + int(place.min()),
        )
    grid = (lowest + np.arange(len(total))) * step

    def delta_at(epsilon: float) -> float:
        above = grid > epsilon
        return 1 - sure + float((total[above] * -np.expm1(epsilon - grid[above])).sum()) - 1e-15

    low, high = 0.0, float(grid[-1])
    if delta_at(0.0) < delta:
        return 0.0
    if 1 - sure > delta:
        return math.inf
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if delta_at(middle) >= delta else (low, middle)
    return low


def _convolve(one: Doubles, other: Doubles) -> Doubles:
    from scipy.signal import fftconvolve

    return np.maximum(fftconvolve(one, other), 0.0) if min(len(one), len(other)) > 1 else np.convolve(one, other)


def _change(protocol: Protocol[Any], pair: Pair) -> NDArray[np.int64]:
    before, after = (table(protocol.ballot, side) for side in pair.sides())
    return after - before


def _gained_and_lost(protocol: Protocol[Any], pair: Pair) -> tuple[int, int]:
    change = _change(protocol, pair)
    return int((change > 0).sum()), int((change < 0).sum())


def _pure_cells(law: Any, change: NDArray[np.int64]) -> float:
    noise = np.arange(-math.ceil(8 * law.std) - 8, math.ceil(8 * law.std) + 9)
    log_law = law.log_likelihood(noise)
    return float(np.abs(change).sum() * np.abs(np.diff(log_law)).max())


def _two_counts(noise_epsilon: float, flood: Flood) -> tuple[tuple[Doubles, Doubles], tuple[Doubles, Doubles]]:
    """The laws of a cell's positive and negative messages when nobody votes for it and when one record does.

    The pair (a, b) without a vote has probability (1-q)²·q^|a-b|·F(min(a, b)) (see `privacy.flood`), and with one
    that of (a - 1, b). Pairs with a > b all have the ratio q, so they are one outcome; those with a <= b are told
    apart by a alone.
    """
    q = math.exp(-noise_epsilon)
    log_f = flood_log_sums(noise_epsilon, flood)
    without = (1 - q) * np.exp(log_f)  # a = 0, 1, ... and a <= b
    with_one = np.append(0.0, (1 - q) * q * np.exp(log_f[:-1]))  # of a - 1 and b >= a
    p = np.append(without, max(0.0, 1 - float(without.sum())))
    r = np.append(with_one, max(0.0, 1 - float(with_one.sum())))
    return (p, r), (r, p)


def flood_log_sums(noise_epsilon: float, flood: Flood) -> Doubles:
    """log F(b) for b = 0, 1, ..., F(b) = sum over z <= b of e^(-2·noise_epsilon·(b-z))·P(flood = z)."""
    law = NegativeBinomial(flood.shape, flood.scale)
    last = math.ceil(law.mean + 40 * law.std + 40 / noise_epsilon) + 10
    at = np.arange(last + 1)
    with np.errstate(divide="ignore"):
        log_h = np.log(law.pmf(at))
    tilt = 2 * noise_epsilon * at
    log_f: Doubles = np.logaddexp.accumulate(log_h + tilt) - tilt
    return log_f


def _sides(local: LocalMechanism) -> list[Clones]:
    """Messages that speak for the one record, for the other, or for neither, on some data sets around the two."""
    votes = local.ballot.cells_per_record
    if isinstance(local, RandomizedResponse | UnaryEncoding):  # all bits of one record set, all of the other's clear
        hit, miss = float(local.indicator.hit), float(local.indicator.miss)
        one, other = (hit * (1 - miss)) ** votes, (miss * (1 - hit)) ** votes
        return [Clones(hit=one, miss=other, blanket=(miss * (1 - miss)) ** votes)]
    if isinstance(local, SubsetSelection) and local.num_bits > 2:  # one cell in the set and not the other
        hit, size, bits = float(local.indicator.hit), local.subset_size, local.num_bits
        third = hit * (size - 1) * (bits - size) + (1 - hit) * size * (bits - 1 - size)
        return [
            Clones(
                hit=hit * (bits - size) / (bits - 1),
                miss=(1 - hit) * size / (bits - 1),
                blanket=third / ((bits - 1) * (bits - 2)),
            )
        ]
    if isinstance(local, Collision) and votes == 1:  # the reported bucket holds one cell and not the other
        buckets, hit = local.channel.buckets, float(local.channel.hot)
        miss = (1 - hit) / (buckets - 1)
        # Pairs of cells fall into one bucket with a probability of 1/l, and unequal buckets add next to nothing.
        together = 1 / buckets + 2 * buckets / local.channel.family.prime
        apart, all_apart = 1 - together, 1 - 3 * together
        sides = [Clones(hit=hit * apart, miss=miss * apart, blanket=apart / buckets)]  # all others abstain
        if all_apart > 0 and local.ballot.num_cells > 2:  # all others vote for a third cell, in a bucket of its own
            sides.append(Clones(hit=hit * all_apart, miss=miss * all_apart, blanket=miss * all_apart))
        return sides
    return []


def _free_bucket(hit: NDArray[np.int64], buckets: int) -> NDArray[np.int64]:
    """(n, 1) a bucket that no point of a row was hashed to; the first one where every bucket is hit."""
    width = min(buckets, hit.shape[1] + 1)
    taken = (hit[:, :, None] == np.arange(width)).any(axis=1)
    free: NDArray[np.int64] = taken.argmin(axis=1)[:, None]
    return free


def _log_choose(n: int, k: int) -> float:
    return math.lgamma(n + 1) - math.lgamma(k + 1) - math.lgamma(n - k + 1)
