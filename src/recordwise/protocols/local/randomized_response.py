"""Randomized response: every cell's bit is flipped now and then (Warner 1965; Duchi et al. 2013)."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, ClassVar

from recordwise.privacy.noise import exp
from recordwise.protocols.local.bits import IndependentBits
from recordwise.protocols.local.indicator import Indicator
from recordwise.protocols.registry import register
from recordwise.votes.ballot import Ballot

if TYPE_CHECKING:
    from recordwise.privacy.amplification import LocalMechanism as Amplifiable


@register
@dataclass(frozen=True, kw_only=True)
class RandomizedResponse(IndependentBits):
    """Flips each of the s·C bits with probability 1 / (e^(epsilon / 2c) + 1), c = k·r.

    Guarantees:
      - replacing a record changes up to 2c bits, c set and c cleared, each by a factor of e^(epsilon / 2c): hence
        the 2.
    """

    name: ClassVar[str] = "randomized-response"

    @classmethod
    def tells(cls, ballot: Ballot) -> Amplifiable:
        from recordwise.privacy.amplification.mechanisms import randomized_response

        return randomized_response(ballot.cells_per_record)

    @cached_property
    def indicator(self) -> Indicator:
        kept = exp(self.epsilon / (2 * self.ballot.cells_per_record))
        return Indicator(hit=kept / (kept + 1), miss=1 / (kept + 1))
