"""Distributed trust: every party adds a share of the noise, and only the sum of all parties is ever seen.

Discrete Laplace noise is infinitely divisible: if each of m parties adds NB(1/m, a) - NB(1/m, a), a Pólya share, to
its counts, the sum carries discrete Laplace noise. Counts are residues modulo 2^b, which is what secure aggregation
adds up. `aggregate` is the seam: here it adds plainly, a federation puts masked sums in its place.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from typing import TYPE_CHECKING, ClassVar, NoReturn

import numpy as np
from numpy.typing import NDArray

from recordwise.arrays import Doubles, Ints
from recordwise.errors import InvalidInput, ProtocolFault, count, positive, whole
from recordwise.privacy.accountant import total_epsilon
from recordwise.privacy.events import DiscreteLaplaceTally, Event
from recordwise.privacy.guarantee import Guarantee, Neighbours, Trust, exact, members
from recordwise.privacy.noise import DiscreteLaplace, Noise, PolyaDifference, SeededNoise
from recordwise.privacy.shares import unit_loss
from recordwise.protocols.pairs import Pair, Record
from recordwise.protocols.protocol import Protocol, Silos
from recordwise.protocols.registry import register
from recordwise.protocols.release import Tally
from recordwise.protocols.views import CELLS, Exact, blocks, change, pure_cells, tally_scores
from recordwise.votes.ballot import Ballot, Votes

if TYPE_CHECKING:
    from recordwise.protocols.terms import Terms

OVERFLOW = 2.0**-40  # the chance, over all cells together, that a sum leaves the range the modulus can tell apart
MOST_BITS = 62


class Share:
    """One party's counts and its share of the noise, modulo 2^b: on its way into secure aggregation.

    Private: a single share carries next to no noise. Shows its shape only, and is never pickled.
    """

    def __init__(self, residues: NDArray[np.uint64], *, private: bool) -> None:
        self.residues, self.private = residues, private

    def __repr__(self) -> str:
        return f"Share{self.residues.shape}"

    def __reduce__(self) -> NoReturn:
        raise InvalidInput("a party's share is private and must not be pickled, logged or written to disk")


@dataclass(frozen=True, eq=False)
class ModularSum:
    """What secure aggregation reveals: the sum of all shares modulo 2^b, and how many parties it covers."""

    residues: NDArray[np.uint64]
    parties: int
    private: bool


@register
@dataclass(frozen=True, kw_only=True)
class DistributedLaplace(Protocol[Share]):
    """Discrete Laplace noise that no one party knows: pure epsilon.

    Guarantees:
      - whoever sees only the sum, and knows the shares of `colluding` parties in it, learns about one record of the
        others, under `neighbours`, no more than a pure epsilon-DP release: at least `survivors` honest shares are left,
        and beyond `survivors` shares only add independent noise;
      - the honest shares of exactly `survivors` parties are discrete Laplace noise of scale cells_changed / epsilon;
      - fewer parties than `survivors` + `colluding` are refused;
      - a sum of up to `parties` parties is told apart from any other, but for a probability of `OVERFLOW`.

    Attributes:
      survivors: The guaranteed minimum of honest parties in the sum, whose shares no reader knows.
      parties: At most so many take part.
      colluding: So many parties may read the release, or tell their shares to who does. Every party of a published
        release is such a reader, so one is counted unless told; 0 is for parties that never see it.
      largest_count: No cell's true count, over all parties, exceeds this public number; the number of records will do.
    """

    name: ClassVar[str] = "laplace"
    trust: ClassVar[Trust] = Trust.DISTRIBUTED
    for_silos: ClassVar[bool] = True
    ballot: Ballot
    epsilon: Fraction
    survivors: int
    parties: int
    largest_count: int
    neighbours: Neighbours = Neighbours.REPLACE
    colluding: int = 1

    def __post_init__(self) -> None:
        object.__setattr__(self, "epsilon", exact(self.epsilon))
        members(self, neighbours=Neighbours)
        positive(epsilon=self.epsilon)
        whole(survivors=self.survivors, parties=self.parties, largest_count=self.largest_count)
        count(colluding=self.colluding)
        if not self.fewest <= self.parties:
            raise InvalidInput(
                f"survivors and colluding must be <= the {self.parties} parties together, got {self.survivors} and "
                f"{self.colluding}"
            )
        if self.modulus_bits > MOST_BITS:
            raise InvalidInput(f"counts and noise must fit {MOST_BITS} bits, got {self.modulus_bits}")

    @classmethod
    def planned(cls, terms: Terms, ballot: Ballot, num_records: int) -> DistributedLaplace:
        return cls(
            ballot=ballot,
            epsilon=terms.laplace_epsilon(ballot),
            survivors=terms.honest(terms.parties),
            colluding=terms.parties - terms.honest(terms.parties),
            parties=terms.parties,
            largest_count=num_records,
            neighbours=terms.neighbours,
        )

    @classmethod
    def planned_for_silos(cls, terms: Terms, ballot: Ballot, silos: Silos) -> DistributedLaplace:
        honest = silos.threshold - silos.colluding
        if honest < 2:
            raise InvalidInput(
                f"threshold must leave >= 2 honest silos besides {silos.colluding} colluding, got {silos.threshold}; "
                "ask more silos, or say colluding = 0 if nobody who adds noise sees the release"
            )
        return cls(
            ballot=ballot,
            epsilon=terms.laplace_epsilon(ballot),
            survivors=honest,
            colluding=silos.colluding,
            parties=silos.parties,
            largest_count=silos.most_records,
            neighbours=terms.neighbours,
        )

    def check_silos(self, silos: Silos) -> None:
        if self.parties < silos.parties:
            raise InvalidInput(f"parties must be >= the {silos.parties} silos, got {self.parties}")
        honest = silos.threshold - max(silos.colluding, self.colluding)
        if not self.survivors <= honest:
            raise InvalidInput(
                f"survivors must be <= threshold - colluding = {honest} honest silos, got {self.survivors}: too few "
                "shares of noise would be in the sum"
            )

    @classmethod
    def automatic(cls, terms: Terms, ballot: Ballot, num_records: int) -> bool:
        return True

    @property
    def fewest(self) -> int:
        """With fewer parties than this in the sum nothing is released."""
        return self.survivors + self.colluding

    @property
    def scale(self) -> Fraction:
        return self.ballot.cells_changed(self.neighbours) / self.epsilon

    def law(self, parties: int) -> DiscreteLaplace | PolyaDifference:
        """The law of a cell's error when `parties` parties take part."""
        if parties == self.survivors:
            return DiscreteLaplace(self.scale)
        return PolyaDifference(Fraction(parties, self.survivors), self.scale)

    @cached_property
    def modulus_bits(self) -> int:
        """b: the smallest with 2^b > 2·(largest count + noise), where noise is not exceeded but for `OVERFLOW`."""
        law, reach = self.law(self.parties), 1
        while self.ballot.num_cells * law.two_sided_tail(reach) > OVERFLOW:
            reach *= 2
        return (2 * (self.largest_count + reach)).bit_length()

    @property
    def event(self) -> Event:
        return DiscreteLaplaceTally(self.scale, self.ballot.cells_changed(self.neighbours))

    @property
    def insider_event(self) -> Event | None:
        """One party takes its own share away: an event that costs every changed cell what `privacy.shares` says."""
        if self.parties == 1:
            return None  # there is no other party to protect
        left = max(1, self.fewest - 1)  # a sum of one party is that party's own
        loss = unit_loss(Fraction(left, self.survivors), self.scale)
        return DiscreteLaplaceTally(1 / loss, self.ballot.cells_changed(self.neighbours))

    @cached_property
    def guarantee(self) -> Guarantee:
        insider = self.insider_event
        return Guarantee(
            epsilon=self.epsilon,
            neighbours=self.neighbours,
            trust=Trust.DISTRIBUTED,
            honest_parties=self.survivors,
            insider_epsilon=None if insider is None else total_epsilon([insider]),
        )

    def realised_epsilon(self, parties: int) -> Fraction:
        """The pure epsilon of the sum of this many honest parties' shares (`privacy.shares`), rounded up."""
        whole(parties=parties)
        shape = Fraction(parties, self.survivors)
        return self.ballot.cells_changed(self.neighbours) * unit_loss(shape, self.scale)

    def noise_std(self, num_records: int) -> float:
        return self.law(self.parties).std

    def client(self, votes: Votes, noise: Noise) -> Share:
        self.check_ballot(votes)
        counts = votes.counts()
        share = PolyaDifference(Fraction(1, self.survivors), self.scale).sample(counts.shape, noise)
        return Share((counts + share).astype(np.uint64) & self._mask, private=noise.private)

    def aggregate(self, shares: Iterable[Share]) -> ModularSum:
        """The sum of the shares and nothing else: what secure aggregation computes without anybody seeing a share."""
        total = np.zeros((self.ballot.num_queries, self.ballot.num_classes), dtype=np.uint64)
        parties, private = 0, True
        for share in shares:
            if share.residues.shape != total.shape or (share.residues > self._mask).any():
                raise ProtocolFault(
                    f"a share must hold {total.shape} residues below 2^{self.modulus_bits}, one does not"
                )
            total = (total + share.residues) & self._mask  # unsigned sums wrap at 2^64, a multiple of 2^b
            parties, private = parties + 1, private and share.private
        return ModularSum(total, parties, private)

    def release(self, total: ModularSum) -> Tally:
        """The tally, from the modular sum alone."""
        expected = (self.ballot.num_queries, self.ballot.num_classes)
        if total.residues.shape != expected or (total.residues > self._mask).any():
            raise ProtocolFault(f"a sum must hold {expected} residues below 2^{self.modulus_bits}, this one does not")
        if total.parties < self.fewest:
            raise ProtocolFault(f"a sum must cover >= {self.fewest} parties, got {total.parties}")
        if total.parties > self.parties:
            raise ProtocolFault(f"a sum must cover <= {self.parties} parties, got {total.parties}")
        guarantee = replace(self.guarantee, private=total.private)
        estimate = self.signed(total.residues).astype(np.float64)
        return Tally(self.ballot, guarantee, estimate, self.law(total.parties))

    def signed(self, residues: NDArray[np.uint64]) -> NDArray[np.int64]:
        """The whole numbers nearest zero that have these residues modulo 2^b."""
        half = np.uint64(1) << np.uint64(self.modulus_bits - 1)
        return ((residues + half) & self._mask).astype(np.int64) - int(half)

    def server(self, messages: Iterable[Share], noise: Noise) -> Tally:
        """`release` of the shares' sum; `noise` draws nothing here, but a replayable one marks it as not private."""
        total = self.aggregate(messages)
        return self.release(replace(total, private=total.private and noise.private))

    def shrunk(self) -> DistributedLaplace:
        return replace(self, ballot=self.ballot.block())  # cells are treated alike

    def release_nobody(self, parties: int, noise: Noise) -> None:
        nobody = Votes.of_nobody(self.ballot, 0)
        self.server([self.client(nobody, noise) for _ in range(parties)], noise)

    def simulate_cohort(self, counts: Ints, *, seed: int) -> Tally:
        """The sum of all devices' shares of noise has one known law, so it is drawn as such."""
        devices = int(counts.sum())
        if not self.fewest <= devices <= self.parties:
            raise InvalidInput(
                f"a cohort must have {self.fewest:,} to {self.parties:,} devices as planned, got {devices:,}"
            )
        law = self.law(devices)
        estimate = (counts + law.sample(counts.shape, SeededNoise(seed))).astype(np.float64)
        return Tally(self.ballot, replace(self.guarantee, private=False), estimate, law)

    def exact_epsilon(self, pair: Pair, parties: int | None) -> Exact:
        law = self.law(self._unknown_shares(parties))
        return pure_cells(law, change(self.ballot, pair)), f"the law of {parties} parties' shares, every changed cell"

    def view_scores(self, side: Record | None, pair: Pair, trials: int, parties: int | None, noise: Noise) -> Doubles:
        """Every block of a release is a view, less what the readers sent themselves."""
        unknown = self._unknown_shares(parties)
        scores = []
        for wide, victims in blocks(self, side, trials, CELLS):
            nobody = Votes.of_nobody(wide.ballot, 0)
            readers = [wide.client(nobody, noise) for _ in range((parties or wide.fewest) - unknown)]
            others = [victims, *[nobody] * (unknown - 1)]
            release = wide.server([*(wide.client(votes, noise) for votes in others), *readers], noise)
            known = sum((wide.signed(share.residues) for share in readers), np.zeros(release.estimate.shape, np.int64))
            scores.append(tally_scores(self.ballot, release.estimate - known, self.law(unknown), pair))
        return np.concatenate(scores)

    def _unknown_shares(self, parties: int | None) -> int:
        """Of the parties in a sum, those whose shares of the noise no reader can take away."""
        return max(1, (parties or self.fewest) - self.colluding)

    @property
    def _mask(self) -> np.uint64:
        return np.uint64((1 << self.modulus_bits) - 1)
