"""The page on the digits that the documentation shows is one that this version would write."""

from __future__ import annotations

import json
import re
from pathlib import Path

from recordwise.explorer.page import policy, render

DOCS = Path(__file__).parents[2] / "docs"
PAGE = DOCS / "explorer" / "digits.html"


def test_the_page_is_of_this_version_and_complete() -> None:
    page = PAGE.read_text()
    (data,) = re.findall(r'<script type="application/json" id="data">(.*?)</script>', page, re.DOTALL)
    document = json.loads(data)
    assert render(document) == page, "run: python scripts/explorer_pages.py"
    assert policy(live=False) in page
    assert document["travels"] and len(document["cells"]) == document["total"] > 50
    assert document["map"]["kind"] == "images" and None not in document["map"]["samples"]
    assert len(document["ledger"]["budgets"][0]["releases"]) == 1


def test_it_is_on_the_front_page_and_nothing_is_large() -> None:
    front = (DOCS / "index.md").read_text()
    for shown in ('src="explorer/digits.html"', "figures/method.svg", "pip install", "examples/digits.ipynb"):
        assert shown in front
    assert PAGE.stat().st_size < 500_000
    shots = sorted((DOCS / "figures").glob("explorer-*.png"))
    assert len(shots) == 3 and all(shot.stat().st_size < 200_000 for shot in shots)
