"""Build the wheel and use it in clean environments, with the newest and with the lowest versions that it allows.

    python scripts/try_wheel.py [PYTHON ...]

The newest versions are tried with each Python named, otherwise with each of 3.11 to 3.14 that is at hand; the lowest
with 3.11, for which all of them have wheels. In each environment every module is imported without extras, and every
command is run, rightly and wrongly. The first thing that is not as it should be ends the script in one line.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PYTHONS = ("3.11", "3.12", "3.13", "3.14")
OLDEST = PYTHONS[0]
QUIET = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "PIP_DISABLE_PIP_VERSION_CHECK": "1", "NO_COLOR": "1"}
MISSING = 8  # the exit code of a command whose extra is not installed

# Each module alone, in the order of its name: what an extra carries says so, everything else is there.
IMPORTS = """
import importlib, importlib.util, pkgutil, recordwise
from recordwise.errors import MissingExtra
carried = 0
for module in pkgutil.walk_packages(recordwise.__path__, "recordwise.", onerror=lambda name: None):
    try:
        importlib.import_module(module.name)
    except MissingExtra:
        carried += 1
for name in recordwise.__all__:
    getattr(recordwise, name)
assert carried, "no module said that its extra is missing"
assert not [name for name in ("torch", "flwr") if importlib.util.find_spec(name)], "an extra came along"
"""
COMMANDS = """
from typer.main import get_command
from recordwise.cli import app
def show(command, path):
    print(*path)
    for name, inner in getattr(command, "commands", {}).items():
        show(inner, [*path, name])
show(get_command(app), [])
"""
DATA = """
import numpy as np
from sklearn.datasets import load_digits
digits = load_digits()
np.savez("pool.npz", X=digits.data[:400])
np.savez("records.npz", X=digits.data[400:1200], y=digits.target[400:1200])
np.savez("test.npz", X=digits.data[1200:], y=digits.target[1200:])
"""
JOB = """
private = { path = "records.npz", labels = "y" }
public = { path = "pool.npz" }
test = { path = "test.npz", labels = "y" }
privacy = { epsilon = 2.0 }
account = { ledger = "ledger.sqlite", budget = "digits" }
method = { num_queries = 40, classes = [0, 1, 2, 3, 4, 5, 6, 7, 8, 9] }
"""
SMALL_DEMO = """
from recordwise import cli, demo
demo.RUNS, demo.EPSILONS = 2, (demo.SHOWN, 2.0)
cli.main()
"""
RIGHT = (
    "plan --num-records 1000 --num-classes 10 --epsilon 1 --num-queries 20 --json",
    "amplify --senders 1000 --epsilon0 1",
    "audit --epsilon 1 --num-queries 2 --num-classes 2 --trials 2000",
    "ledger open ledger.sqlite --budget digits --epsilon 3",
    "run job.toml",
    "report runs/job",
    "ledger show ledger.sqlite",
)
WRONG = {
    "plan": 2,
    "plan --num-records many --num-classes 2 --epsilon 1": 2,
    "run nothing.toml": 2,
    "fly": 2,
    "coordinator init folder": MISSING,
    "silo init folder --name one": MISSING,
    "shuffler init folder --name one": MISSING,
}


class Failed(Exception):
    """What is not as it should be, in one line."""


def call(*command: str | Path, folder: Path, about: str) -> str:
    """The output of a command that must succeed."""
    done = subprocess.run(command, cwd=folder, env=os.environ | QUIET, capture_output=True, text=True)
    if done.returncode:
        lines = (done.stderr or done.stdout).strip().splitlines() or [f"exit code {done.returncode}"]
        why = [line.strip() for line in lines if "ERROR:" in line] or lines  # pip adds notes after what went wrong
        raise Failed(f"{about}: {why[-1]}")
    return done.stdout


def lowest() -> list[str]:
    """Every run-time dependency at its lower bound."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    bounds = [re.match(r"([\w.-]+)>=([\w.]+)", line) for line in project["dependencies"]]
    if None in bounds:
        raise Failed("every dependency in pyproject.toml needs a lower bound")
    return [f"{bound[1]}=={bound[2]}" for bound in bounds if bound]


