"""PATE's data-dependent accounting (Papernot et al. 2017, 2018): what a noisy maximum costs on these very votes.

Where nearly all teachers agree, one teacher can hardly change the answer, and the Rényi divergence is far below the
worst case. That figure depends on the votes, so printing it would reveal them. `sanitise` releases it with Gaussian
noise in proportion to its smooth sensitivity (Nissim, Raskhodnikova, Smith 2007; PATE 2018, appendix C), and its own
cost is part of what it states.

Read the result as PATE defines it: it bounds the divergence of this data set's outcomes from those of its neighbours,
not the reverse, and says nothing about other data sets. The worst case holds for all, in both directions; it is what a
ledger is charged.

Everything is written in one number per query. Let x be such that m - 1 wrong classes, all equally far behind, would
beat the winner with the same union bound: q = (m - 1)·Φ(-x). Among votes with this q the equal gaps change fastest, so
one moved vote changes x by at most √2/σ (PATE 2018, section C.1), and the bound on the divergence falls in x.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import log_ndtr, logsumexp, ndtri, ndtri_exp

from recordwise.arrays import Doubles
from recordwise.errors import OutOfRegime
from recordwise.privacy.noise import Noise

LEAST_SIGMA = 8.0  # from here on discrete Gaussian tails are bounded by normal ones, one step nearer
CELLS = 32  # per vote moved: how finely sensitivities are bounded
SMOOTH = 0.2  # beta times the order
SMOOTH_NOISE = 4.0  # sigma² of the smooth noise, per order: it costs about a quarter
CONFIDENCE = 0.95  # with which the published figure is an upper bound


def log_q(votes: NDArray[np.int64], sigma: float, *, lattice: bool = True) -> Doubles:
    """(s,) log of a bound on the probability that a query's answer is not its largest count (PATE 2018, Prop. 7).

    Args:
      lattice: The noise is discrete Gaussian. The difference of two is then an integer whose law falls from zero on,
        so its tail from g on lies below the normal's from g - 1 on.
    """
    if lattice and sigma < LEAST_SIGMA:
        raise OutOfRegime(f"sigma must be >= {LEAST_SIGMA:g} for data-dependent accounting, got {sigma:.4g}")
    ordered = np.sort(votes, axis=1)
    gaps = ordered[:, -1:] - ordered[:, :-1] - (1 if lattice else 0)
    bound = logsumexp(log_ndtr(-gaps / (math.sqrt(2) * sigma)), axis=1)
    return np.asarray(np.minimum(bound, math.log(1 - 1 / votes.shape[1])), dtype=np.float64)


def noisy_max_rdp(log_q: Doubles, sigma: float, order: float) -> Doubles:
    """The Rényi divergence of a Gaussian noisy maximum, given a bound q on its failure (PATE 2018, Theorem 6).

    Never more than order/σ², the worst case.
    """
    log_q = np.asarray(log_q, dtype=np.float64)
    worst = order / sigma**2
    with np.errstate(all="ignore"):
        high2 = sigma * np.sqrt(-log_q)
        high1 = high2 + 1
        cost1, cost2 = high1 / sigma**2, high2 / sigma**2
        grows = (high2 - 1) * cost2 - high2 * (np.log1p(1 / (high1 - 1)) + np.log1p(1 / (high2 - 1)))
        valid = (high1 > order) & (high2 > 1) & (log_q <= grows) & (-log_q > cost2)
        log_right = np.log(-np.expm1(log_q))
        log_a = log_right - np.log(-np.expm1((log_q + cost2) * (1 - 1 / high2)))
        log_b = cost1 - log_q / (high1 - 1)
        total = np.logaddexp(log_right + (order - 1) * log_a, log_q + (order - 1) * log_b)
        bound = np.where(valid, np.minimum(total / (order - 1), worst), worst)
    return np.where(np.isneginf(log_q), 0.0, np.maximum(bound, 0.0))


def threshold_log_q(largest: Doubles, needed: float, sigma: float, *, lattice: bool = True) -> Doubles:
    """(s,) log of a bound on the less likely outcome: the largest count, with noise, reaches `needed` or does not.

    Args:
      lattice: The noise is discrete Gaussian, and `needed` a whole number. Its law falls from zero on, so its tail from
        g on lies below the normal's from g - 1 on. Counts that do not reach `needed` are one step farther already.
    """
    ahead = log_ndtr((np.asarray(largest) - needed + (1 if lattice else 0)) / sigma)
    behind = log_ndtr((needed - np.asarray(largest)) / sigma)
    return np.asarray(np.minimum(np.minimum(ahead, behind), math.log(0.5)), dtype=np.float64)


def threshold_rdp(largest: Doubles, needed: float, sigma: float, order: float, *, lattice: bool = True) -> Doubles:
    """The same for whether the largest count, with noise, reaches `needed`: a moved vote changes it by one, not two."""
    found = threshold_log_q(largest, needed, sigma, lattice=lattice)
    return noisy_max_rdp(found, math.sqrt(2) * sigma, order)


@dataclass(frozen=True, eq=False)
class History:
    """What a run of noisy maxima cost at one order, and how much one record more or less could have changed that.

    Private, both of it.

    Attributes:
      rdp: The sum over queries.
      changes: (D,) bound on what one moved vote per query changes of it, at votes up to d moves away.
      worst: The sum in the worst case. Public.
    """

    rdp: float
    changes: Doubles
    worst: float

    def smooth(self, beta: float) -> float:
        """The beta-smooth sensitivity: max over d of e^(-beta·d)·changes[d]."""
        return float((np.exp(-beta * np.arange(len(self.changes))) * self.changes).max())


def noisy_max_history(
    votes: NDArray[np.int64],
    *,
    answered: NDArray[np.bool_],
    sigma: float,
    needed: float | None,
    screen_sigma: float,
    order: float,
) -> History:
    """The data-dependent cost of Gaussian noisy maxima, screened or not; unanswered queries cost their screening.

    Args:
      answered: Which queries were answered; released, so public.
    """
    some = votes[answered]
    found = log_q(some, sigma)
    rdp = float(noisy_max_rdp(found, sigma, order).sum())
    changes = max_changes(found, votes.shape[1], sigma, order, int(votes.sum(axis=1).max(initial=1)))
    worst = len(some) * order / sigma**2
    if needed is not None:
        largest = votes.max(axis=1)
        rdp += float(threshold_rdp(largest, needed, screen_sigma, order).sum())
        changes = changes + threshold_changes(largest, needed, screen_sigma, order, len(changes))
        worst += len(votes) * order / (2 * screen_sigma**2)
    return History(rdp, changes, worst)


def max_changes(found: Doubles, num_classes: int, sigma: float, order: float, teachers: int) -> Doubles:
    """(D,) Σ over queries of a bound on |change of `noisy_max_rdp`| by one moved vote, at votes d = 0 … D-1 moves away.

    The bound falls in x, so within a cell [u, u + h] one move up changes it by at most its value at u - step less that
    at u + h. A query d moves away has x within d steps; the one next to it lies one step farther.
    """
    step = math.sqrt(2) / sigma
    h = step / CELLS
    wrong = num_classes - 1
    places = -ndtri_exp(np.minimum(found - math.log(wrong), math.log(0.5)))
    low, high = -2 * step, float(places.max(initial=0.0)) + 2 * step
    # Beyond these ends the bound is constant on the left, and on the right it changes less than at the right end.
    places_of_edges = np.arange(math.floor(low / h), math.ceil((high + (teachers + 1) * step) / h) + 1)
    edges: Doubles = places_of_edges.astype(np.float64) * h

    def rdp(x: Doubles) -> Doubles:
        q = np.minimum(log_ndtr(-x) + math.log(wrong), math.log(1 - 1 / num_classes))
        return noisy_max_rdp(q, sigma, order)

    drop: Doubles = np.subtract(rdp(np.subtract(edges[:-1], step)), rdp(edges[1:]))
    at = np.clip(np.floor((places - edges[0]) / h).astype(np.int64), 0, len(drop) - 1)
    reach = np.zeros(len(found))
    changes = np.empty(teachers + 1)
    filled_left, filled_right = at.copy(), at.copy()
    for moves in range(teachers + 1):
        left = np.maximum(at - CELLS * moves - 1, 0)
        right = np.minimum(at + CELLS * (moves + 1) + 1, len(drop) - 1)
        for query in range(len(found)):
            window = (left[query], filled_left[query] + 1), (filled_right[query], right[query] + 1)
            reach[query] = max(reach[query], *(drop[a:b].max() for a, b in window))
        filled_left, filled_right = left, right
        changes[moves] = reach.sum()
    return changes


def threshold_changes(largest: NDArray[np.int64], needed: float, sigma: float, order: float, distances: int) -> Doubles:
    """(D,) the same for screening, which depends on the largest count alone: it moves by one at a time."""
    lowest = int(largest.min(initial=0)) - distances - 1
    counts = np.arange(lowest, int(largest.max(initial=0)) + distances + 2)
    drop = np.abs(np.diff(threshold_rdp(counts.astype(np.float64), needed, sigma, order)))
    changes = np.zeros(distances)
    for count in largest:
        at = int(count) - lowest
        near = np.maximum(drop[at::1][:distances], drop[at - 1 :: -1][:distances])
        changes += np.maximum.accumulate(near)
    return changes


@dataclass(frozen=True)
class Sanitised:
    """A published bound on the data-dependent cost: (epsilon, delta), its own cost included."""

    epsilon: float
    delta: float


def sanitising_rdp(order: float, published_at: float) -> float:
    """What `sanitise` costs at an order, when it publishes at another (PATE 2018, Theorem 23)."""
    beta, sigma2 = SMOOTH / published_at, SMOOTH_NOISE * published_at
    if not 1 < order < 1 / (2 * beta):
        return math.inf
    return order * math.exp(2 * beta) / sigma2 + (beta * order - math.log1p(-2 * order * beta) / 2) / (order - 1)


def sanitise(history: History, *, order: float, delta: float, noise: Noise) -> Sanitised:
    """The data-dependent epsilon at `order`, with noise scaled to its smooth sensitivity; what it costs is in it.

    What is released is f + c·s·S + s·S·Z with f the divergence, S the smooth sensitivity and s the smooth noise: an
    upper bound of f with the stated confidence. The shift, too, depends on the votes, by a factor of e^beta at most for
    one record, so S is enlarged by 1/(1 - c·s·(e^beta - 1)). The noise Z is a float, unlike that of the votes.
    """
    beta, sigma = SMOOTH / order, math.sqrt(SMOOTH_NOISE * order)
    shift = float(ndtri(CONFIDENCE))
    room = 1 - shift * sigma * math.expm1(beta)
    if not room > 0:
        raise OutOfRegime(f"order must be larger to publish a data-dependent epsilon, got {order:g}")
    smooth = history.smooth(beta) / room
    word = int(noise.words(1)[0])
    normal = float(ndtri((word + 0.5) / 2**64))
    rdp = min(history.worst, max(0.0, history.rdp + sigma * smooth * (shift + normal)))
    return Sanitised(rdp + sanitising_rdp(order, order) + math.log(1 / delta) / (order - 1), delta)
