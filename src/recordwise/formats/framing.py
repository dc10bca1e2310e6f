"""Bytes on a stream: every frame begins with four bytes, big endian, that say how many follow."""

from __future__ import annotations

import struct

from recordwise.errors import ProtocolFault

LENGTH = struct.Struct(">I")
LARGEST = 1 << 28  # bytes of one frame


def framed(*parts: bytes) -> bytes:
    """The parts as one frame."""
    content = b"".join(parts)
    return LENGTH.pack(_checked(len(content))) + content


def length_of(head: bytes) -> int:
    """How many bytes follow."""
    return _checked(int(LENGTH.unpack(head)[0]))


def _checked(length: int) -> int:
    if length > LARGEST:
        raise ProtocolFault(f"a frame must have at most {LARGEST:,} bytes, got {length:,}")
    return length
