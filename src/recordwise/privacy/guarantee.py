"""What a release promises, as a value that prints as one honest sentence."""

from __future__ import annotations

import decimal
import math
import numbers
import re
import sys
from dataclasses import dataclass, replace
from enum import StrEnum
from fractions import Fraction
from typing import Any, TypeVar

from recordwise.errors import InvalidInput, positive, shown, whole

# What a number may be before anything is computed from it: a float holds it, and its digits fit a page.
LARGEST, MOST_BITS, MOST_SPELLED = int(sys.float_info.max), 1 << 16, 40_000
MOST_ODDS = 10**6  # to 1: odds that are no longer worth their digits
HUGE = re.compile(r"[eE][+-]?[\d_]{4}")  # an exponent beyond any use, in any digits that Python reads


class Neighbours(StrEnum):
    """Which pairs of data sets a guarantee makes hard to tell apart."""

    REPLACE = "replace"
    ADD_REMOVE = "add-remove"

    @property
    def records_changed(self) -> int:
        """Records whose votes differ between two neighbours: the old one and the new one, or just one."""
        return 2 if self is Neighbours.REPLACE else 1


class Trust(StrEnum):
    """Who may see a record's votes before noise covers them."""

    CENTRAL = "central"
    DISTRIBUTED = "distributed"
    LOCAL = "local"
    SHUFFLE = "shuffle"

    def covers(self, other: Trust) -> bool:
        """Whether someone who accepts this trust accepts the other: it asks for no more.

        Local trust asks for none. Central trust gives the aggregator the votes, after which it may as well run any
        other protocol on them. Distributed and shuffle trust rely on different parties.
        """
        return other in (self, Trust.LOCAL) or self is Trust.CENTRAL


class Unit(StrEnum):
    """What is protected: one record, or everything one client holds."""

    RECORD = "record"
    CLIENT = "client"


def exact(value: float | int | str | Fraction, name: str = "a privacy parameter") -> Fraction:
    """The number a person wrote: 0.1 is one tenth, not the binary float nearest to it.

    Budgets are compared and added as exact fractions, so three charges of 0.1 fit a budget of 0.3.
    """
    try:
        if isinstance(value, str) and (len(value) > MOST_SPELLED or HUGE.search(value)):
            raise ValueError("it has too many digits")
        known = isinstance(value, Fraction)  # most are: the general question takes ten times as long
        if not known and isinstance(value, numbers.Real) and not isinstance(value, numbers.Rational):
            return Fraction(str(value))  # the shortest decimal that is this float; NumPy's floats have one too
        if not isinstance(value, bool):
            made = value if isinstance(value, Fraction) else Fraction(value)
            if max(made.numerator.bit_length(), made.denominator.bit_length()) <= MOST_BITS and abs(made) <= LARGEST:
                return made
    except (ValueError, ArithmeticError, TypeError) as error:
        raise InvalidInput(f"{name} must be a finite number, got {shown(value)}") from error
    raise InvalidInput(f"{name} must be a finite number, got {shown(value)}")


Choice = TypeVar("Choice", bound=StrEnum)


def one_of(kind: type[Choice], **values: str) -> Choice:
    """The member of `kind` that the one given value names."""
    ((name, value),) = values.items()
    try:
        return kind(value)
    except ValueError as error:
        choices = ", ".join(repr(str(member)) for member in kind)
        raise InvalidInput(f"{name} must be one of {choices}, got {value!r}") from error


def members(value: object, **kinds: type[StrEnum]) -> None:
    """Make the named fields of a frozen value members of their kinds, however they were spelled.

    Every value type does this once, when it is made: behind it a field is a member and `is` may be asked of it.
    """
    for name, kind in kinds.items():
        object.__setattr__(value, name, one_of(kind, **{name: getattr(value, name)}))


def rounded_up(value: Fraction) -> str:
    """Four digits, never less than the value: what has been or would be spent."""
    return _four_digits(value, decimal.ROUND_CEILING)


def rounded_down(value: Fraction) -> str:
    """Four digits, never more than the value: what is left."""
    return _four_digits(value, decimal.ROUND_FLOOR)


