"""Where the documentation's pictures lie, the browser that takes them, and how they are kept: small."""

from __future__ import annotations

import sys
from pathlib import Path

from PIL import Image

ROOT = Path(__file__).resolve().parent.parent
FIGURES = ROOT / "docs" / "figures"
COLOURS = 128  # enough for a page

sys.path.append(str(ROOT / "tests"))
from browsers import launched  # noqa: E402  # it lies there

__all__ = ["FIGURES", "ROOT", "keep", "launched"]


def keep(place: Path, *, top: int = 0, height: int | None = None) -> None:
    """Write a screenshot again with few colours, from that row on."""
    with Image.open(place) as taken:
        bottom = taken.height if height is None else top + height
        seen = taken.convert("RGB").crop((0, top, taken.width, bottom))
    seen.quantize(COLOURS).save(place, optimize=True)
    print(place.name, place.stat().st_size)
