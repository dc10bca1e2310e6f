"""Sums of clipped vectors with Gaussian noise, exactly: integers in, discrete Gaussian noise, no float in between.

A record's share is an outer product left ⊗ right, shortened to length `clip` and rounded towards zero on a grid of
2^-26, so that its length in grid steps is a matter of integers. Such products add up exactly in a float matrix product
while the sum stays below 2^53; the order of the additions, which floats would show, does not matter.

What it costs. Rounding a continuous Gaussian to integers is post-processing, so integers with rounded Gaussian noise
cost what the continuous mechanism does, and its accountants apply (dp-accounting's privacy-loss distributions).
Discrete Gaussian noise is not quite rounded Gaussian noise: the ratio of the two probabilities of z is, up to a
normalisation that is one to within exp(-2π²σ²), the mean over |u| < 1/2 of exp(-u²/2σ²)·cosh(zu/σ²), which lies between
1 - 1/(24σ²) and exp(z²/(24σ⁴)). So the two laws differ by less than 1/(8σ²) in total variation, and `steps` releases of
`cells` numbers by less than steps·cells/(8σ²). That, times 1 + e^epsilon, is taken from delta. At the σ used here, 2^24
and more, it is nothing.
"""

from __future__ import annotations

import math
from fractions import Fraction
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray
from scipy.special import log_ndtr, ndtr

from recordwise.errors import InvalidInput, OutOfRegime
from recordwise.privacy.guarantee import Neighbours
from recordwise.privacy.noise import DiscreteGaussian, Noise
from recordwise.privacy.search import least, least_noise

UNIT = 2**13  # of each factor; their product has UNIT²
EXACT = 2**53  # integers that floats hold
SAFE = 1 - 2**-40  # clipping in floats errs by less than this leaves
LEAST_SIGMA = 2**24  # in grid steps; with less, discrete and rounded Gaussian differ too much

LEFT_OUT = -45  # log of the probability of losses that an accountant bounds instead of looking at them
# At most so many losses of a step are looked at. Where a record takes part rarely and noise is little, they reach far
# beyond the answer; on a coarser grid the epsilon is larger, never smaller.
MOST_POINTS = 2**15
LARGEST = 1e300


def shorten(lengths: NDArray[np.float64], clip: float) -> NDArray[np.float64]:
    """The factor that makes each of these lengths at most `clip`, with room for roundings."""
    return SAFE * np.minimum(1.0, clip / np.maximum(lengths, 1e-300))


def outer_sum(left: NDArray[np.float64], right: NDArray[np.float64]) -> NDArray[np.float64]:
    """Σ left_i ⊗ right_i in grid steps: exact integers, each record's share no longer than ‖left_i‖·‖right_i‖."""
    whole_left, whole_right = np.trunc(left * UNIT), np.trunc(right * UNIT)
    if len(left) and np.abs(whole_left).sum(axis=0).max() * np.abs(whole_right).max(initial=0) >= EXACT:
        bound = float((np.abs(whole_left).T @ np.abs(whole_right)).max())
        if bound >= EXACT / 2:  # the bound itself is a float sum
            raise OutOfRegime(f"a sum of {len(left):,} clipped vectors must stay below 2^52 grid steps")
    return np.asarray(whole_left.T @ whole_right)


def noised(total: NDArray[np.float64], *, noise_multiplier: float, clip: float, noise: Noise) -> NDArray[np.float64]:
    """A sum in grid steps, with noise of deviation `noise_multiplier`·`clip`; in ordinary units."""
    drawn = DiscreteGaussian(sigma2(noise_multiplier, clip)).sample(total.shape, noise)
    return np.asarray((total.astype(np.int64) + drawn) / float(UNIT**2))


def sigma2(noise_multiplier: float, clip: float) -> Fraction:
    """The noise's variance parameter in grid steps."""
    sigma = math.ceil(noise_multiplier * clip * UNIT**2)
    if sigma < LEAST_SIGMA:
        raise OutOfRegime(f"noise_multiplier·clip must be at least {LEAST_SIGMA / UNIT**2:g}, got {sigma / UNIT**2:g}")
    return Fraction(sigma) ** 2


