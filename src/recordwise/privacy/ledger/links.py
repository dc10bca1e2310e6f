"""The ledger's chain: what was written when, so that nothing can be taken out, put in, changed or moved unnoticed.

Every row of the ledger has a link, and a link's head covers its row and all links before it. The last head is sealed
with the owner's key; when a link is added the seal moves on and the one before it is gone. What is noticed:

  - without the key: every change after which somebody did not compute all later heads anew;
  - with the key: that, too, and entries cut off at the end;
  - with a head that was noted elsewhere, as the owner's folder does by itself: an older copy put in the ledger's place.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import StrEnum
from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from recordwise.errors import LedgerFault
from recordwise.privacy.chain import Head
from recordwise.privacy.ledger.store import budgets, chain, releases, seals
from recordwise.privacy.owner import KEY, Owner, Seal, Seen

SHORTEST = 16  # digits of a head that somebody noted
WRITTEN = [column for column in releases.c if column is not releases.c.payload]  # its digest stands for it


class Kind(StrEnum):
    BEGUN = "begun"
    ADOPTED = "adopted"  # rows that were written before there was a chain
    BUDGET = "budget"
    RELEASE = "release"
    SIGNED = "signed"  # the owner took responsibility for the ledger as it was


@dataclass(frozen=True, kw_only=True)
class Checked:
    """A chain that holds.

    Attributes:
      ledger: The first head: it tells this ledger from every other.
      signed: Whether the seal was made with the key that is here; None where it was made with another.
      key: What the seal's key is called.
      heads: Every head, the first entry's first.
      charged: Whether anything was ever released from it.
      notes: What happened to the ledger itself: when it was begun, adopted or signed anew.
    """

    ledger: str
    head: Head
    signed: bool | None
    key: str
    heads: tuple[str, ...]
    charged: bool
    notes: tuple[str, ...]

    def refuse_missing(self, noted: str) -> None:
        """Refuse a chain that lacks a head which somebody noted, in full or by its first digits."""
        wanted = noted.strip().lower()
        if len(wanted) < SHORTEST or not set(wanted) <= set("0123456789abcdef"):
            raise LedgerFault(f"a head must be {SHORTEST} or more of its hexadecimal digits, got {noted!r}")
        if not any(head.startswith(wanted) for head in self.heads):
            raise LedgerFault(
                f"the ledger was altered: no entry of its {self.head.count:,} has the head {wanted[:SHORTEST]}…, "
                "so an entry that was there is missing, or this is another ledger"
            )

    def refuse_older(self, seen: Seen | None) -> None:
        """Refuse a chain that ends before, or leaves out, what its owner saw last."""
        if seen is not None and seen.head.digest not in self.heads:
            raise LedgerFault(
                f"the ledger was altered: it had {seen.head.count:,} entries up to head {seen.head.digest[:SHORTEST]}… "
                f"when it was last charged, and they are not among its {self.head.count:,}; put the newest copy back, "
                "or, if there is none, take responsibility for this one (recordwise ledger sign)"
            )

    def refuse_unsigned(self, owner: Owner) -> None:
        """Refuse a chain whose seal is another's."""
        if self.signed is None:
            raise LedgerFault(
                f"the ledger is signed with key {self.key}, which is not {str(owner.folder / KEY)!r}: put that key "
                "there; if it is lost, and the head is one you noted, sign again (recordwise ledger sign)"
            )


def begin(connection: Connection, owner: Owner, *, adopt: bool) -> None:
    """The first link of a ledger; and links for all that stands in it already."""
    connection.execute(seals.insert().values(number=1, count=0, head=Head().digest, key="", tag=""))
    head = _add(connection, Head(), Kind.BEGUN, note=f"{_now()} {secrets.token_hex(16)}")
    ledger = head.digest
    if adopt:
        opened = connection.execute(sa.select(budgets).order_by(budgets.c.opened, budgets.c.name)).mappings().all()
        written = connection.execute(sa.select(*WRITTEN).order_by(releases.c.number)).mappings().all()
        said = f"{_now()} {len(opened)} budgets and {len(written)} releases from before the chain"
        head = _add(connection, head, Kind.ADOPTED, note=said)
        for row in opened:
            head = _add(connection, head, Kind.BUDGET, budget=row["name"], row=row)
        for row in written:
            head = _add(connection, head, Kind.RELEASE, budget=row["budget"], key=row["key"], row=row)
    _seal(connection, owner, ledger, head)


def append(connection: Connection, owner: Owner, kind: Kind, *, budget: str, key: str = "") -> tuple[str, Head]:
    """Link a row that was just written, in its transaction; gives the ledger and its new head. Writers take turns."""
    ledger, head = _end(connection, owner)
    if kind is Kind.BUDGET:
        row = connection.execute(sa.select(budgets).where(budgets.c.name == budget)).mappings().one()
    else:
        named = sa.and_(releases.c.budget == budget, releases.c.key == key)
        row = connection.execute(sa.select(*WRITTEN).where(named)).mappings().one()
    head = _add(connection, head, kind, budget=budget, key=key, row=row)
    _seal(connection, owner, ledger, head)
    return ledger, head


