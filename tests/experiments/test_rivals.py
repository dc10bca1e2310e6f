"""The comparison's script measures every method, and finds where probes overtake."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from experiments import crossover, rivals
from recordwise.randomness import seeded


def _row(method: str, epsilon: float, accuracy: float) -> dict[str, object]:
    return {"data": "d", "method": method, "epsilon": epsilon, "test_accuracy": [accuracy]}


def test_the_crossover_lies_where_the_lead_is_nought() -> None:
    rows = [_row("recordwise", 0.01, 0.9), _row("recordwise", 1.0, 0.9), _row("recordwise", 100.0, 0.9)]
    rows += [_row("dp-linear", 0.01, 0.5), _row("dp-linear", 1.0, 0.8), _row("dp-linear", 100.0, 1.0)]
    rows += [_row("noisy-sgd-1", epsilon, 0.3) for epsilon in (0.01, 1.0, 100.0)]
    found = crossover.crossover(rows, "d")
    assert found["epsilon"] == pytest.approx(10.0) and found["best_probe"] == "dp-linear"
    assert found["lead_at_smallest"] == 40.0 and found["lead_at_largest"] == -10.0
    ahead = crossover.crossover([row for row in rows if row["epsilon"] != 100.0], "d")
    assert ahead["epsilon"] is None


def test_rows_say_what_each_method_protects(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rivals, "RESULTS", tmp_path / "rivals.json")
    rng = seeded(0, "rows")
    labels = {part: rng.integers(0, 2, 200) for part in ("public", "private", "test")}
    vectors = {part: (5 * np.eye(2, 3)[y] + rng.normal(size=(200, 3))).astype(np.float32) for part, y in labels.items()}
    first_plan = None
    for method in ("recordwise", "dp-linear"):
        found = rivals.measure(method, 4.0, (vectors, labels), 0)
        assert found["test_accuracy"] > 0.9
        assert rivals.planned("mnist", 4.0) == ("auto" if method == "recordwise" else first_plan)
        first_plan = found["chosen"].get("num_queries", first_plan)
        for seed in (0, 1):
            rivals.keep(found, data="mnist", encoder="e", method=method, epsilon=4.0, seed=seed)
    first, second = json.loads((tmp_path / "rivals.json").read_text())
    assert first["method"] == "recordwise" and first["delta"] == 0 and second["delta"] == 1e-5
    for row in (first, second):
        assert row["seeds"] == ["0", "1"] and len(row["test_accuracy"]) == 2
        assert row["neighbours"] == "add-remove" and row["protects"] and row["public"] and row["rounds"]


def test_fine_tuning_begins_from_a_network_that_saw_the_pool_alone() -> None:
    pytest.importorskip("torch")
    rng = seeded(0, "fine-tuning")
    labels = {part: rng.integers(0, 2, 200) for part in ("public", "private", "test")}
    vectors = {part: (5 * np.eye(2, 3)[y] + rng.normal(size=(200, 3))).astype(np.float32) for part, y in labels.items()}
    assert rivals.measure(rivals.FINE_TUNED, 8.0, (vectors, labels), 0)["test_accuracy"] > 0.9


def test_every_method_was_measured_with_five_seeds_on_every_data_set() -> None:
    rows = json.loads(rivals.RESULTS.read_text())
    wanted = {
        (data, method, e) for data in rivals.DATA for method in ("recordwise", *rivals.METHODS) for e in rivals.EPSILONS
    }
    assert {(row["data"], row["method"], row["epsilon"]) for row in rows} == wanted and len(rows) == len(wanted)
    for row in rows:
        assert row["seeds"] == [str(seed) for seed in rivals.SEEDS]
