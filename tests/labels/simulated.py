"""Tallies of simulated records, for the tests of this folder."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from recordwise.labels.facts import Facts
from recordwise.privacy.guarantee import Guarantee
from recordwise.privacy.noise import Law
from recordwise.protocols.release import Choices, Evidence, Matched, Tally, Undecoded
from recordwise.votes.ballot import Ballot

PROMISE = Guarantee(epsilon=Fraction(1))


def tally_of(estimate: object, law: Law, *, r: int = 1, k: int = 1) -> Tally:
    cells = np.asarray(estimate, dtype=np.float64)
    ballot = Ballot(num_queries=cells.shape[0], num_classes=cells.shape[1], labels_per_record=r, votes_per_record=k)
    return Tally(ballot, PROMISE, cells, law)


def choices_of(chosen: object, num_classes: int, scale: Fraction) -> Choices:
    classes = np.asarray(chosen, dtype=np.int64)
    return Choices(Ballot(num_queries=len(classes), num_classes=num_classes), PROMISE, classes, scale)


def matched_of(chosen: object, scale: Fraction) -> Matched:
    classes = np.asarray(chosen, dtype=np.int64)
    return Matched(Ballot(num_queries=len(classes), num_classes=len(classes)), PROMISE, classes, scale)


def evidence(release: Undecoded, facts: Facts) -> Evidence:
    """As decoders ask for it."""
    return release.evidence(facts.query_shares, facts.num_records)


def owned_counts(
    labels: NDArray[np.int64], records: NDArray[np.int64], purity: float, num_classes: int, rng: np.random.Generator
) -> NDArray[np.int64]:
    """(s, C) counts of queries with these labels and purity, the rest spread evenly."""
    rows = np.full((len(labels), num_classes), (1 - purity) / (num_classes - 1))
    rows[np.arange(len(labels)), labels] = purity
    return np.array([rng.multinomial(n, row) for n, row in zip(records, rows, strict=True)])


def ring(num_queries: int, reach: int = 2) -> NDArray[np.float64]:
    """Queries on a circle, each beside `reach` others on either side."""
    apart = np.abs(np.arange(num_queries)[:, None] - np.arange(num_queries))
    apart = np.minimum(apart, num_queries - apart)
    return np.where((apart > 0) & (apart <= reach), 1.0, 0.0)


def chance_by_enumeration(counts: list[float], scale: float) -> NDArray[np.float64]:
    """The law of permute-and-flip from its description: walk the classes in every order, flip a coin at each."""
    chance = np.zeros(len(counts))
    orders = list(itertools.permutations(range(len(counts))))
    for order in orders:
        reached = 1.0
        for c in order:
            accepted = math.exp((counts[c] - max(counts)) / scale)
            chance[c] += reached * accepted / len(orders)
            reached *= 1 - accepted
    return chance


def matching_chances(counts: NDArray[np.float64], scale: float) -> dict[tuple[int, ...], float]:
    """The law of the exponential mechanism over matchings, from all of them."""
    rows = range(len(counts))
    weights = {pi: math.exp(sum(counts[i, pi[i]] for i in rows) / scale) for pi in itertools.permutations(rows)}
    return {pi: weight / sum(weights.values()) for pi, weight in weights.items()}
