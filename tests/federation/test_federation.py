"""Silos and a coordinator in one process: every trust model, every refusal, every fault."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from federation.world import CLASSES, LOUD, Tampered, World
from recordwise.data import Schema
from recordwise.errors import BudgetExceeded, ChangedInput, InvalidInput, LedgerFault, ProtocolFault
from recordwise.federation import silo as silo_module
from recordwise.federation.exchange import InProcess, Node
from recordwise.federation.federation import Federation
from recordwise.federation.forms import frame, unframe
from recordwise.federation.identity import identity_key, open_sealed, seal_to
from recordwise.federation.plan import Ask, Plan
from recordwise.federation.policy import Policy, approve
from recordwise.federation.records import SiloRecords
from recordwise.federation.refusals import Failed, Refusal
from recordwise.federation.replies import Reply
from recordwise.federation.settings import FederationSection, PolicySection
from recordwise.federation.shuffling import ShufflerNode, packed
from recordwise.federation.silo import Silo, purpose
from recordwise.nearest import Metric
from recordwise.privacy.guarantee import Trust, rounded_up
from recordwise.privacy.ledger import Ledger
from recordwise.protocols.central import ExactCounts
from recordwise.protocols.distributed import DistributedLaplace
from recordwise.protocols.release import Tally
from recordwise.protocols.shuffle import sealing
from recordwise.protocols.terms import Terms
from recordwise.votes import NOBODY, Ballot

FALSE_FAILURE = 1e-9
SUM_STAGES = ("advertise", "share", "mask", "confirm", "reveal")
PLAIN = (Trust.CENTRAL, Trust.LOCAL)


def world(tmp_path: Path, trust: Trust, **changes: Any) -> World:
    """Noise so small that tallies are exact; under shuffle trust, where that cannot be, a usual one."""
    return World(tmp_path, trust=trust, **{"epsilon": 16.0 if trust is Trust.SHUFFLE else LOUD, **changes})


def entries(place: Path, budget: str) -> list[str]:
    return [entry.key for entry in Ledger.open(place, read_only=True).history(budget)]


def assert_is_the_pooled_tally(release: Any, pooled: np.ndarray) -> None:
    assert isinstance(release, Tally)
    error = np.abs(release.estimate - pooled)
    if release.guarantee.trust is Trust.SHUFFLE:
        assert error.size * release.law.two_sided_tail(float(error.max())) > FALSE_FAILURE
    else:
        assert error.max() < 1e-6


@pytest.mark.parametrize("by_class", [False, True])
@pytest.mark.parametrize("trust", list(Trust))
def test_two_rounds_release_the_tally_of_the_pooled_votes(tmp_path: Path, trust: Trust, by_class: bool) -> None:
    one = world(tmp_path, trust, by_class=by_class, threshold=3)
    fitted = one.fit()
    assert len(fitted.rounds_) == 2
    for number in (1, 2):
        assert_is_the_pooled_tally(fitted.rounds_[number - 1].release, one.pooled(fitted, number))
    assert fitted.guarantee_.private
    assert fitted.guarantee_.trust is trust
    if trust is not Trust.SHUFFLE:
        assert (fitted.predict(one.pool) == one.pool_labels).mean() > 0.95


@pytest.mark.parametrize("trust", [Trust.CENTRAL, Trust.DISTRIBUTED, Trust.LOCAL])
def test_prices_of_balanced_queries_reach_the_silos(tmp_path: Path, trust: Trust) -> None:
    one = world(tmp_path, trust, rounds=1, settings={"queries": {"name": "kmeans", "balanced": True}})
    # More of one class than of the others: its queries get dearer.
    one.pool = np.concatenate([one.pool, one.pool[one.pool_labels == CLASSES[0]] + 0.5, one.pool[::9] - 0.2])
    fitted = one.fit()
    assert fitted.rounds_[0].queries.prices is not None and fitted.rounds_[0].queries.prices.any()
    assert_is_the_pooled_tally(fitted.rounds_[0].release, one.pooled(fitted, 1))


def test_prices_belong_to_the_question() -> None:
    queries = np.eye(3, dtype=np.float32)
    plain = Ask(plan="p", run="run", round=1, queries=queries)
    priced = replace(plain, prices=np.array([0.0, 0.1, 1e-17]))
    again = Ask.from_bytes(priced.to_bytes())
    assert again.prices is not None and priced.prices is not None
    assert (again.prices == priced.prices).all() and again.asked == priced.asked != plain.asked
    assert Ask.from_bytes(plain.to_bytes()).prices is None
    for bad in ([0.0], ["0", 0, 0], None):
        with pytest.raises(ProtocolFault, match="a question must be complete and valid"):
            Ask.from_bytes(frame({**plain.header(), "prices": bad}, plain.body))


def test_the_most_records_there_may_be_are_not_said_to_be_missing(tmp_path: Path) -> None:
    assert world(tmp_path / "most", Trust.CENTRAL, rounds=1).fit_records((100, 5000)).verdict_.notices == ()
    exact = world(tmp_path / "exact", Trust.CENTRAL, rounds=1).fit_records((5000, 5000))
    assert "of 5,000 records voted" in exact.verdict_.notices[0]


def test_how_records_are_split_over_silos_makes_no_difference(tmp_path: Path) -> None:
    mixed, sorted_ = (world(tmp_path / str(split), Trust.CENTRAL, by_class=split).fit() for split in (False, True))
    for one, other in zip(mixed.rounds_, sorted_.rounds_, strict=True):
        assert np.array_equal(one.release.estimate, other.release.estimate)


@pytest.mark.parametrize("trust", list(Trust))
def test_both_sides_pay_once_per_round(tmp_path: Path, trust: Trust) -> None:
    one = world(tmp_path, trust)
    fitted = one.fit()
    run = json.loads((tmp_path / "run" / "run.json").read_text())["run"]
    keys = [f"{run}/round-1", f"{run}/round-2"]
    assert entries(tmp_path / "ledger.sqlite", "all") == keys
    for name in one.names:
        assert entries(tmp_path / name / "ledger.sqlite", "default") == keys
        assert one.spent(name) <= fitted.guarantee_.epsilon


class Restarting(Tampered):
    """Every node is made anew, from its folder, before every request."""

    def __init__(self, one: World) -> None:
        self.world = one
        super().__init__(one.nodes())

    def ask(self, stage: str, requests: Mapping[str, bytes], timeout: float) -> Iterable[tuple[str, bytes]]:
        self._nodes = self.world.nodes()
        return list(super().ask(stage, requests, timeout))


@pytest.mark.parametrize("trust", list(Trust))
def test_silos_that_restart_before_every_request_change_nothing(tmp_path: Path, trust: Trust) -> None:
    one = world(tmp_path, trust, threshold=3)
    fitted = one.fit(Restarting(one))
    assert_is_the_pooled_tally(fitted.rounds_[1].release, one.pooled(fitted, 2))


class Killed(BaseException):
    """The end of a process."""


class KilledAfter(Tampered):
    """The coordinator dies when all replies of a stage of round 2 are in."""

    def __init__(self, nodes: Mapping[str, Node], stage: str) -> None:
        super().__init__(nodes)
        self.stage, self.times = stage, dict[str, int]()

    def ask(self, stage: str, requests: Mapping[str, bytes], timeout: float) -> Iterable[tuple[str, bytes]]:
        replies = list(super().ask(stage, requests, timeout))
        self.times[stage] = self.times.get(stage, 0) + 1
        if stage == self.stage and self.times[stage] == 2:
            raise Killed
        return replies


@pytest.mark.parametrize(
    ("trust", "stage"),
    [
        (Trust.CENTRAL, "vote"),
        (Trust.LOCAL, "vote"),
        (Trust.SHUFFLE, "vote"),
        (Trust.SHUFFLE, "shuffle"),
        *((Trust.DISTRIBUTED, stage) for stage in SUM_STAGES),
    ],
)
def test_a_coordinator_killed_between_gathering_and_releasing_goes_on(tmp_path: Path, trust: Trust, stage: str) -> None:
    one = world(tmp_path, trust, threshold=3)
    with pytest.raises(Killed):
        one.fit(KilledAfter(one.nodes(), stage))
    (first,) = entries(tmp_path / "ledger.sqlite", "all")
    before = Ledger.open(tmp_path / "ledger.sqlite").payload("all", first)
    fitted = one.fit()
    assert_is_the_pooled_tally(fitted.rounds_[1].release, one.pooled(fitted, 2))
    assert len(entries(tmp_path / "ledger.sqlite", "all")) == 2
    assert Ledger.open(tmp_path / "ledger.sqlite").payload("all", first) == before
    for name in one.names:
        assert len(entries(tmp_path / name / "ledger.sqlite", "default")) == 2  # no second charge for one release


def losing(node: str, stage: str) -> Any:
    return lambda at, who, reply: [] if (at, who) == (stage, node) else [reply]


@pytest.mark.parametrize("trust", PLAIN)
def test_a_silo_killed_before_answering_is_left_out(tmp_path: Path, trust: Trust) -> None:
    one = world(tmp_path, trust)
    fitted = one.fit(Tampered(one.nodes(), losing("south", "vote")))
    assert_is_the_pooled_tally(fitted.rounds_[0].release, one.pooled(fitted, 1, ["north", "west"]))
    assert "south: no answer to 'vote'" in fitted.faults_


@pytest.mark.parametrize("stage", SUM_STAGES)
def test_a_silo_killed_at_any_stage_of_a_secure_sum_is_left_out_or_counted_whole(tmp_path: Path, stage: str) -> None:
    one = world(tmp_path, Trust.DISTRIBUTED, rounds=1)
    fitted = one.fit(Tampered(one.nodes(), losing("south", stage)))
    counted = one.names if stage in ("confirm", "reveal") else ["north", "west"]
    assert_is_the_pooled_tally(fitted.rounds_[0].release, one.pooled(fitted, 1, counted))


@pytest.mark.parametrize("trust", list(Trust))
def test_fewer_survivors_than_the_noise_needs_release_nothing(tmp_path: Path, trust: Trust) -> None:
    one = world(tmp_path, trust, rounds=1)
    stage = "mask" if trust is Trust.DISTRIBUTED else "vote"
    with pytest.raises(ProtocolFault, match=r"nothing is re(leased|vealed)"):
        one.fit(
            Tampered(one.nodes(), lambda at, who, reply: [] if at == stage and who in ("north", "south") else [reply])
        )
    assert entries(tmp_path / "ledger.sqlite", "all") == []


def losing_all_masks(at: str, who: str, reply: bytes) -> list[bytes]:
    return [] if at == "mask" and who in ("north", "south") else [reply]


def test_a_sum_that_failed_is_tried_again_as_another_one_that_silos_charge_anew(tmp_path: Path) -> None:
    one = world(tmp_path, Trust.DISTRIBUTED, rounds=1, attempts=2)
    with pytest.raises(ProtocolFault):
        one.fit(Tampered(one.nodes(), losing_all_masks))
    fitted = one.fit()
    assert_is_the_pooled_tally(fitted.rounds_[0].release, one.pooled(fitted, 1))
    keys = entries(tmp_path / "north" / "ledger.sqlite", "default")
    assert [key.split("/", 1)[1] for key in keys] == ["round-1", "round-1/attempt-2"]
    assert len(entries(tmp_path / "ledger.sqlite", "all")) == 1


@pytest.mark.parametrize("attempts", [1, 2])
def test_no_coordinator_can_charge_a_silo_more_than_was_approved(tmp_path: Path, attempts: int) -> None:
    """Ours gives up, and one that goes on asking is refused: what was approved is the most it can ever cost."""
    one = world(tmp_path, Trust.DISTRIBUTED, rounds=1, attempts=attempts, policy={"always": False})
    with pytest.raises(ProtocolFault, match="waits for a person"):
        one.fit()
    for name in one.names:
        (offer,) = (tmp_path / name / "offers").glob("*.txt")
        bound = f"cost of the whole run, at most: epsilon {LOUD * attempts:g}, delta 0"
        assert bound in approve(tmp_path / name, offer.stem)
    for _ in range(attempts):
        with pytest.raises(ProtocolFault, match="nothing is revealed"):
            one.fit(Tampered(one.nodes(), losing_all_masks))
    with pytest.raises(ProtocolFault, match="all that silos approved"):
        one.fit()
    silo = one.silo("north")
    plan = Plan.from_bytes(next((tmp_path / "north" / "plans").iterdir()).read_bytes())
    assert plan.guarantee.epsilon == silo.ledger.spent("default") == LOUD * attempts
    for attempt in (attempts + 1, 10**6):
        with pytest.raises(ProtocolFault, match="as approved"):
            silo.answer("advertise", replace(ask_of(plan), attempt=attempt).to_bytes())
    assert silo.ledger.spent("default") == LOUD * attempts


@pytest.mark.parametrize("trust", list(Trust))
def test_a_silo_that_answers_twice_is_counted_once(tmp_path: Path, trust: Trust) -> None:
    one = world(tmp_path, trust, threshold=3)
    fitted = one.fit(Tampered(one.nodes(), lambda at, who, reply: [reply, reply] if who == "north" else [reply]))
    assert_is_the_pooled_tally(fitted.rounds_[1].release, one.pooled(fitted, 2))
    assert any("twice" in fault for fault in fitted.faults_)


@pytest.mark.parametrize("trust", PLAIN)
@pytest.mark.parametrize("harm", ["altered", "replayed", "another's", "unsigned", "rubbish"])
def test_an_answer_that_is_not_the_silos_own_to_this_question_is_refused(
    tmp_path: Path, trust: Trust, harm: str
) -> None:
    one = world(tmp_path, trust)
    seen: dict[str, bytes] = {}

    def tamper(at: str, who: str, reply: bytes) -> list[bytes]:
        if at != "vote":
            return [reply]
        first = seen.setdefault(who, reply)
        if who != "south":
            return [reply]
        return [
            {
                "altered": reply[:-1] + bytes([reply[-1] ^ 1]),
                "replayed": first if first != reply else b"",  # round 1's answer in round 2
                "another's": seen["north"],
                "unsigned": Reply(name="south", stage="vote", request="", body=b"").signed(identity_key()),
                "rubbish": b"\x00\xff",
            }[harm]
        ]

    fitted = one.fit(Tampered(one.nodes(), tamper))
    assert_is_the_pooled_tally(fitted.rounds_[1].release, one.pooled(fitted, 2, ["north", "west"]))


class Inflating(Silo):
    """A silo that sends counts that are none."""

    harm = "too many"

    def _protected(self, plan: Plan, ask: Ask) -> bytes:
        counts = self._votes(plan, ask).counts()
        if self.harm == "too many":
            counts[0] += 2**50
        elif self.harm == "negative":
            counts[0, 0] = -1
        elif self.harm == "shape":
            counts = counts[:-1]
        content = b"rubbish" if self.harm == "rubbish" else plan.protocol.to_wire(ExactCounts(counts))
        return seal_to(plan.coordinator_key, content, *purpose("counts", plan, ask, self.name))


@pytest.mark.parametrize("harm", ["too many", "negative", "shape", "rubbish"])
def test_counts_that_no_records_could_have_cast_are_refused(tmp_path: Path, harm: str) -> None:
    one = world(tmp_path, Trust.CENTRAL, rounds=1)
    nodes = one.nodes()
    honest = nodes["south"]
    assert isinstance(honest, Silo)
    nodes["south"] = Inflating(
        "south", one.identities["south"], tmp_path / "south", honest.policy, lambda: one.records["south"]
    )
    nodes["south"].harm = harm  # type: ignore[attr-defined]
    fitted = one.fit(Tampered(nodes))
    assert_is_the_pooled_tally(fitted.rounds_[0].release, one.pooled(fitted, 1, ["north", "west"]))


def test_an_unknown_silo_is_not_asked(tmp_path: Path) -> None:
    one = world(tmp_path, Trust.CENTRAL, rounds=1)
    nodes = one.nodes()
    known = nodes["north"]
    assert isinstance(known, Silo)
    # One that is on nobody's list, and one that takes a known silo's name.
    nodes["east"] = Silo("east", identity_key(), tmp_path / "east", known.policy, lambda: one.records["north"])
    nodes["north"] = Silo("north", identity_key(), tmp_path / "false", known.policy, lambda: one.records["south"])
    exchange = Tampered(nodes)
    fitted = one.fit(exchange)
    assert_is_the_pooled_tally(fitted.rounds_[0].release, one.pooled(fitted, 1, ["south", "west"]))
    assert {node for stage, node, _ in exchange.requests if stage == "vote"} == {"south", "west"}


# What a silo refuses on its own authority


def planned(tmp_path: Path, trust: Trust = Trust.CENTRAL, **changes: Any) -> tuple[World, Plan]:
    """A world, and the plan that its coordinator publishes; it is killed before any silo hears of it."""
    one = world(tmp_path, trust, rounds=1, **changes)

    class Overheard(InProcess):
        def ask(self, stage: str, requests: Mapping[str, bytes], timeout: float) -> Iterable[tuple[str, bytes]]:
            raise Killed(*requests.values())

    with pytest.raises(Killed) as killed:
        one.fit(Overheard(one.nodes()))
    return one, Plan.from_bytes(killed.value.args[0])


def fresh_silo(one: World, tmp_path: Path, **policy: Any) -> Silo:
    rules = one.rules(**policy)
    return Silo("north", one.identities["north"], tmp_path / "fresh", rules, lambda: one.records["north"])


def ask_of(plan: Plan, seed: int = 0, number: int = 1) -> Ask:
    queries = np.random.default_rng(seed).normal(size=(plan.protocol.ballot.num_queries, 4)).astype(np.float32)
    return Ask(plan=plan.digest, run=plan.run, round=number, queries=queries)


def test_a_plan_over_the_cap_is_refused_with_nothing_spent(tmp_path: Path) -> None:
    one, plan = planned(tmp_path)
    silo = fresh_silo(one, tmp_path, epsilon=Fraction(1))
    with pytest.raises(BudgetExceeded, match="is left under this silo's cap"):
        silo.answer("plan", plan.to_bytes())
    with pytest.raises(ProtocolFault, match="must be planned and accepted"):
        silo.answer("vote", ask_of(plan).to_bytes())
    assert silo.ledger.spent("default") == 0


def test_a_run_must_fit_the_cap_as_a_whole(tmp_path: Path) -> None:
    one, plan = planned(tmp_path)
    cost = plan.protocol.guarantee.epsilon
    silo = fresh_silo(one, tmp_path, epsilon=Fraction(3, 2) * cost, delta=Fraction(0))
    with pytest.raises(BudgetExceeded):
        silo.answer("plan", replace(plan, rounds=2).to_bytes())
    silo.answer("plan", plan.to_bytes())


def test_a_changed_plan_is_refused(tmp_path: Path) -> None:
    one, plan = planned(tmp_path)
    silo = fresh_silo(one, tmp_path)
    silo.answer("plan", plan.to_bytes())
    for changed in (replace(plan, pool="another"), replace(plan, rounds=2), replace(plan, threshold=3)):
        with pytest.raises(ChangedInput, match="it cannot change"):
            silo.answer("plan", changed.to_bytes())
        with pytest.raises(ChangedInput, match="names another"):
            silo.answer("vote", ask_of(changed).to_bytes())
    assert silo.ledger.spent("default") == 0


def test_another_pool_than_agreed_is_refused(tmp_path: Path) -> None:
    one, plan = planned(tmp_path)
    fresh_silo(one, tmp_path, pool=plan.pool).answer("plan", plan.to_bytes())
    with pytest.raises(ProtocolFault, match="pool must be"):
        fresh_silo(one, tmp_path, pool="f" * 64).answer("plan", replace(plan, run="other").to_bytes())


def test_other_queries_in_a_round_that_was_answered_are_refused(tmp_path: Path) -> None:
    one, plan = planned(tmp_path)
    silo = fresh_silo(one, tmp_path)
    silo.answer("plan", plan.to_bytes())
    first = silo.answer("vote", ask_of(plan).to_bytes())
    assert silo.answer("vote", ask_of(plan).to_bytes()) == first
    with pytest.raises(ChangedInput, match="other queries"):
        silo.answer("vote", ask_of(plan, seed=1).to_bytes())
    with pytest.raises(ProtocolFault, match="a round must lie in"):
        silo.answer("vote", ask_of(plan, number=2).to_bytes())
    assert len(silo.ledger.history("default")) == 1


def test_too_few_participants_are_refused(tmp_path: Path) -> None:
    one, plan = planned(tmp_path)
    with pytest.raises(ProtocolFault, match="at least 3 silos must be promised"):
        fresh_silo(one, tmp_path, min_parties=3).answer("plan", plan.to_bytes())


@pytest.mark.parametrize("trust", [Trust.DISTRIBUTED, Trust.SHUFFLE])
def test_strangers_do_not_count_where_silos_protect_each_other(tmp_path: Path, trust: Trust) -> None:
    one, plan = planned(tmp_path, trust)
    with pytest.raises(ProtocolFault, match="known to this one must take part"):
        fresh_silo(one, tmp_path, peers={"south": one.roster["south"]}).answer("plan", plan.to_bytes())
    acquainted = fresh_silo(one, tmp_path, peers={"south": one.roster["south"]}, min_parties=1)
    with pytest.raises(ProtocolFault, match="must count as colluding"):
        acquainted.answer("plan", plan.to_bytes())
    with pytest.raises(ProtocolFault, match="must have the identity this silo knows"):
        fresh_silo(one, tmp_path, peers={**one.roster, "south": b"x" * 32}).answer("plan", plan.to_bytes())
    with pytest.raises(ProtocolFault, match="1 colluding silos must be tolerated"):
        fresh_silo(one, tmp_path, colluding=1).answer("plan", plan.to_bytes())


def test_one_insider_is_counted_unless_somebody_says_otherwise() -> None:
    roster = {name: name.encode() * 32 for name in "abcd"}
    assert Federation(roster=roster, threshold=3, records=(1, 2)).colluding == 1
    assert Policy(epsilon=Fraction(1)).colluding == 1
    assert FederationSection(silos={}, threshold=3, records=(1, 2)).colluding == 1
    assert PolicySection(epsilon=1.0).colluding == 1
    pair, terms = (
        Federation(roster=roster, threshold=2, records=(1, 2)),
        Terms(epsilon=Fraction(1), trust=Trust.DISTRIBUTED),
    )
    with pytest.raises(InvalidInput, match="say colluding = 0"):
        terms.protocols_for_silos(Ballot(num_queries=2, num_classes=2), pair.silos)


def test_a_plan_does_not_promise_a_silo_s_reader_what_holds_for_one_sender(tmp_path: Path) -> None:
    _, plan = planned(tmp_path, Trust.SHUFFLE)
    with pytest.raises(InvalidInput, match="left out whole"):
        replace(plan, protocol=replace(plan.protocol, colluding=1))  # type: ignore[call-arg]


def test_terms_that_no_mechanism_serves_between_silos_are_refused_in_one_line() -> None:
    terms = Terms(epsilon=Fraction(1), delta=Fraction(1, 1000), trust="shuffle", neighbours="add-remove")  # type: ignore[arg-type]
    pair = Federation(roster={name: name.encode() * 32 for name in "ab"}, threshold=1, records=(1, 1))
    with pytest.raises(InvalidInput, match="no mechanism of shuffle trust"):
        terms.protocols_for_silos(Ballot(num_queries=3, num_classes=3), pair.silos)


def test_a_person_sees_what_holds_against_insiders(tmp_path: Path) -> None:
    _, plan = planned(tmp_path, Trust.DISTRIBUTED, threshold=3)
    assert isinstance(plan.protocol, DistributedLaplace)
    weaker = plan.protocol.realised_epsilon(2)
    assert weaker > plan.protocol.epsilon
    assert f"takes it away, only a factor of at most e^{rounded_up(weaker)} holds" in str(plan)
    counted = replace(plan, colluding=1, protocol=replace(plan.protocol, survivors=2, colluding=1))
    assert "it holds against a reader who added noise, too" in str(counted)


def test_more_trust_than_granted_is_refused(tmp_path: Path) -> None:
    one, plan = planned(tmp_path, Trust.CENTRAL)
    with pytest.raises(ProtocolFault, match="grants distributed trust"):
        fresh_silo(one, tmp_path, trust=Trust.DISTRIBUTED).answer("plan", plan.to_bytes())


def test_another_shuffler_is_refused(tmp_path: Path) -> None:
    one, plan = planned(tmp_path, Trust.SHUFFLE)
    with pytest.raises(ProtocolFault, match="shuffler must be the one"):
        fresh_silo(one, tmp_path, shuffler=None).answer("plan", plan.to_bytes())


@pytest.mark.parametrize(
    ("change", "rule"),
    [
        ({"version": "recordwise-federation-1"}, "version"),
        ({"protocol": {"protocol": "Free"}}, "must be one of"),
        ({"rounds": 0}, "rounds"),
        ({"roster": {"north": "00"}}, "32 bytes"),
        ({"threshold": 9}, "threshold"),
        ({"rounds": 10**9}, "at most 100 rounds"),
        ({"attempts": 2}, "attempts are for secure sums"),
        ({"dim": 10**9}, "dimensions"),
        ({"dim": 10**5, "protocol": {"ballot": {"num_queries": 10**4, "num_classes": 3}}}, "a question must have"),
        ({"max_distance": 1e400}, "JSON"),
        ({"max_distance": -1}, "max_distance"),
        ({"run": "clear\x1b[2J"}, "can be printed"),
        ({"roster": {"north\u202e": "00" * 32}}, "can be printed"),
        ({"classes": ["oak", "ash", "\x1b[31m"]}, "can be printed"),
        ({"colluding": -1}, "colluding"),
    ],
)
def test_a_plan_of_an_unknown_version_or_form_is_refused(tmp_path: Path, change: dict[str, Any], rule: str) -> None:
    one, plan = planned(tmp_path)
    told, encoder = unframe(plan.to_bytes())
    if "ballot" in change.get("protocol", {}):
        change = {**change, "protocol": {**told["protocol"], **change["protocol"]}}
    with pytest.raises(ProtocolFault, match=rule):
        fresh_silo(one, tmp_path).answer("plan", frame({**told, **change}, encoder))


def test_an_unknown_stage_is_refused_and_so_is_a_plain_question_under_distributed_trust(tmp_path: Path) -> None:
    one, plan = planned(tmp_path, Trust.DISTRIBUTED)
    silo = fresh_silo(one, tmp_path)
    silo.answer("plan", plan.to_bytes())
    with pytest.raises(ProtocolFault, match="stage must be"):
        silo.answer("dump", b"{}\n")
    with pytest.raises(ProtocolFault, match="by a secure sum"):
        silo.answer("vote", ask_of(plan).to_bytes())
    with pytest.raises(ProtocolFault, match="must begin with 'advertise'"):
        silo.answer("mask", frame({"session": "00"}))


SENTENCES = [
    "the request is malformed, comes out of turn, or breaks a rule of this party",
    "the plan does not fit what is left under this silo's cap",
    "something else was asked or accepted under this name before, and it cannot change",
    "this party could not answer; its operator sees why",
]


def test_refusals_are_one_of_a_few_sentences() -> None:
    assert [str(one) for one in Refusal if one] == SENTENCES


@pytest.mark.parametrize("trust", [Trust.CENTRAL, Trust.LOCAL, Trust.SHUFFLE])
def test_records_that_cannot_vote_abstain_and_nobody_else_is_told(
    tmp_path: Path, trust: Trust, caplog: pytest.LogCaptureFixture
) -> None:
    """A class nobody declared, and vectors that are not finite: the other records vote as ever."""
    one, plan = planned(tmp_path, trust)
    records, ask = one.records["north"], ask_of(plan)
    before = records.votes(plan, ask)
    samples, labels = one.held["north"]
    labels[3] = "yew"
    samples[5, 0], samples[7, 1] = np.nan, 1e300
    after = records.votes(plan, ask)
    odd = [3, 5, 7]
    assert (after.cells()[odd] == NOBODY).all()
    others = np.setdiff1d(np.arange(len(before)), odd)
    assert np.array_equal(after.cells()[others], before.cells()[others])
    assert "3 of 40 records abstain" in caplog.text
    silo = fresh_silo(one, tmp_path)
    silo.answer("plan", plan.to_bytes())
    reply = Reply.verified(silo.reply("vote", ask.to_bytes()), one.roster["north"])
    assert not reply.refused
    assert len(silo.ledger.history("default")) == 1


def test_a_silo_without_a_single_record_answers_like_any_other(tmp_path: Path) -> None:
    one, plan = planned(tmp_path)
    silo = fresh_silo(one, tmp_path)
    samples, labels = one.held["north"]
    one.records["north"] = SiloRecords.of(samples[:0], labels[:0])
    silo.answer("plan", plan.to_bytes())
    assert not Reply.verified(silo.reply("vote", ask_of(plan).to_bytes()), one.roster["north"]).refused


@pytest.mark.parametrize("mistake", ["a query without a direction", "another width"])
def test_a_mistake_of_the_coordinator_s_gets_one_answer_from_any_number_of_records(
    tmp_path: Path, mistake: str
) -> None:
    """Otherwise the answer would tell whether a silo has any."""
    one, plan = planned(tmp_path)
    ask = ask_of(plan)
    if mistake == "another width":
        plan = replace(plan, schema=Schema(kind="vectors", shape=(7,)))
    else:
        plan = replace(plan, metric=Metric.COSINE)
        ask = replace(ask, queries=np.zeros_like(ask.queries))
    ask = replace(ask, plan=plan.digest)
    samples, labels = one.held["north"]
    replies = []
    for count in (0, 1, len(labels)):
        few = SiloRecords.of(samples[:count], labels[:count])
        silo = Silo("north", one.identities["north"], tmp_path / str(count), one.rules(), lambda few=few: few)  # type: ignore[misc]
        silo.answer("plan", plan.to_bytes())
        replies.append((silo.reply("vote", ask.to_bytes()), len(silo.ledger.history("default"))))
    assert replies == [replies[0]] * 3


@pytest.mark.parametrize(
    "schema",
    [
        Schema(kind="images", shape=(100_000, 100_000)),
        Schema(kind="table", columns=({"kind": "date", "formats": ["%Y"] * 17},)),  # type: ignore[arg-type]
        Schema(kind="table", columns=({"kind": "category", "categories": range(1_000_001)},)),  # type: ignore[arg-type]
    ],
    ids=["pixels", "formats", "categories"],
)
def test_a_schema_that_would_take_for_ever_is_refused_with_its_plan(tmp_path: Path, schema: Schema) -> None:
    _, plan = planned(tmp_path)
    told, encoder = unframe(plan.to_bytes())
    with pytest.raises(ProtocolFault, match="a plan's samples must have at most"):
        Plan.from_bytes(frame({**told, "schema": schema.as_dict()}, encoder))


def test_a_coordinator_cannot_fill_a_disk_with_sums_that_it_begins(tmp_path: Path) -> None:
    one, plan = planned(tmp_path, Trust.DISTRIBUTED, threshold=3)
    silo = fresh_silo(one, tmp_path)
    silo.answer("plan", plan.to_bytes())
    first = silo.answer("advertise", ask_of(plan).to_bytes())
    for seed in (1, 2):
        with pytest.raises(ChangedInput, match="with other queries before"):
            silo.answer("advertise", ask_of(plan, seed).to_bytes())
    assert silo.answer("advertise", ask_of(plan).to_bytes()) == first
    assert len(list((silo.folder / "sums").iterdir())) == 1


def test_a_plan_names_no_file_of_a_silo_s(tmp_path: Path) -> None:
    _, plan = planned(tmp_path)
    told, encoder = unframe(plan.to_bytes())
    (tmp_path / "own.json").write_text(json.dumps(told["schema"]))
    with pytest.raises(ProtocolFault, match="a plan must be complete and valid"):
        Plan.from_bytes(frame({**told, "schema": str(tmp_path / "own.json")}, encoder))


def test_copies_of_the_pool_are_not_looked_for_between_silos(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match="overlap must be 'vote' between silos"):
        world(tmp_path, Trust.CENTRAL, rounds=1).fit(records={"overlap": "abstain"})


class Secretive:
    """Records that make something raise with a record's own text."""

    def __init__(self, error: BaseException) -> None:
        self.error = error

    def votes(self, plan: Plan, ask: Ask) -> Any:
        raise self.error


