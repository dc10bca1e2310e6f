"""Each finding, with a pool that has the fault and with one that has not."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from tests.planner.worlds import blobs

from recordwise.data.schema import Schema
from recordwise.errors import InvalidInput
from recordwise.planner import BudgetPlan, Expected, Prediction, check, look
from recordwise.planner.checking import Checked, beside_test, structure
from recordwise.randomness import seeded

ROWS = 60
RNG = seeded(0, "check")
HEALTHY: dict[str, list[str]] = {
    "age": [str(20 + int(x)) for x in RNG.integers(60, size=ROWS)],
    "ward": [str(x) for x in RNG.choice(["north", "south"], ROWS)],
    "admitted": [f"2024-0{1 + row % 9}-1{row % 9}" for row in range(ROWS)],
}


def about(columns: dict[str, list[str]], schema: Schema | None = None) -> dict[str, str]:
    """What a check says of each column of a CSV table."""
    samples = [list(row) for row in zip(*columns.values(), strict=True)]
    read = Schema.of(samples, columns=list(columns), parse=True) if schema is None else schema
    return {one.about: one.text for one in check(read, samples, None, None).findings}


def test_nothing_is_found_in_a_healthy_table() -> None:
    assert about(HEALTHY) == {}


@pytest.mark.parametrize(
    ("cells", "words"),
    [
        ([f"P-{row:05d}" for row in range(ROWS)], "as identifiers do"),
        ([str(100 + row) for row in range(ROWS)], "as identifiers do"),
        (
            [f"{1 + row % 12:02d}/{1 + row % 11:02d}/2024" for row in range(ROWS)],
            "holds dates but is read as categories",
        ),
        (
            [f"{1 + row % 28:02d}.{1 + row % 12:02d}.{40 + row % 59}" for row in range(ROWS)],
            "looks like dates with two-digit years",
        ),
        ([f"{1 + row % 28}/{1 + row % 12}/{40 + row % 59} 8:15" for row in range(ROWS)], "two-digit years"),
        ([f"2024{1 + row % 12:02d}{1 + row % 28:02d}" for row in range(ROWS)], "dates written as numbers"),
        ([f"patient {row} came in with a cough" for row in range(ROWS)], "free text"),
        ([str(row * 1.5) if row % 10 else "n/a" for row in range(ROWS)], "holds numbers but is read as categories"),
    ],
)
def test_columns_of_the_wrong_kind_are_found(cells: list[str], words: str) -> None:
    found = about({**HEALTHY, "odd": cells})
    assert list(found) == ["odd"] and words in found["odd"] and ":" in found["odd"]


@pytest.mark.parametrize(
    ("values", "codes"),
    [
        ([8001, 10115, 50667, 80331], True),  # postcodes
        ([20000, 25000, 40000, 90000], False),  # amounts
        ([2019, 2020, 2021, 2022], False),  # years
        ([1, 2, 3, 97], False),
        ([10**300, 2 * 10**300, 10**301, 7 * 10**302], False),  # beyond whole numbers
    ],
)
def test_numbers_that_look_like_codes_are_named(values: list[int], codes: bool) -> None:
    found = about({"place": [str(values[row % 4]) for row in range(200)], "age": [f"{row}.5" for row in range(200)]})
    assert ("place" in found) == codes and ("records.categorical" in found.get("place", "")) == codes


@pytest.mark.parametrize(
    ("declared", "words"),
    [((0.0, 1.0), "outside its declared range"), ((0.0, 1e6), "fills"), ((0.0, 120.0), None)],
)
def test_ranges_in_another_unit_are_found(declared: tuple[float, float], words: str | None) -> None:
    columns = {"age": HEALTHY["age"], "ward": HEALTHY["ward"]}
    schema = Schema(
        kind="table",
        columns=(  # type: ignore[arg-type]  # mappings become columns
            {"name": "age", "range": declared},
            {"name": "ward", "kind": "category", "categories": ("north", "south")},
        ),
    )
    found = about(columns, schema)
    assert ("age" in found) == (words is not None)
    if words:
        assert words in found["age"]


def test_a_range_that_leaves_nothing_of_a_column_is_a_warning() -> None:
    def told(low: float, high: float) -> list[str]:
        schema = Schema(kind="table", columns=({"name": "height", "range": (low, high)},))  # type: ignore[arg-type]
        cells = [[f"{1.5 + row / 100}"] for row in range(ROWS)]
        return [str(one).partition(":")[0] for one in check(schema, cells, None, None).findings]

    assert told(50, 250) == ["warning"] and told(1.7, 2.1) == ["note"] and told(1, 3) == []


@pytest.mark.parametrize(
    ("name", "values", "words"),
    [
        ("mrn", range(1_000_003, 9_999_999, 45_001), "as identifiers do"),
        ("PatientID", range(1_003, 9_999, 45), "as identifiers do"),
        ("nhs number", range(1_000_000_003, 9_999_999_999, 45_000_007), "as identifiers do"),
        ("visit_mrn", [1_000_003 + 7 * (row % 150) for row in range(200)], "may hold identifiers"),
        ("account", [1_000_003 + 40_001 * row + row**2 for row in range(200)], "may hold identifiers"),
        ("income", range(100_000, 999_000, 4_000), None),  # an amount, in steps
        ("acid", [1_003 + 45 * row**2 for row in range(200)], None),  # no word of its own
        ("volume", [row**3 for row in range(200)], None),
        ("weight", [1_000_003.5 + 45_001 * row for row in range(200)], None),  # measured
        ("molecules", [float(f"6.{row:03}e23") for row in range(200)], None),
        ("made", range(1_600_000_003, 1_700_000_003, 500_001), "in seconds since 1970"),
        ("made", range(1_600_000_000_003, 1_700_000_000_003, 500_000_001), "in milliseconds since 1970"),
    ],
)
def test_numbers_that_name_rows_or_moments_are_found(name: str, values: Any, words: str | None) -> None:
    found = about({name: [str(value) for value in values], "age": [f"{row % 80}.5" for row in range(len(values))]})
    assert words is None if found == {} else words is not None and words in found[name]


def test_a_test_file_in_another_unit_is_found() -> None:
    rng = seeded(4, "check")
    pool = np.stack([rng.normal(1.7, 0.1, 300), rng.normal(80, 15, 300)], axis=1)
    schema = Schema.of(pool, columns=["height", "weight"])
    assert list(beside_test(schema, pool, pool[:100] * [1.05, 1.1])) == []
    (found,) = beside_test(schema, pool, pool[:100] * [100, 1])
    assert found.about == "height" and "[test] file" in found.text and not found.stops
    assert list(beside_test(schema, pool, pool[:5] * [100, 1])) == []  # too few to say


def test_a_test_file_of_another_time_is_said_to_be_in_dates() -> None:
    def days(first: str) -> list[list[str]]:
        return [[str(np.datetime64(first) + number)] for number in range(200)]

    schema = Schema(kind="table", columns=({"name": "seen", "kind": "date"},))  # type: ignore[arg-type]
    (found,) = beside_test(schema, days("2022-01-01"), days("2023-06-01"))
    assert found.text == (
        "column 'seen' is from another time in the [test] file: 2023-06-01 to 2023-12-17, the pool 2022-01-01 to "
        "2022-07-19"
    )
    assert list(beside_test(schema, days("2022-01-01"), days("2022-02-01"))) == []
    assert list(beside_test(schema, days("2022-01-01"), [[1e300]] * 50)) == []  # no calendar holds it
    times = Schema(kind="table", columns=({"name": "at", "kind": "date", "formats": ("%H:%M",)},))  # type: ignore[arg-type]
    assert list(beside_test(times, [["08:15"], ["09:30"]] * 20, [["17:45"]] * 30)) == []  # of no day


def vectors(pool: Any) -> Schema:
    return Schema.of(np.asarray(pool))


def expecting(student: tuple[float, float, float], *, attainable: float = 0.9, s: int = 8) -> BudgetPlan:
    told = Prediction(
        num_queries=s,
        votes_per_record=1,
        trust="central",
        mechanism="laplace",
        label_accuracy=Expected(*student),
        student_accuracy=Expected(*student),
        noise_std=1.0,
        votes_per_query=10.0,
    )
    room = Expected(attainable, attainable, attainable)
    return BudgetPlan(recommended=told, considered=(told,), compared=(), attainable=room, commonest=0.25, basis="all")


def found_by(pool: Any, made: BudgetPlan, s: int | None = None, **more: Any) -> Checked:
    view = look(pool, **{"encoder": "scaler", "num_classes": 4, "num_records": 1000, **more})
    return check(vectors(pool), pool, view, made, num_queries=s)


WORLD = blobs(4, 2.0)
GOOD = expecting((0.85, 0.8, 0.9))


def test_nothing_is_found_in_a_healthy_run() -> None:
    assert found_by(WORLD.pool, GOOD).findings == ()
    assert found_by(WORLD.pool, GOOD).as_text() == "Nothing found that public data can show."


def test_a_budget_that_goes_on_noise_stops_a_run() -> None:
    noise = found_by(WORLD.pool, expecting((0.26, 0.2, 0.35)))
    assert [one.about for one in noise.stops] == ["budget"]
    assert "would go on noise" in noise.as_text() and "4 classes" in noise.as_text()
    with pytest.raises(InvalidInput, match="Nothing was paid; --anyway"):
        noise.refuse()
    little = found_by(WORLD.pool, expecting((0.5, 0.3, 0.7)))
    assert not little.stops and "the budget is small" in little.as_text()
    little.refuse()


def test_queries_with_one_sample_are_found() -> None:
    found = found_by(WORLD.pool, GOOD, s=300)
    assert [one.about for one in found.findings] == ["queries"] and "single pool sample: ask fewer" in found.as_text()
    recommended = found_by(WORLD.pool, expecting((0.85, 0.8, 0.9), s=300))
    assert "single pool sample: add samples" in recommended.as_text()


def test_a_pool_of_few_different_samples_stops_a_run() -> None:
    pool = np.repeat(WORLD.pool[:5], 80, axis=0)
    found = found_by(pool, GOOD, attainable=0.9)
    assert [one.about for one in found.stops] == ["pool"] and "5 different samples" in found.as_text()


def test_a_pool_without_groups_is_said_to_be_a_cloud_where_nothing_else_is_known() -> None:
    rng = seeded(1, "check")
    noise = rng.normal(size=(400, 6))
    cloud = noise @ rng.normal(size=(6, 6))  # columns depend on each other, and there are no groups
    for pool in (noise, cloud):
        found = found_by(pool, GOOD)
        assert "no groups beyond what correlations explain" in found.as_text() and "that works" in found.as_text()
        assert "independently" not in found.as_text() and not found.stops
    assert found_by(cloud, GOOD, attainable=0.9).findings == ()
    assert found_by(cloud, GOOD, labels=(cloud[:, 0] > 0).astype(int)).findings == ()
    assert structure(WORLD.pool.astype(np.float32), 40) > structure(noise.astype(np.float32), 40) + 0.05


def test_labelled_samples_that_do_not_predict_each_other_are_found() -> None:
    """However well the plan thinks of them: five tasks that fit noise are better than naming the commonest class."""
    labels = seeded(2, "check").integers(4, size=400)
    assert "do not show that classes can be told apart" in found_by(WORLD.pool, GOOD, labels=labels).as_text()
    assert found_by(WORLD.pool, GOOD, labels=WORLD.pool_labels).findings == ()


def test_a_rare_class_that_lies_apart_is_not_warned_about() -> None:
    """No student is right much more often than by naming the commonest class, and yet it may find most of the rare."""
    rng = seeded(3, "check")
    rare = (np.arange(600) < 18).astype(int)
    pool = rng.normal(size=(600, 6)) + 1.5 * rare[:, None] * np.array([1, 1, 1, 0, 0, 0])
    made = replace(expecting((0.98, 0.97, 0.99), attainable=0.985), commonest=0.97)
    assert found_by(pool, made, labels=rare, num_classes=2).findings == ()


def test_assumed_shares_are_said_to_be_assumed() -> None:
    noise = expecting((0.26, 0.2, 0.35))
    assert "equally common" not in found_by(WORLD.pool, noise).as_text()
    assert "equally common" in found_by(WORLD.pool, replace(noise, shares_assumed=True)).as_text()


def test_votes_that_drown_in_noise_stop_a_run_that_is_right_by_chance() -> None:
    lucky = expecting((0.85, 0.8, 0.9))
    drowned = replace(lucky.recommended, noise_std=100.0)  # 10 votes at each of 8 queries
    made = replace(lucky, recommended=drowned, considered=(drowned,))
    assert [one.about for one in found_by(WORLD.pool, made).stops] == ["budget"]
