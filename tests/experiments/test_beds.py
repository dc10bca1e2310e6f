"""What experiments with students measure with."""

from __future__ import annotations

import json

import numpy as np
import pytest
from experiments.beds import bed_of
from experiments.budgets import RESULTS
from experiments.scores import calibration_error, calibration_floor


def test_calibration_error_is_the_mean_gap_between_confidence_and_being_right() -> None:
    sure = np.tile([0.9, 0.1], (10, 1))
    assert calibration_error(sure, np.array([0] * 9 + [1])) == pytest.approx(0.0)
    assert calibration_error(sure, np.ones(10, dtype=np.int64)) == pytest.approx(0.9)


def test_true_probabilities_have_a_calibration_error_too_where_samples_are_few() -> None:
    some = np.random.default_rng(0).dirichlet(np.ones(3), size=4_000)
    few, many = calibration_floor(some[:40]), calibration_floor(some)
    assert 0.05 < few < 0.2 and 0.002 < many < 0.02
    assert calibration_floor(np.tile([1.0, 0.0], (50, 1))) == 0


def test_in_the_generated_table_a_quarter_abstains_and_few_are_rare() -> None:
    bed = bed_of("abstaining")
    assert len(bed.abstaining) / len(bed.records) == pytest.approx(0.23, abs=0.01)
    assert bed.record_labels.mean() == pytest.approx(0.06, abs=0.005)
    assert bed.record_labels[bed.abstaining].mean() < 0.03


def test_the_rare_class_is_found_as_often_as_true_labels_teach() -> None:
    rows = [row for row in json.loads(RESULTS.read_text()) if (row["data"], row["epsilon"]) == ("abstaining", 1.0)]
    assert rows and all(np.mean(row["counts_recall"]) > row["nonprivate_recall"] - 0.05 for row in rows)
