"""A device's account: what its answers have cost it in all, and the cap beyond which it answers no more.

One small file, needing neither NumPy nor a database. It holds every answer beside its charge, so a task that is asked
again gets the bytes it got before, and costs nothing.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from fractions import Fraction
from pathlib import Path
from typing import Any

from recordwise.durable import write_whole
from recordwise.errors import BudgetExceeded, ChangedInput, InvalidInput, LedgerFault, positive
from recordwise.privacy.guarantee import exact, rounded_down, rounded_up

FORMAT = "recordwise-account-1"


class DeviceAccount:
    """The lifetime account of one device.

    Guarantees:
      - the answers it paid for cost at most the cap together: their epsilons are added as exact fractions;
      - an answer leaves `release` only after its charge is on the disk: a crash may waste budget, never hide an answer;
      - a key is charged once: asked for again, it gives the same bytes;
      - of several processes that race for the last of the cap exactly one wins;
      - a file that cannot be read is an error, never an empty account.

    It counts what is asked of it: a device that loses the file, or keeps two, has lost count.
    """

    def __init__(self, path: str | Path, cap: Fraction | float | str | None = None) -> None:
        """The account at `path`.

        Args:
          cap: The epsilon that all answers may cost together, for the device's whole life: it opens the account, and
            never changes afterwards. None needs an account that is open.
        """
        self._path = Path(path)
        asked = None if cap is None else exact(cap, "cap")
        if asked is not None:
            positive(cap=asked)
        with self._alone():
            if asked is not None and not self._path.exists():
                self._write({"format": FORMAT, "cap": str(asked), "answers": {}})
            held = Fraction(self._read()["cap"])
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
            self._write(book)
        return message

    def _read(self) -> dict[str, Any]:
        try:
            book: dict[str, Any] = json.loads(self._path.read_bytes())
            if book["format"] != FORMAT or not _spent(book) <= Fraction(book["cap"]):
                raise ValueError("it says something else")
        except FileNotFoundError as error:
            raise InvalidInput(f"a device needs an account with a cap, {str(self._path)!r} is not open yet") from error
        except (OSError, ValueError, KeyError, TypeError, AttributeError, ArithmeticError) as error:
            raise LedgerFault(f"the account {str(self._path)!r} cannot be read: {error}") from error
        return book

    def _write(self, book: dict[str, Any]) -> None:
        """Replace the file in one step, and wait until the disk has it."""
        write_whole(self._path.absolute(), json.dumps(book).encode())

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
            for leftover in self._path.absolute().parent.glob(f"{self._path.name}.*.part"):  # of one that was killed
                leftover.unlink(missing_ok=True)
            yield
        finally:
            os.close(lock)


def _spent(book: dict[str, Any]) -> Fraction:
    return sum((Fraction(answer["epsilon"]) for answer in book["answers"].values()), Fraction(0))
