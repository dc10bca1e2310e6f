"""The coordinator's side of a round: publish, ask, check what comes back, and release through the protocol."""

from __future__ import annotations

import io
import json
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from recordwise.errors import ProtocolFault
from recordwise.federation.exchange import Exchange
from recordwise.federation.identity import frame, open_sealed, unframe
from recordwise.federation.plan import Ask, Plan
from recordwise.federation.replies import Reply
from recordwise.federation.secure_sum import SumServer
from recordwise.federation.shuffling import packed
from recordwise.federation.silo import ACCEPTED, WAITING, purpose
from recordwise.hashing import digest_of
from recordwise.privacy.noise import Noise
from recordwise.protocols.central import ExactCounts
from recordwise.protocols.distributed import DistributedLaplace, ModularSum
from recordwise.protocols.local import Inbox, LocalMechanism
from recordwise.protocols.release import Release
from recordwise.protocols.shuffle import Opener, ShuffleSingle
from recordwise.votes import Ballot


@dataclass(kw_only=True)
class Gathering:
    """A plan in the hands of the coordinator.

    Guarantees:
      - a reply counts only if a silo on the roster signed it for this very request; the first one of a silo counts;
      - counts that no records could have cast are refused;
      - with fewer than `threshold` silos nothing is released.

    Attributes:
      counts_key: Opens exact counts (central trust).
      server_key: Opens shuffled messages (shuffle trust).
      timeout: Seconds to wait for replies; who is late is left out.
      patience: Seconds to wait for silos to accept the plan.
      faults: Who was left out of what, and why.
    """

    plan: Plan
    exchange: Exchange
    counts_key: bytes
    server_key: bytes
    timeout: float = 300.0
    patience: float = 600.0
    faults: list[str] = field(default_factory=list)
    _nodes: dict[str, int] = field(default_factory=dict)

    def publish(self) -> None:
        """Send the plan to every node, until enough silos accepted it, and the shuffler where there is one."""
        content, end = self.plan.to_bytes(), time.monotonic() + self.patience
        while True:
            open_nodes = [node for node in self.exchange.nodes() if node not in self._nodes.values()]
            for node, message in self.exchange.ask("plan", dict.fromkeys(open_nodes, content), self.timeout):
                self._introduced(node, message, content)
            silos = [name for name in self._nodes if name in self.plan.roster]
            ready = self.plan.shuffler is None or self.plan.shuffler[0] in self._nodes
            late = time.monotonic() >= end
            if ready and (len(silos) == len(self.plan.roster) or (late and len(silos) >= self.plan.threshold)):
                return
            if late:
                missing = [name for name in self.plan.roster if name not in silos]
                raise ProtocolFault(
                    f"{self.plan.threshold} silos must accept the plan, {len(silos)} did; missing: "
                    f"{', '.join(missing)}; {'; '.join(self.faults[-len(missing) or -1 :])}"
                )
            time.sleep(min(1.0, self.patience))

    def release(self, ask: Ask, noise: Noise) -> Release:
        """One round: what the silos answer, through the protocol."""
        protocol = self.plan.protocol
        if isinstance(protocol, DistributedLaplace):
            return protocol.release(self._sum(ask, protocol))
        asked = ask.to_bytes()
        replies = self._ask("vote", dict.fromkeys(self._silos(), asked))
        if isinstance(protocol, ShuffleSingle):
            self._enough(len(replies))
            return self._shuffled(protocol, asked, [message for _, message in replies.values()], noise)
        if isinstance(protocol, LocalMechanism):
            inbox = Inbox(protocol)
            self._accepted(replies, lambda name, body: inbox.receive(body))
            return protocol.server(inbox.answers, noise)
        counts = self._accepted(replies, lambda name, body: self._counts(ask, name, body))
        return protocol.server([ExactCounts(one) for one in counts.values()], noise)

    def _counts(self, ask: Ask, name: str, body: bytes) -> NDArray[np.int64]:
        told, content = unframe(open_sealed(self.counts_key, body, *purpose("counts", self.plan, ask, name)))
        return checked_counts(content, told.get("records"), self.plan.protocol.ballot)

    def _sum(self, ask: Ask, protocol: DistributedLaplace) -> ModularSum:
        server = SumServer(self.plan.session(ask))
        session = server.session.digest.hex()

        def stage(name: str, bodies: Mapping[str, bytes]) -> dict[str, bytes]:
            requests = {silo: frame(ask.header(session=session), body) for silo, body in bodies.items()}
            return {silo: reply.body for silo, (reply, _) in self._ask(name, requests).items()}

        first = dict.fromkeys(self._silos(), ask.to_bytes())
        answers = {silo: reply.body for silo, (reply, _) in self._ask("advertise", first).items()}
        keys = server.advertised(answers)
        answers = stage("share", dict.fromkeys(json.loads(keys), keys))
        answers = stage("mask", server.shared(answers))
        survivors = server.masked(answers)
        answers = stage("confirm", dict.fromkeys(server.survivors, survivors))
        confirmed = server.confirmed(answers)
        answers = stage("reveal", dict.fromkeys(server.survivors, confirmed))
        residues, participants, private = server.revealed(answers)
        self.faults += [f"{name}: {fault}" for name, fault in server.faults.items()]
        shape = (protocol.ballot.num_queries, protocol.ballot.num_classes)
        return ModularSum(residues.reshape(shape), participants, private)

    def _shuffled(self, protocol: ShuffleSingle, asked: bytes, replies: list[bytes], noise: Noise) -> Release:
        assert self.plan.shuffler is not None
        name, identity, _ = self.plan.shuffler
        request = packed(asked, replies)
        for node, message in self.exchange.ask("shuffle", {self._nodes[name]: request}, self.timeout):
            reply = self._verified(node, message, {name: identity}, "shuffle", request)
            if reply is None:
                continue
            _, content = unframe(reply.body)
            opener = Opener(self.server_key, message_size=protocol.local.message_size)
            size = opener.sealer.sealed_size
            sealed = [content[start : start + size] for start in range(0, len(content), size)]
            return protocol.server([protocol.from_bytes(opener.open(sealed))], noise)
        raise ProtocolFault(f"the shuffler {name!r} must hand on a batch, it did not: {'; '.join(self.faults[-3:])}")

    def _introduced(self, node: int, message: bytes, content: bytes) -> None:
        known = dict(self.plan.roster)
        if self.plan.shuffler is not None:
            known[self.plan.shuffler[0]] = self.plan.shuffler[1]
        reply = self._verified(node, message, known, "plan", content)
        if reply is None:
            return
        if reply.name in self._nodes:
            self.faults.append(f"node {node}: {reply.name!r} is at node {self._nodes[reply.name]} already")
            return
        told, _ = unframe(reply.body)
        if told.get("status") == ACCEPTED and told.get("plan") == self.plan.digest:
            self._nodes[reply.name] = node
        else:
            waiting = told.get("status") == WAITING
            self.faults.append(f"{reply.name}: {'waits for a person to approve the plan' if waiting else 'unclear'}")

    def _ask(self, stage: str, requests: Mapping[str, bytes]) -> dict[str, tuple[Reply, bytes]]:
        """Each silo's first valid reply, with the signed message it came in."""
        by_node = {self._nodes[name]: request for name, request in requests.items()}
        names = {node: name for name, node in self._nodes.items()}
        answers: dict[str, tuple[Reply, bytes]] = {}
        for node, message in self.exchange.ask(stage, by_node, self.timeout):
            name = names.get(node)
            if name is None or node not in by_node:
                self.faults.append(f"node {node}: answered {stage!r} without being asked")
                continue
            if name in answers:
                self.faults.append(f"{name}: answered {stage!r} twice")
                continue
            reply = self._verified(node, message, {name: self.plan.roster[name]}, stage, by_node[node])
            if reply is not None:
                answers[name] = (reply, message)
        for name in sorted(set(requests) - set(answers)):
            self.faults.append(f"{name}: no answer to {stage!r}")
        return answers

    def _verified(
        self, node: int, message: bytes, known: Mapping[str, bytes], stage: str, request: bytes
    ) -> Reply | None:
        """A reply that some known party signed for this request and that is not a refusal."""
        try:
            name = Reply.claimed(message).name
            if name not in known:
                raise ProtocolFault(f"{name!r} is not asked here")
            reply = Reply.verified(message, known[name])
            if (reply.stage, reply.request) != (stage, digest_of(request)):
                raise ProtocolFault(f"{name!r} answered another request")
            if reply.refused:
                raise ProtocolFault(f"{name!r} refused: {reply.refused}")
        except ProtocolFault as fault:
            self.faults.append(f"node {node}: {stage!r}: {fault}")
            return None
        return reply

    def _accepted(
        self, replies: Mapping[str, tuple[Reply, bytes]], take: Callable[[str, bytes], Any]
    ) -> dict[str, Any]:
        """What `take` makes of each reply; one it refuses is left out."""
        accepted = {}
        for name, (reply, _) in replies.items():
            try:
                accepted[name] = take(name, reply.body)
            except ProtocolFault as fault:
                self.faults.append(f"{name}: {fault}")
        self._enough(len(accepted))
        return accepted

    def _enough(self, count: int) -> None:
        if count < self.plan.threshold:
            raise ProtocolFault(
                f"a release needs the answers of >= {self.plan.threshold} silos, got {count}; nothing is released; "
                f"{'; '.join(self.faults[-5:])}"
            )

    def _silos(self) -> list[str]:
        return [name for name in self.plan.roster if name in self._nodes]


def checked_counts(content: bytes, records: object, ballot: Ballot) -> NDArray[np.int64]:
    """Counts that so many records could have cast, or a fault."""
    try:
        counts = np.load(io.BytesIO(content), allow_pickle=False)
    except (ValueError, OSError, EOFError) as error:
        raise ProtocolFault("counts must be an array, they are not") from error
    shape = (ballot.num_queries, ballot.num_classes)
    if counts.shape != shape or counts.dtype != np.int64:
        raise ProtocolFault(f"counts must be int64 of shape {shape}, got {counts.dtype} {counts.shape}")
    if type(records) is not int or records < 1:
        raise ProtocolFault(f"records must be a whole number >= 1, got {records!r}")
    if counts.min() < 0 or counts.max() > records:
        raise ProtocolFault(f"a count must lie in [0, {records}], the number of records, one does not")
    if int(counts.sum()) > ballot.cells_per_record * records:
        raise ProtocolFault(f"counts must not exceed {ballot.cells_per_record} per record, they do")
    return np.asarray(counts)
