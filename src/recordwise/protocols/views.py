"""What an onlooker sees of a protocol, drawn by running it, and scores of what was seen: what all audits share.

A record touches at most k queries, or 2k together with the one that replaces it, and no noise depends on how many
others there are. So neighbours are compared on a block of that many queries; and one release about a ballot of many
blocks, with a record in each, is as many independent views of a pair, provided that cells carry independent noise
(scores that look for equal noise in different cells are part of every audit).

Scores are log-likelihood ratios under the laws that the protocol states. They decide how sharp the bound of an audit
is, never whether it holds: a protocol that draws from other laws than it states is judged by what it sends.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from recordwise.arrays import Doubles, Ints
from recordwise.privacy.guarantee import Trust
from recordwise.privacy.noise.law import Law
from recordwise.privacy.noise.source import Noise
from recordwise.protocols.pairs import NOTHING, Pair, Record, as_votes, repeated
from recordwise.votes.ballot import NOBODY, Ballot, Votes

if TYPE_CHECKING:
    from recordwise.protocols.protocol import Protocol

Exact = tuple[float, str] | None  # an exact epsilon, and how it was computed; None where it cannot be

ROWS = 1 << 18  # records, and
CELLS = 1 << 18  # cells, and
MESSAGES = 1 << 21  # messages that one run may hold
FAR = 1e6  # stands for the logarithm of what cannot be
DEPTH = 10  # a choice this many scales of votes behind is made with a probability of about e^-10
MOST_DEPTH = 2000


def table(ballot: Ballot, record: Record | None) -> Ints:
    """(s, C) what one record adds to the tally."""
    counts = np.zeros((ballot.num_queries, ballot.num_classes), dtype=np.int64)
    if record is not None:
        counts[np.ix_(record.queries, record.labels)] = 1
    return counts


def change(ballot: Ballot, pair: Pair) -> Ints:
    """(s, C) what the second data set of a pair has more than the first."""
    return table(ballot, pair.after) - table(ballot, pair.before)


def voters(ballot: Ballot, counts: Ints) -> Votes:
    """Records that vote for one cell each and together cast these counts."""
    cells = np.repeat(np.arange(ballot.num_cells), counts.ravel())
    queries = np.full((len(cells), ballot.votes_per_record), NOBODY, dtype=np.int32)
    labels = np.full((len(cells), ballot.labels_per_record), NOBODY, dtype=np.int32)
    queries[:, 0], labels[:, 0] = np.divmod(cells, ballot.num_classes)
    return Votes(ballot, queries, labels)


def data_set(ballot: Ballot, side: Record | None) -> Votes:
    """One of a pair's data sets: one record, or none."""
    return as_votes(ballot, [] if side is None else [side])


def release_scores(protocol: Protocol[Any], side: Record | None, pair: Pair, trials: int, noise: Noise) -> Doubles:
    """(trials, 1) of any protocol at all: what is released, read where the two records voted."""
    weight = -change(protocol.ballot, pair)
    found = []
    for _ in range(trials):
        release = protocol.server([protocol.client(data_set(protocol.ballot, side), noise)], noise)
        found.append([float((weight * release.scores()).sum())])
    return np.array(found)


def noisy_cells(
    protocol: Protocol[Any], law: Law, side: Record | None, pair: Pair, trials: int, noise: Noise
) -> Doubles:
    """(trials, 2) of a tally whose cells carry independent noise of one law: every block of a release is a view."""
    parts = []
    for wide, victims in blocks(protocol, side, trials, CELLS):
        rest = as_votes(wide.ballot, [NOTHING])
        release = wide.server([wide.client(votes, noise) for votes in (victims, rest)], noise)
        parts.append(tally_scores(protocol.ballot, release.scores(), law, pair))
    return np.concatenate(parts)


def tally_scores(ballot: Ballot, estimate: Doubles, law: Law, pair: Pair) -> Doubles:
    """(blocks, 2) of a tally's blocks: the likelihood ratio, and how often two cells seem to carry equal noise."""
    seen = estimate.reshape(-1, ballot.num_queries, ballot.num_classes)
    residues = [seen - table(ballot, record) for record in pair.sides()]
    likelihoods = [law.log_likelihood(residue).sum(axis=(1, 2)) for residue in residues]
    equal = [_coincidences(residue) for residue in residues]
    return np.stack([difference(*likelihoods), equal[0] - equal[1]], axis=1)


def blocks(
    protocol: Any, side: Record | None, trials: int, most_cells: int, most_blocks: int = ROWS
) -> Iterator[tuple[Any, Votes]]:
    """The same protocol on as many copies of its ballot as fit, and the votes of a record in each; until it suffices.

    Where the record is missing from the data set, a sender that abstains stands in for it under shuffle trust, and
    nobody elsewhere.
    """
    ballot: Ballot = protocol.ballot
    most = max(1, min(most_cells // ballot.num_cells, most_blocks, ROWS))
    for copies in portions(trials, most):
        wide = replace(protocol, ballot=replace(ballot, num_queries=copies * ballot.num_queries))
        if side is None and protocol.trust is not Trust.SHUFFLE:
            yield wide, as_votes(wide.ballot, [])
            continue
        alike = repeated(as_votes(wide.ballot, [side or NOTHING]), copies)
        start = np.arange(copies, dtype=np.int32)[:, None] * ballot.num_queries
        yield wide, Votes(wide.ballot, np.where(alike.queries == NOBODY, NOBODY, alike.queries + start), alike.labels)


def portions(total: int, most: int) -> Iterator[int]:
    """`total` in portions of at most `most`."""
    while total > 0:
        yield min(total, most)
        total -= most


def difference(one: Doubles, other: Doubles) -> Doubles:
    """Of logarithms, of which either may be that of zero."""
    return np.maximum(one, -FAR) - np.maximum(other, -FAR)


def pure_cells(law: Law, changed: Ints) -> float:
    """The pure epsilon of a tally that changes by so much: the largest ratio of every changed cell, added up."""
    noise = np.arange(-math.ceil(8 * law.std) - 8, math.ceil(8 * law.std) + 9)
    log_law = law.log_likelihood(noise)
    return float(np.abs(changed).sum() * np.abs(np.diff(log_law)).max())


def _coincidences(residues: Doubles) -> Doubles:
    """(n,) how many pairs of cells beside each other, in a row or in a column, have the same residue."""
    along = (np.diff(residues, axis=2) == 0).sum(axis=(1, 2))
    down = (np.diff(residues, axis=1) == 0).sum(axis=(1, 2))
    found: Doubles = (along + down).astype(np.float64)
    return found
