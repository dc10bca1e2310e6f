"""Soft labels: the class shares of a query's records, from noisy counts that may be negative or sum to nothing."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from recordwise.labels.purity import Evidence
from recordwise.tally import Choices, Release, Tally


def project(rows: NDArray[np.float64]) -> NDArray[np.float64]:
    """The nearest point of the simplex to each row: subtract what makes the positive part sum to one."""
    ordered = -np.sort(-rows, axis=1)
    surplus = (np.cumsum(ordered, axis=1) - 1) / np.arange(1, rows.shape[1] + 1)
    kept = (ordered > surplus).sum(axis=1)
    shift = np.take_along_axis(surplus, kept[:, None] - 1, axis=1)
    return np.asarray(np.maximum(rows - shift, 0.0))


def soft_labels(release: Release, evidence: Evidence, posterior: NDArray[np.float64]) -> NDArray[np.float64]:
    """(s, C) expected class shares, given the probability of each label.

    The model of `purity` spreads what a query's label leaves evenly over the other classes. Where the counts are good
    enough to tell how it is really spread, they are followed: each cell moves from the model's share towards the
    observed one by the weight that the observation's variance allows. Nothing is divided by a noisy sum.
    """
    mix = evidence.mix(posterior)
    num_classes = mix.shape[1]
    if isinstance(release, Choices) or evidence.records is None or num_classes == 1:
        return mix
    return _towards_counts(release, evidence.records, mix, (posterior * evidence.purity).sum(axis=1))


def _towards_counts(
    tally: Tally, records: NDArray[np.float64], mix: NDArray[np.float64], purity: NDArray[np.float64]
) -> NDArray[np.float64]:
    num_classes = mix.shape[1]
    records = np.maximum(records, 1.0)[:, None]
    observed = tally.estimate / records
    variance = (tally.law.std**2 + records) / records**2
    # the rest, 1 - purity, may sit in any one of the other classes: the variance of a cell that gets all or nothing
    spread = (1 - purity[:, None]) ** 2 * (num_classes - 2) / (num_classes - 1) ** 2
    weight = np.divide(spread, spread + variance)
    return project(mix + weight * (observed - mix))
