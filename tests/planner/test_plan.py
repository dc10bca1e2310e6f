"""What the planner predicts, against what runs on generated worlds measure."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from fractions import Fraction
from functools import partial
from itertools import islice, pairwise
from typing import Any

import numpy as np
import pytest
from tests.planner.worlds import World, blobs

from recordwise.distiller import PrivateDistiller
from recordwise.errors import InvalidInput
from recordwise.planner import (
    Outlook,
    look,
    plan,
    planning,
    predict,
    recommend_queries,
    rough_plan,
    searching,
    simulate,
)
from recordwise.planner.outlook import AFFORDABLE, NO_NETWORK, STANDS_IN
from recordwise.planner.searching import (
    BETWEEN,
    NARROW,
    _candidates,
    _growing,
    _past_the_best,
    search,
    usual_queries,
)
from recordwise.planner.simulate import Outcome
from recordwise.planner.tasks import LEVELS
from recordwise.privacy.noise import SeededNoise
from recordwise.protocols.terms import Terms
from recordwise.queries.clusters import FOCUS

POINTS = 0.05  # how far a prediction may lie from the mean of three runs


def outlook(world: World, labelled: int = 0, **more: Any) -> Outlook:
    classes = int(world.labels.max()) + 1
    settings: dict[str, Any] = {"encoder": "scaler", "num_classes": classes, "num_records": len(world.records)}
    if labelled:
        settings["labels"] = world.some_labels(labelled)
    return look(world.pool, **{**settings, **more})


def terms(epsilon: str, **more: Any) -> Terms:
    return Terms(epsilon=Fraction(epsilon), **more)


WORLDS = {
    "easy": blobs(3, 3.0),
    "overlapping": blobs(5, 0.9, seed=2),
    "uneven": blobs(2, 1.0, shares=[0.8, 0.2], seed=3),
}


ASKED = {"loud": ("0.05", 10), "quiet": ("1", 30)}
QUICKLY = {("easy", "loud"), ("overlapping", "quiet"), ("uneven", "loud")}  # every world, either noise


@pytest.mark.parametrize(
    ("name", "epsilon", "s"),
    [
        pytest.param(name, *asked, id=f"{name}-{noise}", marks=() if (name, noise) in QUICKLY else pytest.mark.slow)
        for name in WORLDS
        for noise, asked in ASKED.items()
    ],
)
def test_predictions_hold_in_generated_worlds(name: str, epsilon: str, s: int) -> None:
    world = WORLDS[name]
    right = []
    for draw in range(3):
        model = PrivateDistiller(float(epsilon), num_queries=s, encoder="scaler", student=AFFORDABLE)
        model.fit(world.records, world.labels, X_public=world.pool, noise=SeededNoise(draw))
        right.append(model.score(world.test, world.test_labels))
    told = predict(outlook(world, labelled=150), terms(epsilon), num_queries=s).student_accuracy
    assert told.low <= told.mean <= told.high
    assert told.low - POINTS <= np.mean(right) <= told.high + POINTS
    assert told.mean == pytest.approx(np.mean(right), abs=2 * POINTS)


def test_a_plan_is_a_function_of_what_is_public_and_of_the_seed(monkeypatch: pytest.MonkeyPatch) -> None:
    told = []
    for _ in range(2):
        monkeypatch.setattr(simulate, "_SIMULATED", {})  # nothing is remembered
        told.append(predict(outlook(WORLDS["easy"]), terms("0.1"), num_queries=6))
    assert told[0] == told[1]


def test_what_was_simulated_once_is_known(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[Outcome] = []
    run = simulate._simulated

    def simulated(*given: Any) -> Outcome:
        made.append(run(*given))
        return made[-1]

    monkeypatch.setattr(simulate, "_SIMULATED", {})
    monkeypatch.setattr(simulate, "_simulated", simulated)
    first, again = (predict(outlook(WORLDS["easy"]), terms("0.1"), num_queries=6) for _ in range(2))
    assert first == again and len(made) == LEVELS
    for changed in (
        lambda: predict(outlook(WORLDS["easy"]), terms("0.2"), num_queries=6),
        lambda: predict(outlook(WORLDS["easy"]), terms("0.1"), num_queries=7),
        lambda: predict(outlook(WORLDS["easy"], decoder="argmax"), terms("0.1"), num_queries=6),
        lambda: predict(outlook(WORLDS["easy"], seed=1), terms("0.1"), num_queries=6),
        lambda: predict(outlook(WORLDS["easy"], num_records=10), terms("0.1"), num_queries=6),
    ):
        before = len(made)
        changed()
        assert len(made) == before + LEVELS  # another question is another simulation


def test_more_budget_never_predicts_clearly_worse_students() -> None:
    view = outlook(WORLDS["overlapping"], labelled=100)
    told = [predict(view, terms(epsilon), num_queries=20) for epsilon in ("0.01", "0.1", "1")]
    for less, more in pairwise(told):
        assert more.student_accuracy.mean > less.student_accuracy.mean - 0.02
    assert told[0].noise_std == pytest.approx(10 * told[1].noise_std, rel=0.01)


def test_the_recommended_number_of_queries_is_among_the_best_that_runs_find() -> None:
    world = blobs(4, 1.3, seed=4)
    found = plan(outlook(world, labelled=150), terms("0.1"), votes_per_record=(1,), compare=False)
    assert found.recommended in found.considered

    def measured(s: int) -> float:
        right = []
        for draw in range(3):
            model = PrivateDistiller(0.1, num_queries=s, encoder="scaler")
            model.fit(world.records, world.labels, X_public=world.pool, noise=SeededNoise(draw))
            right.append(model.score(world.test, world.test_labels))
        return float(np.mean(right))

    recommended = measured(found.recommended.num_queries)
    assert recommended > max(measured(s) for s in (4, 16, 80)) - 0.02


@pytest.mark.parametrize(
    ("asked", "taught", "words"),
    [
        ("linear", "linear", ""),
        (AFFORDABLE, AFFORDABLE, ""),
        ("counts", AFFORDABLE, NO_NETWORK.format(50)),
        ("mlp", AFFORDABLE, STANDS_IN),
        ({"name": "counts", "teaches": "mlp", "threshold": 0.3}, {**AFFORDABLE, "threshold": 0.3}, STANDS_IN),
    ],
)
def test_a_linear_student_stands_for_those_that_take_longer(asked: Any, taught: Any, words: str) -> None:
    view = look(WORLDS["easy"].pool, num_records=300, num_classes=2, encoder="scaler", student=asked)
    assert view.student.model == taught and view.left_out == words


def test_of_many_labelled_samples_some_are_looked_at(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every two are compared: a pool of which every class is known would take hours, and all memory."""
    world = WORLDS["easy"]
    monkeypatch.setattr("recordwise.planner.outlook.MOST_LABELLED", 60)
    monkeypatch.setattr("recordwise.planner.outlook.plausible", lambda *_: [])
    few, many, again = (outlook(world, labelled=count).known.seen for count in (60, 300, 300))
    assert few is not None and many is not None and again is not None
    assert (few.labels == world.pool_labels[:60]).all() and len(many.labels) == 60
    assert (many.vectors == again.vectors).all() and (many.labels == again.labels).all()
    pool = outlook(world).sight.placed(world.pool)
    places = [int(np.flatnonzero((pool == one).all(axis=1))[0]) for one in many.placed]
    assert max(places) > 60 and (world.pool_labels[places] == many.labels).all()


