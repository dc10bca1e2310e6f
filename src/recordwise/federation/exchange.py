"""How requests reach nodes and replies come back: over a `Door`, or as plain calls in one process."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Protocol


class Node(Protocol):
    """A silo or a shuffler."""

    def reply(self, stage: str, request: bytes) -> bytes: ...


class Exchange(Protocol):
    """One request to each of some nodes, and the replies that come in time, in any order and number.

    Nodes are called by their names. A reply is handed on as it came: whoever asks checks who signed it.
    """

    def nodes(self) -> list[str]: ...

    def ask(self, stage: str, requests: Mapping[str, bytes], timeout: float) -> Iterable[tuple[str, bytes]]: ...


class InProcess:
    """Nodes that are objects here: for trials and tests."""

    def __init__(self, nodes: Mapping[str, Node]) -> None:
        self._nodes = dict(nodes)

    def nodes(self) -> list[str]:
        return sorted(self._nodes)

    def ask(self, stage: str, requests: Mapping[str, bytes], timeout: float) -> Iterable[tuple[str, bytes]]:
        for name, request in requests.items():
            yield name, self._nodes[name].reply(stage, request)
