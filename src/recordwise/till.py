"""How a run's releases are paid for: from a ledger's budget, by each record from its own allowance, or both."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from recordwise.checkpoint import Checkpoint, Unkept
from recordwise.errors import InvalidInput
from recordwise.privacy.filter import RecordFilter
from recordwise.privacy.guarantee import Trust
from recordwise.privacy.ledger import Ledger
from recordwise.privacy.noise import Noise
from recordwise.protocols.central import CentralLaplace
from recordwise.protocols.protocol import Protocol
from recordwise.protocols.terms import AUTO, LAPLACE, Terms
from recordwise.votes.ballot import NOBODY, Votes

PAYMENTS = "payments.npz"


@dataclass(frozen=True, eq=False)
class Till:
    """One run's payments.

    Guarantees:
      - a release leaves only after the ledger, where there is one, has committed it with its charge;
      - a release asked for again in the same run is given again, and costs nothing;
      - where records pay for themselves, what they pay is kept before the release is made, and the ledger is charged
        their cap once for all rounds.

    Attributes:
      ledger: None where no account is kept beyond this run.
      payments: What each record has paid, where records pay for themselves. Private.
    """

    folder: Checkpoint | Unkept
    noise: Noise
    ledger: Ledger | None
    budget: str
    payments: RecordFilter | None

    @classmethod
    def open(
        cls,
        terms: Terms,
        *,
        folder: Checkpoint | Unkept,
        noise: Noise,
        ledger: str | Path | None,
        budget: str,
        individual: bool,
        num_records: int,
    ) -> Till:
        """The till of a new run, or of one that goes on.

        Args:
          individual: Records pay for the votes they cast, from an allowance of the terms' epsilon.
        """
        payments = None
        if individual:
            if terms.trust is not Trust.CENTRAL or terms.delta or terms.mechanism not in (AUTO, LAPLACE):
                raise InvalidInput("round_epsilon needs central trust, delta 0 and the laplace mechanism")
            kept = folder.private_path(PAYMENTS)
            if kept is not None and kept.exists():
                payments = RecordFilter.load(kept)
            else:
                payments = RecordFilter(terms.epsilon, num_records, terms.neighbours)
        return cls(folder, noise, None if ledger is None else Ledger.open(ledger), budget, payments)

    def admit(self, votes: Votes, protocol: Protocol[Any]) -> Votes:
        """The votes of records that can still pay for them."""
        if self.payments is None or not isinstance(protocol, CentralLaplace):
            return votes
        cells = (votes.cells() != NOBODY).sum(axis=1)
        admitted = self.payments.admit(cells, 1 / protocol.law.scale)
        kept = self.folder.private_path(PAYMENTS)
        if kept is not None:
            self.payments.save(kept)
        return Votes(votes.ballot, np.where(admitted[:, None], votes.queries, np.int32(NOBODY)), votes.labels)

    def pay(self, number: int, protocol: Protocol[Any], produce: Callable[[], bytes]) -> bytes:
        """What `produce` makes in this round, paid for; or what it made the first time."""
        if self.ledger is None:
            return produce()
        event, promise = protocol.event, protocol.guarantee
        if self.payments is not None:
            event, promise = self.payments.event, self.payments.guarantee()
        promise = replace(promise, private=self.noise.private)  # the ledger refuses what is not private
        return self.ledger.release(self.budget, f"{self.folder.run_id}/round-{number}", event, promise, produce)
