"""One sum: who takes part, how many must, what is added. Public, and part of every signature and key."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from recordwise.errors import InvalidInput, ProtocolFault, whole
from recordwise.federation import identity
from recordwise.federation.forms import frame, hexadecimal, json_object, unframe

VERSION = "recordwise-secure-sum-1"
MOST_BITS = 62


@dataclass(frozen=True, kw_only=True)
class Session:
    """The public terms of one sum.

    Guarantees:
      - two sums with other terms have other digests, and a message of one is refused in the other.

    Attributes:
      name: Unique among all sums of these parties, for instance run and round.
      roster: Every party's long-term public key. It must reach the parties by a way the server does not control.
      threshold: A sum of fewer parties is never revealed.
      colluding: So many parties may work with the server without learning more than the sum of the others: two lists
        of survivors, both confirmed by `threshold` parties, would need an honest party to sign twice.
      length: How many integers each party adds.
      modulus_bits: b of the modulus 2^b.
    """

    name: str
    roster: Mapping[str, bytes]
    threshold: int
    length: int
    modulus_bits: int
    colluding: int = 0

    def __post_init__(self) -> None:
        whole(threshold=self.threshold, length=self.length, modulus_bits=self.modulus_bits)
        object.__setattr__(self, "roster", dict(sorted(self.roster.items())))
        parties = len(self.roster)
        if len(set(self.roster.values())) < parties or any(len(key) != 32 for key in self.roster.values()):
            raise InvalidInput("roster must name every party with its own public key of 32 bytes, it does not")
        if not self.colluding >= 0:
            raise InvalidInput(f"colluding must be >= 0, got {self.colluding!r}")
        if not parties >= self.threshold:
            raise InvalidInput(f"threshold must be <= the {parties} parties, got {self.threshold}")
        if not 2 * self.threshold > parties + self.colluding:
            raise InvalidInput(
                f"threshold must exceed half of {parties} parties + {self.colluding} colluding, got {self.threshold}"
            )
        if not self.threshold - self.colluding >= 2:
            raise InvalidInput(
                f"threshold must leave >= 2 honest parties besides {self.colluding} colluding, got {self.threshold}"
            )
        if self.modulus_bits > MOST_BITS:
            raise InvalidInput(f"modulus_bits must be <= {MOST_BITS}, got {self.modulus_bits}")

    @cached_property
    def digest(self) -> bytes:
        terms = {**vars(self), "version": VERSION, "roster": {name: key.hex() for name, key in self.roster.items()}}
        terms.pop("digest", None)
        return hashlib.sha256(json.dumps(terms, sort_keys=True).encode()).digest()

    def point(self, name: str) -> int:
        """Where a party's shares are taken."""
        return list(self.roster).index(name) + 1

    def sign(self, private: bytes, stage: str, name: str, content: bytes) -> bytes:
        return identity.sign(private, *self._signed(stage, name, content))

    def verify(self, stage: str, name: str, content: bytes, signature: bytes) -> None:
        if name not in self.roster:
            raise ProtocolFault(f"a party must be on the roster, {name!r} is not")
        try:
            identity.verify(self.roster[name], signature, *self._signed(stage, name, content))
        except ProtocolFault as error:
            raise ProtocolFault(f"{stage!r} must be signed by {name!r} for this sum, it is not") from error

    def envelope(self, private: bytes, stage: str, name: str, content: Mapping[str, Any]) -> bytes:
        """A signed message."""
        body = json.dumps(content, sort_keys=True).encode()
        return frame({"signature": self.sign(private, stage, name, body).hex()}, body)

    def opened(self, stage: str, name: str, message: bytes) -> dict[str, Any]:
        """What a signed message says; a message of another stage, party or sum is refused."""
        header, body = unframe(message)
        self.verify(stage, name, body, hexadecimal(header.get("signature"), 64, "a signature"))
        return json_object(body)

    def packed(self, residues: NDArray[np.uint64]) -> str:
        width = (self.modulus_bits + 7) // 8
        return residues.astype("<u8")[:, None].view(np.uint8)[:, :width].tobytes().hex()

    def unpacked(self, text: object) -> NDArray[np.uint64]:
        width = (self.modulus_bits + 7) // 8
        try:
            content = bytes.fromhex(str(text))
        except ValueError as error:
            raise ProtocolFault("residues must be hexadecimal digits, they are not") from error
        if len(content) != width * self.length:
            raise ProtocolFault(f"a vector must hold {self.length} residues of {width} bytes, got {len(content)} bytes")
        words = np.zeros((self.length, 8), dtype=np.uint8)
        words[:, :width] = np.frombuffer(content, dtype=np.uint8).reshape(self.length, width)
        residues = words.view("<u8")[:, 0].astype(np.uint64)
        if (residues >> np.uint64(self.modulus_bits)).any():
            raise ProtocolFault(f"residues must lie below 2^{self.modulus_bits}, one does not")
        return residues

    def _signed(self, stage: str, name: str, content: bytes) -> tuple[bytes, ...]:
        return VERSION.encode(), self.digest, stage.encode(), name.encode(), content
