"""Questions in waves: whole transcripts enumerated exactly, and the assignment found from one bit per record."""

from __future__ import annotations

import math
import pickle
from collections.abc import Callable
from fractions import Fraction
from itertools import permutations, product
from typing import Any

import numpy as np
import pytest
from exact_laws import Law, every_vote, exact_law, largest_ratio
from scipy.stats import binomtest

from recordwise.device import Task
from recordwise.distiller import PrivateDistiller
from recordwise.errors import InvalidInput, ProtocolFault
from recordwise.federation.coordinator import Federation
from recordwise.labels import decode
from recordwise.planner import look, plan, recommend_queries
from recordwise.privacy.events import Pure
from recordwise.privacy.guarantee import Neighbours, Trust, Unit
from recordwise.privacy.noise import SeededNoise, SystemNoise, exp
from recordwise.protocols.local import Questions, Respondents
from recordwise.protocols.local.assignments import SHARES, Answered, _left, anywhere, next_sets, walked
from recordwise.protocols.local.indicator import Indicator
from recordwise.protocols.release import Assigned, pack, unpack
from recordwise.protocols.terms import Terms
from recordwise.randomness import seeded
from recordwise.votes.ballot import NOBODY, Ballot, Votes

FALSE_FAILURE = 1e-9
ROUNDING = 1e-12
EPSILON = Fraction(7, 10)
TWO, THREE = (Ballot(num_queries=size, num_classes=size) for size in (2, 3))
NOW = np.array([0])


def together(votes: list[Votes]) -> Votes:
    return Votes(
        votes[0].ballot, np.concatenate([one.queries for one in votes]), np.concatenate([one.labels for one in votes])
    )


def questions_after(said: tuple[bool, ...], ballot: Ballot) -> np.ndarray:
    """A public policy: every history of answers has a question of its own."""
    return seeded(sum(2**i * (1 + bit) for i, bit in enumerate(said)), "policy").random((1, *_shape(ballot))) < 0.5


def _shape(ballot: Ballot) -> tuple[int, int]:
    return ballot.num_queries, ballot.num_classes


def transcripts(
    votes: Votes, ballot: Ballot, indicator: Indicator, order: tuple[int, ...], kind: type[Respondents] = Respondents
) -> Law:
    """The exact law of all answers, each asked about what follows from those before."""

    def run(walk: Any) -> tuple[bool, ...]:
        respondents, said = kind(votes, indicator, walk), ()
        for row in order:
            said += (bool(respondents.answer(np.array([row]), questions_after(said, ballot), NOW)[0]),)
        return said

    return exact_law(run)


def worst_ratio(
    ballot: Ballot, indicator: Indicator, order: tuple[int, ...], kind: type[Respondents] = Respondents
) -> float:
    """Over all transcripts, all votes of the others, and all replacements of one record's vote."""
    every = list(every_vote(ballot))
    records = max(order) + 1
    laws = {
        chosen: transcripts(together([every[i] for i in chosen]), ballot, indicator, order, kind)
        for chosen in product(range(len(every)), repeat=records)
    }
    return max(
        largest_ratio([laws[(*others[:row], i, *others[row:])] for i in range(len(every))])
        for row in range(records)
        for others in product(range(len(every)), repeat=records - 1)
    )


class Forgetful(Respondents):
    """Answers whoever asks, as often as it is asked."""

    def _take_turns(self, rows: Any) -> None:
        pass


@pytest.mark.parametrize(("ballot", "order"), [(TWO, (0, 1)), (TWO, (1, 0)), (THREE, (0, 1))])
def test_a_whole_transcript_costs_every_record_epsilon_and_no_less(ballot: Ballot, order: tuple[int, ...]) -> None:
    indicator = Questions(ballot=ballot, epsilon=EPSILON).indicator
    assert worst_ratio(ballot, indicator, order) == pytest.approx(math.exp(EPSILON), rel=ROUNDING)


def test_a_wrong_flip_and_a_second_answer_cost_twice_that() -> None:
    twice = Questions(ballot=TWO, epsilon=2 * EPSILON).indicator
    assert worst_ratio(TWO, twice, (0, 1)) == pytest.approx(math.exp(2 * EPSILON), rel=ROUNDING)
    right = Questions(ballot=TWO, epsilon=EPSILON).indicator
    found = worst_ratio(TWO, right, (0, 0), Forgetful)
    assert found > math.exp(EPSILON) * 1.5  # e^(2·epsilon) where both questions tell two votes apart


