"""The shuffler as a node of its own: opens what silos sealed to it, and hands on what only the server can read.

The coordinator passes the silos' replies on to it, so it checks their signatures itself against the silos it knows: a
coordinator cannot make up senders to single one out.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from recordwise.durable import make_folder, sweep, write_whole
from recordwise.errors import ChangedInput, ProtocolFault
from recordwise.federation.forms import frame, one_line, unframe
from recordwise.federation.identity import open_sealed, public_identity
from recordwise.federation.plan import Ask, Plan
from recordwise.federation.replies import Reply, log, reply_to
from recordwise.federation.secure_sum import masks
from recordwise.federation.silo import ACCEPTED, purpose
from recordwise.formats import content_of
from recordwise.hashing import digest_of
from recordwise.locks import hold
from recordwise.privacy.guarantee import Trust
from recordwise.privacy.noise import SystemNoise
from recordwise.protocols.shuffle.sealing import OVERHEAD
from recordwise.protocols.shuffle.shuffler import SENDER_BYTES, Shuffler


class ShufflerNode:
    """Shuffles one batch per round.

    Guarantees:
      - only messages that known silos of the plan signed for this very round are in a batch, each silo's once; a silo
        whose messages are not of the agreed form is left out, and the others are not;
      - a batch of fewer records than planned, not counting those of the `colluding` largest silos, is not released: who
        knows its own messages does not hide the others'; a round has one batch, and asked again it is the same;
      - it holds no key that opens a record's message.

    Args:
      key: Private key that silos seal their batches to.
      peers: Public identities of the silos it knows.
    """

    def __init__(self, name: str, identity: bytes, key: bytes, folder: Path, peers: Mapping[str, bytes]) -> None:
        self.name, self.folder = name, folder
        self._identity, self._key, self._peers = identity, key, dict(peers)
        self._hold = hold(folder)
        sweep(folder)
        for part in ("plans", "batches"):
            make_folder(folder / part)

    def reply(self, stage: str, request: bytes) -> bytes:
        """A signed answer, or a signed refusal out of a fixed list."""
        return reply_to(stage, request, self.answer, self.name, self._identity)

    def answer(self, stage: str, request: bytes) -> bytes:
        if stage == "plan":
            plan = Plan.from_bytes(request)
            own = (self.name, public_identity(self._identity), masks.public_key(self._key))
            if plan.trust is not Trust.SHUFFLE or plan.shuffler != own:
                raise ProtocolFault("a plan must be for shuffle trust and name this shuffler, this one does not")
            place = self._place("plans", plan.run)
            if place.exists() and content_of(place) != request:
                raise ChangedInput(f"the plan of run {plan.run!r} was accepted with other content: it cannot change")
            write_whole(place, request)
            return json.dumps({"status": ACCEPTED, "plan": plan.digest}).encode()
        if stage == "shuffle":
            return self._shuffle(request)
        raise ProtocolFault(f"a shuffler's stage must be plan or shuffle, got {stage!r}")

    def _shuffle(self, request: bytes) -> bytes:
        asked, replies = unpacked(request)
        ask = Ask.from_bytes(asked)
        place = self._place("plans", ask.run)
        if not place.exists():
            raise ProtocolFault(f"run {ask.run!r} must be planned before it is shuffled, it is not")
        plan = Plan.from_bytes(content_of(place))
        if plan.digest != ask.plan:
            raise ChangedInput(f"run {ask.run!r} must be shuffled under its plan, it names another")
        batch = self._place("batches", ask.key)
        if batch.exists():
            header, content = unframe(content_of(batch))
            if header["request"] != digest_of(request):
                raise ChangedInput(f"{ask.key!r} was shuffled with other messages before: it cannot be again")
            return content
        content = self._batch(plan, ask, asked, replies)
        write_whole(batch, frame({"request": digest_of(request)}, content))
        return content

    def _batch(self, plan: Plan, ask: Ask, asked: bytes, replies: list[bytes]) -> bytes:
        protocol: Any = plan.protocol  # of shuffle trust, so it has senders
        size = protocol.message_size + OVERHEAD
        parts: dict[str, list[bytes]] = {}
        seen: set[bytes] = set()
        for message in replies:
            try:
                name, sealed = self._opened(plan, ask, asked, message, size)
                if name in parts or seen & set(sealed):
                    raise ProtocolFault(f"a silo must send once, and messages of its own, {name!r} does not")
            except ProtocolFault as fault:
                log.warning("left out of the batch: %s", one_line(fault))
                continue
            parts[name] = sealed
            seen |= set(sealed)
        hidden = sorted(map(len, parts.values()))[: max(0, len(parts) - plan.colluding)]
        if sum(hidden) < protocol.senders:
            raise ProtocolFault(
                f"a batch must hold messages of at least {protocol.senders:,} senders besides those of the "
                f"{plan.colluding} largest silos, got {sum(hidden):,}"
            )
        shuffler = Shuffler(senders=protocol.fewest, sealed_size=size)
        for name, sealed in parts.items():
            for place, one in enumerate(sealed):
                # A sender is a record: its silo and its place there.
                shuffler.accept(hashlib.sha256(f"{name}/{place}".encode()).digest()[:SENDER_BYTES], [one])
        batch = shuffler.release(SystemNoise())
        return frame({"senders": batch.senders}, b"".join(batch.messages))

    def _opened(self, plan: Plan, ask: Ask, asked: bytes, message: bytes, size: int) -> tuple[str, list[bytes]]:
        """A silo's name and its sealed messages, if it is a known one's answer to this round."""
        name = Reply.claimed(message).name
        if name not in self._peers or plan.roster.get(name) != self._peers[name]:
            raise ProtocolFault(
                f"a batch must come from silos of the plan that the shuffler knows, {name!r} is not one"
            )
        reply = Reply.verified(message, self._peers[name])
        if reply.stage != "vote" or reply.request != digest_of(asked) or reply.refused:
            raise ProtocolFault(f"a batch must be made of answers to this round, that of {name!r} is not")
        inner = open_sealed(self._key, reply.body, *purpose("onion", plan, ask, name))
        sealed = [inner[start : start + size] for start in range(0, len(inner), size)]
        if len(inner) % size or len(set(sealed)) < len(sealed):
            raise ProtocolFault(f"messages must have {size} bytes each and differ, those of {name!r} do not")
        return name, sealed

    def _place(self, kind: str, name: str) -> Path:
        return self.folder / kind / digest_of(name.encode())[:32]


def packed(asked: bytes, replies: list[bytes]) -> bytes:
    """A question and the signed replies to it, as one request to the shuffler."""
    return frame({"sizes": [len(asked), *map(len, replies)]}, b"".join([asked, *replies]))


def unpacked(request: bytes) -> tuple[bytes, list[bytes]]:
    header, body = unframe(request)
    sizes = header.get("sizes")
    if not (isinstance(sizes, list) and sizes and all(type(size) is int and size > 0 for size in sizes)):
        raise ProtocolFault("a batch must say how long its parts are, this one does not")
    if sum(sizes) != len(body):
        raise ProtocolFault(f"a batch must have {sum(sizes)} bytes as it says, got {len(body)}")
    parts, start = [], 0
    for size in sizes:
        parts.append(body[start : start + size])
        start += size
    return parts[0], parts[1:]
