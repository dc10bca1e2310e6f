"""The two values a ledger holds: budgets, and the releases they paid for."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from fractions import Fraction

from recordwise.errors import InvalidInput, positive
from recordwise.privacy.events import Event
from recordwise.privacy.guarantee import Guarantee, Neighbours, Trust, Unit, exact, members


@dataclass(frozen=True, kw_only=True)
class Budget:
    """What all releases about one set of records may cost together.

    Attributes:
      name: Stands for the records. One budget per set of records: two budgets for the same records protect neither.
      trust: The most trust its releases may ask for; central trust admits every protocol.
    """

    name: str
    epsilon: Fraction
    delta: Fraction = Fraction(0)
    neighbours: Neighbours = Neighbours.REPLACE
    unit: Unit = Unit.RECORD
    trust: Trust = Trust.CENTRAL

    def __post_init__(self) -> None:
        check_name(budget=self.name)
        object.__setattr__(self, "epsilon", exact(self.epsilon, "epsilon"))
        object.__setattr__(self, "delta", exact(self.delta, "delta"))
        members(self, neighbours=Neighbours, unit=Unit, trust=Trust)
        positive(epsilon=self.epsilon)
        if not 0 <= self.delta < 1:
            raise InvalidInput(f"delta must lie in [0, 1), got {float(self.delta)!r}")

    def admit(self, key: str, guarantee: Guarantee) -> None:
        """Refuse a release whose guarantee is about something else than this budget's.

        Costs under different neighbours or units do not add up, so they are refused, never converted.
        """
        if not guarantee.private:
            raise InvalidInput(f"{key!r} was drawn from seeded noise: it is not private and no budget pays for it")
        for name in ("neighbours", "unit"):
            ours, theirs = getattr(self, name), getattr(guarantee, name)
            if ours != theirs:
                raise InvalidInput(
                    f"budget {self.name!r} counts {name} {ours!s}, but {key!r} is private for {theirs!s}"
                )
        if not self.trust.covers(guarantee.trust):
            raise InvalidInput(
                f"budget {self.name!r} grants {self.trust!s} trust, but {key!r} asks for {guarantee.trust!s} trust"
            )


@dataclass(frozen=True, kw_only=True)
class Entry:
    """One release and its charge.

    Attributes:
      key: What the caller named it; asking for the same key again gives the same release and costs nothing.
      time: When it was committed, in UTC.
      event: What the accountant was told.
      guarantee: What the release promises on its own.
      cost: How much the budget's total grew.
      spent: The budget's total after this release.
      digest: SHA-256 of the released bytes, in hexadecimal.
      size: How many bytes were released.
      note: What the caller wished to remember.
    """

    key: str
    time: datetime
    event: Event
    guarantee: Guarantee
    cost: Fraction
    spent: Fraction
    digest: str
    size: int
    note: str


def check_name(**names: object) -> None:
    """Refuse a name that a person could not read back."""
    for role, name in names.items():
        if not (isinstance(name, str) and name.strip() and name.isprintable() and len(name) <= 200):
            raise InvalidInput(f"{role} must be a name of 1 to 200 printable characters, got {name!r}")
