"""Put measured results into the documentation: `<!-- results: benchmarks/noise -->` becomes a table of its JSON rows.

A number in the documentation is thereby the number in the committed results file, or absent.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
MARK = re.compile(r"<!-- results: (benchmarks|experiments)/([a-z0-9_-]+)(?: only: ([a-z_, ]+))? -->")
HIDDEN = {"versions", "hardware", "command", "date", "revision"}


def on_page_markdown(markdown: str, **_: Any) -> str:
    return MARK.sub(lambda mark: _table(*mark.groups()), markdown)


def _table(room: str, name: str, only: str | None) -> str:
    rows = json.loads((ROOT / room / "results" / f"{name}.json").read_text())
    rows = rows if isinstance(rows, list) else rows["rows"]
    columns = only.replace(" ", "").split(",") if only else [key for key in rows[0] if key not in HIDDEN]
    lines = ["| " + " | ".join(columns) + " |", "|" + " --- |" * len(columns)]
    lines += ["| " + " | ".join(_shown(row.get(column)) for column in columns) + " |" for row in rows]
    source = {key: rows[0].get(key) for key in ("command", "date", "hardware") if rows[0].get(key)}
    told = "; ".join(f"{key}: {_shown(value)}" for key, value in source.items())
    return "\n".join(lines) + f"\n\n*{told}*\n"


def _shown(value: Any) -> str:
    if isinstance(value, dict):
        return ", ".join(f"{key} {_shown(item)}" for key, item in value.items())
    if isinstance(value, list):
        return ", ".join(_shown(item) for item in value)
    if isinstance(value, float):
        return f"{value:.4g}"
    if isinstance(value, int) and not isinstance(value, bool):
        return f"{value:,}"
    return "" if value is None else str(value)
