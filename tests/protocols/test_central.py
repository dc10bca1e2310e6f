"""Central trust: exact privacy on small domains, for both neighbouring relations, with broken twins caught.

A tally's cells, and permute-and-flip's rows, are drawn independently given the data, so the largest log-ratio of a
whole release's probabilities is the sum of the largest ones of its cells or rows: small domains are enumerated exactly.
"""

from __future__ import annotations

import pickle
from dataclasses import replace
from fractions import Fraction
from functools import cache
from itertools import combinations, permutations, product

import numpy as np
import pytest
from scipy.special import logsumexp
from scipy.stats import binomtest

from recordwise.errors import InvalidInput, ProtocolFault
from recordwise.privacy.events import DiscreteGaussianTally, DiscreteLaplaceTally, Pure
from recordwise.privacy.guarantee import Neighbours, Trust
from recordwise.privacy.noise import DiscreteGaussian, DiscreteLaplace, SeededNoise, SystemNoise, permute_and_flip
from recordwise.protocols.central import CentralGaussian, CentralLaplace, CentralPermuteAndFlip, ExactCounts
from recordwise.protocols.release import Choices
from recordwise.randomness import seeded
from recordwise.votes.ballot import NOBODY, Ballot, Votes

FALSE_FAILURE = 1e-9  # a thousand such checks every day for ten years: under 1 % chance of one false alarm
ROUNDING = 1e-9
EPSILON = Fraction(7, 10)

BALLOTS = [
    Ballot(num_queries=1, num_classes=2),
    Ballot(num_queries=2, num_classes=3),
    Ballot(num_queries=2, num_classes=2, votes_per_record=2),
    Ballot(num_queries=2, num_classes=3, votes_per_record=2),
]
MULTI_LABEL = [Ballot(num_queries=2, num_classes=4, votes_per_record=k, labels_per_record=2) for k in (1, 2)]


def tables(ballot: Ballot) -> list[np.ndarray]:
    """The tallies of every single record there can be, abstentions and short label sets included."""

    def choices(options: int, most: int) -> list[tuple[int, ...]]:
        chosen = [some for size in range(most + 1) for some in combinations(range(options), size)]
        return [some + (NOBODY,) * (most - len(some)) for some in chosen]

    rows = product(
        choices(ballot.num_queries, ballot.votes_per_record), choices(ballot.num_classes, ballot.labels_per_record)
    )
    return [Votes(ballot, np.array([q], np.int32), np.array([y], np.int32)).counts() for q, y in rows]


def neighbouring(ballot: Ballot, neighbours: Neighbours) -> list[tuple[np.ndarray, np.ndarray]]:
    """What one record contributes before and after, over all pairs of neighbouring data sets."""
    single, nothing = tables(ballot), np.zeros((ballot.num_queries, ballot.num_classes), dtype=np.int64)
    if neighbours is Neighbours.REPLACE:
        return list(product(single, single))
    return [(table, nothing) for table in single] + [(nothing, table) for table in single]


def worst(loss_of_parts, ballot: Ballot, neighbours: Neighbours) -> float:
    """The largest sum, over a pair's cells or rows, of what each of them gives away."""
    return max(sum(loss_of_parts(before, after)) for before, after in neighbouring(ballot, neighbours))


# Discrete Laplace


def laplace_loss(law: DiscreteLaplace, ballot: Ballot, neighbours: Neighbours) -> float:
    outputs = np.arange(-30, 31)

    @cache
    def cell(before: int, after: int) -> float:
        return float(np.max(np.log(law.pmf(outputs - before)) - np.log(law.pmf(outputs - after))))

    def parts(before, after):
        return [cell(int(a), int(b)) for a, b in zip(before.ravel(), after.ravel(), strict=True)]

    return worst(parts, ballot, neighbours)


