"""What the package offers by name, and what its rooms import."""

from __future__ import annotations

import ast
import importlib
import pkgutil
from pathlib import Path

import pytest

import recordwise

ROOT = Path(recordwise.__file__).parent

# A room may import itself and those before it; what all rooms share comes first.
ORDER = [
    {"errors", "arrays", "streams", "progress", "checkpoint"},
    {"privacy"},
    {"votes"},
    {"tally"},
    {"protocols"},
    {"data"},
    {"encoders"},
    {"queries", "labels", "students", "baselines"},
    {"planner", "till", "job", "device", "records"},
    {"distiller"},
    {"report", "audit"},
    {"run", "demo", "federation", "cli", "cli_audit"},
]


def test_every_public_name_is_there_and_listed() -> None:
    assert sorted(recordwise.__all__) == recordwise.__all__ == sorted(recordwise._HOMES)
    for name in recordwise.__all__:
        assert getattr(recordwise, name) is not None
    with pytest.raises(AttributeError):
        recordwise.nothing_of_the_kind  # noqa: B018


def test_every_package_lists_exactly_what_it_imports_for_others() -> None:
    for module in pkgutil.walk_packages([str(ROOT)], "recordwise."):
        if not module.ispkg:
            continue
        package = importlib.import_module(module.name)
        listed = getattr(package, "__all__", None)
        tree = ast.parse((Path(package.__file__ or "")).read_text())
        offered = {
            alias.asname or alias.name
            for node in tree.body
            if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("recordwise")
            for alias in node.names
        }
        if offered or listed:
            assert set(listed or []) == offered, module.name


def room(module: str) -> str:
    return module.split(".")[1] if "." in module else "recordwise"


def test_imports_point_one_way() -> None:
    level = {name: number for number, names in enumerate(ORDER) for name in names}
    for path in ROOT.rglob("*.py"):
        parts = path.relative_to(ROOT).with_suffix("").parts
        here = parts[0]
        if here == "__init__":
            continue
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("recordwise."):
                there = room(node.module or "")
                allowed = there == here or level[there] < level[here] or (level[there], level[here]) == (0, 0)
                assert allowed or _beside(here, there), f"{'/'.join(parts)} imports {node.module}"


def _beside(here: str, there: str) -> bool:
    """Rooms on one level may lean on each other where one is plainly built on the other."""
    return (here, there) in {
        ("students", "labels"),
        ("distiller", "till"),
        ("federation", "run"),
        ("cli", "run"),
        ("cli", "demo"),
        ("cli", "cli_audit"),
        ("cli", "federation"),
    }
