"""The numerical bound of Feldman, McMillan and Talwar 2021: any epsilon0-LDP mechanism, clones counted exactly.

Each other sender is, with probability e^-epsilon0, a clone that sends what one of the two neighbours would have sent,
either with probability one half (their Theorem 3.2).
"""

from __future__ import annotations

import math

from recordwise.errors import positive
from recordwise.privacy.amplification.clones import Clones


def fmt_clones(epsilon0: float) -> Clones:
    """Where a message falls in the reduction of Theorem 3.2."""
    positive(epsilon0=epsilon0)
    miss = 1 / (math.exp(epsilon0) + 1)
    return Clones(hit=1 - miss, miss=miss, blanket=0.5, cloned=math.exp(-epsilon0))


def fmt_numerical(senders: int, epsilon0: float, delta: float) -> float:
    """A central epsilon, at `delta`, of `senders` shuffled messages of any epsilon0-LDP mechanism.

    Guarantees:
      - it is an upper bound for replace-one neighbours, rounding included, and never above epsilon0.
    """
    return min(epsilon0, fmt_clones(epsilon0).epsilon_above(delta, senders=senders))
