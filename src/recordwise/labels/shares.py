"""How many records vote at a query, inferred from the release; and whether the classes lie apart at all.

A query's share of the pool says how many records to expect there, but records may abstain, and they need not be spread
as the pool is. The sum of a query's cells says the same with noise. Both are weighed by what they are worth: the
release itself shows how far its sums stray from the pool's shares beyond what noise explains.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from recordwise.arrays import Bools, Floats, Ints
from recordwise.errors import MOST_RECORDS, InvalidInput, some_records
from recordwise.labels.likelihood import WHOLE
from recordwise.privacy.noise.distribution import distribution
from recordwise.protocols.release import Release, Tally
from recordwise.randomness import seeded
from recordwise.votes.ballot import Ballot

VOTING = np.linspace(0.02, 1.0, 50)  # shares of the records that may have voted
SPREAD = np.concatenate([[0.0], np.geomspace(1e-3, 10, 25)])  # variances of a query's rate around the pool's share
MOST_VOTE = 0.3  # deviation of "all vote" that is expected before anything is seen
ALIKE = 200  # tables drawn in which all queries have the same shares
FEWEST = 119  # so many are enough to see what one in sixty shows
LEANING = (0.2, 0.5, 0.9)  # how far queries may lean to a class of their own, when classes lie apart
RARE = 0.05
DOUBT = 3.0  # nats by which rates that differ from the pool's must explain the sums better
MOST_VOTES = 2.0**62  # at a query: counts are drawn as 64 bits
LEAST = 0.01  # of what the pool's share says: no query is taken to be empty


@dataclass(frozen=True, kw_only=True, eq=False)
class Turnout:
    """How many records vote.

    Attributes:
      rates: (s,) the expected number of votes at each query.
      voting: The share of the records that vote, as far as the release shows; 1 where their number is not public.
      spread: The variance of the queries' rates around the pool's shares, as a share of their square.
    """

    rates: NDArray[np.float64]
    voting: float
    spread: float


def turnout(
    tally: Tally, sizes: Ints | Floats, *, num_records: int | None = None, seen: Bools | None = None
) -> Turnout:
    """How many records vote at each query: the posterior mean under the release and the pool's shares.

    The sum of a query's cells is taken as normal around voting · records · pool share, with the variance of the noise,
    of the count, and of rates that differ from the pool's. How many vote and how much rates differ is fitted to all
    queries together.

    Args:
      sizes: (s,) how many pool samples belong to each query.
      num_records: Where it is public; else the release's own sum stands for it.
      seen: (s,) the queries whose cells may be looked at; the others keep the pool's share. All when None.
    """
    tally.check()
    sizes = np.asarray(sizes, dtype=np.float64)
    if sizes.shape != (len(tally.estimate),):
        raise InvalidInput(f"sizes must be those of the {len(tally.estimate)} queries, got shape {sizes.shape}")
    if not ((sizes >= 0).all() and 0 < sizes.sum() < np.inf):
        raise InvalidInput(f"sizes must be numbers >= 0 of samples, not all zero, got a sum of {sizes.sum():g}")
    known = np.ones(len(sizes), dtype=bool) if seen is None else np.asarray(seen, dtype=bool)
    sums = tally.estimate.sum(axis=1) / tally.ballot.labels_per_record
    noise = tally.estimate.shape[1] * tally.law.std**2
    shares = sizes / sizes.sum()
    if num_records is None:
        part = float(shares[known].sum())  # of the pool; none where every query that has samples is held out
        seen_there = float(sums[known].sum()) / part if part > 0 else 0.0
        total = max(seen_there, 0.5 * math.sqrt(noise * len(sizes)), 1.0)
        total = min(total, float(MOST_RECORDS * tally.ballot.votes_per_record))
        voting: NDArray[np.float64] = np.ones(1)
    else:
        some_records(num_records=num_records)
        total, voting = float(num_records * tally.ballot.votes_per_record), VOTING
    expected = total * shares
    share, spread = _fitted(sums[known], expected[known], 1 / np.maximum(sizes[known], 1.0), noise, voting)
    prior = share * expected
    wide = prior**2 * (spread + 1 / np.maximum(sizes, 1.0))
    weight = np.where(known, wide / (wide + noise + prior + 1 / 12), 0.0)
    rates = prior + weight * (sums - prior)
    return Turnout(rates=np.maximum(rates, np.maximum(LEAST * prior, 1e-3)), voting=share, spread=spread)


def voters_at(release: Release, sizes: Ints | Floats, num_records: int | None) -> tuple[Ints | Floats, int | None]:
    """The (s,) votes to expect at each query and the number of records, for a decoder: inferred where counts allow it.

    Where they do not (choices; several labels per record, of which a record may have fewer) they stay as given: the
    pool's shares, and what is public.
    """
    tally = release.tally
    if tally is None or release.ballot.labels_per_record > 1:
        return sizes, num_records
    rates = turnout(tally, sizes, num_records=num_records).rates
    return rates, num_voters(rates, release.ballot)


def num_voters(rates: Floats, ballot: Ballot) -> int:
    """How many records cast so many votes, from one to as many as anybody has."""
    return min(MOST_RECORDS, max(1, round(float(rates.sum()) / ballot.votes_per_record)))


def _fitted(
    sums: NDArray[np.float64],
    expected: NDArray[np.float64],
    grain: NDArray[np.float64],
    noise: float,
    voting: NDArray[np.float64],
) -> tuple[float, float]:
    """The share that votes and the spread of the rates under which the queries' sums are likeliest."""
    mean = voting[:, None, None] * expected
    variance = noise + mean + 1 / 12 + mean**2 * (SPREAD[:, None] + grain)
    fit = -0.5 * ((sums - mean) ** 2 / variance + np.log(variance)).sum(axis=2)
    fit -= 0.5 * ((1 - voting[:, None]) / MOST_VOTE) ** 2 + np.where(SPREAD > 0, DOUBT, 0.0)
    best = np.unravel_index(int(fit.argmax()), fit.shape)
    return float(voting[best[0]]), float(SPREAD[best[1]])


