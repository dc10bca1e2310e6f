"""The coordinator: the seven steps of `distiller`, with the records at silos and steps 4 and 5 over an exchange."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Self

import numpy as np

from recordwise.checkpoint import write_whole
from recordwise.data import Samples
from recordwise.distiller import PrivateDistiller
from recordwise.encoders import fingerprint
from recordwise.errors import InvalidInput, ProtocolFault
from recordwise.federation import carried
from recordwise.federation.company import Company
from recordwise.federation.exchange import Exchange
from recordwise.federation.gathering import Gathering
from recordwise.federation.identity import kept_key
from recordwise.federation.locks import hold
from recordwise.federation.plan import Ask, Plan
from recordwise.federation.secure_sum import masks
from recordwise.privacy.guarantee import Trust
from recordwise.privacy.noise import Noise
from recordwise.protocols.protocol import Protocol
from recordwise.protocols.terms import Terms
from recordwise.queries import Queries
from recordwise.tally import Release
from recordwise.till import Till
from recordwise.votes import Ballot


class FederatedDistiller(PrivateDistiller):
    """A `PrivateDistiller` whose records stay at silos.

    Guarantees:
      - a round is released once, through the coordinator's ledger, and never without the silos' own charges;
      - killed at any point and started again in the same folder, it asks the same questions, which silos answer with
        the same bytes, and pays for nothing twice.
    """

    def fit_silos(self, pool: Samples, company: Company, exchange: Exchange) -> Self:
        """Label the pool with the silos' records, and teach a student on it."""
        if self.run_dir is None or self.ledger is None or self.classes is None:
            raise InvalidInput("a coordinator needs run_dir, ledger and the public list of classes")
        if self.round_epsilon is not None:
            raise InvalidInput("round_epsilon is for records in one place: each silo keeps its own account")
        self._samples(pool, reset=True)
        self._company, self.classes_ = company, np.asarray(self.classes)
        noise, folder = self._noise(), Path(self.run_dir)
        held = hold(keys_beside(folder))
        gathering: Gathering | None = None

        def gather(number: int, queries: Queries, protocol: Protocol[Any], till: Till) -> Release:
            nonlocal gathering
            if gathering is None:
                gathering = self._publish(folder, pool, queries, protocol, exchange)
            try:
                return _release(gathering, folder, number, queries, noise)
            finally:
                self.faults_ = list(gathering.faults)

        try:
            return self._distil(pool, gather, num_records=company.records[1], noise=noise)
        finally:
            del self._company, held

    def _protocols(self, terms: Terms, ballot: Ballot, num_records: int) -> tuple[Protocol[Any], ...]:
        return self._company.protocols(terms, ballot)

    def _publish(
        self, folder: Path, pool: Samples, queries: Queries, protocol: Protocol[Any], exchange: Exchange
    ) -> Gathering:
        counts_key = kept_key(keys_beside(folder) / "counts.key", masks.fresh_key())
        server_key = kept_key(keys_beside(folder) / "server.key", masks.fresh_key())
        company = self._company
        plan = Plan(
            run=json.loads((folder / "run.json").read_text())["run"],
            rounds=self.rounds,
            attempts=company.attempts if protocol.guarantee.trust is Trust.DISTRIBUTED else 1,
            protocol=protocol,
            classes=tuple(self.classes_.tolist()),
            pool=fingerprint(pool),
            encoder=carried.to_bytes(self.encoder_),
            dim=queries.vectors.shape[1],
            metric=queries.metric,
            max_distance=self.max_distance,
            roster=company.roster,
            threshold=company.threshold,
            colluding=company.colluding,
            coordinator_key=masks.public_key(counts_key),
            server_key=masks.public_key(server_key),
            shuffler=company.shuffler if protocol.guarantee.trust is Trust.SHUFFLE else None,
        )
        gathering = Gathering(
            plan=plan,
            exchange=exchange,
            counts_key=counts_key,
            server_key=server_key,
            timeout=company.timeout,
            patience=company.patience,
        )
        gathering.publish()
        return gathering


def keys_beside(folder: Path) -> Path:
    """Where a run's private keys lie: not in its folder, which is there to be passed on."""
    return folder.with_name(folder.name + ".keys")


def _release(gathering: Gathering, folder: Path, number: int, queries: Queries, noise: Noise) -> Release:
    """One round; a secure sum that some silo made fail is tried again without it, as often as the plan allows."""
    plan, place = gathering.plan, folder / f"attempt-{number}"
    while True:
        attempt = int(place.read_text()) if place.exists() else 1
        if attempt > plan.attempts:
            raise ProtocolFault(
                f"round {number} was attempted {plan.attempts} time(s), which is all that silos approved; start a new "
                f"run; {'; '.join(gathering.faults[-3:])}"
            )
        blamed = len(gathering.culprits)
        ask = Ask(plan=plan.digest, run=plan.run, round=number, queries=queries.vectors, attempt=attempt)
        try:
            return gathering.release(ask, noise)
        except ProtocolFault:
            if plan.trust is not Trust.DISTRIBUTED:
                raise
            # Masked vectors of a sum that failed may have left, and must never be part of another sum.
            write_whole(place, str(attempt + 1).encode())
            if len(gathering.culprits) == blamed or attempt == plan.attempts:
                raise
