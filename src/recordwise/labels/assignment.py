"""As many queries as classes: every class gets one query, and all are assigned together.

The likeliest assignment is Hungarian; its confidence is the probability of each of its pairs among *all* assignments,
weighted by their likelihood: a ratio of permanents, exact for few classes and by belief propagation for many.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from recordwise.errors import InvalidInput
from recordwise.labels.facts import Facts
from recordwise.labels.labels import Labels
from recordwise.labels.soft import at, soft_labels
from recordwise.protocols.release import Undecoded

EXACT_UP_TO = 14  # classes: 2^14 subsets
ROUNDS = 200


def decode_assignment(release: Undecoded, facts: Facts) -> Labels:
    """Labels that use every class once; needs s = C."""
    known = release.evidence(facts.query_shares, facts.num_records)
    num_queries, num_classes = known.log_likelihood.shape
    if num_queries != num_classes:
        raise InvalidInput(f"assignment needs as many queries as the {num_classes} classes, got {num_queries}")
    from scipy.optimize import linear_sum_assignment

    hard = linear_sum_assignment(known.log_likelihood, maximize=True)[1].astype(np.int64)
    marginals, _ = all_assignments(known.log_likelihood)
    shares = soft_labels(release, known, marginals)
    return Labels(
        hard=hard,
        probabilities=shares,
        confidence=at(shares, hard),
        leads=at(marginals, hard),
        decoder="assignment",
    )


def all_assignments(log_weights: NDArray[np.float64]) -> tuple[NDArray[np.float64], float]:
    """Sums over all C! assignments, each weighted by the product of its pairs' weights.

    Returns:
      (C, C) probability of each pair, and the log of the permanent (the sum of all weights).
    """
    top = log_weights.max(axis=1, keepdims=True)
    solve = _by_subsets if len(log_weights) <= EXACT_UP_TO else _by_belief_propagation
    marginals, log_permanent = solve(log_weights - top)
    return marginals, log_permanent + float(top.sum())


def _by_subsets(log_weights: NDArray[np.float64]) -> tuple[NDArray[np.float64], float]:
    """Exact: the first i rows use some subset of i columns. Sums over subsets from both ends meet at each row."""
    size = len(log_weights)
    subsets = np.arange(1 << size)
    with_column = [subsets[(subsets >> column) & 1 == 1] for column in range(size)]
    before = np.full((size + 1, len(subsets)), -np.inf)  # log-sum over the ways the rows above fill the subset
    before[0, 0] = 0.0
    for row in range(size):
        for column, larger in enumerate(with_column):
            ways = before[row, larger ^ (1 << column)] + log_weights[row, column]
            before[row + 1, larger] = np.logaddexp(before[row + 1, larger], ways)
    total = before[size, -1]
    after = np.full(len(subsets), -np.inf)  # log-sum over the ways the rows below fill the rest
    after[-1] = 0.0
    marginals = np.zeros((size, size))
    for row in reversed(range(size)):
        below, after = after, np.full(len(subsets), -np.inf)
        for column, larger in enumerate(with_column):
            smaller = larger ^ (1 << column)
            ways = below[larger] + log_weights[row, column]
            after[smaller] = np.logaddexp(after[smaller], ways)
            marginals[row, column] = np.exp(before[row, smaller] + ways - total).sum()
    return marginals, float(total)


def _by_belief_propagation(log_weights: NDArray[np.float64]) -> tuple[NDArray[np.float64], float]:
    """Approximate: sum-product for the permanent (Huang and Jebara 2009), damped; the permanent is Bethe's."""
    from_row, from_column = np.zeros_like(log_weights), np.zeros_like(log_weights)  # log-odds of a pair
    for _ in range(ROUNDS):
        from_row = (from_row - _log_sum_of_others(log_weights + from_column, axis=1)) / 2
        from_column = (from_column - _log_sum_of_others(log_weights + from_row, axis=0)) / 2
    log_odds = log_weights + from_row + from_column
    rows = np.logaddexp.reduce(log_weights + from_column, axis=1)
    columns = np.logaddexp.reduce(log_weights + from_row, axis=0)
    log_permanent = rows.sum() + columns.sum() - np.logaddexp(0.0, log_odds).sum()
    marginals = np.exp(-np.logaddexp(0.0, -log_odds))
    return np.asarray(marginals / marginals.sum(axis=1, keepdims=True)), float(log_permanent)


def _log_sum_of_others(logs: NDArray[np.float64], axis: int) -> NDArray[np.float64]:
    """For each entry, log of the sum of the exponentials of the other entries along the axis; without cancellation."""
    logs = np.moveaxis(logs, axis, -1)
    left = np.logaddexp.accumulate(logs, axis=-1)
    right = np.logaddexp.accumulate(logs[..., ::-1], axis=-1)[..., ::-1]
    nothing = np.full((*logs.shape[:-1], 1), -np.inf)
    others = np.logaddexp(
        np.concatenate([nothing, left[..., :-1]], axis=-1), np.concatenate([right[..., 1:], nothing], axis=-1)
    )
    return np.moveaxis(others, -1, axis)