@pytest.mark.parametrize("neighbours", Neighbours)
@pytest.mark.parametrize("ballot", BALLOTS + MULTI_LABEL)
def test_a_laplace_tally_costs_its_epsilon_and_half_the_scale_twice_that(ballot, neighbours):
    protocol = CentralLaplace(ballot=ballot, neighbours=neighbours, epsilon=EPSILON)
    loss = laplace_loss(protocol.law, ballot, neighbours)
    assert loss <= EPSILON * (1 + ROUNDING)
    assert loss >= EPSILON * (1 - ROUNDING)  # nothing of the budget is wasted
    assert laplace_loss(DiscreteLaplace(protocol.law.scale / 2), ballot, neighbours) > EPSILON * 1.99


# Permute-and-flip


@cache
def flip_probabilities(row: tuple[int, ...], scale: Fraction) -> np.ndarray:
    """Probability of each class, from the definition: over all orders, the first class whose coin accepts."""
    accept = [np.exp(float((count - max(row)) / scale)) for count in row]
    probabilities = np.zeros(len(row))
    orders = list(permutations(range(len(row))))
    for order in orders:
        still_open = 1.0
        for c in order:
            probabilities[c] += still_open * accept[c] / len(orders)
            still_open *= 1 - accept[c]
    return probabilities


def flip_loss(scale: Fraction, ballot: Ballot, neighbours: Neighbours) -> float:
    @cache
    def row(before: tuple[int, ...], after: tuple[int, ...]) -> float:
        losses = [0.0]
        for others in product((0, 1, 2, 3, 80), repeat=ballot.num_classes):  # the other records' votes for this query
            p = flip_probabilities(tuple(a + b for a, b in zip(others, before, strict=True)), scale)
            q = flip_probabilities(tuple(a + b for a, b in zip(others, after, strict=True)), scale)
            losses.append(float(np.max(np.log(p) - np.log(q))))
        return max(losses)

    def parts(before, after):
        return [row(tuple(a.tolist()), tuple(b.tolist())) for a, b in zip(before, after, strict=True)]

    return worst(parts, ballot, neighbours)


@pytest.mark.parametrize("neighbours", Neighbours)
@pytest.mark.parametrize("ballot", BALLOTS)
def test_permute_and_flip_costs_its_epsilon_and_half_the_scale_twice_that(ballot, neighbours):
    protocol = CentralPermuteAndFlip(ballot=ballot, neighbours=neighbours, epsilon=EPSILON)
    loss = flip_loss(protocol.scale, ballot, neighbours)
    assert loss <= EPSILON * (1 + ROUNDING)
    assert loss >= EPSILON * (1 - (ROUNDING if ballot.num_classes == 2 else 1e-4))  # a third class only comes close
    assert flip_loss(protocol.scale / 2, ballot, neighbours) > EPSILON * 1.5


# Discrete Gaussian


def gaussian_divergence(sigma2: Fraction, order: float, shift: int) -> float:
    """Rényi divergence of the law from its shift, over all outputs that carry more than exp(-800) of it."""
    law, center = DiscreteGaussian(sigma2), round((1 - order) * shift)
    reach = int(40 * float(sigma2) ** 0.5) + 5  # the summands fall off like the law itself, around `center`
    outputs = np.arange(center - reach, center + reach + 1)
    log_total = logsumexp(law.log_likelihood(np.arange(-reach, reach + 1)))
    log_p, log_q = law.log_likelihood(outputs) - log_total, law.log_likelihood(outputs - shift) - log_total
    return float(logsumexp(order * log_p + (1 - order) * log_q)) / (order - 1)


def gaussian_rho(sigma2: Fraction, ballot: Ballot, neighbours: Neighbours, order: float) -> float:
    """The largest divergence over neighbours, divided by the order: at most rho under rho-zCDP."""

    @cache
    def cell(change: int) -> float:
        return gaussian_divergence(sigma2, order, change) / order if change else 0.0

    return worst(lambda before, after: [cell(int(abs(d))) for d in (before - after).ravel()], ballot, neighbours)


