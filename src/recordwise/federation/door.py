"""The coordinator's door: one port, mutual TLS, and behind it nothing but requests and replies.

Nodes dial in, because they sit behind firewalls. Whoever lacks the key of a registered certificate fails the
handshake, and is neither asked nor heard. Nothing can be submitted, registered or started through the port: that takes
a shell on the coordinator's own machine.
"""

from __future__ import annotations

import asyncio
import logging
import queue
import socket
import ssl
import threading
from collections.abc import Coroutine, Iterator, Mapping
from typing import Any, Self

from recordwise.errors import InvalidInput, ProtocolFault
from recordwise.federation.certificates import peer_of
from recordwise.federation.frames import read_reply, request_frame, stay_alive
from recordwise.formats.framing import LENGTH, length_of

log = logging.getLogger("recordwise.federation")

HANDSHAKE = 10.0  # seconds until a connection must have shown its key
GUESTS = 64  # connections that may be about to show it at once; more are closed unheard
TRIES = 5  # times a request is sent anew to a node that hung up instead of answering


class Door:
    """Registered nodes as an `Exchange`, whose nodes are called by the names they are registered under.

    Guarantees:
      - a node is who its certificate says: nobody else's message is taken for its own, and it has one connection, the
        newest;
      - a request reaches a node again after it comes back, until `timeout`; a node that hangs up, stalls or sends what
        is no frame costs nobody but itself an answer.

    Args:
      context: Of TLS; trusts the registered certificates and no other.
      names: What the holder of each certificate, told by its fingerprint, is called.
      port: Zero picks a free one; `address` tells.
    """

    def __init__(
        self, context: ssl.SSLContext, names: Mapping[bytes, str], host: str = "127.0.0.1", port: int = 0
    ) -> None:
        self._context, self._names = context, dict(names)
        self._lines: dict[str, _Line] = {}
        self._came = {name: asyncio.Event() for name in self._names.values()}
        self._asking = {name: asyncio.Lock() for name in self._names.values()}
        self._guests, self._number = 0, 0
        self._tasks: set[asyncio.Task[None]] = set()
        try:
            self._listener = socket.create_server((host, port), backlog=GUESTS)
        except OSError as error:
            raise InvalidInput(f"{host}:{port} must be an address to listen on: {error.strerror}") from error
        self._listener.setblocking(False)
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="door", daemon=True)

    @property
    def address(self) -> tuple[str, int]:
        host, port = self._listener.getsockname()[:2]
        return host, port

    def __enter__(self) -> Self:
        self._thread.start()
        self._call(self._start(self._accept()))
        return self

    def __exit__(self, *_: object) -> None:
        self._call(self._close())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()
        self._listener.close()

    def nodes(self) -> list[str]:
        """Who is connected."""
        return sorted(name for name, line in list(self._lines.items()) if line.open)

    def ask(self, stage: str, requests: Mapping[str, bytes], timeout: float) -> Iterator[tuple[str, bytes]]:
        """The replies that come in time, as they come."""
        answers: queue.SimpleQueue[tuple[str, bytes | None]] = queue.SimpleQueue()

        async def one(name: str, content: bytes) -> None:
            answer = None
            try:
                async with asyncio.timeout(timeout):
                    answer = await self._asked(name, stage, content)
            except TimeoutError:
                log.info("%s did not answer %r in time", name, stage)
            finally:
                answers.put((name, answer))

        asked = [asyncio.run_coroutine_threadsafe(one(name, content), self._loop) for name, content in requests.items()]
        try:
            for _ in asked:
                name, answer = answers.get()
                if answer is not None:
                    yield name, answer
        finally:
            for task in asked:
                task.cancel()

    async def _asked(self, name: str, stage: str, content: bytes) -> bytes | None:
        if name not in self._asking:
            return None
        async with self._asking[name]:
            for _ in range(TRIES):
                line = await self._line(name)
                self._number += 1
                try:
                    return await line.asked(self._number, stage, content)
                except (OSError, EOFError, ProtocolFault) as fault:
                    log.info("%s hung up: %s", name, fault)
                    line.hang_up()
                except BaseException:  # out of time, in the middle of a frame: the rest must not be taken for another
                    line.hang_up()
                    raise
        return None

    async def _line(self, name: str) -> _Line:
        """The node's connection, once there is one."""
        while (line := self._lines.get(name)) is None or not line.open:
            self._came[name].clear()
            await self._came[name].wait()
        return line

    async def _accept(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            try:
                connection, _ = await loop.sock_accept(self._listener)
            except OSError:  # out of descriptors, or the stranger is gone already
                await asyncio.sleep(0.1)
                continue
            if self._guests >= GUESTS:
                connection.close()
            else:
                self._guests += 1  # at once: several that are waiting are accepted before the first is greeted
                await self._start(self._greet(connection))

    async def _greet(self, connection: socket.socket) -> None:
        """Let a connection in if it shows a registered key in time."""
        try:
            stay_alive(connection)
            reader = asyncio.StreamReader()
            protocol = asyncio.StreamReaderProtocol(reader)
            transport, _ = await asyncio.get_running_loop().connect_accepted_socket(
                lambda: protocol,
                connection,
                ssl=self._context,
                ssl_handshake_timeout=HANDSHAKE,
                ssl_shutdown_timeout=1.0,
            )
        except OSError as fault:
            log.info("somebody without a registered key was turned away: %s", type(fault).__name__)
            connection.close()
            return
        except asyncio.CancelledError:  # the door closes
            connection.close()
            raise
        finally:
            self._guests -= 1
        name = self._names.get(peer_of(transport.get_extra_info("ssl_object")))
        if name is None:
            transport.abort()
            return
        if name in self._lines:
            self._lines[name].hang_up()
        self._lines[name] = _Line(reader, asyncio.StreamWriter(transport, protocol, reader, self._loop))
        self._came[name].set()

    async def _start(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _close(self) -> None:
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        for line in self._lines.values():
            line.hang_up()
        for _ in range(3):  # transports close in the loop's next turns: TLS, and the connection under it
            await asyncio.sleep(0)

    def _call(self, work: Coroutine[Any, Any, None]) -> None:
        asyncio.run_coroutine_threadsafe(work, self._loop).result()


class _Line:
    """One node's connection."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader, self._writer = reader, writer

    @property
    def open(self) -> bool:
        return not (self._reader.at_eof() or self._writer.is_closing())

    async def asked(self, number: int, stage: str, content: bytes) -> bytes:
        self._writer.write(request_frame(number, stage, content))
        await self._writer.drain()
        length = length_of(await self._reader.readexactly(LENGTH.size))
        answered, reply = read_reply(await self._reader.readexactly(length))
        if answered != number:
            raise ProtocolFault("it answered what it was not asked")
        return reply

    def hang_up(self) -> None:
        self._writer.transport.abort()
