"""Signs that records and pool differ: seen where they do, and not where noise alone could show them."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.stats import binom
from tests.labels.simulated import tally_of

from recordwise.labels.signs import FALSE_ALARM, Signs, signs
from recordwise.privacy.guarantee import Trust
from recordwise.privacy.noise import DiscreteGaussian, DiscreteLaplace, SeededNoise
from recordwise.protocols.terms import Terms
from recordwise.randomness import seeded
from recordwise.votes import NOBODY, Ballot, Votes

FALSE_FAILURE = 1e-9
DRAWS = 400
WORLDS = [(3, 3, 1), (12, 2, 2), (40, 3, 2), (100, 10, 4), (300, 3, 40)]  # queries, classes, scale of the noise


def seen(
    counts: NDArray[np.int64], scale: int, sizes: NDArray[np.int64], number: int | None, *, normal: bool, seed: int
) -> Signs:
    law = DiscreteGaussian(2 * scale**2) if normal else DiscreteLaplace(scale)
    return signs(tally_of(counts + law.sample(counts.shape, SeededNoise(seed)), law), sizes, num_records=number)


@pytest.mark.parametrize("normal", [False, True])
@pytest.mark.parametrize(("public", "voting", "rarest"), [(False, 1.0, 0.05), (True, 1.0, 0.05), (True, 0.9, 0.5)])
def test_clean_worlds_show_nothing_but_for_the_stated_chance(
    public: bool, voting: float, rarest: float, normal: bool
) -> None:
    """As spread as the pool, with so many of the records voting and the rarest class at so much of an equal share."""
    rng = seeded(0, "clean")
    for s, num_classes, scale in WORLDS:
        alarms = np.zeros(3)
        for draw in range(DRAWS):
            sizes, number = 1 + rng.poisson(rng.gamma(2.0, 5.0, s)), int(rng.integers(50, 5000))
            shares = np.full(num_classes, (1 - rarest / num_classes) / (num_classes - 1))
            shares[0] = rarest / num_classes
            cells = (sizes / sizes.sum())[:, None] * shares
            counts = rng.multinomial(round(voting * number), cells.ravel()).reshape(cells.shape)
            found = seen(counts, scale, sizes, number if public else None, normal=normal, seed=draw)
            alarms += [found.gathered is not None, found.unheard != (), found.voted is not None]
        assert (binom.sf(alarms - 1, DRAWS, FALSE_ALARM) > FALSE_FAILURE).all(), (s, num_classes, scale, alarms)


@pytest.mark.parametrize(("trust", "delta"), [(Trust.LOCAL, 0), (Trust.SHUFFLE, Fraction(1, 10**6))])
def test_estimates_that_err_together_raise_no_more_alarms(trust: Trust, delta: Fraction) -> None:
    """Collision: the sum of all cells strays further than independent ones would. Nine of ten records vote."""
    rng, ballot, draws = seeded(2, "together"), Ballot(num_queries=20, num_classes=3), 150
    terms = Terms(epsilon=Fraction(2), delta=delta, trust=trust, mechanism="collision")
    [protocol] = terms.protocols(ballot, 2000)
    alarms = 0
    for draw in range(draws):
        chosen = rng.integers(20, size=(2000, 1))
        chosen[:200] = NOBODY
        votes, noise = Votes(ballot, chosen, rng.integers(3, size=(2000, 1))), SeededNoise(draw)
        tally = protocol.server([protocol.client(votes, noise)], noise).tally
        assert tally is not None
        alarms += signs(tally, np.full(20, 20), num_records=2000).voted is not None
    assert binom.sf(alarms - 1, draws, FALSE_ALARM) > FALSE_FAILURE


@pytest.mark.parametrize("public", [False, True])
def test_votes_that_gather_elsewhere_a_missing_class_and_missing_records_are_seen(public: bool) -> None:
    rng, sizes, number = seeded(1, "odd"), np.full(100, 20), 2500 if public else None
    one_place = np.zeros((100, 3), dtype=np.int64)
    one_place[7] = [1300, 700, 498]
    one_place[8, 0] = 2
    assert seen(one_place, 2, sizes, number, normal=False, seed=1) == Signs(gathered=1)
    ten = np.zeros((100, 3), dtype=np.int64)
    ten[:10] = rng.multinomial(2500, np.full(30, 1 / 30)).reshape(10, 3)
    found = seen(ten, 2, sizes, number, normal=False, seed=2).gathered
    assert found is not None and 8 <= found <= 12
    misspelt = rng.multinomial(2500, np.full(300, 1 / 300)).reshape(100, 3)
    misspelt[:, 1] = 0
    found_odd = seen(misspelt, 2, sizes, number, normal=False, seed=3)
    assert found_odd.unheard == ((1,) if public else ()) and found_odd.gathered is None
    assert found_odd.voted == (pytest.approx(1667, abs=200) if public else None)
    absent = np.full((12, 3), 300)
    absent[:, 2] = 0
    assert seen(absent, 2, np.full(12, 20), 7200 if public else None, normal=False, seed=4) == Signs(unheard=(2,))


def test_through_loud_noise_nothing_is_claimed() -> None:
    sizes, counts = np.full(100, 20), np.zeros((100, 3), dtype=np.int64)
    counts[7] = 100
    assert seen(counts, 200, sizes, None, normal=False, seed=1) == Signs()