SECRET = "could not convert string to float: 'Jane Doe, HIV positive'"


FAILING = (
    ValueError(SECRET),
    InvalidInput(SECRET),
    ProtocolFault(SECRET),
    BudgetExceeded(SECRET),
    MemoryError(SECRET),
    RecursionError(SECRET),
    UnicodeEncodeError("utf-8", SECRET, 0, 1, SECRET),
    AssertionError(SECRET),
)


@pytest.mark.parametrize(
    ("trust", "error"),
    [  # a vote is asked for in one way under all trust but distributed, where it is the third stage of a sum
        *((trust, error) for trust in (Trust.CENTRAL, Trust.DISTRIBUTED) for error in FAILING),
        *((trust, FAILING[0]) for trust in (Trust.LOCAL, Trust.SHUFFLE)),
    ],
    ids=lambda one: type(one).__name__ if isinstance(one, Exception) else str(one),
)
def test_what_fails_once_records_were_touched_is_charged_and_answered_with_one_sentence(
    tmp_path: Path, trust: Trust, error: Exception
) -> None:
    one = world(tmp_path, trust, rounds=1)
    nodes = one.nodes()
    silo = nodes["south"]
    assert isinstance(silo, Silo)
    silo._records = lambda: Secretive(error)  # type: ignore[assignment, return-value]
    exchange = Tampered(nodes)
    if trust is Trust.SHUFFLE:
        one.federation = lambda **_: Federation(  # type: ignore[method-assign]
            roster=one.roster, threshold=2, records=(80, 120), colluding=0, shuffler=one.mixer, timeout=5, patience=0
        )
    fitted = one.fit(exchange)
    assert_is_the_pooled_tally(fitted.rounds_[0].release, one.pooled(fitted, 1, ["north", "west"]))
    stage = "mask" if trust is Trust.DISTRIBUTED else "vote"
    (message,) = [reply for at, who, reply in exchange.replies if (at, who) == (stage, "south")]
    reply = Reply.verified(message, one.roster["south"])
    assert reply.refused == SENTENCES[-1]
    assert reply.body == b""
    assert not any(b"Jane" in sent or b"float" in sent for _, _, sent in exchange.replies)
    assert len(entries(tmp_path / "south" / "ledger.sqlite", "default")) == 1  # paid like an answer
    (request,) = [asked for at, who, asked in exchange.requests if (at, who) == (stage, "south")]
    silo._records = lambda: one.records["south"]
    assert silo.reply(stage, request) == message  # and it stays so


