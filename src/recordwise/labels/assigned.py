"""A release that is an assignment already, with the probability of every pair: nothing is left to infer."""

from __future__ import annotations

import numpy as np

from recordwise.labels.facts import Facts
from recordwise.labels.labels import Labels
from recordwise.protocols.release import Assigned
from recordwise.protocols.release.purity import mix


def decode_assigned(release: Assigned, facts: Facts) -> Labels:
    """The released labels; what they leave of a query's records is spread evenly, as in the model behind them."""
    return Labels(
        hard=release.chosen.astype(np.int64),
        probabilities=mix(release.probabilities, np.full_like(release.probabilities, release.purity)),
        confidence=np.take_along_axis(release.probabilities, release.chosen[:, None], axis=1)[:, 0],
        decoder="assigned",
    )