def test_three_records_of_which_any_may_abstain_pay_epsilon_in_any_order() -> None:
    """Products of the answers' own laws: each is a record's only one, so its factors are the transcript's."""
    indicator = Questions(ballot=TWO, epsilon=EPSILON).indicator
    votes = [list(every_vote(TWO))[i] for i in (0, 4, 8)]
    for order in ((0, 1, 2), (2, 0, 1)):
        law = transcripts(together(votes), TWO, indicator, order)
        for said, chance in law.items():
            alone = Fraction(1)
            for turn, row in enumerate(order):
                question = questions_after(said[:turn], TWO)
                one = exact_law(
                    lambda walk, row=row, question=question: bool(
                        Respondents(votes[row], indicator, walk).answer(NOW, question, NOW)[0]
                    )
                )
                alone *= one[said[turn]]
            assert chance == alone


def test_a_record_says_the_truth_at_the_exact_odds_and_tosses_a_fair_coin_when_it_abstains() -> None:
    indicator = Questions(ballot=TWO, epsilon=EPSILON).indicator
    kept = exp(EPSILON)
    low, high = (kept / (kept + 1)).bounds(200)
    hit = Fraction(low + high, 1 << 201)
    for votes in every_vote(TWO):
        cell = int(votes.cells()[0, 0])
        for inside in product([False, True], repeat=4):
            question = np.array(inside).reshape(1, 2, 2)
            law = exact_law(
                lambda walk, votes=votes, question=question: bool(
                    Respondents(votes, indicator, walk).answer(NOW, question, NOW)[0]
                )
            )
            wanted = Fraction(1, 2) if cell == NOBODY else hit if inside[cell] else 1 - hit
            assert abs(law[True] - wanted) < Fraction(1, 1 << 190)


def test_many_answers_come_at_the_stated_odds() -> None:
    protocol, n = Questions(ballot=TWO, epsilon=1), 100_000
    votes = Votes(TWO, np.zeros((n, 1), np.int32), np.zeros((n, 1), np.int32))
    question = np.array([[[True, False], [False, False]]])
    rows = np.arange(n)
    yes = int(protocol.client(votes, SystemNoise()).answer(rows, question, np.zeros(n, np.int64)).sum())
    odds = math.e / (math.e + 1)
    assert binomtest(yes, n, odds).pvalue > FALSE_FAILURE
    assert binomtest(yes, n, 1.1 * odds).pvalue < FALSE_FAILURE


def some_votes(ballot: Ballot, count: int) -> Votes:
    rng = seeded(0, "some votes")
    return Votes(
        ballot,
        rng.integers(ballot.num_queries, size=(count, 1)).astype(np.int32),
        rng.integers(ballot.num_classes, size=(count, 1)).astype(np.int32),
    )


def test_a_second_question_is_refused_and_a_refused_call_leaves_no_trace() -> None:
    respondents = Questions(ballot=TWO, epsilon=1).client(some_votes(TWO, 5), SystemNoise())
    question = np.ones((1, 2, 2), dtype=bool)
    respondents.answer(np.array([3]), question, NOW)
    for rows in ([3], [0, 3], [1, 1]):
        with pytest.raises(ProtocolFault, match=r"one question, record \d was asked a second one") as refusal:
            respondents.answer(np.array(rows), question, np.zeros(len(rows), np.int64))
        assert "\n" not in str(refusal.value)
    assert len(respondents.answer(np.array([0, 1]), question, np.array([0, 0]))) == 2
    for row in (-1, 5):
        with pytest.raises(ProtocolFault, match=r"rows must lie in \[0, 5\)"):
            respondents.answer(np.array([row]), question, NOW)
    with pytest.raises(ProtocolFault, match="sets of cells"):
        respondents.answer(np.array([4]), np.ones((1, 3, 2), dtype=bool), NOW)


