"""Whom a coordinator asks, and what that makes of the protocols."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from recordwise.errors import InvalidInput, count, whole
from recordwise.privacy.guarantee import Trust
from recordwise.protocols.distributed import DistributedLaplace
from recordwise.protocols.protocol import Protocol
from recordwise.protocols.shuffle import ShuffleSingle
from recordwise.protocols.terms import MULTI_MESSAGE, QUESTIONS, Terms
from recordwise.votes import Ballot


@dataclass(frozen=True, kw_only=True)
class Company:
    """Whom a coordinator asks. Public.

    Attributes:
      roster: The silos' names and public identities.
      threshold: Without so many answers nothing is released.
      colluding: So many silos may work against the others, or read the release and know what they added themselves
        (distributed and shuffle trust). Zero where nobody who adds noise sees the release.
      attempts: Secure sums that may be asked for in one round, should some fail; silos approve and pay for all of them.
      records: At least and at most so many records do all silos hold together, as far as is public. Under shuffle trust
        the least does not count those of the `colluding` largest silos.
      shuffler: Name, identity and sealing key of the shuffler (shuffle trust).
      timeout: Seconds to wait for an answer.
      patience: Seconds to wait for silos to appear and to accept the plan.
    """

    roster: Mapping[str, bytes]
    threshold: int
    records: tuple[int, int]
    colluding: int = 1
    attempts: int = 1
    shuffler: tuple[str, bytes, bytes] | None = None
    timeout: float = 300.0
    patience: float = 600.0

    def __post_init__(self) -> None:
        least, most = self.records
        whole(least_records=least, most_records=most, threshold=self.threshold, attempts=self.attempts)
        count(colluding=self.colluding)
        if not least <= most:
            raise InvalidInput(f"records must be (at least, at most), got {self.records}")

    def protocols(self, terms: Terms, ballot: Ballot) -> tuple[Protocol[Any], ...]:
        """The protocols of `terms`, for silos of which some may vanish."""
        least, most = self.records
        if terms.mechanism == QUESTIONS:
            raise InvalidInput("mechanism must send one message per record: questions in waves are not carried yet")
        if terms.trust is Trust.SHUFFLE:
            if terms.mechanism == MULTI_MESSAGE:
                raise InvalidInput("mechanism must send one message per record to be shuffled between silos")
            share = {"epsilon": terms.epsilon / terms.rounds, "delta": terms.delta / terms.rounds, "senders": least}
            share["colluding"] = self.colluding  # silos, with one record each at least
            one = ShuffleSingle(ballot=ballot, mechanism=terms.mechanism, **share)  # type: ignore[arg-type]
            return (replace(one, mechanism=one.local.name),) * terms.rounds  # silos need not choose again
        made = terms.protocols(ballot, most)
        if terms.trust is not Trust.DISTRIBUTED:
            return made
        honest = self.threshold - self.colluding
        if honest < 2:
            raise InvalidInput(
                f"threshold must leave >= 2 honest silos besides {self.colluding} colluding, got {self.threshold}; ask "
                "more silos, or say colluding = 0 if nobody who adds noise sees the release"
            )
        return tuple(
            replace(one, survivors=honest, colluding=self.colluding, parties=len(self.roster), largest_count=most)
            for one in made
            if isinstance(one, DistributedLaplace)
        )
