from __future__ import annotations

import io
import os
import subprocess
import sys
from collections import Counter
from itertools import permutations
from pickle import dumps

import numpy as np
import pytest
from scipy.stats import chisquare

from recordwise.errors import InvalidInput, MissingExtra, ProtocolFault
from recordwise.privacy.noise import SystemNoise
from recordwise.protocols.shuffle import Opener, Sealer, ShuffleMulti, ShuffleSingle
from recordwise.protocols.shuffle.sealing import _library
from recordwise.protocols.shuffle.shuffler import (
    SealedBatch,
    Shuffler,
    read_batch,
    read_frames,
    write_frame,
    write_sender,
)
from recordwise.votes.ballot import Ballot, Votes

FALSE_FAILURE = 1e-9
BALLOT = Ballot(num_queries=3, num_classes=2)


def sender(number: int) -> bytes:
    return number.to_bytes(16, "big")


def votes(count: int) -> Votes:
    records = np.arange(count)[:, None]
    return Votes(BALLOT, (records % 3).astype(np.int32), (records % 2).astype(np.int32))


def process(senders: int, sealed_size: int) -> subprocess.Popen[bytes]:
    module = "recordwise.protocols.shuffle.shuffler"
    command = [sys.executable, "-m", module, "--senders", str(senders), "--sealed-size", str(sealed_size)]
    return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE)


def shuffled_elsewhere(bundles: list[list[bytes]], senders: int, sealed_size: int) -> tuple[int, bytes, str]:
    source = io.BytesIO()
    for number, bundle in enumerate(bundles):
        write_sender(source, sender(number), bundle)
    write_frame(source, b"")
    with process(senders, sealed_size) as running:
        out, complaints = running.communicate(source.getvalue(), timeout=600)
    return running.returncode, out, complaints.decode()


# Sealing


def test_only_the_server_reads_a_sealed_message_and_all_are_of_one_length() -> None:
    opener = Opener.fresh(message_size=8)
    messages = [b"", b"a", b"eight by", b"a"]
    sealed = opener.sealer.seal(messages)
    assert {len(message) for message in sealed} == {opener.sealer.sealed_size} == {8 + 50}
    assert len(set(sealed)) == 4, "the same message looks different every time"
    assert opener.open(sealed) == messages
    with pytest.raises(ProtocolFault, match="must be whole and meant for its reader"):
        Opener.fresh(message_size=8).open(sealed)
    altered = bytes([sealed[1][0] ^ 1]) + sealed[1][1:]
    for wrong in (altered, b"", b"short"):
        with pytest.raises(ProtocolFault, match="must be whole and meant for its reader"):
            opener.open([wrong])
    with pytest.raises(ProtocolFault, match="padded to 8 bytes"):
        opener.open(Sealer(public_key=opener.sealer.public_key, message_size=9).seal([b"a"]))
    with pytest.raises(InvalidInput, match="at most 8 bytes, got 9"):
        opener.sealer.seal([b"nine byte"])


def test_a_private_key_is_neither_shown_nor_pickled() -> None:
    secret = bytes(range(32))
    opener = Opener(secret, message_size=4)
    assert secret.hex() not in repr(opener)
    assert repr(secret)[2:-1] not in repr(opener)
    with pytest.raises(InvalidInput, match="pickled"):
        dumps(opener)
    for key in (b"", bytes(31)):
        with pytest.raises(InvalidInput, match="32 bytes"):
            Opener(key, message_size=4)
        with pytest.raises(InvalidInput, match="32 bytes"):
            Sealer(public_key=key, message_size=4)


def test_without_the_extra_sealing_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("recordwise.extras.asking.find_spec", lambda package: None)
    monkeypatch.delitem(sys.modules, "recordwise.extras.shuffle", raising=False)
    _library.cache_clear()
    with pytest.raises(MissingExtra, match=r"recordwise\[shuffle\]"):
        Opener.fresh(message_size=4)


# The shuffler as an object


def test_a_short_batch_is_not_released() -> None:
    shuffler = Shuffler(senders=2, sealed_size=3)
    shuffler.accept(sender(1), [b"abc", b"def"])
    with pytest.raises(ProtocolFault, match="at least 2 senders, got 1"):
        shuffler.release(SystemNoise())
    shuffler.accept(sender(2), [])
    batch = shuffler.release(SystemNoise())
    assert sorted(batch.messages) == [b"abc", b"def"]
    assert batch.senders == 2
    with pytest.raises(ProtocolFault, match="released once"):
        shuffler.release(SystemNoise())
    with pytest.raises(ProtocolFault, match="one batch"):
        shuffler.accept(sender(3), [b"ghi"])


def test_what_is_refused_leaves_no_trace() -> None:
    shuffler = Shuffler(senders=1, sealed_size=3)
    shuffler.accept(sender(1), [b"abc"])
    for number, bundle, reason in (
        (1, [b"xyz"], "sent before"),
        (2, [b"abc"], "sent again"),
        (2, [b"xyz", b"xyz"], "sent again"),
        (2, [b"xyz", b"long"], "3 bytes, got 4"),
    ):
        with pytest.raises(ProtocolFault, match=reason):
            shuffler.accept(sender(number), bundle)
    with pytest.raises(ProtocolFault, match="16 bytes"):
        shuffler.accept(b"me", [b"xyz"])
    assert shuffler.arrived == 1
    assert shuffler.release(SystemNoise()) == SealedBatch((b"abc",), 1)


