"""What records have paid, on the disk: an older copy put back would let them pay twice from one allowance.

Every state that is saved is a link of a chain: its hash covers it and the hash before it. The last one is sealed with
the owner's key, and the owner's folder remembers it (`privacy.owner`). It is remembered before anything is released
that the payments are for. So whoever is killed in between is at most one state ahead of what is remembered, and that
state paid for nothing yet.
"""

from __future__ import annotations

import json
from pathlib import Path

from recordwise.durable import write_whole
from recordwise.errors import InvalidInput, LedgerFault
from recordwise.formats import content_of, json_from
from recordwise.hashing import digest_of
from recordwise.privacy.chain import Head
from recordwise.privacy.filter import RecordFilter
from recordwise.privacy.owner import KEY, Owner, Seal


class Payments:
    """One run's record filter, kept in a file. As private as the records.

    Guarantees:
      - what `save` has written survives a crash and a loss of power, whole;
      - a file that was changed, set back or taken away after `save` returned is refused by `load`;
      - a process that is killed at any point of `save` leaves a file that `load` takes up.
    """

    def __init__(self, place: Path, run: str) -> None:
        self._place, self._owner, self._head = place, Owner.here(), Head()
        self._account = digest_of(f"payments of run {run}".encode())

    def load(self) -> RecordFilter | None:
        """What was saved last; None where nothing ever was."""
        seen = self._owner.seen(self._account)
        if not self._place.exists():
            if seen is not None:
                raise LedgerFault(f"what records have paid was kept in {str(self._place)!r} and is gone: put it back")
            return None
        line, _, content = content_of(self._place).partition(b"\n")
        try:
            header = json_from(line)
            before = Head(int(header["count"]), str(header["before"]))
            seal = Seal(str(header["key"]), str(header["tag"]))
        except (InvalidInput, LookupError, TypeError, ValueError, ArithmeticError) as error:
            raise InvalidInput(f"{str(self._place)!r} must hold what records have paid, it does not") from error
        head = before.then(digest_of(content))
        signed = self._owner.signed(self._account, head, seal)
        if signed is None:
            raise LedgerFault(
                f"what records have paid, in {str(self._place)!r}, is signed with another key than "
                f"{str(self._owner.folder / KEY)!r}: put that key there"
            )
        if not signed or (seen is not None and seen.head not in (before, head)):
            raise LedgerFault(
                f"what records have paid, in {str(self._place)!r}, was altered or set back: put the newest copy back, "
                "or start a new run in another folder"
            )
        found = RecordFilter.from_bytes(content)
        self._remember(head)  # a killed process may not have: the next state would be two ahead
        return found

    def save(self, payments: RecordFilter) -> None:
        """Keep what records have paid by now. Nothing may be released before this returns."""
        content = payments.to_bytes()
        head = self._head.then(digest_of(content))
        seal = self._owner.sign(self._account, head)
        header = {"count": self._head.count, "before": self._head.digest, "key": seal.key, "tag": seal.tag}
        write_whole(self._place, json.dumps(header).encode() + b"\n" + content, mode=0o600)
        self._remember(head)

    def _remember(self, head: Head) -> None:
        self._owner.note(self._account, str(self._place.resolve()), head)
        self._head = head