def percent_up(share: float) -> str:
    """Percent with one digit, never less than the share: how sure somebody may be."""
    return f"{min(100.0, math.ceil(1000 * share) / 10):.1f}"


def _four_digits(value: Fraction, rounding: str) -> str:
    with decimal.localcontext(decimal.Context(prec=4, rounding=rounding)):
        quotient = decimal.Decimal(value.numerator) / decimal.Decimal(value.denominator)
        return f"{float(quotient):.4g}"


@dataclass(frozen=True, kw_only=True)
class Guarantee:
    """(epsilon, delta)-differential privacy of one `unit` under `neighbours`, given `trust`.

    Attributes:
      epsilon: Bound on the log-ratio of the probabilities of any outcome under two neighbouring data sets.
      delta: Zero for pure differential privacy.
      honest_parties: How many senders must have added their noise as agreed, and told nobody; None where nobody else is
        relied on.
      insider_epsilon: The epsilon that holds against one of the senders, who reads the release and takes the own noise
        away. None where nobody else is relied on, and where no such reader is counted.
      private: False when the noise was replayable (seeded), in which case nothing at all is promised.
    """

    epsilon: Fraction
    delta: Fraction = Fraction(0)
    neighbours: Neighbours = Neighbours.REPLACE
    trust: Trust = Trust.CENTRAL
    unit: Unit = Unit.RECORD
    honest_parties: int | None = None
    insider_epsilon: Fraction | None = None
    private: bool = True

    def __post_init__(self) -> None:
        object.__setattr__(self, "epsilon", exact(self.epsilon, "epsilon"))
        object.__setattr__(self, "delta", exact(self.delta, "delta"))
        members(self, neighbours=Neighbours, trust=Trust, unit=Unit)
        positive(epsilon=self.epsilon)
        if not 0 <= self.delta < 1:
            raise InvalidInput(f"delta must lie in [0, 1), got {float(self.delta)!r}")
        if self.honest_parties is not None:
            whole(honest_parties=self.honest_parties)
            object.__setattr__(self, "honest_parties", int(self.honest_parties))
        if self.insider_epsilon is not None:
            object.__setattr__(self, "insider_epsilon", exact(self.insider_epsilon, "insider_epsilon"))
            positive(insider_epsilon=self.insider_epsilon)
        object.__setattr__(self, "private", bool(self.private))

    @property
    def is_pure(self) -> bool:
        return self.delta == 0

    def to_json(self) -> dict[str, Any]:
        """A plain record of the guarantee: `Guarantee(**record)` is the guarantee again."""
        plain = {name: None if value is None else str(value) for name, value in vars(self).items()}
        return plain | {"honest_parties": self.honest_parties, "private": self.private}

    def __add__(self, other: Guarantee) -> Guarantee:
        """What two releases about the same records promise together: epsilons and deltas add up.

        Never under-reports; at delta > 0 `accountant.total_epsilon` on the releases' events is often tighter.
        """
        for name in ("neighbours", "unit", "trust"):
            if getattr(self, name) != getattr(other, name):
                raise InvalidInput(
                    f"guarantees must share their {name} to be added, got {getattr(self, name)!s} "
                    f"and {getattr(other, name)!s}"
                )
        assumed = [parties for parties in (self.honest_parties, other.honest_parties) if parties is not None]
        return replace(
            self,
            epsilon=self.epsilon + other.epsilon,
            delta=self.delta + other.delta,
            honest_parties=max(assumed, default=None),
            insider_epsilon=_both(self.insider_epsilon, other.insider_epsilon),
            private=self.private and other.private,
        )

    def repeated(self, times: int) -> Guarantee:
        """What `times` such releases about the same records promise together."""
        whole(times=times)
        insider = None if self.insider_epsilon is None else times * self.insider_epsilon
        return replace(self, epsilon=times * self.epsilon, delta=times * self.delta, insider_epsilon=insider)

    def __str__(self) -> str:
        if not self.private:
            return "NOT PRIVATE: the noise was seeded so that it can be replayed; nothing is protected."
        change = {
            (Unit.RECORD, Neighbours.REPLACE): "replacing any one record by any other",
            (Unit.RECORD, Neighbours.ADD_REMOVE): "adding or removing any one record",
            (Unit.CLIENT, Neighbours.REPLACE): "replacing everything one client holds",
            (Unit.CLIENT, Neighbours.ADD_REMOVE): "adding or removing everything one client holds",
        }[self.unit, self.neighbours]
        effect = f"changes the probability of any outcome by a factor of at most e^{rounded_up(self.epsilon)}"
        if not self.is_pure:
            effect += f", plus a probability of at most {rounded_up(self.delta)}"
        keeper = {
            Trust.CENTRAL: "whoever runs the release is trusted with the records' votes",
            Trust.DISTRIBUTED: "nobody sees a party's votes, only their noisy sum",
            Trust.LOCAL: "nobody is trusted: every record's votes are randomized before they leave its holder",
            Trust.SHUFFLE: "the shuffler is trusted to hide who sent which message and not to collude with the server",
        }[self.trust]
        if self.honest_parties is not None:
            parties = "one party is" if self.honest_parties == 1 else f"{self.honest_parties:,} parties are"
            keeper += f"; at least {parties} assumed to add noise honestly and to keep it secret{self._insiders()}"
        kind = "Pure" if self.is_pure else "Approximate"
        return f"{kind} differential privacy, {self.trust} trust: {change} {effect} ({keeper})."

    def as_odds(self) -> str:
        """What epsilon lets an attacker gain, for somebody who never heard of it."""
        if not self.private:
            return "Nothing limits what somebody who knows the seed can find out."
        unknown = {
            (Unit.RECORD, Neighbours.REPLACE): "which of two versions of one record was used",
            (Unit.RECORD, Neighbours.ADD_REMOVE): "whether one record was used",
            (Unit.CLIENT, Neighbours.REPLACE): "which of two versions of one client's records was used",
            (Unit.CLIENT, Neighbours.ADD_REMOVE): "whether one client took part",
        }[self.unit, self.neighbours]
        before = f"In odds: suppose an attacker knows everything but {unknown}, and this is an even bet (1 to 1)"
        if self.epsilon > math.log(MOST_ODDS) or self._odds > MOST_ODDS:
            return f"{before}. All that is released may bring the odds to more than a million to 1: next to no limit."
        odds = rounded_up(self._odds) if self._odds < 1000 else f"{math.ceil(self._odds):,}"
        sure = percent_up(self.certainty)
        if self.is_pure:
            after = f"All that is released can bring the odds to at most {odds} to 1: {sure} % sure instead of 50 %."
        else:
            after = (
                f"A guess from all that is released is right in at most {sure} % of all cases instead of 50 %: odds of "
                f"{odds} to 1."
            )
        return f"{before}. {after}"

    @property
    def _odds(self) -> Fraction:
        """That a guess between two neighbours is right, at most, against 1; Theorem 2.1 of arXiv:1311.0776."""
        return (exact(math.exp(float(self.epsilon))) + self.delta) / (1 - self.delta)

    @property
    def certainty(self) -> float:
        """How often a guess between two neighbours that were equally likely is right, at most.

        Under pure differential privacy it is also how sure anybody can be, whatever was released. Under approximate
        differential privacy it holds on the average: a release that says more may come up, with a small probability.
        """
        return certainty(float(self.epsilon), float(self.delta))

    def _insiders(self) -> str:
        """What the sentence says about a sender who reads the release."""
        if self.insider_epsilon is None:
            if self.honest_parties == 1:
                return ", and that one could take all noise away"
            return "; a sender who reads the release, and knows the own noise, is not counted"
        if self.insider_epsilon <= self.epsilon:
            return "; it holds against a reader who added noise, too"
        return (
            f"; against a reader who added noise, and takes it away, only a factor of at most "
            f"e^{rounded_up(self.insider_epsilon)} holds"
        )


def certainty(epsilon: float, delta: float = 0.0) -> float:
    """How often a guess between two equally likely versions of one record is right, at most: (e^ε + δ)/(e^ε + 1)."""
    return min(1.0, (1 + delta * math.exp(-epsilon)) / (1 + math.exp(-epsilon)))


def _both(one: Fraction | None, other: Fraction | None) -> Fraction | None:
    """The sum, where both are known: what is unknown for one release is unknown for two."""
    return None if one is None or other is None else one + other
