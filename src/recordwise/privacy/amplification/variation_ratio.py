"""The variation-ratio bound (after Wang et al., "Privacy amplification via shuffling: unified, simplified, tightened").

What matters about a local mechanism are three numbers: how far two records' messages are apart in ratio (p) and in
total variation (beta), and how far a record's message is from anybody else's in ratio (q).

The reduction. Write R0 and R1 for the two records' message laws, R* for anybody else's, and

    A = (R0 - R1)+ / beta,    B = (R1 - R0)+ / beta,    miss = beta / (p - 1),    hit = p·miss.

R0 <= p·R1 and R1 <= p·R0 leave a rest Q that both share: R0 = hit·A + miss·B + (1 - hit - miss)·Q, and R1 likewise
with A and B exchanged. Since A and B never meet, max(R0, R1) = hit·(A + B) + (1 - hit - miss)·Q, of mass 1 + beta,
and R* >= max(R0, R1) / q. So anybody else is, with probability (1 + beta) / q, a clone that sends A, B or Q with
probabilities proportional to hit, hit and 1 - hit - miss, and the batch is a function of the numbers of As, Bs and Qs
and of things that do not depend on the record. That is the pair of `clones`.

The published theorem differs in one point: it lets every message of the others that is neither A nor B hide a Q of
ours. It need not, and the theorem is then too small: randomized response over three answers, epsilon0 = 2, two
senders who hold the same record, has delta(1.5) = 0.2437; the theorem says 0.2372. The test suite keeps the example.

A smaller beta is covered. With i.i.d. messages from the clones' law the divergence at e^epsilon = f is
(q/n)·E(sum of g)+, where g is 1 - f/p for an A, 1/p - f for a B, 1 - f for a Q and 0 otherwise. The mean of g is
(1 - f)/q whatever beta is, and a larger beta moves mass from 1 - f and 0 to the two ends 1/p - f and 1 - f/p: a
mean-preserving spread, under which the mean of a convex function can only grow. p and q enter as upper bounds anyway.
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
        if not self.p > 1:
            raise InvalidInput(f"p must be > 1, got {self.p!r}")
        most = (self.p - 1) / (self.p + 1)
        if not 0 < self.beta <= most * (1 + 1e-12):
            raise InvalidInput(f"beta must lie in (0, (p-1)/(p+1) = {most:.6g}], got {self.beta!r}")
        if not self.q >= 1 + self.beta:
            raise InvalidInput(f"q must be >= 1 + beta, got {self.q!r}")

    @property
    def clones(self) -> Clones:
        """The pair of distributions that dominates the shuffled batch."""
        miss = self.beta / (self.p - 1)
        hit = miss * self.p
        nothing_else = hit + miss > 1 - 1e-12  # no rest: a clone falls on one of the sides
        blanket = 0.5 if nothing_else else hit / (1 + self.beta)
        return Clones(hit=hit, miss=miss, blanket=blanket, cloned=(1 + self.beta) / self.q)


LocalMechanism = Callable[[float], Variation]
"""From epsilon0 to what one message of the mechanism can tell; the known ones are in `mechanisms`."""


def variation_ratio(senders: int, epsilon0: float, delta: float, mechanism: LocalMechanism) -> Bounds:
    """The central epsilon, at `delta`, of `senders` shuffled messages of `mechanism` at epsilon0.

    Guarantees:
      - `upper` is an upper bound for replace-one neighbours, rounding included, and never above epsilon0;
      - `lower` is attained by some pair of neighbours, whatever the proof (zero where no witness is known).
    """
    variation = mechanism(epsilon0)
    upper = variation.clones.epsilon_above(delta, senders=senders)
    lower = max((view.epsilon_below(delta, senders=senders) for view in variation.witnesses), default=0.0)
    return Bounds(lower, min(epsilon0, upper))
