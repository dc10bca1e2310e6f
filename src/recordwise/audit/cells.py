"""Protocols that treat every cell of the ballot alike: small blocks of the ballot, and crowds that sharpen a contest.

A record touches at most k queries, or 2k together with the one that replaces it, and no noise depends on how many
others there are. So neighbours are compared on a block of that many queries; and one release about a ballot of many
blocks, with a record in each, is as many independent views of a pair, provided that cells carry independent noise
(scores that look for equal noise in different cells are part of every audit).
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from recordwise.audit.neighbours import Record
from recordwise.votes.ballot import Ballot, Votes

DEPTH = 10  # a class this many scales of votes behind is accepted by permute-and-flip with probability e^-10
MOST_DEPTH = 2000


def table(ballot: Ballot, record: Record | None) -> NDArray[np.int64]:
    """(s, C) what one record adds to the tally."""
    counts = np.zeros((ballot.num_queries, ballot.num_classes), dtype=np.int64)
    if record is not None:
        counts[np.ix_(record.queries, record.labels)] = 1
    return counts


def crowd(ballot: Ballot, scale: float) -> NDArray[np.int64]:
    """(s, C) the other records' votes that make a choice per query tell most: two classes far ahead of the rest.

    With two classes at a gap g the class behind is chosen with probability e^(-g/scale) / 2, so a vote that opens or
    closes a gap costs exactly 1/scale. The two are one vote apart where the second of two records closes the gap (the
    last queries of the ballot), and level where the first one opens it.
    """
    depth = min(math.ceil(DEPTH * scale), MOST_DEPTH)
    counts = np.zeros((ballot.num_queries, ballot.num_classes), dtype=np.int64)
    counts[:, -1] += depth
    counts[:, 0] = depth
    counts[-ballot.votes_per_record :, 0] += 1
    return counts


def rivals(change: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """(C, C) the matchings, as ones, that gain most and least from what one record adds and another one takes away."""
    from scipy.optimize import linear_sum_assignment

    most, least = (linear_sum_assignment(change, maximize=best)[1] for best in (True, False))
    one = np.eye(len(change), dtype=np.int64)
    return one[most], one[least]


def divided(change: NDArray[np.int64], scale: float, *, level: bool) -> NDArray[np.int64]:
    """(C, C) the other records' votes that make a matching tell most: two rivals far ahead of all other matchings.

    The rival that a record speaks for leads. Far ahead, it is nearly all of the sum of all weights, and the other one's
    probability changes by all of epsilon; but to be seen often, the two are level once the other record has voted.
    """
    depth = min(math.ceil(DEPTH * scale), MOST_DEPTH)
    ahead, behind = rivals(change)
    counts = depth * np.maximum(ahead, behind)
    alone = np.argwhere((ahead > 0) & (behind == 0))
    if len(alone):  # no rivals: all matchings gain alike, and nothing is told
        counts[tuple(alone[0])] += -int((change * behind).sum()) if level else depth
    return np.asarray(counts)


def voters(ballot: Ballot, counts: NDArray[np.int64]) -> Votes:
    """Records that vote for one cell each and together cast these counts."""
    cells = np.repeat(np.arange(ballot.num_cells), counts.ravel())
    queries = np.full((len(cells), ballot.votes_per_record), -1, dtype=np.int32)
    labels = np.full((len(cells), ballot.labels_per_record), -1, dtype=np.int32)
    queries[:, 0], labels[:, 0] = np.divmod(cells, ballot.num_classes)
    return Votes(ballot, queries, labels)


def choice_log_probabilities(counts: NDArray[np.int64], scale: float) -> NDArray[np.float64]:
    """(s, C) permute-and-flip's law: log of a_c · integral over u in (0, 1) of the product of (1 - a_j·u), j != c.

    Classes come in random order, at uniform times; class c is chosen at time u if it accepts, which it does with
    probability a_c = exp((count - max) / scale), and nobody who came before u did. The integrand is a polynomial of
    degree C - 1, so Gauss and Legendre's rule is exact.
    """
    accept = np.exp((counts - counts.max(axis=1, keepdims=True)) / scale)
    nodes, weights = np.polynomial.legendre.leggauss(counts.shape[1] // 2 + 1)
    refuse = 1 - accept[:, None, :] * ((nodes + 1) / 2)[None, :, None]  # (s, nodes, C), never zero inside (0, 1)
    others = refuse.prod(axis=2, keepdims=True) / refuse
    chance = accept * np.einsum("n,snc->sc", weights / 2, others)
    log_chance: NDArray[np.float64] = np.log(np.maximum(chance, 1e-300))
    return log_chance
