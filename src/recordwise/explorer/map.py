"""The pool as a map: near there is near in the encoder's space. With what a person sees of each sample."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

from recordwise.arrays import NOBODY
from recordwise.data import Kind, Schema, rows
from recordwise.errors import InvalidInput
from recordwise.nearest import nearest_queries
from recordwise.planner import Outlook
from recordwise.randomness import seeded
from recordwise.report.gallery import picture, snippet

SAMPLES = 800  # on the map: as many as can be told apart, and laid out in seconds
PERPLEXITY = 30.0  # neighbours that a sample is laid beside, as usual
FEW = 12  # samples below which there are no neighbourhoods to lay out
COLUMNS, LETTERS = 12, 60  # of a row, of a cell
SCALE = 1000  # coordinates are whole numbers up to this


@dataclass(frozen=True, kw_only=True)
class Map:
    """Some of the pool in two dimensions.

    Attributes:
      kind: Of samples, as they are shown: "images" are PNG data URIs, "text" is text, "rows" are pairs of a column's
        name and a cell.
      points: (n, 2) whole numbers from 0 to SCALE.
      samples: What is shown of each.
      owners: By number of queries: the query that each sample belongs to, NOBODY where so many cannot be asked.
      left_out: Samples of the pool that are not on the map.
    """

    kind: str
    points: list[list[int]]
    samples: list[Any]
    owners: dict[str, list[int]]
    left_out: int


def map_of(outlook: Outlook, schema: Schema, queries: Sequence[int], votes_per_record: int) -> Map:
    """Lay out the pool, or some of it, and find the queries that it would be asked."""
    count = outlook.num_samples
    order = np.sort(seeded(outlook.seed, "explorer", "map").permutation(count)[:SAMPLES])
    some = rows(outlook.sight.pool, order)
    vectors = outlook.sight.placed(some)
    owners = {str(size): _owners(outlook, vectors, size, votes_per_record) for size in queries}
    kind, samples = _shown(some, schema)
    return Map(
        kind=kind,
        points=_whole(laid_out(vectors, outlook.seed)).tolist(),
        samples=samples,
        owners=owners,
        left_out=count - len(order),
    )


def _owners(outlook: Outlook, vectors: NDArray[np.float32], num_queries: int, votes_per_record: int) -> list[int]:
    try:
        asked = outlook.asked(num_queries, votes_per_record)
    except InvalidInput:  # the pool has fewer different samples; the grid says so
        return [NOBODY] * len(vectors)
    nearest = nearest_queries(vectors, asked.vectors, 1, metric=asked.metric, prices=asked.prices)
    return [int(query) for query in nearest[:, 0]]


def laid_out(vectors: NDArray[np.float32], seed: int) -> NDArray[np.float64]:
    """(n, 2) t-SNE from the two principal axes; these alone where there is little to lay out."""
    centred = np.asarray(vectors, dtype=np.float64) - vectors.mean(axis=0, dtype=np.float64)
    with threadpool_limits(1):
        _, _, axes = np.linalg.svd(centred, full_matrices=False)
        flat = np.zeros((len(centred), 2))
        flat[:, : min(2, len(axes))] = centred @ axes[:2].T
        if len(flat) < FEW or len(np.unique(centred, axis=0)) < FEW:
            return flat
        from sklearn.manifold import TSNE

        begin = (flat / max(flat[:, 0].std(), np.finfo(float).tiny) * 1e-4).astype(np.float32)
        near = min(PERPLEXITY, (len(flat) - 1) / 3)
        return np.asarray(TSNE(init=begin, perplexity=near, random_state=seed).fit_transform(centred), dtype=np.float64)


def _whole(points: NDArray[np.float64]) -> NDArray[np.int64]:
    """In a square, filled both ways: what is far apart on a map has no measure anyway."""
    low, high = points.min(axis=0), points.max(axis=0)
    span = np.where(high > low, high - low, 1.0)
    return np.asarray(np.rint((points - (low + high) / 2) / span * SCALE + SCALE / 2), dtype=np.int64)


def _shown(samples: Any, schema: Schema) -> tuple[str, list[Any]]:
    if schema.kind == Kind.IMAGES:
        return "images", [picture(image) for image in samples]
    if schema.kind == Kind.TEXT:
        return "text", [snippet(text) for text in samples]
    names = [column.name for column in schema.columns]
    return "rows", [_row(row, names) for row in np.asarray(samples, dtype=object)]


def _row(row: Sequence[Any], names: Sequence[str]) -> list[list[str]]:
    """The first cells, each with its column's name or place."""
    named = zip(row[:COLUMNS], [*names, *[""] * len(row)], strict=False)
    shown = [[snippet(name) or str(place), _cell(cell)] for place, (cell, name) in enumerate(named)]
    return [*shown, ["", f"and {len(row) - COLUMNS} more"]] if len(row) > COLUMNS else shown


def _cell(cell: Any) -> str:
    if cell is None or cell != cell:
        return "–"
    text = f"{cell:.4g}" if isinstance(cell, float | np.floating) else " ".join(str(cell).split())
    return text if len(text) <= LETTERS else text[: LETTERS - 1] + "…"
