"""The coordinator: the seven steps of `distiller`, with the records at silos and steps 4 and 5 over an exchange."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Self

import numpy as np

from recordwise.account import Account
from recordwise.data import Samples
from recordwise.distiller import PrivateDistiller
from recordwise.durable import write_whole
from recordwise.errors import InvalidInput, ProtocolFault, whole
from recordwise.federation import carried
from recordwise.federation.exchange import Exchange
from recordwise.federation.gathering import Gathering
from recordwise.federation.identity import kept_key
from recordwise.federation.plan import Ask, Plan
from recordwise.federation.secure_sum import masks
from recordwise.hashing import fingerprint
from recordwise.privacy.guarantee import Trust
from recordwise.protocols.distributed import DistributedLaplace
from recordwise.protocols.local.questions import Questions
from recordwise.protocols.protocol import Protocol
from recordwise.protocols.release import Release
from recordwise.protocols.shuffle import ShuffleMulti, ShuffleSingle
from recordwise.protocols.terms import Terms
from recordwise.queries import Queries
from recordwise.votes import Ballot


@dataclass(frozen=True, kw_only=True)
class Company:
    """Whom a coordinator asks. Public.

    Attributes:
      roster: The silos' names and public identities.
      threshold: Without so many answers nothing is released.
      colluding: How many silos may work against the others (distributed trust).
      records: At least and at most so many records do all silos hold together, as far as is public.
      shuffler: Name, identity and sealing key of the shuffler (shuffle trust).
      timeout: Seconds to wait for an answer.
      patience: Seconds to wait for silos to appear and to accept the plan.
    """

    roster: Mapping[str, bytes]
    threshold: int
    records: tuple[int, int]
    colluding: int = 0
    shuffler: tuple[str, bytes, bytes] | None = None
    timeout: float = 300.0
    patience: float = 600.0

    def __post_init__(self) -> None:
        least, most = self.records
        whole(least_records=least, most_records=most)
        if not least <= most:
            raise InvalidInput(f"records must be (at least, at most), got {self.records}")

    def protocols(self, terms: Terms, ballot: Ballot) -> tuple[Protocol[Any], ...]:
        """The protocols of `terms`, for silos of which some may vanish."""
        least, most = self.records
        if terms.mechanism == Questions.name:
            raise InvalidInput("mechanism must send one message per record: questions in waves are not carried yet")
        if terms.trust is Trust.SHUFFLE:
            if terms.mechanism == ShuffleMulti.name:
                raise InvalidInput("mechanism must send one message per record to be shuffled between silos")
            share = {"epsilon": terms.epsilon / terms.rounds, "delta": terms.delta / terms.rounds, "senders": least}
            one = ShuffleSingle(ballot=ballot, mechanism=terms.mechanism, **share)  # type: ignore[arg-type]
            return (replace(one, mechanism=one.local.name),) * terms.rounds  # silos need not choose again
        made = terms.protocols(ballot, most)
        if terms.trust is not Trust.DISTRIBUTED:
            return made
        honest = self.threshold - self.colluding
        return tuple(
            replace(one, survivors=honest, colluding=self.colluding, parties=len(self.roster), largest_count=most)
            for one in made
            if isinstance(one, DistributedLaplace)
        )


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
        pool = self._open(pool)
        self._company, self.classes_ = company, np.asarray(self.classes)
        noise, folder = self._noise(), Path(self.run_dir)
        gathering: Gathering | None = None

        def gather(number: int, queries: Queries, protocol: Protocol[Any], till: Account) -> Release:
            nonlocal gathering
            if gathering is None:
                gathering = self._publish(folder, pool, queries, protocol, exchange)
            attempt = _attempts(folder, number)
            ask = Ask(
                plan=gathering.plan.digest,
                run=gathering.plan.run,
                round=number,
                queries=queries.vectors,
                attempt=attempt,
            )
            try:
                return gathering.release(ask, noise)
            except ProtocolFault:
                # Masked vectors of a sum that failed may have left, and must never be part of another sum.
                if protocol.guarantee.trust is Trust.DISTRIBUTED:
                    write_whole(folder / f"attempt-{number}", str(attempt + 1).encode())
                raise
            finally:
                self.faults_ = list(gathering.faults)

        try:
            return self._distil(pool, gather, num_records=company.records[1], noise=noise)
        finally:
            del self._company

    def _protocols(self, terms: Terms, ballot: Ballot, num_records: int) -> tuple[Protocol[Any], ...]:
        return self._company.protocols(terms, ballot)

    def _publish(
        self, folder: Path, pool: Samples, queries: Queries, protocol: Protocol[Any], exchange: Exchange
    ) -> Gathering:
        counts_key = kept_key(folder / "counts.key", masks.fresh_key())
        server_key = kept_key(folder / "server.key", masks.fresh_key())
        company = self._company
        plan = Plan(
            run=json.loads((folder / "run.json").read_text())["run"],
            rounds=self.rounds,
            protocol=protocol,
            classes=tuple(self.classes_.tolist()),
            pool=fingerprint(pool),
            encoder=carried.to_bytes(self.encoder_),
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


def _attempts(folder: Path, number: int) -> int:
    place = folder / f"attempt-{number}"
    return int(place.read_text()) if place.exists() else 1
