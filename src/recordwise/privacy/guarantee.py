"""What a release promises, as a value that prints as one honest sentence."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from fractions import Fraction

from recordwise.errors import InvalidInput, positive


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


class Unit(StrEnum):
    """What is protected: one record, or everything one client holds."""

    RECORD = "record"
    CLIENT = "client"


def exact(value: float | int | str | Fraction) -> Fraction:
    """The number a person wrote: 0.1 is one tenth, not the binary float nearest to it.

    Budgets are compared and added as exact fractions, so three charges of 0.1 fit a budget of 0.3.
    """
    try:
        return Fraction(repr(float(value))) if isinstance(value, float) else Fraction(value)
    except (ValueError, OverflowError, TypeError) as error:
        raise InvalidInput(f"a privacy parameter must be a finite number, got {value!r}") from error


@dataclass(frozen=True, kw_only=True)
class Guarantee:
    """(epsilon, delta)-differential privacy of one `unit` under `neighbours`, given `trust`.

    Attributes:
      epsilon: Bound on the log-ratio of the probabilities of any outcome under two neighbouring data sets.
      delta: Zero for pure differential privacy.
      honest_parties: How many senders must have added their noise as agreed; None where nobody else is relied on.
      private: False when the noise was replayable (seeded), in which case nothing at all is promised.
    """

    epsilon: Fraction
    delta: Fraction = Fraction(0)
    neighbours: Neighbours = Neighbours.REPLACE
    trust: Trust = Trust.CENTRAL
    unit: Unit = Unit.RECORD
    honest_parties: int | None = None
    private: bool = True

    def __post_init__(self) -> None:
        object.__setattr__(self, "epsilon", exact(self.epsilon))
        object.__setattr__(self, "delta", exact(self.delta))
        positive(epsilon=self.epsilon)
        if not 0 <= self.delta < 1:
            raise InvalidInput(f"delta must lie in [0, 1), got {float(self.delta)!r}")

    @property
    def is_pure(self) -> bool:
        return self.delta == 0

    def __str__(self) -> str:
        if not self.private:
            return "NOT PRIVATE: the noise was seeded so that it can be replayed; nothing is protected."
        change = {
            (Unit.RECORD, Neighbours.REPLACE): "replacing any one record by any other",
            (Unit.RECORD, Neighbours.ADD_REMOVE): "adding or removing any one record",
            (Unit.CLIENT, Neighbours.REPLACE): "replacing everything one client holds",
            (Unit.CLIENT, Neighbours.ADD_REMOVE): "adding or removing everything one client holds",
        }[self.unit, self.neighbours]
        effect = f"changes the probability of any outcome by a factor of at most e^{float(self.epsilon):.4g}"
        if not self.is_pure:
            effect += f", apart from a probability of {float(self.delta):.3g}"
        keeper = {
            Trust.CENTRAL: "whoever runs the release is trusted with the records' votes",
            Trust.DISTRIBUTED: "nobody sees a party's votes, only their noisy sum",
            Trust.LOCAL: "nobody is trusted: every record's votes are randomized before they leave its holder",
            Trust.SHUFFLE: "the shuffler is trusted to hide who sent which message and not to collude with the server",
        }[self.trust]
        if self.honest_parties is not None:
            keeper += f"; at least {self.honest_parties:,} parties are assumed to add their noise honestly"
        kind = "Pure" if self.is_pure else "Approximate"
        return f"{kind} differential privacy, {self.trust} trust: {change} {effect} ({keeper})."
