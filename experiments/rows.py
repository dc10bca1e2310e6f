"""Rows of experiments/results: a setting, and everything that a figure measured under it must carry."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date
from typing import Any

CLASSES = 10  # of all three data sets
DELTA = 1e-6  # of the shuffle model
NAME = re.compile(r"(?P<protocol>[a-z-]+)-s(?P<s>\d+)-k(?P<k>\d+)-eps(?P<epsilon>[\d.]+)")

Row = dict[str, Any]


@dataclass(frozen=True, kw_only=True)
class Setting:
    """s queries, k votes per record, a protocol at one epsilon."""

    s: int
    epsilon: float
    k: int = 1
    protocol: str = "central"

    @property
    def name(self) -> str:
        return f"{self.protocol}-s{self.s}-k{self.k}-eps{self.epsilon:g}"


def named(name: str) -> Setting | None:
    """The setting that is called so; None if no setting is."""
    found = NAME.fullmatch(name)
    return found and Setting(
        protocol=found["protocol"], s=int(found["s"]), k=int(found["k"]), epsilon=float(found["epsilon"])
    )


def result_row(
    setting: Setting,
    *,
    data: str,
    split: str,
    encoder: str,
    queries: str,
    student: str,
    seeds: Sequence[str],
    test_accuracy: Sequence[float],
    label_accuracy: Sequence[float],
    nonprivate_accuracy: float | None,
    versions: dict[str, str],
    hardware: dict[str, Any],
    command: str,
    **more: Any,
) -> Row:
    """One row; the lists go over `seeds`, each of which is the features' and, behind a slash, the noise's."""
    return {
        "method": "recordwise",
        "data": data,
        "split": split,
        "setting": setting.name,
        "encoder": encoder,
        "queries": queries,
        "student": student,
        "protocol": setting.protocol,
        "s": setting.s,
        "k": setting.k,
        "epsilon": setting.epsilon,
        "delta": DELTA if setting.protocol == "shuffle" else 0.0,
        "neighbours": "replace",
        **more,
        "seeds": list(seeds),
        "test_accuracy": list(test_accuracy),
        "label_accuracy": list(label_accuracy),
        "nonprivate_accuracy": nonprivate_accuracy,
        "versions": versions,
        "hardware": hardware,
        "command": command,
        "date": date.today().isoformat(),
    }
