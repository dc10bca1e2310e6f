"""Parts by name that other packages bring, as entry points of the groups `recordwise.encoders`, `recordwise.queries`,
`recordwise.decoders` and `recordwise.students`. Mechanisms have a registry of their own, `protocols.registry`.
"""

from __future__ import annotations

from importlib.metadata import entry_points
from typing import Any


def brought(part: str, name: object) -> Any | None:
    """What another package brings under that name, loaded; None where nobody does."""
    for found in entry_points(group=f"recordwise.{part}"):
        if found.name == name:
            return found.load()
    return None
