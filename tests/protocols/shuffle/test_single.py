from __future__ import annotations

import time
from collections import Counter
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest

from recordwise.errors import InvalidInput, ProtocolFault
from recordwise.privacy.amplification import variation_ratio
from recordwise.privacy.events import Approximate
from recordwise.privacy.guarantee import Neighbours, Trust
from recordwise.privacy.noise import SeededNoise, SystemNoise
from recordwise.protocols.local import Answers, Collision
from recordwise.protocols.local.mechanism import mechanisms
from recordwise.protocols.local.unary_encoding import UnaryEncoding
from recordwise.protocols.shuffle import ShuffleSingle, single
from recordwise.protocols.shuffle.single import in_random_order
from recordwise.protocols.terms import Terms
from recordwise.votes.ballot import Ballot, Votes

FALSE_FAILURE = 1e-9

BALLOT = Ballot(num_queries=5, num_classes=4)


def protocol(**changes: object) -> ShuffleSingle:
    fields = {"ballot": BALLOT, "epsilon": Fraction(1, 2), "delta": Fraction(1, 10**6), "senders": 3000, **changes}
    return ShuffleSingle(**fields)  # type: ignore[arg-type]


def votes(count: int, ballot: Ballot = BALLOT) -> Votes:
    records = np.arange(count)
    queries = (records[:, None] + np.arange(ballot.votes_per_record)) % ballot.num_queries
    labels = (records[:, None] // 3 + np.arange(ballot.labels_per_record)) % ballot.num_classes
    return Votes(ballot, queries.astype(np.int32), labels.astype(np.int32))


@pytest.mark.parametrize("name", mechanisms())
@pytest.mark.parametrize("cells", [(1, 1), (2, 1), (2, 2)])
def test_every_mechanism_meets_the_central_target(name: str, cells: tuple[int, int]) -> None:
    if name == "subset-selection" and cells != (1, 1):
        with pytest.raises(InvalidInput, match="k·r must be 1"):
            _ = protocol(ballot=Ballot(num_queries=5, num_classes=4, votes_per_record=2), mechanism=name).local
        return
    ballot = Ballot(num_queries=5, num_classes=4, votes_per_record=cells[0], labels_per_record=cells[1])
    asked = protocol(ballot=ballot, mechanism=name)
    assert asked.local.name == name
    assert asked.epsilon0 > asked.epsilon
    tells = type(asked.local).tells(ballot)
    spent = variation_ratio(asked.senders, float(asked.epsilon0), float(asked.delta), tells).upper
    assert spent <= 0.5 * (1 + 1e-4)
    assert spent > 0.49, "and little stays unused"


def test_the_accountant_is_told_the_mechanisms_own_parameters() -> None:
    asked = protocol(mechanism="collision")
    local = asked.local
    assert isinstance(local, Collision)
    buckets, e = local.channel.buckets, float(np.exp(float(local.epsilon)))
    told = Collision.tells(BALLOT)(float(local.epsilon)).beta
    assert told == pytest.approx((1 - 1 / buckets) * (e - 1) / (e + buckets - 1))
    # That two cells collide with probability at least 1/l is what the factor 1 - 1/l rests on.
    sizes = local.channel.family.size(np.arange(buckets)) / local.channel.family.prime
    assert sizes.sum() == pytest.approx(1)
    assert (sizes**2).sum() >= (1 - 1e-12) / buckets
    assert local.channel.family.independence >= 2


def test_auto_takes_the_least_noise_after_amplification() -> None:
    best = protocol()
    spreads = [protocol(mechanism=name).noise_std(3000) for name in mechanisms()]
    assert best.noise_std(3000) <= 1.006 * min(spreads)


def test_shuffling_beats_local_trust_at_the_same_epsilon() -> None:
    asked = protocol(mechanism="collision")
    alone = Collision(ballot=BALLOT, epsilon=asked.epsilon)
    assert asked.noise_std(3000) < alone.noise_std(3000) / 3


def test_a_released_batch_estimates_the_counts() -> None:
    asked = protocol()
    cast = votes(3000)
    halves = [Votes(BALLOT, cast.queries[part], cast.labels[part]) for part in (slice(1000), slice(1000, None))]
    tally = asked.server((asked.client(half, SystemNoise()) for half in halves), SystemNoise())
    reach = next(d for d in range(1, 3000) if BALLOT.num_cells * tally.law.two_sided_tail(d) <= FALSE_FAILURE)
    assert np.abs(tally.estimate - cast.counts()).max() < reach
    assert reach < 30 * tally.noise_std, "the bound says something, for the worst cell"
    assert tally.guarantee == asked.guarantee
    assert asked.guarantee.trust is Trust.SHUFFLE
    assert asked.guarantee.neighbours is Neighbours.REPLACE
    assert asked.guarantee.honest_parties == 3000
    assert asked.event == Approximate(Fraction(1, 2), Fraction(1, 10**6))


def test_fewer_senders_than_planned_are_refused() -> None:
    asked = protocol()
    with pytest.raises(ProtocolFault, match="at least 3,000 senders, got 2,999"):
        asked.server([asked.client(votes(2999), SystemNoise())], SystemNoise())
    with pytest.raises(ProtocolFault, match="got 0"):
        asked.server([], SystemNoise())


def test_messages_that_name_their_sender_are_refused() -> None:
    asked = protocol(senders=3)
    answers = asked.client(votes(3), SystemNoise())
    named = Answers(answers.bodies, ids=np.zeros((3, 16), np.uint8))
    with pytest.raises(ProtocolFault, match="who sent it"):
        asked.server([named], SystemNoise())


def test_shuffling_keeps_the_messages_and_loses_their_order() -> None:
    asked = protocol(senders=500, mechanism="collision")
    sent = asked.client(votes(500), SystemNoise())
    shuffled = asked.shuffle([sent], SystemNoise())
    assert sorted(map(bytes, shuffled.bodies)) == sorted(map(bytes, sent.bodies))
    assert (shuffled.bodies != sent.bodies).any(axis=1).sum() > 450


def test_messages_travel_one_by_one_and_bad_ones_are_refused() -> None:
    asked = protocol(senders=4, mechanism="collision")
    sent = asked.client(votes(4), SystemNoise())
    wire = asked.to_bytes(sent)
    assert (asked.from_bytes(wire).bodies == sent.bodies).all()
    with pytest.raises(ProtocolFault, match="bytes, got 2"):
        asked.from_bytes([b"ab"])
    with pytest.raises(ProtocolFault):
        asked.from_bytes([b"\xff" * asked.local.message_size])
    with pytest.raises(ProtocolFault, match="bytes, got 1"):
        asked.server([Answers(np.zeros((4, 1), np.uint8))], SystemNoise())


def test_seeded_noise_is_never_called_private() -> None:
    asked = protocol(senders=3)
    assert not asked.server([asked.client(votes(3), SeededNoise(1))], SystemNoise()).guarantee.private
    assert not asked.server([asked.client(votes(3), SystemNoise())], SeededNoise(1)).guarantee.private


def test_a_tiny_crowd_gets_the_local_guarantee_at_least() -> None:
    asked = protocol(senders=1)
    assert asked.epsilon <= asked.epsilon0 < asked.epsilon * Fraction(1001, 1000)


def test_planning_for_a_million_senders_takes_moments() -> None:
    start = time.process_time()
    assert protocol(senders=1_000_000, mechanism="collision").epsilon0 > 4
    assert time.process_time() - start < 5


def test_bad_parameters_are_one_line() -> None:
    for changes in (
        {"epsilon": float("nan")},
        {"delta": 0},
        {"delta": 1},
        {"senders": 0},
        {"mechanism": "magic"},
    ):
        with pytest.raises(InvalidInput) as error:
            protocol(**changes)
        assert "\n" not in str(error.value)


def test_a_sender_who_reads_takes_the_own_message_away_unless_it_is_counted() -> None:
    """Records planned for: 60, of which one is the reader's. The other 59 must hide each other."""
    wary = Terms(epsilon=Fraction(1), delta=Fraction(1, 1000), trust=Trust.SHUFFLE, mechanism="unary-encoding")
    (counted,) = wary.protocols(BALLOT, 60)
    (trusting,) = replace(wary, colluding=0).protocols(BALLOT, 60)
    assert isinstance(counted, ShuffleSingle) and isinstance(trusting, ShuffleSingle)
    assert (counted.senders, counted.fewest) == (59, 60)
    tells = UnaryEncoding.tells(BALLOT)

    def left(asked: ShuffleSingle, senders: int) -> float:
        return tells(float(asked.epsilon0)).clones.delta_above(1.0, senders=senders, left_out=1e-9)

    assert left(counted, 59) <= 1e-3
    assert left(trusting, 60) <= 1e-3 < left(trusting, 59)
    assert counted.guarantee.insider_epsilon == 1
    assert "it holds against a reader who added noise, too" in str(wary.guarantee((counted,)))
    assert "a sender who reads the release, and knows the own noise, is not counted" in str(trusting.guarantee)
    with pytest.raises(ProtocolFault, match="at least 60 senders, got 59"):
        counted.server([counted.client(votes(59), SystemNoise())], SystemNoise())
    assert counted.server([counted.client(votes(60), SystemNoise())], SystemNoise()).guarantee.private


def test_one_sender_alone_is_hidden_by_nobody() -> None:
    tells = Collision.tells(BALLOT)(1.0).clones
    assert tells.epsilon(1e-6, senders=1).lower == pytest.approx(1, abs=1e-4), "the record's own message is counted"


@pytest.mark.parametrize("few", [0, 100], ids=["in groups", "at once"])
def test_every_order_of_the_records_is_as_likely(few: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """6 orders of 3 records, 6,000 draws: each count is within six deviations of 1,000, but for one case in 10^7."""
    monkeypatch.setattr(single, "FEW", max(1, few))
    ballot = Ballot(num_queries=3, num_classes=2)
    three = Votes(ballot, np.arange(3, dtype=np.int32)[:, None], np.zeros((3, 1), dtype=np.int32))
    noise = SeededNoise(0)
    orders = Counter(
        tuple(np.concatenate([some.queries[:, 0] for some in in_random_order(three, noise)]).tolist())
        for _ in range(6000)
    )
    assert len(orders) == 6
    assert max(abs(times - 1000) for times in orders.values()) < 6 * 29


def test_who_stands_first_does_not_send_first() -> None:
    """The sum's last bits follow from the order of its terms, so the order must not be that of the records."""
    count, ballot = 6000, Ballot(num_queries=2, num_classes=1)
    asked = protocol(ballot=ballot, epsilon=Fraction(2), senders=count, mechanism="unary-encoding")
    queries = (np.arange(count) >= count // 2).astype(np.int32)[:, None]
    sorted_votes = Votes(ballot, queries, np.zeros((count, 1), dtype=np.int32))
    bodies = np.concatenate([some.bodies for some in asked.clients(sorted_votes, SeededNoise(0), parties=1)])
    assert len(bodies) == count
    first = asked.local.server([Answers(bodies[: count // 2], private=False)], SeededNoise(0))
    # Half of either kind, give or take eight deviations; in the order of the records there were count / 2 of one kind.
    spread = 8 * (first.noise_std + (count / 8) ** 0.5)
    assert abs(first.estimate[0, 0] - count / 4) < spread < count / 4


def test_the_last_bits_of_a_sum_tell_the_order_of_its_terms() -> None:
    """The broken twin: the same messages in the order of the records and in another give different bits."""
    asked = protocol(mechanism="separation", ballot=Ballot(num_queries=40, num_classes=10), senders=3000)
    sent = asked.local.client(votes(3000, asked.ballot), SeededNoise(0))
    other = Answers(sent.bodies[::-1], private=False)
    straight, reverse = (asked.local.server([one], SeededNoise(0)).estimate for one in (sent, other))
    assert np.allclose(straight, reverse) and not np.array_equal(straight, reverse)
