"""What a protocol releases: noisy counts, or just a class per query; with the law of the noise and the guarantee."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from recordwise.privacy.guarantee import Guarantee
from recordwise.privacy.noise.law import Law
from recordwise.votes.ballot import Ballot


@dataclass(frozen=True, eq=False)
class Tally:
    """An unbiased s × C estimate of the votes, safe to publish.

    Attributes:
      estimate: (s, C) true count plus noise; cells can be negative.
      law: The law of each cell's noise, the same for every cell.
    """

    ballot: Ballot
    guarantee: Guarantee
    estimate: NDArray[np.float64]
    law: Law

    @property
    def noise_std(self) -> float:
        return self.law.std


@dataclass(frozen=True, eq=False)
class Choices:
    """One class per query, chosen privately, without counts; safe to publish.

    Attributes:
      chosen: (s,) classes.
      scale: Permute-and-flip accepted a class at a deficit of g votes with probability exp(-g / scale).
    """

    ballot: Ballot
    guarantee: Guarantee
    chosen: NDArray[np.int64]
    scale: Fraction


@dataclass(frozen=True, eq=False)
class Matched(Choices):
    """One class per query, all different, chosen together; safe to publish.

    Attributes:
      scale: A matching with g votes less than another was chosen exp(-g / scale) times as often.
    """


@dataclass(frozen=True, eq=False)
class Assigned:
    """One class per query, all different, and how likely each class is for each query; safe to publish.

    Attributes:
      chosen: (s,) classes, s = C.
      chances: (s, C) probability of each label, every row a distribution, under the model by which it was chosen.
      purity: The expected share of a query's records that carry its label.
    """

    ballot: Ballot
    guarantee: Guarantee
    chosen: NDArray[np.int64]
    chances: NDArray[np.float64]
    purity: float


Undecoded = Tally | Choices  # what labels are yet to be inferred from
Release = Undecoded | Assigned
