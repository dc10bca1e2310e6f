"""An encoder on the wire: as `recordwise.stored` writes it, made of encoders alone, and small.

A pickled encoder would let a coordinator run anything on a silo's machine. Here an encoder is the name of a class that
both sides have installed, out of a short list, and the values of its attributes.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from numpy.typing import NDArray

from recordwise import stored
from recordwise.errors import InvalidInput, ProtocolFault
from recordwise.hashing import digest_of

MOST_UNPACKED, MOST_ENTRIES = 1 << 28, 10_000
# What a step is given and makes of a record is as long as a side of some array. So short, one record fits any memory,
# and `recordwise.encoders.encoding` takes as many at a time as fit. An empty array may have a side of any length.
MOST_SIDE = 1 << 20


def to_bytes(encoder: Any) -> bytes:
    """An encoder as data."""
    try:
        return stored.to_bytes(encoder, stored.ENCODERS)
    except stored.NotPlain as fault:
        raise InvalidInput(f"an encoder to be sent to silos {fault}; others must be installed on each silo") from fault


def from_bytes(content: bytes) -> Any:
    """The encoder that `to_bytes` wrote."""
    with _faults():
        return stored.from_parts(*_parts(content), stored.ENCODERS)


def shown_as(content: bytes) -> str:
    """What a person reads about an encoder: what it runs, how large it is, and its SHA-256."""
    with _faults():
        description, arrays = _parts(content)
    names = (name.rpartition(".")[2].lstrip("_") for name in stored.names_in(description, stored.ENCODERS))
    numbers = sum(array.size for array in arrays.values())
    runs = ", ".join(dict.fromkeys(names)) or "nothing"
    return f"{runs}; {numbers:,} numbers, {len(content):,} bytes, SHA-256 {digest_of(content)}"


def _parts(content: bytes) -> tuple[Any, dict[str, NDArray[Any]]]:
    """What an encoder is made of, before any of it is built."""
    tree, arrays = stored.unpacked(content, most=MOST_UNPACKED, entries=MOST_ENTRIES)
    if any(side > MOST_SIDE for array in arrays.values() for side in array.shape):
        raise InvalidInput(f"must be made of arrays with at most {MOST_SIDE:,} numbers to a side, it has longer ones")
    return tree, arrays


@contextmanager
def _faults() -> Iterator[None]:
    """What comes from another party is at fault, and not what somebody put in here."""
    try:
        yield
    except InvalidInput as fault:
        raise ProtocolFault(f"an encoder {fault}") from fault