@pytest.mark.parametrize("trust", [Trust.LOCAL, Trust.SHUFFLE])
def test_an_answer_that_would_fit_no_frame_is_not_made(
    tmp_path: Path, trust: Trust, monkeypatch: pytest.MonkeyPatch
) -> None:
    one, plan = planned(tmp_path, trust)
    silo, ask = fresh_silo(one, tmp_path), ask_of(plan)
    silo.answer("plan", plan.to_bytes())
    votes = silo._votes(plan, ask)
    sealed = plan.protocol.message_size + (50 if trust is Trust.SHUFFLE else 0)
    monkeypatch.setattr(silo_module, "MOST_ANSWER", len(votes) * sealed)
    assert silo._protected(plan, ask), "so many fit"
    monkeypatch.setattr(silo_module, "MOST_ANSWER", len(votes) * sealed - 1)
    monkeypatch.setattr(type(plan.protocol), "client", lambda *_: pytest.fail("it was made"))
    with pytest.raises(Failed):
        silo.answer("vote", ask.to_bytes())


def test_refusals_before_records_are_touched_do_not_depend_on_them(tmp_path: Path) -> None:
    """The same requests get the same refusals from a silo that has no records to look at."""
    one, plan = planned(tmp_path)
    blind = Silo("north", one.identities["north"], tmp_path / "blind", one.rules(), lambda: pytest.fail("looked"))
    seeing = fresh_silo(one, tmp_path)
    told, encoder = unframe(plan.to_bytes())
    requests = [
        ("plan", b"rubbish"),
        ("plan", frame({**told, "threshold": 1}, encoder)),
        ("plan", frame(told, b"no encoder")),
        ("plan", replace(plan, protocol=replace(plan.protocol, epsilon=Fraction(10**4))).to_bytes()),  # type: ignore[call-arg]
        ("vote", ask_of(plan).to_bytes()),
        ("plan", plan.to_bytes()),
        ("plan", replace(plan, pool="other").to_bytes()),
        ("vote", ask_of(plan, number=2).to_bytes()),
        ("vote", replace(ask_of(plan), attempt=2).to_bytes()),
        ("vote", replace(ask_of(plan), queries=np.zeros((6, 5), np.float32)).to_bytes()),
        ("vote", frame({"run": plan.run}, b"")),
        ("advertise", ask_of(plan).to_bytes()),
        ("shuffle", b""),
        ("what", b""),
    ]
    for stage, request in requests:
        assert blind.reply(stage, request) == seeing.reply(stage, request)
    assert blind.ledger.spent("default") == seeing.ledger.spent("default") == 0


