"""Files of data that cannot be: as pool, records or test set they end in one line, before anything is charged."""

from __future__ import annotations

import copy
import shutil
from pathlib import Path

import numpy as np
import pytest
from bad_data import Write, bad_data
from ended import none_of, recordwise
from tiny import JOB, charges, document, fill

from counts import Counted

LABELS: dict[str, str] = {".npy": "y.npy", ".npz": "y", ".csv": "c", ".parquet": "a", ".txt": "y.txt"}


def mistakes(folder: Path, cases: list[tuple[str, str, Write]], section: str) -> list[str]:
    found = []
    for number, (name, file, write) in enumerate(cases):
        world = folder / str(number)
        world.mkdir()
        fill(world, odd=False)
        write(world / file)
        np.save(world / "y.npy", np.zeros(30, int))
        (world / "y.txt").write_text("0\n" * 30)
        job = copy.deepcopy(JOB)
        job[section] = {"path": file}
        if section != "public" and Path(file).suffix in LABELS:
            job[section]["labels"] = LABELS[Path(file).suffix]
        (world / "job.toml").write_text(document(job))
        ended = recordwise("run", "job.toml", within=world)
        if ended.mistake:
            found.append(f"{name} as {section}: {ended.mistake}")
        elif ended.code and charges(world):
            found.append(f"{name} as {section}: it was refused and paid for: {ended.err}")
        shutil.rmtree(world)
    return found


SECTIONS = ("public", "private", "test")


@pytest.mark.parametrize("section", SECTIONS)
def test_some_bad_files_end_in_one_line_and_cost_nothing(tmp_path: Path, section: str) -> None:
    none_of(mistakes(tmp_path, list(bad_data())[SECTIONS.index(section) :: 9], section))


@pytest.mark.slow
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("section", SECTIONS)
def test_all_bad_files_end_in_one_line_and_cost_nothing(tmp_path: Path, section: str, counted: Counted) -> None:
    cases = list(bad_data())
    found = mistakes(tmp_path, cases, section)
    counted("files of data that cannot be", len(cases), len(found))
    none_of(found)
