"""The public schema: what a pool fixes, what is written down, and how one cell is read with it."""

from __future__ import annotations

import datetime as dt
import json
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from recordwise.data import Column, Schema
from recordwise.data.pictures import fitted
from recordwise.errors import InvalidInput
from recordwise.randomness import seeded

FRAME = pd.DataFrame(
    {"age": [20, 30], "job": ["cook", None], "on": pd.to_datetime(["2020-01-01", "2021-01-01"]), "paid": [True, False]}
)
PICTURE = np.arange(64, dtype=np.uint8).reshape(8, 8)


@pytest.mark.parametrize(
    ("pool", "told"),
    [
        (np.zeros((2, 3)), {"kind": "vectors", "shape": [3], "numbers": "float64"}),
        (np.zeros((2, 3), np.float32), {"kind": "vectors", "shape": [3], "numbers": "float32"}),
        (np.zeros((2, 3), np.int16), {"kind": "vectors", "shape": [3], "numbers": "float64"}),
        (np.zeros((2, 3), np.uint8), {"kind": "vectors", "shape": [3], "numbers": "uint8"}),
        ([[1, 2], [3, 4.5]], {"kind": "vectors", "shape": [2], "numbers": "float64"}),
        (np.zeros((2, 4, 4), np.uint8), {"kind": "images", "shape": [4, 4], "numbers": "uint8"}),
        (np.zeros((2, 4, 4, 3)), {"kind": "images", "shape": [4, 4, 3], "numbers": "float64"}),
        ([PICTURE, PICTURE], {"kind": "images", "shape": [8, 8], "numbers": "uint8"}),
        (["a", "b"], {"kind": "text"}),
        (np.array(["a", "b"]), {"kind": "text"}),
        (pd.Series(["a", "b"]), {"kind": "text"}),
        (
            FRAME,
            {
                "kind": "table",
                "columns": [
                    {"name": "age", "kind": "number"},
                    {"name": "job", "kind": "category", "categories": ["cook"]},
                    {"name": "on", "kind": "date", "formats": ["%Y-%m-%d"]},
                    {"name": "paid", "kind": "number"},
                ],
            },
        ),
        (
            [[1, "2"], [None, "3"]],
            {"kind": "table", "columns": [{"kind": "number"}, {"kind": "category", "categories": ["2", "3"]}]},
        ),
    ],
    ids=lambda value: type(value).__name__,
)
def test_the_pool_fixes_the_schema(pool: Any, told: dict[str, Any]) -> None:
    schema = Schema.of(pool)
    assert schema.as_dict() == told
    again = Schema.from_dict(json.loads(json.dumps(schema.as_dict())))
    assert again == schema and again.digest == schema.digest
    read = schema.read(pool)
    assert read.readable.all()
    twice = schema.read(read.samples)
    assert twice.readable.all() and str(twice.samples) == str(read.samples)


def test_text_of_a_csv_is_parsed_and_other_text_is_not() -> None:
    rows = [["1", "2020-01-01", "x"], ["2.5", "2020-02-01", "2"], ["", "", ""]]
    assert [column.kind for column in Schema.of(rows, parse=True).columns] == ["number", "date", "category"]
    assert [column.kind for column in Schema.of(rows).columns] == ["category"] * 3
    assert Schema.of([["1"], ["2"]], parse=True).kind == "vectors"
    assert Schema.of([["good"], ["day"]], parse=True).kind == "text"


def test_another_schema_has_another_digest(tmp_path: Path) -> None:
    columns = (Column(name="a", range=(0, 1)), Column(name="b", kind="category", categories=("x", "y")))
    one = Schema(kind="table", columns=columns)
    others = [
        Schema(kind="table", columns=columns[::-1]),
        Schema(kind="table", columns=(Column(name="a", range=(0, 2)), columns[1])),
        Schema(kind="table", columns=(columns[0], Column(name="b", kind="category", categories=("x",)))),
    ]
    assert len({one.digest, *(other.digest for other in others)}) == 4
    (tmp_path / "s.json").write_text(json.dumps(one.as_dict()))
    (tmp_path / "s.toml").write_text(
        'kind = "table"\n[[columns]]\nname = "a"\nrange = [0, 1]\n'
        '[[columns]]\nname = "b"\nkind = "category"\ncategories = ["x", "y"]\n'
    )
    assert Schema.given(tmp_path / "s.json") == Schema.given(tmp_path / "s.toml") == Schema.given(one.as_dict()) == one


