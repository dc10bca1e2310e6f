"""Signs, in the sums of a release, that records are not what the pool and the declared classes lead to expect.

Three of them, each from noise of known law: votes gather in far fewer queries than the pool's samples, as where units
differ; a declared class has no votes, as where its name is misspelt; clearly fewer records vote than there are.

Guarantees, each per release:
  - where records are spread as the pool is, and cells err on their own, votes are said to gather with probability
    FALSE_ALARM at most (Cantelli);
  - a class with a twentieth of an equal share of the votes is said to have none with about that probability at most;
    where records are missing, whose class that may be, one with half of an equal share;
  - where 90 % of the records voted or more, some are said to be missing with about that probability at most.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from scipy.special import ndtri

from recordwise.arrays import Floats, Ints
from recordwise.privacy.noise.law import Law
from recordwise.protocols.release import Tally

FALSE_ALARM = 0.01
FEWER = 4.0  # times fewer queries than the pool's samples lie in
FEW, SOME = 0.05, 0.5  # of an equal share of the votes: a class with so many would show
MOST = 0.9  # of the records


@dataclass(frozen=True, kw_only=True)
class Signs:
    """What the sums show.

    Attributes:
      gathered: In about how many queries the votes gather, where that is far fewer than the pool's samples do.
      unheard: The classes without votes beyond the noise.
      voted: About how many records voted, where that is clearly fewer than there are.
    """

    gathered: int | None = None
    unheard: tuple[int, ...] = ()
    voted: int | None = None


def signs(tally: Tally, sizes: Ints | Floats, *, num_records: int | None = None) -> Signs:
    """What the sums of a release of one label per record show.

    Args:
      sizes: (s,) how many pool samples belong to each query.
      num_records: Where it is public.
    """
    voted = None if num_records is None else _voted(tally, num_records)
    return Signs(
        gathered=_gathered(tally, np.asarray(sizes, dtype=np.float64), num_records),
        unheard=_unheard(tally, FEW if voted is None else SOME),
        voted=voted,
    )


def _gathered(tally: Tally, sizes: Floats, num_records: int | None) -> int | None:
    """Two votes lie in the same query as often as if there were so many equal queries (Simpson 1949)."""
    num_queries, num_classes = tally.estimate.shape
    sums, cell = tally.estimate.sum(axis=1), float(tally.law.std) ** 2
    noise = num_classes * cell
    excess = 3 * cell**2 + cell if tally.law.heavy_tailed else 0.0  # of a fourth moment over the normal's; exact
    public = None if num_records is None else float(num_records * tally.ballot.votes_per_record)
    far = math.sqrt((2 if public is None else 1) / FALSE_ALARM - 1)
    votes = float(sums.sum())
    if votes <= 1:
        return None
    most = votes + far * math.sqrt(num_queries * noise) if public is None else public
    squares = float((sums**2).sum()) - num_queries * noise
    alike = float(((sizes / sizes.sum()) ** 2).sum())  # how often two of the pool's samples do
    variance = num_queries * (2 * noise**2 + num_classes * excess) + 4 * noise * max(squares, 0.0)
    variance += 2 * most**2 * alike  # of the pairs themselves
    if squares - most - far * math.sqrt(variance) <= FEWER * alike * most**2:
        return None
    return max(1, int(votes * votes / max(squares - votes, 1.0) + 0.5))


def _unheard(tally: Tally, share: float) -> tuple[int, ...]:
    """The classes without votes, if one with so much of an equal share would show."""
    num_queries, num_classes = tally.estimate.shape
    totals = tally.estimate.sum(axis=0)
    noise = _reach(tally.law, num_queries, FALSE_ALARM / num_classes)
    if num_classes == 1 or share * float(totals.sum()) / num_classes < max(2 * noise, 1.0):
        return ()
    return tuple(np.flatnonzero(totals <= noise).tolist())


def _voted(tally: Tally, num_records: int) -> int | None:
    votes = float(tally.estimate.sum())
    noise = _reach(tally.law, tally.estimate.size, FALSE_ALARM)
    each = tally.ballot.votes_per_record
    return max(0, round(votes / each)) if votes + noise < MOST * num_records * each else None


def _reach(law: Law, cells: int, chance: float) -> float:
    """How far the noise of so many cells together reaches on one side (Cornish and Fisher 1938, to the kurtosis)."""
    far = -float(ndtri(chance))
    excess = 3.0 if law.heavy_tailed else 0.0
    together = float(getattr(law, "together", 1.0))  # where cells do not err on their own
    return together * law.std * math.sqrt(cells) * (far + (far**3 - 3 * far) * excess / (24 * cells))