@dataclass(frozen=True, kw_only=True)
class Contrast:
    """Whether the queries' class shares differ by more than noise explains.

    Attributes:
      explained: The share of the labels' variance that lies between queries: 0 where all queries have the same class
        shares, 1 where each has a single class. Noise is subtracted; below 0 counts as 0.
      chance: How often tables in which all queries are alike look at least this different, by the sum of squares or by
        the likelihood or by what neighbours share, whichever is rarest, times the number of looks. Small means they
        differ.
    """

    explained: float
    chance: float

    @property
    def separates(self) -> bool:
        """Whether the release shows that classes lie apart: less than one table in twenty would show it by chance."""
        return self.chance < RARE


def contrast(tally: Tally, rates: Floats, graph: Floats | None = None) -> Contrast:
    """Whether the classes lie apart, from the release alone. Deterministic: what is drawn has a fixed seed.

    Three things that noise alone does not do are looked for. Cells differ from their class's overall share of their own
    query's sum, so that a query with many or few records says nothing by its size. Each query leans to one class.
    Queries that are neighbours differ in the same way (Moran 1950).

    Args:
      graph: (s, s) from `query_graph`; None leaves the neighbours out.
    """
    tally.check()
    rates = np.asarray(rates, dtype=np.float64)
    if rates.shape != (len(tally.estimate),):
        raise InvalidInput(f"rates must be those of the {len(tally.estimate)} queries, got shape {rates.shape}")
    if not ((rates >= 0) & (rates <= MOST_VOTES)).all():
        raise InvalidInput(f"rates must lie in [0, 2^62], got {rates.min():g} to {rates.max():g}")
    if graph is not None and np.shape(graph) != (len(rates), len(rates)):
        raise InvalidInput(f"graph must have shape ({len(rates)}, {len(rates)}), got {np.shape(graph)}")
    shares = _shares(tally.estimate)
    variance = (tally.law.std**2 + rates / len(shares) + WHOLE)[:, None]
    rng = seeded(0, "separation")
    noise, below = distribution(tally.law)

    def drawn() -> NDArray[np.float64]:
        noisy = np.interp(rng.random(tally.estimate.shape), below, noise)
        return np.asarray(rng.poisson(rates[:, None] * shares) + noisy)

    alike = np.array([_unlike(drawn(), variance) for _ in range(ALIKE)])
    found = _unlike(tally.estimate, variance)
    # Pure queries differ from the overall shares by this much.
    pure = float((rates[:, None] ** 2 / variance).sum() * (1 - (shares**2).sum()))
    explained = (found - float(alike.mean())) / pure if pure > 0 else 0.0
    chance = _rarity(found, alike)
    looks = 2 if graph is None else 3
    if looks * chance >= RARE:  # squares drown in heavy noise
        heavy = tally.law.heavy_tailed
        tables = [drawn() for _ in range(FEWEST)]
        leaning = np.array([_leaning(one, rates, variance, heavy=heavy) for one in tables])
        chance = min(chance, _rarity(_leaning(tally.estimate, rates, variance, heavy=heavy), leaning))
        if graph is not None:
            ties = np.asarray(graph, dtype=np.float64)
            together = np.array([_together(one, variance, ties) for one in tables])
            chance = min(chance, _rarity(_together(tally.estimate, variance, ties), together))
    return Contrast(explained=min(1.0, max(0.0, explained)), chance=min(1.0, looks * chance))


