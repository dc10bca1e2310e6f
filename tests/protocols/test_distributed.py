from __future__ import annotations

import math
from dataclasses import replace
from fractions import Fraction
from pickle import dumps

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.stats import chisquare

from recordwise.errors import InvalidInput, ProtocolFault
from recordwise.privacy.accountant import total_epsilon
from recordwise.privacy.guarantee import Neighbours, Trust, rounded_up
from recordwise.privacy.noise import DiscreteLaplace, PolyaDifference, SeededNoise, SystemNoise
from recordwise.protocols.distributed import OVERFLOW, DistributedLaplace, ModularSum, Share
from recordwise.protocols.terms import Terms
from recordwise.votes.ballot import NOBODY, Ballot, Votes

FALSE_FAILURE = 1e-9
BALLOT = Ballot(num_queries=3, num_classes=2)


def protocol(**changes: object) -> DistributedLaplace:
    fields = {
        "ballot": BALLOT,
        "epsilon": Fraction(1),
        "survivors": 3,
        "parties": 5,
        "largest_count": 100,
        "colluding": 0,  # unless a test is about readers who added noise
        **changes,
    }
    return DistributedLaplace(**fields)  # type: ignore[arg-type]


def votes(count: int, query: int = 0, label: int = 0, ballot: Ballot = BALLOT) -> Votes:
    return Votes(ballot, np.full((count, 1), query, np.int32), np.full((count, 1), label, np.int32))


def shares(asked: DistributedLaplace, parties: int) -> list[Share]:
    return [asked.client(votes(10), SystemNoise()) for _ in range(parties)]


def modular(law: NDArray[np.float64], bits: int) -> NDArray[np.float64]:
    """A law on ..., -1, 0, 1, ... (centred) seen modulo 2^bits."""
    values = np.arange(len(law)) - len(law) // 2
    return np.bincount(values % 2**bits, weights=law, minlength=2**bits)


def shared_noise(shape: Fraction, parties: int, scale: Fraction, reach: int) -> NDArray[np.float64]:
    """The law of the sum of `parties` shares of that shape, added up share by share."""
    share = PolyaDifference(shape, scale).pmf(np.arange(-reach, reach + 1))
    total = share
    for _ in range(parties - 1):
        total = np.convolve(total, share, mode="same")
    return total


@pytest.mark.parametrize("neighbours", list(Neighbours))
@pytest.mark.parametrize("parties", [3, 4, 5])
def test_the_modular_sum_is_private_by_enumeration(neighbours: Neighbours, parties: int) -> None:
    asked = protocol(neighbours=neighbours)
    cells = BALLOT.cells_changed(neighbours)
    law = modular(shared_noise(Fraction(1, 3), parties, asked.scale, 400), 6)
    up, down = np.log(law / np.roll(law, 1)), np.log(law / np.roll(law, -1))
    # Add or remove: one cell moves up or down; replace: one moves up and another moves down, independently.
    worst = max(up.max(), down.max()) if cells == 1 else max(up.max() + down.max(), -(up.min() + down.min()))
    assert worst <= 1 + 1e-6
    if parties == 3:
        assert worst > 0.99, "the budget is used"


@pytest.mark.parametrize("neighbours", list(Neighbours))
def test_a_twin_whose_shares_are_too_small_is_caught(neighbours: Neighbours) -> None:
    asked = protocol(neighbours=neighbours)
    law = modular(shared_noise(Fraction(1, 4), 3, asked.scale, 400), 6)  # shares for four, but three came
    worst = BALLOT.cells_changed(neighbours) * np.abs(np.log(law / np.roll(law, 1))).max()
    assert worst > 1.05
    assert worst == pytest.approx(float(protocol(neighbours=neighbours, survivors=4).realised_epsilon(3)), rel=1e-4)


def noise_of(asked: DistributedLaplace, parties: int) -> NDArray[np.int64]:
    nobody = votes(1, NOBODY, NOBODY, asked.ballot)
    total = asked.aggregate(asked.client(nobody, SystemNoise()) for _ in range(parties))
    half = 1 << asked.modulus_bits - 1
    return (total.residues.ravel().astype(np.int64) + half) % (2 * half) - half


def fits(values: NDArray[np.int64], law: DiscreteLaplace | PolyaDifference) -> float:
    edge = 8
    pmf = law.pmf(np.arange(-edge + 1, edge))
    counts = np.array([(values == value).sum() for value in range(-edge + 1, edge)])
    observed, expected = np.append(counts, len(values) - counts.sum()), np.append(pmf, 1 - pmf.sum()) * len(values)
    return float(chisquare(observed, expected * observed.sum() / expected.sum()).pvalue)


