"""Make the explorer's page on scikit-learn's digits, which the documentation shows, and its screenshots.

python scripts/explorer_pages.py            # both; minutes
python scripts/explorer_pages.py --screenshots    # of the page that is there
"""

from __future__ import annotations

import os
import sys
import tempfile
from pathlib import Path

from pictures import FIGURES, ROOT, keep, launched

PAGE = ROOT / "docs" / "explorer" / "digits.html"
SHOTS = {  # name: width, height, colours
    "explorer-desktop": (1240, 1330, "light"),
    "explorer-dark": (1240, 800, "dark"),
    "explorer-phone": (390, 1290, "light"),
}
JOB = """name = "digits"

[private]
path = "records.npz"
labels = "y"

[public]
path = "pool.npz"
samples = "X"
labels = "known"  # of 150 samples, for the prediction

[privacy]
epsilon = 0.5

[method]
encoder = "pca"
classes = [0, 1, 2, 3, 4, 5, 6, 7, 8, 9]
num_queries = 40

[records]
expected = 900

[account]
ledger = "ledger.sqlite"
budget = "digits"
"""


def make_page() -> None:
    """The page, from a job that has a ledger with one paid run."""
    import numpy as np
    from sklearn.datasets import load_digits

    from recordwise.cli import app
    from recordwise.privacy.ledger import Ledger

    digits = load_digits()
    order = np.random.default_rng(0).permutation(len(digits.images))
    pool, records, _ = np.split(order, [600, 1500])
    known = np.where(np.arange(len(pool)) < 150, digits.target[pool].astype(str), "")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        os.environ["RECORDWISE_KEYS"] = str(folder / "keys")
        np.savez(folder / "records.npz", X=digits.images[records], y=digits.target[records])
        np.savez(folder / "pool.npz", X=digits.images[pool], known=known)
        (folder / "job.toml").write_text(JOB)
        Ledger.open(folder / "ledger.sqlite").open_budget("digits", epsilon=2)
        app(["run", str(folder / "job.toml")], standalone_mode=False)
        PAGE.parent.mkdir(exist_ok=True)
        app(["explore", str(folder / "job.toml"), "--out", str(PAGE)], standalone_mode=False)


def make_screenshots() -> None:
    """Of the page, at three sizes."""
    with launched() as browser:
        for name, (width, height, colours) in SHOTS.items():
            page = browser.new_page(viewport={"width": width, "height": height}, color_scheme=colours)
            page.goto(PAGE.as_uri())
            box = page.locator("#map").bounding_box()
            if name == "explorer-desktop":
                page.mouse.move(box["x"] + 0.08 * box["width"], box["y"] + 0.5 * box["height"])
            page.wait_for_timeout(500)  # for the pictures on the map
            place = FIGURES / f"{name}.png"
            page.screenshot(path=place)
            page.close()
            keep(place)


if __name__ == "__main__":
    if "--screenshots" not in sys.argv:
        make_page()
    make_screenshots()
