"""The coordinator: a shell around the pipeline, with the records at silos and steps 4 and 5 over an exchange.

Guarantees:
  - a round is released once, through the coordinator's ledger, and never without the silos' own charges;
  - killed at any point and started again in the same folder, it asks the same questions, which silos answer with the
    same bytes, and pays for nothing twice.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from recordwise.data import Samples
from recordwise.distiller import PrivateDistiller
from recordwise.durable import sweep, write_whole
from recordwise.errors import InvalidInput, ProtocolFault
from recordwise.federation import encoder_bytes
from recordwise.federation.collecting import Collecting
from recordwise.federation.exchange import Exchange
from recordwise.federation.federation import Federation
from recordwise.federation.identity import kept_key
from recordwise.federation.plan import Ask, Plan
from recordwise.federation.secure_sum import masks
from recordwise.formats import text_of
from recordwise.hashing import fingerprint
from recordwise.locks import hold
from recordwise.pipeline import Question
from recordwise.privacy.guarantee import Trust
from recordwise.privacy.noise import Noise, SystemNoise
from recordwise.progress import Progress
from recordwise.protocols.release import Release
from recordwise.records import COPIES_VOTE


def fit_silos(
    distiller: PrivateDistiller,
    X_public: Samples,
    federation: Federation,
    exchange: Exchange,
    *,
    noise: Noise | None = None,
    progress: Progress | None = None,
    on_fault: Callable[[str], object] = lambda fault: None,
) -> PrivateDistiller:
    """Label the pool with the silos' records, and teach the distiller's student on it.

    Args:
      noise: Where the coordinator's noise comes from (central trust); None is the operating system.
      on_fault: Called with a line for each answer that did not count.
    """
    settings, source = distiller.settings, SystemNoise() if noise is None else noise
    asked = settings.account
    if asked.run_dir is None or asked.ledger is None or settings.classes is None:
        raise InvalidInput("a coordinator needs account.run_dir, account.ledger and the public list of classes")
    if asked.round_epsilon is not None:
        raise InvalidInput("round_epsilon is for records in one place: each silo keeps its own account")
    if settings.records.overlap != COPIES_VOTE:
        raise InvalidInput(f"overlap must be {COPIES_VOTE!r} between silos, which do not have the pool to look in")
    most, folder = federation.records[1], Path(asked.run_dir)
    classes = settings.public_classes()
    schema, pool = settings.read_pool(X_public)
    ballot = settings.ballot(pool, classes, num_records=most)
    protocols = settings.terms.protocols_for_silos(ballot, federation.silos)
    design = settings.design(pool, schema, classes, num_records=most, protocols=protocols)
    design = replace(design, counted=federation.records[0] == most)
    if source.private:
        settings.refuse_noise(design, pool, num_records=most)
    held = hold(keys_beside(folder))
    sweep(keys_beside(folder))
    account = settings.open_account(design, pool, classes, num_records=most, noise=source)
    collecting: Collecting | None = None

    def voters(question: Question) -> Release:
        nonlocal collecting
        if collecting is None:
            run, named = account.folder.run_id, tuple(classes.tolist())
            collecting = _publish(question, run, named, len(protocols), pool, federation, exchange, folder)
        try:
            return _release(collecting, folder, question, source)
        finally:
            while collecting.faults:
                on_fault(collecting.faults.pop(0))

    try:
        return distiller.fit_with(voters, pool, design, account, classes, progress)
    finally:
        del held


def keys_beside(folder: Path) -> Path:
    """Where a run's private keys lie: not in its folder, which is there to be passed on."""
    return folder.with_name(folder.name + ".keys")


def _publish(
    question: Question,
    run: str,
    classes: tuple[object, ...],
    rounds: int,
    pool: Samples,
    federation: Federation,
    exchange: Exchange,
    folder: Path,
) -> Collecting:
    """Step 3: every silo gets to see the whole run before it answers anything."""
    counts_key = kept_key(keys_beside(folder) / "counts.key", masks.fresh_key())
    server_key = kept_key(keys_beside(folder) / "server.key", masks.fresh_key())
    trust = question.protocol.trust
    plan = Plan(
        run=run,
        rounds=rounds,
        attempts=federation.attempts if trust is Trust.DISTRIBUTED else 1,
        protocol=question.protocol,
        classes=classes,
        pool=fingerprint(pool),
        schema=question.schema,
        encoder=encoder_bytes.to_bytes(question.encoder),
        dim=question.queries.vectors.shape[1],
        metric=question.queries.metric,
        max_distance=question.queries.max_distance,
        roster=federation.roster,
        threshold=federation.threshold,
        colluding=federation.colluding,
        coordinator_key=masks.public_key(counts_key),
        server_key=masks.public_key(server_key),
        shuffler=federation.shuffler if trust is Trust.SHUFFLE else None,
    )
    collecting = Collecting(
        plan=plan,
        exchange=exchange,
        counts_key=counts_key,
        server_key=server_key,
        timeout=federation.timeout,
        patience=federation.patience,
    )
    collecting.publish()
    return collecting


def _release(collecting: Collecting, folder: Path, question: Question, noise: Noise) -> Release:
    """One round; a secure sum that some silo made fail is tried again without it, as often as the plan allows."""
    plan, number = collecting.plan, question.round
    place = folder / f"attempt-{number}"
    while True:
        attempt = int(text_of(place)) if place.exists() else 1
        if attempt > plan.attempts:
            raise ProtocolFault(
                f"round {number} was attempted {plan.attempts} time(s), which is all that silos approved; start a new "
                f"run; {'; '.join(collecting.faults[-3:])}"
            )
        blamed = len(collecting.culprits)
        ask = Ask(
            plan=plan.digest,
            run=plan.run,
            round=number,
            queries=question.queries.vectors,
            attempt=attempt,
            prices=question.queries.prices,
        )
        try:
            return collecting.release(ask, noise)
        except ProtocolFault:
            if plan.trust is not Trust.DISTRIBUTED:
                raise
            # Masked vectors of a sum that failed may have left, and must never be part of another sum.
            write_whole(place, str(attempt + 1).encode())
            if len(collecting.culprits) == blamed or attempt == plan.attempts:
                raise