def test_respondents_keep_their_votes_to_themselves() -> None:
    respondents = Questions(ballot=TWO, epsilon=1).client(some_votes(TWO, 5), SystemNoise())
    assert repr(respondents) == "Respondents(5 records)"
    with pytest.raises(InvalidInput, match="must not be pickled"):
        pickle.dumps(respondents)


def test_the_server_asks_every_record_once_and_sees_answers_only() -> None:
    heard: list[int] = []

    class Counting(Respondents):
        def answer(self, rows: Any, sets: Any, which: Any) -> Any:
            heard.extend(rows.tolist())
            return super().answer(rows, sets, which)

    protocol = Questions(ballot=THREE, epsilon=1, waves=3, questions=4)
    client = Counting(some_votes(THREE, 100), protocol.indicator, SeededNoise(0))
    protocol.server([client], SystemNoise())
    assert sorted(heard) == list(range(100))


def pure_votes(ballot: Ballot, count: int, purity: float, seed: int) -> tuple[Votes, np.ndarray]:
    """Records of equally large queries with one class each, and the classes."""
    rng = seeded(seed, "pure votes")
    classes = rng.permutation(ballot.num_classes)
    queries = rng.integers(ballot.num_queries, size=count)
    wrong = (classes[queries] + rng.integers(1, ballot.num_classes, size=count)) % ballot.num_classes
    labels = np.where(rng.random(count) < purity, classes[queries], wrong)
    return Votes(ballot, queries[:, None].astype(np.int32), labels[:, None].astype(np.int32)), classes


def test_one_bit_per_record_settles_ten_clusters_at_epsilon_0_4() -> None:
    """Of 40 such runs, all 40 got all ten right; these two are replayed, and must."""
    ballot = Ballot(num_queries=10, num_classes=10)
    protocol = Questions(ballot=ballot, epsilon=Fraction(2, 5))
    for seed in range(2):
        votes, classes = pure_votes(ballot, 20_000, 0.88, seed)
        noise = SeededNoise(seed)
        found = protocol.server([protocol.client(votes, noise)], noise)
        np.testing.assert_array_equal(found.chosen, classes)


def test_a_query_without_any_pool_sample_is_given_the_class_that_is_left() -> None:
    votes, classes = pure_votes(THREE, 6_000, 0.95, 2)
    there = votes.queries[:, 0] != 1
    protocol = Questions(ballot=THREE, epsilon=2, sizes=(500, 0, 500))
    noise = SeededNoise(0)
    some = Votes(THREE, votes.queries[there], votes.labels[there])
    np.testing.assert_array_equal(protocol.server([protocol.client(some, noise)], noise).chosen, classes)


def test_abstaining_records_only_dilute_the_answers() -> None:
    ballot = Ballot(num_queries=4, num_classes=4)
    votes, classes = pure_votes(ballot, 8_000, 0.9, 1)
    silent = Votes(
        ballot, np.where(np.arange(8_000)[:, None] % 2, votes.queries, NOBODY).astype(np.int32), votes.labels
    )
    protocol, noise = Questions(ballot=ballot, epsilon=1), SeededNoise(1)
    found = protocol.server([protocol.client(silent, noise)], noise)
    np.testing.assert_array_equal(found.chosen, classes)
    assert 0.3 < found.purity < 0.8  # half of the records say nothing


def test_a_release_is_one_class_each_with_probabilities_and_says_whether_it_was_private() -> None:
    protocol = Questions(ballot=THREE, epsilon=1)
    votes = some_votes(THREE, 50)
    parts = [Votes(THREE, votes.queries[i::2], votes.labels[i::2]) for i in range(2)]
    honest = protocol.server([protocol.client(part, SystemNoise()) for part in parts], SystemNoise())
    assert honest.guarantee == protocol.guarantee
    assert sorted(honest.chosen.tolist()) == [0, 1, 2]
    np.testing.assert_allclose(honest.probabilities.sum(axis=0), 1)
    np.testing.assert_allclose(honest.probabilities.sum(axis=1), 1)
    for client, server in ((SeededNoise(0), SystemNoise()), (SystemNoise(), SeededNoise(0))):
        assert not protocol.server([protocol.client(votes, client)], server).guarantee.private
    again = unpack(pack(honest))
    assert isinstance(again, Assigned)
    assert (again.ballot, again.guarantee, again.purity) == (honest.ballot, honest.guarantee, honest.purity)
    np.testing.assert_array_equal(again.chosen, honest.chosen)
    np.testing.assert_array_equal(again.probabilities, honest.probabilities)
    labels = decode(again, sizes=np.ones(3), graph=None)
    np.testing.assert_array_equal(labels.hard, honest.chosen)
    np.testing.assert_array_equal(labels.leads, honest.probabilities[np.arange(3), honest.chosen])
    np.testing.assert_allclose(labels.probabilities.sum(axis=1), 1)
    with pytest.raises(InvalidInput, match="decoder must be 'auto' or one of assigned for this"):
        decode(again, sizes=np.ones(3), graph=None, decoder="field")


