"""How far a fast float32 score can lie from the exact rule, proved for any order of summation.

A record x is lifted to a = (x, t) and a query q to b = (-q, h), h = (|q|² + price)/2, where t = 1 under the Euclidean
metric and t = |x| under the cosine one (q is a unit vector there, and x need not be divided by its length). Then

    a·b = t/2 · (cost - const),    const = |x|²/t², the same for all queries of one record:

the least dot products belong to the least costs, and one matrix product compares a batch with all queries. What it
computes in float32 differs from the exact rule by at most `slack`, the sum of three terms, with γ_m = mu/(1 - mu):

1. Rounding, u = 2^-24. A dot product of m = d+1 terms, summed in any order, fused or not, is off by at most
   γ_m Σ|a_j||b_j| <= γ_m (|x||q| + t|h|) (Higham, Accuracy and Stability of Numerical Algorithms, 2nd ed., section 3.1,
   and Cauchy-Schwarz). Rounding h costs u·t|h|. Under cosine t is a computed length, off by at most γ_{d/2+2}, and
   the rule rounds x/|x| to float32, which moves a·b by at most 1.01u|x||q|. Together: γ_{d+4} (|x||q| + 2t|h|).
2. The rule's own rounding, u = 2^-53: its costs are within γ_{d+8} ((|x|/t + |q|)² + |price|) of the real ones, in the
   units of a·b times t.
3. Underflow, gradual or flushed to zero: each of the products, sums and inputs loses at most 2^-126.

A record whose (k+1)-th least score exceeds its k-th by more than two slacks has its k votes decided by the scores; for
any other record the queries within two slacks of the k-th score are compared by the rule itself. A query q outside has
a score that exceeds k others by more than two slacks, so k queries cost strictly less, and q is none of the k nearest.
Where a score could overflow, or a length underflow, the slack is infinite and all queries are compared by the rule.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from recordwise.votes.poll import Metric, Poll

SINGLE, DOUBLE = 2.0**-24, 2.0**-53  # unit roundoffs
SPARE = 1 + 2.0**-10  # covers the rounding of the few float64 operations that evaluate the bounds
LARGEST, SHORTEST = 2.0**120, 2.0**-40  # scores below, and lengths above, are safe from overflow and underflow


def gamma(terms: int, roundoff: float) -> float:
    """Higham's γ: the relative error of a sum of products of this many terms, in any order."""
    small = terms * roundoff
    return small / (1 - small) if small < 0.5 else np.inf


@dataclass(frozen=True, eq=False)
class Certificate:
    """The lifted queries, and the bounds that hold for their scores.

    Attributes:
      lifted: (dim + 1, s) float32: a column (-q, h) per query.
    """

    poll: Poll
    lifted: NDArray[np.float32]
    longest: float
    highest: float

    @classmethod
    def of(cls, poll: Poll) -> Certificate:
        exact = poll.queries.astype(np.float64)
        squares = np.einsum("sd,sd->s", exact, exact)
        heights = (squares + poll.prices) / 2
        with np.errstate(over="ignore"):  # a height beyond float32 makes every slack infinite
            lifted = np.vstack([-exact.T, heights]).astype(np.float32)
        longest, highest = np.sqrt(squares.max()), np.abs(heights).max()
        return cls(poll, lifted, SPARE * float(longest), SPARE * float(highest))

    def lift(self, records: NDArray[np.float32]) -> NDArray[np.float64]:
        """Fill in the last column, t, of records (m, dim + 1); returns their squared lengths, computed in float32."""
        squares: NDArray[np.float32] = np.vecdot(records[:, :-1], records[:, :-1])
        records[:, -1] = np.sqrt(squares) if self.poll.metric is Metric.COSINE else 1.0
        return squares.astype(np.float64)

    def slack(self, squares: NDArray[np.float64], t: NDArray[np.float64]) -> NDArray[np.float64]:
        """(m,) bounds on the distance between a computed score and the exact rule."""
        dim, price = self.poll.dim, float(np.abs(self.poll.prices).max())
        length = SPARE * np.sqrt(squares * (1 + 2 * gamma(dim + 2, SINGLE)) + dim * 2.0**-120)
        size = length * self.longest + 2 * t * self.highest
        slack = (
            gamma(dim + 4, SINGLE) * size
            + gamma(dim + 8, DOUBLE) * ((length + t * self.longest) ** 2 / t + t * price)
            + 2.0**-125 * (dim + 1) * (1 + length + t + self.longest + self.highest)
        )
        safe = (size < LARGEST) & (t > SHORTEST)
        return np.where(safe, SPARE * slack, np.inf)

    def half_distances(
        self,
        squares: NDArray[np.float64],
        t: NDArray[np.float64],
        scores: NDArray[np.float32],
        picks: NDArray[np.int32],
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Half the distance from each record to each of its picks (m, k), and how far off that can be (m, 1)."""
        half = scores / t[:, None] - self.poll.prices[picks] / 2 + (squares / t**2 / 2)[:, None]
        # Once the slack of the score, once for a length t that is itself rounded, and the rounding of |x|².
        error = (2 * self.slack(squares, t) + gamma(self.poll.dim + 4, SINGLE) * squares / t) / t
        return half, SPARE * error[:, None]
