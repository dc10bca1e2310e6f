"""The explorer in a real browser: move a slider, see the prediction change, press the button, find the job file."""

from __future__ import annotations

import re
import threading
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from exploring import HOSTILE, afresh, make_job

from browsers import launched
from recordwise.explorer import Exploration, explore, render
from recordwise.explorer.server import PageServer

PATIENCE = 120_000  # milliseconds: a busy machine is not a failing test


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with launched() as one:
        yield one


@pytest.fixture(scope="module")
def explored(tmp_path_factory: pytest.TempPathFactory) -> Exploration:
    return explore(make_job(tmp_path_factory.mktemp("explore")))


@pytest.fixture
def server(explored: Exploration, tmp_path: Path) -> Iterator[PageServer]:
    found = afresh(explored, make_job(tmp_path))
    with PageServer(found) as made, found.filling():
        thread = threading.Thread(target=made.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield made
        made.shutdown()
        thread.join()


def watched(browser: Any, **settings: Any) -> tuple[Any, list[str], list[str]]:
    """A page, the addresses it asks for, and everything that goes wrong in it."""
    page = browser.new_page(**settings)
    page.set_default_timeout(PATIENCE)
    asked: list[str] = []
    problems: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    page.on("console", lambda message: problems.append(message.text))
    page.on("pageerror", lambda error: problems.append(str(error)))
    return page, asked, problems


def seen(page: Any, place: str, pattern: str) -> None:
    """Wait until the text in that place is so."""
    from playwright.sync_api import expect

    expect(page.locator(place)).to_have_text(re.compile(pattern), timeout=PATIENCE)


def predicted(page: Any, found: Exploration, at: tuple[int, int, int]) -> str:
    """The prediction on the page, once the cell is computed; it is the cell's."""
    seen(page, "#student", r"^[0-9.]+ %$")
    shown = str(page.inner_text("#student"))
    assert shown == f"{100 * found.grid.cells[at]['student'][0]:.1f} %"
    return shown


@pytest.mark.parametrize(
    ("width", "height", "scheme"), [(1240, 900, "light"), (390, 844, "dark")], ids=["desktop", "phone"]
)
def test_a_choice_is_made_and_written(
    browser: Any, server: PageServer, width: int, height: int, scheme: str, tmp_path: Path
) -> None:
    found = server.exploration
    page, asked, problems = watched(browser, viewport={"width": width, "height": height}, color_scheme=scheme)
    page.goto(server.url)
    trust, size, _ = found.grid.start
    before = predicted(page, found, found.grid.start)
    page.focus("#epsilon")
    page.keyboard.press("Home")  # the smallest epsilon
    assert page.inner_text("#epsilon-value") == "0.05"
    assert page.get_attribute("#epsilon", "aria-valuetext") == "epsilon 0.05"
    assert predicted(page, found, (trust, size, 0)) != before
    assert float(page.inner_text("#noise").removeprefix("± ")) > 20
    page.check("#trust-local")
    page.focus("#queries")
    page.keyboard.press("ArrowLeft")
    assert page.inner_text("#queries-value") == "3"
    assert "Nobody sees a vote" in page.inner_text("#trust-note")
    seen(page, "#student-range", "^noise covers the votes$")  # three queries, 600 records, epsilon 0.05
    assert page.is_disabled("#trust-shuffle") and "delta > 0" in page.inner_text("#trust-note")
    page.click("#write")
    seen(page, "#written", r"^Written: job-explored\.toml, beside job\.toml\.")
    job = tomllib.loads((tmp_path / "job-explored.toml").read_text())
    assert job["privacy"] == {"epsilon": 0.05, "trust": "local"} and job["method"]["num_queries"] == 3
    assert page.evaluate("document.documentElement.scrollWidth <= window.innerWidth")
    assert all(url.startswith((server.url, "data:")) for url in asked) and problems == []
    page.close()


def test_samples_show_on_hover_and_by_keyboard_and_stay_text(
    browser: Any, explored: Exploration, tmp_path: Path
) -> None:
    found = afresh(explored)
    found.grid.cell(found.grid.start)
    file = tmp_path / "page.html"
    file.write_text(render(found.document(travels=True)))
    page, asked, problems = watched(browser, viewport={"width": 1240, "height": 900})
    page.goto(file.as_uri())
    hostile = next(i for i, row in enumerate(found.map.samples) if HOSTILE in row[2][1])
    box = page.locator("#map").bounding_box()
    x, y = page.evaluate(f"placeOf({hostile})")
    page.mouse.move(box["x"] + x, box["y"] + y)
    assert page.inner_text("#card th >> nth=0") == "first"
    page.evaluate(f"point({hostile})")  # whichever of two that lie together is nearer
    assert HOSTILE in page.inner_text("#card") and re.search(r"Query \d of 6", page.inner_text("#card"))
    page.keyboard.press("Tab")
    page.focus("#map")
    for key in ("ArrowLeft", "ArrowLeft", "ArrowUp"):
        page.keyboard.press(key)
    assert "first" in page.text_content("#said")
    page.keyboard.press("Escape")
    assert page.is_hidden("#card")
    assert page.evaluate("window.pwned") is None and page.locator("main img, main b b").count() == 0
    assert page.is_hidden("#write") and "num_queries = 6" in page.inner_text("#lines")
    assert page.locator("#grid th[scope=col]").count() == len(found.grid.epsilons)
    assert page.locator("#grid th[scope=row]").count() == len(found.grid.queries)
    assert [url for url in asked if not url.startswith(("data:", file.as_uri()))] == [] and problems == []
    page.close()
