"""The shuffler as a node of its own: opens what silos sealed to it, and hands on what only the server can read.

The coordinator passes the silos' replies on to it, so it checks their signatures itself against the silos it knows: a
coordinator that made up senders to single one out would be found out.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from recordwise.durable import write_whole
from recordwise.errors import ChangedInput, ProtocolFault, RecordwiseError
from recordwise.federation.identity import frame, open_sealed, unframe
from recordwise.federation.plan import Ask, Plan
from recordwise.federation.replies import Reply
from recordwise.federation.silo import ACCEPTED, log, purpose, refusal
from recordwise.hashing import digest_of
from recordwise.privacy.noise import SystemNoise
from recordwise.protocols.shuffle import ShuffleSingle
from recordwise.protocols.shuffle.sealing import OVERHEAD
from recordwise.protocols.shuffle.shuffler import SENDER_BYTES, Shuffler


class ShufflerNode:
    """Shuffles one batch per round.

    Guarantees:
      - only messages that known silos signed for this very round are in a batch, each silo's once;
      - a batch of fewer records than planned is not released; a round has one batch, and asked again it is the same;
      - it holds no key that opens a record's message.

    Args:
      key: Private key that silos seal their batches to.
      peers: Public identities of the silos it knows.
    """

    def __init__(self, name: str, identity: bytes, key: bytes, folder: Path, peers: Mapping[str, bytes]) -> None:
        self.name, self.folder = name, folder
        self._identity, self._key, self._peers = identity, key, dict(peers)
        for part in ("plans", "batches"):
            (folder / part).mkdir(parents=True, exist_ok=True)

    def reply(self, stage: str, request: bytes) -> bytes:
        about = Reply(name=self.name, stage=stage, request=digest_of(request))
        try:
            return replace(about, body=self.answer(stage, request)).signed(self._identity)
        except RecordwiseError as error:
            log.warning("%s: refused %r: %s", self.name, stage, error)
            return replace(about, refused=refusal(error)).signed(self._identity)

    def answer(self, stage: str, request: bytes) -> bytes:
        if stage == "plan":
            plan = Plan.from_bytes(request)
            place = self._place("plans", plan.run)
            if place.exists() and place.read_bytes() != request:
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
        plan = Plan.from_bytes(place.read_bytes())
        if plan.digest != ask.plan or not isinstance(plan.protocol, ShuffleSingle):
            raise ChangedInput(f"run {ask.run!r} must be shuffled under its plan, it names another")
        batch = self._place("batches", ask.key)
        if batch.exists():
            told, content = unframe(batch.read_bytes())
            if told["request"] != digest_of(request):
                raise ChangedInput(f"{ask.key!r} was shuffled with other messages before: it cannot be again")
            return content
        content = self._batch(plan, plan.protocol, ask, asked, replies)
        write_whole(batch, frame({"request": digest_of(request)}, content))
        return content

    def _batch(self, plan: Plan, protocol: ShuffleSingle, ask: Ask, asked: bytes, replies: list[bytes]) -> bytes:
        size = protocol.local.message_size + OVERHEAD
        shuffler = Shuffler(senders=protocol.fewest, sealed_size=size)
        for message in replies:
            name = Reply.claimed(message).name
            if name not in self._peers:
                raise ProtocolFault(f"a batch must come from silos the shuffler knows, {name!r} is not one")
            reply = Reply.verified(message, self._peers[name])
            if reply.stage != "vote" or reply.request != digest_of(asked) or reply.refused:
                raise ProtocolFault(f"a batch must be made of answers to this round, that of {name!r} is not")
            inner = open_sealed(self._key, reply.body, *purpose("onion", plan, ask, name))
            for start in range(0, len(inner), size):
                # A sender is a record: its silo and its place there.
                sender = hashlib.sha256(f"{name}/{start}".encode()).digest()[:SENDER_BYTES]
                shuffler.accept(sender, [inner[start : start + size]])
        batch = shuffler.release(SystemNoise())
        return frame({"senders": batch.senders}, b"".join(batch.messages))

    def _place(self, kind: str, name: str) -> Path:
        return self.folder / kind / digest_of(name.encode())[:32]


def packed(asked: bytes, replies: list[bytes]) -> bytes:
    """A question and the signed replies to it, as one request to the shuffler."""
    return frame({"sizes": [len(asked), *map(len, replies)]}, b"".join([asked, *replies]))


def unpacked(request: bytes) -> tuple[bytes, list[bytes]]:
    told, body = unframe(request)
    sizes = told.get("sizes")
    if not (isinstance(sizes, list) and sizes and all(type(size) is int and size > 0 for size in sizes)):
        raise ProtocolFault("a batch must say how long its parts are, this one does not")
    if sum(sizes) != len(body):
        raise ProtocolFault(f"a batch must have {sum(sizes)} bytes as it says, got {len(body)}")
    parts, start = [], 0
    for size in sizes:
        parts.append(body[start : start + size])
        start += size
    return parts[0], parts[1:]
