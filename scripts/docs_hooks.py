"""Put measured results into the documentation: a number on a page is the number in a committed results file, or absent.

    <!-- results: benchmarks/noise -->        a table of the file's rows
    <!-- results: experiments/adult where: k=1, epsilon=0.5 only: s, test_accuracy -->
    <!-- results: experiments/adult where: k=1 only: test_accuracy by: epsilon / s -->    epsilon down, s across
    <!-- value: benchmarks/local where: name=server decodes only: ratio.pure-ldp -->      one number, in a sentence
    <!-- plot: experiments/adult where: k=1 only: test_accuracy by: epsilon / s -->       against epsilon, a curve per s
    <!-- other results: experiments except: audit -->    the files that the page's other marks leave out
    <!-- commands -->                         every command of the shell, with its options

Pages are read in the repository, too, where no hook runs. So a table or a number stands in the page itself, between its
mark and `<!-- end -->`: `python scripts/docs_hooks.py` writes it there, and a test compares. Plots, commands and other
results are filled in by the site alone, of which this module is a hook.
"""

from __future__ import annotations

import html
import json
import re
import statistics
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
MARK = re.compile(
    r"<!-- (?P<kind>results|plot|value): (?P<room>benchmarks|experiments)/(?P<name>[a-z0-9_-]+)"
    r"(?: where: (?P<where>.+?))?(?: only: (?P<only>.+?))?(?: by: (?P<by>.+?))? -->"
)
OTHERS = re.compile(r"<!-- other results: (?P<room>benchmarks|experiments)(?: except: (?P<except>.+?))? -->")
FILLED = re.compile(rf"(?P<mark>{MARK.pattern})(?:(?!<!--).)*<!-- end -->", re.DOTALL)
SOURCE = ("command", "date", "hardware", "versions")
MEASURED = ("data", "split", "student", "protocol", "s", "k", "epsilon", "test_accuracy", "label_accuracy")
TITLES = {"cifar10": "CIFAR-10", "mnist": "MNIST", "svhn": "SVHN"}
LARGE = ((1e9, "billion"), (1e6, "million"))
DECIMAL = ("calibration_error", "calibration_floor", "auc", "recall", "slope")  # shown as means of draws
HIDDEN = {*SOURCE, "revision", "seeds"}

Row = Mapping[str, Any]


def on_page_markdown(markdown: str, **_: Any) -> str:
    """Called by mkdocs for every page."""
    markdown = bare(markdown)
    named = {mark["name"] for mark in MARK.finditer(markdown)}
    others = OTHERS.sub(lambda mark: _others(mark["room"], named | set(_names(mark["except"]))), markdown)
    markdown = MARK.sub(shown, others)
    return markdown.replace("<!-- commands -->", commands()) if "<!-- commands -->" in markdown else markdown


def commands() -> str:
    """The shell commands as their own help tells them."""
    from typer.main import get_command

    from recordwise.cli import app

    return "\n\n".join(_commands("recordwise", get_command(app)))


def _commands(name: str, command: Any) -> Iterable[str]:
    if hasattr(command, "commands"):
        for part in command.commands.values():
            yield from _commands(f"{name} {part.name}", part)
        return
    arguments = [option for option in command.params if option.param_type_name == "argument"]
    rows = [
        (f"`{one.human_readable_name}`", "required" if one.required else _plain(one.default), one.help or "")
        for one in arguments
    ]
    rows += [
        (f"`{'`, `'.join(one.opts)}`", "required" if one.required else _plain(one.default), one.help or "")
        for one in command.params
        if one not in arguments and one.name != "help"
    ]
    story = re.sub(
        r"\[/?bold\]", "**", (command.help or "").replace("\\b\n", "\n").replace("\b\n", "\n").replace("\\[", "[")
    )
    usage = " ".join([name, *(one.human_readable_name for one in arguments), "[options]"])
    head, _, example = story.partition("A job file:")
    yield f"## {name}\n\n```text\n{usage}\n```\n\n{head.strip()}"
    if example:
        yield f"```toml\n{example.strip()}\n```"
    yield "\n".join(["| | default | |", "| --- | --- | --- |", *(f"| {a} | {b} | {c} |" for a, b, c in rows)])


def bare(text: str) -> str:
    """The text with its marks alone."""
    return FILLED.sub(lambda mark: mark["mark"], text)


def fill(text: str) -> str:
    """The text with what every table and number stands for between its mark and its end."""

    def filled(mark: re.Match[str]) -> str:
        if mark["kind"] == "plot":
            return mark[0]
        line = "\n" if mark["kind"] == "results" else ""
        return f"{mark[0]}{line}{shown(mark)}<!-- end -->"

    return MARK.sub(filled, bare(text))