def hold(connection: Connection) -> Any:
    """The seal; nobody else adds to the chain until this transaction ends, or goes back to before."""
    return connection.execute(sa.select(seals).with_for_update()).mappings().one_or_none()


def stated(connection: Connection) -> Head | None:
    """The head that the seal states; nothing is checked."""
    sealed = connection.execute(sa.select(seals)).mappings().first()
    return None if sealed is None else Head(sealed["count"], sealed["head"])


def sign_anew(connection: Connection, owner: Owner, stands: str) -> tuple[str, Head]:
    """Seal the chain that ends in head `stands` with this owner's key, whoever sealed it, and say so in it."""
    hold(connection)
    found = check(connection, owner, whoever=True)
    if found.head.digest != stands.strip().lower():
        raise LedgerFault(f"the ledger ends in another head than the one to be signed: {found.head}")
    seen = owner.seen(found.ledger)
    missing = "" if seen is None or seen.head.digest in found.heads else f", without the {seen.head} seen before"
    name = owner.sign(found.ledger, found.head).key
    head = _add(connection, found.head, Kind.SIGNED, note=f"{_now()} signed anew with key {name}{missing}")
    _seal(connection, owner, found.ledger, head)
    return found.ledger, head


def check(connection: Connection, owner: Owner, *, whoever: bool = False) -> Checked:
    """Compare every row with its link, and the links with each other; must see one state of the database.

    Args:
      whoever: The seal is not looked at, but for being there.
    """
    links = connection.execute(sa.select(chain).order_by(chain.c.number)).mappings().all()
    opened = {row["name"]: row for row in connection.execute(sa.select(budgets)).mappings()}
    written = {(row["budget"], row["key"]): row for row in connection.execute(sa.select(*WRITTEN)).mappings()}
    head, heads, notes = Head(), [], []
    charged = bool(written)
    for link in links:
        row = None
        if link["kind"] == Kind.BUDGET:
            row = opened.pop(link["budget"], None)
        elif link["kind"] == Kind.RELEASE:
            row = written.pop((link["budget"], link["key"]), None)
        else:
            notes.append(f"{link['kind']} {link['note']}")
        head = head.then(*_content(link, row))
        if (link["number"], link["head"]) != (head.count, head.digest):
            raise LedgerFault(f"the ledger was altered: entry {head.count:,}, {_called(link)}, is not what was written")
        heads.append(head.digest)
    for left, name in ((opened, "budget"), (written, "release")):
        if left:
            raise LedgerFault(f"the ledger was altered: {name} {next(iter(left))!r} was put in, or its entry taken out")
    sealed = connection.execute(sa.select(seals)).mappings().all()
    ends = [(row["number"], row["count"], row["head"]) for row in sealed]
    if not heads or ends != [(1, head.count, head.digest)]:
        raise LedgerFault("the ledger was altered: its entries do not end where its seal says")
    seal = Seal(sealed[0]["key"], sealed[0]["tag"])
    signed = None if whoever else owner.signed(heads[0], head, seal)
    if signed is False:
        raise LedgerFault("the ledger was altered: its entries were written without the owner's key")
    return Checked(
        ledger=heads[0],
        head=head,
        signed=signed,
        key=seal.key,
        heads=tuple(heads),
        charged=charged,
        notes=tuple(notes),
    )


def _end(connection: Connection, owner: Owner) -> tuple[str, Head]:
    """The ledger and its last head, which nobody else moves until this transaction ends."""
    sealed = hold(connection)
    first = connection.scalar(sa.select(chain.c.head).where(chain.c.number == 1))
    if sealed is None or first is None:
        raise LedgerFault("the ledger was altered: its chain is gone")
    head = Head(sealed["count"], sealed["head"])
    if not owner.signed(first, head, Seal(sealed["key"], sealed["tag"])):
        raise LedgerFault("the ledger was altered: its entries were written without the owner's key")
    return first, head


def _add(
    connection: Connection,
    head: Head,
    kind: Kind,
    *,
    budget: str = "",
    key: str = "",
    note: str = "",
    row: Any = None,
) -> Head:
    link = {"kind": str(kind), "budget": budget, "key": key, "note": note}
    after = head.then(*_content(link, row))
    connection.execute(chain.insert().values(number=after.count, head=after.digest, **link))
    return after


def _seal(connection: Connection, owner: Owner, ledger: str, head: Head) -> None:
    seal = owner.sign(ledger, head)
    connection.execute(seals.update().values(count=head.count, head=head.digest, key=seal.key, tag=seal.tag))


def _content(link: Any, row: Any) -> Iterable[str]:
    """What a link's head covers: the link, and every value of its row but the payload, which has a digest there."""
    said = [str(link[name]) for name in ("kind", "budget", "key", "note")]
    return said if row is None else [*said, *(f"{name}={value}" for name, value in row.items())]


def _called(link: Any) -> str:
    match link["kind"]:
        case Kind.BUDGET:
            return f"budget {link['budget']!r}"
        case Kind.RELEASE:
            return f"release {link['key']!r} of budget {link['budget']!r}"
    return f"{link['kind']!r}"


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")
