"""Encoders as ONNX: each number comes out as the encoder itself makes it."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from sklearn.feature_extraction.text import CountVectorizer
from sklearn.pipeline import Pipeline

from recordwise.data.samples import Kind
from recordwise.data.schema import CATEGORY, Column, Schema
from recordwise.encoders import Hog, Pca, Scaler, Sharpened, Table, Text
from recordwise.encoders.exact import INPUT_BITS, ExactLinear
from recordwise.encoders.hog import CLIP, EPSILON
from recordwise.encoders.table import CIRCLES, circle
from recordwise.encoders.text import OfWords
from recordwise.encoders.words import Words
from recordwise.handover.onnx_graph import Graph
from recordwise.published import Published

SAMPLES, WORDS, VECTORS = "samples", "words", "vectors"
NUMBERS = (Scaler, Pca, Sharpened)


def encoded(graph: Graph, model: Published) -> str | None:
    """What the student learns from, made of inputs; None where ONNX cannot hold the encoder."""
    schema = model.schema
    steps = steps_of(model.encoder) if model.student_input == "vectors" else []
    first = type(steps[0]) if steps else None
    if any(type(step) not in NUMBERS for step in steps[first not in (*NUMBERS, None) :]):
        return None
    if first is Table:
        value = _table(graph, steps.pop(0), schema)
    elif first in (Text, Words):
        value = _of_words(graph, steps.pop(0))
    elif schema.kind == Kind.IMAGES and first is Hog:
        value = _hog(graph, steps.pop(0), graph.take(SAMPLES, np.float32, *schema.shape))
    elif schema.kind in (Kind.VECTORS, Kind.IMAGES):
        value = graph.take(SAMPLES, np.float32, *schema.shape)
        value = graph.add("Flatten", value, axis=1) if schema.kind == Kind.IMAGES else value
    else:
        return None
    if value is None:
        return None
    for step in steps:
        value = scaled(graph, value, step) if type(step) is Scaler else _projected(graph, value, step)
    return value


def given(graph: Graph, model: Published) -> str | None:
    """What an encoder that is left out makes; None where the student learns from something else."""
    scaler = getattr(model.student, "scaler", getattr(model.student, "scaler_", None))
    if model.student_input != "vectors" or not isinstance(scaler, Scaler):
        return None
    return graph.take(VECTORS, np.float32, len(scaler.mean_))


def input_name(place: int) -> str:
    """What a column that has no name is called."""
    return f"column {place}"


def steps_of(encoder: Any) -> list[Any]:
    return [step for _, step in encoder.steps] if type(encoder) is Pipeline else [encoder]


def scaled(graph: Graph, value: str, scaler: Scaler) -> str:
    """Through float32, as the scaler takes and gives numbers."""
    value = graph.cast(value, np.float64)
    value = graph.add("Sub", value, graph.constant(scaler.mean_))
    return graph.cast(graph.add("Div", value, graph.constant(scaler.scale_)), np.float32)


def _projected(graph: Graph, value: str, step: Pca | Sharpened) -> str:
    value = graph.add("Sub", graph.cast(value, np.float64), graph.constant(step.mean_))
    return graph.cast(_exact(graph, value, step.projection_), np.float32)


def _exact(graph: Graph, value: str, linear: ExactLinear) -> str:
    """Whole numbers are added up, so it is exact here, too."""
    value = graph.add("Clip", value, graph.constant(-linear.limit), graph.constant(linear.limit))
    value = graph.add("Round", graph.add("Mul", value, graph.constant(2.0**INPUT_BITS / linear.limit)))
    value = graph.add("MatMul", value, graph.constant(linear.weights))
    return graph.add("Mul", value, graph.constant(linear.units))


def _table(graph: Graph, encoder: Table, schema: Schema) -> str | None:
    """An input for each column; None where a column is read in one way and encoded in another."""
    columns, inner = schema.columns or (Column(),) * schema.width, encoder.schema_.columns
    if [column.kind == CATEGORY for column in columns] != [column.kind == CATEGORY for column in inner]:
        return None
    blocks = []
    for place, (column, encoding) in enumerate(zip(columns, encoder.encodings_, strict=True)):
        name = column.name or input_name(place)
        if column.kind == CATEGORY:
            blocks.append(_values(graph, graph.take(name, np.str_), column, inner[place], encoding))
            continue
        cells = graph.take(name, np.float64)
        low, high = column.range or (-np.inf, np.inf)
        largest = np.finfo(np.float64).max  # an infinite number is a gap
        least = graph.add("GreaterOrEqual", cells, graph.constant(max(low, -largest)))
        most = graph.add("LessOrEqual", cells, graph.constant(min(high, largest)))
        present = graph.add("And", least, most)
        circles: list[str] = getattr(encoding, "circles", [])  # dates have some
        blocks.append(_numbers(graph, cells, present, getattr(encoding, "when", encoding)))
        blocks += [_on_circle(graph, cells, present, one, len(circles)) for one in circles]
    return graph.add("Concat", *blocks, axis=1)


def _column(graph: Graph, value: str) -> str:
    return graph.add("Unsqueeze", graph.cast(value, np.float32), graph.constant([1], np.int64))


def _numbers(graph: Graph, cells: str, present: str, encoding: Any) -> str:
    mean = graph.constant(encoding.mean)
    value = graph.add("Where", present, cells, mean)
    value = graph.add("Clip", value, graph.constant(encoding.low), graph.constant(encoding.high))
    value = graph.add("Div", graph.add("Sub", value, mean), graph.constant(encoding.scale))
    block = _column(graph, value)
    return graph.add("Concat", block, _column(graph, graph.add("Not", present)), axis=1) if encoding.gaps else block


def _on_circle(graph: Graph, days: str, present: str, name: str, circles: int) -> str:
    length, marks, start = CIRCLES[name]
    zero, turn = graph.constant(0.0), graph.constant(length)
    value = graph.add("Add", graph.add("Where", present, days, zero), graph.constant(start))
    value = graph.add("Mod", value, turn, fmod=1)  # of a negative number it is negative
    value = graph.add("Where", graph.add("Less", value, zero), graph.add("Add", value, turn), value)
    value = graph.add("Mul", graph.add("Div", value, turn), graph.constant(marks))
    value = graph.add("Min", graph.cast(value, np.int64), graph.constant(marks - 1, np.int64))
    gap = graph.constant(marks, np.int64)
    points = np.vstack([circle(marks) / math.sqrt(circles), np.zeros((1, 2))])
    return graph.add("Gather", graph.constant(points, np.float32), graph.add("Where", present, value, gap), axis=0)


def _values(graph: Graph, cells: str, column: Column, inner: Column, encoding: Any) -> str:
    """One coordinate for each value. What no column knows is a gap, which has a coordinate where the pool has gaps."""
    places = {value: place for place, value in enumerate(encoding.values.tolist())}
    none = len(places)  # beyond the last: zeros
    gap = places.get("", none)
    seen = {one: inner.reader()(one) for one in column.categories}
    keys = [one for one, read in seen.items() if read is not None]
    value = graph.add(
        "LabelEncoder",
        cells,
        domain="ai.onnx.ml",
        keys_strings=keys,
        values_int64s=[places.get(str(seen[one]), none) for one in keys],
        default_int64=gap,
    )
    how = graph.constant([0, 1], np.float32)
    return graph.add("OneHot", value, graph.constant(none, np.int64), how, axis=1)


def _of_words(graph: Graph, encoder: OfWords) -> str | None:
    """Counted words to weights, to a map of them, to unit length."""
    words = encoder.words_
    usual = {**CountVectorizer().get_params(), "max_features": words.max_features, "vocabulary": words.vocabulary}
    if words.get_params() != usual:
        return None
    known = sorted(words.vocabulary_, key=words.vocabulary_.__getitem__)
    count = graph.add(
        "TfIdfVectorizer",
        graph.take(WORDS, np.str_, "words"),
        mode="TF",
        min_gram_length=1,
        max_gram_length=1,
        max_skip_count=0,
        ngram_counts=[0],
        ngram_indexes=list(range(len(known))),
        pool_strings=known,
    )
    one, zero = graph.constant(1.0), graph.constant(0.0)
    count = graph.cast(count, np.float64)
    often = graph.add("Add", one, graph.add("Log", graph.add("Max", count, one)))
    weight = graph.add("Mul", often, graph.constant(encoder.rarity_))
    weight = graph.add("Where", graph.add("Greater", count, zero), weight, zero)
    return graph.cast(_unit(graph, _exact(graph, _unit(graph, weight), encoder.linear)), np.float32)


def _unit(graph: Graph, value: str) -> str:
    """Rows at length one; zeros stay zeros."""
    squares = graph.add("ReduceSum", graph.add("Mul", value, value), graph.constant([1], np.int64), keepdims=1)
    length = graph.add("Sqrt", squares)
    some = graph.add("Greater", length, graph.constant(0.0))
    return graph.add("Div", value, graph.add("Where", some, length, graph.constant(1.0)))


def _hog(graph: Graph, hog: Hog, images: str) -> str:
    """Gradients, their histograms in cells, and blocks of those, as in `recordwise.encoders.hog`."""
    cell, side = hog.cell_, hog.block
    down, across = (hog.shape_[axis] // cell for axis in (0, 1))
    dy, dx = _difference(graph, images, 1, len(hog.shape_) + 1), _difference(graph, images, 2, len(hog.shape_) + 1)
    square = graph.add("Add", graph.add("Mul", dy, dy), graph.add("Mul", dx, dx))
    if len(hog.shape_) == 3:
        strongest, last = graph.add("ArgMax", square, axis=3, keepdims=1), graph.constant([3], np.int64)
        dy, dx, square = (
            graph.add("Squeeze", graph.add("GatherElements", part, strongest, axis=3), last)
            for part in (dy, dx, square)
        )
    dy, dx, square = (_sliced(graph, part, (0, 0), (down * cell, across * cell), (1, 2)) for part in (dy, dx, square))
    flat = graph.add("Equal", dy, graph.constant(0, np.float32))
    cotangent = graph.add("Where", flat, graph.constant(np.inf, np.float32), graph.add("Div", dx, dy))
    borders = [1 / math.tan(math.pi * border / hog.orientations) for border in range(1, hog.orientations)]
    last = graph.constant([3], np.int64)
    beyond = graph.add("LessOrEqual", graph.add("Unsqueeze", cotangent, last), graph.constant(borders, np.float32))
    bins = graph.add("ReduceSum", graph.cast(beyond, np.int64), last, keepdims=0)
    depth, how = graph.constant(hog.orientations, np.int64), graph.constant([0, 1], np.float32)
    planes = graph.add("OneHot", bins, depth, how, axis=3)
    planes = graph.add("Mul", planes, graph.add("Unsqueeze", graph.add("Sqrt", square), last))
    shape = graph.constant([-1, down, cell, across, cell, hog.orientations], np.int64)
    cells = graph.add("ReduceMean", graph.add("Reshape", planes, shape), axes=[2, 4], keepdims=0)
    high, wide = down - side + 1, across - side + 1
    parts = [_sliced(graph, cells, (y, x), (y + high, x + wide), (1, 2)) for y in range(side) for x in range(side)]
    values = graph.add("Concat", *parts, axis=3)
    for clip in (CLIP, np.inf):
        total = graph.add("ReduceSumSquare", values, axes=[3], keepdims=1)
        length = graph.add("Sqrt", graph.add("Add", total, graph.constant(EPSILON**2, np.float32)))
        values = graph.add("Min", graph.add("Div", values, length), graph.constant(clip, np.float32))
    return graph.add("Flatten", values, axis=1)


def _difference(graph: Graph, images: str, axis: int, dims: int) -> str:
    """Between the neighbours of each pixel along an axis; zero at the border."""
    ahead = _sliced(graph, images, (2,), (np.iinfo(np.int64).max,), (axis,))
    inner = graph.add("Sub", ahead, _sliced(graph, images, (0,), (-2,), (axis,)))
    border = [int(at == axis) for at in range(dims)]
    return graph.add("Pad", inner, graph.constant(border * 2, np.int64))


def _sliced(graph: Graph, value: str, start: tuple[int, ...], end: tuple[int, ...], axes: tuple[int, ...]) -> str:
    return graph.add("Slice", value, *(graph.constant(one, np.int64) for one in (start, end, axes)))
