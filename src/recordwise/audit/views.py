"""What an onlooker sees of a protocol, drawn by running it: clients, shuffler, server; and scores of what was seen.

Scores are log-likelihood ratios under the laws that the protocol states. They decide how sharp the bound of an audit
is, never whether it holds: a protocol that draws from other laws than it states is judged by what it sends.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import singledispatch
from typing import Any

import numpy as np
from numpy.typing import NDArray

from recordwise.arrays import Doubles
from recordwise.audit.cells import choice_log_probabilities, crowd, divided, table, voters
from recordwise.audit.exact import flood_log_sums
from recordwise.audit.messages import log_density
from recordwise.audit.neighbours import NOTHING, Pair, Record, as_votes, bystander, repeated
from recordwise.errors import ProtocolFault
from recordwise.privacy.guarantee import Trust
from recordwise.privacy.noise import Noise
from recordwise.protocols.central import CentralGaussian, CentralLaplace, CentralMatching, CentralPermuteAndFlip
from recordwise.protocols.distributed import DistributedLaplace
from recordwise.protocols.local.answers import Answers
from recordwise.protocols.local.mechanism import LocalMechanism
from recordwise.protocols.local.questions import Questions
from recordwise.protocols.protocol import Protocol
from recordwise.protocols.shuffle import ShuffleMulti, ShuffleSingle
from recordwise.votes.ballot import NOBODY, Ballot, Votes

ROWS = 1 << 18  # records, and
CELLS = 1 << 18  # cells, and
MESSAGES = 1 << 21  # messages that one run may hold
FAR = 1e6  # stands for the logarithm of what cannot be


def fewest_parties(protocol: Protocol[Any], noise: Noise) -> int | None:
    """The fewest parties from which a release is made: the planned number, if fewer are refused as they should be."""
    planned = protocol.fewest
    if planned is None:
        return None
    for parties in sorted({1, planned // 2, planned - 1} & set(range(1, planned))):
        try:
            protocol.release_nobody(parties, noise)
        except ProtocolFault:
            continue
        return parties
    return planned


def relied_on(protocol: DistributedLaplace, parties: int | None) -> int:
    """Of the parties in a sum, those whose shares of the noise no reader can take away."""
    return max(1, (parties or protocol.fewest) - protocol.colluding)


@singledispatch
def scores(
    protocol: Protocol[Any], side: Record | None, pair: Pair, trials: int, parties: int | None, noise: Noise
) -> Doubles:
    """(trials, kinds) scores of independent views of one of the pair's data sets.

    For a protocol that nothing is known about: the released tally, read where the two records voted.
    """
    weight = table(protocol.ballot, pair.before) - table(protocol.ballot, pair.after)
    found = []
    for _ in range(trials):
        release = protocol.server([protocol.client(_data(protocol.ballot, side), noise)], noise)
        seen = release.scores()
        found.append([float((weight * seen).sum())])
    return np.array(found)


@scores.register
def _(
    protocol: LocalMechanism, side: Record | None, pair: Pair, trials: int, parties: int | None, noise: Noise
) -> Doubles:
    """One client with `trials` such records: every record's message is a view."""
    step = max(1, min(ROWS, MESSAGES * 8 // protocol.ballot.num_cells))
    parts = []
    for count in _portions(trials, step):
        some = repeated(_data(protocol.ballot, side), count)
        parts.append(_message_scores(protocol, protocol.client(some, noise).bodies, pair))
    return np.concatenate(parts)


@scores.register
def _(protocol: Questions, side: Record | None, pair: Pair, trials: int, parties: int | None, noise: Noise) -> Doubles:
    """Every record is asked whether its cell is the first one's: its answers, all that it gives, are a view.

    A second question must be refused; where it is answered, both answers count.
    """
    clients = protocol.client(repeated(_data(protocol.ballot, side), trials), noise)
    question, everyone = table(protocol.ballot, pair.before)[None] > 0, np.arange(trials)
    evidence = np.zeros(trials)
    for _ in range(2):
        try:
            evidence += clients.answer(everyone, question, np.zeros(trials, dtype=np.int64))
        except ProtocolFault:
            break
    return evidence[:, None]


def _message_scores(local: LocalMechanism, bodies: NDArray[np.uint8], pair: Pair) -> Doubles:
    before, after = (log_density(local, bodies, side or NOTHING) for side in pair.sides())
    return _difference(before, after)[:, None]


@scores.register
def _(
    protocol: ShuffleSingle, side: Record | None, pair: Pair, trials: int, parties: int | None, noise: Noise
) -> Doubles:
    """A batch is a view: its likelihood ratio, all other senders being alike, and that of its first message.

    A batch has, up to a factor, the probability of the sum over its messages m of p(m) / p(m of the others).
    """
    local, senders = protocol.local, parties or protocol.senders
    third = bystander(protocol.ballot)
    votes, others = _data(protocol.ballot, side), as_votes(protocol.ballot, [third])
    parts = []
    for count in _portions(trials, max(1, ROWS // senders)):
        own, theirs = (
            protocol.client(repeated(records, times), noise).bodies
            for records, times in ((votes, count), (others, count * (senders - 1)))
        )
        batches = []
        for trial in range(count):
            rest = theirs[trial * (senders - 1) : (trial + 1) * (senders - 1)]
            messages = [Answers(bodies, private=noise.private) for bodies in (own[trial : trial + 1], rest)]
            batches.append(protocol.shuffle(messages, noise).bodies)
        bodies = np.concatenate(batches)
        usual = log_density(local, bodies, third)
        one, other = (
            (log_density(local, bodies, record or NOTHING) - usual).reshape(count, senders) for record in pair.sides()
        )
        batch = np.logaddexp.reduce(one, axis=1) - np.logaddexp.reduce(other, axis=1)
        parts.append(np.stack([batch, one[:, 0] - other[:, 0]], axis=1))
    return np.concatenate(parts)


@scores.register(CentralLaplace)
@scores.register(CentralGaussian)
@scores.register(DistributedLaplace)
def _(protocol: Any, side: Record | None, pair: Pair, trials: int, parties: int | None, noise: Noise) -> Doubles:
    """Every block of a release is a view: its likelihood ratio, and how often two cells seem to carry equal noise."""
    shared = protocol.trust is Trust.DISTRIBUTED
    left = relied_on(protocol, parties) if shared else 0
    law = protocol.law(left) if shared else protocol.law
    parts = []
    for wide, victims in _wide(protocol, side, trials, CELLS):
        nobody = as_votes(wide.ballot, [])
        rest = [nobody] * (left - 1) if shared else [repeated(as_votes(wide.ballot, [NOTHING]), 1)]
        readers = [wide.client(nobody, noise) for _ in range((parties or wide.fewest) - left)] if shared else []
        release = wide.server([*(wide.client(votes, noise) for votes in (victims, *rest)), *readers], noise)
        known = sum((wide.signed(share.residues) for share in readers), np.zeros(release.estimate.shape, np.int64))
        seen = (release.estimate - known).reshape(-1, protocol.ballot.num_queries, protocol.ballot.num_classes)
        residues = [seen - table(protocol.ballot, record) for record in pair.sides()]
        likelihoods = [law.log_likelihood(residue).sum(axis=(1, 2)) for residue in residues]
        equal = [_coincidences(residue) for residue in residues]
        parts.append(np.stack([_difference(*likelihoods), equal[0] - equal[1]], axis=1))
    return np.concatenate(parts)


@scores.register
def _(
    protocol: CentralPermuteAndFlip, side: Record | None, pair: Pair, trials: int, parties: int | None, noise: Noise
) -> Doubles:
    """Every block of queries is a view: which classes were chosen, two of them being level or nearly so."""
    ballot, scale = protocol.ballot, float(protocol.scale)
    others = crowd(ballot, scale)
    before, after = (choice_log_probabilities(others + table(ballot, record), scale) for record in pair.sides())
    ratio, queries = before - after, np.arange(ballot.num_queries)
    parts = []
    for wide, victims in _wide(protocol, side, trials, min(CELLS, CELLS * 8 // int(others.sum()))):
        copies = wide.ballot.num_queries // ballot.num_queries
        rest = voters(wide.ballot, np.tile(others, (copies, 1)))
        release = wide.server([wide.client(votes, noise) for votes in (victims, rest)], noise)
        chosen = release.chosen.reshape(copies, ballot.num_queries)
        parts.append(ratio[queries, chosen].sum(axis=1)[:, None])
    return np.concatenate(parts)


@scores.register
def _(
    protocol: CentralMatching, side: Record | None, pair: Pair, trials: int, parties: int | None, noise: Noise
) -> Doubles:
    """Every release is a view: how many votes the record is worth to the matching that was chosen, or its rival."""
    ballot, queries = protocol.ballot, np.arange(protocol.ballot.num_queries)
    change = table(ballot, pair.before) - table(ballot, pair.after)
    others = voters(ballot, divided(change, float(protocol.scale), level=True))
    messages = [protocol.client(votes, noise) for votes in (_data(ballot, side), others)]
    found = [change[queries, protocol.server(messages, noise).scores().argmax(axis=1)].sum() for _ in range(trials)]
    return np.array(found, dtype=np.float64)[:, None]


@scores.register
def _(
    protocol: ShuffleMulti, side: Record | None, pair: Pair, trials: int, parties: int | None, noise: Noise
) -> Doubles:
    """Every block of a shuffled batch is a view: the numbers of positive and negative messages in its cells.

    Scores: the likelihood ratio of both numbers, and that of their difference alone.
    """
    ballot, senders = protocol.ballot, parties or protocol.senders
    law = protocol.law(protocol.senders)
    log_f = flood_log_sums(float(1 / law.scale), protocol.flood)
    per_cell = protocol.expected_messages * protocol.senders / ballot.num_cells
    parts = []
    for wide, victims in _wide(protocol, side, trials, int(MESSAGES / per_cell), most_blocks=senders):
        rest = repeated(as_votes(wide.ballot, [NOTHING]), senders - len(victims))
        messages = [wide.client(votes, noise) for votes in (victims, rest)]
        batch = wide.shuffle(messages, noise)
        counts = np.bincount(batch.codes, minlength=2 * wide.ballot.num_cells)
        seen = counts.reshape(-1, ballot.num_queries, ballot.num_classes, 2)
        positive, negative = seen[..., 0], seen[..., 1]
        both, tallied = [], []
        for record in pair.sides():
            votes = table(ballot, record)
            both.append(_log_two_counts(positive - votes, negative, log_f, float(1 / law.scale)).sum(axis=(1, 2)))
            tallied.append(law.log_likelihood(positive - negative - votes).sum(axis=(1, 2)))
        parts.append(np.stack([_difference(*both), _difference(*tallied)], axis=1))
    return np.concatenate(parts)


def _wide(
    protocol: Any, side: Record | None, trials: int, most_cells: int, most_blocks: int = ROWS
) -> Iterator[tuple[Any, Votes]]:
    """The same protocol on as many copies of its ballot as fit, and the votes of a record in each; until it suffices.

    Where the record is missing from the data set, a sender that abstains stands in for it under shuffle trust, and
    nobody elsewhere.
    """
    ballot: Ballot = protocol.ballot
    most = max(1, min(most_cells // ballot.num_cells, most_blocks, ROWS))
    for copies in _portions(trials, most):
        wide = replace(protocol, ballot=replace(ballot, num_queries=copies * ballot.num_queries))
        if side is None and protocol.trust is not Trust.SHUFFLE:
            yield wide, as_votes(wide.ballot, [])
            continue
        alike = repeated(as_votes(wide.ballot, [side or NOTHING]), copies)
        start = np.arange(copies, dtype=np.int32)[:, None] * ballot.num_queries
        yield wide, Votes(wide.ballot, np.where(alike.queries == NOBODY, NOBODY, alike.queries + start), alike.labels)


def _portions(total: int, most: int) -> Iterator[int]:
    """`total` in portions of at most `most`."""
    while total > 0:
        yield min(total, most)
        total -= most


def _data(ballot: Ballot, side: Record | None) -> Votes:
    return as_votes(ballot, [] if side is None else [side])


def _difference(one: Doubles, other: Doubles) -> Doubles:
    """Of logarithms, of which either may be that of zero."""
    return np.maximum(one, -FAR) - np.maximum(other, -FAR)


def _coincidences(residues: Doubles) -> Doubles:
    """(n,) how many pairs of cells beside each other, in a row or in a column, have the same residue."""
    along = (np.diff(residues, axis=2) == 0).sum(axis=(1, 2))
    down = (np.diff(residues, axis=1) == 0).sum(axis=(1, 2))
    found: Doubles = (along + down).astype(np.float64)
    return found


def _log_two_counts(
    positive: NDArray[np.int64], negative: NDArray[np.int64], log_f: Doubles, noise_epsilon: float
) -> Doubles:
    """The logarithm of what `exact._two_counts` says about one cell, up to a constant."""
    least = np.minimum(positive, negative)
    inside = log_f[np.clip(least, 0, len(log_f) - 1)]
    return np.where(least < 0, -FAR, inside - noise_epsilon * np.abs(positive - negative))
