from __future__ import annotations

import math
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.stats import chisquare

from recordwise.errors import InvalidInput, ProtocolFault
from recordwise.labels.bounds import accuracy
from recordwise.privacy.events import Approximate
from recordwise.privacy.flood import Flood, flood_delta
from recordwise.privacy.guarantee import Neighbours, Trust
from recordwise.privacy.noise import DiscreteLaplace, NegativeBinomial, PolyaDifference, SeededNoise, SystemNoise
from recordwise.protocols.shuffle import Increments, ShuffleMulti
from recordwise.votes.ballot import NOBODY, Ballot, Votes

FALSE_FAILURE = 1e-9

BALLOT = Ballot(num_queries=3, num_classes=4)


def protocol(**changes: object) -> ShuffleMulti:
    fields = {"ballot": BALLOT, "epsilon": Fraction(2), "delta": Fraction(1, 1000), "senders": 5, **changes}
    return ShuffleMulti(**fields)  # type: ignore[arg-type]


def one_record(ballot: Ballot, query: int = 0, label: int = 0) -> Votes:
    return Votes(ballot, np.array([[query]], np.int32), np.array([[label]], np.int32))


def abstention(ballot: Ballot) -> Votes:
    return one_record(ballot, NOBODY, NOBODY)


def many_cells(**changes: object) -> ShuffleMulti:
    """A thousand cells nobody votes for: a thousand independent draws of the view of one cell."""
    return protocol(ballot=Ballot(num_queries=500, num_classes=8), epsilon=3, delta=Fraction(1, 50), **changes)


def views(asked: ShuffleMulti, messages: Increments) -> NDArray[np.int64]:
    """(cells, 2) positive and negative messages, as the server counts them."""
    return np.bincount(messages.codes, minlength=2 * asked.ballot.num_cells).reshape(-1, 2)


def expected_view(asked: ShuffleMulti, size: int) -> NDArray[np.float64]:
    noise = asked.law(asked.senders)
    assert isinstance(noise, DiscreteLaplace)
    one_sided = NegativeBinomial(Fraction(1), noise.scale).pmf(np.arange(size))
    cancelling = NegativeBinomial(asked.flood.shape, asked.flood.scale).pmf(np.arange(size))
    law = np.zeros((size, size))
    for z, weight in enumerate(cancelling):
        law[z:, z:] += weight * np.outer(one_sided[: size - z], one_sided[: size - z])
    return law


def fits(observed: NDArray[np.int64], law: NDArray[np.float64]) -> float:
    """The p-value of the observed views under the law; rare views are taken together."""
    size = len(law)
    inside = observed[(observed < size).all(axis=1)]
    counts = np.zeros_like(law)
    np.add.at(counts, (inside[:, 0], inside[:, 1]), 1)
    common = law * len(observed) >= 8
    seen = np.append(counts[common], len(observed) - counts[common].sum())
    expected = np.append(law[common], 1 - law[common].sum()) * len(observed)
    return float(chisquare(seen, expected).pvalue)


def test_real_messages_and_the_simulator_follow_the_exact_law_of_the_view() -> None:
    asked = many_cells()
    law = expected_view(asked, 120)
    sent = asked.shuffle((asked.client(abstention(asked.ballot), SystemNoise()) for _ in range(5)), SystemNoise())
    drawn = np.stack(asked._numbers(np.zeros(asked.ballot.num_cells, np.int64), 5, SystemNoise()), axis=1)
    assert fits(views(asked, sent), law) > FALSE_FAILURE
    assert fits(drawn, law) > FALSE_FAILURE
    # Power: four senders' shares, or a flood a fifth smaller, are told apart.
    short = [asked.client(abstention(asked.ballot), SystemNoise()) for _ in range(4)]
    assert fits(views(asked, Increments(np.concatenate([part.codes for part in short]), 5, True)), law) < FALSE_FAILURE
    twin = many_cells()
    twin.__dict__["flood"] = Flood(asked.flood.shape * Fraction(4, 5), asked.flood.scale)
    assert fits(drawn, expected_view(twin, 120)) < FALSE_FAILURE


