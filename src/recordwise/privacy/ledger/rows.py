"""Rows of the ledger's tables and the values they stand for. A row that stands for none is damage."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from fractions import Fraction
from typing import Any

from sqlalchemy.engine import RowMapping

from recordwise.errors import LedgerFault
from recordwise.formats import json_from
from recordwise.hashing import digest_of
from recordwise.privacy.events import Event, from_json, to_json
from recordwise.privacy.guarantee import Guarantee, exact
from recordwise.privacy.ledger.entries import Budget, Entry


def of_budget(budget: Budget) -> dict[str, Any]:
    # To the microsecond: no two budgets of one name are opened at the same one, so it tells them apart.
    opened = datetime.now(UTC).isoformat(timespec="microseconds")
    return {name: str(value) for name, value in vars(budget).items()} | {"opened": opened}


def of_release(
    budget: str, key: str, event: Event, guarantee: Guarantee, spent: Fraction, payload: bytes, note: str
) -> dict[str, Any]:
    return {
        "budget": budget,
        "key": key,
        "time": _now(),
        "event": json.dumps(to_json(event)),
        "guarantee": json.dumps(guarantee.to_json()),
        "spent": str(spent),
        "note": note,
        "digest": digest_of(payload),
        "payload": payload,
    }


def budget(row: RowMapping) -> Budget:
    with _reading(f"budget {row['name']!r}"):
        return Budget(**{str(name): value for name, value in row.items() if name != "opened"})


def event(row: RowMapping) -> Event:
    with _reading(f"the event of {row['key']!r}"):
        return from_json(json_from(row["event"].encode()))


def guarantee(row: RowMapping) -> Guarantee:
    with _reading(f"the guarantee of {row['key']!r}"):
        return Guarantee(**json_from(row["guarantee"].encode()))


def payload(row: RowMapping) -> bytes:
    with _reading(f"the release {row['key']!r}"):
        content = bytes(row["payload"])
        if digest_of(content) != row["digest"]:
            raise ValueError("its digest is another")
        return content


def entry(row: RowMapping, *, before: Fraction) -> Entry:
    with _reading(f"the charge for {row['key']!r}"):
        spent = exact(row["spent"], "what was spent")
        return Entry(
            key=row["key"],
            time=datetime.fromisoformat(row["time"]),
            event=event(row),
            guarantee=guarantee(row),
            cost=spent - before,
            spent=spent,
            digest=row["digest"],
            size=row["size"],
            note=row["note"],
        )


@contextmanager
def _reading(what: str) -> Iterator[None]:
    try:
        yield
    except (ValueError, TypeError, ArithmeticError) as error:
        raise LedgerFault(f"the ledger is damaged: {what} cannot be read: {error}") from error


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="milliseconds")