def test_a_plan_whose_secure_sum_would_be_unsafe_is_refused_before_it_is_sent(tmp_path: Path) -> None:
    _, plan = planned(tmp_path, Trust.DISTRIBUTED)
    roster = {**plan.roster, "east": b"e" * 32}
    with pytest.raises(InvalidInput, match="exceed half of 4 parties"):
        replace(plan, roster=roster, protocol=replace(plan.protocol, parties=4))  # type: ignore[call-arg]
    with pytest.raises(InvalidInput, match="too few shares of noise"):
        replace(plan, protocol=replace(plan.protocol, survivors=3))  # type: ignore[call-arg]
    with pytest.raises(InvalidInput, match="too few shares of noise"):  # nor may the protocol count on more than come
        replace(plan, protocol=replace(plan.protocol, survivors=2, colluding=1))  # type: ignore[call-arg]
    with pytest.raises(InvalidInput, match="parties must be >= the 3 silos"):
        replace(plan, protocol=replace(plan.protocol, parties=2))  # type: ignore[call-arg]


def test_a_person_sees_what_is_asked_and_what_it_costs_before_the_silo_answers(tmp_path: Path) -> None:
    one, plan = planned(tmp_path)
    silo = fresh_silo(one, tmp_path, always=False)
    assert json.loads(silo.answer("plan", plan.to_bytes()))["status"] == "waiting"
    with pytest.raises(ProtocolFault, match="must be planned and accepted"):
        silo.answer("vote", ask_of(plan).to_bytes())
    with pytest.raises(InvalidInput, match="first digits"):
        approve(silo.folder, "0")
    shown = approve(silo.folder, plan.digest[:12])
    assert "cost of the whole run, at most: epsilon 400" in shown
    assert str(plan.guarantee) in shown
    assert json.loads(silo.answer("plan", plan.to_bytes()))["status"] == "accepted"
    silo.answer("vote", ask_of(plan).to_bytes())