def test_every_order_is_equally_likely() -> None:
    def order() -> tuple[bytes, ...]:
        shuffler = Shuffler(senders=1, sealed_size=1)
        shuffler.accept(sender(1), [b"a", b"b", b"c"])
        return shuffler.release(SystemNoise()).messages

    seen = Counter(order() for _ in range(3000))
    counts = [seen[order] for order in permutations((b"a", b"b", b"c"))]
    assert chisquare(counts).pvalue > FALSE_FAILURE
    unfair = np.array(counts) + np.array([200, -200, 0, 0, 0, 0])  # power: two orders off by two fifths are seen
    assert chisquare(unfair).pvalue < FALSE_FAILURE


def test_a_stream_that_is_cut_off_is_a_fault() -> None:
    whole = io.BytesIO()
    for frame in (b"12345678", b"abc", b""):
        write_frame(whole, frame)
    content = whole.getvalue()
    assert read_batch(io.BytesIO(content)).messages == (b"abc",)
    for length in range(len(content)):
        with pytest.raises(ProtocolFault, match="cut off"):
            read_batch(io.BytesIO(content[:length]))
    with pytest.raises(ProtocolFault, match="number of senders"):
        read_batch(io.BytesIO(bytes(4)))
    with pytest.raises(ProtocolFault, match="at most"):
        list(read_frames(io.BytesIO(b"\xff\xff\xff\xff")))


# The shuffler as a process


def test_single_messages_go_through_a_shuffler_in_another_process() -> None:
    asked = ShuffleSingle(ballot=BALLOT, epsilon="1", delta="0.001", senders=40, mechanism="collision")
    opener = Opener.fresh(message_size=asked.local.message_size)
    sent = asked.client(votes(40), SystemNoise())
    bundles = [opener.sealer.seal([message]) for message in asked.to_bytes(sent)]
    code, out, complaints = shuffled_elsewhere(bundles, 40, opener.sealer.sealed_size)
    assert (code, complaints) == (0, "")
    batch = read_batch(io.BytesIO(out))
    assert batch.senders == 40
    assert [message for bundle in bundles for message in bundle] != list(batch.messages)
    tally = asked.server([asked.from_bytes(opener.open(batch.messages))], SystemNoise())
    assert tally.estimate == pytest.approx(asked.local.server([sent], SystemNoise()).estimate)
    for number in range(40):
        assert sender(number) not in out


def test_many_messages_go_through_a_shuffler_in_another_process() -> None:
    asked = ShuffleMulti(ballot=BALLOT, epsilon="8", delta="0.01", senders=6)
    opener = Opener.fresh(message_size=4)
    sent = [asked.client(votes(1), SystemNoise()) for _ in range(6)]
    bundles = [opener.sealer.seal(asked.to_bytes(part)) for part in sent]
    code, out, _ = shuffled_elsewhere(bundles, 6, opener.sealer.sealed_size)
    batch = read_batch(io.BytesIO(out))
    assert (code, batch.senders) == (0, 6)
    received = asked.from_bytes(opener.open(batch.messages), senders=batch.senders)
    assert sorted(received.codes) == sorted(np.concatenate([part.codes for part in sent]))
    expected = asked.server(sent, SystemNoise()).estimate
    assert (asked.server([received], SystemNoise()).estimate == expected).all()


def test_a_short_batch_leaves_the_process_with_nothing_but_a_reason() -> None:
    code, out, complaints = shuffled_elsewhere([[b"abc"], [b"abc"], [b"toolong"], [b"def"]], 3, 3)
    assert (code, out) == (7, b"")
    assert complaints.splitlines() == [
        "refused a sender: a sealed message must be sent once, one was sent again",
        "refused a sender: a sealed message must have 3 bytes, got 1",
        "a batch must come from at least 3 senders, got 2",
    ]


def test_a_killed_shuffler_released_nothing() -> None:
    with process(2, 3) as running:
        assert running.stdin is not None
        assert running.stdout is not None
        for number in (1, 2):
            write_sender(running.stdin, sender(number), [f"ab{number}".encode()])
        running.stdin.flush()
        os.set_blocking(running.stdout.fileno(), False)
        assert not running.stdout.read(), "all planned senders are there, but the batch is not closed"
        running.kill()
        os.set_blocking(running.stdout.fileno(), True)
        out = running.stdout.read()
    assert out == b""
    with pytest.raises(ProtocolFault, match="cut off"):
        read_batch(io.BytesIO(out))


def test_a_senders_connection_that_breaks_releases_nothing() -> None:
    with process(1, 3) as running:
        out, complaints = running.communicate((19).to_bytes(4, "big") + sender(1), timeout=600)
    assert (running.returncode, out) == (7, b"")
    assert "cut off" in complaints.decode()


def test_the_shuffler_has_no_means_to_open_a_message() -> None:
    check = (
        "import recordwise.protocols.shuffle.shuffler, sys; "
        "sys.exit(any(name in sys.modules for name in ('cryptography', 'torch')))"
    )
    assert subprocess.run([sys.executable, "-c", check], check=False, timeout=600).returncode == 0
