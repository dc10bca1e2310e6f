"""One registered node that sends anything at all: the run completes with the others."""

from __future__ import annotations

import json
import os
import pickle
import subprocess
import sys
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from federation.sums import parties, play, session_of
from federation.test_federation import SUM_STAGES, assert_is_the_pooled_tally, entries, world
from federation.world import Tampered, World
from recordwise.errors import InvalidInput, ProtocolFault
from recordwise.federation import encoder_bytes
from recordwise.federation.forms import array_bytes, array_from, frame, is_name, json_object, one_line, unframe
from recordwise.federation.journal import Journal
from recordwise.federation.plan import Ask, Plan
from recordwise.federation.replies import Reply
from recordwise.federation.secure_sum import Session, masks
from recordwise.federation.shuffling import ShufflerNode, unpacked
from recordwise.federation.silo import Silo
from recordwise.locks import hold
from recordwise.privacy.guarantee import Trust

HEADER = b"\x93NUMPY\x01\x00"


def npy(header: str) -> bytes:
    text = header.encode() + b"\n"
    return HEADER + len(text).to_bytes(2, "little") + text


RUBBISH: dict[str, bytes] = {
    "nothing": b"",
    "bytes": b"\x00\xff\xfe",
    "half a surrogate pair": rb'{"name": "\ud800", "stage": "\udfff", "request": "", "refused": "", "signature": ""}',
    "half a pair as a key": rb'{"\ud800": 1}',
    "nested lists": b"[" * 200_000,
    "nested objects": b'{"a":' * 200_000,
    "a long number": b'{"name": ' + b"9" * 100_000 + b"}",
    "not a number": b'{"name": NaN, "records": Infinity}',
    "a list": b"[1, 2]\n",
    "a pickle": pickle.dumps(pytest.fail),
    "a huge array": npy("{'descr': '<i8', 'fortran_order': False, 'shape': (1000000000000,), }"),
    "a negative array": npy("{'descr': '<i8', 'fortran_order': False, 'shape': (-6, -3), }"),
    "an array of objects": npy("{'descr': '|O', 'fortran_order': False, 'shape': (1,), }") + pickle.dumps([1]),
    "an array with a broken header": npy("{'descr': " + "(" * 5000),
    "an array of nothing": npy("{'descr': '|V0', 'fortran_order': False, 'shape': (6, 3), }"),
    "control characters": frame(
        {"name": "\x1b[2Jnorth", "stage": "vote", "request": "", "refused": "", "signature": "00" * 64}
    ),
    "a sentence of its own": frame(
        {"name": "south", "stage": "vote", "request": "", "refused": "record 17 is odd", "signature": "00" * 64}
    ),
}


def rubbish_at(stages: Callable[[str], bool], one: World, bad: Mapping[str, bytes], signed: bool) -> Tampered:
    """An exchange in which some silos answer with rubbish, one kind each."""

    def harm(at: str, who: str, reply: bytes) -> list[bytes]:
        if who not in bad or not stages(at):
            return [reply]
        told = Reply.claimed(reply)
        instead = Reply(name=who, stage=at, request=told.request, body=bad[who]).signed(one.identities[who])
        return [instead if signed else bad[who]]

    return Tampered(one.nodes(), harm)


@pytest.mark.parametrize("signed", [False, True], ids=["unsigned", "signed"])
@pytest.mark.parametrize("trust", list(Trust))
def test_whatever_a_silo_sends_the_run_completes_with_the_others(tmp_path: Path, trust: Trust, signed: bool) -> None:
    """Every kind of rubbish at every stage of its own, from a silo for each kind."""
    bad = {f"bad-{number}": rubbish for number, rubbish in enumerate(RUBBISH.values())}
    # Of the parties of a secure sum more than half must be honest: there, one run for each kind.
    # What is not signed by its sender is not looked into, whatever it is: there, a run for every third.
    alone = [{name: bad[name]} for name in bad]
    runs = [bad] if trust is not Trust.DISTRIBUTED else alone if signed else alone[::3]
    for number, some in enumerate(runs):
        one = world(tmp_path / str(number), trust, rounds=1, names=["north", "west", *some])
        fitted = one.fit(rubbish_at(lambda stage: stage != "plan", one, some, signed))
        assert_is_the_pooled_tally(fitted.rounds_[0].release, one.pooled(fitted, 1, ["north", "west"]))
        assert all(fault.isprintable() for fault in fitted.faults_)
        for name in some:
            assert any(fault.startswith(f"{name}: ") for fault in fitted.faults_) or trust is Trust.SHUFFLE, name


@pytest.mark.parametrize("signed", [False, True], ids=["unsigned", "signed"])
def test_rubbish_for_an_answer_to_the_plan_counts_as_no_answer(tmp_path: Path, signed: bool) -> None:
    bad = {f"bad-{number}": rubbish for number, rubbish in enumerate(RUBBISH.values())}
    one = world(tmp_path, Trust.CENTRAL, rounds=1, names=["north", "west", *bad])
    fitted = one.fit(rubbish_at(lambda stage: True, one, bad, signed))
    assert_is_the_pooled_tally(fitted.rounds_[0].release, one.pooled(fitted, 1, ["north", "west"]))