@pytest.mark.filterwarnings("error::RuntimeWarning")
@pytest.mark.parametrize("labels", [None, [0, 1] + 38 * [-1]])
def test_a_pool_of_one_sample_again_and_again_is_refused_in_a_line(labels: Any) -> None:
    view = look(np.ones((40, 3)), encoder="scaler", num_classes=2, num_records=500, labels=labels)
    with pytest.raises(InvalidInput, match="1 different samples, got 2"):
        plan(view, terms("1"))


def test_balanced_queries_get_even_votes_whatever_was_planned_before(monkeypatch: pytest.MonkeyPatch) -> None:
    told, votes = [], []
    expected = simulate._expected

    def seen(*given: Any) -> Any:
        cells = expected(*given)
        votes.append(cells.sum(axis=1))
        return cells

    monkeypatch.setattr(simulate, "_expected", seen)
    for balanced, earlier in ((True, ()), (True, (1,)), (False, ())):
        monkeypatch.setattr(simulate, "_SIMULATED", {})
        view = outlook(WORLDS["uneven"], queries={"balanced": balanced})
        for k in (*earlier, 2):
            found = predict(view, terms("1"), num_queries=12, votes_per_record=k, places=[0])
        told.append(found)
    assert told[0] == told[1]
    even, *_, uneven = (one.std() / one.mean() for one in votes)
    assert even < uneven / 2


