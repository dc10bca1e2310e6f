"""A charge and the release it pays for, committed together; nothing leaves before the commit."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction
from pathlib import Path

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from recordwise.errors import BudgetExceeded, ChangedInput, InvalidInput, LedgerFault, OutOfRegime
from recordwise.hashing import digest_of
from recordwise.privacy.accountant import total_epsilon
from recordwise.privacy.chain import Head
from recordwise.privacy.events import Event
from recordwise.privacy.guarantee import Guarantee, Neighbours, Trust, Unit, rounded_down, rounded_up
from recordwise.privacy.ledger import links, rows
from recordwise.privacy.ledger.entries import Budget, Entry, check_name
from recordwise.privacy.ledger.links import Checked, Kind
from recordwise.privacy.ledger.place import Place
from recordwise.privacy.ledger.store import VERSION, Store, budgets, insert_budget, releases
from recordwise.privacy.owner import Owner

log = logging.getLogger("recordwise.ledger")


class Ledger:
    """Budgets, and every release they paid for.

    Guarantees:
      - the events of a budget's releases together never cost more than the budget;
      - a release the budget cannot pay for is refused before it is produced;
      - a charge is in the ledger exactly when its release is, and a release leaves `release` only after both are
        committed: a crash at any point loses neither and shows neither without the other;
      - a key is charged once: asked for again, it gives the same bytes and changes nothing;
      - of several processes that race for the last of a budget exactly one wins; the others are refused;
      - reading changes nothing;
      - nothing is charged to a ledger that was altered: entries that were changed, taken out, put in or moved are
        noticed (`links` says by whom), and so is an older copy, or a new ledger where a charged one lay.
    """

    def __init__(self, store: Store, owner: Owner) -> None:
        self._store, self._owner = store, owner

    @classmethod
    def open(cls, place: str | Path, *, read_only: bool = False, create: bool = True, wait: float = 60.0) -> Ledger:
        """The ledger at a path (SQLite) or a URL (postgresql://user@host/database), created where there is none.

        Args:
          read_only: Create nothing, write nothing.
          create: False refuses a place that holds no ledger yet: more likely than not it is mistyped.
          wait: Seconds to wait for another process that is in the middle of a release.
        """
        if not wait > 0:
            raise InvalidInput(f"wait must be > 0 seconds, got {wait!r}")
        ledger = cls(Store(place, wait=wait), Owner.here())
        if read_only:
            ledger._store.check()
        else:
            ledger._begin(create)
            ledger._refuse_altered(ledger.verify(payloads=False))
        return ledger

    def _begin(self, create: bool) -> None:
        """Create the ledger where it may be, or give one of an older version its chain."""
        store = self._store
        seen = self._owner.seen_at(store.place.remembered)
        gone = f"ledger {store.name} was charged, and had {seen.head.count if seen else 0:,} entries: "
        cure = "put it back, or, if nothing that it paid for was published, recordwise ledger forget it"

        def begin(connection: Connection, held: int | None) -> None:
            if seen is not None:
                raise LedgerFault(f"{gone}{'it is gone' if held is None else 'its chain is gone'}; {cure}")
            links.begin(connection, self._owner, adopt=held is not None)

        if seen is not None and store.file and not store.file.exists():
            raise LedgerFault(f"{gone}it is gone; {cure}")
        store.prepare(create=create, begin=begin)

    def __repr__(self) -> str:
        return f"Ledger({self._store.name!r})"

    def open_budget(
        self,
        name: str,
        *,
        epsilon: Fraction | float,
        delta: Fraction | float = 0,
        neighbours: Neighbours = Neighbours.REPLACE,
        unit: Unit = Unit.RECORD,
        trust: Trust = Trust.CENTRAL,
    ) -> Budget:
        """The budget of this name, opened now or earlier with the same terms; terms never change afterwards."""
        asked = Budget(
            name=name,
            epsilon=epsilon,  # type: ignore[arg-type]  # made exact by Budget
            delta=delta,  # type: ignore[arg-type]
            neighbours=neighbours,
            unit=unit,
            trust=trust,
        )
        with self._store.writing() as connection:
            # Of two processes that open it at once the second waits here, and then finds the first one's row.
            if insert_budget(connection, rows.of_budget(asked)):
                links.append(connection, self._owner, Kind.BUDGET, budget=name)
            held = self._budget(connection, name)
        for term in ("epsilon", "delta", "neighbours", "unit", "trust"):
            ours, theirs = getattr(held, term), getattr(asked, term)
            if ours != theirs:
                raise ChangedInput(f"budget {name!r} was opened with {term} {ours!s}, which cannot become {theirs!s}")
        return held

    def release(
        self,
        budget: str,
        key: str,
        event: Event,
        guarantee: Guarantee,
        produce: Callable[[], bytes],
        note: str = "",
    ) -> bytes:
        """What `produce` makes, once its charge is committed with it; or what it made under this key before.

        Other writers wait while `produce` runs. If it raises, nothing is charged and nothing is kept.

        Args:
          budget: The name of an open budget.
          key: The name of the release within the budget.
          event: What the release does to one record.
          guarantee: What the release promises on its own, and about what.
          produce: Makes the bytes to be published: a noisy tally, never votes or exact counts.
          note: Anything worth remembering; it is shown in the history.

        Raises:
          BudgetExceeded: The budget cannot pay; `produce` was not called.
          ChangedInput: The key is taken by a release of another event or guarantee.
        """
        check_name(key=key)
        with self._store.writing() as connection:
            terms = self._budget(connection, budget, lock=True)
            found = self._checked(connection)
            self._refuse_altered(found)
            self._catch_up(found)
            held = connection.execute(sa.select(releases).where(_named(budget, key))).mappings().one_or_none()
            if held is not None:
                if (rows.event(held), rows.guarantee(held)) != (event, guarantee):
                    raise ChangedInput(f"{key!r} was released with another event or guarantee: choose another key")
                return rows.payload(held)
            terms.admit(key, guarantee)
            _check_promise(key, event, guarantee)
            spent = _afford(terms, key, self._events(connection, budget), event)
            with self._store.awake(connection):
                payload = produce()
            if not isinstance(payload, bytes):
                raise InvalidInput(f"{key!r} must be produced as bytes, got {type(payload).__name__}")
            row = rows.of_release(budget, key, event, guarantee, spent, payload, note)
            connection.execute(releases.insert().values(row))
            ledger, head = links.append(connection, self._owner, Kind.RELEASE, budget=budget, key=key)
        self._note(ledger, head)  # here, and not before, the transaction is committed
        return payload

    def refuse_unpayable(self, budget: str, events: Mapping[str, Event], name: str) -> None:
        """Refuse releases that the budget could not pay for now, all of them together; changes nothing.

        Args:
          events: By key; a key that was released before costs nothing.
          name: What the message calls them.
        """
        with self._store.reading() as connection:
            terms = self._budget(connection, budget)
            chosen = sa.select(releases.c.key, releases.c.event).where(releases.c.budget == budget)
            held = {row["key"]: rows.event(row) for row in connection.execute(chosen).mappings()}
        _afford(terms, name, list(held.values()), *(event for key, event in events.items() if key not in held))

    def verify(self, *heads: str, payloads: bool = True) -> Checked:
        """What the chain of entries says, if it holds; else a fault that names the first entry that was altered.

        Args:
          heads: Noted elsewhere before, in full or by their first digits: each must still be in the chain.
          payloads: Compare every released byte with its digest, too.
        """
        found = self._read_chain(payloads=payloads)
        seen = self._owner.seen(found.ledger)
        if seen is not None and seen.head.digest not in found.heads:
            found = self._read_chain(payloads=payloads)  # somebody may have charged it after it was read
        for head in heads:
            found.refuse_missing(head)
        found.refuse_older(seen)
        return found

    def _read_chain(self, *, payloads: bool) -> Checked:
        with self._store.reading() as connection:
            if (self._store.version_of(connection) or 0) < VERSION:
                raise LedgerFault(
                    f"ledger {self._store.name} was written by an older Recordwise and has no chain of entries yet: it "
                    "gets one when it is next opened for writing (recordwise ledger open)"
                )
            found = links.check(connection, self._owner)
            if payloads:
                for row in connection.execute(sa.select(releases.c.key, releases.c.digest, releases.c.payload)):
                    rows.payload(row._mapping)
        return found

    def head(self) -> Head | None:
        """The end of the chain, as it stands there; to be noted elsewhere. None for a ledger without one."""
        with self._store.reading() as connection:
            if (self._store.version_of(connection) or 0) < VERSION:
                return None
            return links.stated(connection)

    def sign(self, head: str) -> Head:
        """Take responsibility for the ledger as it stands: for one whose key is lost, or an older copy, if it is all
        there is. The chain must hold and end in `head`; it says from then on that it was signed anew.
        """
        with self._store.writing() as connection:
            ledger, signed = links.sign_anew(connection, self._owner, head)
        self._owner.note(ledger, self._store.place.remembered, signed, anew=True)
        return signed

    def budgets(self) -> list[Budget]:
        """All budgets, in the order of their names."""
        with self._store.reading() as connection:
            found = connection.execute(sa.select(budgets).order_by(budgets.c.name)).mappings().all()
        return [rows.budget(row) for row in found]

    def budget(self, name: str) -> Budget:
        """The terms of a budget."""
        with self._store.reading() as connection:
            return self._budget(connection, name)

    def identity(self, name: str) -> str:
        """What tells a budget from every other, in whatever ledger, and stays with it wherever its ledger is moved."""
        with self._store.reading() as connection:
            self._budget(connection, name)
            opened = connection.scalar(sa.select(budgets.c.opened).where(budgets.c.name == name))
        return digest_of(f"{opened} {name}".encode())

    def spent(self, budget: str) -> Fraction:
        """The epsilon that a budget's releases cost together, at the budget's delta."""
        with self._store.reading() as connection:
            terms, events = self._budget(connection, budget), self._events(connection, budget)
        return total_epsilon(events, terms.delta)

    def left(self, budget: str) -> Fraction:
        """A budget's epsilon less what its releases cost together."""
        return self.budget(budget).epsilon - self.spent(budget)

    def history(self, budget: str) -> list[Entry]:
        """A budget's releases, oldest first."""
        columns = [column for column in releases.c if column is not releases.c.payload]
        query = sa.select(*columns, sa.func.length(releases.c.payload).label("size"))
        with self._store.reading() as connection:
            self._budget(connection, budget)
            chosen = query.where(releases.c.budget == budget).order_by(releases.c.number)
            found = connection.execute(chosen).mappings().all()
        entries: list[Entry] = []
        for row in found:
            entries.append(rows.entry(row, before=entries[-1].spent if entries else Fraction(0)))
        return entries

    def payload(self, budget: str, key: str) -> bytes:
        """What was released under a key."""
        with self._store.reading() as connection:
            self._budget(connection, budget)
            row = connection.execute(sa.select(releases).where(_named(budget, key))).mappings().one_or_none()
        if row is None:
            raise InvalidInput(f"budget {budget!r} holds no release {key!r}")
        return rows.payload(row)

    def _checked(self, connection: Connection) -> Checked:
        """The chain as it stands, in a transaction that is going to add to it."""
        # Nobody adds to the chain while it is read. Going back frees the others, for whom making a release may be long.
        apart = connection.begin_nested()
        links.hold(connection)
        found = links.check(connection, self._owner)
        seen = self._owner.seen(found.ledger)  # before anybody else can add to the chain, and note it
        apart.rollback()
        found.refuse_older(seen)
        return found

    def _refuse_altered(self, found: Checked) -> None:
        found.refuse_unsigned(self._owner)
        here = self._owner.seen_at(self._store.place.remembered)
        if here is not None and here.account != found.ledger:
            raise LedgerFault(
                f"ledger {self._store.name} is not the one that was charged there before ({here.head.count} entries): "
                "put that one back, or, if nothing that it paid for was published, recordwise ledger forget it"
            )

    def _catch_up(self, found: Checked) -> None:
        """Remember what somebody who was killed, or could not write, has charged and not noted; or refuse to go on.

        So no more than the last entry is ever missing from what the owner remembers, and that one only until the next
        charge, or until what it paid for is asked for again.
        """
        seen = self._owner.seen(found.ledger)
        if found.charged and (seen is None or seen.head.count < found.head.count):
            try:
                self._owner.note(found.ledger, self._store.place.remembered, found.head)
            except OSError as error:
                folder = str(self._owner.folder)
                raise LedgerFault(
                    f"the last head of ledger {self._store.name} cannot be noted in {folder!r}, and until it is "
                    f"nothing more is charged: {error.strerror}"
                ) from error

    def _note(self, ledger: str, head: Head) -> None:
        """Remember the head apart from the ledger. The release is paid for: what fails now is made up for next time."""
        try:
            self._owner.note(ledger, self._store.place.remembered, head)
        except (OSError, LedgerFault) as error:
            log.warning("the ledger's head could not be noted: %s", error)

    def _budget(self, connection: Connection, name: str, *, lock: bool = False) -> Budget:
        chosen = sa.select(budgets).where(budgets.c.name == name)
        # SQLite's writers take turns from the start of their transactions; PostgreSQL's do at this row.
        row = connection.execute(chosen.with_for_update() if lock else chosen).mappings().one_or_none()
        if row is None:
            raise InvalidInput(
                f"ledger {self._store.name} has no budget {name!r}: open it first (recordwise ledger open)"
            )
        return rows.budget(row)

    def _events(self, connection: Connection, budget: str) -> list[Event]:
        chosen = sa.select(releases.c.key, releases.c.event).where(releases.c.budget == budget)
        return [rows.event(row) for row in connection.execute(chosen).mappings()]


def forget(place: str | Path) -> bool:
    """Let another ledger take the place of one that was charged and is gone; whether one was remembered there."""
    return Owner.here().forget(Place.of(place).remembered)


def _check_promise(key: str, event: Event, guarantee: Guarantee) -> None:
    cost = total_epsilon([event], guarantee.delta)
    if cost > guarantee.epsilon:
        promised = rounded_down(guarantee.epsilon)
        raise InvalidInput(f"{key!r} promises epsilon {promised} but its event costs {rounded_up(cost)}")


def _afford(budget: Budget, key: str, before: Sequence[Event], *events: Event) -> Fraction:
    """What the budget will have spent, or a refusal."""
    spent = total_epsilon(before, budget.delta)
    try:
        after = total_epsilon([*before, *events], budget.delta)
    except OutOfRegime as error:
        raise BudgetExceeded(f"{key!r} cannot be paid from budget {budget.name!r}: {error}") from error
    if after > budget.epsilon:
        raise BudgetExceeded(
            f"{key!r} needs epsilon {rounded_up(after - spent)} but {rounded_down(budget.epsilon - spent)} of "
            f"{rounded_down(budget.epsilon)} is left in budget {budget.name!r}; ask for a smaller epsilon"
        )
    return after


def _named(budget: str, key: str) -> sa.ColumnElement[bool]:
    return sa.and_(releases.c.budget == budget, releases.c.key == key)