def test_one_client_with_many_records_sends_what_many_clients_send() -> None:
    asked = many_cells()
    nobody = Votes(asked.ballot, np.full((5, 1), NOBODY, np.int32), np.full((5, 1), NOBODY, np.int32))
    assert fits(views(asked, asked.client(nobody, SystemNoise())), expected_view(asked, 120)) > FALSE_FAILURE


def test_the_tally_is_the_count_plus_the_stated_noise() -> None:
    asked = protocol(epsilon=50, senders=5)  # little noise: the counts shine through
    votes = [one_record(BALLOT, query=1, label=2) for _ in range(5)]
    tally = asked.server((asked.client(vote, SystemNoise()) for vote in votes), SystemNoise())
    truth = np.zeros((3, 4))
    truth[1, 2] = 5
    assert np.abs(tally.estimate - truth).max() <= 3
    assert tally.law == DiscreteLaplace(Fraction(2) / (Fraction(9, 10) * 50))
    assert tally.guarantee.private


def test_the_simulator_gives_a_tally_like_the_servers() -> None:
    asked, counts = protocol(senders=1), one_record(BALLOT).counts()
    tally = asked.simulate_cohort(counts, seed=0)
    assert tally.law == asked.law(1)
    assert tally.guarantee == replace(asked.guarantee, private=False)
    with pytest.raises(ProtocolFault, match="at least 5 senders, got 1"):
        protocol().simulate_cohort(counts, seed=0)


def test_fewer_senders_than_planned_are_refused() -> None:
    asked = protocol()
    sent = [asked.client(one_record(BALLOT), SystemNoise()) for _ in range(4)]
    with pytest.raises(ProtocolFault, match="at least 5 senders, got 4"):
        asked.server(sent, SystemNoise())
    with pytest.raises(ProtocolFault, match="got 0"):
        asked.server([], SystemNoise())


def test_more_senders_add_noise_and_say_so() -> None:
    asked = protocol()
    sent = [asked.client(one_record(BALLOT), SystemNoise()) for _ in range(7)]
    tally = asked.server(sent, SystemNoise())
    assert tally.law == PolyaDifference(Fraction(7, 5), 1 / (Fraction(9, 10)))
    assert tally.noise_std > asked.noise_std(5)


@pytest.mark.parametrize(("neighbours", "cells"), [(Neighbours.REPLACE, 8), (Neighbours.ADD_REMOVE, 4)])
def test_epsilon_and_delta_are_split_over_the_cells_that_change(neighbours: Neighbours, cells: int) -> None:
    ballot = Ballot(num_queries=6, num_classes=5, votes_per_record=2, labels_per_record=2)
    asked = protocol(ballot=ballot, neighbours=neighbours, flood_share=Fraction(1, 2))
    each = Fraction(2, cells)
    assert asked.law(5).std == DiscreteLaplace(2 / each).std  # half of the budget is the paper's 4kr/epsilon
    spent = flood_delta(asked.flood, noise_epsilon=each / 2, flood_epsilon=each / 2)
    assert 0.98 * asked.delta / cells < spent <= asked.delta / cells
    assert asked.event == Approximate(Fraction(2), Fraction(1, 1000))
    assert asked.guarantee.honest_parties == 5
    assert asked.guarantee.trust is Trust.SHUFFLE


def test_expected_messages_are_the_average_and_known_before() -> None:
    asked = many_cells()
    sent = [len(asked.client(one_record(asked.ballot), SystemNoise()).codes) for _ in range(20)]
    # The mean of 20 senders over 4,000 cells varies by 0.42 %; six deviations and more are allowed.
    assert np.mean(sent) == pytest.approx(asked.expected_messages, rel=0.027)
    fewer = protocol(flood_share=Fraction(1, 2))
    assert fewer.expected_messages < protocol().expected_messages
    assert fewer.noise_std(5) > protocol().noise_std(5)


