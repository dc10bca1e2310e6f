"""Codes are categories where their owner says so, in Python and in a job file."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from recordwise.data import Kind, Schema
from recordwise.data.declared import as_categories
from recordwise.data.files import read
from recordwise.distiller import PrivateDistiller
from recordwise.errors import InvalidInput
from recordwise.job import read_job
from recordwise.records import RecordSettings

CODES = pd.DataFrame({"ward": [3, 1, 2, 3], "age": [20.0, 30.0, 40.0, 50.0]})


def test_a_column_of_codes_is_a_category_with_the_pool_s_values() -> None:
    schema = Schema.of(CODES)
    assert schema.kind == Kind.VECTORS
    declared = as_categories(schema, CODES, ["ward"])
    assert declared.kind == Kind.TABLE and declared.columns[0].categories == ("1", "2", "3")
    assert [column.kind for column in declared.columns] == ["category", "number"]
    records = pd.DataFrame({"age": [1.0, 2.0], "ward": [2.0, 9.0]})
    assert declared.read(records).samples.tolist() == [["2", 1.0], [None, 2.0]]
    assert as_categories(declared, CODES, ["ward"]) == declared
    assert as_categories(schema, CODES, []) is schema


def test_codes_of_a_text_file_keep_their_zeros(tmp_path: Path) -> None:
    (tmp_path / "pool.csv").write_text("post,age\n01,20\n1,30\n02,40\n")
    loaded = read(tmp_path / "pool.csv")
    declared = as_categories(Schema.of_loaded(loaded), loaded.samples, ["post"])
    assert declared.columns[0].categories == ("01", "02", "1")


@pytest.mark.parametrize(
    ("pool", "names", "says"),
    [
        (CODES, ["home"], "must name columns of the pool .ward, age., got 'home'"),
        (np.ones((3, 2)), ["ward"], "none has a name"),
        (pd.DataFrame({"ward": [None, None], "age": [1.0, 2.0]}), ["ward"], "must hold at least one value"),
    ],
)
def test_what_is_no_column_of_the_pool_is_refused(pool: Any, names: list[str], says: str) -> None:
    with pytest.raises(InvalidInput, match=says):
        as_categories(Schema.of(pool), pool, names)
    with pytest.raises(InvalidInput, match="must be a list of columns, got 'ward'"):
        RecordSettings(categorical="ward")  # type: ignore[arg-type]


def test_an_estimator_and_a_job_take_the_same_word(tmp_path: Path) -> None:
    pool = pd.concat([CODES] * 5, ignore_index=True)
    model = PrivateDistiller(9.0, num_queries=3, classes=[0, 1], records={"categorical": ["ward"]})
    model.fit(pool, np.arange(20) % 2, X_public=pool)
    assert model.schema_.columns[0].kind == "category" and model.rounds_[0].queries.vectors.shape[1] == 4
    pool.to_csv(tmp_path / "pool.csv", index=False)
    (tmp_path / "job.toml").write_text(
        '[private]\npath = "pool.csv"\nlabels = "age"\n[public]\npath = "pool.csv"\n[privacy]\nepsilon = 1\n'
        '[method]\nclasses = [1]\n[records]\ncategorical = ["ward"]\n'
    )
    schema, read_so = read_job(tmp_path / "job.toml").read_pool()
    assert schema.columns[0].categories == ("1", "2", "3") and read_so[0, 0] == "3"
