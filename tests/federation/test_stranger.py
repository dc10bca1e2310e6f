"""Strangers at the door, live on loopback: none of them is asked, heard, or able to end a run."""

from __future__ import annotations

import os
import pickle
import select
import socket
import ssl
import struct
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

from federation.world import World
from recordwise.errors import InvalidInput, ProtocolFault
from recordwise.federation import door as door_module
from recordwise.federation.certificates import certificate_of, fingerprint_of, identity_in, tls_context
from recordwise.federation.door import Door
from recordwise.federation.exchange import Node
from recordwise.federation.frames import read_request, reply_frame, request_frame
from recordwise.federation.hub import door
from recordwise.federation.identity import identity_key, public_identity
from recordwise.federation.line import _exactly, _next, host_and_port
from recordwise.federation.registered import register
from recordwise.federation.replies import Reply
from recordwise.formats.framing import LENGTH
from recordwise.privacy.guarantee import Trust

HUB = identity_key()


class Echo:
    """A node that says what it was asked."""

    def __init__(self, name: str) -> None:
        self.name, self.asked = name, list[tuple[str, bytes]]()

    def reply(self, stage: str, request: bytes) -> bytes:
        self.asked.append((stage, request))
        return f"{self.name}: {stage} ".encode() + request


@contextmanager
def listening(folder: Path, identities: dict[str, bytes]) -> Iterator[Door]:
    certificates = {name: certificate_of(key) for name, key in identities.items()}
    context = tls_context(HUB, certificates.values(), folder, server_side=True)
    with Door(context, {fingerprint_of(one): name for name, one in certificates.items()}) as one:
        yield one


def dialled(at: Door, context: ssl.SSLContext) -> ssl.SSLSocket:
    plain = socket.create_connection(at.address, timeout=600)
    try:
        return context.wrap_socket(plain)
    except BaseException:
        plain.close()
        raise


@contextmanager
def on_line(at: Door, folder: Path, identity: bytes, node: Node) -> Iterator[ssl.SSLSocket]:
    """A node that answers from a thread of its own."""
    line = dialled(at, tls_context(identity, [certificate_of(HUB)], folder, server_side=False))

    def answer() -> None:
        with suppress(OSError, ProtocolFault):
            while True:
                _next(line, node)

    thread = threading.Thread(target=answer)
    thread.start()
    try:
        yield line
    finally:
        with suppress(OSError):
            line.shutdown(socket.SHUT_RDWR)
        thread.join()
        line.close()


def connected(at: Door) -> Door:
    """The door, once everybody who may come is there."""
    while len(at.nodes()) < len(at._names):
        time.sleep(0.01)
    return at


