"""Keys that two parties agree on without meeting, and the masks and seals made from them.

X25519, HKDF-SHA256, ChaCha20 and ChaCha20-Poly1305, all from `cryptography`. Every key is used for one purpose, which
is part of its derivation, and for one message, so that nonces may be zero. Shares of secrets are sealed here and not by
HPKE: the coordinator hands them on, so a reader must know that the writer sealed them, which only a key of both shows.
"""

from __future__ import annotations

import recordwise.extras.federation  # noqa: F401

import numpy as np
from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey
from cryptography.hazmat.primitives.ciphers import Cipher
from cryptography.hazmat.primitives.ciphers.aead import ChaCha20Poly1305
from cryptography.hazmat.primitives.ciphers.algorithms import ChaCha20
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF
from numpy.typing import NDArray

from recordwise.errors import ProtocolFault

MASK_BYTES = 32  # of keys that two parties agree on, and of commitments to them


def fresh_key() -> bytes:
    """A private key from the operating system's entropy."""
    return X25519PrivateKey.generate().private_bytes_raw()


def public_key(private: bytes) -> bytes:
    return X25519PrivateKey.from_private_bytes(private).public_key().public_bytes_raw()


def agreed_key(private: bytes, public: bytes, *purpose: bytes) -> bytes:
    """What the holders of two key pairs can both compute, and nobody else: one key per purpose."""
    try:
        shared = X25519PrivateKey.from_private_bytes(private).exchange(X25519PublicKey.from_public_bytes(public))
    except ValueError as error:
        raise ProtocolFault("a public key must be a point of full order on Curve25519, one is not") from error
    return derived_key(shared, *purpose)


def derived_key(secret: bytes, *purpose: bytes) -> bytes:
    info = b"".join(len(part).to_bytes(4, "big") + part for part in purpose)
    return HKDF(algorithm=SHA256(), length=MASK_BYTES, salt=None, info=info).derive(secret)


def mask(key: bytes, length: int, bits: int) -> NDArray[np.uint64]:
    """`length` residues modulo 2^bits that look uniform to whoever lacks the key."""
    encryptor = Cipher(ChaCha20(key, bytes(16)), mode=None).encryptor()
    words = np.frombuffer(encryptor.update(bytes(8 * length)), dtype="<u8").astype(np.uint64)
    return words & np.uint64((1 << bits) - 1)


def seal(key: bytes, content: bytes) -> bytes:
    """Encrypted and authenticated; one message per key."""
    return ChaCha20Poly1305(key).encrypt(bytes(12), content, None)


def unseal(key: bytes, sealed: bytes) -> bytes:
    try:
        return ChaCha20Poly1305(key).decrypt(bytes(12), sealed, None)
    except InvalidTag as error:
        raise ProtocolFault("a sealed message must be whole and meant for its reader, one is not") from error
