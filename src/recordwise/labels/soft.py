"""Soft labels: the class shares of a query's records, from noisy counts that may be negative or sum to nothing."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from recordwise.protocols.release import Evidence, Undecoded
from recordwise.protocols.release.purity import PURITIES, count_variance, mix


def project(rows: NDArray[np.float64]) -> NDArray[np.float64]:
    """The nearest point of the simplex to each row: subtract what makes the positive part sum to one."""
    rows = rows - rows.max(axis=1, keepdims=True)  # the same point, and no digits are lost where rows are large
    ordered = -np.sort(-rows, axis=1)
    surplus = (np.cumsum(ordered, axis=1) - 1) / np.arange(1, rows.shape[1] + 1)
    kept = (ordered > surplus).sum(axis=1)
    shift = np.take_along_axis(surplus, kept[:, None] - 1, axis=1)
    return np.asarray(np.maximum(rows - shift, 0.0))


def at(rows: NDArray[np.float64], column: NDArray[np.int64]) -> NDArray[np.float64]:
    """(s,) each row's entry in its own column."""
    return np.asarray(np.take_along_axis(rows, column[:, None], axis=1)[:, 0])


def soft_labels(release: Undecoded, known: Evidence, posterior: NDArray[np.float64]) -> NDArray[np.float64]:
    """(s, C) expected class shares, given the probability of each label.

    The model of `purity` spreads what a query's label leaves evenly over the other classes. Where the counts are good
    enough to tell how it is really spread, they are followed: each cell moves from the model's share towards the
    observed one by the weight that the observation's variance allows. Nothing is divided by a noisy sum.

    Where there are no counts, purity is not learned: a choice is as likely from impure queries as from pure ones. It is
    then expected in the middle between 1/C and 1, or a little above where a choice through noise speaks for it.
    """
    tally, num_classes = release.tally, posterior.shape[1]
    if tally is None:
        step = (1 - 1 / num_classes) / PURITIES  # purities are tried at the upper end of each step
        return mix(posterior, known.purity - step / 2)
    purity = known.learned(posterior).purity
    modelled = mix(posterior, purity)
    if known.records is None or num_classes == 1:
        return modelled
    records = np.maximum(known.records, 1.0)[:, None]
    variance = (tally.law.std**2 + count_variance(records)) / records**2
    # the rest may sit in any one of the other classes: the variance of a cell that gets all of it or nothing
    rest = 1 - (posterior * purity).sum(axis=1, keepdims=True)
    spread = rest**2 * (num_classes - 2) / (num_classes - 1) ** 2
    return project(modelled + spread / (spread + variance) * (tally.estimate / records - modelled))
