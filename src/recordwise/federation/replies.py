"""What a silo or a shuffler sends back: signed, and bound to the very request it answers.

A reply that is altered, replayed under another request or sent in another's name does not verify.
"""

from __future__ import annotations

from dataclasses import dataclass

from recordwise.errors import ProtocolFault
from recordwise.federation.identity import frame, sign, unframe, verify
from recordwise.federation.plan import VERSION


@dataclass(frozen=True, kw_only=True)
class Reply:
    """An answer, or a refusal with its reason.

    Attributes:
      name: Who says it.
      stage: What was asked.
      request: SHA-256 of the request.
      refused: Why there is no answer; empty when there is one.
    """

    name: str
    stage: str
    request: str
    body: bytes = b""
    refused: str = ""

    def signed(self, identity: bytes) -> bytes:
        head = {"name": self.name, "stage": self.stage, "request": self.request, "refused": self.refused}
        return frame({**head, "signature": sign(identity, *self._parts()).hex()}, self.body)

    @classmethod
    def claimed(cls, message: bytes) -> Reply:
        """What a message claims to be; not yet verified."""
        return cls._read(message)[0]

    @classmethod
    def verified(cls, message: bytes, identity: bytes) -> Reply:
        """The reply in a message, once its signature is found to be its sender's."""
        reply, signature = cls._read(message)
        verify(identity, signature, *reply._parts())
        return reply

    @classmethod
    def _read(cls, message: bytes) -> tuple[Reply, bytes]:
        told, body = unframe(message)
        try:
            signature = bytes.fromhex(told.pop("signature"))
            return cls(**{name: str(value) for name, value in told.items()}, body=body), signature
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise ProtocolFault(f"a reply must be complete and signed, one is not: {error}") from error

    def _parts(self) -> tuple[bytes, ...]:
        told = (VERSION, "reply", self.name, self.stage, self.request, self.refused)
        return (*(part.encode() for part in told), self.body)
