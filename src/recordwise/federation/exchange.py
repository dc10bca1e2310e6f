"""How requests reach nodes and replies come back; Flower over a network, or plain calls in one process."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Protocol

from recordwise.errors import ProtocolFault

if TYPE_CHECKING:
    from flwr.app import Message
    from flwr.serverapp import Grid

PAUSE = 0.3  # seconds between looks for replies
REQUEST, REPLY = "request", "reply"


class Node(Protocol):
    """A silo or a shuffler."""

    def reply(self, stage: str, request: bytes) -> bytes: ...


class Exchange(Protocol):
    """One request to each of some nodes, and the replies that come in time, in any order and number."""

    def nodes(self) -> list[int]: ...

    def ask(self, stage: str, requests: Mapping[int, bytes], timeout: float) -> Iterable[tuple[int, bytes]]: ...


class InProcess:
    """Nodes that are objects here: for trials and tests."""

    def __init__(self, nodes: Mapping[int, Node]) -> None:
        self._nodes = dict(nodes)

    def nodes(self) -> list[int]:
        return sorted(self._nodes)

    def ask(self, stage: str, requests: Mapping[int, bytes], timeout: float) -> Iterable[tuple[int, bytes]]:
        for number, request in requests.items():
            yield number, self._nodes[number].reply(stage, request)


class OverGrid:
    """Nodes behind a Flower SuperLink."""

    def __init__(self, grid: Grid) -> None:
        self._grid = grid

    def nodes(self) -> list[int]:
        return sorted(self._grid.get_node_ids())

    def awaited(self, count: int, timeout: float) -> list[int]:
        """The nodes, once there are so many."""
        end = time.monotonic() + timeout
        while len(nodes := self.nodes()) < count:
            if time.monotonic() >= end:
                raise ProtocolFault(f"{count} nodes must be there, {len(nodes)} are")
            time.sleep(PAUSE)
        return nodes

    def ask(self, stage: str, requests: Mapping[int, bytes], timeout: float) -> Iterable[tuple[int, bytes]]:
        from flwr.app import ConfigRecord, Message, MessageType, RecordDict

        messages = [
            Message(
                RecordDict({REQUEST: ConfigRecord({"stage": stage, "content": request})}),
                dst_node_id=node,
                message_type=MessageType.QUERY,
                ttl=timeout,
            )
            for node, request in requests.items()
        ]
        for message in self._replies(messages, timeout):
            if message.has_error() or REPLY not in message.content.config_records:
                continue  # a node that fails has not answered
            content = message.content.config_records[REPLY].get("content")
            if isinstance(content, bytes):
                yield message.metadata.src_node_id, content

    def _replies(self, messages: list[Message], timeout: float) -> Iterable[Message]:
        """As Flower's `send_and_receive`, which looks only every three seconds."""
        waiting, end = set(self._grid.push_messages(messages)), time.monotonic() + timeout
        while waiting and time.monotonic() < end:
            for message in self._grid.pull_messages(waiting):
                waiting.discard(message.metadata.reply_to_message_id)
                yield message
            if waiting:
                time.sleep(PAUSE)
