"""A release that is an assignment already, with the probability of every pair: nothing is left to infer."""

from __future__ import annotations

import numpy as np

from recordwise.labels.labels import Labels
from recordwise.labels.purity import mix
from recordwise.tally import Assigned


def decode_assigned(release: Assigned) -> Labels:
    """The released labels; what they leave of a query's records is spread evenly, as in the model behind them."""
    return Labels(
        hard=release.chosen.astype(np.int64),
        soft=mix(release.chances, np.full_like(release.chances, release.purity)),
        confidence=np.take_along_axis(release.chances, release.chosen[:, None], axis=1)[:, 0],
        decoder="assignment",
    )
