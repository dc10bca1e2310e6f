"""A device's account: what its answers have cost it in all, and the cap beyond which it answers no more.

One small file, needing neither NumPy nor a database. It holds every answer beside its charge, so a task that is asked
again gets the bytes it got before, and costs nothing.
"""

from __future__ import annotations

import json
import logging
import os
import secrets
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from fractions import Fraction
from pathlib import Path
from typing import Any

from recordwise.durable import sweep_beside, write_whole
from recordwise.errors import BudgetExceeded, ChangedInput, InvalidInput, LedgerFault, positive
from recordwise.formats import json_file
from recordwise.privacy.chain import Head
from recordwise.privacy.guarantee import exact, rounded_down, rounded_up
from recordwise.privacy.owner import KEY, Owner, Seal

log = logging.getLogger("recordwise.device")

FORMAT = "recordwise-account-2"
UNCHAINED = "recordwise-account-1"  # an older one: it gets its chain when it is next charged


class DeviceAccount:
    """The lifetime account of one device.

    Guarantees:
      - the answers it paid for cost at most the cap together: their epsilons are added as exact fractions;
      - an answer leaves `release` only after its charge is on the disk: a crash may waste budget, never hide an answer;
      - a key is charged once: asked for again, it gives the same bytes;
      - of several processes that race for the last of the cap exactly one wins;
      - a file that cannot be read is an error, never an empty account;
      - a file that was altered is an error: answers are chained, and the end of the chain is signed with the owner's
        key (`privacy.owner`). So is an older copy, and a new account where one that answered is gone.

    It counts what is asked of it: a device that keeps two files has lost count.
    """

    def __init__(self, path: str | Path, cap: Fraction | float | str | None = None) -> None:
        """The account at `path`.

        Args:
          cap: The epsilon that all answers may cost together, for the device's whole life: it opens the account, and
            never changes afterwards. None needs an account that is open.
        """
        self._path, self._owner = Path(path), Owner.here()
        asked = None if cap is None else exact(cap, "cap")
        if asked is not None:
            positive(cap=asked)
        with self._alone():
            if asked is not None and not self._path.exists():
                if self._owner.seen_at(self._place) is not None:
                    raise LedgerFault(f"the account {str(self._path)!r} has answered and is gone: put it back")
                self._write({"cap": str(asked), "account": secrets.token_hex(16), "answers": {}})
            held = exact(self._read()["cap"], "cap")
        if asked is not None and asked != held:
            raise ChangedInput(f"the account was opened with cap {held}, which cannot become {asked}")
        self.cap = held

    @property
    def spent(self) -> Fraction:
        """What all answers have cost together."""
        return _spent(self._read())

    def release(self, key: str, epsilon: Fraction, produce: Callable[[], bytes]) -> bytes:
        """What `produce` makes, once its charge is on the disk; or what it made under this key before.

        Raises:
          BudgetExceeded: The cap does not pay for it; `produce` was not called.
        """
        positive(epsilon=epsilon)
        with self._alone():
            book = self._read()
            self._catch_up(book)
            if key in book["answers"]:
                return bytes.fromhex(book["answers"][key]["message"])
            left = self.cap - _spent(book)
            if epsilon > left:
                raise BudgetExceeded(
                    f"the task needs epsilon {rounded_up(epsilon)} but {rounded_down(left) if left else 0} of the "
                    f"device's {rounded_down(self.cap)} is left"
                )
            message = produce()
            book["answers"][key] = {"epsilon": str(epsilon), "message": message.hex()}
            head = self._write(book)
            self._note(book["account"], head)
        return message

    @property
    def head(self) -> Head:
        """The end of the chain of answers, which can be noted elsewhere."""
        return _chained(self._read())

    @property
    def _place(self) -> str:
        return str(self._path.resolve())

    def _read(self) -> dict[str, Any]:
        if not self._path.exists():
            raise InvalidInput(f"a device needs an account with a cap, {str(self._path)!r} is not open yet")
        try:
            book: dict[str, Any] = json_file(self._path)
            if book["format"] == UNCHAINED:
                book["account"] = secrets.token_hex(16)
            elif book["format"] != FORMAT:
                raise ValueError("it says something else")
            if not _spent(book) <= exact(book["cap"], "cap"):
                raise ValueError("it says something else")
            self._refuse_altered(book)
        except (OSError, ValueError, KeyError, TypeError, AttributeError, ArithmeticError) as error:
            raise LedgerFault(f"the account {str(self._path)!r} cannot be read: {error}") from error
        return book

    def _refuse_altered(self, book: dict[str, Any]) -> None:
        here = self._owner.seen_at(self._place)
        altered = LedgerFault(f"the account {str(self._path)!r} was altered: put the newest copy back")
        if book["format"] == UNCHAINED:
            if here is not None:
                raise altered
            return
        account, head = book["account"], _chained(book)
        signed = self._owner.signed(account, head, Seal(str(book["key"]), str(book["tag"])))
        if signed is None:
            raise LedgerFault(
                f"the account {str(self._path)!r} is signed with another key than {str(self._owner.folder / KEY)!r}: "
                "put that key there"
            )
        if not signed:
            raise altered
        seen = self._owner.seen(account)
        if (seen is not None and seen.head not in _heads(book)) or (here is not None and here.account != account):
            raise altered

    def _write(self, book: dict[str, Any]) -> Head:
        """Replace the file in one step, and wait until the disk has it; gives the end of its chain."""
        head = _chained(book)
        seal = self._owner.sign(book["account"], head)
        whole = book | {"format": FORMAT, "key": seal.key, "tag": seal.tag}
        write_whole(self._path.absolute(), json.dumps(whole).encode())
        return head

    def _catch_up(self, book: dict[str, Any]) -> None:
        """Note what was charged and not noted, or refuse to go on: so only the last answer can ever be missing."""
        if book["format"] == FORMAT and book["answers"]:
            head, seen = _chained(book), self._owner.seen(book["account"])
            if seen is None or seen.head.count < head.count:
                self._owner.note(book["account"], self._place, head)

    def _note(self, account: str, head: Head) -> None:
        try:
            self._owner.note(account, self._place, head)
        except (OSError, LedgerFault) as error:  # the answer is paid for: this is made up for next time
            log.warning("the account's head could not be noted: %s", error)

    @contextmanager
    def _alone(self) -> Iterator[None]:
        """One process at a time; the lock goes with a process that dies."""
        try:
            import fcntl
        except ImportError as error:
            raise InvalidInput("a device's account needs file locks, which this system does not have") from error
        try:
            lock = os.open(self._path.with_name(self._path.name + ".lock"), os.O_RDWR | os.O_CREAT, 0o600)
        except OSError as error:
            raise LedgerFault(f"the account {str(self._path)!r} cannot be kept there: {error.strerror}") from error
        try:
            fcntl.flock(lock, fcntl.LOCK_EX)
            sweep_beside(self._path)
            yield
        finally:
            os.close(lock)


def _spent(book: dict[str, Any]) -> Fraction:
    return sum((exact(answer["epsilon"], "epsilon") for answer in book["answers"].values()), Fraction(0))


def _heads(book: dict[str, Any]) -> Iterator[Head]:
    """The chain's ends, one after the other: cap and account first, then every answer in its order."""
    head = Head().then("account", str(book["account"]), str(book["cap"]))
    yield head
    for key, answer in book["answers"].items():
        head = head.then("answer", key, str(answer["epsilon"]), str(answer["message"]))
        yield head


def _chained(book: dict[str, Any]) -> Head:
    *_, head = _heads(book)
    return head
