"""What a silo or a shuffler sends back: signed, of one fixed form, and bound to the very request it answers.

A reply that is altered, replayed under another request or sent in another's name does not verify.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass, replace

from recordwise.errors import ProtocolFault, shown
from recordwise.federation.forms import frame, hexadecimal, name, one_line, text, unframe
from recordwise.federation.identity import sign, verify
from recordwise.federation.plan import VERSION
from recordwise.federation.refusals import Refusal, refusal
from recordwise.hashing import digest_of
from recordwise.privacy.guarantee import members

log = logging.getLogger("recordwise.federation")  # for the operator of this machine alone

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
        header, body = unframe(message)
        signature = hexadecimal(header.get("signature"), SIGNATURE_BYTES, "a signature")
        refused = header.get("refused")
        if refused not in list(Refusal):
            raise ProtocolFault(f"a refusal must be one of the agreed sentences, got {shown(refused)}")
        reply = cls(
            name=name(header.get("name"), "a sender's name"),
            stage=text(header, "stage"),
            request=text(header, "request"),
            refused=Refusal(refused),
            body=body,
        )
        return reply, signature

    def _parts(self) -> tuple[bytes, ...]:
        header = (VERSION, "reply", self.name, self.stage, self.request, str(self.refused))
        return (*(part.encode() for part in header), self.body)


def reply_to(stage: str, request: bytes, answer: Callable[[str, bytes], bytes], sender: str, identity: bytes) -> bytes:
    """A signed answer, or a signed refusal out of a fixed list. Nothing else leaves, whatever goes wrong here."""
    about = Reply(name=sender, stage=stage, request=digest_of(request))
    try:
        return replace(about, body=answer(stage, request)).signed(identity)
    except Exception as error:
        log.warning("%s: refused %r: %s: %s", sender, stage, type(error).__name__, one_line(error))
        return replace(about, refused=refusal(error)).signed(identity)