def test_a_coordinator_cannot_fill_a_silos_disk_with_offers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    one, plan = planned(tmp_path)
    monkeypatch.setattr("recordwise.federation.silo.MOST_OFFERS", 3)
    silo = fresh_silo(one, tmp_path, always=False)
    for number in range(3):
        silo.answer("plan", replace(plan, run=f"run {number}").to_bytes())
    with pytest.raises(ProtocolFault, match="at most 3 offers"):
        silo.answer("plan", replace(plan, run="run 3").to_bytes())
    silo.answer("plan", replace(plan, run="run 1").to_bytes())


def test_a_coordinator_waits_for_approval_and_gives_up_in_the_end(tmp_path: Path) -> None:
    one = world(tmp_path, Trust.CENTRAL, policy={"always": False})
    with pytest.raises(ProtocolFault, match="waits for a person"):
        one.fit()
    for name in one.names:
        (offer,) = (tmp_path / name / "offers").glob("*.txt")
        approve(tmp_path / name, offer.stem)
    fitted = one.fit()
    assert_is_the_pooled_tally(fitted.rounds_[1].release, one.pooled(fitted, 2))


# What each party sees


def all_bytes(exchange: Tampered, *folders: Path) -> bytes:
    files = [path.read_bytes() for folder in folders for path in folder.rglob("*") if path.is_file()]
    return b"".join([message for _, _, message in exchange.replies] + files)