def test_whatever_a_coordinator_sends_a_silo_and_a_shuffler_answer_with_a_fixed_sentence(tmp_path: Path) -> None:
    one = world(tmp_path, Trust.DISTRIBUTED, rounds=1)
    exchange = Tampered(one.nodes())
    one.fit(exchange)
    plan = Plan.from_bytes(next(request for stage, _, request in exchange.requests if stage == "plan"))
    silo, mixer = one.silo("north"), one.nodes()["mixer"]
    spent = silo.ledger.spent("default")
    told, encoder = unframe(plan.to_bytes())
    nodes = ((silo, one.roster["north"]), (mixer, one.mixer[1]))
    # A plan with something missing; without these two it is the plan itself.
    for request in (frame({**told, key: None}, encoder) for key in told if key not in ("max_distance", "shuffler")):
        for node, identity in nodes:
            assert Reply.verified(node.reply("plan", request), identity).refused
    for number, rubbish in enumerate(RUBBISH.values()):
        some = [key for place, key in enumerate(told) if key != "run" and (place + number) % 3 == 0]
        requests = [
            rubbish,
            frame({}, rubbish),
            frame(told, rubbish),
            frame({**told, "run": "other"}, rubbish),
            frame({"plan": plan.digest, "run": plan.run, "round": 1, "attempt": 1}, rubbish),
            frame({"session": "0" * 64}, rubbish),
            frame({"session": "../../x"}, rubbish),
            frame({"session": [1]}, rubbish),
            frame({"sizes": [len(rubbish)]}, rubbish),
            *(frame({**told, key: rubbish.decode("latin-1")}, encoder) for key in some),
        ]
        for stage in ("plan", "vote", *SUM_STAGES, "shuffle"):
            for request in requests[: len(requests) if stage == "plan" else 9]:
                for node, identity in nodes:
                    assert Reply.verified(node.reply(stage, request), identity).refused
    assert silo.ledger.spent("default") == spent


class Hostile(Silo):
    """A party of a secure sum that signs what it should not."""

    harm = ""

    def answer(self, stage: str, request: bytes) -> bytes:
        honest = super().answer(stage, request)
        if stage in ("plan", "vote"):
            return honest
        session = self._session(request, stage)
        said = json.loads(unframe(honest)[1])
        return session.envelope(self._identity, stage, self.name, HARMS[self.harm](stage, said))

    def _session(self, request: bytes, stage: str) -> Session:
        about = request
        if stage != "advertise":
            about = Journal.find(self.folder / "sums", unframe(request)[0]["session"]).about
        ask = Ask.from_bytes(about)
        return self._accepted(ask).session(ask)


def only(stage: str, change: Callable[[dict[str, Any]], dict[str, Any]]) -> Callable[[str, dict[str, Any]], Any]:
    return lambda at, told: change(told) if at == stage else told


HARMS: dict[str, Callable[[str, dict[str, Any]], Any]] = {
    # Found at once: the party is left out, or its word does not count.
    "keys of low order": only("advertise", lambda told: {"seal": "00" * 32, "mask": told["mask"]}),
    "one key twice": only("advertise", lambda told: {"seal": told["mask"], "mask": told["mask"]}),
    "keys that are no text": only("advertise", lambda told: {"seal": 1, "mask": []}),
    "shares for too few": only("share", lambda told: {**told, "sealed": {}}),
    "shares that are no digits": only("share", lambda told: {**told, "sealed": dict.fromkeys(told["sealed"], "zz")}),
    "no commitment": only("share", lambda told: {"sealed": told["sealed"]}),
    "a short vector": only("mask", lambda told: {**told, "vector": "00"}),
    "noise from a seed": only("mask", lambda told: {**told, "private": False}),
    "a complaint about everybody": only("mask", lambda told: {"unreadable": ["north", "south", "west", 5]}),
    "other survivors": only("confirm", lambda told: {"survivors": ["south"]}),
    "wrong shares revealed": only("reveal", lambda told: {"shares": dict.fromkeys(told["shares"], "01" * 66)}),
    "no shares revealed": only("reveal", lambda told: {"shares": 7}),
    # Found when it is too late for this sum: another one is made without the party.
    "unreadable shares": only(
        "share", lambda told: {**told, "sealed": dict.fromkeys(told["sealed"], "00" * (2 * 66 + 16))}
    ),
    "another commitment": only("share", lambda told: {**told, "commitment": "00" * 32}),
}


