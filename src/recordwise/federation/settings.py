"""What a silo and a shuffler write down about themselves, each in one file, and what a coordinator says about them.

silo.toml

    name = "north"
    [records]
    path = "records.parquet"
    labels = "tree"
    [policy]
    epsilon = 2.0                     # the cap
    trust = "distributed"
    [peers]                           # identities learned from the other silos themselves
    south = "…"

Paths are relative to the file.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

from pydantic import AfterValidator, Field

from recordwise.errors import InvalidInput
from recordwise.federation.federation import Federation
from recordwise.federation.forms import is_name
from recordwise.federation.identity import KEY_BYTES
from recordwise.federation.policy import Policy
from recordwise.privacy.guarantee import Neighbours, Trust, exact
from recordwise.sections import Section, Source, read_settings

Known = tuple[str, bytes, bytes]


def _printable(name: str) -> str:
    if not is_name(name):
        raise ValueError("must be 1 to 64 printable characters")
    return name


Name = Annotated[str, AfterValidator(_printable)]


class ShufflerSection(Section):
    """The shuffler as silos and coordinator know it."""

    name: Name
    identity: str
    key: str

    def known(self) -> Known:
        return self.name, public_key("shuffler.identity", self.identity), public_key("shuffler.key", self.key)


class FederationSection(Section):
    """Whom the coordinator asks."""

    silos: dict[Name, str]
    threshold: int
    records: tuple[int, int]
    colluding: int = 1
    attempts: int = 1
    timeout: float = 300.0
    patience: float = 600.0
    shuffler: ShufflerSection | None = None

    def known(self) -> Federation:
        return Federation(
            roster={name: public_key(f"federation.silos.{name}", key) for name, key in self.silos.items()},
            threshold=self.threshold,
            records=self.records,
            colluding=self.colluding,
            attempts=self.attempts,
            timeout=self.timeout,
            patience=self.patience,
            shuffler=None if self.shuffler is None else self.shuffler.known(),
        )


class PolicySection(Section):
    """A silo's rules; the names are `Policy`'s."""

    epsilon: float
    delta: float = 0.0
    neighbours: Literal["replace", "add-remove"] = "replace"
    trust: Literal["central", "distributed", "local", "shuffle"] = "distributed"
    min_parties: int = 2
    colluding: int = 1
    pool: str | None = None
    always: bool = False
    budget: str = "default"
    ledger: str | None = Field(default=None, repr=False)  # a URL may hold a password


class SiloFile(Section):
    """A silo."""

    name: Name
    workers: int = 0  # above zero, `records` is a folder of Parquet files, voted by so many Ray workers
    ray_address: str | None = None  # of a running cluster to use instead
    records: Source
    policy: PolicySection
    peers: dict[Name, str] = Field(default_factory=dict)
    shuffler: ShufflerSection | None = None

    def rules(self, folder: Path) -> Policy:
        settings = self.policy
        ledger = settings.ledger
        if ledger is not None and "://" not in ledger:
            ledger = str(folder / ledger)
        return Policy(
            epsilon=exact(settings.epsilon),
            delta=exact(settings.delta),
            neighbours=Neighbours(settings.neighbours),
            trust=Trust(settings.trust),
            min_parties=settings.min_parties,
            colluding=settings.colluding,
            pool=settings.pool,
            always=settings.always,
            budget=settings.budget,
            ledger=ledger,
            peers={name: public_key(f"peers.{name}", key) for name, key in self.peers.items()},
            shuffler=None if self.shuffler is None else self.shuffler.known(),
        )


class ShufflerFile(Section):
    """A shuffler."""

    name: Name
    peers: dict[Name, str]


def read_silo(path: Path) -> SiloFile:
    settings, folder = read_settings(path, SiloFile), path.resolve().parent
    return settings.model_copy(
        update={"records": settings.records.model_copy(update={"path": folder / settings.records.path})}
    )


def public_key(name: str, digits: str) -> bytes:
    """A public key that somebody wrote down."""
    try:
        key = bytes.fromhex(digits)
    except ValueError as error:
        raise InvalidInput(f"{name} must be {2 * KEY_BYTES} hexadecimal digits, got {digits!r}") from error
    if len(key) != KEY_BYTES:
        raise InvalidInput(f"{name} must be {2 * KEY_BYTES} hexadecimal digits, got {len(digits)}")
    return key
