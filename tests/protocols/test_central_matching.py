"""Central matching: exact privacy by enumerating every matching, every record and small tallies of the others."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from functools import cache
from itertools import permutations, product

import numpy as np
import pytest
from scipy.special import logsumexp
from tests.protocols.test_central import neighbouring, some_votes, tables

from recordwise.errors import InvalidInput
from recordwise.privacy.events import Pure
from recordwise.privacy.guarantee import Neighbours, Trust
from recordwise.privacy.noise import SeededNoise, SystemNoise
from recordwise.protocols.central import CentralMatching, ExactCounts
from recordwise.protocols.release import Matched, pack, unpack
from recordwise.protocols.terms import Terms
from recordwise.votes.ballot import Ballot, Votes

ROUNDING = 1e-9
EPSILON = Fraction(7, 10)
BALLOTS = [Ballot(num_queries=c, num_classes=c, votes_per_record=k) for c, k in ((2, 1), (2, 2), (3, 1), (3, 2))]


def votes_of_matchings(counts: np.ndarray) -> np.ndarray:
    """(..., C!) the score of every matching."""
    size = counts.shape[-1]
    every = np.array(list(permutations(range(size))))
    return counts[..., np.arange(size), every].sum(axis=-1)


@cache
def other_votes(size: int) -> np.ndarray:
    """(tallies, C!) scores from the other records: all small tallies, and some in which few cells are far ahead."""
    values = (0, 1, 2, 100) if size == 2 else (0, 1, 100)
    cells = np.array(list(product(values, repeat=size * size))).reshape(-1, size, size)
    scores = votes_of_matchings(cells)
    return np.unique(scores - scores.min(axis=1, keepdims=True), axis=0)  # a constant makes no difference


def losses(scale: Fraction, ballot: Ballot, neighbours: Neighbours) -> tuple[float, float]:
    """The largest log-ratio of any outcome's probabilities, and the largest spread of log-ratios between outcomes."""
    others = other_votes(ballot.num_classes)
    pairs = {
        (tuple(votes_of_matchings(before)), tuple(votes_of_matchings(after)))
        for before, after in neighbouring(ballot, neighbours)
    }
    laws = {}
    for gain in {gain for pair in pairs for gain in pair}:
        scores = (others + np.array(gain)) / float(scale)
        laws[gain] = scores - logsumexp(scores, axis=1, keepdims=True)
    largest = widest = 0.0
    for before, after in pairs:
        ratios = laws[before] - laws[after]
        largest = max(largest, float(ratios.max()))
        widest = max(widest, float((ratios.max(axis=1) - ratios.min(axis=1)).max()))
    return largest, widest


@pytest.mark.parametrize("ballot", BALLOTS, ids=str)
def test_a_record_is_worth_nothing_or_one_vote_to_any_matching_whatever_k_is(ballot):
    gains = [votes_of_matchings(table) for table in tables(ballot)]
    assert {int(gain) for each in gains for gain in each} <= {0, 1}


@pytest.mark.parametrize("neighbours", Neighbours)
@pytest.mark.parametrize("ballot", BALLOTS, ids=str)
def test_a_matching_costs_its_epsilon_and_half_the_scale_twice_that(ballot, neighbours):
    protocol = CentralMatching(ballot=ballot, neighbours=neighbours, epsilon=EPSILON)
    largest, widest = losses(protocol.scale, ballot, neighbours)
    assert largest <= EPSILON * (1 + ROUNDING)
    assert widest <= EPSILON * (1 + ROUNDING)  # bounded range
    assert largest >= EPSILON * (1 - ROUNDING)  # nothing of the budget is wasted
    twin, _ = losses(protocol.scale / 2, ballot, neighbours)
    assert twin > EPSILON * 1.99


