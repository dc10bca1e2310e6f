"""Protocols that treat every cell of the ballot alike: small blocks of the ballot, and crowds that sharpen a contest.

A record touches at most k queries, or 2k together with the one that replaces it, and no noise depends on how many
others there are. So neighbours are compared on a block of that many queries; and one release about a ballot of many
blocks, with a record in each, is as many independent views of a pair, provided that cells carry independent noise
(scores that look for equal noise in different cells are part of every audit).
"""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from recordwise.audit.neighbours import Record
from recordwise.votes.ballot import Ballot, Votes

DEPTH = 10  # a class this many scales of votes behind is accepted by permute-and-flip with probability e^-10
MOST_DEPTH = 2000


def block(ballot: Ballot, *, every_class: bool) -> Ballot:
    """The part of a ballot on which two neighbours can differ; with every class where classes compete for a query."""
    queries = min(ballot.num_queries, 2 * ballot.votes_per_record)
    classes = ballot.num_classes if every_class else min(ballot.num_classes, 2 * ballot.labels_per_record)
    return replace(ballot, num_queries=queries, num_classes=classes)


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
