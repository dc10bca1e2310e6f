"""One-record devices in Flower's simulation engine: each gets the public task, and sends one small message.

The device's side is `recordwise.device`, which needs NumPy alone; Flower carries its bytes. Flower is an engine for
simulation here and nothing more: no live run uses it, and the apps below exist only inside `simulate_devices`, so
there is nothing that a Flower deployment could load.
"""

from __future__ import annotations

import hashlib
import io
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import recordwise.extras.flower  # noqa: F401

from flwr.app import ConfigRecord, Context, Message, MessageType, RecordDict
from flwr.clientapp import ClientApp
from flwr.serverapp import Grid, ServerApp
from flwr.simulation import run_simulation

from recordwise.device import Task
from recordwise.errors import ProtocolFault
from recordwise.privacy.noise import SystemNoise
from recordwise.protocols.local import Inbox
from recordwise.protocols.local.answers import ID_BYTES

Record = tuple[Any, Sequence[int]]  # a vector and its labels
REQUEST, REPLY = "request", "reply"
PAUSE = 0.3  # seconds between looks for replies


def task_bytes(task: Task) -> bytes:
    file = io.BytesIO()
    task.save(file)  # type: ignore[arg-type]  # NumPy writes to files as to paths
    return file.getvalue()


def task_from(content: bytes) -> Task:
    return Task.load(content)


def simulate_devices(task: Task, record_of: Callable[[int], Record], *, devices: int, timeout: float) -> Inbox:
    """Ask each of so many devices once, in Flower's simulation engine; gives what came back in time.

    Args:
      record_of: The record of the device with this number: Flower's `partition-id`.
    """
    client, server, inbox = ClientApp(), ServerApp(), Inbox(task.mechanism)

    @client.query()
    def answer(message: Message, context: Context) -> Message:
        content = message.content.config_records[REQUEST]["content"]
        number = context.node_config["partition-id"]
        if not (isinstance(content, bytes) and isinstance(number, int)):
            raise ProtocolFault("a device must be given a task and a number, this one is not")
        vector, labels = record_of(number)
        identity = hashlib.sha256(f"device {number}".encode()).digest()[:ID_BYTES]
        reply = task_from(content).answer(vector, labels, SystemNoise(), identity)
        return Message(RecordDict({REPLY: ConfigRecord({"content": reply})}), reply_to=message)

    @server.main()
    def main(grid: Grid, context: Context) -> None:
        end = time.monotonic() + timeout
        while len(nodes := sorted(grid.get_node_ids())) < devices:
            if time.monotonic() >= end:
                raise ProtocolFault(f"{devices} devices must be there, {len(nodes)} are")
            time.sleep(PAUSE)
        for frame in _replies(grid, nodes, task_bytes(task), end):
            inbox.receive(frame)

    run_simulation(
        server_app=server,
        client_app=client,
        num_supernodes=devices,
        backend_config={"client_resources": {"num_cpus": 1, "num_gpus": 0.0}, "init_args": {"num_cpus": 2}},
    )
    return inbox


def _replies(grid: Grid, nodes: list[int], content: bytes, end: float) -> Iterator[bytes]:
    """As Flower's `send_and_receive`, which looks only every three seconds."""
    messages = [
        Message(
            RecordDict({REQUEST: ConfigRecord({"content": content})}),
            dst_node_id=node,
            message_type=MessageType.QUERY,
            ttl=max(1.0, end - time.monotonic()),
        )
        for node in nodes
    ]
    waiting = set(grid.push_messages(messages))
    while waiting and time.monotonic() < end:
        for message in grid.pull_messages(waiting):
            waiting.discard(message.metadata.reply_to_message_id)
            if not message.has_error() and REPLY in message.content.config_records:
                reply = message.content.config_records[REPLY].get("content")
                if isinstance(reply, bytes):
                    yield reply
        if waiting:
            time.sleep(PAUSE)
