"""What a mechanism did to one record's privacy: facts for an accountant, one value per mechanism.

An event documents the mathematics an accountant needs and nothing else; `accountant` says what it costs.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import get_args

from recordwise.errors import InvalidInput, positive, shown, whole
from recordwise.privacy.guarantee import exact


@dataclass(frozen=True)
class Pure:
    """Any epsilon-DP mechanism: permute-and-flip, a local randomizer. Nothing more is known about its losses."""

    epsilon: Fraction

    def __post_init__(self) -> None:
        object.__setattr__(self, "epsilon", exact(self.epsilon))
        positive(epsilon=self.epsilon)


@dataclass(frozen=True)
class DiscreteLaplaceTally:
    """Discrete Laplace noise of `scale` on every cell; neighbours differ by one in at most `cells_changed` cells."""

    scale: Fraction
    cells_changed: int

    def __post_init__(self) -> None:
        object.__setattr__(self, "scale", exact(self.scale))
        positive(scale=self.scale)
        whole(cells_changed=self.cells_changed)
        object.__setattr__(self, "cells_changed", int(self.cells_changed))  # NumPy's integers are not JSON


@dataclass(frozen=True)
class DiscreteGaussianTally:
    """Discrete Gaussian noise of variance parameter `sigma2` on every cell; `cells_changed` as above.

    It is (cells_changed / (2·sigma2))-zCDP (Canonne, Kamath, Steinke 2020, Theorem 14 over the changed cells).
    """

    sigma2: Fraction
    cells_changed: int

    def __post_init__(self) -> None:
        object.__setattr__(self, "sigma2", exact(self.sigma2))
        positive(sigma2=self.sigma2)
        whole(cells_changed=self.cells_changed)
        object.__setattr__(self, "cells_changed", int(self.cells_changed))  # NumPy's integers are not JSON

    @property
    def rho(self) -> Fraction:
        return self.cells_changed / (2 * self.sigma2)


@dataclass(frozen=True)
class Approximate:
    """Any (epsilon, delta)-DP mechanism: a shuffled batch, an accountant's answer."""

    epsilon: Fraction
    delta: Fraction

    def __post_init__(self) -> None:
        object.__setattr__(self, "epsilon", exact(self.epsilon))
        object.__setattr__(self, "delta", exact(self.delta))
        positive(epsilon=self.epsilon)
        if not 0 < self.delta < 1:
            raise InvalidInput(f"delta must lie strictly between 0 and 1, got {float(self.delta)!r}")


@dataclass(frozen=True)
class Filtered:
    """One of any number of releases in which a `RecordFilter` kept every record's total loss within its cap.

    All releases of one filter are epsilon-DP together, so they are charged once, whatever each of them costs.

    Attributes:
      epsilon: The filter's cap.
      guard: Which filter; no two filters share an identifier.
    """

    epsilon: Fraction
    guard: str

    def __post_init__(self) -> None:
        object.__setattr__(self, "epsilon", exact(self.epsilon))
        positive(epsilon=self.epsilon)
        if not (isinstance(self.guard, str) and self.guard):
            raise InvalidInput(f"guard must name a record filter, got {self.guard!r}")


Event = Pure | DiscreteLaplaceTally | DiscreteGaussianTally | Approximate | Filtered


def to_json(event: Event) -> dict[str, str | int]:
    """A plain record of the event, for the ledger."""
    fields = {name: value if isinstance(value, int) else str(value) for name, value in vars(event).items()}
    return {"event": type(event).__name__, **fields}


def from_json(record: dict[str, str | int]) -> Event:
    """The event that `to_json` recorded."""
    fields = dict(record) if isinstance(record, dict) else {}
    kind = {kind.__name__: kind for kind in get_args(Event)}.get(str(fields.pop("event", None)))
    if kind is None:
        raise InvalidInput(f"unknown privacy event {shown(record)}")
    try:
        event: Event = kind(**fields)
    except TypeError as error:
        raise InvalidInput(f"a {kind.__name__} event has other fields than {sorted(fields)}") from error
    return event
