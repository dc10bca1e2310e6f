"""A headless browser for tests of pages: the machine's own, or Playwright's."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any


@contextmanager
def launched() -> Iterator[Any]:
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        names = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
        installed = next((path for name in names if (path := shutil.which(name))), None)
        browser = playwright.chromium.launch(
            executable_path=installed, args=["--no-sandbox", "--disable-background-networking"]
        )
        yield browser
        browser.close()