def _rarity(found: float, alike: NDArray[np.float64]) -> float:
    """How often a table of equal queries shows as much, the one that was found counted with them."""
    return float(1 + (alike >= found).sum()) / (1 + len(alike))


def _shares(table: NDArray[np.float64]) -> NDArray[np.float64]:
    """(C,) how common each class is in the whole table; all alike where noise leaves nothing."""
    totals = np.maximum(table.sum(axis=0), 0.0)
    return np.asarray(totals / totals.sum()) if totals.sum() > 0 else np.full(len(totals), 1 / len(totals))


def _leaning(
    table: NDArray[np.float64], rates: NDArray[np.float64], variance: NDArray[np.float64], *, heavy: bool
) -> float:
    """How much likelier a table is where every query leans to a class of its own than where all queries are alike.

    A query leans to a class as often as the class is common. The best of a few strengths counts.

    Args:
      heavy: Whether noise has the heavy tails of a Laplace law, or is about normal.
    """
    shares = np.maximum(_shares(table), 1e-6)

    def fit(expected: NDArray[np.float64]) -> NDArray[np.float64]:
        off = table - expected
        return -np.sqrt(2 / variance) * np.abs(off) if heavy else -0.5 * off * off / variance

    alike, found = fit(rates[:, None] * shares), []
    for strength in LEANING:
        others = rates[:, None] * (1 - strength) * shares
        without = fit(others)
        own = fit(others + strength * rates[:, None]) - without + np.log(shares)
        found.append(float((np.logaddexp.reduce(own, axis=1) + (without - alike).sum(axis=1)).sum()))
    return max(found)


def _together(table: NDArray[np.float64], variance: NDArray[np.float64], graph: NDArray[np.float64]) -> float:
    """How far neighbours differ from the overall shares in the same way; no cell says more than two deviations."""
    off = (table - table.sum(axis=1, keepdims=True) * _shares(table)) / np.sqrt(variance)
    off = np.clip(off, -2, 2)
    return float((off * (graph @ off)).sum() - (np.diag(graph)[:, None] * off * off).sum())


def _unlike(table: NDArray[np.float64], variance: NDArray[np.float64]) -> float:
    """The weighted squares of what the cells differ by from the overall shares of their own query's sum."""
    totals = table.sum(axis=0)
    shares = totals / totals.sum() if totals.sum() > 0 else np.full(len(totals), 1 / len(totals))
    return float(((table - table.sum(axis=1, keepdims=True) * shares) ** 2 / variance).sum())
