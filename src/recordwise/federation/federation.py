"""Whom a coordinator asks."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from recordwise.errors import InvalidInput, count, whole
from recordwise.protocols.protocol import Silos


@dataclass(frozen=True, kw_only=True)
class Federation:
    """Whom a coordinator asks. Public.

    Attributes:
      roster: The silos' names and public identities.
      threshold: Without so many answers nothing is released.
      colluding: So many silos may work against the others, or read the release and know what they added themselves
        (distributed and shuffle trust). Zero where nobody who adds noise sees the release.
      attempts: Secure sums that may be asked for in one round, should some fail; silos approve and pay for all of them.
      records: The least and the most records that all silos hold together, as far as is public. Under shuffle trust
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

    @property
    def silos(self) -> Silos:
        """What a protocol has to know of them."""
        least, most = self.records
        return Silos(
            parties=len(self.roster),
            threshold=self.threshold,
            colluding=self.colluding,
            least_records=least,
            most_records=most,
        )
