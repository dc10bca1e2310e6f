"""A law of noise as a table of its distribution function, from its likelihood alone."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from recordwise.privacy.noise.law import Law

POINTS = 801
REACH = 40.0  # standard deviations; beyond it no law of ours has anything left
NEGLIGIBLE = 1e-6  # a standard deviation, in votes, that can no longer hide a vote


def distribution(law: Law) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Ascending noise, dense where the noise is, and P(Z <= noise) at each; the law is read between the integers."""
    root = np.linspace(-np.sqrt(REACH), np.sqrt(REACH), POINTS)
    noise = root * np.abs(root) * max(law.std, NEGLIGIBLE)
    density = np.exp(law.log_likelihood(noise))
    mass = np.concatenate([[0.0], np.cumsum((density[1:] + density[:-1]) * np.diff(noise))])
    if not mass[-1] > 0:  # all of it lies at zero, between two points
        return noise, (noise >= 0).astype(np.float64)
    return noise, mass / mass[-1]
