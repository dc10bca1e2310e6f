"""Individual accounting: a record pays for the votes it casts, and abstains once it could no longer pay.

A release with discrete Laplace noise of scale b on every cell, or permute-and-flip of scale b on every query, costs
a record 1/b per vote it casts in it, and nothing if it casts none. Rounds may be chosen after seeing earlier
releases; given those, a record's votes and whether it may cast them depend on that record alone. So between two
neighbouring data sets the log-ratio of the probabilities of all releases together is at most

- add or remove one record: the sum of that record's payments;
- replace one record: the sum of the old record's payments and the new record's.

A filter that keeps every record's payments within an allowance of cap (add or remove) or cap / 2 (replace) therefore
makes any number of rounds cap-DP together (Feldman and Zrnic 2021, arXiv:2008.11193, whose pure version is plain
sums). Ordinary accounting charges every record for every round, whether it voted or not.
"""

from __future__ import annotations

import io
import json
import secrets
from fractions import Fraction
from typing import NoReturn

import numpy as np
from numpy.typing import ArrayLike, NDArray

from recordwise.errors import InvalidInput, count, positive
from recordwise.formats import Archive, json_from
from recordwise.privacy.events import Filtered
from recordwise.privacy.guarantee import Guarantee, Neighbours, Trust, exact, one_of


class RecordFilter:
    """Decides which records may still vote, and books what they pay. Private: it stays with the records' holder.

    What a record has paid tells how close it lay to the queries, so nothing but the cap is ever published: `repr`
    shows shapes only, and it refuses to be pickled.

    Guarantees:
      - no record ever pays more than its allowance: the cap, or half of it where neighbours replace a record;
      - a record's admission depends on its own votes so far and public numbers, never on other records;
      - payments are added as exact fractions, so an allowance of 0.3 pays for three votes of 0.1;
      - all releases whose votes it admitted are cap-DP together, for rounds chosen adaptively.
    """

    def __init__(self, cap: Fraction | float, num_records: int, neighbours: Neighbours = Neighbours.REPLACE) -> None:
        self.cap = exact(cap)
        self.neighbours = one_of(Neighbours, neighbours=neighbours)
        positive(cap=self.cap)
        count(num_records=num_records)  # it may be private: none is a number like any other
        self.guard = secrets.token_hex(16)
        # Records have few distinct payments, so each is kept once, exactly, and a record points to its own.
        self._payments = [Fraction(0)]
        self._paid = np.zeros(num_records, dtype=np.int64)

    @property
    def allowance(self) -> Fraction:
        """The most one record may pay, in all rounds together."""
        return self.cap / self.neighbours.records_changed

    @property
    def event(self) -> Filtered:
        """What the ledger is told of each release: all of one filter's releases are charged together, once."""
        return Filtered(self.cap, self.guard)

    def guarantee(self, trust: Trust = Trust.CENTRAL) -> Guarantee:
        """What all releases of this filter promise together."""
        return Guarantee(epsilon=self.cap, neighbours=self.neighbours, trust=trust)

    def admit(self, votes: ArrayLike, loss_per_vote: Fraction | float) -> NDArray[np.bool_]:
        """Let every record that can pay for its votes cast them, and book its payment.

        What is booked stays booked, even if the release then fails: a crash may waste a record's allowance, never
        exceed it. `Payments.save` it before the votes leave the holder.

        Args:
          votes: (n,) how many cells each record would vote for in this round.
          loss_per_vote: 1 / scale of the round's noise.

        Returns:
          (n,) whether the record's votes may be cast; a record that cannot pay for all of them casts none. Private.
        """
        loss = exact(loss_per_vote)
        positive(loss_per_vote=loss)
        wanted = np.asarray(votes)
        if wanted.shape != self._paid.shape or not np.issubdtype(wanted.dtype, np.integer):
            raise InvalidInput(f"votes must be {len(self._paid)} whole numbers, got {wanted.dtype} {wanted.shape}")
        if wanted.size and wanted.min() < 0:
            raise InvalidInput("votes must be >= 0 for every record")
        # One decision per distinct pair of what was paid and what is wanted, not per record.
        width = int(wanted.max(initial=0)) + 1
        pairs, place = np.unique(self._paid * width + wanted, return_inverse=True)
        known = {payment: number for number, payment in enumerate(self._payments)}
        admitted = np.zeros(len(pairs), dtype=np.bool_)
        paid = np.zeros(len(pairs), dtype=np.int64)
        for number, (before, cast) in enumerate(zip(*np.divmod(pairs, width), strict=True)):
            after = self._payments[before] + int(cast) * loss
            admitted[number] = after <= self.allowance
            paid[number] = known.setdefault(after, len(known)) if admitted[number] else before
        self._payments, self._paid = list(known), paid[place]
        return admitted[place]

    def to_bytes(self) -> bytes:
        """What every single record has paid, which is as private as the records: keep it with them (`Payments`)."""
        about = {
            "cap": str(self.cap),
            "neighbours": str(self.neighbours),
            "guard": self.guard,
            "payments": [str(payment) for payment in self._payments],
        }
        content = io.BytesIO()
        np.savez(content, about=np.frombuffer(json.dumps(about).encode(), dtype=np.uint8), paid=self._paid)
        return content.getvalue()

    @classmethod
    def from_bytes(cls, content: bytes) -> RecordFilter:
        """The filter that `to_bytes` wrote."""
        try:
            with Archive(content) as file:
                about, paid = json_from(file["about"].tobytes()), file["paid"]
            restored = cls(about["cap"], len(paid), about["neighbours"])
            payments = [exact(payment) for payment in about["payments"]]
            if not (((paid >= 0) & (paid < len(payments))).all() and min(payments) >= 0):
                raise ValueError("its payments do not match")
        except (ValueError, KeyError, TypeError) as error:
            raise InvalidInput(f"these bytes are no record filter: {error}") from error
        restored.guard, restored._payments, restored._paid = str(about["guard"]), payments, paid.astype(np.int64)
        return restored

    def __len__(self) -> int:
        return len(self._paid)

    def __repr__(self) -> str:
        return f"RecordFilter({len(self):,} records, cap {self.cap}, {self.neighbours!s})"

    def __reduce__(self) -> NoReturn:
        raise InvalidInput("what records have paid is private: keep it with the records (Payments)")
