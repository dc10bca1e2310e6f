"""What the page about planning claims is what the committed rows say."""

from __future__ import annotations

import json
from itertools import pairwise
from typing import Any

import numpy as np
from experiments.planning import PARTITIONS, RESULTS, SWEEPS, summaries

ROWS = json.loads(RESULTS.read_text())


def of(kind: str) -> list[dict[str, Any]]:
    return [row for row in ROWS if row["kind"] == kind]


def test_every_set_was_measured_at_every_budget_and_size() -> None:
    swept = {(row["data"], row["epsilon"]) for row in of("sweep")}
    assert swept == {(data, epsilon) for data, sizes in SWEEPS.items() for epsilon in sizes}
    predicted = {(row["data"], row["epsilon"], row["s"]) for row in of("prediction")}
    assert predicted >= {
        (data, epsilon, s) for data, sizes in SWEEPS.items() for epsilon, some in sizes.items() for s in some
    }


def test_with_some_labelled_samples_predictions_are_three_points_off_at_most() -> None:
    [mean] = [row for row in summaries(ROWS) if row["data"] == "mean over sets"]
    assert mean["settings"] == len(SWEEPS)
    assert mean["off_accuracy"] <= 0.03 and mean["off_label_accuracy"] <= 0.03


def test_three_of_four_measured_means_lie_inside_the_interval() -> None:
    rows = of("prediction")
    assert np.mean([row["inside_interval"] for row in rows]) >= 0.75


def test_summaries_are_those_of_the_rows() -> None:
    kept = {row["data"]: row for row in of("summary")}
    found = list(summaries(ROWS))
    assert len(found) == len(kept)
    for row in found:
        assert row.items() <= kept[row["data"]].items()


def test_the_recommended_number_of_queries_is_among_the_best() -> None:
    """Within a point, but for two sweeps that the page names."""
    below = {(row["data"], row["epsilon"]): row["below_best_accuracy"] for row in of("sweep")}
    short = {("digits", 0.5): 0.02, ("clinc150", 0.1): 0.022}
    assert all(gap <= short.get(sweep, 0.01) for sweep, gap in below.items()) and len(below) == 24


def test_a_plan_tells_where_a_second_partition_pays() -> None:
    rows = of("partitions")
    assert len(rows) == 2 * sum(map(len, PARTITIONS.values()))
    for one, two in list(pairwise(rows))[::2]:
        gained = np.mean(two["test_accuracy"]) - np.mean(one["test_accuracy"])
        told = two["predicted_accuracy"] - one["predicted_accuracy"]
        assert (one["partitions"], two["partitions"]) == (1, 2)
        assert abs(gained) < 0.005 or np.sign(told) == np.sign(gained)


def test_the_example_of_the_readme_was_measured_as_it_stands_there() -> None:
    assert [row["asked"] for row in of("example")] == ["auto", "45", "60"]
    readme = (RESULTS.parents[2] / "README.md").read_text()
    assert 'PrivateDistiller(epsilon=1.0, encoder="pca", classes=range(10))' in readme
    assert "np.random.default_rng(0).permutation(len(X))" in readme and "np.split(order, [600, 1500])" in readme