def noise_for(
    epsilon: float, delta: float, *, neighbours: Neighbours, cells: int, rate: float = 1.0, steps: int = 1
) -> float:
    """The least noise multiplier with which `steps` noisy sums cost (epsilon, delta).

    Args:
      cells: Numbers released in each step.
      rate: With which each record takes part in a step, each by a coin of its own.

    Raises:
      OutOfRegime: A record takes part so rarely that delta alone excuses it, and no noise would be enough.
    """
    taken = -math.expm1(steps * math.log1p(-rate)) if 0 < rate < 1 else 1.0
    if taken <= delta:
        raise OutOfRegime(
            f"delta must be < {taken:.3g}, the probability that a record takes part in any step, got {delta:g}: "
            "it would excuse steps without noise"
        )
    return _least(epsilon, left_of(delta, epsilon, cells, steps), neighbours, rate, steps) * (1 + 2**-30)


def left_of(delta: float, epsilon: float, cells: int, steps: int = 1) -> float:
    """The delta that remains when discrete noise has taken its share for not being rounded normal noise."""
    # The multiplier is not known yet; where so little noise were enough, `sigma2` refuses.
    spare = (1 + math.exp(epsilon)) * steps * cells / (8 * LEAST_SIGMA**2)
    if not spare < delta / 10:
        raise OutOfRegime(f"delta must be > {10 * spare:.3g} for {steps} sums of {cells} numbers, got {delta:g}")
    return delta - spare


@lru_cache(maxsize=256)
def _least(epsilon: float, delta: float, neighbours: Neighbours, rate: float, steps: int) -> float:
    def affordable(multiplier: float) -> bool:
        return sampled_gaussian(multiplier, rate=rate, steps=steps, delta=delta, neighbours=neighbours) <= epsilon

    return least_noise(affordable, epsilon=epsilon, delta=delta)


def sampled_gaussian(
    noise_multiplier: float, *, rate: float, steps: int, delta: float, neighbours: Neighbours
) -> float:
    """The epsilon of `steps` Gaussian sums over Poisson samples.

    With every record in every step it is one Gaussian release, whose epsilon has a closed form (Balle and Wang 2018);
    otherwise privacy-loss distributions are convolved (dp-accounting).
    """
    if not 0 < rate <= 1:
        raise InvalidInput(f"rate must lie in (0, 1], got {rate!r}")
    distance = neighbours.records_changed * math.sqrt(steps) / noise_multiplier
    if rate == 1:
        return _one_gaussian(distance, delta)
    from dp_accounting import NeighboringRelation
    from dp_accounting.pld.privacy_loss_distribution import from_gaussian_mechanism

    relation = {
        Neighbours.ADD_REMOVE: NeighboringRelation.ADD_OR_REMOVE_ONE,
        Neighbours.REPLACE: NeighboringRelation.REPLACE_ONE,
    }[neighbours]
    one = from_gaussian_mechanism(
        standard_deviation=noise_multiplier,
        sampling_prob=rate,
        neighboring_relation=relation,
        value_discretization_interval=max(
            min(1e-3, max(1e-7, rate * distance / 500)),  # fine beside the answer
            _largest_loss(neighbours.records_changed / noise_multiplier, rate) / MOST_POINTS,
        ),
        log_mass_truncation_bound=LEFT_OUT,
    )
    return float(one.self_compose(steps).get_epsilon_for_delta(delta))


def _largest_loss(distance: float, rate: float) -> float:
    """About the largest privacy loss of one step that is not left out."""
    loss = distance * (distance / 2 + math.sqrt(-2 * LEFT_OUT))
    return math.log1p(rate * math.expm1(loss)) if loss < math.log(LARGEST) else loss + math.log(rate)


def _one_gaussian(distance: float, delta: float) -> float:
    """The least epsilon at which normals of deviation one whose means lie `distance` apart are (epsilon, delta)-close.

    The delta falls in epsilon.
    """
    return least(lambda epsilon: gaussian_delta(distance, epsilon) <= delta, 0.0, 1.0, within=1e-9)


def gaussian_delta(distance: float, epsilon: float) -> float:
    """Φ(d/2 - e/d) - exp(e)·Φ(-d/2 - e/d), of normals d deviations apart (Balle and Wang 2018, Theorem 8)."""
    ahead, behind = distance / 2 - epsilon / distance, -distance / 2 - epsilon / distance
    return float(ndtr(ahead) - math.exp(epsilon + float(log_ndtr(behind))))
