"""Networks' weights: safetensors, which hold numbers and no code."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from recordwise.extras.asking import optional

from recordwise.formats.documents import json_from
from recordwise.formats.files import content_of, understood

if TYPE_CHECKING:
    from torch import Tensor

MOST_WEIGHTS, MOST_HEADER = 1 << 34, 1 << 24  # bytes


def safetensors_file(path: Path) -> dict[str, Tensor]:
    """The tensors of a file by their names."""
    library = optional("safetensors.torch", "a file of weights", extra="torch")
    content = content_of(path, most=MOST_WEIGHTS)
    with understood(f"the weights {path.name}"):
        header = int.from_bytes(content[:8], "little")
        json_from(content[8 : 8 + min(header, MOST_HEADER + 1)], f"the header of {path.name}", most=MOST_HEADER)
        kept: dict[str, Tensor] = library.load(content)
    return kept
