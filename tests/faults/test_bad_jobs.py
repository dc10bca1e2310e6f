"""A job file with a mistake ends in one line, and costs nothing."""

from __future__ import annotations

import itertools
from pathlib import Path

import pytest
from bad_jobs import bad_jobs
from ended import none_of, recordwise
from tiny import JOB, charges, document, fill

from counts import Counted

FEW, MANY = 60, 900
UNTAUGHT = "there is nothing to teach"  # the one refusal that a release may come before, as `errors.py` says


def mistakes(folder: Path, jobs: list[tuple[str, str]]) -> list[str]:
    """What went wrong beyond what should."""
    fill(folder)
    found = []
    for number, (name, content) in enumerate(jobs):
        before = charges(folder)
        (folder / f"job-{number}.toml").write_bytes(content.encode("utf-8", "surrogateescape"))
        ended = recordwise("run", f"job-{number}.toml", within=folder)
        if ended.mistake:
            found.append(f"{name}: {ended.mistake}")
        elif ended.code and charges(folder) != before and UNTAUGHT not in ended.err:
            found.append(f"{name}: it was refused and paid for: {ended.err}")
    return found


def test_the_job_that_the_others_are_made_from_is_good(tmp_path: Path) -> None:
    fill(tmp_path)
    (tmp_path / "job.toml").write_text(document(JOB))
    ended = recordwise("run", "job.toml", within=tmp_path)
    assert ended.code == 0 and not ended.mistake and charges(tmp_path) == 1


def test_some_bad_jobs_end_in_one_line_and_cost_nothing(tmp_path: Path) -> None:
    none_of(mistakes(tmp_path, list(itertools.islice(bad_jobs(), 0, 5 * FEW, 5))))


@pytest.mark.slow
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("part", range(4))
def test_all_bad_jobs_end_in_one_line_and_cost_nothing(tmp_path: Path, part: int, counted: Counted) -> None:
    jobs = list(itertools.islice(bad_jobs(), MANY))
    assert len(jobs) == MANY
    found = mistakes(tmp_path, jobs[part::4])
    counted("job files with a mistake", len(jobs[part::4]), len(found))
    none_of(found)