@pytest.mark.parametrize("harm", HARMS)
def test_one_hostile_party_of_a_secure_sum_does_not_end_the_run(tmp_path: Path, harm: str) -> None:
    one = world(tmp_path, Trust.DISTRIBUTED, rounds=1, attempts=2)
    nodes = one.nodes()
    honest = nodes["south"]
    assert isinstance(honest, Silo)
    nodes["south"] = Hostile(
        "south", one.identities["south"], tmp_path / "south", honest.policy, lambda: one.records["south"]
    )
    nodes["south"].harm = harm  # type: ignore[attr-defined]
    fitted = one.fit(Tampered(nodes))
    counted = (
        one.names if harm in ("other survivors", "wrong shares revealed", "no shares revealed") else ["north", "west"]
    )
    assert_is_the_pooled_tally(fitted.rounds_[0].release, one.pooled(fitted, 1, counted))
    second = harm in ("unreadable shares", "another commitment")
    assert len(entries(tmp_path / "north" / "ledger.sqlite", "default")) == 1 + second


def test_one_liar_among_enough_helpers_is_found_out() -> None:
    """Whoever reveals wrong shares, the right ones of the others give the secret it was committed to."""
    identities = parties(5)
    session = session_of(identities, threshold=3, length=4)
    vectors = {name: np.arange(4, dtype=np.uint64) for name in identities}

    for liar in identities:

        def lie(at: str, who: str, message: bytes, liar: str = liar) -> bytes:
            if (at, who) != ("reveal", liar):
                return message
            wrong = dict.fromkeys(identities, "02" * 66)
            return session.envelope(identities[liar], "reveal", liar, {"shares": wrong})

        assert list(play(session, identities, vectors, lie).residues) == [0, 5, 10, 15]


# One process at a time


def test_a_second_process_is_refused_and_the_first_one_is_free_again_when_it_ends(tmp_path: Path) -> None:
    program = (
        "import sys; from pathlib import Path; from recordwise.locks import hold; "
        "held = hold(Path(sys.argv[1])); print('held', flush=True); sys.stdin.read()"
    )
    first = subprocess.Popen(
        [sys.executable, "-c", program, str(tmp_path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert first.stdout is not None
    assert first.stdout.readline() == "held\n"
    with pytest.raises(InvalidInput, match="one process at a time"):
        hold(tmp_path)
    with pytest.raises(InvalidInput, match="one process at a time"):
        ShufflerNode("mixer", b"", b"", tmp_path, {})
    first.kill()
    first.communicate()
    mine = hold(tmp_path)
    assert hold(tmp_path) is mine  # objects of one process share it


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
def test_a_forked_child_does_not_inherit_a_folder(tmp_path: Path) -> None:
    program = (
        "import os, sys; from pathlib import Path; from recordwise.locks import hold\n"
        "held = hold(Path(sys.argv[1]))\n"
        "if os.fork() == 0:\n"
        "    try:\n"
        "        hold(Path(sys.argv[1]))\n"
        "    except ValueError:\n"
        "        os._exit(0)\n"
        "    os._exit(1)\n"
        "sys.exit(os.waitstatus_to_exitcode(os.wait()[1]))"
    )
    assert subprocess.run([sys.executable, "-c", program, str(tmp_path)], check=False).returncode == 0


# Whatever comes, a reader gives a value or a fault

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(st.characters(exclude_categories=()), max_size=8),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=4), inner, max_size=4),
    max_leaves=12,
)
READERS: list[Callable[[bytes], object]] = [
    json_object,
    unframe,
    array_from,
    Reply.claimed,
    Plan.from_bytes,
    Ask.from_bytes,
    encoder_bytes.from_bytes,
    encoder_bytes.shown_as,
    unpacked,
]


@given(content=st.binary(max_size=300) | JSON.map(lambda value: json.dumps(value).encode()))
@settings(max_examples=200, deadline=None)
def test_readers_give_a_value_or_a_fault_for_any_bytes(content: bytes) -> None:
    for reader in READERS:
        for form in (content, content + b"\n" + content, HEADER + content):
            with suppress(ProtocolFault):
                reader(form)


@given(st.text(st.characters(exclude_categories=()), max_size=80))
def test_names_and_lines_can_be_printed(text: str) -> None:
    assert one_line(text).isprintable()
    if is_name(text):
        assert text.isprintable()
        assert 0 < len(text) <= 64


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int64, np.uint8, np.bool_, "<U5"])
@pytest.mark.parametrize("shape", [(0,), (3,), (2, 3), (0, 4), ()])
@pytest.mark.parametrize("order", ["C", "F"])
def test_arrays_arrive_as_they_left(dtype: Any, shape: tuple[int, ...], order: Any) -> None:
    left = np.asarray(np.arange(int(np.prod(shape))).reshape(shape), dtype=dtype, order=order)
    arrived = array_from(array_bytes(left))
    assert np.array_equal(arrived, left)
    assert (arrived.dtype, arrived.flags.f_contiguous) == (left.dtype, left.flags.f_contiguous)


def test_a_key_of_low_order_is_refused() -> None:
    with pytest.raises(ProtocolFault, match="full order"):
        masks.agreed_key(masks.fresh_key(), bytes(32), b"")