def test_a_replayable_run_is_replayed() -> None:
    protocol, votes = Questions(ballot=THREE, epsilon=1), some_votes(THREE, 50)
    one, other = (protocol.server([protocol.client(votes, noise)], noise) for noise in (SeededNoise(3), SeededNoise(3)))
    np.testing.assert_array_equal(one.probabilities, other.probabilities)


@pytest.mark.parametrize("sizes", [(0.25, 0.25, 0.25, 0.25), (0.1, 0.2, 0.3, 0.4)], ids=["equal", "unequal"])
def test_the_sampled_posterior_is_the_enumerated_one(sizes: tuple[float, ...]) -> None:
    """Shares of 24 assignments after few answers, against Bayes' rule over all of them and all shares."""
    rng = seeded(5, "posterior")
    size = 4
    sets = rng.random((12, size, size)) < 0.5
    answered = Answered(sets, rng.integers(12, 25, size=12), np.full(12, 36), 0.5, np.array(sizes))
    signs = np.where(sets, 1.0, -1.0)
    everywhere = np.array([sum(sizes[q] * one[q].mean() for q in range(size)) for one in signs])
    every = np.array(list(permutations(range(size))))
    own = np.array([[sum(sizes[q] * one[q, a[q]] for q in range(size)) for one in signs] for a in every])
    lean = everywhere + SHARES[:, None, None] * (own - everywhere)  # (shares, assignments, questions)
    weights = np.exp(answered.log_likelihood(lean)).sum(axis=0)
    wanted = np.zeros((size, size))
    for assignment, weight in zip(every, weights / weights.sum(), strict=True):
        wanted[np.arange(size), assignment] += weight
    found = walked(anywhere(size, rng), answered, 20_000, rng).probabilities
    assert np.abs(wanted - 1 / size).max() > 0.1  # the answers do say something
    np.testing.assert_allclose(found, wanted, atol=0.03)


def test_the_next_questions_are_about_what_is_in_doubt() -> None:
    rng = seeded(0, "doubt")
    sure = np.tile(np.arange(6), (64, 1))
    swapped = sure.copy()
    swapped[::2, [0, 1]] = [1, 0]
    sizes = np.full(6, 1 / 6)
    sets = next_sets(swapped, sizes, 8, 1.0, rng)
    signs = np.where(sets, 1, -1)
    either, other = signs[:, 0, 0] + signs[:, 1, 1], signs[:, 0, 1] + signs[:, 1, 0]
    assert (np.abs(either - other) == 4).all()  # the two ways give answers as different as can be
    assert next_sets(sure, sizes, 8, 1.0, rng).mean() == pytest.approx(
        0.5, abs=0.1
    )  # nothing is in doubt: any question


def test_a_wave_asks_about_all_that_is_in_doubt() -> None:
    """Six assignments: were answers worth nothing, the same few of them would be told apart again and again."""
    doubted, sizes = np.array([seeded(i, "six").permutation(8) for i in range(6)]), np.full(8, 1 / 8)
    hardest = []
    for worth in (0.0, 1_000.0):
        signs = np.where(next_sets(doubted, sizes, 8, worth, seeded(0, "wave")), 1, -1)
        lean = np.array([[sizes @ one[np.arange(8), a] for one in signs] for a in doubted])
        apart = ((lean[:, None] - lean) ** 2).sum(axis=2)
        hardest.append(apart[~np.eye(6, dtype=bool)].min())
    assert hardest[1] > 1.2 * hardest[0]


