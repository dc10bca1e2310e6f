"""Job files that are wrong in one place: every key that there is, with values that do not belong there."""

from __future__ import annotations

import copy
import datetime
import itertools
from collections.abc import Iterator
from dataclasses import fields
from typing import Any

from pydantic import BaseModel
from tiny import JOB, Raw, document

from recordwise.account import Account
from recordwise.job import JobFile, Method, Privacy
from recordwise.labels import DecoderSettings
from recordwise.protocols.terms import TrustSettings
from recordwise.queries import QuerySettings
from recordwise.randomness import seeded
from recordwise.records import RecordSettings
from recordwise.sections import Source
from recordwise.students import StudentSettings

WRONG: list[Any] = [
    "",
    "x",
    "auto",
    "a\nb\tc",
    "\x00",
    "\u202e\u2066x",
    "é" * 300,
    "../../..",
    ".",
    "/dev/zero",
    "pipe",
    "pipe.npz",
    "socket.npz",
    "folder.npz",
    "empty.npz",
    "empty.npy",
    "missing.npz",
    "loop",
    "text.txt",
    "records.npz/inside",
    "postgresql://user:secret@localhost:1/none",
    "mysql://x",
    "1/3",
    0,
    -1,
    1,
    2,
    7,
    2**31,
    2**63 - 1,
    Raw("1" + "0" * 30),
    Raw("1" + "0" * 5000),
    0.0,
    -0.5,
    0.5,
    1e-320,
    1e-9,
    1e308,
    Raw("nan"),
    Raw("inf"),
    Raw("-inf"),
    True,
    False,
    [],
    [[]],
    [1, "a"],
    [0.5, 1.5],
    ["a", "a"],
    [1, 1],
    [True, False],
    [""],
    list(range(2000)),
    {},
    {"name": "pca"},
    {"name": "mlp", "hidden": [-1]},
    {"name": "kmeans", "balanced": "yes"},
    {"a": {"b": {"c": 1}}},
    datetime.date(1979, 5, 27),
    datetime.time(7, 32),
    Raw("[" * 3000 + "]" * 3000),
    Raw("{a = " * 300 + "1" + "}" * 300),
]
TRUSTS = ("central", "distributed", "local", "shuffle")
TEXTS = {
    "empty": "",
    "no TOML": "{]",
    "no UTF-8": "name = \udcff",
    "a key twice": "[method]\n[method]\n",
    "a long key": ".".join(["a"] * 20_000) + " = 1",
    "deep": "a = " + "[" * 50_000,
    "null": "a = 1\x00",
    "surrogate": 'name = "\\ud800"',
    "unknown section": "[nothing]\nx = 1\n" + document(JOB),
    "an array of tables": "[[method]]\nx = 1\n",
    "a mark before it": "\ufeff" + document(JOB),
    "a huge number": document({**JOB, "privacy": {"epsilon": Raw("9" * 400)}}),
    "a long file": "# " + "x" * (1 << 25),
}


def keys(kind: type[BaseModel]) -> list[str]:
    return [field.alias or name for name, field in kind.model_fields.items()]


def changed(path: tuple[str, ...], value: Any) -> dict[str, Any]:
    """The job with one key set."""
    job = copy.deepcopy(JOB)
    place = job
    for key in path[:-1]:
        held = place.get(key, {})
        place[key] = held if isinstance(held, dict) else {"name": held}
        place = place[key]
    place[path[-1]] = value
    return job


def places() -> list[tuple[str, ...]]:
    """Every key that a job file may have."""
    sections = {"private": Source, "public": Source, "test": Source, "privacy": Privacy, "method": Method}
    inner = [(section, key) for section, kind in sections.items() for key in keys(kind)]
    settings: dict[tuple[str, ...], type[Any]] = {
        ("privacy", "trust"): TrustSettings,
        ("method", "queries"): QuerySettings,
        ("method", "decoder"): DecoderSettings,
        ("method", "student"): StudentSettings,
        ("records",): RecordSettings,
        ("account",): Account,
    }
    deepest = [(*path, field.name) for path, kind in settings.items() for field in fields(kind)]
    return [*((key,) for key in keys(JobFile)), *inner, *deepest]


def bad_jobs() -> Iterator[tuple[str, str]]:
    """(name, content) of each; in an order that any first part of which covers all keys."""
    yield from TEXTS.items()
    for path in places():
        if path[0] in JOB and (len(path) == 1 or (len(path) == 2 and path[1] in JOB[path[0]])):
            job = copy.deepcopy(JOB)
            del (job if len(path) == 1 else job[path[0]])[path[-1]]
            yield f"{'.'.join(path)} is missing", document(job)
    for trust, epsilon, delta in itertools.product(TRUSTS, (1e-9, 1e3, 1e308), (0.0, 1e-300, 1e-6, 0.999)):
        job = {**JOB, "privacy": {"trust": trust, "epsilon": epsilon, "delta": delta}}
        yield f"{trust} trust, epsilon {epsilon}, delta {delta}", document(job)
    rng = seeded(0, "bad jobs")
    orders = {path: rng.permutation(len(WRONG)) for path in places()}
    for turn in range(len(WRONG)):
        for path, order in orders.items():
            value = WRONG[order[turn]]
            yield f"{'.'.join(path)} = {str(value)[:40]!r}", document(changed(path, value))
