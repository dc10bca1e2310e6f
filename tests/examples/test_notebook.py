"""The notebook runs from its first cell to its last, as a person would run it."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

NOTEBOOK = Path(__file__).parents[2] / "examples" / "digits.ipynb"


def test_the_notebook_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.chdir(tmp_path)
    notebook = json.loads(NOTEBOOK.read_text())
    assert notebook["nbformat"] == 4
    names: dict[str, object] = {}
    for number, cell in enumerate(notebook["cells"]):
        if cell["cell_type"] == "code":
            assert cell["outputs"] == [] and cell["execution_count"] is None
            exec(compile("".join(cell["source"]), f"cell {number}", "exec"), names)
    printed = capsys.readouterr().out
    (student,) = re.findall(r"student: ([\d.]+)% right on new digits", printed)
    assert float(student) > 65  # mean 92, deviation 2
    assert "Pure differential privacy" in printed and printed.count("epsilon ") >= 4
    assert "<html" in (tmp_path / "digits-report.html").read_text()
