"""What a run came to where its settings left a choice: which encoder, how many queries, which mechanism."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from sklearn.pipeline import Pipeline

from recordwise.account import Account
from recordwise.checkpoint import OWN_LEDGER
from recordwise.distiller import PrivateDistiller
from recordwise.students import reads_counts, student_from
from recordwise.students.counts import TableStudent
from recordwise.students.weights import rules_in_words, without_rules

LETTERS = 300
ADDRESS = re.compile(r" object at 0x[0-9a-fA-F]+")
SHARED, OWN, NONE = "shared", "own", "none"  # whose account a run was paid from
OTHERS = "Other releases about the same records are not in it."
SCOPES = {
    SHARED: f"The account is the ledger that the owner named, with all that was charged to it. {OTHERS}",
    OWN: f"The account is this run's own, since no ledger was named. {OTHERS}",
    NONE: f"The account is this run's own, and it is not kept, since no ledger was named. {OTHERS}",
}


def settled(distiller: PrivateDistiller) -> dict[str, str]:
    """The choices by the names of their settings, in words."""
    first = distiller.rounds_[0]
    return {
        "encoder": f"{encoder_in_words(distiller.encoder_)}, {first.queries.vectors.shape[1]} numbers a sample",
        "num_queries": ", then ".join(f"{len(one.queries.vectors):,}" for one in distiller.rounds_),
        "mechanism": distiller.mechanism_,
        "decoder": first.labels.decoder,
        "student": _student(distiller),
    }


def scope_of(account: Account) -> str:
    """Whose account it is: one that the owner named, this run's own, or none at all."""
    if account.ledger is None:
        return NONE
    own = account.run_dir is not None and str(account.ledger) == str(Path(account.run_dir) / OWN_LEDGER)
    return OWN if own else SHARED


def encoder_in_words(encoder: Any) -> str:
    """Its steps as they print, without where anything lies."""
    steps = [step for _, step in encoder.steps] if isinstance(encoder, Pipeline) else [encoder]
    return ", then ".join(_printed(step) for step in steps)


def _student(distiller: PrivateDistiller) -> str:
    """What it is, and how it decides where it was told: classes by their names, for a student knows places."""
    rules = rules_in_words(distiller.student_, [str(one) for one in distiller.classes_])
    return "; ".join([_taught(distiller), *(f"{name}: {text}" for name, text in rules.items())])


def _taught(distiller: PrivateDistiller) -> str:
    """What it is and what it learnt from."""
    asked = student_from(distiller.settings.student.model, seed=0)
    learnt, taught = distiller.learnt_, _printed(without_rules(distiller.student_))
    if learnt is None:
        why = ", for the release has no counts" if reads_counts(asked) else ""
        return f"{taught}, taught the decoded labels{why}"
    source = "the decoder's labels" if learnt.penalty is None else "the decoder's labels and the released counts"
    if isinstance(distiller.student_, TableStudent):
        return f"{_parts(distiller.student_)}, from {source}"
    return f"{taught}, taught what a linear student read off {source}"


def _parts(student: TableStudent) -> str:
    """What such a student is made of; the queries around a sample count where it is not believed alone."""
    parts = ["linear"]
    if student.network is not None:
        parts.append("a small network")
    if student.regions and student.slope < 1:
        parts.append("the class shares of the queries around a sample")
    return " with ".join([parts[0], " and ".join(parts[1:])]) if parts[1:] else parts[0]


def _printed(part: Any) -> str:
    """How it prints; the name of its class where that tells an address in memory, or too much."""
    text = " ".join(repr(part).split())
    return type(part).__name__ if ADDRESS.search(text) or len(text) > LETTERS else text
