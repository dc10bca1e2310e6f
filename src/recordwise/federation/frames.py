"""What travels inside TLS: requests and replies as bytes, each with its length and the number it belongs to.

    request   length (4)  number (8)  stage (1)  content
    reply     length (4)  number (8)  content

A length counts what follows it. There is nothing else: no control messages, no names of functions, no code.
"""

from __future__ import annotations

import socket
import struct

from recordwise.errors import ProtocolFault
from recordwise.formats.framing import framed

STAGES = ("plan", "vote", "advertise", "share", "mask", "confirm", "reveal", "shuffle")
NUMBER = struct.Struct(">Q")
ASKED = struct.Struct(">QB")


def request_frame(number: int, stage: str, content: bytes) -> bytes:
    return framed(ASKED.pack(number, STAGES.index(stage)), content)


def reply_frame(number: int, content: bytes) -> bytes:
    return framed(NUMBER.pack(number), content)


def read_request(body: bytes) -> tuple[int, str, bytes]:
    """Number, stage and content of a request."""
    if len(body) < ASKED.size or body[NUMBER.size] >= len(STAGES):
        raise ProtocolFault("a request must have a number and a stage, one has not")
    number, stage = ASKED.unpack_from(body)
    return number, STAGES[stage], body[ASKED.size :]


def read_reply(body: bytes) -> tuple[int, bytes]:
    """Number and content of a reply."""
    if len(body) < NUMBER.size:
        raise ProtocolFault("a reply must have a number, one has not")
    return NUMBER.unpack_from(body)[0], body[NUMBER.size :]


def stay_alive(connection: socket.socket) -> None:
    """Let the system notice within a minute that the other end is gone, however long it may be silent."""
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    for option, value in (("TCP_KEEPIDLE", 20), ("TCP_KEEPINTVL", 10), ("TCP_KEEPCNT", 4)):
        if hasattr(socket, option):
            connection.setsockopt(socket.IPPROTO_TCP, getattr(socket, option), value)