def test_what_an_answer_leaves_in_doubt_is_the_conditional_covariance() -> None:
    rng, worth = seeded(0, "left"), 7.0
    doubt, signs = rng.normal(size=(50, 9)), np.where(rng.random(9) < 0.5, 1.0, -1.0)
    before, after = (one.T @ one / 50 for one in (doubt, _left(doubt, doubt @ signs, worth)))
    np.testing.assert_allclose(np.linalg.inv(after), np.linalg.inv(before) + worth * np.outer(signs, signs))


def test_the_next_questions_are_about_large_queries_before_small_ones() -> None:
    sizes = np.array([0.4, 0.3, 0.2, 0.05, 0.03, 0.02])
    told = equal = 0.0
    for seed in range(20):
        rng = seeded(seed, "large and small")
        doubted = np.array([rng.permutation(6) for _ in range(6)])
        by_sizes, alike = (next_sets(doubted, known, 8, 0.0, rng) for known in (sizes, np.full(6, 1 / 6)))
        told += _disagreement(by_sizes, doubted, sizes)
        equal += _disagreement(alike, doubted, sizes)
    assert told > equal


def _disagreement(sets: np.ndarray, assignments: np.ndarray, sizes: np.ndarray) -> float:
    """The mean variance of the share of yes from assignment to assignment."""
    return float(np.mean([np.var([sizes[one[np.arange(6), a]].sum() for a in assignments]) for one in sets]))


@pytest.mark.parametrize(
    ("change", "rule"),
    [
        ({"num_queries": 5}, "s must be the 4 classes, got 5"),
        ({"labels_per_record": 2}, "k·r must be 1, got 2"),
        ({"votes_per_record": 2}, "k·r must be 1, got 2"),
        ({"num_queries": 21, "num_classes": 21}, "at most 20 classes, got 21"),
    ],
)
def test_ballots_that_cannot_be_assigned_are_refused_in_one_line(change: dict[str, int], rule: str) -> None:
    ballot = Ballot(**{"num_queries": 4, "num_classes": 4, **change})
    with pytest.raises(InvalidInput, match=rule) as refusal:
        Questions(ballot=ballot, epsilon=1)
    assert "\n" not in str(refusal.value)


@pytest.mark.parametrize(
    "wrong",
    [{"epsilon": 0}, {"epsilon": math.nan}, {"waves": 0}, {"questions": 0}, {"sizes": (1,)}, {"sizes": (1, -1)}],
)
def test_parameters_out_of_range_are_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(InvalidInput):
        Questions(**{"ballot": TWO, "epsilon": 1, **wrong})


def test_nobody_to_ask_and_votes_on_another_ballot_are_refused() -> None:
    protocol = Questions(ballot=TWO, epsilon=1)
    with pytest.raises(ProtocolFault, match="at least one record"):
        protocol.server([], SystemNoise())
    with pytest.raises(ProtocolFault, match="votes were cast on"):
        protocol.client(some_votes(THREE, 2), SystemNoise())


def test_records_that_answer_at_another_epsilon_are_refused() -> None:
    votes = Votes(TWO, np.array([[0]]), np.array([[1]]))
    loud = Questions(ballot=TWO, epsilon=2 * EPSILON).client(votes, SeededNoise(0))
    with pytest.raises(ProtocolFault, match="some do at another"):
        Questions(ballot=TWO, epsilon=EPSILON).server([loud], SeededNoise(0))


@pytest.mark.parametrize(("size", "records", "epsilon"), [(1, 3, 1), (2, 1, 50), (3, 5, Fraction(1, 1000))])
def test_the_smallest_and_the_surest_runs_end_well(size: int, records: int, epsilon: Any) -> None:
    ballot = Ballot(num_queries=size, num_classes=size)
    protocol = Questions(ballot=ballot, epsilon=epsilon)
    found = protocol.server([protocol.client(some_votes(ballot, records), SystemNoise())], SystemNoise())
    assert sorted(found.chosen.tolist()) == list(range(size))
    assert np.isfinite(found.probabilities).all()


