"""The report page, in a real browser: complete, honest, and without a request to anywhere."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from PIL import Image
from sklearn.datasets import load_digits

import recordwise.report
from browsers import launched
from recordwise.distiller import PrivateDistiller
from recordwise.errors import InvalidInput
from recordwise.privacy.ledger import Ledger
from recordwise.privacy.noise import Noise, SeededNoise
from recordwise.randomness import seeded
from recordwise.report import Summary, render, summarize, write_report
from recordwise.report.charts import colour

HOSTILE = "<script>alert(1)</script>"
LOOKS = {
    "light": {"color_scheme": "light", "viewport": {"width": 1240, "height": 900}},
    "dark": {"color_scheme": "dark", "viewport": {"width": 1240, "height": 900}},
    "phone": {"color_scheme": "light", "viewport": {"width": 390, "height": 844}},
}


def fitted(folder: Path, noise: Noise | None = None) -> tuple[PrivateDistiller, np.ndarray, tuple[Any, Any]]:
    """A run on digits, its pool, and a test set."""
    digits = load_digits()
    images = digits.images.astype(np.uint8)
    order = seeded(0, "report").permutation(len(images))
    pool, records, test = np.split(order, [400, 1500])
    ledger = Ledger.open(folder / "ledger.sqlite")
    ledger.open_budget("digits", epsilon=5)
    account = {"ledger": folder / "ledger.sqlite", "budget": "digits"} if noise is None else None
    one = PrivateDistiller(2.0, encoder="pca", num_queries=30, account=account)
    one.fit(images[records], digits.target[records], X_public=images[pool], noise=noise)
    return one, images[pool], (images[test], digits.target[test])


@pytest.fixture(scope="module")
def summary(tmp_path_factory: pytest.TempPathFactory) -> Summary:
    one, pool, test = fitted(tmp_path_factory.mktemp("report"))
    rows = [
        {"method": name, "privacy": "p", "epsilon": e, "accuracy": 0.8 + e / 100, "spread": 0.01, "runs": 3}
        for name in ("ours", "theirs")
        for e in (0.5, 1.0, 2.0)
    ]
    return summarize(one, pool, name="Ward <7> & co", test=test, comparison=rows)


@pytest.fixture(scope="module")
def texts() -> Summary:
    """Texts and classes that try to be more than text."""
    pool = [f"a cat {HOSTILE} {i}" for i in range(60)] + [f"a dog that barks {i}" for i in range(60)]
    y = np.repeat(["<img src=x>", "dog"], 60)
    one = PrivateDistiller(50.0, num_queries=6, classes=["<img src=x>", "dog"], encoder="text")
    return summarize(one.fit(pool, y, X_public=pool), pool, name=HOSTILE)


@pytest.fixture(scope="module")
def table() -> Summary:
    """A table whose column and whose values try to be more than words."""
    rng = seeded(0, "table")
    ill = rng.integers(2, size=600)
    frame = pd.DataFrame({"age": rng.normal(40 + 30 * ill, 5), HOSTILE: np.where(ill, "<b>icu</b>", "er")})
    y = np.where(ill, "ill", "well")
    one = PrivateDistiller(5.0, num_queries=8, classes=["ill", "well"])
    one.fit(frame[200:500], y[200:500], X_public=frame[:200])
    return summarize(one, frame[:200], name="wards", test=(frame[500:], y[500:]))


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with launched() as one:
        yield one


def opened(browser: Any, summary: Summary, folder: Path, **look: Any) -> tuple[Any, list[str]]:
    """The page in the browser, and whatever it asked for or complained of."""
    file = folder / "report.html"
    write_report(summary, file)
    page = browser.new_context(**look).new_page()
    troubles: list[str] = []
    page.on("request", lambda asked: troubles.append(asked.url) if not asked.url.startswith("data:") else None)
    page.on("console", lambda message: troubles.append(message.text))
    page.on("pageerror", lambda error: troubles.append(str(error)))
    page.goto(file.as_uri())
    return page, [trouble for trouble in troubles if trouble != file.as_uri()]


@pytest.mark.parametrize("look", LOOKS)
def test_the_page_shows_everything_and_asks_nobody(summary: Summary, browser: Any, tmp_path: Path, look: str) -> None:
    page, troubles = opened(browser, summary, tmp_path, **LOOKS[look])
    assert troubles == []
    assert page.inner_text("#statement") == summary.statement
    assert page.inner_text("#odds") == summary.odds
    assert page.inner_text("#verdict .line") == summary.verdict["headline"] + "."
    assert page.inner_text("h1") == "Ward <7> & co"
    assert page.locator("#gallery .card").count() == len(summary.gallery.cards) > 9
    assert page.locator("#gallery img").count() > 50
    assert page.locator("#comparison tbody tr").count() == 6
    assert page.locator("#classes tbody tr").count() == 10
    headings = page.locator("h2").all_inner_texts()
    wanted = ["What is protected, and what is not", "What came of it", "The queries and their labels", "The account"]
    assert headings == [*wanted, "How it was made"]
    assert page.locator("nav a").all_inner_texts() == headings
    for link in page.locator("nav a").all():
        assert page.locator(f"section{link.get_attribute('href')} h2").inner_text() == link.inner_text()
    for hashed in summary.hashes.values():
        assert hashed in page.content()
    # Nothing runs past the edge of the window, and every picture has a size.
    assert page.evaluate("document.documentElement.scrollWidth <= window.innerWidth")
    width = 250 if look == "phone" else 300
    boxes = [picture.bounding_box() for picture in page.locator("figure svg").all()]
    assert len(boxes) == 4 and all(box["width"] > width and box["height"] > 100 for box in boxes)
    page.screenshot(path=tmp_path / "page.png", full_page=True)
    pixels = np.asarray(Image.open(tmp_path / "page.png").convert("RGB")).reshape(-1, 3)
    assert len(np.unique(pixels[::97], axis=0)) > 200  # drawn, and in colours
    assert (pixels.mean() > 128) == (look != "dark")
    page.context.close()


def test_a_printed_page_is_light_whole_and_unfolded(texts: Summary, browser: Any, tmp_path: Path) -> None:
    page, _ = opened(browser, texts, tmp_path, color_scheme="dark", viewport={"width": 800, "height": 1100})
    shut = page.locator("#gallery .texts li").first
    assert not shut.is_visible()
    page.emulate_media(media="print")
    assert shut.bounding_box()["height"] > 0
    assert not page.locator("nav").is_visible()
    page.screenshot(path=tmp_path / "page.png", full_page=True)
    assert np.asarray(Image.open(tmp_path / "page.png").convert("L")).mean() > 128
    assert page.pdf(format="A4").startswith(b"%PDF")
    page.context.close()


@pytest.mark.parametrize("kind", ["texts", "table"])
def test_what_tries_to_be_more_than_words_stays_words(
    kind: str, request: pytest.FixtureRequest, browser: Any, tmp_path: Path
) -> None:
    page, troubles = opened(browser, request.getfixturevalue(kind), tmp_path)
    assert troubles == []
    assert page.locator("script, main img, .typical b").count() == 0
    assert HOSTILE in page.inner_text("body")
    page.context.close()


def test_tables_can_be_read_aloud(summary: Summary, table: Summary, browser: Any, tmp_path: Path) -> None:
    for shown in (summary, table):
        page, _ = opened(browser, shown, tmp_path)
        assert page.locator("table").count() >= 6
        assert page.locator("table:not(:has(caption))").count() == 0
        assert page.locator("th:not([scope])").count() == 0
        assert page.locator("[role=img]:not([aria-label]), img:not([alt])").count() == 0
        page.context.close()


def test_words_stand_out_from_what_is_behind_them_and_no_colour_says_good_or_bad() -> None:
    style = (Path(recordwise.report.__file__).parent / "templates" / "style.html.j2").read_text()
    themes = re.findall(r":root \{[^}]*?--paper[^}]*?--wash[^}]*?\}", style)[:2]
    assert len(themes) == 2
    for theme in themes:
        tones = {
            name: np.array([int(code[i : i + 2], 16) for i in (0, 2, 4)]) / 255 for name, code in TONE.findall(theme)
        }
        for word in ("ink", "soft", "accent"):
            for behind in ("paper", "card", "wash"):
                assert contrast(tones[word], tones[behind]) > 4.5, (word, behind)
    for index in range(24):
        hue = int(colour(index)[4:].split()[0])
        assert 20 < hue < 70 or 170 < hue < 335, "neither red nor green"
    assert len({colour(index) for index in range(-1, 24)}) == 25


TONE = re.compile(r"--(\w+): #([0-9a-f]{6})")


def contrast(one: Any, other: Any) -> float:
    """As WCAG 2 defines it."""

    def luminance(tone: Any) -> float:
        linear = np.where(tone <= 0.04045, tone / 12.92, ((tone + 0.055) / 1.055) ** 2.4)
        return float(linear @ [0.2126, 0.7152, 0.0722])

    low, high = sorted((luminance(one), luminance(other)))
    return (high + 0.05) / (low + 0.05)


def test_a_table_s_cards_say_what_is_typical(table: Summary) -> None:
    card = next(card for card in table.gallery.cards if table.classes[card["label"]] == "ill")
    typical = {column: (here, pool) for column, here, pool in card["samples"]}
    here, pool = typical["age"]
    assert float(here) > 60 > float(pool)
    here, pool = typical[HOSTILE]
    assert here in ("<b>icu</b>: 100 %", "er: 0 %") and 30 < int(pool.removesuffix(" %")) < 70


def test_settings_are_shown_as_they_came_out(table: Summary, summary: Summary) -> None:
    assert table.settings["encoder"] == "auto" and table.settled["encoder"] == "Table(), 3 numbers a sample"
    assert summary.settled["num_queries"] == "30"
    assert summary.settled["mechanism"] == "laplace (central trust)"
    assert summary.settled["decoder"] == "field"
    assert summary.settled["student"].startswith("linear with the class shares of the queries around a sample, from ")
    page = render(table)
    assert "Table(), 3 numbers a sample" in page and "asked for: auto" in page


def test_whose_account_it_is_stands_on_the_page_and_in_the_text(summary: Summary, table: Summary) -> None:
    for one, said in ((summary, "the ledger that the owner named"), (table, "this run's own, and it is not kept")):
        assert f"The account is {said}" in one.as_text()
        assert f"The account is {said}".replace("'", "&#39;") in render(one)


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
    one, pool, _ = fitted(tmp_path, SeededNoise(1))
    page = render(summarize(one, pool, name="ablation"))
    assert 'class="statement loud"' in page and "NOT PRIVATE" in page and "In odds" not in page
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
