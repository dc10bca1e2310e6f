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
from recordwise.labels.purity import evidence
from recordwise.labels.soft import soft_labels
from recordwise.tally import Release

EXACT_UP_TO = 14  # classes: 2^14 subsets
ROUNDS = 200


def decode_assignment(release: Release, facts: Facts) -> Labels:
    """Labels that use every class once; needs s = C."""
    known = evidence(release, facts)
    num_queries, num_classes = known.log_likelihood.shape
    if num_queries != num_classes:
        raise InvalidInput(f"assignment needs as many queries as the {num_classes} classes, got {num_queries}")
    from scipy.optimize import linear_sum_assignment

    hard = linear_sum_assignment(known.log_likelihood, maximize=True)[1].astype(np.int64)
    marginals = assignment_marginals(known.log_likelihood)
    return Labels(
        hard=hard,
        soft=soft_labels(release, known, marginals),
        confidence=marginals[np.arange(num_queries), hard],
        decoder="assignment",
    )


def assignment_marginals(log_weights: NDArray[np.float64]) -> NDArray[np.float64]:
    """(C, C) probability of each pair, if an assignment's probability is proportional to the product of its weights."""
    centred = log_weights - log_weights.max(axis=1, keepdims=True)
    return _by_subsets(centred) if len(centred) <= EXACT_UP_TO else _by_belief_propagation(centred)


def _by_subsets(log_weights: NDArray[np.float64]) -> NDArray[np.float64]:
    """Exact: the first i rows use some subset of i columns. Sums over subsets from both ends meet at each row."""
    size = len(log_weights)
    subsets = np.arange(1 << size)
    members = (subsets[:, None] >> np.arange(size)) & 1 == 1
    before = np.full((size + 1, len(subsets)), -np.inf)  # log-sum over the ways rows 0..i-1 fill the subset
    after = np.full((size + 1, len(subsets)), -np.inf)  # log-sum over the ways rows i..C-1 fill what is left
    before[0, 0] = after[size, -1] = 0.0
    for row in range(size):
        for column in range(size):
            larger = subsets[members[:, column]]
            ways = before[row, larger ^ (1 << column)] + log_weights[row, column]
            before[row + 1, larger] = np.logaddexp(before[row + 1, larger], ways)
    marginals = np.zeros((size, size))
    for row in reversed(range(size)):
        for column in range(size):
            larger = subsets[members[:, column]]
            smaller = larger ^ (1 << column)
            ways = after[row + 1, larger] + log_weights[row, column]
            after[row, smaller] = np.logaddexp(after[row, smaller], ways)
            marginals[row, column] = np.exp(_logsumexp(before[row, smaller] + ways) - before[size, -1])
    return marginals


def _by_belief_propagation(log_weights: NDArray[np.float64]) -> NDArray[np.float64]:
    """Approximate: the fixed point of sum-product for the permanent (Huang and Jebara 2009), damped."""
    from_row, from_column = np.zeros_like(log_weights), np.zeros_like(log_weights)  # log-odds that the others leave
    for _ in range(ROUNDS):
        from_row = (from_row - _log_sum_of_others(log_weights + from_column, axis=1)) / 2
        from_column = (from_column - _log_sum_of_others(log_weights + from_row, axis=0)) / 2
    odds = log_weights + from_row + from_column
    marginals = np.exp(-np.logaddexp(0.0, -odds))
    return np.asarray(marginals / marginals.sum(axis=1, keepdims=True))


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


def _logsumexp(logs: NDArray[np.float64]) -> float:
    top = logs.max()
    return float(top) if np.isneginf(top) else float(top + np.log(np.exp(logs - top).sum()))