def test_what_it_promises_follows_from_its_budget() -> None:
    protocol = Questions(ballot=TWO, epsilon=EPSILON)
    assert protocol.event == Pure(EPSILON)
    promise = protocol.guarantee
    assert promise.is_pure and promise.epsilon == EPSILON
    assert (promise.trust, promise.unit, promise.neighbours) == (Trust.LOCAL, Unit.RECORD, Neighbours.REPLACE)
    assert protocol.noise_std(100) == pytest.approx(10 / (2 * math.sinh(0.35)), rel=1e-9)


def test_terms_make_it_when_asked_and_never_by_themselves() -> None:
    terms = Terms(epsilon=EPSILON, trust=Trust.LOCAL, mechanism="questions")
    assert terms.protocols(THREE, 100) == (Questions(ballot=THREE, epsilon=EPSILON),)
    assert not isinstance(Terms(epsilon=EPSILON, trust=Trust.LOCAL).protocols(THREE, 100)[0], Questions)
    with pytest.raises(InvalidInput, match="rounds must be 1, got 2"):
        Terms(epsilon=EPSILON, trust=Trust.LOCAL, mechanism="questions", rounds=2)
    for trust in (Trust.CENTRAL, Trust.SHUFFLE):
        with pytest.raises(InvalidInput, match="mechanism under"):
            Terms(epsilon=EPSILON, delta=Fraction(1, 100), trust=trust, mechanism="questions")


def test_the_planner_asks_one_query_per_class_and_one_vote_per_record() -> None:
    terms = Terms(epsilon=Fraction(1), trust=Trust.LOCAL, mechanism="questions")
    pool = seeded(0, "questions").normal(size=(60, 2)) + 6 * (np.arange(60) % 2)[:, None]
    outlook = look(pool, encoder="scaler", num_classes=2, num_records=1_000, attainable=0.95)
    made = plan(outlook, terms, compare=False)
    assert [(one.num_queries, one.votes_per_record) for one in made.considered] == [(2, 1)]
    assert made.recommended.label_accuracy.mean > 0.6
    assert recommend_queries(terms, pool, num_records=10, num_classes=7, encoder="scaler") == 7


def refusals() -> list[Callable[[], Any]]:
    terms = Terms(epsilon=Fraction(1), trust=Trust.LOCAL, mechanism="questions")
    federation = Federation(roster={"north": b"", "south": b""}, threshold=2, records=(10, 20))
    protocol = Questions(ballot=TWO, epsilon=1)
    return [
        lambda: terms.protocols_for_silos(TWO, federation.silos),
        lambda: Task(mechanism=protocol, queries=np.eye(2, dtype=np.float32)),  # type: ignore[arg-type]
    ]


@pytest.mark.parametrize("attempt", refusals(), ids=["federation", "device"])
def test_waves_are_not_carried_over_the_wire_and_it_says_so(attempt: Callable[[], Any]) -> None:
    with pytest.raises(InvalidInput, match="questions in waves have no wire form yet") as refusal:
        attempt()
    assert "\n" not in str(refusal.value)


def test_a_distiller_learns_from_one_bit_per_record(monkeypatch: pytest.MonkeyPatch) -> None:
    asked_with: list[Any] = []
    server = Questions.server
    monkeypatch.setattr(
        Questions, "server", lambda self, *rest: (asked_with.append(self.sizes), server(self, *rest))[1]
    )
    rng = seeded(0, "blobs")
    y = rng.integers(3, size=3_300)
    x = rng.normal(size=(len(y), 2)) + np.array([[0, 0], [9, 0], [0, 9]])[y]
    model = PrivateDistiller(
        epsilon=1.0,
        trust="local",
        mechanism="questions",
        encoder="scaler",
        classes=[0, 1, 2],
    )
    model.fit(x[300:], y[300:], X_public=x[:300], noise=SeededNoise(0))
    assert asked_with == [tuple(model.rounds_[0].queries.sizes.tolist())]  # the pool's clusters, which are public
    assert model.score(x[:300], y[:300]) > 0.95
    assert model.guarantee_.trust is Trust.LOCAL and model.guarantee_.epsilon == 1
    assert len(model.rounds_[0].queries.vectors) == 3
    with pytest.raises(InvalidInput, match="decoder must be"):
        PrivateDistiller(trust="local", mechanism="questions", decoder="field").fit(x[300:], y[300:], X_public=x[:300])
