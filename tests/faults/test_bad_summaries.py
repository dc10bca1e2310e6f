"""A run's summary that is damaged ends in one line, or still makes a page that loads nothing from anywhere."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from bad_summaries import bad_summaries, changed
from ended import none_of, recordwise
from tiny import JOB, document, fill

from counts import Counted


@pytest.fixture(scope="module")
def summary(tmp_path_factory: pytest.TempPathFactory) -> dict[str, object]:
    folder = tmp_path_factory.mktemp("summary")
    fill(folder)
    (folder / "job.toml").write_text(document(JOB))
    ended = recordwise("run", "--anyway", "job.toml", "--json", within=folder)
    assert ended.code == 0
    told: dict[str, object] = json.loads(ended.out)
    return told


def mistakes(folder: Path, cases: list[tuple[str, str]]) -> list[str]:
    found = []
    for name, content in cases:
        (folder / "summary.json").write_text(content)
        (folder / "report.html").unlink(missing_ok=True)
        ended = recordwise("report", ".", within=folder)
        page = (folder / "report.html").read_text() if (folder / "report.html").exists() else ""
        if ended.mistake:
            found.append(f"{name}: {ended.mistake}")
        elif bool(page) is bool(ended.code) or "<script" in page or '="data:text' in page:
            found.append(f"{name}: exit code {ended.code} and a page of {len(page)} letters")
    return found


def test_some_bad_summaries_end_in_one_line(tmp_path: Path, summary: dict[str, object]) -> None:
    none_of(mistakes(tmp_path, list(bad_summaries(summary))[::41]))


@pytest.mark.parametrize(
    ("path", "rule"),
    [
        (("classes", 0), "it: labels and tallies must be about the classes"),
        (("versions", "recordwise"), "it: versions must name recordwise"),
        (("reading", "numbers"), "reading: an array's shape must come with the type of its numbers"),
        (("ledger", "budgets", "default", "releases", 0, "sha256"), "releases.0.sha256: Field required"),
    ],
    ids=str,
)
def test_a_part_that_the_page_relies_on_is_missed_in_one_line(
    tmp_path: Path, summary: dict[str, object], path: tuple[object, ...], rule: str
) -> None:
    (tmp_path / "summary.json").write_text(json.dumps(changed(summary, path, None, gone=True)))
    ended = recordwise("report", ".", within=tmp_path)
    assert not ended.mistake and ended.code == 2 and ended.err.rstrip().endswith(rule)


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_all_bad_summaries_end_in_one_line(tmp_path: Path, summary: dict[str, object], counted: Counted) -> None:
    cases = list(bad_summaries(summary))
    assert len(cases) >= 23
    found = mistakes(tmp_path, cases)
    counted("damaged summaries", len(cases), len(found))
    none_of(found)