def test_messages_travel_one_by_one_and_bad_ones_are_refused() -> None:
    asked = protocol()
    sent = asked.client(one_record(BALLOT), SystemNoise())
    wire = asked.to_bytes(sent)
    assert {len(message) for message in wire} <= {4}
    assert (asked.from_bytes(wire, senders=1).codes == sent.codes).all()
    with pytest.raises(ProtocolFault, match="4 bytes, got 3"):
        asked.from_bytes([b"abc"], senders=1)
    with pytest.raises(ProtocolFault, match="below 24, got 24"):
        asked.from_bytes([(24).to_bytes(4, "big")], senders=1)
    with pytest.raises(ProtocolFault, match="below 24"):
        asked.server([Increments(np.array([99], np.uint32), 5, True)], SystemNoise())


def test_seeded_noise_is_never_called_private() -> None:
    asked = protocol(senders=1)
    seeded = asked.client(one_record(BALLOT), SeededNoise(3))
    assert not asked.server([seeded], SystemNoise()).guarantee.private
    assert not asked.server([asked.client(one_record(BALLOT), SystemNoise())], SeededNoise(1)).guarantee.private
    assert "messages" in repr(seeded)
    assert str(seeded.codes[:1].tolist()) not in repr(seeded)


def test_the_accuracy_bound_covers() -> None:
    """A cell's error exceeds the law's bound for one in a thousand no more often than that."""
    asked = many_cells()
    law = asked.law(5)
    reach = next(distance for distance in range(1, 1000) if law.two_sided_tail(distance) <= 1e-3)
    counts = np.zeros((asked.ballot.num_queries, asked.ballot.num_classes), dtype=np.int64)
    counts[0, 0] = 5
    errors = np.concatenate([np.abs(asked.simulate_cohort(counts, seed=s).estimate - counts).ravel() for s in range(5)])
    assert (errors >= reach).sum() <= 20 + 6 * 20**0.5  # 20,000 cells
    assert (errors >= reach - 2).any(), "and the bound is not far too wide"


def test_the_stated_accuracy_holds_where_the_printed_one_does_not() -> None:
    """The paper's alpha = (4kr/epsilon)·log(C/beta) is for continuous noise; whole numbers lie on its edge."""
    asked = protocol(epsilon=4, flood_share=Fraction(1, 2))  # scale 1
    classes, printed = BALLOT.num_classes, 6.0
    beta = classes * math.exp(-printed)
    pmf = asked.law(5).pmf(np.arange(-400, 401))

    def failure(alpha: float) -> float:
        """P(some class of a query is off by alpha or more), by adding up the law."""
        off = pmf[np.abs(np.arange(-400, 401)) >= alpha].sum()
        return float(1 - (1 - off) ** classes)

    assert failure(printed) > 1.4 * beta
    assert failure(accuracy(asked.law(5), classes, beta)) <= beta


def test_bad_parameters_are_one_line() -> None:
    for changes in (
        {"epsilon": 0},
        {"delta": 0},
        {"delta": float("nan")},
        {"flood_share": 1},
        {"senders": 0},
        {"senders": 2.5},
    ):
        with pytest.raises(InvalidInput) as error:
            protocol(**changes)
        assert "\n" not in str(error.value)
    other = replace(BALLOT, num_queries=4)
    with pytest.raises(ProtocolFault, match="votes were cast"):
        protocol().client(one_record(other), SystemNoise())
    none = Votes(BALLOT, np.empty((0, 1), np.int32), np.empty((0, 1), np.int32))
    assert protocol().client(none, SystemNoise()).senders == 0


def test_a_sender_who_reads_is_not_relied_on() -> None:
    asked = protocol(senders=4, colluding=1)
    with pytest.raises(ProtocolFault, match="at least 5 senders, got 4"):
        asked.server([asked.client(abstention(BALLOT), SystemNoise()) for _ in range(4)], SystemNoise())
    tally = asked.server([asked.client(abstention(BALLOT), SystemNoise()) for _ in range(5)], SystemNoise())
    assert tally.guarantee.insider_epsilon == asked.epsilon
    assert tally.law == asked.law(5)
    # Without the reader's part of the noise, the four others' is the discrete Laplace noise of the promise.
    assert isinstance(asked.law(4), DiscreteLaplace)
    assert protocol().guarantee.insider_epsilon is None
