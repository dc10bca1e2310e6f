"""Frames: what was packed comes back, and everything else is refused in one line."""

from __future__ import annotations

import subprocess
import sys
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from recordwise.errors import InvalidInput, ProtocolFault
from recordwise.privacy.noise import SeededNoise, SystemNoise
from recordwise.protocols.local import (
    Answers,
    Collision,
    Concatenation,
    Inbox,
    LocalMechanism,
    RandomizedResponse,
    Separation,
    SubsetSelection,
    UnaryEncoding,
    pack,
    unpack,
)
from recordwise.protocols.local.mechanism import mechanisms
from recordwise.protocols.local.parameters import digest, from_json, to_json
from recordwise.votes.ballot import Ballot, Votes

BALLOT = Ballot(num_queries=3, num_classes=3)
KINDS = (RandomizedResponse, UnaryEncoding, Collision, SubsetSelection, Separation, Concatenation)


def some_votes(count: int, ballot: Ballot = BALLOT) -> Votes:
    queries = np.arange(count, dtype=np.int32)[:, None] % ballot.num_queries
    return Votes(ballot, queries, queries % ballot.num_classes)


def make(kind: type[LocalMechanism] = Collision, epsilon: str = "1") -> LocalMechanism:
    return kind(ballot=BALLOT, epsilon=Fraction(epsilon))


def named(answers: Answers, first: int = 0) -> Answers:
    ids = np.zeros((len(answers), 16), dtype=np.uint8)
    ids[:, 0] = first + np.arange(len(answers))
    return Answers(answers.bodies, ids, answers.private)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("with_ids", [False, True])
def test_what_was_packed_comes_back(kind: type[LocalMechanism], with_ids: bool) -> None:
    mechanism = make(kind)
    answers = mechanism.client(some_votes(20), SystemNoise())
    answers = named(answers) if with_ids else answers
    back = unpack(from_json(to_json(mechanism)), pack(mechanism, answers))
    assert (back.bodies == answers.bodies).all()
    assert back.private
    assert (back.ids is None) == (answers.ids is None)
    assert back.ids is None or (back.ids == answers.ids).all()
    assert len(pack(mechanism, answers)) == 16 + 20 * (mechanism.message_size + 16 * with_ids)


def test_a_seeded_message_says_so_on_the_wire() -> None:
    mechanism = make()
    frame = pack(mechanism, mechanism.client(some_votes(2), SeededNoise(1)))
    assert not unpack(mechanism, frame).private


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (lambda f: b"", "header of 16 bytes, got 0 bytes"),
        (lambda f: f[:15], "header of 16 bytes, got 15 bytes"),
        (lambda f: b"XX" + f[2:], "must begin with b'RW', got b'XX'"),
        (lambda f: f[:2] + b"\x02" + f[3:], "must be of version 1, got 2"),
        (lambda f: f[:3] + b"\x08" + f[4:], "flags must lie below 4, got 8"),
        (lambda f: f[:4] + bytes(8) + f[12:], "must be made for parameters"),
        (lambda f: f[:-1], "a frame of 4 answers must have"),
        (lambda f: f + b"\0", "a frame of 4 answers must have"),
        (lambda f: f[:12] + b"\xff\xff\xff\xff" + f[16:], "a frame of 4294967295 answers must have"),
        (lambda f: f[:-1] + b"\xff", "a bucket must lie below l = 4, got 255"),
        (lambda f: f[:16] + b"\xff\xff\xff\xff" + f[20:], "coefficients must lie below 4294967291, got 4294967295"),
    ],
)
def test_a_frame_that_does_not_parse_is_refused_in_one_line(spoil: object, message: str) -> None:
    mechanism = make()
    frame = pack(mechanism, mechanism.client(some_votes(4), SystemNoise()))
    inbox = Inbox(mechanism)
    with pytest.raises(ProtocolFault, match=message) as refusal:
        inbox.receive(spoil(frame))  # type: ignore[operator]
    assert "\n" not in str(refusal.value)
    assert len(inbox) == 0


def test_bits_that_mean_nothing_are_refused() -> None:
    mechanism = make(RandomizedResponse)
    bodies = mechanism.client(some_votes(1), SystemNoise()).bodies | np.uint8(1)
    with pytest.raises(ProtocolFault, match="7 bits after bit 9"):
        unpack(mechanism, pack(mechanism, Answers(bodies)))


def test_a_subset_of_the_wrong_size_is_refused() -> None:
    mechanism = make(SubsetSelection)
    with pytest.raises(ProtocolFault, match="must select 2 cells, got 0"):
        unpack(mechanism, pack(mechanism, Answers(np.zeros((1, 2), np.uint8))))


@given(st.binary(max_size=80))
def test_noise_on_the_line_never_gets_through(frame: bytes) -> None:
    with pytest.raises(ProtocolFault):
        unpack(make(), frame)


