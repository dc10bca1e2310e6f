"""The example federation is set up, asks for approval, and teaches a student worth having."""

from __future__ import annotations

import importlib.util
import re
from pathlib import Path

import pytest

from recordwise.errors import ProtocolFault
from recordwise.federation.exchange import InProcess
from recordwise.federation.hub import run_coordinator
from recordwise.federation.nodes import node_in
from recordwise.federation.policy import approve

EXAMPLE = Path(__file__).parents[2] / "examples" / "federation"


def assert_shown(offer: str) -> None:
    """Line by line what the page shows, but for digests and what follows from the last bits of an encoder."""
    page = (EXAMPLE.parents[1] / "docs" / "federation.md").read_text()
    lines = page[page.index("run 8f0c…") :].partition("```")[0].splitlines()
    for line, said in zip(lines, offer.splitlines(), strict=True):
        told = re.split(r" [0-9a-f]{4}…| numbers, |…", line)
        assert said.startswith(told[0]) and (not line.startswith("run ") or said.endswith(told[1])), line


def test_the_example_runs_once_every_hospital_approved(tmp_path: Path) -> None:
    spec = importlib.util.spec_from_file_location("prepare", EXAMPLE / "prepare.py")
    assert spec is not None
    assert spec.loader is not None
    example = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(example)
    example.prepare(tmp_path)
    settings = tmp_path / "hub" / "coordinator.toml"
    settings.write_text(settings.read_text().replace("threshold = 3", "threshold = 3\npatience = 0"))
    exchange = InProcess({name: node_in(tmp_path / name) for name in example.SILOS})
    with pytest.raises(ProtocolFault, match="waits for a person"):
        run_coordinator(tmp_path / "hub", exchange)
    for name in example.SILOS:
        (offer,) = (tmp_path / name / "state" / "offers").glob("*.txt")
        assert_shown(offer.read_text())
        assert "cost of the whole run, at most: epsilon 4" in approve(tmp_path / name / "state", offer.stem)
    summary = run_coordinator(tmp_path / "hub", exchange)
    assert summary.private
    assert summary.test_accuracy is not None
    assert summary.test_accuracy > 0.85  # mean 0.908, deviation 0.002 over 8 runs
