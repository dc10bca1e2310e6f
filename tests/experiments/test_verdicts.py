"""Verdicts beside true labels: what the committed rows show, and that a row can be made."""

from __future__ import annotations

import json

from experiments.verdicts import ASKED, RESULTS, measure, parts_of


def test_every_row_was_measured_and_levels_follow_the_errors_avoided() -> None:
    rows = json.loads(RESULTS.read_text())
    assert [(row["data"], row["epsilon"], row["s"]) for row in rows] == [(d, *one) for d in ASKED for one in ASKED[d]]
    avoided = {
        level: [row["avoided"] for row in rows if row["verdict"] == level] for level in ("nothing", "weak", "clear")
    }
    assert all(row["verdict"] == "nothing" for row in rows if row["data"] == "random")
    assert min(avoided["clear"]) > 0.5 and max(avoided["weak"]) < 0.5
    assert 0.1 < max(avoided["nothing"]) < min(avoided["clear"])  # not shown to say something is not: says nothing


def test_a_row_of_labels_drawn_at_random_says_nothing() -> None:
    (pool, truth), (records, labels) = parts_of("random", None)
    row = measure("random", 1.0, 20, ((pool[:400], truth[:400]), (records[:400], labels[:400])))
    assert row["verdict"] == "nothing" and row["expected"] == "" and abs(row["avoided"]) < 0.2
