"""One-record devices as Flower clients: each gets the public task, and sends one small message under local trust.

The device's side is `recordwise.device`, which needs NumPy alone; Flower carries its bytes. In Flower's simulation
engine thousands of such clients run on one machine, through the real message path.
"""

from __future__ import annotations

import hashlib
import io
from collections.abc import Callable, Sequence
from typing import Any

import recordwise.extras.federation  # noqa: F401

from flwr.app import ConfigRecord, Context, Message, RecordDict
from flwr.clientapp import ClientApp
from flwr.serverapp import Grid, ServerApp

from recordwise.device import Task
from recordwise.errors import ProtocolFault
from recordwise.federation.exchange import REPLY, REQUEST, OverGrid
from recordwise.privacy.noise import SystemNoise
from recordwise.protocols.local import Inbox
from recordwise.protocols.local.answers import ID_BYTES
from recordwise.protocols.release import Tally

Record = tuple[Any, Sequence[int]]  # a vector and its labels


def task_bytes(task: Task) -> bytes:
    file = io.BytesIO()
    task.save(file)  # type: ignore[arg-type]  # NumPy writes to files as to paths
    return file.getvalue()


def task_from(content: bytes) -> Task:
    return Task.load(io.BytesIO(content))  # type: ignore[arg-type]


def device_app(record_of: Callable[[int], Record]) -> ClientApp:
    """A device that holds the record of its own number: Flower's `partition-id`."""
    app = ClientApp()

    @app.query()
    def answer(message: Message, context: Context) -> Message:
        content = message.content.config_records[REQUEST]["content"]
        number = context.node_config["partition-id"]
        if not (isinstance(content, bytes) and isinstance(number, int)):
            raise ProtocolFault("a device must be given a task and a number, this one is not")
        vector, labels = record_of(number)
        identity = hashlib.sha256(f"device {number}".encode()).digest()[:ID_BYTES]
        reply = task_from(content).answer(vector, labels, SystemNoise(), identity)
        return Message(RecordDict({REPLY: ConfigRecord({"content": reply})}), reply_to=message)

    return app


def server_app(task: Task, *, devices: int, timeout: float, done: Callable[[Tally, Inbox], None]) -> ServerApp:
    """Asks every device once, and decodes what comes back in time.

    Args:
      devices: Wait until so many are there.
      done: Called with the tally, and the inbox it was decoded from.
    """
    app = ServerApp()

    @app.main()
    def main(grid: Grid, context: Context) -> None:
        exchange, inbox = OverGrid(grid), Inbox(task.mechanism)
        nodes = exchange.awaited(devices, timeout)
        for _, frame in exchange.ask("task", dict.fromkeys(nodes, task_bytes(task)), timeout):
            inbox.receive(frame)
        done(task.mechanism.server(inbox.answers, SystemNoise()), inbox)

    return app