@pytest.mark.parametrize(("neighbours", "changed"), [(Neighbours.REPLACE, 2), (Neighbours.ADD_REMOVE, 1)])
@pytest.mark.parametrize("k", [1, 2, 4])
def test_noise_follows_from_the_budget_and_the_neighbours_and_not_from_k(neighbours, changed, k):
    ballot = Ballot(num_queries=4, num_classes=4, votes_per_record=k)
    protocol = CentralMatching(ballot=ballot, neighbours=neighbours, epsilon=0.1)
    assert protocol.scale == 10 * changed
    assert protocol.event == Pure(Fraction(1, 10))
    assert protocol.guarantee.neighbours is neighbours
    assert protocol.guarantee.trust is Trust.CENTRAL
    assert protocol.guarantee.is_pure
    assert protocol.noise_std(10) == pytest.approx(1.2825 * 10 * changed, rel=1e-4)  # of a Gumbel variable


def test_how_records_are_spread_over_clients_makes_no_difference():
    ballot = Ballot(num_queries=3, num_classes=3)
    protocol, votes, noise = CentralMatching(ballot=ballot, epsilon=1), some_votes(ballot, 100, 1), SystemNoise()
    parts = [Votes(ballot, votes.queries[i::3], votes.labels[i::3]) for i in range(3)]
    whole = protocol.server([protocol.client(votes, noise)], SeededNoise(7))
    split = protocol.server([protocol.client(part, noise) for part in parts], SeededNoise(7))
    np.testing.assert_array_equal(whole.chosen, split.chosen)


def test_a_release_gives_every_class_one_query_and_says_whether_its_noise_was_private():
    protocol = CentralMatching(ballot=Ballot(num_queries=3, num_classes=3), epsilon=1)
    counts = ExactCounts(np.array([[90, 80, 0], [95, 0, 3], [90, 5, 70]]))
    honest, seeded = (protocol.server([counts], noise) for noise in (SystemNoise(), SeededNoise(1)))
    assert honest.chosen.tolist() == [1, 0, 2]
    assert honest.guarantee == protocol.guarantee
    assert not seeded.guarantee.private


def test_a_release_is_read_back_as_it_was_written():
    protocol = CentralMatching(ballot=Ballot(num_queries=3, num_classes=3), epsilon=Fraction(1, 3))
    release = protocol.server([ExactCounts(np.eye(3, dtype=np.int64))], SystemNoise())
    again = unpack(pack(release))
    assert isinstance(again, Matched)
    assert (again.ballot, again.guarantee, again.scale) == (release.ballot, release.guarantee, Fraction(6))
    np.testing.assert_array_equal(again.chosen, release.chosen)


@pytest.mark.parametrize(
    ("change", "rule"),
    [
        ({"num_queries": 5}, "s must be the 4 classes, got 5"),
        ({"labels_per_record": 2}, "r must be 1, got 2"),
        ({"num_queries": 17, "num_classes": 17}, "at most 16 classes, got 17"),
    ],
)
def test_ballots_that_cannot_be_matched_are_refused_in_one_line(change, rule):
    ballot = replace(Ballot(num_queries=4, num_classes=4), **change)
    with pytest.raises(InvalidInput, match=rule) as refusal:
        CentralMatching(ballot=ballot, epsilon=1)
    assert "\n" not in str(refusal.value)


@pytest.mark.parametrize("epsilon", [0, -1, float("nan"), float("inf")])
def test_a_budget_that_is_none_is_refused(epsilon):
    with pytest.raises(InvalidInput):
        CentralMatching(ballot=Ballot(num_queries=4, num_classes=4), epsilon=epsilon)


def test_terms_make_it_when_asked_and_never_by_themselves():
    ballot = Ballot(num_queries=4, num_classes=4)
    asked = Terms(epsilon=Fraction(1, 2), mechanism="matching").protocols(ballot, 100)
    assert asked == (CentralMatching(ballot=ballot, epsilon=Fraction(1, 2)),)
    assert not isinstance(Terms(epsilon=Fraction(1, 2)).protocols(ballot, 100)[0], CentralMatching)
    with pytest.raises(InvalidInput, match="rounds must be 1, got 3"):
        Terms(epsilon=Fraction(1, 2), mechanism="matching", rounds=3)
