from __future__ import annotations

import pickle
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, QuantileTransformer
from torch import nn

from recordwise.encoders import Hog, Pca, Scaler, Table, Text, TorchEncoder
from recordwise.hashing import fingerprint
from recordwise.queries.spec import QuerySettings
from recordwise.students import TorchStudent
from recordwise.students.spec import StudentSettings

RNG = np.random.default_rng(0)
VECTORS = RNG.normal(size=(30, 4)).astype(np.float32)
WORDS = ["one two", "two three four", "five"]
MIXED = np.array([["a", 1.0], ["b", 2.0]], dtype=object)

CASES = [
    (Scaler, VECTORS, VECTORS * 2),
    (lambda: Pca(dim=2), VECTORS, VECTORS * 2),
    (lambda: Text(dim=2), WORDS, [*WORDS, "six"]),
    (Table, MIXED, np.array([["a", 1.0], ["b", 3.0]], dtype=object)),
    (TfidfVectorizer, WORDS, [*WORDS, "one"]),  # the same words: only their weights differ
    (
        lambda: make_pipeline(Hog(), Pca(dim=2)),
        VECTORS.reshape(-1, 4, 1) * np.ones((1, 1, 4)),
        VECTORS[:, :, None] ** np.arange(4),
    ),
    (lambda: QuantileTransformer(n_quantiles=9), VECTORS, VECTORS * 2),
]


@pytest.mark.parametrize(("build", "pool", "other"), CASES)
def test_a_fingerprint_is_that_of_what_was_learned(build, pool, other) -> None:
    fitted = build().fit(pool)
    assert fingerprint(fitted) == fingerprint(build().fit(pool))
    assert fingerprint(fitted) == fingerprint(pickle.loads(pickle.dumps(fitted)))
    assert fingerprint(fitted) != fingerprint(build().fit(other))


def test_transforming_changes_no_fingerprint() -> None:
    for build, pool, _ in CASES:
        fitted = build().fit(pool)
        before = fingerprint(fitted)
        fitted.transform(pool)
        assert fingerprint(fitted) == before


def test_parameters_and_weights_count() -> None:
    images = np.zeros((2, 16, 16))
    assert fingerprint(Hog(cell=4).fit(images)) != fingerprint(Hog(cell=2).fit(images))
    module = nn.Linear(2, 2)
    before = fingerprint(TorchEncoder(module))
    nn.init.zeros_(module.weight)
    assert fingerprint(TorchEncoder(module)) != before


def test_settings_have_a_fingerprint_though_they_hold_a_function() -> None:
    def settings(**changes: int) -> StudentSettings:
        return StudentSettings(model=TorchStudent(lambda: nn.Linear(2, 2), **changes))

    assert fingerprint(settings()) == fingerprint(settings())
    others = [settings(epochs=3), replace(settings(), input="samples"), QuerySettings(), vars(settings())]
    assert len({fingerprint(value) for value in [settings(), *others]}) == 5


def test_values_that_print_alike_differ() -> None:
    texts = [["ab", "c"], ["a", "bc"], [["ab"], "c"], ["ab", "c", None], {"ab": "c"}, ["1"], [1], [1.0], [True]]
    assert len({fingerprint(value) for value in texts}) == len(texts)


def test_samples_have_a_fingerprint() -> None:
    frame = pd.DataFrame({"a": [1.0, None], "b": ["x", None]})
    assert fingerprint(frame) == fingerprint(frame.copy())
    others = [frame.rename(columns={"a": "c"}), frame.assign(a=[1.0, 2.0]), frame[::-1], frame["b"], ["x", "y"]]
    assert len({fingerprint(value) for value in [frame, *others]}) == 6


def test_a_fingerprint_is_the_same_in_another_process() -> None:
    code = (
        "from recordwise.encoders import Text, fingerprint;"
        f"print(fingerprint(Text(dim=2).fit({WORDS!r})), fingerprint({{'a', 'b', 'c', 'd'}}))"
    )
    there = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()
    assert there == [fingerprint(Text(dim=2).fit(WORDS)), fingerprint({"a", "b", "c", "d"})]


def test_a_number_of_any_size_has_a_fingerprint() -> None:
    assert len({fingerprint([10**5000]), fingerprint([10**5000 + 1]), fingerprint([1])}) == 3


@dataclass(frozen=True)
class Settings:
    make: Callable[[], int]
    size: int


def test_settings_have_a_fingerprint_whatever_they_hold() -> None:
    first, again, other = (Settings(lambda: 0, size) for size in (1, 1, 2))
    assert fingerprint(first) == fingerprint(again) != fingerprint(other)


def test_functions_of_one_name_are_told_apart_by_what_they_do() -> None:
    def times(factor: int) -> Any:
        return lambda vectors: factor * vectors

    one, same, other = (FunctionTransformer(times(factor)) for factor in (2, 2, 3))
    assert fingerprint(one) == fingerprint(same) != fingerprint(other)
    kept, dropped = (lambda v: v in {"a", "b"}), (lambda v: v not in {"a", "b"})
    assert fingerprint(kept) != fingerprint(dropped)