def shown(mark: re.Match[str]) -> str:
    """What a mark stands for."""
    rows, common = _read(mark["room"], mark["name"])
    wanted = [part.partition("=") for part in re.split(r", (?=[\w.]+=)", mark["where"])] if mark["where"] else []
    rows = [row for row in rows if all(_same(_at(row, key), value) for key, _, value in wanted)]
    columns = _names(mark["only"]) or [key for key in _keys(rows) if key not in HIDDEN]
    if not rows or not all(any(_at(row, column) is not None for row in rows) for column in columns):
        raise ValueError(f"results/{mark['name']}.json has nothing to show for {mark[0]}")
    if mark["kind"] == "plot":
        return _plot(rows, columns[0], common, *mark["by"].split(" / "))
    if mark["by"]:
        return _crossed(rows, columns, common, *mark["by"].split(" / "))
    if mark["kind"] == "results":
        return _table(rows, columns, common, spared=not mark["only"])
    if len(rows) != 1 or len(columns) != 1:
        raise ValueError(f"{mark[0]} must stand for one number, it stands for {len(rows)} × {len(columns)}")
    return _plain(_at(rows[0], columns[0]), columns[0])


def _others(room: str, left_out: set[str]) -> str:
    names = sorted(file.stem for file in (ROOT / room / "results").glob("*.json"))
    return "\n\n".join(_section(room, name) for name in names if name not in left_out)


def _section(room: str, name: str) -> str:
    """Marks for a whole file: curves and crossed tables where it compares trusts and queries, else a table."""
    rows, _ = _read(room, name)
    of, head = f"{room}/{name}", f"## {_title(name)}"
    measured = [key for key in MEASURED if key in _keys(rows)]
    if len(measured) < 6:
        return f"{head}\n\n<!-- results: {of} -->"
    if len({row["student"] for row in rows}) > 1 or len({row["protocol"] for row in rows}) == 1:
        return f"{head}\n\n<!-- results: {of} only: {', '.join(measured)} -->"
    few = min(row["s"] for row in rows)
    epsilon = _plain(next((row["epsilon"] for row in rows if row["k"] > 1), rows[0]["epsilon"]))
    approximate = {row["protocol"]: _plain(row["delta"]) for row in rows if row.get("delta")}
    best = _plain(rows[0].get("nonprivate_accuracy"), "accuracy")
    return f"""{head}

A {rows[0]["student"]} student, which reaches {best} when it is taught the pool's true labels. A run is one draw of the
noise on one seed of everything public; the seeds are those of the command, and where there is one, ± shows the noise
alone. Central trust, one vote per record, by number of queries s:

<!-- results: {of} where: protocol=central, k=1 only: test_accuracy by: epsilon / s -->

<!-- results: {of} where: protocol=central, k=1 only: label_accuracy by: epsilon / s -->

Every trust, s = {few}{"".join(f"; delta {delta} under {trust} trust" for trust, delta in approximate.items())}:

<!-- plot: {of} where: s={few}, k=1 only: test_accuracy by: epsilon / protocol -->

<!-- results: {of} where: s={few}, k=1 only: test_accuracy by: epsilon / protocol -->

Votes per record, central trust, epsilon {epsilon}:

<!-- results: {of} where: protocol=central, epsilon={epsilon} only: test_accuracy by: s / k -->"""


def _read(room: str, name: str) -> tuple[list[Row], Row]:
    """A file's rows, and what it states once for all of them."""
    content = json.loads((ROOT / room / "results" / f"{name}.json").read_text())
    return (content, {}) if isinstance(content, list) else (content.get("rows", [content]), content)


def _table(rows: list[Row], columns: list[str], common: Row, *, spared: bool) -> str:
    """A table; where no columns were asked for, those that are the same in all rows are named once below it."""
    same = {
        column: _plain(_at(rows[0], column), column)
        for column in columns
        if spared and len(rows) > 1 and len({_plain(_at(row, column), column) for row in rows}) == 1
    }
    columns = [column for column in columns if column not in same]
    lines = [
        "| " + " | ".join(re.sub(r"[_.]", " ", column) for column in columns) + " |",
        "|" + " --- |" * len(columns),
    ]
    lines += ["| " + " | ".join(_plain(_at(row, column), column) for column in columns) + " |" for row in rows]
    told = [f"{column.replace('_', ' ')}: {value}" for column, value in same.items() if value]
    return "\n".join(lines) + _small([*told, *_source(rows, common)])


def _plot(rows: list[Row], drawn: str, common: Row, along: str, apart: str) -> str:
    """Curves of a share of right answers, with a band of one standard deviation."""
    from recordwise.report.charts import curves

    series: dict[str, list[tuple[float, float, float]]] = {}
    for row in rows:
        values = _at(row, drawn)
        name = _plain(_at(row, apart)) if isinstance(_at(row, apart), str) else f"{apart} = {_plain(_at(row, apart))}"
        spread = statistics.stdev(values) if len(values) > 1 else 0.0
        series.setdefault(name, []).append((_at(row, along), statistics.fmean(values), spread))
    picture = curves(series, x_label=along, y_label=drawn.replace("_", " "))
    return f'<div class="chart">{picture}</div>' + _small(_source(rows, common))


