"""A release that is an assignment already, with the probability of every pair: nothing is left to infer."""

from __future__ import annotations

import numpy as np

from recordwise.labels.facts import Facts
from recordwise.labels.labels import Labels
from recordwise.labels.soft import at
from recordwise.protocols.release import Assigned
from recordwise.protocols.release.purity import mix


def decode_assigned(release: Assigned, facts: Facts) -> Labels:
    """The released labels; what they leave of a query's records is spread evenly, as in the model behind them."""
    hard = release.chosen.astype(np.int64)
    shares = mix(release.probabilities, np.full_like(release.probabilities, release.purity))
    return Labels(
        hard=hard,
        probabilities=shares,
        confidence=at(shares, hard),
        leads=at(release.probabilities, hard),
        decoder="assigned",
    )