@pytest.mark.parametrize(
    ("classes", "sizes", "rounds", "said"),
    [(3, [6, 49], 1, ""), (3, [6, 50], 1, "50"), (3, [25], 2, "50"), (8, [79], 1, ""), (8, [80], 1, "80")],
)
def test_a_network_is_said_to_be_left_out_where_one_may_join(
    monkeypatch: pytest.MonkeyPatch, classes: int, sizes: list[int], rounds: int, said: str
) -> None:
    monkeypatch.setattr(Outlook, "outcomes", lambda *_, **__: [Outcome(labels=0.5, student=0.5)])
    view = outlook(WORLDS["easy"], num_classes=classes)
    found = plan(view, terms("1", rounds=rounds), num_queries=sizes, compare=False)
    assert found.left_out == (said and NO_NETWORK.format(said)) and ("network" in found.as_text()) == bool(said)


def test_two_partitions_that_a_network_may_join_are_said_to_leave_it_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Outlook, "outcomes", lambda *_, **__: [Outcome(labels=0.5, student=0.5)])
    for size, said in ((24, ""), (25, NO_NETWORK.format(50))):
        found = plan(outlook(WORLDS["easy"]), terms("1"), num_queries=[size], votes_per_record=[1])
        assert found.recommended.partitions == 1 and found.considered[-1].partitions == 2
        assert found.left_out == said


@pytest.mark.parametrize("peak", [13, 27, 70, 130])
def test_a_search_goes_on_between_the_best_size_and_its_neighbours(monkeypatch: pytest.MonkeyPatch, peak: int) -> None:
    tried = []

    def outcomes(self: Outlook, protocols: Any, *_: Any, **__: Any) -> list[Outcome]:
        tried.append(protocols[0].ballot.num_queries)
        right = 0.9 - 0.1 * abs(np.log(tried[-1] / peak))
        return [Outcome(labels=right, student=right)]

    monkeypatch.setattr(Outlook, "outcomes", outcomes)
    view = outlook(blobs(10, 1.0, pool=1_000))
    found = plan(view, terms("10"), votes_per_record=(1,), compare=False)
    assert peak / NARROW <= found.recommended.num_queries <= peak * NARROW
    sizes = [one.num_queries for one in found.considered]
    assert sizes == sorted(set(sizes)) and len(set(tried)) <= len(_candidates(view, terms("10"), 1, 100)) + BETWEEN


@pytest.mark.parametrize(
    ("right", "best"),
    [
        ([0.860, 0.852, 0.844, 0.836, 0.828], 10),  # a straight line is seen as it is, to its very ends
        ([0.80, 0.84, 0.86, 0.860, 0.858], 80),  # of those about as good the nearest to what is usual, which is 100
        ([0.70, 0.80, 0.86, 0.82, 0.78], 40),  # unless it is worse
        ([0.70, 0.80, 0.83, 0.88, 0.81], 80),
        ([0.70, 0.82, 0.86, 0.83, 0.845], 80),  # an unlucky one is known by those beside it
    ],
)
def test_what_lies_beyond_the_top_is_not_held_up_by_it(
    monkeypatch: pytest.MonkeyPatch, right: list[float], best: int
) -> None:
    found = dict(zip((10, 20, 40, 80, 160), right, strict=True))

    def outcomes(self: Outlook, protocols: Any, *_: Any, **__: Any) -> list[Outcome]:
        here = found[protocols[0].ballot.num_queries]
        return [Outcome(labels=here, student=here)]

    monkeypatch.setattr(Outlook, "outcomes", outcomes)
    view = outlook(blobs(10, 1.0, pool=1_000))
    told = plan(view, terms("10"), num_queries=list(found), votes_per_record=(1,), compare=False)
    assert told.recommended.num_queries == best


@pytest.mark.parametrize(
    ("records", "epsilon", "usual"),
    [
        (3_000, "0.1", 24),  # 2.8 / epsilon is the noise's deviation, of which a query should get 4.25
        (3_000, "0.001", 9),  # three per class at least
        (100_000, "1", 100),  # a tenth of the pool at most
    ],
)
def test_usual_queries_get_votes_that_stand_out_from_their_noise(records: int, epsilon: str, usual: int) -> None:
    view = outlook(blobs(3, 1.0, pool=1_000), num_records=records)
    assert usual_queries(view, terms(epsilon)) == usual
    assert usual in [one.num_queries for one in search(view, terms(epsilon), places=[0]).found]