def bare_context(pair: bytes | None, folder: Path, **changes: Any) -> ssl.SSLContext:
    """A stranger's context: it knows the coordinator's certificate, as anybody may, and shows `pair` or nothing."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
    context.load_verify_locations(cadata=certificate_of(HUB).decode())
    for name, value in changes.items():
        setattr(context, name, value)
    if pair is not None:
        (folder / "pair.pem").write_bytes(pair)
        context.load_cert_chain(folder / "pair.pem")
    return context


def pem(key: Ed25519PrivateKey) -> bytes:
    return key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())


def like(certificate: bytes, key: Ed25519PrivateKey, signer: Ed25519PrivateKey) -> bytes:
    """A certificate with everything copied from another but for the key, signed by whoever."""
    known = x509.load_pem_x509_certificate(certificate)
    copied = (
        x509.CertificateBuilder()
        .subject_name(known.subject)
        .issuer_name(known.issuer)
        .serial_number(known.serial_number)
        .not_valid_before(known.not_valid_before_utc)
        .not_valid_after(known.not_valid_after_utc)
        .public_key(key.public_key())
    )
    for extension in known.extensions:
        copied = copied.add_extension(extension.value, critical=extension.critical)
    return copied.sign(signer, None).public_bytes(Encoding.PEM)


def strangers(folder: Path, north: bytes) -> dict[str, ssl.SSLContext]:
    own, registered = Ed25519PrivateKey.generate(), Ed25519PrivateKey.from_private_bytes(north)
    known = certificate_of(north)
    return {
        "no certificate": bare_context(None, folder),
        "an unregistered certificate": bare_context(certificate_of(own.private_bytes_raw()) + pem(own), folder),
        "a copied subject": bare_context(like(known, own, own) + pem(own), folder),
        # Registered, but not for vouching: what a registered node signs is not let in.
        "signed by a registered node": bare_context(like(known, own, registered) + known + pem(own), folder),
        "an older TLS": bare_context(known + pem(registered), folder, maximum_version=ssl.TLSVersion.TLSv1_2),
    }


def test_whoever_lacks_a_registered_key_fails_the_handshake_and_is_sent_nothing(tmp_path: Path) -> None:
    identities = {"north": identity_key(), "south": identity_key()}
    with listening(tmp_path, identities) as at, on_line(at, tmp_path, identities["south"], Echo("south")):
        for kind, stranger in strangers(tmp_path, identities["north"]).items():
            heard = b""
            # Under TLS 1.3 a client hears that the handshake failed when it first listens.
            with suppress(ssl.SSLError, ConnectionError), dialled(at, stranger) as line:
                heard = line.recv(1)
            assert heard == b"", kind
            assert "north" not in at.nodes(), kind
        asked = {"north": b"for north", "south": b"for south"}
        assert list(at.ask("plan", asked, 2.0)) == [("south", b"south: plan for south")]
        assert at.nodes() == ["south"]


@pytest.mark.parametrize(
    "noise",
    [b"", b"\x00" * 1000, b"GET / HTTP/1.1\r\n\r\n", b"\x16\x03\x01\xff\xff" + b"\x00" * 70000, os.urandom(5000)],
    ids=["nothing", "zeros", "http", "a broken hello", "noise"],
)
def test_plain_bytes_on_the_port_get_no_further(tmp_path: Path, noise: bytes) -> None:
    identities = {"south": identity_key()}
    with listening(tmp_path, identities) as at:
        with socket.create_connection(at.address, timeout=600) as plain:
            with suppress(OSError):
                plain.sendall(noise)
            plain.shutdown(socket.SHUT_WR)
            with suppress(OSError):
                heard = plain.recv(100)
                assert heard[:1] in (b"", b"\x15")  # at most a TLS alert
        with on_line(at, tmp_path, identities["south"], Echo("south")):
            assert list(at.ask("plan", {"south": b"x"}, 60.0)) == [("south", b"south: plan x")]


def test_connections_that_show_no_key_are_few_and_are_closed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(door_module, "HANDSHAKE", 600.0)
    monkeypatch.setattr(door_module, "GUESTS", 3)
    identities = {"south": identity_key()}
    with listening(tmp_path, identities) as at, ExitStack() as idle:

        def guests(number: int) -> list[socket.socket]:
            return [idle.enter_context(socket.create_connection(at.address, timeout=60)) for _ in range(number)]

        waiting = threading.Event()
        at._loop.call_soon_threadsafe(waiting.wait)
        many = guests(4)  # all of them before the first is accepted
        waiting.set()
        for one in (many + guests(4))[3:]:
            with suppress(ConnectionError):
                assert one.recv(1) == b""  # closed by the door
        assert not select.select(many[:3], [], [], 0)[0]
        monkeypatch.setattr(door_module, "HANDSHAKE", 0.2)
        monkeypatch.setattr(door_module, "GUESTS", 64)
        with suppress(ConnectionError):
            assert guests(1)[0].recv(1) == b""  # it took too long
        monkeypatch.undo()  # who shows a key may take its time
        with on_line(at, tmp_path, identities["south"], Echo("south")):
            assert list(at.ask("plan", {"south": b"x"}, 60.0)) == [("south", b"south: plan x")]


def test_a_node_has_one_connection_and_the_newest_one_counts(tmp_path: Path) -> None:
    identities = {"south": identity_key()}
    old, new = Echo("old"), Echo("new")
    with listening(tmp_path, identities) as at, on_line(at, tmp_path, identities["south"], old) as first:
        assert list(at.ask("plan", {"south": b"1"}, 60.0)) == [("south", b"old: plan 1")]
        with on_line(at, tmp_path, identities["south"], new):
            answers = list(at.ask("vote", {"south": b"2"}, 60.0))
            while answers == [("south", b"old: vote 2")]:  # it was not there yet
                answers = list(at.ask("vote", {"south": b"2"}, 60.0))
            assert answers == [("south", b"new: vote 2")]
            with suppress(OSError):
                while first.recv(1):  # a question it had not read yet, and then the end
                    pass


HEAD = LENGTH.size
RUDE = {
    "hangs up": lambda frame: b"",
    "a length beyond the limit": lambda frame: b"\xff\xff\xff\xff" + frame[HEAD:],
    "a length that is not kept": lambda frame: LENGTH.pack(1 << 20) + frame[HEAD:],
    "no number": lambda frame: LENGTH.pack(3) + b"abc",
    "another number": lambda frame: LENGTH.pack(9) + struct.pack(">Q", 999) + b"x",
}


def test_a_registered_node_that_sends_no_frames_costs_itself_an_answer_and_nobody_else(tmp_path: Path) -> None:
    """A node for each kind of rudeness, twice; what it says when it is asked a third time counts."""
    identities = {name: identity_key() for name in (*RUDE, "south")}
    rude = dict.fromkeys(RUDE, 0)

    def answer(name: str) -> None:
        context = tls_context(identities[name], [certificate_of(HUB)], tmp_path, server_side=False)
        while rude[name] < 2:
            with suppress(OSError), dialled(at, context) as line:
                number, _, content = read_request(_exactly(line, LENGTH.unpack(_exactly(line, HEAD))[0]))
                rude[name] += 1
                line.sendall(RUDE[name](reply_frame(number, content)))
        with dialled(at, context) as line:
            _next(line, Echo(name))

    with listening(tmp_path, identities) as at, on_line(at, tmp_path, identities["south"], Echo("south")):
        threads = [threading.Thread(target=answer, args=(name,)) for name in RUDE]
        for thread in threads:
            thread.start()
        answers = dict(at.ask("plan", dict.fromkeys(identities, b"x"), 120.0))
        for thread in threads:
            thread.join()
    assert answers == {name: f"{name}: plan x".encode() for name in identities}
    assert set(rude.values()) == {2}


def test_a_node_that_never_answers_is_left_out_in_time(tmp_path: Path) -> None:
    identities = {"north": identity_key(), "south": identity_key()}
    silent = tls_context(identities["north"], [certificate_of(HUB)], tmp_path, server_side=False)
    with listening(tmp_path, identities) as at, on_line(at, tmp_path, identities["south"], Echo("south")):
        with dialled(at, silent):
            assert dict(connected(at).ask("plan", {"north": b"x"}, 0.2)) == {}
        assert list(at.ask("plan", {"south": b"x"}, 60.0)) == [("south", b"south: plan x")]


@pytest.mark.parametrize("harm", ["another's name", "another's reply", "another's name and signature"])
def test_a_registered_node_cannot_speak_for_another(tmp_path: Path, harm: str) -> None:
    """Live: south answers as if it were north. Its words count for nobody, and the run goes on without it."""
    one = World(tmp_path / "world", trust=Trust.CENTRAL, rounds=1)
    nodes = one.nodes()
    kept: dict[str, bytes] = {}

    class Keeping:
        def reply(self, stage: str, request: bytes) -> bytes:
            kept[stage] = nodes["north"].reply(stage, request)
            return kept[stage]

    class Posing:
        def reply(self, stage: str, request: bytes) -> bytes:
            if harm == "another's reply" and stage in kept:
                return kept[stage]
            told = Reply.claimed(nodes["north"].reply(stage, request))
            forged = Reply(name="north", stage=told.stage, request=told.request, body=told.body)
            return forged.signed(one.identities["south"] if harm == "another's name" else identity_key())

    with (
        listening(tmp_path, {name: one.identities[name] for name in one.names}) as at,
        on_line(at, tmp_path, one.identities["north"], Keeping()),
        on_line(at, tmp_path, one.identities["west"], nodes["west"]),
        on_line(at, tmp_path, one.identities["south"], Posing()),
    ):
        fitted = one.fit_with(connected(at), one.federation(timeout=600.0))
    assert (fitted.rounds_[0].release.estimate == one.pooled(fitted, 1, ["north", "west"])).all()
    assert any(fault.startswith("south: ") for fault in fitted.faults_)


class Bomb:
    def __init__(self, place: Path) -> None:
        self.place = place

    def __reduce__(self) -> Any:
        return (os.mkdir, (str(self.place),))


def test_a_message_never_runs_code_on_either_side(tmp_path: Path) -> None:
    one = World(tmp_path / "world", trust=Trust.CENTRAL, rounds=1)
    nodes, bomb = one.nodes(), pickle.dumps(Bomb(tmp_path / "ran"))

    class Bombing:
        def reply(self, stage: str, request: bytes) -> bytes:
            told = Reply.claimed(nodes["south"].reply(stage, request))
            return Reply(name="south", stage=stage, request=told.request, body=bomb).signed(one.identities["south"])

    with (
        listening(tmp_path, {name: one.identities[name] for name in one.names}) as at,
        on_line(at, tmp_path, one.identities["north"], nodes["north"]),
        on_line(at, tmp_path, one.identities["west"], nodes["west"]),
        on_line(at, tmp_path, one.identities["south"], Bombing()),
    ):
        for stage in ("plan", "vote", "advertise", "share", "mask", "confirm", "reveal", "shuffle"):
            answers = dict(at.ask(stage, {"north": bomb}, 60.0))
            refused = Reply.verified(answers["north"], one.roster["north"]).refused
            assert refused == "the request is malformed, comes out of turn, or breaks a rule of this party"
        fitted = one.fit_with(connected(at), one.federation(timeout=600.0))
    assert (fitted.rounds_[0].release.estimate == one.pooled(fitted, 1, ["north", "west"])).all()
    assert not (tmp_path / "ran").exists()


def test_no_module_of_a_live_federation_can_run_what_it_is_sent() -> None:
    """Neither pickles nor Flower nor anything that runs text is loaded by a node; and little else is."""
    program = (
        "import sys, recordwise.federation.nodes; "
        "print(sorted({name.partition('.')[0] for name in sys.modules} & "
        "{'flwr', 'torch', 'sklearn', 'scipy', 'pandas', 'joblib', 'cloudpickle', 'ray'}))"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
    for source in (Path(door_module.__file__).parent).rglob("*.py"):
        text = source.read_text()
        for word in ("pickle.load", "joblib.load", "eval(", "exec(", "subprocess", "allow_pickle=True"):
            assert word not in text, f"{source.name} holds {word}"


def test_a_certificate_is_the_same_whenever_it_is_made_and_holds_the_identity(tmp_path: Path) -> None:
    key = identity_key()
    assert certificate_of(key) == certificate_of(key)
    assert identity_in(certificate_of(key), "it") == public_identity(key)
    other = Ed25519PrivateKey.generate()
    for wrong in (
        b"",
        b"rubbish",
        certificate_of(key)[:-40],
        b"x" * 10_000,
        like(certificate_of(key), other, Ed25519PrivateKey.generate()),
    ):
        with pytest.raises(InvalidInput, match="must be a certificate"):
            identity_in(wrong, "it")
    assert not list(tmp_path.iterdir())
    tls_context(key, [], tmp_path, server_side=True)
    assert not list(tmp_path.iterdir())  # the key's file is gone


def test_who_is_not_registered_is_named_before_the_run_begins(tmp_path: Path) -> None:
    from federation.wire import Wire

    wire = Wire(tmp_path, "north", "south", "west")
    folder = wire.coordinator("one")
    for place in (folder / "nodes").iterdir():
        if place.stem == wire.identities["west"]:
            place.unlink()
    with pytest.raises(InvalidInput, match="must be registered, west is not"):
        door(folder, host="127.0.0.1", port=0)
    register(folder, [tmp_path / "west" / "node.crt"])
    with door(folder, host="127.0.0.1", port=0) as at:
        assert at.nodes() == []
        with pytest.raises(InvalidInput, match="must be an address to listen on"):
            door(folder, host="127.0.0.1", port=at.address[1])
    with pytest.raises(InvalidInput, match="could not be read"):
        register(folder, [tmp_path / "nothing.crt"])
    wire.stop()


@pytest.mark.parametrize("address", ["", "here", "here:", ":1", "here:x", "here:0", "here:65536"])
def test_an_address_is_a_host_and_a_port(address: str) -> None:
    assert host_and_port("hub.example:9600") == ("hub.example", 9600)
    assert host_and_port("[::1]:9600") == ("::1", 9600)
    with pytest.raises(InvalidInput, match="host:port"):
        host_and_port(address)


def test_requests_name_one_of_the_known_stages() -> None:
    frame = request_frame(7, "vote", b"abc")
    assert read_request(frame[HEAD:]) == (7, "vote", b"abc")
    for wrong in (b"", frame[HEAD : HEAD + 8], frame[HEAD : HEAD + 8] + b"\x09"):
        with pytest.raises(ProtocolFault, match="a number and a stage"):
            read_request(wrong)
