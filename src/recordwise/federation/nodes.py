"""Parties made from their folders: what runs behind a Flower app, and what `recordwise` commands start."""

from __future__ import annotations

from pathlib import Path

from recordwise.data import Schema
from recordwise.errors import InvalidInput
from recordwise.federation.coordinator import FederatedDistiller
from recordwise.federation.exchange import Exchange, Node
from recordwise.federation.identity import identity_key, kept_key
from recordwise.federation.records import Records, Voters
from recordwise.federation.scale_out import OnRay, ParquetFolder
from recordwise.federation.secure_sum import masks
from recordwise.federation.settings import (
    CoordinatorFile,
    ShufflerFile,
    SiloFile,
    public_key,
    read_coordinator,
    read_silo,
)
from recordwise.federation.shuffling import ShufflerNode
from recordwise.federation.silo import Silo, log
from recordwise.job import read_settings
from recordwise.privacy.ledger import Ledger
from recordwise.progress import Progress, Silent
from recordwise.report import Summary, summarize
from recordwise.run import read_test, write_outcome

SILO, SHUFFLER, COORDINATOR = "silo.toml", "shuffler.toml", "coordinator.toml"


def node_in(folder: Path) -> Node:
    """The silo or the shuffler whose folder this is."""
    if (folder / SILO).exists():
        told = read_silo(folder / SILO)
        identity = kept_key(folder / "identity.key", identity_key())
        return Silo(
            told.name,
            identity,
            folder / "state",
            told.rules(folder),
            lambda: voters(told),
        )
    if (folder / SHUFFLER).exists():
        mixer = read_settings(folder / SHUFFLER, ShufflerFile)
        peers = {name: public_key(f"peers.{name}", key) for name, key in mixer.peers.items()}
        identity, key = kept_key(folder / "identity.key", identity_key()), shuffler_key(folder)
        return ShufflerNode(mixer.name, identity, key, folder / "state", peers)
    raise InvalidInput(f"{folder} must hold {SILO} or {SHUFFLER}, it holds neither")


def voters(told: SiloFile) -> Voters:
    """A silo's records, in this process or on Ray."""
    source = told.records
    if not told.workers:
        return Records.of(source.read("records"))
    if source.labels is None:
        raise InvalidInput("records.labels must name where the records' labels are")
    engine = OnRay(workers=told.workers, address=told.ray_address)
    return ParquetFolder(folder=source.path, samples=source.samples, labels=source.labels, engine=engine)


def shuffler_key(folder: Path) -> bytes:
    return kept_key(folder / "sealing.key", masks.fresh_key())


def run_coordinator(folder: Path, exchange: Exchange, progress: Progress | None = None) -> Summary:
    """Carry a federated run out; killed at any point, it goes on when it is run again."""
    told = read_coordinator(folder / COORDINATOR)
    public = told.public.read("public")
    schema = Schema.of_loaded(public)
    pool = schema.pool(public.samples, "[public] samples")
    test = None
    if told.test is not None:
        test = read_test(told.test, schema, told.method.classes, several=told.method.labels_per_record > 1)
    distiller = FederatedDistiller(
        epsilon=told.privacy.epsilon,
        delta=told.privacy.delta,
        neighbours=told.privacy.neighbours,
        trust=told.privacy.trust,
        mechanism=told.privacy.mechanism,
        ledger=_ledger(told),
        budget=told.privacy.budget,
        schema=schema,
        run_dir=told.out,
        progress=progress or Silent(),
        **told.method.model_dump(),
    )
    distiller.fit_silos(pool, told.federation.company(), exchange)
    for fault in getattr(distiller, "faults_", ()):  # there are none where the ledger held every release already
        log.warning("left out: %s", fault)
    accuracy = None if test is None else float(distiller.score(*test))
    summary = summarize(distiller, pool, name=told.name, test_accuracy=accuracy)
    write_outcome(told.out, distiller, summary)
    return summary


def _ledger(told: CoordinatorFile) -> str:
    """The coordinator's ledger, with its budget open: by default for exactly what the run may cost."""
    privacy = told.privacy
    assert privacy.ledger is not None
    ledger = Ledger.open(privacy.ledger)
    if privacy.budget not in [budget.name for budget in ledger.budgets()]:
        ledger.open_budget(
            privacy.budget,
            epsilon=privacy.epsilon if privacy.budget_epsilon is None else privacy.budget_epsilon,
            delta=privacy.delta if privacy.budget_epsilon is None else privacy.budget_delta,
            neighbours=privacy.neighbours,  # type: ignore[arg-type]  # made a type by the ledger
        )
    return privacy.ledger
