"""Messages that only the server can read: sealed to its public key, all of one length.

libsodium's sealed boxes (X25519, XSalsa20-Poly1305), by PyNaCl. A sealed message says neither who made it nor, because
every message is padded to the same size first, how long it was.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from types import ModuleType
from typing import NoReturn

from recordwise.errors import InvalidInput, MissingExtra, ProtocolFault, whole

KEY_BYTES = 32
OVERHEAD = 48 + 2  # the box, and two bytes that say how long the message was before it was padded


@dataclass(frozen=True, kw_only=True)
class Sealer:
    """The senders' side: the server's public key and the size every message is padded to. Public.

    Guarantees:
      - every sealed message has `sealed_size` bytes, whatever is in it;
      - sealing the same message twice gives two unrelated byte strings.
    """

    public_key: bytes
    message_size: int

    def __post_init__(self) -> None:
        whole(message_size=self.message_size)
        if len(self.public_key) != KEY_BYTES:
            raise InvalidInput(f"public_key must have {KEY_BYTES} bytes, got {len(self.public_key)}")
        if not self.message_size < 2**16:
            raise InvalidInput(f"message_size must be < 65536, got {self.message_size}")

    @property
    def sealed_size(self) -> int:
        return self.message_size + OVERHEAD

    def seal(self, messages: Iterable[bytes]) -> list[bytes]:
        public = _library()
        box = public.SealedBox(public.PublicKey(self.public_key))
        return [box.encrypt(self._padded(message)) for message in messages]

    def _padded(self, message: bytes) -> bytes:
        if len(message) > self.message_size:
            raise InvalidInput(f"a message must have at most {self.message_size} bytes, got {len(message)}")
        return len(message).to_bytes(2, "big") + message.ljust(self.message_size, b"\0")


class Opener:
    """The server's side: holds the private key, shows it to nobody, is never pickled."""

    def __init__(self, private_key: bytes, *, message_size: int) -> None:
        if len(private_key) != KEY_BYTES:
            raise InvalidInput(f"private_key must have {KEY_BYTES} bytes, got {len(private_key)}")
        key = _library().PrivateKey(private_key)
        self._box = _library().SealedBox(key)
        self.sealer = Sealer(public_key=bytes(key.public_key), message_size=message_size)

    @classmethod
    def fresh(cls, *, message_size: int) -> Opener:
        """A new key pair from the operating system's entropy."""
        return cls(bytes(_library().PrivateKey.generate()), message_size=message_size)

    def open(self, sealed: Iterable[bytes]) -> list[bytes]:
        """The messages; one that was altered, or sealed to another key, is a fault."""
        return [self._opened(message) for message in sealed]

    def _opened(self, sealed: bytes) -> bytes:
        from nacl.exceptions import CryptoError

        try:
            padded: bytes = self._box.decrypt(sealed)
        except (CryptoError, ValueError, TypeError) as error:
            raise ProtocolFault("a message must be sealed to this server's key, one was altered or is not") from error
        length = int.from_bytes(padded[:2], "big")
        if (
            len(padded) != 2 + self.sealer.message_size
            or length > self.sealer.message_size
            or any(padded[2 + length :])
        ):
            raise ProtocolFault(f"a message must be padded to {self.sealer.message_size} bytes, one is not")
        return padded[2 : 2 + length]

    def __repr__(self) -> str:
        return f"Opener(message_size={self.sealer.message_size})"

    def __reduce__(self) -> NoReturn:
        raise InvalidInput("a private key must not be pickled, logged or written to disk")


def _library() -> ModuleType:
    try:
        from nacl import public
    except ImportError as error:
        raise MissingExtra("sealing messages needs PyNaCl: pip install 'recordwise[shuffle]'") from error
    return public
