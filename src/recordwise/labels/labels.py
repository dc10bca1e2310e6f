"""What decoding hands on: a label, a soft label and a confidence for every query."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from recordwise.arrays import Bools, Ints
from recordwise.errors import InvalidInput

ABSTAIN = -1  # the hard label of a query that is better left without one


@dataclass(frozen=True, kw_only=True, eq=False)
class Labels:
    """Labels of the queries. Post-processing of a release: safe to publish, at no further cost.

    Attributes:
      hard: (s,) classes, or ABSTAIN.
      probabilities: (s, C) expected class shares of a query's records, a distribution; where a record may have several
        labels, each cell is the probability that the label belongs to the query.
      confidence: (s,) the chance that the label is right for one of the query's samples: the share of the query's
        records that are expected to have it. Where a release has no counts it rests on a guess of how pure queries are
        (`protocols.release.purity`). Where a record may have several labels: that the whole set is what most records
        carry. An abstention keeps the confidence that it was decided on.
      leads: (s,) the chance that noise did not flip the label: that it is the commonest class of the query's records,
        however few of them have it; of a set, as `confidence`. By the decoder's stated model and the law of the noise.
      decoder: The decoder's name.
      sets: (s, C) the labels of each query, at most r; None when a record has one label.
    """

    hard: Ints
    probabilities: NDArray[np.float64]
    confidence: NDArray[np.float64]
    leads: NDArray[np.float64]
    decoder: str
    sets: Bools | None = None

    def __len__(self) -> int:
        return len(self.hard)

    @property
    def answered(self) -> Bools:
        """(s,) the queries that have a label."""
        return np.asarray(self.hard != ABSTAIN)

    def abstain_below(self, confidence: float, *, by_leads: bool = False) -> Labels:
        """The same labels, without those less likely to be right than `confidence`.

        Among the labels that stay, the expected share of wrong ones is at most 1 - confidence, as far as the decoder's
        model holds.

        Args:
          by_leads: Compare `leads` instead, where a release cannot tell how pure queries are (`Release.shows_purity`).
            Among the labels that stay, noise then flipped a share of at most 1 - confidence.
        """
        if not 0 <= confidence <= 1:
            raise InvalidInput(f"confidence must lie in [0, 1], got {confidence!r}")
        keep = (self.leads if by_leads else self.confidence) >= confidence
        sets = None if self.sets is None else self.sets & keep[:, None]
        return replace(self, hard=np.where(keep, self.hard, ABSTAIN), sets=sets)
