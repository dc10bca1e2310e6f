"""How a missing extra is reported."""

from __future__ import annotations

from importlib.util import find_spec

from recordwise.errors import MissingExtra


def ask_for(extra: str, *packages: str) -> None:
    """Refuse to go on without the packages that `recordwise[extra]` installs."""
    for package in packages:
        if find_spec(package) is None:
            raise MissingExtra(f"this needs {package}: pip install 'recordwise[{extra}]'")