def test_no_search_ends_before_what_is_usual(monkeypatch: pytest.MonkeyPatch) -> None:
    """Few queries may look good in plausible tasks, and be useless in the real one."""

    def outcomes(self: Outlook, protocols: Any, *_: Any, **__: Any) -> list[Outcome]:
        size = protocols[0].ballot.num_queries
        right = {3: 0.85, 6: 0.8, 12: 0.8, 30: 0.8}.get(size, 0.9)
        return [Outcome(labels=right, student=right)]

    monkeypatch.setattr(Outlook, "outcomes", outcomes)
    view = outlook(blobs(3, 1.0, pool=1_000), num_records=100_000)
    found = search(view, terms("1"))
    assert found.found[found.best].num_queries >= 100


def test_a_number_that_nobody_sees_predicted_is_found_in_few_tasks(monkeypatch: pytest.MonkeyPatch) -> None:
    world, tried = WORLDS["easy"], []
    outcomes = Outlook.outcomes

    def seen(self: Outlook, protocols: Any, places: Any = None, **more: Any) -> list[Outcome]:
        tried.append(outcomes(self, protocols, places, **more))
        return tried[-1]

    monkeypatch.setattr(Outlook, "outcomes", seen)
    monkeypatch.setattr(searching, "_RECOMMENDED", {})
    settings: dict[str, Any] = {"num_records": 3000, "num_classes": 3, "encoder": "scaler", "student": "linear"}
    for epsilon, tasks in (("1", 2), ("0.001", LEVELS)):  # votes stand out clearly from their noise, or hardly
        tried.clear()
        recommend_queries(terms(epsilon), world.pool, **settings)
        assert {len(one) for one in tried} == {tasks}
    tried.clear()
    plan(outlook(world, student="linear"), terms("1"), num_queries=[6], votes_per_record=(1,))
    assert {len(one) for one in tried} == {LEVELS}  # what is shown is the mean over all of them


@pytest.mark.parametrize(
    ("right", "ends"),
    [
        ([0.5, 0.6, 0.7, 0.8, 0.82, 0.84], False),  # it pays
        ([0.5, 0.6, 0.7, 0.8, 0.801, 0.802], True),  # hardly
        ([0.7, 0.701, 0.702], False),  # too early to say
        ([0.5, 0.8, 0.7, 0.7], True),
        ([0.8, 0.795, 0.796, 0.797], True),
        ([0.5], False),
    ],
)
def test_more_queries_are_tried_as_long_as_they_pay(right: list[float], ends: bool) -> None:
    assert _past_the_best(right) == ends


