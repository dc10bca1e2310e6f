"""The documentation says what is: its examples run, its commands and files exist, its numbers are the measured ones."""

from __future__ import annotations

import ast
import importlib
import importlib.util
import os
import pkgutil
import re
import shlex
import sys
from collections.abc import Iterator
from dataclasses import fields, is_dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
import yaml
from pydantic_core import PydanticUndefined

from recordwise import cli
from recordwise.planner.outlook import NO_NETWORK
from recordwise.randomness import seeded
from recordwise.students.choice import NETWORK_QUERIES

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
PAGES = sorted(DOCS.rglob("*.md"))
TEXTS = [*PAGES, *(ROOT / name for name in ("README.md", "CONTRIBUTING.md", "CHANGELOG.md"))]
FENCE = re.compile(
    r"(?:<!-- exit code: (?P<code>\d+) -->\n)?^```(?P<kind>\w*)(?: title=\"(?P<title>[^\"]+)\")?\n"
    r"(?P<body>.*?)^```$",
    re.DOTALL | re.MULTILINE,
)
LIMIT = 30_000  # characters: a page longer than this is two pages


@pytest.fixture(scope="module")
def hooks() -> ModuleType:
    spec = importlib.util.spec_from_file_location("docs_hooks", ROOT / "scripts" / "docs_hooks.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def blocks(page: Path, *kinds: str) -> list[re.Match[str]]:
    return [block for block in FENCE.finditer(page.read_text()) if not kinds or block["kind"] in kinds]


def named(page: Path) -> str:
    return str(page.relative_to(ROOT))


def environment() -> dict[str, str]:
    """That of a user whose `recordwise` is the one under test."""
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    return {**os.environ, "PATH": path, "NO_MKDOCS_2_WARNING": "1"}


def follow(page: Path, folder: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """Do what a page says, block by block, in a folder; the names its Python leaves behind."""
    monkeypatch.chdir(folder)
    names: dict[str, Any] = {}
    for block in blocks(page, "python", "shell", "toml"):
        if block["kind"] == "toml":
            (folder / block["title"]).write_text(block["body"])
        elif block["kind"] == "python":
            exec(compile(block["body"], f"{page.name}, as Python", "exec"), names)
        else:
            for line in block["body"].splitlines():
                assert exit_code(line, monkeypatch) == int(block["code"] or 0), line
    return names


def exit_code(line: str, monkeypatch: pytest.MonkeyPatch) -> int:
    """Of a `recordwise` command, run in this process, because starting one for each takes longer than the commands."""
    words = shlex.split(line)
    assert words[0] == "recordwise", line
    monkeypatch.setattr(sys, "argv", words)
    try:
        cli.main()
    except SystemExit as done:
        return int(done.code or 0)
    return 0


@pytest.mark.usefixtures("quick_plans")
def test_the_tutorial_can_be_followed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    names = follow(DOCS / "tutorial.md", tmp_path, monkeypatch)
    assert names["model"].guarantee_.private
    assert names["model"].score(names["held_out"]["X"], names["held_out"]["y"]) > 0.75  # mean 0.92, deviation 0.02
    table = (DOCS / "tutorial.md").read_text().split("then holds")[1].split("Killed")[0]
    for file in re.findall(r"`([\w.-]+)`", table):
        assert (tmp_path / "runs" / "job" / file).exists(), file
    assert "<html" in (tmp_path / "digits.html").read_text() and (tmp_path / "page.html").exists()


@pytest.mark.usefixtures("quick_plans")
def test_the_six_commands_can_be_followed_and_print_what_their_page_shows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("pyarrow")
    pytest.importorskip("onnx")
    monkeypatch.setattr("recordwise.encoders.spec.installed", lambda: None)  # whatever lies on this machine
    follow(DOCS / "own-data.md", tmp_path, monkeypatch)
    printed = capsys.readouterr().out
    ready, job, note, plan, ran, handed, answers = (block["body"] for block in blocks(DOCS / "own-data.md", "text"))
    assert (tmp_path / "patients.toml").read_text() == job
    assert ready in printed and note.splitlines()[0] in printed
    basis, _, left_out, _, head, *_ = plan.splitlines()  # predictions, and what is said of them, differ by the CPU
    assert all(line and line in printed for line in (basis, head))
    assert left_out == NO_NETWORK.format(NETWORK_QUERIES)  # said where so many queries are tried: quick plans may not
    assert {line.partition(":")[0] for line in ran.splitlines()} <= {
        line.partition(":")[0] for line in printed.splitlines()
    }
    assert handed.split() == [f"given/{name}" for name in re.findall(r"^given/(.+)$", printed, re.MULTILINE)]
    assert answers.splitlines()[0] in printed
    for name, size in (("street", 150), ("forum", 200), ("pool", 220)):
        assert len((tmp_path / f"{name}.csv").read_text().splitlines()) == size + 1


def test_the_example_of_the_readme_runs_and_prints_what_is_printed_below_it(
    capsys: pytest.CaptureFixture[str],
) -> None:
    readme = (ROOT / "README.md").read_text()
    (example,) = blocks(ROOT / "README.md", "python")
    assert len(example["body"].strip().splitlines()) == 10
    exec(compile(example["body"], "README.md", "exec"), {})
    accuracy, statement = capsys.readouterr().out.strip().split("\n")
    assert float(accuracy) > 0.75  # mean 0.93, deviation 0.01
    quoted = " ".join(line.removeprefix("> ") for line in readme.splitlines() if line.startswith("> "))
    assert quoted == statement
    assert statement in " ".join((DOCS / "privacy-officer.md").read_text().replace("\n> ", " ").split())


def test_the_audit_on_the_privacy_officer_s_page_can_be_rerun(capsys: pytest.CaptureFixture[str]) -> None:
    for block in blocks(DOCS / "privacy-officer.md", "python"):
        exec(compile(block["body"], "privacy-officer.md", "exec"), {})
    assert "not violated" in capsys.readouterr().out


def test_what_pages_show_of_results_is_what_was_measured(hooks: ModuleType) -> None:
    for page in TEXTS:
        text = page.read_text()
        assert hooks.fill(text) == text, f"{named(page)}: run: python scripts/docs_hooks.py"
        shown = hooks.on_page_markdown(text)
        assert not re.search(r"<!-- (results|value|other|commands)", shown) or page.name == "README.md", named(page)
    assert hooks.FILLED.search((ROOT / "README.md").read_text()), "the README shows no measured result"


def test_the_readme_has_its_parts_in_order() -> None:
    readme = (ROOT / "README.md").read_text()
    parts = ["```python", "make demo", "make test", "## What is protected", "## What is not protected", "## Layout"]
    places = [readme.index(part) for part in parts]
    assert places == sorted(places)
    assert "pip install" in readme and re.search(r"!\[.+\]\(docs/figures/\w+\.svg\)", readme)
    first = readme.split("\n\n")[1]
    assert first.count(".") == 1 and len(first) < 160  # one sentence


def test_a_mark_that_means_nothing_is_an_error(hooks: ModuleType) -> None:
    for wrong in (
        "<!-- results: benchmarks/nothing -->",
        "<!-- results: experiments/adult where: s=7 -->",
        "<!-- results: experiments/adult only: speed -->",
        "<!-- value: experiments/adult only: s -->",
    ):
        with pytest.raises((ValueError, OSError)):
            hooks.on_page_markdown(wrong)


def test_pages_are_finished_short_and_name_no_machine(hooks: ModuleType) -> None:
    for page in TEXTS:
        text, where = page.read_text(), named(page)
        # No line that only holds a place.
        assert not re.search(r"^[A-Z]{2,10}$|\bTODO\b|\bFIXME\b", FENCE.sub("", text), re.MULTILINE), where
        assert not re.search(r"(?<![\w.])/(work|root|home|tmp|Users|mnt)\b", text), where
        assert not re.search(r"\.\./shared|localhost:\d|SPEC\.md|DESIGN\.md|STYLE\.md|STACK\.md", text), where
        assert len(hooks.bare(text)) < LIMIT, where  # tables are as long as they are


def _commands(text: str) -> Iterator[str]:
    """Code, in blocks and in lines, one command each."""
    for block in FENCE.finditer(text):
        yield from block["body"].splitlines()
    yield from re.findall(r"`([^`\n]+)`", FENCE.sub("", text))


def test_commands_exist() -> None:
    from typer.main import get_command

    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    app = get_command(cli.app)
    for page, command in [(text, command) for text in TEXTS for command in _commands(text.read_text())]:
        told = f"{named(page)}: {command}"
        match command.removeprefix("$ ").split("#")[0].split():
            case ["make", target, *_] if re.fullmatch(r"[a-z-]+", target):
                assert target in targets, told
            case ["python" | ".venv/bin/python", "-m", module, *_]:
                assert importlib.util.find_spec(module), told
            case ["python", script, *_] if script.endswith(".py"):
                assert (ROOT / script).exists(), told
            case ["recordwise", *rest]:
                _follow_command(app, rest, told)


def _follow_command(found: Any, words: list[str], command: str) -> None:
    for word in words:
        if word.startswith("-"):
            flag = word.split("=")[0]
            assert flag == "--help" or any(flag in option.opts for option in found.params), command
        elif hasattr(found, "commands") and word.isidentifier() and not word.isupper():
            assert word in found.commands, command
            found = found.commands[word]


def test_files_names_and_links_exist() -> None:
    for page in TEXTS:
        text, where = page.read_text(), named(page)
        for path in re.findall(r"`((?:src|tests|docs|examples|experiments|benchmarks|scripts)/[\w./-]*)`", text):
            assert (ROOT / path).exists(), f"{where}: {path}"
        for path in re.findall(r"`((?:privacy|votes|protocols|labels|encoders|queries|data)/[\w/]*\.py)`", text):
            assert (ROOT / "src" / "recordwise" / path).exists(), f"{where}: {path}"
        for name in re.findall(r"`(recordwise(?:\.\w+)+)`", text):
            pkgutil.resolve_name(name)
        # What a reader follows without building the site.
        for target in re.findall(r"\]\(([^)#\s]+)(?:#[^)]*)?\)", FENCE.sub("", text)):
            assert "://" in target or (page.parent / target).exists(), f"{where}: {target}"


def test_examples_parse_and_their_imports_resolve() -> None:
    for page, block in [(text, block) for text in TEXTS for block in blocks(text, "python")]:
        for node in ast.walk(ast.parse(block["body"])):
            if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("recordwise"):
                module = importlib.import_module(node.module or "")
                for alias in node.names:
                    assert hasattr(module, alias.name), f"{named(page)}: {node.module}.{alias.name}"


def given(page: str, folder: Path) -> dict[str, Any]:
    """What a page of the concepts takes as given: names its examples use and do not make, and files."""
    from sklearn.datasets import load_digits

    from recordwise.votes import Ballot, Votes, cast_votes

    rng = seeded(0, "docs", page)
    digits = load_digits()
    images, labels, pool = digits.data[:1000], digits.target[:1000], digits.data[1000:]

    def votes(ballot: Ballot, number: int) -> Votes:
        points = rng.normal(size=(ballot.num_queries, 4))
        return cast_votes(rng.normal(size=(number, 4)), rng.integers(10, size=number), points, ballot)

    small = Ballot(num_queries=10, num_classes=10)
    match page:
        case "data.md":
            import pandas as pd

            table = pd.DataFrame({"age": rng.normal(size=20), "diagnosis": ["flu", "cold"] * 10})
            table.to_parquet(folder / "records.parquet")
            table[["age"]].add(9).to_parquet(folder / "pool.parquet")
            return {}
        case "decoding.md":
            return {"pool": pool, "records": images, "classes": labels}
        case "distributed.md":
            return {"ballot": small, "held": [votes(small, 50) for _ in range(10)]}
        case "local.md":
            return {"votes": votes(Ballot(num_queries=100, num_classes=10), 1)}
        case "queries.md":
            return {"pool_vectors": pool}
        case "shuffle.md":
            return {"votes": votes(small, 30_000)}
        case "students.md":
            return {"images": images, "labels": labels, "pool": pool[:200]}
        case "votes.md":
            np.save(folder / "vectors.npy", images)
            return {"queries": pool[:20], "vectors": images, "labels": labels, "pool_vectors": pool}
    return {}


@pytest.mark.usefixtures("quick_plans")
@pytest.mark.parametrize("page", [*sorted((DOCS / "concepts").glob("*.md")), DOCS / "federation.md"], ids=named)
def test_the_examples_of_a_concept_run(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    names = given(page.name, tmp_path)
    for block in blocks(page, "python"):
        exec(compile(block["body"], page.name, "exec"), names)


def test_the_layout_in_the_readme_is_the_tree() -> None:
    layout = blocks(ROOT / "README.md", "")[-1]["body"]
    for name in re.findall(r"\b(\w+/|\w+\.py)\s", layout.split("docs/")[0].split("\n", 1)[1]):
        assert (ROOT / "src" / "recordwise" / name).exists(), name
    for path in (ROOT / "src" / "recordwise").iterdir():
        if not path.name.startswith(("_", ".", "py.")):
            assert f"{path.name}{'/' * path.is_dir()}" in layout, path.name


def test_the_job_file_page_lists_every_key_with_its_default() -> None:
    from recordwise import Account, DecoderSettings, QuerySettings, RecordSettings, TrustSettings, job
    from recordwise.sections import Source
    from recordwise.settings import Settings

    text = (DOCS / "job-file.md").read_text()
    sections = {
        "## Top level": job.JobFile,
        "## A source": Source,
        "## `[privacy]`": job.Privacy,
        "## `[method]`": job.Method,
        "### Settings of `trust`": TrustSettings,
        "### Settings of `queries`": QuerySettings,
        "### Settings of `decoder`": DecoderSettings,
        "## `[records]`": RecordSettings,
        "## `[account]`": Account,
        "## `[plan]`": job.Planning,
        "## `[compare]`": job.Compare,
    }
    for heading, model in sections.items():
        section = re.split(r"\n###? ", text.split(heading)[1])[0]
        told = dict(re.findall(r"^\| `(\w+)` \| ([^|]+) \|", section, re.MULTILINE))
        known = {field.name: field for field in fields(model)} if is_dataclass(model) else model.model_fields
        for key, field in known.items():
            default = field.default
            if isinstance(default, Settings) and default.by_name:  # a name by itself stands for the first setting
                default = getattr(default, fields(default)[0].name)
            expected = (
                "required"
                if default is PydanticUndefined
                else "its defaults"
                if isinstance(default, Settings | job.Planning)
                else "none"
                if default is None
                else f'`"{default}"`'
                if isinstance(default, str)
                else f"`{default}`"
            )
            assert told.pop(key, "absent") == expected, f"{heading} {key}"
        assert not told, f"{heading} has keys that no job has: {sorted(told)}"


def test_the_job_file_page_lists_every_setting_of_a_shallow_student() -> None:
    from recordwise.students import spec

    text = (DOCS / "job-file.md").read_text()
    section = re.split(r"\n###? ", text.split("### Settings of `student`")[1])[0]
    told = dict(re.findall(r"^\| `(\w+)` \| ([^|]+) \|", section, re.MULTILINE))
    for name in ("counts", "linear", "mlp"):
        for key in spec._BY_NAME[name]().get_params():
            assert f"`{name}`" in told[key], f"{name}.{key}"
    known = {key for name in ("counts", "linear", "mlp") for key in spec._BY_NAME[name]().get_params()}
    assert told.keys() == known


def test_every_test_that_the_guarantee_names_exists() -> None:
    file, named_tests = ROOT, 0
    for path, name in re.findall(r"`(tests/[\w/.]+)?(?:::(\w+))?`", (DOCS / "concepts/guarantee.md").read_text()):
        file = ROOT / path if path else file
        assert file.exists(), path
        assert not name or f"def {name}(" in file.read_text(), name
        named_tests += bool(path)
    assert named_tests >= 10


def test_the_job_file_page_names_every_mechanism_decoder_encoder_and_student() -> None:
    from recordwise.encoders import spec as encoders
    from recordwise.labels import DECODERS
    from recordwise.privacy.guarantee import Trust
    from recordwise.protocols.registry import names
    from recordwise.students import spec as students

    text = (DOCS / "job-file.md").read_text()
    for name in {*(name for trust in Trust for name in names(trust)), *DECODERS}:
        assert name in text, name
    for name in (*encoders._BY_NAME, *students._BY_NAME):
        assert f'`"{name}"`' in text, name


def test_the_job_file_of_the_page_is_a_job_file(tmp_path: Path) -> None:
    from recordwise.job import read_job

    (block,) = blocks(DOCS / "job-file.md", "toml")
    (tmp_path / block["title"]).write_text(block["body"])
    assert read_job(tmp_path / block["title"]).privacy.epsilon == 0.5


def test_the_ratios_of_noise_between_trusts_are_those_of_the_protocols() -> None:
    """A row of docs/concepts/method.md: 30,000 records, s = C = 10, k = 1, replace-one, delta 1e-6 if any."""
    from fractions import Fraction

    from recordwise.privacy.guarantee import Trust
    from recordwise.protocols.terms import Terms
    from recordwise.votes import Ballot

    ballot, records = Ballot(num_queries=10, num_classes=10), 30_000

    def noise(epsilon: str, trust: Trust, mechanism: str = "auto", delta: str = "0") -> float:
        terms = Terms(epsilon=Fraction(epsilon), delta=Fraction(delta), trust=trust, mechanism=mechanism)
        return terms.protocols(ballot, records)[0].noise_std(records)

    row = next(line for line in (DOCS / "concepts/method.md").read_text().splitlines() if "noise of a cell" in line)
    several, one_low, one_high, local_low, local_high = (
        float(number) for number in re.findall(r"[\d.]+", row.split("|", 3)[3].split("|", 1)[1])
    )
    for epsilon, one, local in (("0.1", one_low, local_high), ("1", one_high, local_low)):
        central = noise(epsilon, Trust.CENTRAL)
        assert noise(epsilon, Trust.SHUFFLE, "multi-message", "1e-6") / central == pytest.approx(several, abs=0.05)
        assert noise(epsilon, Trust.SHUFFLE, "collision", "1e-6") / central >= one - 0.05
        assert noise(epsilon, Trust.LOCAL) / central == pytest.approx(local, abs=0.55)


def test_the_site_builds_without_a_warning_and_asks_the_network_for_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As `make docs` builds it, but for line breaks in signatures, each of which would start a formatter."""
    from mkdocs.commands.build import build
    from mkdocs.config import load_config

    monkeypatch.setenv("NO_MKDOCS_2_WARNING", "1")
    monkeypatch.chdir(ROOT)
    config = load_config(str(ROOT / "mkdocs.yml"), site_dir=str(tmp_path / "site"), strict=True)
    config.plugins["mkdocstrings"].config["handlers"]["python"]["options"]["line_length"] = 10_000
    config.plugins.on_startup(command="build", dirty=False)
    build(config)  # strict: a warning aborts it
    config.plugins.on_shutdown()
    built = sorted((tmp_path / "site").rglob("*.html"))
    assert len(built) >= len(PAGES)
    for page in built:
        text = page.read_text()
        loaded = re.findall(r"<(?:script|img|iframe|link)[^>]*(?:src|href)=\"?(https?://[^\"\s>]+)", text)
        assert not loaded, f"{page.name} loads {loaded}"


def test_every_page_is_in_the_navigation_and_every_entry_is_a_page() -> None:
    def files(entry: Any) -> Iterator[str]:
        if isinstance(entry, str):
            yield entry
        for part in entry.values() if isinstance(entry, dict) else entry if isinstance(entry, list) else ():
            yield from files(part)

    listed = list(files(yaml.safe_load((ROOT / "mkdocs.yml").read_text())["nav"]))
    assert sorted(listed) == sorted(str(page.relative_to(DOCS)) for page in PAGES)
