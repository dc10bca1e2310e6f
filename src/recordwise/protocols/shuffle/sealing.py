"""Messages that only one reader can open: sealed to a public key. Those for a server are all of one length.

HPKE (RFC 9180: X25519, HKDF-SHA256, ChaCha20-Poly1305), by `cryptography`. A sealed message does not say who made it
nor, where every message is padded to the same size first, how long it was.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from typing import Any, NoReturn

from recordwise.errors import InvalidInput, ProtocolFault, whole

KEY_BYTES = 32
SEAL_BYTES = 32 + 16  # the sender's key for this one message, and the tag
OVERHEAD = SEAL_BYTES + 2  # two bytes say how long the message was before it was padded
SHUFFLED = b"recordwise shuffled message"  # what such a message is sealed for


def seal_to(public_key: bytes, content: bytes, purpose: bytes) -> bytes:
    """A message that only the holder of the private key can open, and only for this purpose."""
    suite, keys = _library()
    try:
        sealed: bytes = suite.encrypt(content, keys.X25519PublicKey.from_public_bytes(public_key), info=purpose)
    except ValueError as error:
        raise ProtocolFault("a public key must be a point of full order on Curve25519, one is not") from error
    return sealed


def open_sealed(private_key: bytes, sealed: bytes, purpose: bytes) -> bytes:
    """What was sealed; a fault if it was altered, sealed to another key or for another purpose."""
    suite, keys = _library()
    from cryptography.exceptions import InvalidTag

    try:
        content: bytes = suite.decrypt(sealed, keys.X25519PrivateKey.from_private_bytes(private_key), info=purpose)
    except (InvalidTag, ValueError, TypeError) as error:
        raise ProtocolFault("a sealed message must be whole and meant for its reader, one is not") from error
    return content


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
        return [seal_to(self.public_key, self._padded(message), SHUFFLED) for message in messages]

    def _padded(self, message: bytes) -> bytes:
        if len(message) > self.message_size:
            raise InvalidInput(f"a message must have at most {self.message_size} bytes, got {len(message)}")
        return len(message).to_bytes(2, "big") + message.ljust(self.message_size, b"\0")


class Opener:
    """The server's side: holds the private key, shows it to nobody, is never pickled."""

    def __init__(self, private_key: bytes, *, message_size: int) -> None:
        if len(private_key) != KEY_BYTES:
            raise InvalidInput(f"private_key must have {KEY_BYTES} bytes, got {len(private_key)}")
        key = _library()[1].X25519PrivateKey.from_private_bytes(private_key)
        self._key = private_key
        self.sealer = Sealer(public_key=key.public_key().public_bytes_raw(), message_size=message_size)

    @classmethod
    def fresh(cls, *, message_size: int) -> Opener:
        """A new key pair from the operating system's entropy."""
        return cls(_library()[1].X25519PrivateKey.generate().private_bytes_raw(), message_size=message_size)

    def open(self, sealed: Iterable[bytes]) -> list[bytes]:
        """The messages; one that was altered, or sealed to another key, is a fault."""
        return [self._opened(message) for message in sealed]

    def _opened(self, sealed: bytes) -> bytes:
        padded = open_sealed(self._key, sealed, SHUFFLED)
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


@cache
def _library() -> tuple[Any, Any]:
    """The cipher suite, and the keys it takes; loaded when something is sealed, since a shuffler opens nothing."""
    import recordwise.extras.shuffle  # noqa: F401

    from cryptography.hazmat.primitives.asymmetric import x25519
    from cryptography.hazmat.primitives.hpke import AEAD, KDF, KEM, Suite

    return Suite(KEM.X25519, KDF.HKDF_SHA256, AEAD.CHACHA20_POLY1305), x25519
