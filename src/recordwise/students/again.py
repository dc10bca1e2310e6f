"""Is another round worth its price? What it would teach, rehearsed on what was released so far.

The student of the rounds so far is taken for the truth: made-up records, drawn from the pool, get labels by its
probabilities and vote, and their votes are released by the same protocols. One student learns the
rounds so far from them, another one round more. How much likelier the second makes the made-up labels is what a further
round may be expected to gain, in nats per sample. Only the release and the pool are looked at, so it costs nothing.

It is a plug-in: where a release is all noise, the student believes that classes do not lie apart, and so does the
rehearsal. Then no further round is expected to help, either.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from recordwise.arrays import NOBODY, Doubles, Floats, Ints, Singles
from recordwise.privacy.noise import SeededNoise
from recordwise.protocols.protocol import Protocol
from recordwise.queries import Queries
from recordwise.randomness import seeded
from recordwise.students.counts import Asked, learn_from_counts

WORTH = 0.01  # nats per sample that a further round must be expected to gain
REHEARSALS = 2


@dataclass(frozen=True, kw_only=True, eq=False)
class PossibleRound:
    """A round that was asked or could be: public."""

    queries: Queries
    graph: Floats
    protocol: Protocol[Any]


def expected_gain(
    pool: Singles, truth: Doubles, rounds: Sequence[PossibleRound], *, num_records: int, seed: int
) -> float:
    """Nats per sample by which a student of all these rounds explains labels better than one of all but the last.

    Args:
      truth: (m, C) class probabilities of the pool, by the student of the rounds so far.
      rounds: The rounds so far, and the one that could follow.
    """
    gains = []
    for number in range(REHEARSALS):
        rng = seeded(seed, "again", str(number))
        # How many lie at each sample, with each label: they take the pool's room, however many records there are.
        where = rng.multinomial(num_records, np.full(len(pool), 1 / len(pool)))
        made_up = rng.multinomial(where, truth / truth.sum(axis=1, keepdims=True))
        noise = SeededNoise(seed + number)
        asked = [_released(pool, one, made_up, noise) for one in rounds]
        fewer, more = (
            learn_from_counts(pool, some, seed=seed).student.predict_proba(pool) for some in (asked[:-1], asked)
        )
        gains.append(float((truth * (np.log(np.maximum(more, 1e-9)) - np.log(np.maximum(fewer, 1e-9)))).sum(1).mean()))
    return float(np.mean(gains))


def _released(pool: Singles, one: PossibleRound, made_up: Ints, noise: SeededNoise) -> Asked:
    """What the made-up records' votes would have been released as.

    Args:
      made_up: (m, C) how many of them lie at each pool sample, with each label.
    """
    queries, ballot = one.queries, one.protocol.ballot
    picks = queries.nearest(pool, ballot.votes_per_record)
    counts = np.zeros((ballot.num_queries, ballot.num_classes), dtype=np.int64)
    for pick in picks.T:
        np.add.at(counts, pick[pick != NOBODY], made_up[pick != NOBODY])
    num_records = int(made_up.sum())
    released = one.protocol.informed(queries.sizes).release_of(counts, num_records, noise)
    return Asked(release=released, owner=queries.owner, graph=one.graph, num_records=num_records)
