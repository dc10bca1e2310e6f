"""Who says it, and who may read it: long-term signing keys, and messages sealed to one reader.

Ed25519 signatures; messages are sealed by HPKE, as those for a shuffle are. Everything signed or
sealed names its purpose, so that nothing can be taken for something else.
"""

from __future__ import annotations

from pathlib import Path

import recordwise.extras.federation  # noqa: F401

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

from recordwise.durable import make_folder, sweep_beside, write_once
from recordwise.errors import InvalidInput, ProtocolFault
from recordwise.formats import text_of
from recordwise.protocols.shuffle import sealing

KEY_BYTES = sealing.KEY_BYTES  # signing keys are as long as those messages are sealed to


def identity_key() -> bytes:
    """A new long-term private key, from the operating system's entropy."""
    return Ed25519PrivateKey.generate().private_bytes_raw()


def public_identity(private: bytes) -> bytes:
    return Ed25519PrivateKey.from_private_bytes(private).public_key().public_bytes_raw()


def sign(private: bytes, *parts: bytes) -> bytes:
    return Ed25519PrivateKey.from_private_bytes(private).sign(_joined(parts))


def verify(public: bytes, signature: bytes, *parts: bytes) -> None:
    try:
        Ed25519PublicKey.from_public_bytes(public).verify(signature, _joined(parts))
    except (InvalidSignature, ValueError) as error:
        raise ProtocolFault("a message must be signed by its sender for this very purpose, one is not") from error


def seal_to(reader: bytes, content: bytes, *purpose: bytes) -> bytes:
    """A message that only the holder of the reader's private key can open, for this purpose."""
    return sealing.seal_to(reader, content, _joined(purpose))


def open_sealed(private: bytes, sealed: bytes, *purpose: bytes) -> bytes:
    return sealing.open_sealed(private, sealed, _joined(purpose))


def kept_key(path: Path, fresh: bytes) -> bytes:
    """The private key in a file that only its owner may read; `fresh` is put there when there is none."""
    if not path.exists():
        make_folder(path.parent)
        write_once(path, f"{fresh.hex()}\n".encode(), mode=0o600)  # of two that are made at once, one counts
    sweep_beside(path)
    try:
        key = bytes.fromhex(text_of(path, most=1 << 12))
    except (OSError, ValueError) as error:
        raise InvalidInput(f"{path} must hold a private key in hexadecimal digits: {error}") from error
    if len(key) != KEY_BYTES:
        raise InvalidInput(f"{path} must hold a key of {KEY_BYTES} bytes, got {len(key)}")
    return key


def _joined(parts: tuple[bytes, ...]) -> bytes:
    return b"".join(len(part).to_bytes(8, "big") + part for part in parts)