@pytest.mark.parametrize("trust", list(Trust))
def test_exact_counts_are_in_no_message_and_on_no_disk(tmp_path: Path, trust: Trust) -> None:
    one = world(tmp_path, trust, rounds=1, threshold=3)
    exchange = Tampered(one.nodes())
    fitted = one.fit(exchange)
    seen = all_bytes(exchange, tmp_path)
    for name in one.names:
        counts = one.pooled(fitted, 1, [name])
        for form in (counts, counts.astype(np.uint64), counts.astype(np.int32), counts.astype(np.float64)):
            assert form.tobytes() not in seen
            assert form.tobytes().hex().encode() not in seen


def test_under_distributed_trust_single_counts_are_not_among_the_coordinators_inputs(tmp_path: Path) -> None:
    """Nor can the coordinator compute them: with every key it holds, a masked vector stays uniform."""
    one = world(tmp_path, Trust.DISTRIBUTED, rounds=1, threshold=3)
    exchange = Tampered(one.nodes())
    fitted = one.fit(exchange)
    for stage, node, message in exchange.replies:
        if stage != "mask":
            continue
        name = node
        body = json.loads(unframe(Reply.verified(message, one.roster[name]).body)[1])
        protocol = fitted.rounds_[0].release
        assert isinstance(protocol, Tally)
        width = len(bytes.fromhex(body["vector"])) // protocol.estimate.size
        residues = np.frombuffer(bytes.fromhex(body["vector"]), np.uint8).reshape(-1, width)
        counts = one.pooled(fitted, 1, [name]).ravel()
        masked = sum(residues[:, byte].astype(np.int64) << (8 * byte) for byte in range(width))
        assert (masked != counts).mean() > 0.5


