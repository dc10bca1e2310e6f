"""A protocol as plain JSON, so that a silo builds the protocol itself and knows what it costs.

Every number is held to a bound before anything is computed from it: the accountants' work grows with some of them.
"""

from __future__ import annotations

import re
from dataclasses import fields
from fractions import Fraction
from typing import Any

from recordwise.errors import ProtocolFault, shown
from recordwise.federation.forms import whole_number
from recordwise.privacy.guarantee import Neighbours
from recordwise.protocols.protocol import Protocol
from recordwise.protocols.registry import kinds
from recordwise.votes.ballot import Ballot

MOST_QUERIES, MOST_CLASSES, MOST_CELLS = 100_000, 10_000, 2_000_000
MOST_VOTES = 1_000  # of one record: a silo keeps as many for each, and must not run out of memory by their number
MOST_PARTIES, MOST_RECORDS = 1_000, 10**9
SMALLEST, LARGEST = Fraction(1, 10**6), Fraction(10**4)  # epsilon and rho
SMALLEST_DELTA = Fraction(1, 10**20)
FRACTION = re.compile(r"[0-9]{1,80}(/[0-9]{1,80})?")
WHOLE = {
    "survivors": (1, MOST_PARTIES),
    "parties": (1, MOST_PARTIES),
    "colluding": (0, MOST_RECORDS),
    "largest_count": (1, MOST_RECORDS),
    "senders": (1, MOST_RECORDS),
}


def known_kinds() -> dict[str, type[Any]]:
    """The mechanisms, by the names of their classes, that a silo runs for others."""
    return {kind.__name__: kind for kind in kinds() if kind.for_silos}


def to_json(protocol: Protocol[Any]) -> dict[str, Any]:
    kind, known = type(protocol), known_kinds()
    if known.get(kind.__name__) is not kind:
        raise ProtocolFault(f"a federation's protocol must be one of {sorted(known)}, got {kind.__name__}")
    return {"protocol": kind.__name__, **{part.name: _plain(getattr(protocol, part.name)) for part in fields(protocol)}}  # type: ignore[arg-type]


def from_json(record: object) -> Protocol[Any]:
    """The protocol that `to_json` described; every parameter is bounded, derived and checked anew."""
    values = dict(record) if isinstance(record, dict) else {}
    known = known_kinds()
    kind = known.get(str(values.pop("protocol", None)))
    if kind is None:
        raise ProtocolFault(f"a protocol must be one of {sorted(known)}, got {shown(record)}")
    try:
        values["ballot"] = _ballot(values["ballot"])
        for name, (least, most) in {
            "epsilon": (SMALLEST, LARGEST),
            "rho": (SMALLEST, LARGEST),
            "delta": (SMALLEST_DELTA, Fraction(1)),
        }.items():
            if name in values:
                values[name] = _fraction(values[name], least, most, name)
        for name, (fewest, bound) in WHOLE.items():
            if name in values:
                whole_number(values[name], fewest, bound, name)
        if "neighbours" in values:
            values["neighbours"] = Neighbours(values["neighbours"])
        protocol: Protocol[Any] = kind(**values)
    except (KeyError, TypeError, ValueError, ArithmeticError) as error:
        raise ProtocolFault(f"a {kind.__name__} must be fully and validly described: {error}") from error
    return protocol


def _ballot(values: dict[str, Any]) -> Ballot:
    queries = whole_number(values["num_queries"], 1, MOST_QUERIES, "num_queries")
    classes = whole_number(values["num_classes"], 1, MOST_CLASSES, "num_classes")
    whole_number(queries * classes, 1, MOST_CELLS, "the number of cells")
    ballot = Ballot(**values)
    whole_number(ballot.cells_per_record, 1, MOST_VOTES, "the number of one record's votes")
    return ballot


def _fraction(value: object, least: Fraction, most: Fraction, name: str) -> Fraction:
    if not (isinstance(value, str) and FRACTION.fullmatch(value)):
        raise ValueError(f"{name} must be a fraction of at most 80 digits, got {shown(value)}")
    number = Fraction(value)
    if number and not least <= number <= most:
        raise ValueError(f"{name} must lie in [{float(least):g}, {float(most):g}], got {shown(value)}")
    return number


def _plain(value: Any) -> Any:
    if isinstance(value, Ballot):
        return dict(vars(value))
    return str(value) if isinstance(value, Fraction | Neighbours) else value
