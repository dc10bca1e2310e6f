"""One self-contained HTML page from a summary: what is protected, what it cost, what came of it."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from recordwise.durable import write_whole
from recordwise.privacy.guarantee import Neighbours, Unit, certainty, exact, percent_up, rounded_down, rounded_up
from recordwise.report import charts
from recordwise.report.settled import SCOPES
from recordwise.report.summary import Summary
from recordwise.verdict import Level, in_percent

HEATMAP_ROWS = 120
CLASS_ROWS = 20  # classes of a table that are not folded away
LEGEND = 12  # classes whose colours are worth a legend
CARDS = {
    "images": "A card is a query, with some of the public pool samples it stands for.",
    "text": "A card is a query, with some of the public pool samples it stands for.",
    "table": "A card is a query. Its table shows the columns in which the public pool samples it stands for differ "
    "most from the whole pool: their mean, or the share of one value.",
    "none": "",
}


def write_report(summary: Summary, path: Path) -> None:
    """Write the page, whole or not at all."""
    path.parent.mkdir(parents=True, exist_ok=True)
    write_whole(path, render(summary).encode())


def render(summary: Summary) -> str:
    """The page as HTML: no script, no outside font, no request to anywhere."""
    page: str = template("page.html.j2").render(
        run=summary,
        step=max(0, list(Level).index(Level(summary.verdict["level"])) - 1),  # unknown lights nothing up, as nothing
        pictures=_pictures(summary),
        facts=_facts(summary),
        hidden=_hidden(summary),
        contents=_contents(summary),
        scope=SCOPES[summary.account],
        about_cards=CARDS[summary.gallery.kind],
        rows=CLASS_ROWS,
    )
    return page


@cache  # to compile one takes longer than to fill it in
def template(name: str) -> Any:
    """A page that is still to be filled in; what is not given is an error, what is given is escaped."""
    from jinja2 import Environment, PackageLoader, StrictUndefined, select_autoescape

    environment = Environment(
        loader=PackageLoader("recordwise.report"),
        autoescape=select_autoescape(["html", "j2"], default=True),
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.globals["colour"] = charts.colour
    # As in the statement: what is spent is rounded up, what is left is rounded down.
    environment.filters["up"] = lambda value: rounded_up(exact(value))
    environment.filters["down"] = lambda value: rounded_down(exact(value))
    return environment.get_template(name)


def _hidden(summary: Summary) -> str:
    """What the guarantee hides about the unit it protects."""
    promise = summary.guarantee
    who = "any single private record" if promise["unit"] == Unit.RECORD else "any single client"
    if promise["neighbours"] == Neighbours.REPLACE:
        return f"What {who} holds"
    return f"Whether {who} took part, and what it holds"


def _contents(summary: Summary) -> list[tuple[str, str]]:
    """(anchor, title) of the sections that the page has."""
    return [
        ("protected", "What is protected, and what is not"),
        ("outcome", "What came of it"),
        *([("queries", "The queries and their labels")] if summary.gallery.cards else []),
        ("ledger", "The account"),
        ("made", "How it was made"),
    ]


def _facts(summary: Summary) -> list[tuple[str, str, str]]:
    """(value, unit, meaning) of the figures at the top."""
    promise, asked = summary.guarantee, sum(one["queries"] for one in summary.rounds)
    epsilon, delta = (rounded_up(exact(promise[name])) for name in ("epsilon", "delta"))
    cost = f"privacy cost of the whole run, for any one {promise['unit']}"
    facts = [(epsilon, "ε", cost if summary.private else "asked for, but nothing is protected: the noise was seeded")]
    if delta != "0":
        facts.append((delta, "δ", "added to every probability by the bound"))
    if summary.private:
        sure = percent_up(certainty(float(promise["epsilon"]), float(promise["delta"])))
        about = f"about any one {promise['unit']}, instead of 50 %"
        facts.append((sure, "%", f"sure at most, {about}" if delta == "0" else f"of guesses right at most, {about}"))
    chosen = "queries asked, as the planner chose" if summary.settings.get("num_queries") == "auto" else "queries asked"
    facts.append((f"{asked:,}", "", chosen))
    facts.append((f"{summary.pool_size - summary.abstained:,}", f"of {summary.pool_size:,}", "pool samples labelled"))
    expected, commonest = summary.verdict["expected"], summary.verdict["commonest"]
    if expected is not None:
        beside = "" if commonest is None else f"; {100 * commonest:.0f} % by the commonest class"
        share = in_percent(*expected).removesuffix(" %")
        facts.append((share, "%", f"of the labels expected to be right{beside}"))
    if summary.test_accuracy is not None and summary.scores is not None:
        beside = f"; {100 * summary.scores['majority']:.1f} % by the commonest class"
        facts.append((f"{100 * summary.test_accuracy:.1f}", "%", f"of the test set right: the student{beside}"))
    return facts


def _pictures(summary: Summary) -> list[dict[str, Any]]:
    pictures = []
    if summary.comparison:
        series: dict[str, list[tuple[float, float, float]]] = {}
        for row in summary.comparison:
            series.setdefault(row["method"], []).append((row["epsilon"], row["accuracy"], row["spread"]))
        pictures.append(
            {
                "title": "Accuracy and privacy",
                "svg": charts.curves(series, x_label="epsilon", y_label="test accuracy"),
                "note": "A point is the mean over several students; the band is one standard deviation each way.",
                "legend": False,
            }
        )
    first = summary.rounds[0]
    if "gaps" in first:
        pictures.append(_gap_picture(summary, first))
        pictures.append(_tally_picture(summary, first))
    pictures.append(_confidence_picture(first))
    return pictures


def _gap_picture(summary: Summary, one: Any) -> dict[str, Any]:
    noise = one["noise_std"]
    unit = noise or 1.0  # at a huge epsilon the noise is too small for a float
    points = [
        (
            gap / unit,
            confidence,
            size,
            label,
            f"query {query}: {_name(summary, label)}, {100 * confidence:.0f} % sure, "
            f"gap {gap:.0f} votes, {size} pool samples",
        )
        for query, (gap, confidence, size, label) in enumerate(
            zip(one["gaps"], one["confidence"], one["sizes"], one["labels"], strict=True)
        )
    ]
    return {
        "title": "Count gaps and confidence",
        "svg": charts.scatter(
            points,
            x_label="noisy gap between the two largest counts, in standard deviations of the noise",
            y_label="confidence",
            mark_x=2.0,
        ),
        "note": f"A dot is a query, its area the pool samples it stands for. One standard deviation of the noise is "
        f"{noise:.1f} votes; left of the dashed line a gap alone decides little.",
        "legend": len(summary.classes) <= LEGEND,
    }


def _tally_picture(summary: Summary, one: Any) -> dict[str, Any]:
    order = np.lexsort((-np.array(one["sizes"]), np.array(one["labels"])))
    left_out = max(0, len(order) - HEATMAP_ROWS)
    order = order[np.linspace(0, len(order) - 1, min(HEATMAP_ROWS, len(order))).astype(int)]
    return {
        "title": "The released tally",
        "svg": charts.heatmap(
            [one["tally"][i] for i in order],
            rows=[f"query {i}" for i in order],
            columns=summary.classes,
            titles="votes, noise included",
        ),
        "note": "Rows are queries, ordered by the label they were given; columns are classes. "
        + _all_of_it(summary)
        + (f" {left_out} rows are left out." if left_out else ""),
        "legend": False,
    }


def _confidence_picture(one: Any) -> dict[str, Any]:
    edges = np.linspace(0, 1, 11)
    shares, _ = np.histogram(one["confidence"], bins=edges, weights=np.array(one["sizes"], dtype=float))
    return {
        "title": "How sure the labels are",
        "svg": charts.bars(
            (shares / max(1.0, shares.sum())).tolist(),
            edges=edges.tolist(),
            x_label="confidence of the query's label",
            y_label="share of the pool",
        ),
        "note": _confidence_in_words(one),
        "legend": False,
    }


def _confidence_in_words(one: Any) -> str:
    if one.get("sets"):
        return (
            "The chance that a query's whole set of classes is what most of its records carry, from the release alone: "
            "it costs nothing."
        )
    text = "The chance that a label is right for one of the query's samples, from the release alone: it costs nothing."
    if one.get("shows_purity", "gaps" in one):
        return text
    return f"{text} The release has no counts: it rests on a guess of how pure queries are."


def _all_of_it(summary: Summary) -> str:
    rounds = len(summary.rounds)
    if rounds == 1:
        return "This is all that this run released about the records."
    return f"This run released {rounds} such tables, one a round, and nothing else about the records."


def _name(summary: Summary, label: int) -> str:
    return "unlabelled" if label < 0 else summary.classes[label]