@pytest.mark.parametrize("neighbours", Neighbours)
@pytest.mark.parametrize("ballot", BALLOTS + MULTI_LABEL)
def test_a_gaussian_tally_is_rho_zcdp_and_half_the_deviation_is_not(ballot, neighbours):
    rho = Fraction(1, 8)
    protocol = CentralGaussian(ballot=ballot, neighbours=neighbours, rho=rho, delta=Fraction(1, 10**6))
    for order in (1.01, 1.5, 2.0, 3.0, 7.3, 20.0, 64.0):
        found = gaussian_rho(protocol.law.sigma2, ballot, neighbours, order)
        assert found <= rho * (1 + 1e-7)
        assert gaussian_rho(protocol.law.sigma2 / 4, ballot, neighbours, order) > 2 * rho
    assert gaussian_rho(protocol.law.sigma2, ballot, neighbours, 2.0) >= rho * (1 - 1e-7)  # tight at whole orders


def hockey_stick(sigma2: Fraction, cells: int, epsilon: float) -> float:
    """The exact delta at this epsilon when `cells` cells change by one: the loss is a function of their sum alone."""
    law = DiscreteGaussian(sigma2)
    reach = int(15 * float(sigma2) ** 0.5) + 5
    one = law.pmf(np.arange(-reach, reach + 1))
    many = one
    for _ in range(cells - 1):
        many = np.convolve(many, one)
    sums = np.arange(len(many)) - cells * reach
    loss = (cells - 2 * sums) / float(2 * sigma2)  # log P(z) / P(z - 1), added up over the cells
    return float((many * np.maximum(0, -np.expm1(np.minimum(0, epsilon - loss)))).sum())


@pytest.mark.parametrize("neighbours", Neighbours)
@pytest.mark.parametrize("ballot", [BALLOTS[0], MULTI_LABEL[1]])
def test_the_printed_epsilon_covers_the_exact_delta_and_half_the_deviation_does_not(ballot, neighbours):
    protocol = CentralGaussian(ballot=ballot, neighbours=neighbours, rho=Fraction(1, 20), delta=Fraction(1, 10**5))
    cells, epsilon = ballot.cells_changed(neighbours), float(protocol.guarantee.epsilon)
    delta = hockey_stick(protocol.law.sigma2, cells, epsilon)
    assert 0.9 * protocol.delta < delta <= protocol.delta
    assert hockey_stick(protocol.law.sigma2 / 4, cells, epsilon) > 10 * protocol.delta


@pytest.mark.parametrize("neighbours", Neighbours)
def test_calibration_meets_the_asked_budget_exactly_where_it_counts(neighbours):
    ballot, epsilon, delta = BALLOTS[2], Fraction(1, 2), Fraction(1, 10**6)
    protocol = CentralGaussian.calibrated(ballot=ballot, epsilon=epsilon, delta=delta, neighbours=neighbours)
    found = hockey_stick(protocol.law.sigma2, ballot.cells_changed(neighbours), float(epsilon))
    assert 0.9 * delta < found <= delta


# What the protocols derive and release


@pytest.mark.parametrize(("neighbours", "changed"), [(Neighbours.REPLACE, 12), (Neighbours.ADD_REMOVE, 6)])
def test_noise_follows_from_the_budget_the_ballot_and_the_neighbours(neighbours, changed):
    ballot = Ballot(num_queries=9, num_classes=5, votes_per_record=2, labels_per_record=3)
    single = replace(ballot, labels_per_record=1)
    laplace = CentralLaplace(ballot=ballot, neighbours=neighbours, epsilon=0.1)
    flip = CentralPermuteAndFlip(ballot=single, neighbours=neighbours, epsilon=0.1)
    gaussian = CentralGaussian(ballot=ballot, neighbours=neighbours, rho=0.01, delta=1e-6)
    assert laplace.law == DiscreteLaplace(Fraction(changed * 10))
    assert laplace.event == DiscreteLaplaceTally(Fraction(changed * 10), changed)
    assert flip.scale == changed * 10 / 3
    assert flip.event == Pure(Fraction(1, 10))
    assert gaussian.law == DiscreteGaussian(Fraction(changed * 100, 2))
    assert gaussian.event == DiscreteGaussianTally(Fraction(changed * 100, 2), changed)
    assert gaussian.event.rho == gaussian.rho
    for protocol in (laplace, flip, gaussian):
        assert protocol.guarantee.neighbours is neighbours
        assert protocol.guarantee.trust is Trust.CENTRAL
        assert protocol.guarantee.is_pure is (protocol is not gaussian)
    assert laplace.noise_std(10) == laplace.law.std
    assert gaussian.noise_std(10) == gaussian.law.std
    assert flip.noise_std(10) == float(flip.scale)