def _crossed(rows: list[Row], cells: list[str], common: Row, down: str, across: str) -> str:
    """A table with a line for each value of `down` and a column for each value of `across`, names joined by +."""

    def place(row: Row, names: str) -> str:
        values = {name: _at(row, name) for name in names.split("+")}
        return ", ".join(
            value if isinstance(value, str) else f"{name} {_plain(value)}" for name, value in values.items()
        )

    heads = list(dict.fromkeys(place(row, across) for row in _sorted(rows, across)))
    found: dict[tuple[str, str], list[str]] = {}
    for row in rows:
        shown = ", ".join(_plain(_at(row, cell), cell) for cell in cells)
        found.setdefault((place(row, down), place(row, across)), []).append(shown)
    lines = [f"| | {' | '.join(heads)} |", "|" + " --- |" * (len(heads) + 1)]
    lines += [
        f"| {name} | {' | '.join(' / '.join(found.get((name, head), [''])) for head in heads)} |"
        for name in dict.fromkeys(place(row, down) for row in _sorted(rows, down))
    ]
    what = ", ".join(cell.replace("_", " ") for cell in cells)
    return "\n".join(lines) + _small([what, *_source(rows, common)])


def _sorted(rows: list[Row], name: str) -> list[Row]:
    """By the name's value where that is a number, else as they came."""
    numbers = all(isinstance(_at(row, name), int | float) for row in rows)
    return sorted(rows, key=lambda row: _at(row, name)) if numbers else rows


def _source(rows: list[Row], common: Row) -> list[str]:
    """How the rows came about."""
    seeds = {len(row["seeds"]) for row in rows if isinstance(row.get("seeds"), list)}
    told = [f"mean ± standard deviation of {' or '.join(map(str, sorted(seeds)))} runs"] if seeds - {1} else []
    told = told or (["one run"] if seeds else [])
    source = {key: dict.fromkeys(_plain(row.get(key, common.get(key))) for row in rows) for key in SOURCE}
    return told + [f"{key}: {' or '.join(filter(None, values))}" for key, values in source.items() if any(values)]


def _small(told: list[str]) -> str:
    return f"\n\n<small>{html.escape('; '.join(told))}</small>\n"


def _title(name: str) -> str:
    return TITLES.get(name, name.replace("_", " ").capitalize())


def _keys(rows: Iterable[Row]) -> list[str]:
    return list(dict.fromkeys(key for row in rows for key in row))


def _names(names: str | None) -> list[str]:
    return [] if names is None else [name.strip() for name in names.split(",")]


def _at(row: Row, path: str) -> Any:
    """row["ratio"]["pure-ldp"] for "ratio.pure-ldp"; None where there is none."""
    found: Any = row
    for key in path.split("."):
        found = found.get(key) if isinstance(found, Mapping) else None
    return found


def _same(value: Any, asked: str) -> bool:
    return value == asked if isinstance(value, str) else _plain(value).replace(",", "") == asked


def _plain(value: Any, column: str = "") -> str:
    share = column.endswith("accuracy")
    if isinstance(value, Mapping) and {"mean", "spread"} <= set(value):
        return _percent(value["mean"], value["spread"])
    if isinstance(value, Mapping):
        return ", ".join(f"{key} {_plain(item)}" for key, item in value.items())
    if isinstance(value, list) and value and share:
        return _percent(statistics.fmean(value), statistics.stdev(value) if len(value) > 1 else None)
    if isinstance(value, list) and len(value) > 1 and column.endswith(DECIMAL):
        return f"{statistics.fmean(value):.3f} ± {statistics.stdev(value):.3f}".replace(" ", "\N{NO-BREAK SPACE}")
    if isinstance(value, list):
        return ", ".join(_plain(item) for item in value)
    if isinstance(value, float) and share:
        return _percent(value, None)
    if isinstance(value, float):
        large = next(((unit, f" {name}") for unit, name in LARGE if abs(value) >= unit), (1, ""))
        return f"{value:,.0f}" if 1000 <= abs(value) < 1e6 else f"{value / large[0]:.4g}{large[1]}"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int):
        return f"{value:,}"
    return "" if value is None else str(value)


def _percent(mean: float, spread: float | None) -> str:
    shown = f"{100 * mean:.1f}" + ("" if spread is None else f" ± {100 * spread:.1f}")
    return f"{shown} %".replace(" ", "\N{NO-BREAK SPACE}")


if __name__ == "__main__":
    for page in [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]:
        page.write_text(fill(page.read_text()))
