"""A look at the queries: a few public pool samples of each, as a person would want to see them."""

from __future__ import annotations

import base64
import io
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from recordwise.data import Kind, Samples, kind_of, rows
from recordwise.labels import Labels
from recordwise.queries import Queries

QUERIES, SAMPLES, SIDE, LETTERS = 60, 8, 48, 160  # what fits a page


@dataclass(frozen=True, kw_only=True)
class Gallery:
    """Cards, largest queries first.

    Attributes:
      kind: "images" (samples are PNG data URIs), "text" (samples are strings) or "none".
      cards: Per query: its number, label, confidence, pool samples owned, and samples to show.
    """

    kind: str
    cards: list[dict[str, Any]]
    left_out: int


def gallery_of(pool: Samples, queries: Queries, labels: Labels) -> Gallery:
    """Up to QUERIES queries, spread over the classes, with up to SAMPLES pool samples each."""
    kind = kind_of(pool)
    if kind not in (Kind.IMAGES, Kind.TEXT):
        return Gallery(kind="none", cards=[], left_out=0)
    by_size = np.argsort(-queries.sizes, kind="stable")
    by_size = by_size[queries.sizes[by_size] > 0]
    # Take turns over the labels, so that a small class is seen too.
    turn = np.zeros(len(by_size), dtype=np.int64)
    for label in np.unique(labels.hard):
        mine = labels.hard[by_size] == label
        turn[mine] = np.arange(mine.sum())
    chosen = by_size[np.lexsort((np.arange(len(by_size)), turn))[:QUERIES]]
    chosen = chosen[np.lexsort((-queries.sizes[chosen], labels.hard[chosen]))]
    cards = []
    for query in chosen:
        members = np.flatnonzero(queries.owner == query)
        some = rows(pool, members[np.linspace(0, len(members) - 1, min(SAMPLES, len(members))).astype(np.int64)])
        cards.append(
            {
                "query": int(query),
                "label": int(labels.hard[query]),
                "confidence": float(labels.confidence[query]),
                "size": int(queries.sizes[query]),
                "samples": [picture(image) for image in some] if kind is Kind.IMAGES else [snippet(t) for t in some],
            }
        )
    return Gallery(kind=str(kind), cards=cards, left_out=len(by_size) - len(chosen))


def picture(image: NDArray[Any]) -> str:
    """An image as a small PNG in a data URI."""
    from PIL import Image

    pixels = np.asarray(image, dtype=np.float64)
    if pixels.ndim == 3 and pixels.shape[-1] == 1:
        pixels = pixels[..., 0]
    low, high = pixels.min(), pixels.max()
    if np.asarray(image).dtype != np.uint8:
        pixels = (pixels - low) / max(high - low, 1e-9) * 255
    picture = Image.fromarray(pixels.round().clip(0, 255).astype(np.uint8))
    picture.thumbnail((SIDE, SIDE))
    file = io.BytesIO()
    picture.save(file, format="PNG", optimize=True)
    return "data:image/png;base64," + base64.b64encode(file.getvalue()).decode()


def snippet(text: str) -> str:
    """The beginning of a text, in one line."""
    text = " ".join(str(text).split())
    return text if len(text) <= LETTERS else text[: LETTERS - 1] + "…"
