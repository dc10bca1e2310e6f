"""The report page, in a real browser: complete, honest, and without a request to anywhere."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image
from sklearn.datasets import load_digits

from recordwise.distiller import PrivateDistiller
from recordwise.errors import InvalidInput
from recordwise.privacy.ledger import Ledger
from recordwise.privacy.noise import Noise, SeededNoise
from recordwise.randomness import seeded
from recordwise.report import Summary, render, summarize, write_report


def fitted(folder: Path, noise: Noise | None = None) -> tuple[PrivateDistiller, np.ndarray]:
    digits = load_digits()
    images = digits.images.astype(np.uint8)
    order = seeded(0, "report").permutation(len(images))
    pool, records = images[order[:400]], order[400:]
    ledger = Ledger.open(folder / "ledger.sqlite")
    ledger.open_budget("digits", epsilon=5)
    account = {"ledger": folder / "ledger.sqlite", "budget": "digits"} if noise is None else None
    one = PrivateDistiller(2.0, encoder="pca", num_queries=30, account=account)
    return one.fit(images[records], digits.target[records], X_public=pool, noise=noise), pool


@pytest.fixture(scope="module")
def summary(tmp_path_factory: pytest.TempPathFactory) -> Summary:
    one, pool = fitted(tmp_path_factory.mktemp("report"))
    rows = [
        {"method": name, "privacy": "p", "epsilon": e, "accuracy": 0.8 + e / 100, "spread": 0.01, "runs": 3}
        for name in ("ours", "theirs")
        for e in (0.5, 1.0, 2.0)
    ]
    return summarize(one, pool, name="Ward <7> & co", test_accuracy=0.912, comparison=rows)


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        names = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
        installed = next((path for name in names if (path := shutil.which(name))), None)
        launched = playwright.chromium.launch(
            executable_path=installed, args=["--no-sandbox", "--disable-background-networking"]
        )
        yield launched
        launched.close()


def test_the_page_shows_everything_and_asks_nobody(summary: Summary, browser: Any, tmp_path: Path) -> None:
    page_file = tmp_path / "report.html"
    write_report(summary, page_file)
    page = browser.new_page(viewport={"width": 1240, "height": 900})
    requests: list[str] = []
    problems: list[str] = []
    page.on("request", lambda request: requests.append(request.url))
    page.on("console", lambda message: problems.append(message.text))
    page.on("pageerror", lambda error: problems.append(str(error)))
    page.goto(page_file.as_uri())
    assert [url for url in requests if not url.startswith(("data:", page_file.as_uri()))] == []
    assert problems == []
    assert page.inner_text("#statement") == summary.statement
    assert page.inner_text("h1") == "Ward <7> & co"
    assert page.locator("#gallery .card").count() == len(summary.gallery.cards) > 9
    assert page.locator("#gallery img").count() > 50
    assert page.locator("#comparison tbody tr").count() == 6
    headings = page.locator("h2").all_inner_texts()
    wanted = ["What is protected, and what is not", "What came of it", "The queries and their labels", "Ledger"]
    assert headings == [*wanted, "How it was made"]
    for hashed in summary.hashes.values():
        assert hashed in page.content()
    # Nothing runs past the edge of the window, and every picture has a size.
    assert page.evaluate("document.documentElement.scrollWidth <= window.innerWidth")
    boxes = [picture.bounding_box() for picture in page.locator("figure svg").all()]
    assert len(boxes) == 4 and all(box["width"] > 300 and box["height"] > 100 for box in boxes)
    page.screenshot(path=tmp_path / "page.png", full_page=True)
    pixels = np.asarray(Image.open(tmp_path / "page.png").convert("RGB")).reshape(-1, 3)
    assert len(np.unique(pixels[::97], axis=0)) > 200  # drawn, and in colours
    page.set_viewport_size({"width": 480, "height": 900})
    assert page.evaluate("document.documentElement.scrollWidth <= window.innerWidth + 1")
    page.close()


def test_costs_on_the_page_are_never_rounded_down(summary: Summary) -> None:
    book = {"spent": 0.123412, "left": 0.999968, "epsilon": 1.12338, "releases": []}
    page = render(
        replace(
            summary,
            guarantee={**summary.guarantee, "epsilon": 0.123412, "delta": 1.23412e-6},
            ledger={"budgets": {"digits": book}},
        )
    )
    assert "<b>0.1235</b><span>ε</span>" in page and "<b>1.235e-06</b><span>δ</span>" in page
    assert "ε 0.1235 of 1.123 spent, 0.9999 left" in page


@pytest.mark.parametrize(
    ("terms", "hidden"),
    [
        ({"neighbours": "replace"}, "What any single private record holds,"),
        ({"neighbours": "add-remove"}, "Whether any single private record took part, and what it holds,"),
        ({"neighbours": "replace", "unit": "client"}, "What any single client holds,"),
    ],
)
def test_a_page_claims_no_more_than_its_guarantee(summary: Summary, terms: dict[str, str], hidden: str) -> None:
    assert f"<li>{hidden}" in render(replace(summary, guarantee={**summary.guarantee, **terms}))


def test_a_page_says_loudly_that_seeded_noise_protects_nobody(tmp_path: Path) -> None:
    one, pool = fitted(tmp_path, SeededNoise(1))
    page = render(summarize(one, pool, name="ablation"))
    assert 'class="statement bad"' in page and "NOT PRIVATE" in page
    assert "<li>Nothing: whoever knows the seed" in page and "private record holds" not in page


def test_a_summary_is_read_back_as_it_was_written(summary: Summary, tmp_path: Path) -> None:
    (tmp_path / "summary.json").write_text(summary.to_json())
    assert Summary.read(tmp_path / "summary.json") == summary
    with pytest.raises(InvalidInput, match=r"nowhere holds no finished run: summary.json does not exist$"):
        Summary.read(tmp_path / "nowhere" / "summary.json")
    (tmp_path / "summary.json").write_bytes(b"\xff")
    with pytest.raises(InvalidInput, match="is not the summary of a run"):
        Summary.read(tmp_path / "summary.json")


def test_a_summary_tells_nothing_about_this_machine(summary: Summary, tmp_path_factory: pytest.TempPathFactory) -> None:
    assert str(tmp_path_factory.getbasetemp()) not in summary.to_json()
    assert "ledger.sqlite" not in summary.to_json()


@pytest.mark.parametrize(
    ("X", "pool"),
    [
        (seeded(1, "X").normal(size=(300, 2)), seeded(2, "pool").normal(size=(200, 2))),
        (
            [f"cat number {i}" for i in range(150)] + [f"dog {i} barks" for i in range(150)],
            [f"a cat {i}" for i in range(100)] + [f"a dog that barks {i}" for i in range(100)],
        ),
    ],
    ids=["vectors", "text"],
)
def test_pools_without_pictures_have_a_page_too(X: Any, pool: Any) -> None:
    y = np.repeat([0, 1], 150)
    one = PrivateDistiller(50.0, num_queries=8).fit(X, y, X_public=pool)
    page = render(summarize(one, pool, name="plain"))
    assert "<svg" in page and ("barks" in page) == isinstance(pool, list)
