"""What a silo or a shuffler sends back: signed, of one fixed form, and bound to the very request it answers.

A reply that is altered, replayed under another request or sent in another's name does not verify.
"""

from __future__ import annotations

from dataclasses import dataclass

from recordwise.errors import ProtocolFault, shown
from recordwise.federation.forms import frame, hexadecimal, name, text, unframe
from recordwise.federation.identity import sign, verify
from recordwise.federation.plan import VERSION
from recordwise.federation.refusals import Refusal
from recordwise.privacy.guarantee import members

SIGNATURE_BYTES = 64


@dataclass(frozen=True, kw_only=True)
class Reply:
    """An answer, or a refusal.

    Attributes:
      name: Who says it.
      stage: What was asked.
      request: SHA-256 of the request.
      refused: Why there is no answer, out of a fixed list; empty when there is one.
    """

    name: str
    stage: str
    request: str
    body: bytes = b""
    refused: Refusal = Refusal.NONE

    def __post_init__(self) -> None:
        members(self, refused=Refusal)

    def signed(self, identity: bytes) -> bytes:
        head = {"name": self.name, "stage": self.stage, "request": self.request, "refused": str(self.refused)}
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
        signature = hexadecimal(told.get("signature"), SIGNATURE_BYTES, "a signature")
        refused = told.get("refused")
        if refused not in list(Refusal):
            raise ProtocolFault(f"a refusal must be one of the agreed sentences, got {shown(refused)}")
        reply = cls(
            name=name(told.get("name"), "a sender's name"),
            stage=text(told, "stage"),
            request=text(told, "request"),
            refused=Refusal(refused),
            body=body,
        )
        return reply, signature

    def _parts(self) -> tuple[bytes, ...]:
        told = (VERSION, "reply", self.name, self.stage, self.request, str(self.refused))
        return (*(part.encode() for part in told), self.body)
