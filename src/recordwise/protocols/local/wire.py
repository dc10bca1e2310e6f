"""Messages as bytes: a header of 16 bytes, then as many answers as it announces.

    "RW"  version  flags  digest of the parameters (8)  count (4, big endian)  [ids: 16 each]  [answers]

One device sends a frame with one answer; a collector may put many into one. Answers of one mechanism all have the same
length, which follows from the public parameters, so a frame's length is known from its header: whatever is longer,
shorter or impossible is refused whole.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable

import numpy as np

from recordwise.errors import InvalidInput, ProtocolFault
from recordwise.protocols.local.answers import ID_BYTES, Answers
from recordwise.protocols.local.mechanism import LocalMechanism
from recordwise.protocols.local.parameters import digest

MAGIC, VERSION = b"RW", 1
HAS_IDS, SEEDED = 1, 2  # flags
_HEADER = struct.Struct(">2sBB8sI")


def pack(mechanism: LocalMechanism, answers: Answers) -> bytes:
    """A frame with these answers."""
    if answers.bodies.shape[1] != mechanism.message_size:
        raise InvalidInput(f"answers must have {mechanism.message_size} bytes, got {answers.bodies.shape[1]}")
    flags = (HAS_IDS if answers.ids is not None else 0) | (0 if answers.private else SEEDED)
    header = _HEADER.pack(MAGIC, VERSION, flags, digest(mechanism), len(answers))
    ids = b"" if answers.ids is None else answers.ids.tobytes()
    return header + ids + answers.bodies.tobytes()


def unpack(mechanism: LocalMechanism, frame: bytes) -> Answers:
    """The answers in a frame, every one of them possible under the mechanism's parameters."""
    if len(frame) < _HEADER.size:
        raise ProtocolFault(f"a frame must have a header of {_HEADER.size} bytes, got {len(frame)} bytes")
    magic, version, flags, parameters, count = _HEADER.unpack_from(frame)
    if magic != MAGIC:
        raise ProtocolFault(f"a frame must begin with {MAGIC!r}, got {magic!r}")
    if version != VERSION:
        raise ProtocolFault(f"a frame must be of version {VERSION}, got {version}")
    if flags & ~(HAS_IDS | SEEDED):
        raise ProtocolFault(f"a frame's flags must lie below 4, got {flags}")
    if parameters != digest(mechanism):
        raise ProtocolFault(
            f"a frame must be made for parameters {digest(mechanism).hex()} ({mechanism.name}), got {parameters.hex()}"
        )
    id_size = ID_BYTES if flags & HAS_IDS else 0
    expected = _HEADER.size + count * (id_size + mechanism.message_size)
    if len(frame) != expected:
        raise ProtocolFault(f"a frame of {count} answers must have {expected} bytes, got {len(frame)}")
    content = np.frombuffer(frame, dtype=np.uint8, offset=_HEADER.size)
    border = count * id_size
    bodies = content[border:].reshape(count, mechanism.message_size)
    mechanism.check(bodies)
    ids = content[:border].reshape(count, ID_BYTES) if id_size else None
    return Answers(bodies, ids, private=not flags & SEEDED)


class Inbox:
    """Frames as they arrive at a server, each sender's answer once.

    Guarantees:
      - a frame that is refused leaves no trace: none of its answers are counted, and none of its ids are taken;
      - an id is accepted once. Answers without ids cannot be told apart and are all counted.
    """

    def __init__(self, mechanism: LocalMechanism) -> None:
        self.mechanism = mechanism
        self.answers: list[Answers] = []
        self._seen: set[bytes] = set()

    def receive(self, frame: bytes) -> int:
        """Take in a frame; how many answers it held."""
        answers = unpack(self.mechanism, frame)
        if answers.ids is not None:
            ids = [bytes(row) for row in answers.ids]
            fresh = set(ids)
            if len(fresh) < len(ids):
                raise ProtocolFault(f"an id must be used once, this frame repeats {_repeated(ids).hex()}")
            if taken := fresh & self._seen:
                raise ProtocolFault(f"an id must be used once, {min(taken).hex()} has answered before")
            self._seen |= fresh
        self.answers.append(answers)
        return len(answers)

    def __len__(self) -> int:
        return sum(map(len, self.answers))


def _repeated(ids: Iterable[bytes]) -> bytes:
    seen: set[bytes] = set()
    return next(item for item in ids if item in seen or seen.add(item))  # type: ignore[func-returns-value]
