"""Every mechanism by its trust and name: those shipped, those of other packages, and those a program registers.

Another package names its mechanisms as entry points of the group `recordwise.mechanisms`.
"""

from __future__ import annotations

from functools import cache
from importlib import import_module
from importlib.metadata import entry_points
from typing import Any, TypeVar

from recordwise.errors import InvalidInput
from recordwise.privacy.guarantee import Trust
from recordwise.protocols.protocol import Protocol
from recordwise.settings import AUTO

GROUP = "recordwise.mechanisms"
SHIPPED = (
    "central.laplace",
    "central.gaussian",
    "central.permute_and_flip",
    "central.matching",
    "distributed",
    "local.randomized_response",
    "local.unary_encoding",
    "local.collision",
    "local.subset_selection",
    "local.separation",
    "local.concatenation",
    "local.questions",
    "shuffle.single",
    "shuffle.multi",
)

Kind = TypeVar("Kind", bound=type[Protocol[Any]])
_KINDS: list[type[Protocol[Any]]] = []


def register(kind: Kind) -> Kind:
    """Make a mechanism known, as a class decorator."""
    for other in _KINDS:
        if other.__name__ == kind.__name__ and other.__module__ != kind.__module__:
            raise InvalidInput(f"a mechanism's class must have a name of its own, {kind.__name__} is taken")
    _KINDS[:] = [*(other for other in _KINDS if other.__name__ != kind.__name__), kind]
    return kind


def kinds(trust: Trust | None = None) -> list[type[Protocol[Any]]]:
    """The mechanisms of a trust, or all: those shipped in the order above, then the others."""
    for wanted in Trust if trust is None else (trust,):
        _load(wanted)
    return sorted((kind for kind in _KINDS if trust in (None, kind.trust)), key=_place)


def names(trust: Trust) -> tuple[str, ...]:
    """What a user may ask for by name under a trust."""
    return tuple(dict.fromkeys(name for kind in kinds(trust) for name in kind.names()))


def kind_named(trust: Trust, name: str) -> type[Protocol[Any]]:
    """The mechanism of that name under that trust."""
    for kind in kinds(trust):
        if name in kind.names():
            return kind
    known = ", ".join((AUTO, *names(trust)))
    raise InvalidInput(f"mechanism under {trust} trust must be one of {known}, got {name!r}")


def _place(kind: type[Protocol[Any]]) -> int:
    home = kind.__module__.removeprefix("recordwise.protocols.")
    return SHIPPED.index(home) if home in SHIPPED else len(SHIPPED)


@cache
def _load(trust: Trust) -> None:
    """Import the modules of one trust alone: a device has only local mechanisms, and little memory."""
    for module in SHIPPED:
        if module.partition(".")[0] == trust:
            import_module(f"recordwise.protocols.{module}")
    for found in entry_points(group=GROUP):
        register(found.load())
