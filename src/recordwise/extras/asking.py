"""Optional packages, and how a missing one is reported."""

from __future__ import annotations

from importlib import import_module
from importlib.util import find_spec
from typing import Any

from recordwise.errors import MissingExtra


def ask_for(extra: str, *packages: str) -> None:
    """Refuse to go on without the packages that `recordwise[extra]` installs."""
    for package in packages:
        if find_spec(package) is None:
            raise MissingExtra(f"this needs {package}: pip install 'recordwise[{extra}]'")


def optional(module: str, for_what: str, *, extra: str) -> Any:
    """A module of an optional package; where it is missing, one line says what needs it and how to install it."""
    try:
        return import_module(module)
    except ImportError as fault:
        package = module.partition(".")[0]
        raise MissingExtra(f"{for_what} needs {package}: pip install 'recordwise[{extra}]'") from fault