def pythons(named: list[str]) -> Iterator[tuple[str, str]]:
    """(version, command) of the interpreters to try; a name on the path may stand for nothing."""
    for command in named or [found for version in PYTHONS if (found := shutil.which(f"python{version}"))]:
        ask = [command, "-c", "import ensurepip, sys, venv; print('%d.%d' % sys.version_info[:2])"]
        done = subprocess.run(ask, capture_output=True, text=True)
        if done.returncode == 0:
            yield done.stdout.strip(), command
        elif named:
            raise Failed(f"{command} does not run, or cannot make environments")


def use(python: Path, folder: Path) -> None:
    """Everything that the core installation offers, rightly and wrongly."""
    recordwise = python.with_name("recordwise")
    call(python, "-c", IMPORTS, folder=folder, about="importing every module")
    call(python, "-c", DATA, folder=folder, about="writing data")
    (folder / "job.toml").write_text(JOB)
    for line in ("--version", "--help", *RIGHT):
        call(recordwise, *line.split(), folder=folder, about=f"recordwise {line}")
    call(python, "-c", SMALL_DEMO, "demo", "--out", "demo", folder=folder, about="recordwise demo")
    for path in call(python, "-c", COMMANDS, folder=folder, about="listing the commands").splitlines():
        call(recordwise, *path.split(), "--help", folder=folder, about=f"recordwise {path} --help")
        refused(recordwise, f"{path} --no-such-option", 2, folder)
    for line, code in WRONG.items():
        refused(recordwise, line, code, folder)


def refused(recordwise: Path, line: str, code: int, folder: Path) -> None:
    """A mistake ends in one line and the exit code of its kind."""
    done = subprocess.run(
        [recordwise, *line.split()], cwd=folder, env=os.environ | QUIET, capture_output=True, text=True
    )
    said = done.stderr.splitlines()
    if done.returncode != code or len(said) != 1 or not said[0].startswith("recordwise: "):
        raise Failed(f"recordwise {line}: exit code {done.returncode} and {len(said)} lines, wanted {code} and one")


def attempt(name: str, command: str, wheel: Path, pins: list[str], folder: Path) -> None:
    """Install the wheel into a clean environment and use it there."""
    print(f"==> {name}", flush=True)
    place = folder / name.replace(" ", "-")
    call(command, "-m", "venv", place / "env", folder=folder, about=f"{name}: making an environment")
    python = place / "env" / "bin" / "python"
    install = ("-m", "pip", "install", "--quiet", "--retries", "1", "--only-binary", ":all:", wheel, *pins)
    call(python, *install, folder=folder, about=f"{name}: the wheel could not be installed (is an index in reach?)")
    work = place / "work"
    work.mkdir()
    try:
        use(python, work)
    except Failed as fault:
        raise Failed(f"{name}: {fault}") from fault
    shutil.rmtree(place)


def main() -> None:
    try:
        with tempfile.TemporaryDirectory(prefix="recordwise-wheel-") as made:
            folder = Path(made)
            build = ("-m", "pip", "wheel", "--quiet", "--retries", "1", "--no-deps", "--wheel-dir", folder, ROOT)
            call(sys.executable, *build, folder=folder, about="the wheel could not be built (is an index in reach?)")
            (wheel,) = folder.glob("*.whl")
            found = list(pythons(sys.argv[1:]))
            for version, command in found:
                if version == OLDEST:
                    attempt(f"lowest versions, Python {version}", command, wheel, lowest(), folder)
                attempt(f"newest versions, Python {version}", command, wheel, [], folder)
            tried = [version for version, _ in found]
            if not tried:
                raise Failed(f"none of Python {', '.join(PYTHONS)} is at hand")
            also = "lowest versions too" if OLDEST in tried else f"lowest versions not tried without Python {OLDEST}"
            print(f"==> the wheel works with Python {', '.join(tried)}; {also}")
    except Failed as fault:
        print(f"try_wheel: {fault}", file=sys.stderr)
        sys.exit(1)


if __name__ == "__main__":
    main()
