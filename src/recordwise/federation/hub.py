"""The coordinator made from its folder: its door, and the run itself."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from recordwise.distiller import PrivateDistiller
from recordwise.errors import InvalidInput
from recordwise.federation.certificates import fingerprint_of, tls_context
from recordwise.federation.coordinator import fit_silos
from recordwise.federation.coordinator_file import CoordinatorFile, read_coordinator
from recordwise.federation.door import Door
from recordwise.federation.exchange import Exchange
from recordwise.federation.identity import identity_key, kept_key
from recordwise.federation.nodes import IDENTITY
from recordwise.federation.registered import registered
from recordwise.federation.replies import log
from recordwise.privacy.ledger import Ledger
from recordwise.progress import Progress
from recordwise.report import Summary, summarize
from recordwise.run import read_test, write_outcome

COORDINATOR, CERTIFICATE = "coordinator.toml", "coordinator.crt"


def door(folder: Path, *, host: str, port: int) -> Door:
    """The coordinator's door, for the registered nodes that coordinator.toml names."""
    federation = read_coordinator(folder / COORDINATOR).federation.known()
    parties = {identity: name for name, identity in federation.roster.items()}
    if federation.shuffler is not None:
        parties[federation.shuffler[1]] = federation.shuffler[0]
    trusted = {parties[one]: content for one, content in registered(folder).items() if one in parties}
    if missing := sorted(set(parties.values()) - set(trusted)):
        raise InvalidInput(
            f"every party of {COORDINATOR} must be registered, {', '.join(missing)} is not: recordwise coordinator "
            f"register {folder} node.crt"
        )
    context = tls_context(kept_key(folder / IDENTITY, identity_key()), trusted.values(), folder, server_side=True)
    return Door(context, {fingerprint_of(content): name for name, content in trusted.items()}, host, port)


def run_coordinator(
    folder: Path, exchange: Exchange, progress: Progress | None = None, *, go_on: bool = False
) -> Summary:
    """Carry a federated run out; killed at any point, it goes on when it is run again.

    Args:
      go_on: Run it even where the budget is expected to go on noise.
    """
    written = read_coordinator(folder / COORDINATOR)
    public = written.public.read("public")
    schema, pool = written.read_pool(public)
    test = None
    if written.test is not None:
        test = read_test(written.test, schema, written.method.classes, several=written.records.labels_per_record > 1)
    told = go_on or written.account.go_on
    account = replace(written.account, ledger=_ledger(written), run_dir=written.out, go_on=told)
    asked = written.settings() | {"records": replace(written.records, schema=schema), "account": account}
    distiller = PrivateDistiller(**asked)
    fit_silos(
        distiller,
        pool,
        written.federation.known(),
        exchange,
        progress=progress,
        on_fault=lambda fault: log.warning("left out: %s", fault),
    )
    summary = summarize(distiller, pool, name=written.name, test=test)
    assert written.out is not None  # a coordinator's file has a default
    write_outcome(written.out, distiller, summary, public)
    return summary


def _ledger(written: CoordinatorFile) -> str:
    """The coordinator's ledger, with its budget open: by default for exactly what the run may cost."""
    privacy, account = written.privacy, written.account
    assert account.ledger is not None
    ledger = Ledger.open(account.ledger)
    if account.budget not in [budget.name for budget in ledger.budgets()]:
        ledger.open_budget(
            account.budget,
            epsilon=privacy.epsilon if account.budget_epsilon is None else account.budget_epsilon,
            delta=privacy.delta if account.budget_epsilon is None else account.budget_delta,
            neighbours=privacy.neighbours,  # type: ignore[arg-type]  # made a type by the ledger
        )
    return str(account.ledger)
