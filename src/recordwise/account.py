"""How a run's releases are paid for: from a ledger's budget, by each record from its own allowance, or both."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, ClassVar, TypeVar

import numpy as np

from recordwise.checkpoint import Checkpoint, NoFolder
from recordwise.durable import write_whole
from recordwise.errors import ChangedInput, InvalidInput, positive, shown
from recordwise.formats import text_of
from recordwise.privacy.events import Event
from recordwise.privacy.filter import RecordFilter
from recordwise.privacy.guarantee import Guarantee, exact
from recordwise.privacy.ledger import Budget, Ledger
from recordwise.privacy.ledger.entries import check_name
from recordwise.privacy.noise import Noise
from recordwise.privacy.payments import Payments
from recordwise.protocols.protocol import Protocol
from recordwise.protocols.release import Release, pack, unpack
from recordwise.protocols.terms import Terms
from recordwise.settings import Settings
from recordwise.votes.ballot import NOBODY, Votes

Kept = TypeVar("Kept")

WAIT = 3600.0  # seconds: another run votes inside its transaction, which may take long; failing meanwhile helps nobody
PAYMENTS, OWNERS = "payments", "records.sha256"


@dataclass(frozen=True, kw_only=True)
class Account(Settings):
    """Who pays for a run, and where its folder is.

    Attributes:
      ledger: Path or URL of the ledger that pays; None keeps no account beyond this run.
      budget: The ledger's budget to charge.
      budget_epsilon: Opens that budget, if it is not open yet, with this epsilon and `budget_delta`; None needs an open
        one.
      budget_delta: See `budget_epsilon`.
      run_dir: A folder that lets a killed run go on where it was, without a second charge or a second release.
      round_epsilon: Individual accounting: a full round of votes costs a record this much, and it votes as long as it
        can pay from its own allowance of the run's epsilon. Records that abstain (`queries.max_distance`) pay nothing,
        so rounds · round_epsilon may exceed epsilon. None charges every record for every round, voting or not.
      go_on: Pay even where a plan expects the budget to go on noise; otherwise such a run stops before it pays.
    """

    of: ClassVar[str] = "account"
    by_name: ClassVar[bool] = False
    ledger: str | Path | None = field(default=None, repr=False)  # a URL may hold a password
    budget: str = "default"
    budget_epsilon: float | None = None
    budget_delta: float = 0.0
    run_dir: str | Path | None = None
    round_epsilon: float | None = None
    go_on: bool = False

    def __post_init__(self) -> None:
        for name, place in (("ledger", self.ledger), ("run_dir", self.run_dir)):
            if not (place is None or (isinstance(place, str | Path) and str(place).strip())):
                raise InvalidInput(f"account.{name} must be a path or left out, got {shown(place)}")
        check_name(**{"account.budget": self.budget})
        for name, value in (("budget_epsilon", self.budget_epsilon), ("round_epsilon", self.round_epsilon)):
            if value is not None:
                positive(**{f"account.{name}": exact(value, f"account.{name}")})
        exact(self.budget_delta, "account.budget_delta")
        if not isinstance(self.go_on, bool):
            raise InvalidInput(f"account.go_on must be true or false, got {shown(self.go_on)}")


@dataclass(frozen=True, eq=False)
class OpenAccount:
    """One run's payments.

    Guarantees:
      - a release leaves only after the ledger, where there is one, has committed it with its charge;
      - a release asked for again in the same run is given again, and costs nothing: from the ledger, or from the run's
        folder where no ledger keeps it;
      - a run that released something cannot be resumed with another ledger or budget, or with none;
      - where records pay for themselves, what they pay is kept before the release is made, and the ledger is charged
        their cap once for all rounds.

    Attributes:
      ledger: None where no account is kept beyond this run.
      to_open: The budget's terms, where the run opens it itself: when the first release is asked for, not before.
      payments: What each record has paid, where records pay for themselves. Private.
      kept_payments: Where that is kept; None for a run without a folder.
    """

    folder: Checkpoint | NoFolder
    noise: Noise
    ledger: Ledger | None
    budget: str
    to_open: Budget | None
    payments: RecordFilter | None
    kept_payments: Payments | None

    @classmethod
    def open(
        cls,
        account: Account,
        terms: Terms,
        *,
        folder: Checkpoint | NoFolder,
        noise: Noise,
        num_records: int,
    ) -> OpenAccount:
        """The account of a new run, or of one that goes on."""
        payments, kept_payments = None, None
        if account.round_epsilon is not None:
            kept = folder.private_path(PAYMENTS)
            kept_payments = None if kept is None else Payments(kept, folder.run_id)
            payments = None if kept_payments is None else kept_payments.load()
            if payments is None:
                payments = RecordFilter(terms.epsilon, num_records, terms.neighbours)
        # A budget that must be open already lies in a ledger that exists.
        may_begin = account.budget_epsilon is not None and not folder.bound
        book = None if account.ledger is None else Ledger.open(account.ledger, create=may_begin, wait=WAIT)
        to_open = None
        if account.budget_epsilon is not None:
            to_open = Budget(
                name=account.budget,
                epsilon=exact(account.budget_epsilon, "account.budget_epsilon"),
                delta=exact(account.budget_delta, "account.budget_delta"),
                neighbours=terms.neighbours,
            )
        opened = cls(folder, noise, book, account.budget, to_open, payments, kept_payments)
        # A budget that is not open, or open on other terms, is refused before any work is done; so is another payer.
        is_open = book is not None and account.budget in {held.name for held in book.budgets()}
        if book is not None and (to_open is None or is_open):
            opened._open_budget(book)
        folder.refuse_other_payer(opened._payer() if book is None or is_open else "a budget that is not open")
        return opened

    def refuse_unpayable(self, protocols: Sequence[Protocol[Any]]) -> None:
        """Refuse a run that its budget cannot pay for, before hours go into encoders and clusters."""
        if self.ledger is None or self.budget not in {held.name for held in self.ledger.budgets()}:
            return
        events = {self._key(number): self._event(protocol) for number, protocol in enumerate(protocols, start=1)}
        self.ledger.refuse_unpayable(self.budget, events, self.folder.name or "this run")

    def _key(self, number: int) -> str:
        return f"{self.folder.run_id}/round-{number}"

    def _event(self, protocol: Protocol[Any]) -> Event:
        return protocol.event if self.payments is None else self.payments.event

    def admit(self, votes: Votes, protocol: Protocol[Any], *, whose: Callable[[], str]) -> Votes:
        """The votes of records that can still pay for them.

        Args:
          whose: A digest of the records in their order. What was paid is booked by row, so they must stay the same.
        """
        if self.payments is None or protocol.epsilon_per_vote is None:
            return votes
        payments = self._booked(whose)
        cells = (votes.cells() != NOBODY).sum(axis=1)
        admitted = payments.admit(cells, protocol.epsilon_per_vote)
        if self.kept_payments is not None:
            self.kept_payments.save(payments)
        return Votes(votes.ballot, np.where(admitted[:, None], votes.queries, np.int32(NOBODY)), votes.labels)

    def _open_budget(self, ledger: Ledger) -> None:
        if self.to_open is None:
            ledger.budget(self.budget)
            return
        asked = self.to_open
        ledger.open_budget(asked.name, epsilon=asked.epsilon, delta=asked.delta, neighbours=asked.neighbours)

    def _payer(self) -> str:
        """What tells who pays from anybody else; nothing in it says where a ledger lies."""
        return "no ledger" if self.ledger is None else self.ledger.identity(self.budget)

    def _booked(self, whose: Callable[[], str]) -> RecordFilter:
        """What records have paid by now, as the folder knows it: another process may have resumed this run."""
        assert self.payments is not None
        owners = self.folder.private_path(OWNERS)
        if self.kept_payments is None or owners is None:
            return self.payments
        booked = self.kept_payments.load()
        if booked is None:
            write_whole(owners, whose().encode())
            return self.payments
        if booked.guard != self.payments.guard:
            raise ChangedInput("another process began this run at the same time: run the same command again")
        if not owners.exists() or text_of(owners) != whose():
            raise ChangedInput(
                "the private records changed since the run began, and what they paid is booked row by row; undo the "
                "change, or start a new run in another folder"
            )
        return booked

    def keep(self, name: str, make: Callable[[], Kept]) -> Kept:
        """What `make` returned the first time this was asked in this run; public."""
        return self.folder.keep(name, make)

    def guarantee(self, promise: Guarantee) -> Guarantee:
        """What the run promises: what its releases do, or, where records pay for themselves, what they may spend."""
        kept = promise if self.payments is None else self.payments.guarantee()
        return replace(kept, private=self.noise.private)

    def pay(self, number: int, protocol: Protocol[Any], produce: Callable[[], Release]) -> Release:
        """What `produce` makes in this round, paid for; or what it made the first time."""
        if self.ledger is not None:
            self._open_budget(self.ledger)
        payer = self._payer()
        self.folder.refuse_other_payer(payer)

        def bound() -> bytes:
            released = pack(produce())
            self.folder.bind(number, payer)
            return released

        if self.ledger is None:
            return _asked_for(protocol, unpack(self.folder.keep(f"release-{number}", bound)), number)
        promise = self.guarantee(protocol.guarantee)  # the ledger refuses what is not private
        held = self.ledger.release(
            self.budget, self._key(number), self._event(protocol), promise, bound, self.folder.name
        )
        return _asked_for(protocol, unpack(held), number)


def _asked_for(protocol: Protocol[Any], held: Release, number: int) -> Release:
    """A release that was kept, if it is such as this protocol makes: of its kind, about its ballot, on its terms."""
    blank = protocol.blank()
    terms = [
        (type(one), one.ballot, one.guarantee.trust, one.guarantee.unit, one.guarantee.neighbours)
        for one in (held, blank)
    ]
    if terms[0] != terms[1]:
        raise ChangedInput(
            f"the release of round {number} that was kept is another than this run asks for: it was changed, or "
            "belongs to another run; start a new run in another folder"
        )
    return held