def test_neither_the_coordinator_nor_the_shuffler_can_read_a_silo_s_messages_alone(tmp_path: Path) -> None:
    one = world(tmp_path, Trust.SHUFFLE, rounds=1, threshold=3)
    exchange = Tampered(one.nodes())
    one.fit(exchange)
    plan = Plan.from_bytes(next(request for stage, _, request in exchange.requests if stage == "plan"))
    ask = Ask.from_bytes(next(request for stage, _, request in exchange.requests if stage == "vote"))
    keys = [bytes.fromhex((tmp_path / "run.keys" / name).read_text()) for name in ("counts.key", "server.key")]
    for stage, node, message in exchange.replies:
        if stage == "vote":
            name = node
            onion = Reply.verified(message, one.roster[name]).body
            for key in keys:
                with pytest.raises(ProtocolFault):
                    open_sealed(key, onion, *purpose("onion", plan, ask, name))
            inner = open_sealed(one.mixer_key, onion, *purpose("onion", plan, ask, name))
            size = plan.protocol.message_size + sealing.OVERHEAD
            assert len(inner) == size * len(one.records[name].votes(plan, ask))
            with pytest.raises(ProtocolFault):
                sealing.open_sealed(one.mixer_key, inner[:size], sealing.SHUFFLED)
            assert sealing.open_sealed(keys[1], inner[:size], sealing.SHUFFLED)  # what only mixed batches reach