def test_the_planned_minimum_adds_exactly_discrete_laplace_noise() -> None:
    asked = protocol(ballot=Ballot(num_queries=1000, num_classes=20))
    noise = noise_of(asked, 3)
    assert fits(noise, DiscreteLaplace(Fraction(2))) > FALSE_FAILURE
    assert asked.law(3) == DiscreteLaplace(Fraction(2))
    assert fits(noise, DiscreteLaplace(Fraction(9, 5))) < FALSE_FAILURE  # power: ten per cent less is seen
    assert fits(noise_of(asked, 2), DiscreteLaplace(Fraction(2))) < FALSE_FAILURE
    assert fits(noise_of(asked, 5), asked.law(5)) > FALSE_FAILURE
    assert fits(noise_of(asked, 5), asked.law(3)) < FALSE_FAILURE


def test_the_tally_is_the_sum_of_the_parties_counts_and_small_noise() -> None:
    asked = protocol(epsilon=60, largest_count=50)
    sent = [asked.client(votes(10, query=party % 3), SystemNoise()) for party in range(5)]
    tally = asked.server(sent, SystemNoise())
    assert tally.estimate == pytest.approx(np.array([[20, 0], [20, 0], [10, 0]]), abs=2)
    assert tally.guarantee.trust is Trust.DISTRIBUTED
    assert tally.guarantee.is_pure
    assert tally.guarantee.honest_parties == 3
    assert tally.law == PolyaDifference(Fraction(5, 3), Fraction(1, 30))


def test_fewer_survivors_than_guaranteed_are_refused() -> None:
    asked = protocol()
    with pytest.raises(ProtocolFault, match=">= 3 parties, got 2"):
        asked.server(shares(asked, 2), SystemNoise())
    with pytest.raises(ProtocolFault, match=">= 3 parties, got 0"):
        asked.server([], SystemNoise())
    with pytest.raises(ProtocolFault, match="<= 5 parties, got 6"):
        asked.server(shares(asked, 6), SystemNoise())
    assert asked.server(shares(asked, 3), SystemNoise()).guarantee.private


def test_the_realised_epsilon_is_the_planned_one_or_tells_what_a_shortfall_costs() -> None:
    asked = protocol()
    assert [asked.realised_epsilon(parties) for parties in (3, 4, 5)] == [1, 1, 1]
    assert asked.realised_epsilon(1) > asked.realised_epsilon(2) > Fraction(11, 10)
    assert total_epsilon([asked.event]) == asked.guarantee.epsilon == 1


def test_the_server_needs_nothing_but_the_modular_sum() -> None:
    asked = protocol()
    total = asked.aggregate(shares(asked, 4))
    assert asked.release(total).estimate.shape == (3, 2)
    assert total.parties == 4
    with pytest.raises(ProtocolFault, match="residues below"):
        asked.release(ModularSum(total.residues + (np.uint64(1) << np.uint64(40)), 4, True))
    with pytest.raises(ProtocolFault, match="residues below"):
        asked.release(ModularSum(total.residues[:2], 4, True))
    with pytest.raises(ProtocolFault, match="residues below"):
        asked.aggregate([Share(np.zeros((9, 9), np.uint64), private=True)])


def test_the_modulus_leaves_room_for_every_count_and_its_noise() -> None:
    asked = protocol(largest_count=10**6, epsilon=Fraction(1, 100))
    room = 2 ** (asked.modulus_bits - 1) - asked.largest_count
    assert BALLOT.num_cells * asked.law(asked.parties).two_sided_tail(room) <= OVERFLOW
    assert 2 ** (asked.modulus_bits - 1) < 4 * (asked.largest_count + 10_000 * 32), "and not much more than that"
    for count in (0, 10**6):  # the ends of the range come back right
        residues = np.full((3, 2), count, dtype=np.int64).astype(np.uint64) & asked._mask
        assert (asked.release(ModularSum(residues, 3, True)).estimate == count).all()
    below = (np.full((3, 2), -12345)).astype(np.uint64) & asked._mask
    assert (asked.release(ModularSum(below, 3, True)).estimate == -12345).all()


def test_the_accuracy_bound_covers_for_any_number_of_parties() -> None:
    asked = protocol(ballot=Ballot(num_queries=1000, num_classes=20))
    for parties in (3, 5):
        law = asked.law(parties)
        reach = next(distance for distance in range(1, 1000) if law.two_sided_tail(distance) <= 1e-3)
        exceeded = (np.abs(noise_of(asked, parties)) >= reach).sum()
        assert exceeded <= 20 + 6 * math.sqrt(20)  # 20,000 cells: a false alarm is rarer than 1e-8


def test_a_share_is_neither_shown_nor_pickled() -> None:
    share = shares(protocol(), 1)[0]
    assert repr(share) == "Share(3, 2)"
    with pytest.raises(InvalidInput, match="pickled"):
        dumps(share)


def test_seeded_noise_is_never_called_private() -> None:
    asked = protocol()
    seeded = [*shares(asked, 2), asked.client(votes(10), SeededNoise(1))]
    assert not asked.server(seeded, SystemNoise()).guarantee.private
    assert not asked.server(shares(asked, 3), SeededNoise(1)).guarantee.private


