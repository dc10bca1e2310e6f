"""What a coordinator writes down about a run over silos.

coordinator.toml

    name = "trees"
    [public]
    path = "pool.npz"
    [privacy]
    epsilon = 1.0
    trust = "distributed"
    [method]
    classes = ["oak", "ash", "elm"]
    [federation]
    threshold = 3
    records = [80, 120]               # at least, at most, over all silos
    [federation.silos]                # public identities, from `recordwise silo init`
    north = "…"

Sections but [federation] are those of a job file. Paths are relative to the file.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from pydantic import model_validator

from recordwise.account import Account
from recordwise.federation.settings import FederationSection
from recordwise.job import RunFile, absolute
from recordwise.protocols.terms import TrustSettings
from recordwise.records import RecordSettings
from recordwise.sections import read_settings


class CoordinatorFile(RunFile):
    """One run over silos."""

    name: str = "federation"
    out: Path | None = Path("run")
    federation: FederationSection

    @model_validator(mode="after")
    def _refuse_what_silos_decide(self) -> CoordinatorFile:
        written = self.privacy.trust.values() | self.records.values() | self.account.values()
        usual = TrustSettings().values() | RecordSettings().values() | Account().values()
        private = ("trust.parties", "trust.colluding", "records.overlap", "records.expected", "account.round_epsilon")
        for name in private:
            if written[name] != usual[name]:
                raise ValueError(f"{name} is for records in one place: a coordinator has none")
        return self


def read_coordinator(path: Path) -> CoordinatorFile:
    written = absolute(read_settings(path, CoordinatorFile), path.resolve())
    ledger = written.account.ledger or str(path.resolve().parent / "ledger.sqlite")
    return written.model_copy(update={"account": replace(written.account, ledger=ledger)})
