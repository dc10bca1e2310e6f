"""The ledger, as words for a person and as plain values for a machine."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from recordwise.privacy.chain import Head
from recordwise.privacy.guarantee import exact, rounded_down, rounded_up
from recordwise.privacy.ledger.ledger import Ledger


def ledger_as_dict(ledger: Ledger, budget: str | None = None) -> dict[str, Any]:
    """Budgets with their terms, what is spent and left, their releases, oldest first; and the ledger's head."""
    names = [budget] if budget is not None else [held.name for held in ledger.budgets()]
    head = ledger.head()
    return {
        "budgets": {name: _budget(ledger, name) for name in names},
        "head": None if head is None else head_as_dict(head),
    }


def ledger_as_text(ledger: Ledger, budget: str | None = None) -> str:
    """The same, as tables."""
    shown = ledger_as_dict(ledger, budget)
    tables = [_table(name, book) for name, book in shown["budgets"].items()] or ["no budget is open in this ledger"]
    return "\n\n".join([*tables, head_as_text(shown["head"])])


def head_as_dict(head: Head) -> dict[str, Any]:
    return {"sha256": head.digest, "entries": head.count}


def head_as_text(head: Mapping[str, Any] | None) -> str:
    """The end of the ledger's chain: whoever notes it elsewhere can tell later whether anything before was altered."""
    if head is None:
        return "head: none, the ledger is of an older version"
    return f"head: {head['sha256']}, entry {head['entries']:,}"


def _budget(ledger: Ledger, name: str) -> dict[str, Any]:
    terms, history = ledger.budget(name), ledger.history(name)
    spent = history[-1].spent if history else 0
    return {
        "epsilon": float(terms.epsilon),
        "delta": float(terms.delta),
        "neighbours": str(terms.neighbours),
        "unit": str(terms.unit),
        "trust": str(terms.trust),
        "spent": float(spent),
        "left": float(terms.epsilon - spent),
        "releases": [
            {
                "key": entry.key,
                "time": entry.time.isoformat(timespec="seconds"),
                "event": type(entry.event).__name__,
                "trust": str(entry.guarantee.trust),
                "cost": float(entry.cost),
                "spent": float(entry.spent),
                "sha256": entry.digest,
                "bytes": entry.size,
                "note": entry.note,
            }
            for entry in history
        ],
    }


def _table(name: str, book: dict[str, Any]) -> str:
    delta = f", delta {rounded_down(exact(book['delta']))}" if book["delta"] else ""
    lines = [
        f"budget {name!r}: epsilon {rounded_up(exact(book['spent']))} of "
        f"{rounded_down(exact(book['epsilon']))} spent, "
        f"{rounded_down(exact(book['left']))} left"
        f"{delta} (one {book['unit']}, {book['neighbours']}, at most {book['trust']} trust)"
    ]
    if not book["releases"]:
        return lines[0] + "\n  nothing released yet"
    lines.append(f"  {'time (UTC)':<20} {'cost':>8} {'total':>8}  {'trust':<11} {'mechanism':<22} release")
    lines += [
        f"  {entry['time'][:19].replace('T', ' '):<20} {rounded_up(exact(entry['cost'])):>8} "
        f"{rounded_up(exact(entry['spent'])):>8}  {entry['trust']:<11} {entry['event']:<22} "
        f"{entry['key']} {entry['note']}".rstrip()
        for entry in book["releases"]
    ]
    return "\n".join(lines)