@pytest.mark.parametrize(
    "other",
    [
        make(epsilon="2"),
        make(UnaryEncoding),
        Collision(ballot=Ballot(num_queries=3, num_classes=4), epsilon=Fraction(1)),
    ],
)
def test_a_message_for_other_parameters_is_refused(other: LocalMechanism) -> None:
    frame = pack(other, other.client(some_votes(3, other.ballot), SystemNoise()))
    with pytest.raises(ProtocolFault, match="must be made for parameters"):
        unpack(make(), frame)


def test_an_id_answers_once() -> None:
    mechanism = make()
    inbox = Inbox(mechanism)
    first = named(mechanism.client(some_votes(3), SystemNoise()))
    assert inbox.receive(pack(mechanism, first)) == 3
    again = named(mechanism.client(some_votes(2), SystemNoise()), first=2)  # ids 2 and 3, of which 2 is taken
    with pytest.raises(ProtocolFault, match="02000000000000000000000000000000 has answered before"):
        inbox.receive(pack(mechanism, again))
    assert len(inbox) == 3
    fresh = named(mechanism.client(some_votes(1), SystemNoise()), first=3)  # the refused frame took no id
    assert inbox.receive(pack(mechanism, fresh)) == 1


def test_an_id_repeated_within_a_frame_is_refused() -> None:
    mechanism = make()
    answers = mechanism.client(some_votes(2), SystemNoise())
    with pytest.raises(ProtocolFault, match="this frame repeats 00000000000000000000000000000000"):
        Inbox(mechanism).receive(pack(mechanism, Answers(answers.bodies, np.zeros((2, 16), np.uint8))))


def test_messages_without_identity_are_all_counted() -> None:
    mechanism = make()
    inbox = Inbox(mechanism)
    frame = pack(mechanism, mechanism.client(some_votes(2), SystemNoise()))
    inbox.receive(frame)
    inbox.receive(frame)
    assert len(inbox) == 4


@pytest.mark.parametrize("kind", KINDS)
def test_the_server_needs_parameters_and_bytes_alone(kind: type[LocalMechanism], tmp_path: Path) -> None:
    """Decoded in another process, which has seen nothing but two files."""
    mechanism = make(kind, epsilon="3")
    answers = mechanism.client(some_votes(300), SystemNoise())
    (tmp_path / "parameters.json").write_text(to_json(mechanism))
    (tmp_path / "frame").write_bytes(pack(mechanism, answers))
    server = (
        "import sys, pathlib, numpy as np\n"
        "from recordwise.privacy.noise import SystemNoise\n"
        "from recordwise.protocols.local import Inbox\n"
        "from recordwise.protocols.local.parameters import from_json\n"
        "folder = pathlib.Path(sys.argv[1])\n"
        "mechanism = from_json((folder / 'parameters.json').read_text())\n"
        "inbox = Inbox(mechanism)\n"
        "inbox.receive((folder / 'frame').read_bytes())\n"
        "np.save(folder / 'tally.npy', mechanism.server(inbox.answers, SystemNoise()).estimate)\n"
    )
    subprocess.run([sys.executable, "-c", server, str(tmp_path)], check=True)
    assert np.load(tmp_path / "tally.npy") == pytest.approx(mechanism.server([answers], SystemNoise()).estimate)


@given(
    name=st.sampled_from(sorted(mechanisms())),
    epsilon=st.fractions(Fraction(1, 100), 8),
    queries=st.integers(1, 50),
    classes=st.integers(1, 50),
)
def test_parameters_survive_their_file(name: str, epsilon: Fraction, queries: int, classes: int) -> None:
    mechanism = mechanisms()[name](ballot=Ballot(num_queries=queries, num_classes=classes), epsilon=epsilon)
    back = from_json(to_json(mechanism))
    assert back == mechanism
    assert digest(back) == digest(mechanism)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{}",
        "[]",
        "7",
        '{"format": "recordwise-local-1"}',
        to_json(make()).replace("collision", "collusion"),
        to_json(make()).replace("local-1", "local-9"),
        to_json(make()).replace('"1"', '"-1"'),
        to_json(make())[:-1] + ', "extra": 1}',
        to_json(make()).replace('"num_classes": 3', '"num_classes": 2.5'),
    ],
)
def test_parameters_that_nobody_wrote_are_refused(text: str) -> None:
    with pytest.raises(InvalidInput) as refusal:
        from_json(text)
    assert "\n" not in str(refusal.value)


def test_a_message_of_the_wrong_length_is_refused_by_the_server() -> None:
    with pytest.raises(ProtocolFault, match="must have 9 bytes, got 4"):
        make().server([Answers(np.zeros((1, 4), np.uint8))], SystemNoise())


def test_votes_on_another_ballot_are_refused() -> None:
    with pytest.raises(ProtocolFault, match="votes were cast on"):
        make().client(some_votes(1, Ballot(num_queries=4, num_classes=3)), SystemNoise())
