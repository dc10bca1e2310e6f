"""The coordinator's side of a round: publish, ask, check what comes back, and release through the protocol."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeVar

from recordwise.errors import InvalidInput, ProtocolFault, RecordwiseError
from recordwise.federation.exchange import Exchange
from recordwise.federation.forms import frame, json_object, one_line, unframe
from recordwise.federation.identity import open_sealed
from recordwise.federation.plan import Ask, Plan
from recordwise.federation.replies import Reply
from recordwise.federation.secure_sum import SumServer
from recordwise.federation.shuffling import packed
from recordwise.federation.silo import ACCEPTED, WAITING, purpose
from recordwise.hashing import digest_of
from recordwise.privacy.guarantee import Trust
from recordwise.privacy.noise import Noise
from recordwise.protocols.distributed import ModularSum
from recordwise.protocols.release import Release
from recordwise.protocols.shuffle.sealing import Opener

Made = TypeVar("Made")
PAUSE = 0.3  # seconds until nodes that waited are asked again


@dataclass(kw_only=True)
class Collecting:
    """One plan from the coordinator's side: published, voted on, released round by round.

    Guarantees:
      - a reply counts only if a silo on the roster signed it for this very request; the first one of a silo counts;
      - counts that no records could have cast are refused;
      - whatever a silo sends costs it its own answer, and ends nobody else's run;
      - with fewer than `threshold` silos nothing is released.

    Attributes:
      counts_key: Opens exact counts (central trust).
      server_key: Opens shuffled messages (shuffle trust).
      timeout: Seconds to wait for replies; who is late is left out.
      patience: Seconds to wait for silos to accept the plan.
      faults: Who was left out of what, and why.
      culprits: Silos that made a secure sum fail: they are asked no more.
    """

    plan: Plan
    exchange: Exchange
    counts_key: bytes
    server_key: bytes
    timeout: float = 300.0
    patience: float = 600.0
    faults: list[str] = field(default_factory=list)
    culprits: set[str] = field(default_factory=set)
    _accepted_by: set[str] = field(default_factory=set)

    def publish(self) -> None:
        """Send the plan to every node, until enough silos accepted it, and the shuffler where there is one."""
        content, end = self.plan.to_bytes(), time.monotonic() + self.patience
        while True:
            waiting = [
                name for name in self.exchange.nodes() if name in self._parties and name not in self._accepted_by
            ]
            for name, reply in self._asked("plan", dict.fromkeys(waiting, content)):
                self._attempt(name, lambda name=name, reply=reply: self._introduced(name, reply[0]))  # type: ignore[misc]
            ready = self.plan.shuffler is None or self.plan.shuffler[0] in self._accepted_by
            late = time.monotonic() >= end
            silos = self._silos()
            if ready and (len(silos) == len(self.plan.roster) or (late and len(silos) >= self.plan.threshold)):
                return
            if late:
                missing = [name for name in self._parties if name not in self._accepted_by]
                raise ProtocolFault(
                    f"{self.plan.threshold} silos must accept the plan, {len(silos)} did; missing: "
                    f"{', '.join(missing)}; {'; '.join(self.faults[-len(missing) or -1 :])}"
                )
            time.sleep(PAUSE)

    def release(self, ask: Ask, noise: Noise) -> Release:
        """One round: what the silos answer, through the protocol."""
        protocol: Any = self.plan.protocol
        if self.plan.trust is Trust.DISTRIBUTED:
            released: Release = protocol.release(self._sum(ask, protocol))
            return released
        asked = ask.to_bytes()
        replies = self._ask("vote", dict.fromkeys(self._silos(), asked))
        if self.plan.trust is Trust.SHUFFLE:
            self._enough(len(replies))
            return self._shuffled(protocol, asked, [message for _, message in replies.values()], noise)
        messages = self._accepted(replies, lambda name, body: protocol.from_wire(self._opened(ask, name, body)))
        return self.plan.protocol.server(messages.values(), noise)

    def _opened(self, ask: Ask, name: str, body: bytes) -> bytes:
        """A silo's message; under central trust it was sealed to the coordinator."""
        if self.plan.trust is not Trust.CENTRAL:
            return body
        return open_sealed(self.counts_key, body, *purpose("counts", self.plan, ask, name))

    def _sum(self, ask: Ask, protocol: Any) -> ModularSum:
        server = SumServer(self.plan.session(ask))
        session = server.session.digest.hex()

        def stage(name: str, bodies: Mapping[str, bytes]) -> dict[str, bytes]:
            requests = {silo: frame(ask.header(session=session), body) for silo, body in bodies.items()}
            return {silo: reply.body for silo, (reply, _) in self._ask(name, requests).items()}

        first = dict.fromkeys(self._silos(), ask.to_bytes())
        answers = {silo: reply.body for silo, (reply, _) in self._ask("advertise", first).items()}
        try:
            keys = server.advertised(answers)
            answers = stage("share", dict.fromkeys(json_object(keys), keys))
            answers = stage("mask", server.shared(answers))
            survivors = server.masked(answers)
            answers = stage("confirm", dict.fromkeys(server.survivors, survivors))
            confirmed = server.confirmed(answers)
            answers = stage("reveal", dict.fromkeys(server.survivors, confirmed))
            residues, parties, private = server.revealed(answers)
        finally:
            self.faults += [f"{name}: {fault}" for name, fault in server.faults.items()]
            self.culprits |= server.culprits
        shape = (protocol.ballot.num_queries, protocol.ballot.num_classes)
        return ModularSum(residues.reshape(shape), parties, private)

    def _shuffled(self, protocol: Any, asked: bytes, replies: list[bytes], noise: Noise) -> Release:
        assert self.plan.shuffler is not None
        name = self.plan.shuffler[0]
        request = packed(asked, replies)
        for reply, _ in self._ask("shuffle", {name: request}).values():
            _, content = unframe(reply.body)
            opener = Opener(self.server_key, message_size=protocol.message_size)
            size = opener.sealer.sealed_size
            opened = []
            for start in range(0, len(content), size):
                try:
                    message = opener.open([content[start : start + size]])
                    protocol.from_bytes(message)
                    opened += message
                except (ProtocolFault, InvalidInput):  # from one sender; the shuffler has made sure nobody knows which
                    continue
            if lost := -(-len(content) // size) - len(opened):
                self.faults.append(f"{lost} shuffled message(s) were not of the agreed form and do not count")
            released: Release = protocol.server([protocol.from_bytes(opened)], noise)
            return released
        raise ProtocolFault(f"the shuffler {name!r} must hand on a batch, it did not: {'; '.join(self.faults[-3:])}")

    @property
    def _parties(self) -> dict[str, bytes]:
        """Who may answer, and by which identity."""
        if self.plan.shuffler is None:
            return dict(self.plan.roster)
        return {**self.plan.roster, self.plan.shuffler[0]: self.plan.shuffler[1]}

    def _introduced(self, name: str, reply: Reply) -> None:
        status = json_object(reply.body)
        if status.get("status") == ACCEPTED and status.get("plan") == self.plan.digest:
            self._accepted_by.add(name)
        else:
            waiting = status.get("status") == WAITING
            self._fault(f"{name}: {'waits for a person to approve the plan' if waiting else 'unclear'}")

    def _ask(self, stage: str, requests: Mapping[str, bytes]) -> dict[str, tuple[Reply, bytes]]:
        """Each party's first valid reply, with the signed message it came in."""
        answers: dict[str, tuple[Reply, bytes]] = {}
        for name, answer in self._asked(stage, requests):
            if name in answers:
                self._fault(f"{name}: answered {stage!r} twice")
            else:
                answers[name] = answer
        for name in sorted(set(requests) - set(answers)):
            self._fault(f"{name}: no answer to {stage!r}")
        return answers

    def _asked(self, stage: str, requests: Mapping[str, bytes]) -> Iterator[tuple[str, tuple[Reply, bytes]]]:
        """The replies that their own senders signed for these requests and that are not refusals, as they come."""
        for name, message in self.exchange.ask(stage, requests, self.timeout):
            if name not in requests:
                self._fault(f"{name}: answered {stage!r} without being asked")
                continue
            reply = self._attempt(name, lambda name=name, message=message: self._verified(name, message))  # type: ignore[misc]
            if reply is None:
                continue
            if (reply.stage, reply.request) != (stage, digest_of(requests[name])):
                self._fault(f"{name}: answered another request than {stage!r}")
            elif reply.refused:
                self._fault(f"{name}: refused {stage!r}: {reply.refused}")
            else:
                yield name, (reply, message)

    def _verified(self, name: str, message: bytes) -> Reply:
        reply = Reply.verified(message, self._parties[name])
        if reply.name != name:
            raise ProtocolFault(f"it calls itself {reply.name!r}")
        return reply

    def _attempt(self, name: str, take: Callable[[], Made]) -> Made | None:
        """What `take` makes of something a node sent; a fault of that node where it cannot."""
        try:
            return take()
        except Exception as fault:  # whatever a node sends costs it its own answer, and nobody else anything
            self._fault(f"{name}: {fault if isinstance(fault, RecordwiseError) else type(fault).__name__}")
            return None

    def _fault(self, words: str) -> None:
        self.faults.append(one_line(words))

    def _accepted(
        self, replies: Mapping[str, tuple[Reply, bytes]], take: Callable[[str, bytes], Any]
    ) -> dict[str, Any]:
        """What `take` makes of each reply; one it refuses is left out."""
        taken = {
            name: self._attempt(name, lambda name=name, reply=reply: take(name, reply.body))  # type: ignore[misc]
            for name, (reply, _) in replies.items()
        }
        accepted = {name: one for name, one in taken.items() if one is not None}
        self._enough(len(accepted))
        return accepted

    def _enough(self, count: int) -> None:
        if count < self.plan.threshold:
            raise ProtocolFault(
                f"a release needs the answers of >= {self.plan.threshold} silos, got {count}; nothing is released; "
                f"{'; '.join(self.faults[-5:])}"
            )

    def _silos(self) -> list[str]:
        return [name for name in self.plan.roster if name in self._accepted_by and name not in self.culprits]
