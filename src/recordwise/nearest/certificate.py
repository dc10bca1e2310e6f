"""How far a fast float32 score can lie from the exact rule, proved for any order of summation.

A record x is lifted to a = (x, t, |x|²/2t) and a query q to b = (-q, h, 1), h = (|q|² + price)/2, where t = 1 under the
Euclidean metric and t = |x| under the cosine one (q is a unit vector there, and x need not be divided by its length).
Then a·b = t/2 · cost: the least dot products belong to the least costs, and one matrix product compares a batch with
all queries. (Prices enter less their minimum, which changes no order and makes every score stand for a number >= 0.)
What the product computes in float32 differs from t/2 times the cost of the exact rule by at most one `slack`, and by
an error of at most one slack more that is common to all queries of a record (t, and the last coordinate of a, are
themselves rounded) and so changes no order. The slack is the sum of three terms, with γ_m = mu/(1 - mu):

1. Rounding, u = 2^-24. A dot product of m = d+2 terms, summed in any order, fused or not, is off by at most
   γ_m Σ|a_j||b_j| <= γ_m (|x||q| + t·h + |x|²/2t) (Higham, Accuracy and Stability of Numerical Algorithms, 2nd ed.,
   section 3.1, and Cauchy-Schwarz). Rounding h costs u·t·h. Under cosine t is a computed length, off by at most a
   factor γ_{d/2+2}, and the rule rounds x/|x| to float32, which moves a·b by at most 1.01u|x||q|. Together:
   γ_{d+5} (|x||q| + 2t·h + |x|²/2t).
2. The rule's own rounding, u = 2^-53: its costs are within γ_{d+8} ((|x|/t + |q|)² + |price|) of the real ones.
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

from recordwise.nearest.poll import Metric, Poll

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
      lifted: (dim + 2, s) float32: a column (-q, h, 1) per query.
    """

    poll: Poll
    lifted: NDArray[np.float32]
    longest: float
    highest: float

    @classmethod
    def of(cls, poll: Poll) -> Certificate:
        exact = poll.queries.astype(np.float64)
        squares = np.einsum("sd,sd->s", exact, exact)
        heights = (squares + (poll.prices - poll.prices.min())) / 2
        with np.errstate(over="ignore"):  # a height beyond float32 makes every slack infinite
            lifted = np.vstack([-exact.T, heights, np.ones(len(heights))]).astype(np.float32)
        return cls(poll, lifted, SPARE * float(np.sqrt(squares.max())), SPARE * float(heights.max()))

    def lift(self, records: NDArray[np.float32]) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
        """Fill in the last two columns of records (m, dim + 2); returns their |x|² and t, computed in float32."""
        squares: NDArray[np.float32] = np.vecdot(records[:, :-2], records[:, :-2])
        t = np.sqrt(squares) if self.poll.metric is Metric.COSINE else np.ones_like(squares)
        records[:, -2] = t
        records[:, -1] = squares / (2 * t)
        return squares, t

    def slack(self, squares: NDArray[np.float64], t: NDArray[np.float64]) -> NDArray[np.float64]:
        """(m,) bounds on the distance between a computed score and t/2 times the cost of the exact rule."""
        dim, price = self.poll.dim, float(np.abs(self.poll.prices).max())
        length = SPARE * np.sqrt(squares * (1 + 2 * gamma(dim + 2, SINGLE)) + dim * 2.0**-120)
        size = length * (self.longest + length / (2 * t)) + 2 * t * self.highest
        slack: NDArray[np.float64] = (
            gamma(dim + 5, SINGLE) * size
            + gamma(dim + 8, DOUBLE) * ((length + t * self.longest) ** 2 / t + t * price)
            + 2.0**-125 * (dim + 2) * (1 + length + t + length * length / t + self.longest + self.highest)
        )
        slack[~((size < LARGEST) & (t > SHORTEST))] = np.inf
        return SPARE * slack

    def half_distances(
        self, scores: NDArray[np.float32], t: NDArray[np.float64], picks: NDArray[np.int32]
    ) -> NDArray[np.float64]:
        """Half the distance from each record to each of its picks (m, k), off by at most two slacks over t."""
        prices = self.poll.prices - self.poll.prices.min()
        half: NDArray[np.float64] = scores / t[:, None] - prices[picks] / 2
        return half