def some_votes(ballot: Ballot, records: int, seed: int) -> Votes:
    rng = seeded(seed, "votes")
    queries = rng.integers(0, ballot.num_queries, size=(records, 1)).astype(np.int32)
    return Votes(ballot, queries, rng.integers(0, ballot.num_classes, size=(records, 1)).astype(np.int32))


def protocols(ballot: Ballot):
    return [
        CentralLaplace(ballot=ballot, epsilon=1),
        CentralPermuteAndFlip(ballot=ballot, epsilon=1),
        CentralGaussian(ballot=ballot, rho=1, delta=1e-6),
    ]


def released(release) -> np.ndarray:
    return release.chosen if hasattr(release, "chosen") else release.estimate


@pytest.mark.parametrize("which", range(3))
def test_how_records_are_spread_over_clients_makes_no_difference(which):
    ballot = Ballot(num_queries=4, num_classes=3)
    protocol, votes, noise = protocols(ballot)[which], some_votes(ballot, 100, 1), SystemNoise()
    parts = [Votes(ballot, votes.queries[i::3], votes.labels[i::3]) for i in range(3)]
    whole = protocol.server([protocol.client(votes, noise)], SeededNoise(7))
    split = protocol.server([protocol.client(part, noise) for part in parts], SeededNoise(7))
    np.testing.assert_array_equal(released(whole), released(split))


@pytest.mark.parametrize("which", [0, 2])
def test_a_tally_is_the_counts_plus_noise_of_its_law(which):
    ballot = Ballot(num_queries=40_000, num_classes=5)
    protocol, votes = protocols(ballot)[which], some_votes(ballot, 1000, 2)
    tally = protocol.server([protocol.client(votes, SystemNoise())], SystemNoise())
    noise = (tally.estimate - votes.counts()).ravel()
    assert tally.law == protocol.law
    assert tally.noise_std == protocol.law.std
    broken = DiscreteLaplace(tally.law.scale / 2) if which == 0 else DiscreteGaussian(tally.law.sigma2 / 4)
    for law, fits in ((protocol.law, True), (broken, False)):
        p_values = [binomtest(int((noise == z).sum()), noise.size, float(law.pmf(z))).pvalue for z in range(-3, 4)]
        assert bool(7 * min(p_values) > FALSE_FAILURE) is fits


@pytest.mark.parametrize("which", range(3))
def test_a_release_says_whether_its_noise_was_private(which):
    ballot = Ballot(num_queries=4, num_classes=3)
    protocol, votes = protocols(ballot)[which], some_votes(ballot, 10, 3)
    honest = protocol.server([protocol.client(votes, SystemNoise())], SystemNoise())
    seeded = protocol.server([protocol.client(votes, SystemNoise())], SeededNoise(1))
    assert honest.guarantee == protocol.guarantee
    assert honest.guarantee.private
    assert not seeded.guarantee.private
    assert str(seeded.guarantee).startswith("NOT PRIVATE")


def test_exact_counts_are_never_shown_or_pickled():
    message = ExactCounts(np.full((2, 2), 77))
    assert "77" not in repr(message)
    with pytest.raises(InvalidInput, match="must not be pickled"):
        pickle.dumps(message)


def test_messages_about_something_else_are_refused():
    ballot = Ballot(num_queries=4, num_classes=3)
    protocol = CentralLaplace(ballot=ballot, epsilon=1)
    other = Ballot(num_queries=5, num_classes=3)
    with pytest.raises(ProtocolFault, match="votes were cast on"):
        protocol.client(some_votes(other, 3, 4), SystemNoise())
    with pytest.raises(ProtocolFault, match="counts must have shape"):
        protocol.server([ExactCounts(np.zeros((5, 3), dtype=np.int64))], SystemNoise())


