"""The page as one HTML file: styles, script and data inside, and a policy that lets nothing else in.

Text of the pool reaches the page as data alone: as JSON without angle brackets, written into the page by `textContent`.
The policy names the hash of the one script and the one style sheet that may be used, so nothing else is ever run.
"""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Mapping
from html import escape
from pathlib import Path
from typing import Any

from recordwise.formats import text_of

HANDED_ON = 330_000  # characters of samples in a page that travels; the other samples are dots without a picture


def render(document: Mapping[str, Any]) -> str:
    """The page of a document (`Exploration.document`)."""
    style, script = _asset("page.css"), _asset("page.js")
    parts = {
        "policy": policy(live=not document["travels"]),
        "title": escape(f"{document['name']} · Recordwise explorer"),
        "style": style,
        "script": script,
        "data": as_data(_fitting(document) if document["travels"] else document),
    }
    first, *rest = _asset("page.html").split("{{")  # before any part is in it, so that no part is looked into
    page = [first]
    for piece in rest:
        name, _, after = piece.partition("}}")
        page += [parts.pop(name), after]
    assert not parts, parts
    return "".join(page)


def policy(*, live: bool) -> str:
    """The Content-Security-Policy: this script, this style sheet, pictures that are in the page, and nothing else."""
    script, style = (_hash(_asset(name)) for name in ("page.js", "page.css"))
    allowed = f"default-src 'none'; script-src {script}; style-src {style}; img-src data:"
    return f"{allowed}; connect-src 'self'; base-uri 'none'; form-action 'none'" if live else allowed


def as_data(document: Mapping[str, Any]) -> str:
    """JSON that ends no element and starts none."""
    text = json.dumps(document, separators=(",", ":"), ensure_ascii=False, allow_nan=False)
    for letter in "<>&\u2028\u2029":
        text = text.replace(letter, f"\\u{ord(letter):04x}")
    return text.encode("utf-8", "replace").decode()


def _fitting(document: Mapping[str, Any]) -> dict[str, Any]:
    """The document with as many samples as fit a page that travels."""
    left, samples = HANDED_ON, []
    for sample in document["map"]["samples"]:
        left -= len(json.dumps(sample))
        samples.append(sample if left >= 0 else None)
    return {**document, "map": {**document["map"], "samples": samples}}


def _hash(text: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"


def _asset(name: str) -> str:
    return text_of(Path(__file__).parent / "assets" / name)
