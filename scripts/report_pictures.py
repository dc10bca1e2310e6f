"""Pictures of the report page for the documentation, taken in a real browser: desktop, dark, phone and print.

python scripts/report_pictures.py            # into docs/figures

The data is public or made up; noise is drawn anew each time, so pictures differ a little from run to run.
"""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from pictures import FIGURES, keep, launched
from sklearn.datasets import load_digits

from recordwise import PrivateDistiller, summarize, write_report
from recordwise.report import Summary


def digits() -> Summary:
    """Images, clearly labelled."""
    found = load_digits()
    images, order = (found.images * 255 / 16).astype(np.uint8), np.random.default_rng(0).permutation(1797)
    pool, records, test = np.split(order, [600, 1500])
    model = PrivateDistiller(1.0, num_queries=100, classes=range(10))
    model.fit(images[records], found.target[records], X_public=images[pool])
    return summarize(model, images[pool], name="Digits", test=(images[test], found.target[test]))


def wards() -> Summary:
    """A table with numbers, categories and dates."""
    rng, size = np.random.default_rng(1), 4000
    ill = rng.integers(2, size=size)
    frame = pd.DataFrame(
        {
            "age": rng.normal(45 + 14 * ill, 9).round(),
            "ward": np.where(rng.random(size) < 0.2 + 0.4 * ill, "surgery", rng.choice(["er", "icu"], size=size)),
            "admitted": pd.Timestamp("2024-01-01") + pd.to_timedelta(rng.integers(0, 500, size), unit="D"),
            "height": rng.normal(170, 9, size).round(),
        }
    )
    labels = np.where(ill, "readmitted", "home")
    model = PrivateDistiller(0.5, num_queries=24, classes=["home", "readmitted"])
    model.fit(frame[1000:3500], labels[1000:3500], X_public=frame[:1000])
    return summarize(model, frame[:1000], name="Wards", test=(frame[3500:], labels[3500:]))


def weak() -> Summary:
    """Classes that hardly lie apart."""
    rng, size = np.random.default_rng(2), 5000
    churned = (rng.random(size) < 0.2).astype(int)
    frame = pd.DataFrame(rng.normal(size=(size, 4)), columns=["calls", "minutes", "spend", "tenure"])
    frame["calls"] += 0.9 * churned
    labels = np.where(churned, "leaves", "stays")
    model = PrivateDistiller(1.0, num_queries=20, classes=["leaves", "stays"])
    model.fit(frame[1000:4000], labels[1000:4000], X_public=frame[:1000])
    return summarize(model, frame[:1000], name="Customers", test=(frame[4000:], labels[4000:]))


def shoot(browser: Any, page_file: Path, name: str, *, size: tuple[int, int], at: str = "body", **look: Any) -> None:
    """One picture, from an element of the page on."""
    media = look.pop("media", "screen")
    page = browser.new_context(viewport={"width": size[0], "height": size[1]}, **look).new_page()
    page.emulate_media(media=media)
    page.goto(page_file.as_uri())
    page.screenshot(path=FIGURES / name, full_page=True)
    top = int(page.locator(at).bounding_box()["y"])
    page.context.close()
    keep(FIGURES / name, top=top, height=size[1])


def main() -> None:
    with tempfile.TemporaryDirectory() as folder, launched() as browser:
        files = {}
        for made in (digits, wards, weak):
            files[made.__name__] = Path(folder) / f"{made.__name__}.html"
            write_report(made(), files[made.__name__])
        shoot(browser, files["digits"], "report-desktop.png", size=(1240, 1180))
        shoot(browser, files["wards"], "report-dark.png", size=(1240, 900), at="#queries", color_scheme="dark")
        shoot(browser, files["weak"], "report-phone.png", size=(390, 1120))
        shoot(browser, files["wards"], "report-print.png", size=(760, 1075), media="print")


if __name__ == "__main__":
    main()