MISTAKES: list[tuple[dict[str, Any], str]] = [
    ({"kind": "sound"}, "kind must be one of"),
    ({"kind": "table"}, "must have columns"),
    ({"kind": "table", "columns": [{"kind": "text"}]}, "text stands alone"),
    ({"kind": "table", "columns": [{"kind": "category"}]}, "must list its categories"),
    ({"kind": "table", "columns": [{"kind": "word"}]}, "column's kind must be one of"),
    ({"kind": "table", "columns": [{"range": [2, 1]}]}, "range must be"),
    ({"kind": "table", "columns": [{"name": "a"}, {"name": "a"}]}, "different names"),
    ({"kind": "table", "columns": [{"type": "number"}]}, "a column must have"),
    ({"kind": "table", "columns": [{"formats": ["%Y"]}]}, "formats to a date"),
    ({"kind": "table", "columns": [{"kind": "date", "formats": ["%d %d"]}]}, "such as strptime reads"),
    ({"kind": "table", "columns": [{"kind": "date", "formats": ["%Q"]}]}, "such as strptime reads"),
    ({"kind": "table", "columns": [{"kind": "date", "formats": ["x" * 65]}]}, "such as strptime reads"),
    ({"kind": "images", "shape": [3]}, "2 or 3 sides"),
    ({"kind": "images", "shape": ["wide", 3]}, "must be whole numbers"),
    ({"kind": "vectors", "shape": [2], "numbers": "float8"}, "float8"),
    ({"kind": "text", "shape": [2]}, "has no shape"),
    ({"sort": "table"}, "a schema must have"),
]


@pytest.mark.parametrize(("told", "message"), MISTAKES, ids=[message for _, message in MISTAKES])
def test_a_schema_that_cannot_be_is_one_line(told: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidInput, match=message) as caught:
        Schema.given(told)
    assert "\n" not in str(caught.value)


def test_a_schema_s_file_that_cannot_be_read_is_one_line(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match="could not be read"):
        Schema.given(tmp_path / "nowhere.json")
    (tmp_path / "s.json").write_text("{")
    with pytest.raises(InvalidInput, match=r"the schema .* must be JSON"):
        Schema.given(tmp_path / "s.json")


def test_numbers_are_read_by_value() -> None:
    read = Column(range=(0, 100)).reader()
    for cell in (2, 2.0, "2", " 2.0 ", b"2", True + 1, np.float32(2), np.int8(2), Decimal(2)):
        assert read(cell) == 2
    for cell in (
        None,
        "",
        "two",
        "nan",
        "inf",
        "1_0",
        "-1",
        101,
        np.nan,
        10**400,
        [2],
        object(),
        pd.NA,
        dt.date(2020, 1, 1),
    ):
        assert np.isnan(read(cell)), cell  # type: ignore[arg-type]


def test_categories_are_read_by_their_text() -> None:
    read = Column(kind="category", categories=("2", "A", "True")).reader()
    assert [read(cell) for cell in (2, 2.0, "2", " A ", b"A", True, np.str_("A"))] == [
        "2",
        "2",
        "2",
        "A",
        "A",
        "True",
        "A",
    ]
    assert [read(cell) for cell in (None, "", "B", 2.5, b"\xff", "A\udcff", [2], object(), np.nan)] == [None] * 9


def test_dates_are_days_since_1970() -> None:
    read = Column(kind="date", formats=("%Y-%m-%d", "%d.%m.%Y")).reader()
    moment = dt.datetime(1970, 1, 2, 12, tzinfo=dt.UTC)
    cells = (
        "1970-01-02",
        "02.01.1970",
        dt.date(1970, 1, 2),
        pd.Timestamp("1970-01-02"),
        np.datetime64("1970-01-02"),
        1.0,
    )
    assert [read(cell) for cell in cells] == [1.0] * 6
    assert read(moment) == 1.5
    for cell in (None, "", "1970/01/02", "yesterday", pd.NaT, np.datetime64("NaT"), True, b"\xff"):
        assert np.isnan(read(cell)), cell  # type: ignore[arg-type]


@given(
    st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), st.text(), st.binary(), st.dates(), st.decimals())
)
def test_no_cell_raises_and_reading_again_changes_nothing(cell: Any) -> None:
    for column in (
        Column(),
        Column(kind="category", categories=("1", "True", "0")),
        Column(kind="date"),
    ):
        read = column.reader()
        once = read(cell)
        assert str(read(once)) == str(once)


@pytest.mark.parametrize("numbers", ["uint8", "float32"])
@pytest.mark.parametrize("shape", [(8, 8), (8, 8, 1), (8, 8, 3), (5, 9), (5, 9, 3)])
def test_an_image_is_brought_to_the_schema_s_mode_and_size(shape: tuple[int, ...], numbers: str) -> None:
    scale: Any = (lambda image: image) if numbers == "uint8" else (lambda image: image.astype(np.float32) / 255)
    colour = np.stack([PICTURE] * 3, axis=2)
    transparent = np.concatenate([colour, np.zeros((8, 8, 1), np.uint8)], axis=2)
    found = [fitted(scale(image), shape, numbers) for image in (PICTURE, PICTURE[:, :, None], colour, transparent)]
    assert all(image is not None and image.shape == shape for image in found)
    for image in found[1:]:
        np.testing.assert_allclose(image, found[0], atol=0 if numbers == "uint8" else 1e-6)
    assert fitted(np.zeros((8, 8, 7), np.uint8), shape, numbers) is None
    assert fitted(scale(PICTURE) if numbers != "uint8" else PICTURE / 255, shape, "uint8") is None  # another scale


