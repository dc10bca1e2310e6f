"""How a learning rate moves from the first step (0) to the last (1)."""

from __future__ import annotations

import math


def cosine(progress: float) -> float:
    """From one to zero along half a cosine."""
    return 0.5 * (1 + math.cos(math.pi * min(max(progress, 0.0), 1.0)))


def warmed_up(progress: float, share: float) -> float:
    """A straight rise over the first `share` of the run, then half a cosine."""
    return progress / share if progress < share else cosine((progress - share) / (1 - share))
