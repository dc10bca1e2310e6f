"""What the owner of an account keeps apart from it: a secret key, and the last head seen of every account.

The folder is $RECORDWISE_KEYS, or .config/recordwise in the owner's home. It must not lie beside the accounts: whoever
can write both can rewrite both.
"""

from __future__ import annotations

import hmac
import json
import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from recordwise.durable import make_folder, sweep, write_whole
from recordwise.errors import LedgerFault
from recordwise.formats import json_file, text_of
from recordwise.hashing import digest_of
from recordwise.privacy.chain import Head

VARIABLE = "RECORDWISE_KEYS"
KEY, SEEN, PLACES = "ledger.key", "seen", "places"
SECRET_BYTES = 32


@dataclass(frozen=True)
class Seal:
    """A head, signed: nobody without the key makes one.

    Attributes:
      key: What the key is called. It says nothing about the key.
      tag: HMAC-SHA256 of account and head.
    """

    key: str
    tag: str


@dataclass(frozen=True)
class Seen:
    """What is remembered of an account."""

    account: str
    place: str
    head: Head


class Owner:
    """The owner's folder.

    Guarantees:
      - the key is made once, of operating-system entropy, and only its owner may read it;
      - a head that is remembered is of an account that was written with this key; later heads replace earlier ones.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    @classmethod
    def here(cls) -> Owner:
        """The owner on this machine. Nothing is created before something is to be kept."""
        named = os.environ.get(VARIABLE)
        if named:
            return cls(Path(named).absolute())
        try:
            return cls(Path.home() / ".config" / "recordwise")
        except RuntimeError as error:
            raise LedgerFault(f"there is no home to keep a ledger's key in: name a folder in {VARIABLE}") from error

    # The key

    def key(self) -> bytes | None:
        """The key; None where there is none yet."""
        place = self.folder / KEY
        try:
            with place.open("rb") as file:
                if os.name == "posix" and os.fstat(file.fileno()).st_mode & 0o077:
                    raise LedgerFault(f"the key {str(place)!r} must be for its owner alone: chmod 600 it")
                key = bytes.fromhex(file.read(4 * SECRET_BYTES).decode().strip())
        except (FileNotFoundError, NotADirectoryError):
            return None
        except OSError as error:
            raise LedgerFault(f"the key {str(place)!r} cannot be read: {error.strerror}") from error
        except ValueError as error:
            raise LedgerFault(f"the key {str(place)!r} is damaged: restore it") from error
        if len(key) != SECRET_BYTES:
            raise LedgerFault(f"the key {str(place)!r} is damaged: restore it")
        return key

    def own_key(self) -> bytes:
        """The key, made now if there is none."""
        found = self.key()
        if found is not None:
            return found
        with self._alone():
            if not (self.folder / KEY).exists():
                write_whole(self.folder / KEY, f"{secrets.token_hex(SECRET_BYTES)}\n".encode(), mode=0o600)
        made = self.key()
        assert made is not None
        return made

    def sign(self, account: str, head: Head) -> Seal:
        key = self.own_key()
        return Seal(key_name(key), _tag(key, account, head))

    def signed(self, account: str, head: Head, seal: Seal) -> bool | None:
        """Whether this owner's key made the seal; None where the seal names another key, or there is none here."""
        key = self.key()
        if key is None or key_name(key) != seal.key:
            return None
        return hmac.compare_digest(_tag(key, account, head), seal.tag)

    # What was seen

    def seen(self, account: str) -> Seen | None:
        """The last head that was seen of an account."""
        if not (self.folder / SEEN / account).exists():
            return None
        try:
            seen = json_file(self.folder / SEEN / account)
            return Seen(account, str(seen["place"]), Head(int(seen["count"]), str(seen["head"])))
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise LedgerFault(f"{str(self.folder / SEEN / account)!r} is damaged: {error}") from error

    def seen_at(self, place: str) -> Seen | None:
        """What was last seen at a place, unless it was seen elsewhere since."""
        if not self._pointer(place).exists():
            return None
        try:
            account = text_of(self._pointer(place))
        except (OSError, ValueError) as error:
            raise LedgerFault(f"{str(self._pointer(place))!r} is damaged: {error}") from error
        found = self.seen(account)
        return found if found is not None and found.place == place else None

    def note(self, account: str, place: str, head: Head, *, anew: bool = False) -> None:
        """Remember a head.

        Args:
          anew: It replaces a later one, too: the owner said so.
        """
        with self._alone():
            before = self.seen(account)
            if not anew and before is not None and before.head.count > head.count:
                head = before.head  # somebody was quicker; it stays the last, wherever it lies now
            if anew or before is None or before.head.count < head.count or before.place != place:
                seen = {"place": place, "count": head.count, "head": head.digest}
                self._keep(self.folder / SEEN / account, json.dumps(seen))
            if self.seen_at(place) is None:
                self._keep(self._pointer(place), account)

    def forget(self, place: str) -> bool:
        """Forget what lay at a place; whether there was anything."""
        with self._alone():
            known = self.seen_at(place) is not None
            self._pointer(place).unlink(missing_ok=True)
        return known

    def _pointer(self, place: str) -> Path:
        return self.folder / PLACES / digest_of(place.encode("utf-8", "surrogateescape"))[:32]

    def _keep(self, path: Path, content: str) -> None:
        make_folder(path.parent, mode=0o700)
        write_whole(path, content.encode("utf-8", "surrogateescape"), mode=0o600)

    @contextmanager
    def _alone(self) -> Iterator[None]:
        """One process and one thread at a time; the lock goes with a process that dies."""
        try:
            make_folder(self.folder, mode=0o700)  # a key must not be lost with the power, after it signed something
            lock = os.open(self.folder / "lock", os.O_RDWR | os.O_CREAT, 0o600)
        except OSError as error:
            raise LedgerFault(
                f"a ledger's key cannot be kept in {str(self.folder)!r}: {error.strerror}; name a folder in {VARIABLE}"
            ) from error
        try:
            if os.name == "posix":
                import fcntl

                fcntl.flock(lock, fcntl.LOCK_EX)
                sweep(self.folder)
            yield
        finally:
            os.close(lock)


def key_name(key: bytes) -> str:
    """What tells a key from others, and nothing else about it."""
    return digest_of(b"recordwise key name:" + key)[:16]


def _tag(key: bytes, account: str, head: Head) -> str:
    return hmac.new(key, f"{account}:{head.count}:{head.digest}".encode(), "sha256").hexdigest()
