"""The closed form of Feldman, McMillan and Talwar 2021 ("Hiding among the clones", Theorem 3.1): loose, a formula."""

from __future__ import annotations

import math

from recordwise.errors import OutOfRegime, positive, probability, whole


def regime(senders: int, delta: float) -> float:
    """The largest epsilon0 for which the closed form is proved."""
    return math.log(senders / (16 * math.log(2 / delta)))


def closed_form(senders: int, epsilon0: float, delta: float) -> float:
    """A central epsilon, at `delta`, of `senders` shuffled messages of any epsilon0-LDP mechanism.

    Guarantees:
      - it is an upper bound, replace-one neighbours, for epsilon0 <= log(senders / (16 log(2 / delta)));
      - outside that regime it raises: there the formula proves nothing.
    """
    whole(senders=senders)
    positive(epsilon0=epsilon0)
    probability(delta=delta)
    most = regime(senders, delta)
    if not epsilon0 <= most:
        raise OutOfRegime(f"epsilon0 must be <= log(n / (16 log(2/delta))) = {most:.4g} here, got {epsilon0!r}")
    e = math.exp(epsilon0)
    spread = 8 * math.sqrt(e * math.log(4 / delta) / senders) + 8 * e / senders
    epsilon = math.log1p((e - 1) / (e + 1) * spread)
    return min(epsilon0, epsilon * (1 + 1e-12))  # outward: a dozen roundings of 1e-16 each
