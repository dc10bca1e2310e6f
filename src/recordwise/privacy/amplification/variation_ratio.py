"""The variation-ratio bound (Wang et al., "Privacy amplification via shuffling: unified, simplified, and tightened").

What matters about a local mechanism are three numbers: how far two records' messages are apart in ratio (p) and in
total variation (beta), and how far a record's message is from anybody else's in ratio (q). From them follow

    alpha = beta / (p - 1),    hit = alpha·p,    miss = alpha,    blanket = alpha·p / q.

Why: write R0 and R1 for the two records' message laws. On side A put (R0 - R1)+ / beta, on side B (R1 - R0)+ / beta.
R0 <= p·R1 gives R0 >= hit·A + miss·B, the rest being common to R0 and R1; R0, R1 <= q·R* gives R* >= blanket·(A + B).
So the shuffled batch is a function of the two counts of `clones` and of things that do not depend on the record.
A mechanism whose true p, beta or q is smaller is covered too: p and q enter as upper bounds in these inequalities,
and a smaller beta means passing each message on with a smaller probability.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from recordwise.errors import InvalidInput
from recordwise.privacy.amplification.clones import Bounds, Clones


@dataclass(frozen=True, kw_only=True)
class Variation:
    """What one message can tell about its sender.

    Attributes:
      p: No message is more than p times as likely under one record as under another.
      beta: The total variation distance of two records' messages is at most this.
      q: No message is more than q times as likely under one of the two records as under anybody else's.
      witnesses: Coarse views of the shuffled batch, on an actual pair of neighbouring data sets, as the server could
        compute them. Their divergence is a lower bound that no accountant can beat.
    """

    p: float
    beta: float
    q: float
    witnesses: tuple[Clones, ...] = ()

    def __post_init__(self) -> None:
        if not self.p > 1 or not self.q >= 1:
            raise InvalidInput(f"p must be > 1 and q >= 1, got {self.p!r} and {self.q!r}")
        most = (self.p - 1) / (self.p + 1)
        if not 0 < self.beta <= most * (1 + 1e-12):
            raise InvalidInput(f"beta must lie in (0, (p-1)/(p+1) = {most:.6g}], got {self.beta!r}")
        if 2 * self.reduction_blanket > 1 + 1e-12:
            raise InvalidInput(f"q must be >= 2·beta·p/(p-1), got {self.q!r}")

    @property
    def reduction_blanket(self) -> float:
        return self.beta / (self.p - 1) * self.p / self.q

    @property
    def clones(self) -> Clones:
        """The pair of count distributions that dominates the shuffled batch."""
        alpha = self.beta / (self.p - 1)
        return Clones(hit=alpha * self.p, miss=alpha, blanket=min(self.reduction_blanket, 0.5))


LocalMechanism = Callable[[float], Variation]
"""From epsilon0 to what one message of the mechanism can tell; the known ones are in `mechanisms`."""


def variation_ratio(senders: int, epsilon0: float, delta: float, mechanism: LocalMechanism) -> Bounds:
    """The central epsilon, at `delta`, of `senders` shuffled messages of `mechanism` at epsilon0.

    Guarantees:
      - `upper` is an upper bound for replace-one neighbours, rounding included, and never above epsilon0;
      - `lower` is attained by some pair of neighbours, whatever the proof (zero where no witness is known).
    """
    variation = mechanism(epsilon0)
    upper = variation.clones.epsilon(delta, senders=senders).upper
    lower = max((view.epsilon(delta, senders=senders).lower for view in variation.witnesses), default=0.0)
    return Bounds(lower, min(epsilon0, upper))