@pytest.mark.parametrize("sizes", [[50, 200, 400, 800], [800, 400, 200, 50]])
def test_numbers_of_queries_are_compared_on_equally_many_samples(
    sizes: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Were each size judged on its own samples, the most queries would win: they come with the most samples."""

    def outcomes(self: Outlook, protocols: Any, places: Any = None, *, room_for: int = 0) -> list[Outcome]:
        asked = protocols[0].ballot.num_queries
        right = self.samples_for(max(asked, room_for)) / 10_000 - 1e-4 * abs(asked - 200)
        return [Outcome(labels=right, student=right)]

    monkeypatch.setattr(Outlook, "outcomes", outcomes)
    view = outlook(blobs(2, 1.0, pool=6_000))
    assert view.samples_for(200) < view.samples_for(400) < view.samples_for(800)
    found = plan(view, terms("1"), num_queries=sizes, votes_per_record=(1,), compare=False)
    assert found.recommended.num_queries == 200


def test_numbers_of_queries_grow_as_long_as_votes_stay_visible() -> None:
    view = outlook(blobs(2, 1.0, pool=3000), num_records=100_000)
    assert max(_candidates(view, terms("2"), 1, 300)) == 800  # 400 per class; of 1600 queries many would own one sample
    assert max(_candidates(view, terms("0.001"), 1, 6)) == 100
    assert list(islice(_growing(2), 8)) == [2, 4, 8, 20, 40, 100, 200, 400]


def test_a_plan_compares_votes_mechanisms_and_trust() -> None:
    found = plan(outlook(WORLDS["easy"]), terms("1"), num_queries=[6])
    assert [(one.votes_per_record, one.partitions) for one in found.considered] == [(1, 1), (2, 1), (1, 2)]
    compared = {(one.trust, one.mechanism) for one in found.compared}
    assert {("central", "permute-and-flip"), ("central", "matching"), ("distributed", "laplace")} <= compared
    assert {trust for trust, _ in compared} == {"central", "distributed", "local"}  # shuffled counts need a delta
    text = found.as_text()
    assert "->" in text and "a wide guess" in text and "local" in text
    assert "2 partitions: rounds = 2, queries.focus = 0" in text
    assert found.as_dict()["recommended"]["num_queries"] == 6


def test_under_noisier_trust_a_plan_compares_with_as_many_queries_as_that_can_bear(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(Outlook, "outcomes", lambda *_, **__: [Outcome(labels=0.5, student=0.5)])
    view = outlook(blobs(3, 1.0, pool=1_000), num_records=20_000)
    found = plan(view, terms("1"), num_queries=[90], votes_per_record=[1])
    sizes = {one.trust: one.num_queries for one in found.compared if one.mechanism != "matching"}
    usual = usual_queries(view, terms("1", trust="local"))
    assert usual < 90 and sizes == {"central": 90, "distributed": 90, "local": usual}
    few = plan(view, terms("1"), num_queries=[usual - 1], votes_per_record=[1])
    assert {one.num_queries for one in few.compared if one.trust == "local"} == {usual - 1}


def test_shuffled_mechanisms_are_told_apart_by_what_is_shuffled(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Outlook, "outcomes", lambda *_, **__: [Outcome(labels=0.5, student=0.5)])
    view = outlook(WORLDS["easy"], num_records=20_000)
    found = plan(view, terms("1", delta="1e-6", trust="shuffle"), num_queries=[6], votes_per_record=[1])
    shuffled = [one.mechanism for one in (found.recommended, *found.compared) if one.trust == "shuffle"]
    assert len(shuffled) > 2 and len(set(shuffled)) == len(shuffled)
    assert "single-message of collision" in shuffled


def test_a_plan_says_where_it_assumes_that_classes_are_equally_common(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Outlook, "outcomes", lambda *_, **__: [Outcome(labels=0.5, student=0.5)])
    known: tuple[dict[str, Any], ...] = ({}, {"class_shares": [0.5, 0.3, 0.2]}, {"labelled": 50})
    for more, assumed in zip(known, (True, False, False), strict=True):
        found = plan(outlook(WORLDS["easy"], **more), terms("1"), num_queries=[6], compare=False)
        assert found.shares_assumed == assumed and ("taken to be equally common" in found.as_text()) == assumed


def test_labels_that_tell_nothing_are_said_to_in_a_plan(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Outlook, "outcomes", lambda *_, **__: [Outcome(labels=0.5, student=0.5)])
    for by_chance, said in ((0.4, True), (0.01, False), (None, False)):
        monkeypatch.setattr(Outlook, "by_chance", by_chance)
        found = plan(outlook(WORLDS["easy"], labelled=50), terms("1"), num_queries=[6], compare=False)
        assert ("no better than shuffled ones" in found.basis) == said


def test_a_number_of_queries_that_is_given_shows_how_far_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is encoded before the first task is a small share of it."""
    told: list[float] = []
    begun: list[float] = []

    class Seen:
        @contextmanager
        def step(self, name: str) -> Iterator[Any]:
            yield told.append if name == "plan: numbers of queries" else lambda _: None

    simulated = simulate._simulated

    def noted(*given: Any) -> Outcome:
        begun.append(max(told, default=0.0))
        return simulated(*given)

    monkeypatch.setattr(simulate, "_SIMULATED", {})
    monkeypatch.setattr(simulate, "_simulated", noted)
    plan(outlook(WORLDS["easy"]), terms("1"), num_queries=[6], votes_per_record=[1], compare=False, progress=Seen())
    assert begun == pytest.approx([(1 + task) / (1 + LEVELS) for task in range(LEVELS)]) and told[-1] == 1


@pytest.mark.parametrize(("added", "taken"), [(0.02, 2), (0.0, 1)])
def test_two_partitions_are_recommended_where_they_pay(
    monkeypatch: pytest.MonkeyPatch, added: float, taken: int
) -> None:
    asked = []

    def outcomes(self: Outlook, protocols: Any, *_: Any, **__: Any) -> list[Outcome]:
        asked.append((len(protocols), self.queries.focus, sum(one.epsilon for one in protocols)))
        return [Outcome(labels=0.5, student=0.5 + added * (len(protocols) - 1))]

    monkeypatch.setattr(Outlook, "outcomes", outcomes)
    monkeypatch.setattr(planning, "_compared", lambda *_: [])
    found = plan(outlook(WORLDS["easy"]), terms("1"), num_queries=[6], votes_per_record=[1])
    assert found.recommended.partitions == taken
    assert asked == [(1, FOCUS, 1), (2, 0, 1)]  # both parts of the budget together are the budget


@pytest.mark.parametrize("trust", ["central", "distributed", "local", "shuffle"])
def test_every_trust_can_be_planned(trust: str) -> None:
    told = predict(
        outlook(WORLDS["easy"], num_records=20_000), terms("4", delta="1e-6", trust=trust, parties=2), num_queries=6
    )
    assert 0.3 < told.student_accuracy.mean <= 1


def test_matching_is_planned_with_one_query_for_each_class() -> None:
    found = plan(outlook(WORLDS["easy"]), terms("1", mechanism="matching"), compare=False)
    assert {one.num_queries for one in found.considered} == {3}
    settings = {"num_records": 10, "num_classes": 7, "encoder": "scaler"}
    assert recommend_queries(terms("1", mechanism="matching"), WORLDS["easy"].pool, **settings) == 7  # type: ignore[arg-type]


def test_two_rounds_are_planned_as_two_rounds() -> None:
    view = outlook(WORLDS["easy"])
    once, twice = (predict(view, terms("1", rounds=rounds), num_queries=6) for rounds in (1, 2))
    assert twice.noise_std == pytest.approx(2 * once.noise_std, rel=0.01)


def test_an_estimator_plans_with_its_own_settings() -> None:
    world = WORLDS["easy"]
    model = PrivateDistiller(1.0, encoder="scaler", num_queries=6, classes=["a", "b", "c"])
    known = ["abc"[one] for one in world.pool_labels[:50]] + [""] * 350
    found = model.plan(world.pool, num_records=3000, y_public=known, class_shares=[0.4, 0.3, 0.3])
    assert "50 labelled pool samples" in found.basis and "declared class shares" in found.basis
    assert found.recommended.num_queries == 6 and found.commonest == 0.4
    with pytest.raises(InvalidInput, match="num_records"):
        model.plan(world.pool)
    with pytest.raises(InvalidInput, match="classes"):
        PrivateDistiller(1.0).plan(world.pool, num_records=10)


@pytest.mark.parametrize("num_records", [10**9, 2**40, 10**15])
def test_as_many_records_as_anybody_has_are_planned_with_and_no_more(num_records: int) -> None:
    for planned in (partial(rough_plan, terms("1")), partial(look, WORLDS["easy"].pool, encoder="scaler")):
        if num_records <= 2**40:
            planned(num_records=num_records, num_classes=3)
            continue
        with pytest.raises(InvalidInput, match=r"^num_records must be a whole number <= 1,099,511,627,776, got "):
            planned(num_records=num_records, num_classes=3)


def test_impossible_requests_are_refused() -> None:
    world = WORLDS["easy"]
    view = outlook(world)
    for sizes in ([0], [401]):
        with pytest.raises(InvalidInput, match="num_queries"):
            plan(view, terms("1"), num_queries=sizes)
    for mistake, rule in (
        ({"num_classes": 1}, "num_classes must be >= 2"),
        ({"attainable": 0.2}, "attainable must lie in"),
        ({"class_shares": [0.5, 0.5]}, "class_shares must be 3 numbers"),
        ({"labels": [7] * 400}, "labels must be classes < 3"),
    ):
        with pytest.raises(InvalidInput, match=rule):
            outlook(world, **mistake)


def test_a_rough_answer_says_that_it_is_rough() -> None:
    few, many = (rough_plan(terms(e), num_records=20_000, num_classes=10) for e in ("0.01", "1"))
    assert few.recommended.num_queries < many.recommended.num_queries
    assert many.as_text().startswith("Rough: no pool") and many.as_dict()["rough"]
    with pytest.raises(InvalidInput, match="purity"):
        rough_plan(terms("1"), num_records=100, num_classes=10, purity=0.05)
