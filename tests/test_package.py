"""What the package offers by name, and what its rooms import."""

from __future__ import annotations

import ast
import importlib
import itertools
import pkgutil
import re
import sys
import tomllib
from graphlib import TopologicalSorter
from pathlib import Path

import pytest

import recordwise
from recordwise.errors import MissingExtra
from recordwise.protocols import registry
from recordwise.protocols.protocol import Protocol
from recordwise.protocols.release import KINDS

ROOT = Path(recordwise.__file__).parent

# A room may import itself and those before it; what all rooms share comes first.
ORDER = [  # a room imports from rooms above it alone
    {"errors", "progress"},
    {"extras"},
    {"formats"},
    {"settings", "plugins", "arrays", "randomness", "durable", "hashing"},
    {"locks", "stored"},
    {"privacy", "checkpoint"},
    {"nearest"},
    {"votes"},
    {"protocols", "data"},
    {"vision"},
    {"encoders", "queries", "device"},
    {"labels"},
    {"students"},
    {"records", "account", "sections", "fits", "sklearn_steps"},
    {"design", "job", "baselines"},
    {"pipeline", "published"},
    {"planner", "verdict"},
    {"run_settings"},
    {"distiller"},
    {"report", "audit"},
    {"preflight", "job_draft", "handover"},
    {"run", "demo", "explorer"},
    {"compare"},
    {"federation"},
    {"cli"},
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


DISTRIBUTIONS = {
    "PIL": "pillow",
    "dp_accounting": "dp-accounting",
    "sentence_transformers": "sentence-transformers",
    "sklearn": "scikit-learn",
}
UNDECLARED = {
    "pandas",  # only where the user's own table is one of pandas
    "transformers",  # sentence-transformers is built on it
}


def test_everything_imported_is_declared() -> None:
    """What another package happens to bring may be gone in its next version."""
    project = tomllib.loads((ROOT.parents[1] / "pyproject.toml").read_text())["project"]
    extras = project["optional-dependencies"].values()
    declared = {
        re.split(r"[\[<>=]", line)[0] for line in itertools.chain(project["dependencies"], *extras)
    } | UNDECLARED
    for path in ROOT.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            names += [node.module or ""] if isinstance(node, ast.ImportFrom) and not node.level else []
            if isinstance(node, ast.Call) and ast.unparse(node.func) == "optional":
                names += [str(node.args[0].value)] if isinstance(node.args[0], ast.Constant) else []
            for name in {name.split(".")[0] for name in names} - sys.stdlib_module_names - {"recordwise"}:
                assert DISTRIBUTIONS.get(name, name) in declared, f"{path.name} imports {name}"


def test_a_module_that_an_extra_carries_says_which(monkeypatch: pytest.MonkeyPatch) -> None:
    for module, package, extra in [
        ("recordwise.vision.layout", "torch", "torch"),
        ("recordwise.federation.identity", "cryptography", "federation"),
    ]:
        with monkeypatch.context() as without:
            without.setitem(sys.modules, package, None)
            for name in (module, "recordwise.extras.torch", "recordwise.extras.federation"):
                without.delitem(sys.modules, name, raising=False)
            with pytest.raises(MissingExtra, match=rf"needs {package}: pip install 'recordwise\[{extra}\]'"):
                importlib.import_module(module)


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
                assert there == here or level[there] < level[here], f"{'/'.join(parts)} imports {node.module}"


def imported(path: Path) -> set[str]:
    """The modules of ours that a module imports when it is loaded: not inside functions, not for types alone."""
    found: set[str] = set()
    waiting: list[ast.AST] = [ast.parse(path.read_text())]
    while waiting:
        node = waiting.pop()
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
            continue
        if isinstance(node, ast.If) and isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING":
            continue
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("recordwise"):
            inside = ROOT.parent.joinpath(*(node.module or "").split("."))
            modules = {alias.name for alias in node.names if (inside / f"{alias.name}.py").exists()}
            found |= {f"{node.module}.{name}" for name in modules}
            found |= {node.module or ""} if {alias.name for alias in node.names} - modules else set()
        waiting.extend(ast.iter_child_nodes(node))
    return found


def test_no_import_comes_back_to_where_it_started() -> None:
    edges = {}
    for path in ROOT.rglob("*.py"):
        parts = path.relative_to(ROOT.parent).with_suffix("").parts
        edges[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = imported(path)
    TopologicalSorter(edges).prepare()  # raises CycleError, which names the modules


def test_nobody_asks_what_kind_of_protocol_it_has() -> None:
    kinds = registry.kinds()
    bases = {base.__name__ for kind in kinds for base in kind.__mro__ if issubclass(base, Protocol)}
    for path in ROOT.rglob("*.py"):
        if "protocols" in path.relative_to(ROOT).parts:
            continue
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Name | ast.alias):
                name = node.id if isinstance(node, ast.Name) else node.name
                assert name not in {kind.__name__ for kind in kinds}, f"{path.name} knows {name}"
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "isinstance":
                asked = {part.id for part in ast.walk(node.args[1]) if isinstance(part, ast.Name)}
                assert not asked & bases, f"{path.name} asks for {asked & bases}"


def annotated(tree: ast.AST) -> set[ast.AST]:
    """The names that stand in annotations: of parameters, results and fields."""
    found: set[ast.AST] = set()
    for node in ast.walk(tree):
        for part in (getattr(node, "annotation", None), getattr(node, "returns", None)):
            found |= set(ast.walk(part)) if part is not None else set()
    return found


def test_nobody_asks_what_kind_of_release_it_has() -> None:
    """Outside `protocols`, and in the experiments, a kind of release is an annotation, or something to make."""
    kinds = {name for name, kind in KINDS.items() if kind.__module__.startswith("recordwise.")}
    experiments = ROOT.parents[1] / "experiments"
    paths = [path for path in ROOT.rglob("*.py") if "protocols" not in path.relative_to(ROOT).parts]
    for path in paths + sorted(experiments.glob("*.py")):
        tree = ast.parse(path.read_text())
        made = {node.func for node in ast.walk(tree) if isinstance(node, ast.Call)}
        names = {node for node in ast.walk(tree) if isinstance(node, ast.Name) and node.id in kinds}
        asked = {node.id for node in names - annotated(tree) - made}  # type: ignore[attr-defined]
        assert not asked, f"{path.name} asks for {asked}"
        for node in ast.walk(tree):  # a function for each kind is the same question
            if isinstance(node, ast.FunctionDef) and any("register" in ast.dump(one) for one in node.decorator_list):
                told = {part.id for part in annotated(node) if isinstance(part, ast.Name)}
                assert not told & kinds, f"{path.name} has a function for {told & kinds}"


def test_a_look_into_the_package_shows_what_it_offers() -> None:
    assert set(recordwise.__all__) <= set(dir(recordwise))
