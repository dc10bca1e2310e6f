"""What one message of each local mechanism can tell about its sender, as the variation-ratio accountant wants it.

Every mechanism here is epsilon0-LDP for replace-one neighbours, so p = q = e^epsilon0; they differ in beta, the total
variation distance of two records' messages. `tests` compare every beta with enumerated output probabilities.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from recordwise.errors import InvalidInput, positive, whole
from recordwise.privacy.amplification.clones import Clones
from recordwise.privacy.amplification.variation_ratio import LocalMechanism, Variation


def any_mechanism(epsilon0: float) -> Variation:
    """Nothing known but epsilon0: beta = (e-1)/(e+1), the most that e = e^epsilon0 allows.

    The witness is randomized response over three answers, the mechanism that comes closest to the bound.
    """
    e = _ratio(epsilon0)
    return Variation(p=e, beta=(e - 1) / (e + 1), q=e, witnesses=k_ary(3)(epsilon0).witnesses)


def k_ary(answers: int) -> LocalMechanism:
    """Randomized response over `answers` values: beta = (e-1)/(e+k-1). From three answers on the bound is attained."""
    whole(answers=answers)
    if answers < 2:
        raise InvalidInput(f"answers must be >= 2, got {answers}")

    def variation(epsilon0: float) -> Variation:
        e = _ratio(epsilon0)
        other = 1 / (e + answers - 1)
        attained = (Clones(hit=e * other, miss=other, blanket=other),) if answers > 2 else ()
        return Variation(p=e, beta=(e - 1) * other, q=e, witnesses=attained)

    return variation


def collision(cells: int, buckets: Callable[[float], int], *, collisions_counted: bool = False) -> LocalMechanism:
    """The Collision mechanism for at most `cells` = c votes: beta = min(c, l-c)(e-1)/(c·e + l - c).

    Args:
      buckets: The number l of buckets the mechanism uses at a given epsilon0.
      collisions_counted: Set where c = 1 and the hash function, which travels with the message, sends two given cells
        to the same bucket with probability at least 1/l. Such a message tells nothing between the two, so beta is
        smaller by the factor 1 - 1/l.

    The witnesses look at three records with disjoint votes, whose hash values they take to be independent.
    """
    whole(cells=cells)
    if collisions_counted and cells != 1:
        raise InvalidInput(f"collisions are counted for one cell per record only, got {cells}")

    def variation(epsilon0: float) -> Variation:
        e, width = _ratio(epsilon0), buckets(epsilon0)
        if not width >= cells + 1:
            raise InvalidInput(f"buckets must be >= c + 1 = {cells + 1}, got {width}")
        omega = cells * e + width - cells
        beta = min(cells, width - cells) * (e - 1) / omega
        if collisions_counted:
            beta *= 1 - 1 / width
        # A given bucket is missed by all c cells of a record with probability `missed`, whatever the other records do.
        missed = (1 - 1 / width) ** cells
        sent_to_hit = width * (1 - missed) * e / omega
        hit, miss = sent_to_hit * missed, (1 - sent_to_hit) * (1 - missed)
        witnesses = (
            Clones(hit=hit, miss=miss, blanket=(1 - missed) * missed),
            Clones(hit=hit * missed, miss=miss * missed, blanket=miss * missed),  # and missed by the others' cells
        )
        return Variation(p=e, beta=beta, q=e, witnesses=witnesses)

    return variation


def randomized_response(cells: int) -> LocalMechanism:
    """Every bit of the vote vector flipped with probability 1/(e^{epsilon0/2c} + 1): 2c bits tell two records apart."""
    whole(cells=cells)

    def variation(epsilon0: float) -> Variation:
        e = _ratio(epsilon0)
        flip = 1 / (math.exp(epsilon0 / (2 * cells)) + 1)
        pair = _independent([(np.array([1 - flip, flip]), np.array([flip, 1 - flip]))] * (2 * cells))
        witness = Clones(hit=(1 - flip) ** 2, miss=flip**2, blanket=flip * (1 - flip))
        return Variation(p=e, beta=_total_variation(*pair), q=e, witnesses=(witness,))

    return variation


def unary_encoding(cells: int) -> LocalMechanism:
    """A one kept with probability 1/2, a zero turned on with 1/(e^{epsilon0/c} + 1): c bits each way."""
    whole(cells=cells)

    def variation(epsilon0: float) -> Variation:
        e = _ratio(epsilon0)
        on = 1 / (math.exp(epsilon0 / cells) + 1)
        one, zero = np.array([0.5, 0.5]), np.array([on, 1 - on])
        pair = _independent([(one, zero)] * cells + [(zero, one)] * cells)
        witness = Clones(hit=(1 - on) / 2, miss=on / 2, blanket=on * (1 - on))
        return Variation(p=e, beta=_total_variation(*pair), q=e, witnesses=(witness,))

    return variation


def subset_selection(domain: int, size: Callable[[float], int]) -> LocalMechanism:
    """A subset of w of d cells: beta = (e-1)·w(d-w) / ((d-1)(w·e + d - w)).

    Args:
      size: The subset size w the mechanism uses at a given epsilon0.
    """
    whole(domain=domain)
    if domain < 2:
        raise InvalidInput(f"domain must be >= 2, got {domain}")

    def variation(epsilon0: float) -> Variation:
        e, w, d = _ratio(epsilon0), size(epsilon0), domain
        if not 1 <= w < d:
            raise InvalidInput(f"size must lie in [1, {d}), got {w}")
        omega = w * e + d - w
        apart = w * (d - w) / ((d - 1) * omega)  # the weight of subsets that hold one given cell and not another
        witnesses: tuple[Clones, ...] = ()
        if d > 2:
            without = (d - w - 1) / (d - 2)  # the share of those that also miss a third cell
            witnesses = (Clones(hit=e * apart, miss=apart, blanket=apart * (without + (1 - without) * e)),)
            if without:
                witnesses += (Clones(hit=e * apart * without, miss=apart * without, blanket=apart * without),)
        return Variation(p=e, beta=(e - 1) * apart, q=e, witnesses=witnesses)

    return variation


def together(first: LocalMechanism, second: LocalMechanism) -> LocalMechanism:
    """Two independent messages, each at half of epsilon0, travelling as one (Separation)."""

    def variation(epsilon0: float) -> Variation:
        e = _ratio(epsilon0)
        pairs = []
        for part in (first(epsilon0 / 2), second(epsilon0 / 2)):
            sides = part.clones
            neither = max(1e-300, 1 - sides.hit - sides.miss)  # positive, so that every outcome has a ratio
            pairs.append((np.array([sides.hit, sides.miss, neither]), np.array([sides.miss, sides.hit, neither])))
        return Variation(p=e, beta=_total_variation(*_independent(pairs)), q=e)

    return variation


Pair = tuple[NDArray[np.float64], NDArray[np.float64]]


def _independent(pairs: list[Pair]) -> Pair:
    """The joint laws of independent parts, outcomes merged where their likelihood ratio is the same to 12 digits."""
    p: NDArray[np.float64] = np.ones(1)
    q: NDArray[np.float64] = np.ones(1)
    for part_p, part_q in pairs:
        p, q = np.outer(p, part_p).ravel(), np.outer(q, part_q).ravel()
        _, group = np.unique(np.round(np.log(p / q), 12), return_inverse=True)
        p, q = np.bincount(group, weights=p).astype(np.float64), np.bincount(group, weights=q).astype(np.float64)
    return p, q


def _total_variation(p: NDArray[np.float64], q: NDArray[np.float64]) -> float:
    """Outward: more than what rounding and merging can have taken away, and never more than the ratio allows."""
    ratio = float((p / q).max())
    return min(float(np.maximum(p - q, 0).sum()) * (1 + 1e-9) + 1e-11, (ratio - 1) / (ratio + 1))


def _ratio(epsilon0: float) -> float:
    positive(epsilon0=epsilon0)
    return math.exp(epsilon0)
