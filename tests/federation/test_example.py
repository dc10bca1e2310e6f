"""The example federation is set up, asks for approval, and teaches a student worth having."""

from __future__ import annotations

import importlib.util
import tomllib
from pathlib import Path

import pytest

from recordwise.errors import ProtocolFault
from recordwise.federation import launch
from recordwise.federation.exchange import InProcess
from recordwise.federation.nodes import node_in, run_coordinator
from recordwise.federation.policy import approve

EXAMPLE = Path(__file__).parents[2] / "examples" / "federation"


def test_the_example_runs_once_every_hospital_approved(tmp_path: Path) -> None:
    spec = importlib.util.spec_from_file_location("prepare", EXAMPLE / "prepare.py")
    assert spec is not None
    assert spec.loader is not None
    example = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(example)
    example.prepare(tmp_path)
    settings = tmp_path / "hub" / "coordinator.toml"
    settings.write_text(settings.read_text().replace("threshold = 2", "threshold = 2\npatience = 0"))
    exchange = InProcess({number: node_in(tmp_path / name) for number, name in enumerate(example.SILOS)})
    with pytest.raises(ProtocolFault, match="waits for a person"):
        run_coordinator(tmp_path / "hub", exchange)
    for name in example.SILOS:
        (offer,) = (tmp_path / name / "state" / "offers").glob("*.txt")
        assert "cost of the whole run: epsilon 4" in approve(tmp_path / name / "state", offer.stem)
    summary = run_coordinator(tmp_path / "hub", exchange)
    assert summary.private
    assert summary.test_accuracy is not None
    assert summary.test_accuracy > 0.85  # mean 0.908, deviation 0.002 over 8 runs


def test_the_example_app_is_the_one_that_the_command_sends() -> None:
    sent, example = tomllib.loads(launch.APP), tomllib.loads((EXAMPLE / "pyproject.toml").read_text())
    assert sent["tool"]["flwr"]["app"] == example["tool"]["flwr"]["app"]
    assert sent["project"] == example["project"]