def test_pillow_s_images_and_whole_numbers_are_bytes_too() -> None:
    assert np.array_equal(fitted(Image.fromarray(PICTURE), (8, 8), "uint8"), PICTURE)
    schema = Schema.of(PICTURE[None])
    read = schema.read([PICTURE.astype(np.int64), PICTURE.astype(np.int64) + 250])
    assert read.readable.tolist() == [True, False] and np.array_equal(read.samples[0], PICTURE)
    assert read.samples.dtype == np.uint8


def test_the_form_of_a_collection_may_be_refused() -> None:
    vectors, table = Schema.of(np.zeros((2, 3))), Schema.of(FRAME)
    for schema, samples, message in (
        (vectors, np.zeros((2, 4)), "pool's 3 dimensions, got 4"),
        (vectors, np.zeros((2, 3), dtype=object)[:, :2], "pool's 3 dimensions, got 2"),
        (vectors, np.zeros((2, 3, 3)), "Reshape your data"),
        (vectors, np.zeros((2, 3), dtype=complex), "Complex data not supported"),
        (table, FRAME[["age"]], "it lacks job, on, paid"),
        (Schema.of(PICTURE[None]), np.zeros((2, 3)), "must be images"),
        (Schema.of(PICTURE[None]), np.zeros((2, 8, 8)), "pixels like the pool's uint8, got float64"),
        (Schema.of(["a"]), np.zeros((2, 3)), "must be text"),
    ):
        with pytest.raises(InvalidInput, match=message):
            schema.read(samples)


def test_a_moment_has_the_same_bits_in_every_type_that_holds_it() -> None:
    """A date beyond pandas' range makes pandas hold a column's other dates in another type."""
    read = Column(kind="date").reader()
    for micros in seeded(0, "moments").integers(-(10**15), 2 * 10**15, size=100).tolist():
        exact = np.datetime64(micros, "us")
        held = [exact, exact.item(), pd.Timestamp(1000 * micros), pd.Timestamp(1000 * micros, tz="UTC")]
        assert len({read(cell) for cell in held}) == 1


def test_text_may_come_as_bytes_of_any_length() -> None:
    read = Schema(kind="text").read([b"a", b"ab", ["c"], b""])
    assert read.samples.tolist() == ["a", "ab", "c", ""] and read.readable.all()


@pytest.mark.parametrize(
    ("cells", "formats"),
    [
        (["2024-01-31", "2024-02-01"], ("%Y-%m-%d",)),
        (["31.01.2024 08:15", "01.02.2024 17:30"], ("%d.%m.%Y %H:%M",)),
        (["2024-01-31", "2024-02-01T10:00:00Z", ""], ("%Y-%m-%d", "%Y-%m-%dT%H:%M:%S%z")),
        (["08:15", "17:30"], ("%H:%M",)),
        (["01/31/2024", "02/01/2024"], ("%m/%d/%Y",)),
        (["31/01/2024", "01/02/2024"], ("%d/%m/%Y",)),
        (["Jan 2024", "May 2024"], ("%b %Y",)),
        (["January 2024", "May 2024"], ("%B %Y",)),
        (["24-01-31", "24-02-01"], None),  # the year may stand at either end
        (["31.01.44", "01.02.24"], None),  # so may the century: born in 1944, or due in 2044?
        (["01/31/24", "02/01/24"], None),
        (["31/01/24 08:15", "01/02/24 17:30"], None),
        (["10.4.12", "1.2.19"], None),  # versions of something
        (["01/02/2024", "02/01/2024"], None),  # either may be meant: somebody has to say
        (["31/01/2024", "01/31/2024"], None),
        (["2024-01-31", "soon"], None),
    ],
)
def test_a_pool_s_dates_are_known_where_nobody_could_read_them_otherwise(
    cells: list[str], formats: tuple[str, ...] | None
) -> None:
    pool = [[cell, "a"] for cell in cells]
    column = Schema.of(pool, columns=["when", "group"], parse=True).columns[0]
    assert (column.kind, column.formats) == (("date", formats) if formats else ("category", ()))


def test_two_digit_years_are_read_where_they_are_declared() -> None:
    assert np.isnan(Column(kind="date").reader()("31.01.24"))
    declared = Column(kind="date", formats=("%d.%m.%y",)).reader()
    assert declared("31.01.24") == Column(kind="date").reader()("2024-01-31")


def test_a_date_that_was_read_is_still_a_date() -> None:
    pool = [["2024-01-31", "a"], ["2024-02-01", "b"], ["", "a"]]
    schema = Schema.of(pool, columns=["when", "group"], parse=True)
    read = schema.pool(pool)
    again = Schema.of(read)
    assert again.columns[0].kind == "date"
    assert again.read(read).samples[:2].tolist() == schema.read(read).samples[:2].tolist() == read[:2].tolist()
