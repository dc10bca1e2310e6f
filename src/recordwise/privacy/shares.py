"""What the sum of Pólya shares costs when more, or fewer, of them arrive than planned.

The sum of M of m planned shares has the law f of NB(r, a) - NB(r, a), r = M/m, a = e^(-1/scale): the generalised
discrete Laplace law of arXiv:2504.05202. A count that changes by one costs the largest |log f(k)/f(k+1)|:

  - r >= 1: NB(r, a) is log-concave, hence so is f, and the ratio f(k)/f(k+1) grows with k, towards 1/a. The cost is
    1/scale, as planned. More shares do add noise, but no pure epsilon shows it: the limit of the ratio stays.
  - r < 1: for k >= 0, f(k) is a^k times a mixture of u^k over u in (0, 1) (write Γ(j+k+r)/(j+k)! as a Beta integral),
    so the ratio falls with k and is largest at the peak: the cost is log f(0)/f(1), more than planned.
"""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np

from recordwise.errors import OutOfRegime, positive
from recordwise.privacy.guarantee import exact

MOST_TERMS = 1 << 22


def unit_loss(shape: Fraction, scale: Fraction) -> Fraction:
    """The pure epsilon of one count that changes by one, under NB(shape, a) - NB(shape, a), rounded up.

    Guarantees:
      - it bounds |log f(k)/f(k+1)| for every k, and is attained at k = 0 (shape < 1) or in the limit (shape >= 1).
    """
    positive(shape=shape, scale=scale)
    if shape >= 1:
        return 1 / exact(scale)
    r, rate = float(shape), float(1 / exact(scale))
    terms = math.ceil(25 / rate) + 2  # h(j) <= a^j, so what lies beyond is below e^-50 of f(0)
    if terms > MOST_TERMS:
        raise OutOfRegime(
            f"scale must be <= {MOST_TERMS // 25:,} to add up the law of few shares, got {float(scale)!r}"
        )
    # f(0) ~ sum of h(j)² and f(1) ~ sum of h(j)·h(j+1), where h(j+1) = h(j)·a·(j + r)/(j + 1).
    j = np.arange(terms, dtype=np.float64)
    h = np.exp(np.append(0.0, np.cumsum(np.log((j + r) / (j + 1)) - rate)))
    peak, beside = math.fsum(h * h), math.fsum(h[:-1] * h[1:])
    return Fraction(math.log(peak / beside)) + Fraction(1, 10**10)  # roundings and the rest stay below 1e-11
