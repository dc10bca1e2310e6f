"""The forms that messages may have: what comes from another party is measured before anything is made of it.

Whatever is sent, a reader here gives a value or a `ProtocolFault`: text is valid Unicode, names can be printed, numbers
are finite, and an array is exactly as long as its header says, before it is allocated.
"""

from __future__ import annotations

import io
import json
from typing import Any

from numpy.lib import format as npy
from numpy.typing import NDArray

from recordwise import formats
from recordwise.errors import InvalidInput, ProtocolFault, shown

MOST_JSON = 1 << 26  # bytes
MOST_NAME = 64  # characters
PLAIN = "fiubU"  # kinds of arrays that hold no code: floats, whole numbers, bytes, booleans, text


def frame(header: dict[str, Any], body: bytes = b"") -> bytes:
    """A message: one line of JSON, then bytes."""
    return json.dumps(header, sort_keys=True).encode() + b"\n" + body


def unframe(message: bytes) -> tuple[dict[str, Any], bytes]:
    line, _, body = message.partition(b"\n")
    return json_object(line), body


def json_object(content: bytes) -> dict[str, Any]:
    """A JSON object, or a fault."""
    try:
        header = formats.json_from(content, "a message", most=MOST_JSON)
    except InvalidInput as error:
        raise ProtocolFault("a message must be JSON of a sensible depth and size, one is not") from error
    if not isinstance(header, dict):
        raise ProtocolFault(f"a message must be a JSON object, got {type(header).__name__}")
    return header


def text(header: dict[str, Any], key: str) -> str:
    """A value that must be text."""
    value = header.get(key)
    if not isinstance(value, str):
        raise ProtocolFault(f"{key} must be text, got {shown(value)}")
    return value


def hexadecimal(value: object, size: int, what: str) -> bytes:
    """So many bytes, written as hexadecimal digits."""
    try:
        content = bytes.fromhex(value) if isinstance(value, str) else b""
    except ValueError:
        content = b""
    if len(content) != size:
        raise ProtocolFault(f"{what} must have {size} bytes as hexadecimal digits, got {shown(value)}")
    return content


def is_name(value: object) -> bool:
    """Whether a terminal can show it as one short word or phrase, and nothing but that."""
    return isinstance(value, str) and 0 < len(value) <= MOST_NAME and value.isprintable() and value == value.strip()


def name(value: object, what: str) -> str:
    if not is_name(value):
        raise ProtocolFault(f"{what} must be 1 to {MOST_NAME} printable characters, got {shown(value)}")
    return str(value)


def whole_number(value: object, least: int, most: int, what: str) -> int:
    if type(value) is not int or not least <= value <= most:
        raise ProtocolFault(f"{what} must be a whole number in [{least}, {most}], got {shown(value)}")
    return value


def one_line(words: object) -> str:
    """Anything as one line that is safe to print."""
    line = "".join(letter if letter.isprintable() else "?" for letter in str(words))
    return line if len(line) <= 300 else line[:297] + "..."


def array_bytes(array: NDArray[Any]) -> bytes:
    """An array as NumPy's own format."""
    file = io.BytesIO()
    npy.write_array(file, array, allow_pickle=False)
    return file.getvalue()


def array_from(content: bytes) -> NDArray[Any]:
    """The array that `array_bytes` wrote. Nothing is allocated that the content does not fill."""
    try:
        return plain(formats.array_from(content))
    except InvalidInput as error:
        raise ProtocolFault("an array must be plain numbers or text, as many as its header says, one is not") from error


def plain(array: NDArray[Any]) -> NDArray[Any]:
    """The array itself, if it is of a kind that parties exchange."""
    if array.dtype.kind not in PLAIN:
        raise ProtocolFault(f"an array must be plain numbers or text, got {array.dtype}")
    return array