@pytest.mark.parametrize("epsilon", [0, -1, float("nan"), float("inf")])
def test_a_budget_that_is_none_is_refused(epsilon):
    ballot = Ballot(num_queries=4, num_classes=3)
    with pytest.raises(InvalidInput):
        CentralLaplace(ballot=ballot, epsilon=epsilon)
    with pytest.raises(InvalidInput):
        CentralPermuteAndFlip(ballot=ballot, epsilon=epsilon)
    with pytest.raises(InvalidInput):
        CentralGaussian(ballot=ballot, rho=epsilon, delta=1e-6)


def test_permute_and_flip_refuses_several_labels():
    with pytest.raises(InvalidInput, match="r must be 1"):
        CentralPermuteAndFlip(ballot=MULTI_LABEL[0], epsilon=1)


# Permute-and-flip against Laplace and argmax: 60 records a query, 77 % of one class, epsilon 0.1 (replace)

COUNTS = np.array([46, 2, 2, 2, 2, 2, 1, 1, 1, 1])


def flip_is_right(counts: np.ndarray, scale: float) -> float:
    """The best class is right when drawn among the accepted: E[1 / (1 + accepted others)], an integral of t^others."""
    nodes, weights = np.polynomial.legendre.leggauss(8)  # exact for the polynomial of degree 9 it is given
    accept = np.exp((counts[1:] - counts[0]) / scale)
    t = (nodes[:, None] + 1) / 2
    return float((weights / 2) @ np.prod(1 - accept + accept * t, axis=1))


def laplace_is_right(counts: np.ndarray, law: DiscreteLaplace) -> float:
    """The best class's noisy count exceeds all others, ties broken at random; the same integral over ties."""
    nodes, weights = np.polynomial.legendre.leggauss(8)
    values = np.arange(-1500, 1600)
    t = (nodes[:, None, None] + 1) / 2
    equal = law.pmf(values[:, None] - counts[1:])
    less = np.cumsum(equal, axis=0) - equal
    chance = np.prod(less + t * equal, axis=2)
    return float((weights / 2) @ chance @ law.pmf(values - counts[0]))


def test_permute_and_flip_labels_better_than_laplace_by_the_stated_rates():
    n = 100_000
    ballot = Ballot(num_queries=n, num_classes=10)
    flip, laplace = CentralPermuteAndFlip(ballot=ballot, epsilon=0.1), CentralLaplace(ballot=ballot, epsilon=0.1)
    assert flip.scale == laplace.law.scale == 20
    exact_flip, exact_laplace = flip_is_right(COUNTS, 20.0), laplace_is_right(COUNTS, laplace.law)
    assert exact_flip == pytest.approx(0.632, abs=0.003)
    assert exact_laplace == pytest.approx(0.553, abs=0.003)

    order = seeded(0, "classes").permuted(
        np.tile(np.arange(10), (n, 1)), axis=1
    )  # so that argmax breaks ties at random
    counts, right = COUNTS[order], order.argmin(axis=1)
    chosen = flip.server([ExactCounts(counts)], SystemNoise()).chosen
    highest = laplace.server([ExactCounts(counts)], SystemNoise()).estimate.argmax(axis=1)
    for hits, exact, other in (
        (int((chosen == right).sum()), exact_flip, exact_laplace),
        (int((highest == right).sum()), exact_laplace, exact_flip),
    ):
        assert binomtest(hits, n, exact).pvalue > FALSE_FAILURE
        assert binomtest(hits, n, other).pvalue < FALSE_FAILURE
    halved = permute_and_flip(counts, flip.scale / 2, SystemNoise())
    assert binomtest(int((halved == right).sum()), n, exact_flip).pvalue < FALSE_FAILURE


@pytest.mark.timeout(60)
def test_a_scale_that_would_take_for_ever_to_compute_with_is_refused() -> None:
    ballot = Ballot(num_queries=1, num_classes=2)
    promise = CentralPermuteAndFlip(ballot=ballot, epsilon=EPSILON).guarantee
    chosen = {"array": np.zeros(1, np.int64)}
    assert Choices.from_parts(ballot, promise, {"scale": "3/2"}, chosen).scale == Fraction(3, 2)
    with pytest.raises(InvalidInput, match="scale must be a finite number"):
        Choices.from_parts(ballot, promise, {"scale": "1e999999999"}, chosen)
