"""A silo: answers for its own records, on its own authority, and pays from its own ledger."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from recordwise.durable import make_folder, sweep, write_whole
from recordwise.errors import BudgetExceeded, ChangedInput, InvalidInput, ProtocolFault
from recordwise.federation import encoder_bytes
from recordwise.federation.forms import frame, text, unframe
from recordwise.federation.identity import seal_to
from recordwise.federation.journal import Journal
from recordwise.federation.plan import Ask, Plan
from recordwise.federation.policy import Policy
from recordwise.federation.refusals import Failed
from recordwise.federation.replies import log, reply_to
from recordwise.federation.secure_sum import SumClient
from recordwise.formats import content_of, text_of
from recordwise.formats.framing import LARGEST
from recordwise.hashing import digest_of
from recordwise.locks import hold
from recordwise.privacy.accountant import total_epsilon
from recordwise.privacy.guarantee import Trust, rounded_down, rounded_up
from recordwise.privacy.ledger import Ledger
from recordwise.privacy.noise import SystemNoise
from recordwise.protocols.shuffle.sealing import OVERHEAD, Sealer
from recordwise.votes import Votes

if TYPE_CHECKING:
    from recordwise.federation.records import Voters

WAITING, ACCEPTED = "waiting", "accepted"
MOST_ANSWER = LARGEST - (1 << 16)  # bytes: what is around it needs some too
MOST_OFFERS = 1_000  # a coordinator must not fill a silo's disk
Made = TypeVar("Made")


class Silo:
    """One holder of records.

    Guarantees:
      - it answers only under a plan it accepted: of a known version, within its cap, with the trust it grants, at
        least as many silos as it demands, and an encoder, pool and parameters that never change within a run;
      - what leaves is paid for in its own ledger first, once per round and attempt: asked again, it sends the same
        bytes; all attempts together cost at most what the plan says;
      - whether it accepts, refuses or waits depends on requests, rules and the ledger, never on records. Whatever
        fails once records were touched is paid for like an answer, and is told by one fixed sentence;
      - it runs no code that came over the network, and one process at a time answers for it;
      - exact counts leave only under central trust, sealed to the coordinator; they reach no disk unsealed.
    """

    def __init__(
        self,
        name: str,
        identity: bytes,
        folder: Path,
        policy: Policy,
        records: Callable[[], Voters],
    ) -> None:
        self.name, self.policy, self.folder = name, policy, folder
        self._identity, self._records = identity, records
        self._noise = SystemNoise()
        self._hold = hold(folder)
        sweep(folder)
        for part in (folder / "offers", folder / "plans"):
            make_folder(part)
        self.ledger = self._own_ledger()
        self.ledger.open_budget(
            policy.budget,
            epsilon=policy.epsilon,
            delta=policy.delta,
            neighbours=policy.neighbours,
            trust=policy.trust,
        )

    def _own_ledger(self) -> Ledger:
        """The ledger this silo has paid from since it first accepted a plan: no other, and none made anew."""
        place, payer = self.policy.ledger or self.folder / "ledger.sqlite", self.folder / "payer"
        ledger = Ledger.open(place, create=not payer.exists())
        found = ledger.verify(payloads=False).ledger
        if not payer.exists():
            write_whole(payer, found.encode())
        elif text_of(payer) != found:
            raise ChangedInput(
                f"this silo paid from another ledger so far; put that one back, or, if its records were never asked "
                f"about, remove {str(payer)!r}"
            )
        return ledger

    def __repr__(self) -> str:
        return f"Silo({self.name!r})"

    def reply(self, stage: str, request: bytes) -> bytes:
        """A signed answer, or a signed refusal out of a fixed list. Nothing else leaves, whatever goes wrong here."""
        return reply_to(stage, request, self.answer, self.name, self._identity)

    def answer(self, stage: str, request: bytes) -> bytes:
        """The answer to one request, or an error."""
        if stage == "plan":
            return self._plan(request)
        if stage == "vote":
            return self._vote(Ask.from_bytes(request))
        if stage in ("advertise", "share", "mask", "confirm", "reveal"):
            return self._sum(stage, request)
        raise ProtocolFault(f"a stage must be plan, vote or one of a secure sum, got {stage!r}")

    # What will be asked, and what it costs

    def _plan(self, content: bytes) -> bytes:
        plan = Plan.from_bytes(content)
        place = self._place(plan.run)
        if place.exists():
            if content_of(place) != content:
                raise ChangedInput(f"the plan of run {plan.run!r} was accepted with other content: it cannot change")
        else:
            self.policy.check(plan, self.name)
            self._check_cap(plan)
            encoder_bytes.from_bytes(plan.encoder)  # one that cannot be built is refused before anything is spent
            offer = self.folder / "offers" / f"{plan.digest}.txt"
            if not offer.exists():
                if sum(1 for _ in offer.parent.iterdir()) >= MOST_OFFERS:
                    raise ProtocolFault(f"at most {MOST_OFFERS:,} offers are kept: remove those that nobody needs")
                write_whole(offer, (str(plan) + "\n").encode())
            if not self.policy.approves(plan, self.folder):
                return json.dumps({"status": WAITING, "plan": plan.digest}).encode()
            write_whole(place, content)
        return json.dumps({"status": ACCEPTED, "plan": plan.digest}).encode()

    def _check_cap(self, plan: Plan) -> None:
        """The whole run must fit what is left, every attempt included, not only its first round."""
        cap = self.ledger.budget(self.policy.budget)
        try:
            cap.admit(plan.run, plan.protocol.guarantee)
        except InvalidInput as error:
            raise ProtocolFault(str(error)) from error  # it is the plan that is at fault, not this silo's data
        before = [entry.event for entry in self.ledger.history(self.policy.budget)]
        spent = total_epsilon(before, cap.delta)
        after = total_epsilon([*before, *[plan.protocol.event] * plan.charges], cap.delta)
        if after > cap.epsilon:
            raise BudgetExceeded(
                f"run {plan.run!r} needs epsilon {rounded_up(after - spent)} but {rounded_down(cap.epsilon - spent)} "
                f"of {rounded_down(cap.epsilon)} is left under this silo's cap"
            )

    def _accepted(self, ask: Ask) -> Plan:
        place = self._place(ask.run)
        if not place.exists():
            raise ProtocolFault(f"run {ask.run!r} must be planned and accepted before it asks anything, it is not")
        plan = Plan.from_bytes(content_of(place))
        if plan.digest != ask.plan:
            raise ChangedInput(f"run {ask.run!r} must ask under the plan that was accepted, it names another")
        if not 1 <= ask.round <= plan.rounds:
            raise ProtocolFault(f"a round must lie in [1, {plan.rounds}] as planned, got {ask.round}")
        if not 1 <= ask.attempt <= plan.attempts:
            raise ProtocolFault(f"an attempt must lie in [1, {plan.attempts}] as approved, got {ask.attempt}")
        planned = (plan.protocol.ballot.num_queries, plan.dim)
        if ask.queries.shape != planned:
            raise ProtocolFault(f"queries must be the {planned} planned, got {ask.queries.shape}")
        return plan

    def _place(self, run: str) -> Path:
        return self.folder / "plans" / digest_of(run.encode())[:32]

    # Central, local and shuffle trust: one answer

    def _vote(self, ask: Ask) -> bytes:
        plan = self._accepted(ask)
        if plan.trust is Trust.DISTRIBUTED:
            raise ProtocolFault("votes under distributed trust must be asked for by a secure sum, this asks plainly")
        return self._paid(plan, ask, lambda: _from_records(lambda: self._protected(plan, ask)))

    def _protected(self, plan: Plan, ask: Ask) -> bytes:
        votes = self._votes(plan, ask)
        size = len(votes) * (plan.protocol.message_size + (OVERHEAD if plan.trust is Trust.SHUFFLE else 0))
        if size > MOST_ANSWER:  # before it is made: it would fill the memory, and fit no frame
            raise InvalidInput(f"an answer must have at most {MOST_ANSWER:,} bytes, these records make {size:,}")
        message = plan.protocol.client(votes, self._noise)
        if plan.trust is Trust.SHUFFLE:
            return self._onion(plan, ask, message)
        content = plan.protocol.to_wire(message)
        if plan.trust is Trust.CENTRAL:
            return seal_to(plan.coordinator_key, content, *purpose("counts", plan, ask, self.name))
        return content

    def _onion(self, plan: Plan, ask: Ask, message: Any) -> bytes:
        """Each message sealed to the server, all of them to the shuffler: who passes them on can read neither."""
        assert plan.shuffler is not None
        protocol: Any = plan.protocol  # of shuffle trust, so its messages are one per record
        sealer = Sealer(public_key=plan.server_key, message_size=protocol.message_size)
        inner = b"".join(sealer.seal(protocol.to_bytes(message)))
        return seal_to(plan.shuffler[2], inner, *purpose("onion", plan, ask, self.name))

    def _votes(self, plan: Plan, ask: Ask) -> Votes:
        return self._records().votes(plan, ask)

    def _paid(self, plan: Plan, ask: Ask, produce: Callable[[], bytes]) -> bytes:
        """What `produce` makes, charged; or what it made when the same question was asked before."""

        def kept() -> bytes:
            try:
                return frame({"asked": ask.asked, "failed": False}, produce())
            except Failed:
                return frame({"asked": ask.asked, "failed": True})

        held = self.ledger.release(
            self.policy.budget,
            ask.key,
            plan.protocol.event,
            plan.protocol.guarantee,
            kept,
            note=f"plan {plan.digest[:16]}",
        )
        header, body = unframe(held)
        if header["asked"] != ask.asked:
            raise ChangedInput(f"{ask.key!r} was asked with other queries before: it cannot change")
        if header["failed"]:
            raise Failed
        return body

    # Distributed trust: a secure sum

    def _asked_once(self, ask: Ask) -> None:
        """A sum has one question from its first stage on: each other one would leave a journal on this disk."""
        place = self.folder / "asked" / digest_of(ask.key.encode())[:32]
        if not place.exists():
            make_folder(place.parent)
            write_whole(place, ask.asked.encode())
        elif text_of(place) != ask.asked:
            raise ChangedInput(f"{ask.key!r} was asked with other queries before: it cannot change")

    def _sum(self, stage: str, request: bytes) -> bytes:
        header, body = unframe(request)
        if stage == "advertise":
            ask = Ask.from_bytes(request)
            plan = self._accepted(ask)
            self._asked_once(ask)
            session = plan.session(ask)
            journal = Journal.open(self.folder / "sums", session.digest, about=request)
        else:
            journal = Journal.find(self.folder / "sums", text(header, "session"))
            ask = Ask.from_bytes(journal.about)
            plan = self._accepted(ask)
            session = plan.session(ask)

        def compute(client: SumClient) -> bytes:
            match stage:
                case "advertise":
                    return client.advertise()
                case "share":
                    return client.share(body)
                case "mask":
                    if unreadable := client.unreadable(body):
                        return client.complain(unreadable)
                    share = _from_records(lambda: plan.protocol.client(self._votes(plan, ask), self._noise))
                    return client.mask(body, share.residues.ravel(), private=share.private)
                case "confirm":
                    return client.confirm(body)
            return client.reveal(body)

        def once() -> bytes:
            return journal.once(stage, request, session, self.name, self._identity, compute)

        return self._paid(plan, ask, once) if stage == "mask" else once()


def purpose(what: str, plan: Plan, ask: Ask, name: str) -> tuple[bytes, ...]:
    """What a sealed message is for: it opens for nothing else."""
    return what.encode(), plan.digest.encode(), ask.key.encode(), ask.asked.encode(), name.encode()


def _from_records(make: Callable[[], Made]) -> Made:
    """What records make; or that they could not, and nothing else about it."""
    try:
        return make()
    except Exception as error:
        log.exception("an answer could not be made; it is charged, and the coordinator is not told why")
        raise Failed from error
