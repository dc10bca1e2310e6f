"""A job file with other values: the same text, comments and all, but for what was chosen. The old file stays."""

from __future__ import annotations

import copy
import re
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from recordwise.durable import write_once
from recordwise.errors import InvalidInput, first_line
from recordwise.formats import toml_file
from recordwise.job import JobFile
from recordwise.job_draft import toml_value
from recordwise.privacy.guarantee import Trust

MOST_FILES = 1000
_SECTION = re.compile(r"^\s*\[\s*(?P<name>[\w.\s]+?)\s*\]\s*(#.*)?$")
_VALUE = r"""("[^"\n]*"|'[^'\n]*'|\{[^{}\n]*\}|[^\s#"'{}]+)"""

Chosen = Mapping[tuple[str, str], Any]  # (section, key): value, such as ("privacy", "epsilon"): 0.5


def edited(text: str, chosen: Chosen) -> str:
    """The text of a job file in which the chosen keys have their values, and everything else stays as it is.

    Guarantees:
      - what comes back means what the text meant, with these values; where that cannot be, it is refused.
    """
    wanted = copy.deepcopy(tomllib.loads(text))
    lines = text.splitlines(keepends=True)
    for (section, key), value in chosen.items():
        within = wanted
        for part in section.split("."):
            within = within.setdefault(part, {})
        if key in within and within[key] == value:
            continue
        within[key] = value
        _set(lines, section, key, _spelled(value))
    made = "".join(lines)
    try:
        same = tomllib.loads(made) == wanted
    except tomllib.TOMLDecodeError:
        same = False
    if not same:
        said = ", ".join(f"{section}.{key} = {_spelled(value)}" for (section, key), value in chosen.items())
        raise InvalidInput(f"the job file is written in a way that cannot be edited safely; set by hand: {said}")
    return made


def write_beside(job: Path, chosen: Chosen) -> Path:
    """Write the job with the chosen values into a new file beside it: job-explored.toml, or the next free name."""
    toml_file(job)  # small enough to read, and TOML
    text = edited(job.read_bytes().decode(), chosen)  # with its line endings
    try:
        JobFile.model_validate(tomllib.loads(text))
    except ValueError as fault:
        raise InvalidInput(f"{job.name} is no job file any more: {first_line(fault)}") from fault
    mode = job.stat().st_mode & 0o777  # a job file may name a password
    for number in range(1, MOST_FILES):
        place = job.with_name(f"{job.stem}-explored{'' if number == 1 else f'-{number}'}.toml")
        if write_once(place, text.encode(), mode=mode):
            return place
    raise InvalidInput(f"{job.parent} holds {MOST_FILES - 1} explored job files already: remove some")


def trusting(content: Mapping[str, Any], text: str, name: str, parties: int) -> Chosen:
    """How a job file says another trust: where it names settings of trust already, these stay.

    Args:
      parties: How many hold the records, at least; only distributed trust says so.
    """
    held = content.get("privacy", {}).get("trust", {})
    held = dict(held) if isinstance(held, Mapping) else {}
    wanted = held | {"name": name}
    if name == Trust.DISTRIBUTED and held.get("parties", 1) < parties:
        wanted["parties"] = parties
    if re.search(r"^\s*\[\s*privacy\s*\.\s*trust\s*\]", text, re.MULTILINE):
        return {("privacy.trust", key): value for key, value in wanted.items()}
    return {("privacy", "trust"): wanted if len(wanted) > 1 else name}


def _set(lines: list[str], section: str, key: str, value: str) -> None:
    """Change the key's line in its section, or add one; `edited` looks whether that was right."""
    heads = [(place, found["name"]) for place, line in enumerate(lines) if (found := _SECTION.match(line.rstrip()))]
    begin = next((place for place, name in heads if re.sub(r"\s", "", name) == section), None)
    if begin is None:
        if lines and not lines[-1].endswith("\n"):
            lines[-1] += "\n"
        lines += ["\n", f"[{section}]\n", f"{key} = {value}\n"]
        return
    end = next((place for place, line in enumerate(lines) if place > begin and line.lstrip()[:1] == "["), len(lines))
    spelled = re.compile(rf"^(?P<head>\s*{re.escape(key)}\s*=\s*){_VALUE}(?P<tail>\s*(#.*)?)$")
    for place in range(begin + 1, end):
        if found := spelled.match(lines[place].rstrip("\r\n")):
            ending = lines[place][len(lines[place].rstrip("\r\n")) :]
            lines[place] = f"{found['head']}{value}{found['tail']}{ending}"
            return
    if not lines[begin].endswith("\n"):
        lines[begin] += "\n"
    lines.insert(begin + 1, f"{key} = {value}\n")


def _spelled(value: Any) -> str:
    if isinstance(value, Mapping):
        return "{ " + ", ".join(f"{key} = {toml_value(one)}" for key, one in value.items()) + " }"
    return toml_value(value)
