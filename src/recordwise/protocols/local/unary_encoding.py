"""Optimized unary encoding: a vote is kept by a fair coin, and other cells are rarely set (Wang et al. 2017)."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import TYPE_CHECKING, ClassVar

from recordwise.privacy.noise import exp
from recordwise.privacy.noise.real import real
from recordwise.protocols.local.bits import IndependentBits
from recordwise.protocols.local.indicator import Indicator
from recordwise.protocols.registry import register
from recordwise.votes.ballot import Ballot

if TYPE_CHECKING:
    from recordwise.privacy.amplification import LocalMechanism as Amplifiable


@register
@dataclass(frozen=True, kw_only=True)
class UnaryEncoding(IndependentBits):
    """Keeps a one with probability 1/2 and sets a zero with probability 1 / (e^(epsilon / c) + 1), c = k·r.

    Guarantees:
      - a bit set under one record and clear under the other costs, with its counterpart, a factor of e^(epsilon / c),
        and there are at most c such pairs.
    """

    name: ClassVar[str] = "unary-encoding"

    @classmethod
    def tells(cls, ballot: Ballot) -> Amplifiable:
        from recordwise.privacy.amplification.mechanisms import unary_encoding

        return unary_encoding(ballot.cells_per_record)

    @cached_property
    def indicator(self) -> Indicator:
        return Indicator(hit=real(Fraction(1, 2)), miss=1 / (exp(self.epsilon / self.ballot.cells_per_record) + 1))
