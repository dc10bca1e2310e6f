"""A protocol as plain JSON, so that a silo builds the protocol itself and knows what it costs."""

from __future__ import annotations

from dataclasses import fields
from fractions import Fraction
from typing import Any

from recordwise.errors import ProtocolFault
from recordwise.privacy.guarantee import Neighbours
from recordwise.protocols.protocol import Protocol
from recordwise.protocols.registry import kinds
from recordwise.votes.ballot import Ballot

KINDS: dict[str, type[Any]] = {kind.__name__: kind for kind in kinds()}


def to_json(protocol: Protocol[Any]) -> dict[str, Any]:
    kind = type(protocol)
    if KINDS.get(kind.__name__) is not kind:
        raise ProtocolFault(f"a federation's protocol must be one of {sorted(KINDS)}, got {kind.__name__}")
    return {"protocol": kind.__name__, **{part.name: _plain(getattr(protocol, part.name)) for part in fields(protocol)}}  # type: ignore[arg-type]


def from_json(record: dict[str, Any]) -> Protocol[Any]:
    """The protocol that `to_json` described; every parameter is derived and checked anew."""
    told = dict(record)
    kind = KINDS.get(str(told.pop("protocol", None)))
    if kind is None:
        raise ProtocolFault(f"a protocol must be one of {sorted(KINDS)}, got {record.get('protocol')!r}")
    try:
        told["ballot"] = Ballot(**told["ballot"])
        for name in ("epsilon", "delta", "rho"):
            if name in told:
                told[name] = Fraction(told[name])
        if "neighbours" in told:
            told["neighbours"] = Neighbours(told["neighbours"])
        protocol: Protocol[Any] = kind(**told)
    except (KeyError, TypeError, ValueError, ZeroDivisionError) as error:
        raise ProtocolFault(f"a {kind.__name__} must be fully and validly described: {error}") from error
    return protocol


def _plain(value: Any) -> Any:
    if isinstance(value, Ballot):
        return dict(vars(value))
    return str(value) if isinstance(value, Fraction | Neighbours) else value
