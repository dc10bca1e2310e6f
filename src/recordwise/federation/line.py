"""A node's line to its coordinator: dial, answer what is asked, dial again when it breaks."""

from __future__ import annotations

import logging
import socket
import ssl
import time
from typing import NoReturn

from recordwise.errors import InvalidInput, ProtocolFault
from recordwise.federation.exchange import Node
from recordwise.federation.frames import read_request, reply_frame, stay_alive
from recordwise.formats.framing import LENGTH, length_of

log = logging.getLogger("recordwise.federation")

DIAL = 10.0  # seconds to connect and to see the coordinator's certificate
FRAME = 120.0  # seconds for the rest of a frame that has begun, either way
SOONEST, LATEST = 0.25, 3.0  # seconds until a line that broke is dialled again; doubled each time


def stay_on_line(node: Node, address: tuple[str, int], context: ssl.SSLContext) -> NoReturn:
    """Answer the coordinator for as long as this process lives.

    Guarantees:
      - it talks to the holder of the one certificate that `context` trusts, and to nobody else;
      - all it does with what comes is to hand it to `node.reply`.
    """
    pause, said = SOONEST, ""
    while True:
        try:
            with socket.create_connection(address, timeout=DIAL) as plain:
                stay_alive(plain)
                with context.wrap_socket(plain) as line:
                    _next(line, node)  # under TLS 1.3 a node learns that it was turned away when it first listens
                    pause, said = SOONEST, ""
                    log.info("connected")
                    while True:
                        _next(line, node)
        except ssl.SSLCertVerificationError:
            reason = "whoever answers there does not hold the coordinator's certificate"
        except (OSError, ProtocolFault) as fault:
            turned_away = isinstance(fault, ssl.SSLError) and "ALERT" in str(fault.reason)
            reason = f"no line to the coordinator: {fault}"
            if turned_away:
                reason = "the coordinator does not let this node in: has it registered this node's certificate?"
        if reason != said:  # once, not every few seconds
            log.warning("%s", reason)
            said = reason
        time.sleep(pause)
        pause = min(2 * pause, LATEST)


def _next(line: ssl.SSLSocket, node: Node) -> None:
    """Wait for one request and answer it."""
    line.settimeout(None)
    head = _exactly(line, 1)  # however long it takes
    line.settimeout(FRAME)
    head += _exactly(line, LENGTH.size - 1)
    number, stage, content = read_request(_exactly(line, length_of(head)))
    line.settimeout(None)
    answer = reply_frame(number, node.reply(stage, content))
    line.settimeout(FRAME)
    line.sendall(answer)


def _exactly(line: ssl.SSLSocket, size: int) -> bytes:
    content = bytearray()
    while len(content) < size:
        part = line.recv(min(size - len(content), 1 << 20))
        if not part:
            raise ConnectionResetError("the coordinator hung up")
        content += part
    return bytes(content)


def host_and_port(address: str) -> tuple[str, int]:
    """An address as somebody wrote it."""
    host, _, port = address.rpartition(":")
    if not (host and port.isdecimal() and 0 < int(port) < 2**16):
        raise InvalidInput(f"address must be host:port, got {address!r}")
    return host.strip("[]"), int(port)