def test_bad_parameters_are_one_line() -> None:
    for changes in (
        {"epsilon": float("nan")},
        {"survivors": 0},
        {"survivors": 6},
        {"parties": 2.0},
        {"largest_count": 0},
        {"largest_count": 2**62},
    ):
        with pytest.raises(InvalidInput) as error:
            protocol(**changes)
        assert "\n" not in str(error.value)
    with pytest.raises(ProtocolFault, match="votes were cast"):
        protocol().client(votes(1, ballot=replace(BALLOT, num_classes=3)), SystemNoise())


@pytest.mark.parametrize(("parties", "insider"), [(2, 2.28), (3, 1.71), (10, 1.17)])
def test_a_reader_who_added_noise_takes_it_away_unless_it_is_counted(parties: int, insider: float) -> None:
    """The figures are those of an attack on a release calibrated for all parties: epsilon 1, replace, one vote."""
    trusting = Terms(epsilon=Fraction(1), trust=Trust.DISTRIBUTED, parties=parties, colluding=0)
    (open_hearted,) = trusting.protocols(BALLOT, 100)
    assert isinstance(open_hearted, DistributedLaplace)
    assert (open_hearted.survivors, open_hearted.fewest) == (parties, parties)
    found = open_hearted.guarantee.insider_epsilon
    assert found == open_hearted.realised_epsilon(parties - 1)
    assert float(found) == pytest.approx(insider, abs=0.005)
    assert f"e^{rounded_up(found)} holds" in str(trusting.guarantee((open_hearted,)))

    wary = Terms(epsilon=Fraction(1), trust=Trust.DISTRIBUTED, parties=parties)
    (counted,) = wary.protocols(BALLOT, 100)
    assert isinstance(counted, DistributedLaplace)
    assert (counted.survivors, counted.fewest, counted.parties) == (parties - 1, parties, parties)
    assert counted.realised_epsilon(parties - 1) == counted.guarantee.insider_epsilon == counted.guarantee.epsilon == 1
    assert "it holds against a reader who added noise, too" in str(wary.guarantee((counted,)))


@pytest.mark.parametrize("neighbours", list(Neighbours))
@pytest.mark.parametrize("parties", [2, 3, 5])
def test_the_real_shares_less_the_reader_s_own_are_private_by_enumeration(neighbours: Neighbours, parties: int) -> None:
    """The law of every share but one, added up share by share as clients draw them."""
    worst = {}
    for colluding in (0, 1):
        terms = Terms(
            epsilon=Fraction(1), trust=Trust.DISTRIBUTED, parties=parties, colluding=colluding, neighbours=neighbours
        )
        (asked,) = terms.protocols(BALLOT, 100)
        assert isinstance(asked, DistributedLaplace)
        law = modular(shared_noise(Fraction(1, asked.survivors), parties - 1, asked.scale, 400), 6)
        worst[colluding] = BALLOT.cells_changed(neighbours) * np.abs(np.log(law / np.roll(law, 1))).max()
        claimed = asked.guarantee.insider_epsilon
        assert claimed is not None
        assert worst[colluding] <= float(claimed) + 1e-6
        assert worst[colluding] > 0.99 * float(claimed), "the claim is no larger than it must be"
    assert worst[0] > 1.05 > 1 + 1e-6 > worst[1]


def test_rounds_add_up_for_insiders_too() -> None:
    for delta in (0, Fraction(1, 10**6)):
        terms = Terms(epsilon=Fraction(1), delta=delta, trust=Trust.DISTRIBUTED, parties=3, colluding=0, rounds=4)  # type: ignore[arg-type]
        promise = terms.guarantee(terms.protocols(BALLOT, 100))
        assert promise.insider_epsilon is not None
        assert promise.insider_epsilon > Fraction(15, 10) * promise.epsilon


def test_one_party_alone_says_that_it_could_take_all_noise_away() -> None:
    alone = Terms(epsilon=Fraction(1), trust=Trust.DISTRIBUTED)
    (asked,) = alone.protocols(BALLOT, 100)
    assert asked.guarantee.insider_epsilon is None
    assert "that one could take all noise away" in str(alone.guarantee((asked,)))


def test_a_sum_without_the_colluding_parties_is_refused() -> None:
    asked = protocol(colluding=1)
    with pytest.raises(ProtocolFault, match=">= 4 parties, got 3"):
        asked.server(shares(asked, 3), SystemNoise())
    assert asked.server(shares(asked, 4), SystemNoise()).guarantee.insider_epsilon == 1
    with pytest.raises(InvalidInput, match="survivors and colluding must be <= the 5 parties together, got 3 and 3"):
        protocol(colluding=3)
    with pytest.raises(InvalidInput, match="colluding must leave one of 2 parties honest, got 2"):
        Terms(epsilon=Fraction(1), trust=Trust.DISTRIBUTED, parties=2, colluding=2)