@pytest.mark.parametrize("trust", [Trust.CENTRAL, Trust.SHUFFLE])
def test_a_run_s_folder_holds_no_key(tmp_path: Path, trust: Trust) -> None:
    """It may be passed on; the keys lie beside it."""
    one = world(tmp_path, trust, rounds=1, threshold=3)
    one.fit(Tampered(one.nodes()))
    keys = [path.read_text().strip() for path in (tmp_path / "run.keys").iterdir() if path.suffix == ".key"]
    keys += [key.hex() for key in (*one.identities.values(), one.mixer_key)]
    held = [path.read_bytes() for path in (tmp_path / "run").rglob("*") if path.is_file()]
    assert len(keys) > 3 and held
    for key in keys:
        assert not any(key.encode() in content or bytes.fromhex(key) in content for content in held)


def shuffle_request(tmp_path: Path) -> tuple[World, ShufflerNode, bytes, list[bytes]]:
    one = world(tmp_path, Trust.SHUFFLE, rounds=1, threshold=3)
    exchange = Tampered(one.nodes())
    one.fit(exchange)
    mixer = ShufflerNode("mixer", one.identities["mixer"], one.mixer_key, tmp_path / "mixer-2", one.roster)
    mixer.answer("plan", next(request for stage, _, request in exchange.requests if stage == "plan"))
    asked = next(request for stage, _, request in exchange.requests if stage == "vote")
    return one, mixer, asked, [message for stage, _, message in exchange.replies if stage == "vote"]


def test_the_shuffler_releases_one_batch_per_round_and_refuses_made_up_senders(tmp_path: Path) -> None:
    one, mixer, asked, replies = shuffle_request(tmp_path)
    posing = Reply.claimed(replies[0])
    instead = [
        posing.signed(identity_key()),
        replace(posing, name="east").signed(identity_key()),
        replace(posing, body=posing.body[:-1]).signed(one.identities["north"]),
        replace(posing, stage="plan").signed(one.identities["north"]),
        replies[1],
        b"\x00",
    ]
    for batch in (replies[:2], *([bad, *replies[1:]] for bad in instead)):
        with pytest.raises(ProtocolFault, match=r"at least 120 senders .* got 80"):
            mixer.answer("shuffle", packed(asked, batch))
    batch = mixer.answer("shuffle", packed(asked, replies))
    again = ShufflerNode("mixer", one.identities["mixer"], one.mixer_key, tmp_path / "mixer-2", one.roster)
    assert again.answer("shuffle", packed(asked, replies)) == batch
    with pytest.raises(ChangedInput, match="shuffled with other messages"):
        again.answer("shuffle", packed(asked, replies[::-1]))


def test_a_batch_hides_records_from_whoever_knows_the_messages_of_one_silo(tmp_path: Path) -> None:
    """With one silo colluding, 120 messages of three silos hide a record among 80."""
    one = world(tmp_path, Trust.SHUFFLE, rounds=1, threshold=3, colluding=1)
    fitted = one.fit()
    assert fitted.guarantee_.honest_parties == 80
    with pytest.raises(ProtocolFault, match="must hand on a batch"):
        world(tmp_path / "two", Trust.SHUFFLE, rounds=1, threshold=3, colluding=1).fit_records((81, 120))


def test_a_shuffler_knows_its_stages_and_its_plans(tmp_path: Path) -> None:
    _, mixer, asked, replies = shuffle_request(tmp_path)
    with pytest.raises(ProtocolFault, match="plan or shuffle"):
        mixer.answer("vote", asked)
    stranger = ShufflerNode("mixer", identity_key(), identity_key(), tmp_path / "other", {})
    with pytest.raises(ProtocolFault, match="must be planned"):
        stranger.answer("shuffle", packed(asked, replies))
    for broken in (frame({}), frame({"sizes": [5]}, b"abc")):
        with pytest.raises(ProtocolFault, match="a batch must"):
            mixer.answer("shuffle", broken)


def test_a_coordinator_needs_its_folder_ledger_and_classes(tmp_path: Path) -> None:
    one = world(tmp_path, Trust.CENTRAL)
    account = {"ledger": tmp_path / "ledger.sqlite", "budget": "all", "run_dir": tmp_path / "run"}
    for missing in (
        {"account": account | {"run_dir": None}},
        {"account": account | {"ledger": None}},
        {"classes": None},
    ):
        with pytest.raises(InvalidInput, match=r"account\.run_dir, account\.ledger"):
            one.fit(**missing)
    with pytest.raises(InvalidInput, match="one message per record"):
        world(tmp_path / "b", Trust.SHUFFLE, settings={"mechanism": "multi-message"}).fit()
    assert tuple(one.coordinator().classes) == CLASSES


def test_a_silo_takes_no_other_ledger_than_the_one_it_paid_from(tmp_path: Path) -> None:
    """A silo whose ledger is deleted, or replaced, would answer again for records that have nothing left to spend."""
    one = world(tmp_path, Trust.CENTRAL, rounds=1)
    one.fit()
    place, another = one.folder / "north" / "ledger.sqlite", tmp_path / "another.sqlite"
    place.rename(tmp_path / "kept.sqlite")
    with pytest.raises(LedgerFault, match=r"it is gone|does not exist"):
        one.silo("north")
    assert not place.exists()
    Ledger.open(another)
    with pytest.raises(ChangedInput, match="this silo paid from another ledger so far"):
        one.silo("north", ledger=str(another))
    assert one.silo("north", ledger=str(tmp_path / "kept.sqlite")).ledger.spent("default") > 0, "it may be moved"


def test_a_run_that_would_go_on_noise_stops_before_silos_are_asked(tmp_path: Path) -> None:
    small = world(tmp_path, Trust.CENTRAL, epsilon=0.01, rounds=1)
    asked = Tampered(small.nodes())
    with pytest.raises(InvalidInput, match="the budget would go on noise"):
        small.fit(asked)
    assert not asked.requests and not (tmp_path / "run").exists()
    account = {"ledger": tmp_path / "ledger.sqlite", "budget": "all", "run_dir": tmp_path / "run", "go_on": True}
    assert small.fit(asked, account=account).guarantee_.epsilon == Fraction("0.01")
