"""Teaching from counts: a student that explains the whole release."""

from __future__ import annotations

import inspect
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import partial
from typing import Any

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import roc_auc_score
from tests.labels.simulated import tally_of

from recordwise.arrays import Floats, Ints, softmax
from recordwise.errors import InvalidInput
from recordwise.labels import decode, query_graph
from recordwise.privacy.noise import DiscreteLaplace, Normal, SeededNoise
from recordwise.protocols.central import CentralLaplace, CentralPermuteAndFlip
from recordwise.protocols.local import Collision
from recordwise.protocols.release import Tally
from recordwise.queries import KMeansQueries, Queries
from recordwise.randomness import seeded
from recordwise.students import choice, counts, student_from, teach
from recordwise.students.counts import Asked, Learnt, _tables, learn_from_counts, tables_of
from recordwise.students.parts import (
    BIAS,
    LABEL_PENALTY,
    LEAST_SHARE,
    SPREAD,
    USUAL,
    Network,
    View,
    blend,
    common,
    discriminant,
    labelled,
    logits_of,
    regression,
)
from recordwise.students.table import loss
from recordwise.votes import NOBODY, Ballot, Votes, cast_votes


@dataclass(frozen=True, kw_only=True, eq=False)
class World:
    """Classes along a line through many queries: every query is mixed, and only the table knows where they part."""

    pool: Floats
    records: Floats
    test: Floats
    pool_labels: Ints
    record_labels: Ints
    test_labels: Ints


def mixed_world(seed: int = 0, *, num_records: int = 12_000, weights: tuple[float, ...] = (0, 0, 0, 0, 2, 0)) -> World:
    """Two classes that part along the dimension which varies least, so that k-means does not cut there."""
    rng = np.random.default_rng(seed)
    parts = []
    for size in (3_000, num_records, 3_000):
        x = rng.normal(size=(size, 6)) * [3, 3, 2, 2, 1.5, 1]
        label = rng.random(size) < 1 / (1 + np.exp(-(x @ np.array(weights))))
        parts.append((x.astype(np.float32), label.astype(np.int64)))
    (pool, pl), (records, rl), (test, tl) = parts
    return World(pool=pool, records=records, test=test, pool_labels=pl, record_labels=rl, test_labels=tl)


def asked_of(world: World, epsilon: str, *, s: int = 60, seed: int = 0, abstaining: Ints | None = None) -> Asked:
    queries = KMeansQueries(num_queries=s, seed=seed).ask(world.pool)
    votes = votes_of(world, queries, abstaining)
    protocol = CentralLaplace(ballot=votes.ballot, epsilon=Fraction(epsilon))
    noise = SeededNoise(seed)
    release = protocol.server([protocol.client(votes, noise)], noise)
    graph = query_graph(world.pool, queries.vectors, metric=queries.metric)
    return Asked(release=release, owner=queries.owner, graph=graph, num_records=len(world.records))


def votes_of(world: World, queries: Queries, abstaining: Ints | None = None) -> Votes:
    ballot = Ballot(num_queries=len(queries.vectors), num_classes=2)
    votes = cast_votes(world.records, world.record_labels, queries.vectors, ballot, metric=queries.metric)
    if abstaining is None:
        return votes
    chosen = votes.queries.copy()
    chosen[abstaining] = NOBODY
    return Votes(ballot, chosen, votes.labels)


def material_of(queries: Asked) -> choice.Material:
    """What choices about WORLD are made with."""
    vectors = ((WORLD.pool - WORLD.pool.mean(axis=0)) / WORLD.pool.std(axis=0)).astype(np.float32)
    without = partial(counts._without, [queries])
    return choice.Material(
        vectors=vectors, owners=[queries.owner], tables=tables_of([queries]), without=without, hidden=None
    )


def right(learnt: Learnt, world: World) -> float:
    return float((learnt.student.predict(world.test) == world.test_labels).mean())


def auc(probabilities: Floats, world: World) -> float:
    return float(roc_auc_score(world.test_labels, probabilities[:, 1]))


def today(world: World, asked: Asked) -> Floats:
    """The student of the decoder's soft labels."""
    sizes = np.bincount(asked.owner)
    labels = decode(asked.release, sizes=sizes, graph=asked.graph, num_records=asked.num_records)
    student = teach(
        student_from("linear", seed=0),
        world.pool,
        labels.probabilities[asked.owner],
        weights=labels.leads[asked.owner],
    )
    return np.asarray(student.predict_proba(world.test))


WORLD = mixed_world()


def test_the_table_knows_more_than_a_label_per_query() -> None:
    world = mixed_world(num_records=24_000)
    asked = asked_of(world, "1")
    learnt = learn_from_counts(world.pool, [asked])
    best = teach(student_from("linear", seed=0), world.pool, np.eye(2)[world.pool_labels])
    assert learnt.penalty is not None
    surprise = surprise_of(learnt.student.predict_proba(world.test), world)
    assert surprise < surprise_of(today(world, asked), world) - 0.1
    assert surprise < surprise_of(best.predict_proba(world.test), world) + 0.02
    assert right(learnt, world) > float(best.score(world.test, world.test_labels)) - 0.02


def surprise_of(probabilities: Floats, world: World) -> float:
    """Mean log-loss on the test samples."""
    return float(-np.log(probabilities[np.arange(len(probabilities)), world.test_labels]).mean())


def test_probabilities_are_true() -> None:
    probabilities = learn_from_counts(WORLD.pool, [asked_of(WORLD, "1")]).student.predict_proba(WORLD.test)
    confidence, correct = probabilities.max(axis=1), probabilities.argmax(axis=1) == WORLD.test_labels
    bins = np.minimum((confidence * 10).astype(int), 9)
    error = sum(abs(confidence[bins == b].sum() - correct[bins == b].sum()) for b in range(10)) / len(correct)
    assert error < 0.05


def test_what_is_held_out_is_hidden_from_rates_decoder_and_fit() -> None:
    asked = asked_of(WORLD, "1")
    seen = np.arange(60) % 4 != 1
    assert isinstance(asked.release, Tally)
    other = asked.release.estimate.copy()
    other[~seen] = 10_000
    [before], [after] = (
        _tables([replace(asked, release=replace(asked.release, estimate=cells))], [seen])
        for cells in (asked.release.estimate, other)
    )
    assert (before.rates == after.rates).all() and (before.prior == after.prior).all()
    assert (before.counted == seen).all()
    for fit in (discriminant, labelled, partial(regression, penalty=0.5)):
        assert (fit(WORLD.pool, [before]) == fit(WORLD.pool, [after])).all()


def test_noise_too_loud_for_the_table_leaves_the_decoders_labels() -> None:
    learnt = learn_from_counts(WORLD.pool, [asked_of(WORLD, "0.005")])
    assert learnt.penalty is None and len(learnt.weights) == 2


def test_the_score_says_how_well_held_out_rows_are_explained() -> None:
    clear = learn_from_counts(WORLD.pool, [asked_of(WORLD, "1")])
    pure_chance = mixed_world(weights=(0, 0, 0, 0, 0, 0))
    nothing = learn_from_counts(pure_chance.pool, [asked_of(pure_chance, "1")])
    assert clear.explained is not None and nothing.explained is not None
    assert clear.explained > 0.5 > 0.2 > nothing.explained
    assert clear.contrast[0].separates and nothing.contrast[0].explained < 0.05


def test_a_rare_class_is_found_though_records_abstain() -> None:
    """94 : 6, and most records of the dense middle abstain. Read by the pool's shares, their votes would be missed."""
    rng = np.random.default_rng(0)

    def part(size: int) -> tuple[Floats, Ints]:
        rare = rng.random(size) < 0.06
        x = rng.normal(size=(size, 4)) * np.where(rare[:, None], 1.0, 0.6)
        x[:, 0] += 1.5 * rare
        return x.astype(np.float32), rare.astype(np.int64)

    (pool, pl), (records, rl), (test, tl) = part(3_000), part(20_000), part(4_000)
    world = World(pool=pool, records=records, test=test, pool_labels=pl, record_labels=rl, test_labels=tl)
    abstaining = np.flatnonzero((np.linalg.norm(records, axis=1) < 1) & (rng.random(len(records)) < 0.9))
    learnt = learn_from_counts(world.pool, [asked_of(world, "2", s=5, abstaining=abstaining)])
    probabilities = learnt.student.predict_proba(world.test)
    best = teach(student_from("linear", seed=0), world.pool, np.eye(2)[world.pool_labels])
    assert learnt.turnout[0].voting == pytest.approx(1 - len(abstaining) / len(records), abs=0.05)
    assert auc(probabilities, world) > auc(best.predict_proba(world.test), world) - 0.01
    assert probabilities[:, 1].mean() == pytest.approx(0.06, abs=0.02)


def test_several_releases_over_several_partitions_teach_one_student() -> None:
    asked = [asked_of(WORLD, "0.5", seed=seed) for seed in (1, 2)]
    both = learn_from_counts(WORLD.pool, asked)
    assert len(both.turnout) == len(both.contrast) == 2
    alone = max(right(learn_from_counts(WORLD.pool, [one]), WORLD) for one in asked)
    assert right(both, WORLD) > alone - 0.02


def test_a_second_release_about_other_queries_is_not_ignored() -> None:
    loud, clear = asked_of(WORLD, "0.01", seed=1), asked_of(WORLD, "1", seed=2)
    both = learn_from_counts(WORLD.pool, [loud, clear])
    assert right(both, WORLD) > right(learn_from_counts(WORLD.pool, [loud]), WORLD) + 0.05


def test_estimates_under_local_trust_teach_too() -> None:
    queries = KMeansQueries(num_queries=20, seed=0).ask(WORLD.pool)
    votes = votes_of(WORLD, queries)
    protocol = Collision(ballot=votes.ballot, epsilon=Fraction(4))
    noise = SeededNoise(0)
    release = protocol.server([protocol.client(votes, noise)], noise)
    graph = query_graph(WORLD.pool, queries.vectors, metric=queries.metric)
    learnt = learn_from_counts(
        WORLD.pool, [Asked(release=release, owner=queries.owner, graph=graph, num_records=len(votes))]
    )
    assert right(learnt, WORLD) > 0.6


def test_as_many_queries_as_classes_leave_none_to_hold_out() -> None:
    learnt = learn_from_counts(WORLD.pool, [asked_of(WORLD, "1", s=4)])
    assert learnt.explained is None and learnt.penalty is None
    assert np.allclose(learnt.probabilities.sum(axis=1), 1, atol=1e-4)


def test_the_same_release_gives_the_same_student() -> None:
    asked = asked_of(WORLD, "1")
    one, two = (learn_from_counts(WORLD.pool, [asked]) for _ in range(2))
    assert (one.student.coefficients == two.student.coefficients).all()


def test_nothing_but_the_pool_and_the_release_goes_in() -> None:
    """No argument could carry a label of the pool, and what is released is all there is of the records."""
    settings = {"hidden", "class_weight", "threshold", "seed"}
    assert set(inspect.signature(learn_from_counts).parameters) == {"pool", "asked", *settings}
    assert set(Asked.__dataclass_fields__) == {"release", "owner", "graph", "num_records"}


def test_class_weights_move_the_odds() -> None:
    asked = asked_of(WORLD, "1")
    plain, heavy = (learn_from_counts(WORLD.pool, [asked], class_weight=w).student for w in (None, {1: 3.0}))
    before, after = (one.predict_proba(WORLD.test) for one in (plain, heavy))
    assert after[:, 1] / after[:, 0] == pytest.approx(3 * before[:, 1] / before[:, 0], rel=1e-6)
    in_order = learn_from_counts(WORLD.pool, [asked], class_weight=[1, 3]).student
    assert (in_order.predict_proba(WORLD.test) == after).all()
    balanced = learn_from_counts(WORLD.pool, [asked], class_weight="balanced").student
    assert list(balanced.classes_) == [0, 1]


def test_a_threshold_moves_answers_and_leaves_probabilities() -> None:
    asked = asked_of(WORLD, "1", s=8)
    plain, eager = (learn_from_counts(WORLD.pool, [asked], threshold=at).student for at in (None, 0.2))
    probabilities = plain.predict_proba(WORLD.test)
    assert (eager.predict_proba(WORLD.test) == probabilities).all()
    assert (eager.predict(WORLD.test) == (probabilities[:, 1] >= 0.2)).all()


def test_what_cannot_teach_is_refused_in_one_line() -> None:
    asked = asked_of(WORLD, "1", s=8)
    queries = KMeansQueries(num_queries=8, seed=0).ask(WORLD.pool)
    votes = votes_of(WORLD, queries)
    protocol = CentralPermuteAndFlip(ballot=votes.ballot, epsilon=Fraction(1))
    chosen = protocol.server([protocol.client(votes, SeededNoise(0))], SeededNoise(0))
    with pytest.raises(InvalidInput, match="release must hold counts, got Choices"):
        learn_from_counts(WORLD.pool, [Asked(release=chosen, owner=queries.owner)])
    with pytest.raises(InvalidInput, match="at least one release"):
        learn_from_counts(WORLD.pool, [])
    with pytest.raises(InvalidInput, match="owner must name the query of each of 3000 samples"):
        learn_from_counts(WORLD.pool, [Asked(release=asked.release, owner=asked.owner[:-1])])
    nobody = np.full_like(asked.owner, NOBODY)
    with pytest.raises(InvalidInput, match=r"^owner must give a sample to one query at least, got -1 for all of 3000$"):
        learn_from_counts(WORLD.pool, [Asked(release=asked.release, owner=nobody)])
    for owner in (asked.owner + 1, asked.owner - 2):
        with pytest.raises(InvalidInput, match=r"^owner must lie in \[0, 7\], or be -1, got "):
            learn_from_counts(WORLD.pool, [Asked(release=asked.release, owner=owner)])
    for no_numbers in (asked.owner.astype(float), asked.owner > 0, asked.owner.tolist()):
        with pytest.raises(InvalidInput, match=r"^owner must be an array of whole numbers, got [^\n]*$"):
            learn_from_counts(WORLD.pool, [Asked(release=asked.release, owner=no_numbers)])
    with pytest.raises(InvalidInput, match=r"^pool must have at least one dimension, got \(3000, 0\)$"):
        learn_from_counts(WORLD.pool[:, :0], [asked])
    with pytest.raises(InvalidInput, match=r"^pool must hold at least one sample, got "):
        learn_from_counts(WORLD.pool[:0], [Asked(release=asked.release, owner=asked.owner[:0])])
    with pytest.raises(InvalidInput, match=r"^num_records must be a whole number <= 1,099,511,627,776, got "):
        learn_from_counts(WORLD.pool, [replace(asked, num_records=10**15)])
    assert isinstance(asked.release, Tally)
    damaged = replace(asked.release, estimate=asked.release.estimate - 1e17)
    with pytest.raises(InvalidInput, match=r"^estimate must be votes of at most "):
        learn_from_counts(WORLD.pool, [replace(asked, release=damaged)])
    for weight in ("heavy", [1.0], [1.0, 0.0], {2: 1.0}, {0: 1e-300, 1: 1e300}):
        with pytest.raises(InvalidInput, match="class_weight"):
            learn_from_counts(WORLD.pool, [asked], class_weight=weight)  # type: ignore[arg-type]
    for threshold in (0.0, 1.0, float("nan")):
        with pytest.raises(InvalidInput, match="threshold must"):
            learn_from_counts(WORLD.pool, [asked], threshold=threshold)
    with pytest.raises(InvalidInput, match=r"5 is none of \[0, 1\]"):
        learn_from_counts(WORLD.pool, [asked], class_weight={5: 1.0})


def test_several_labels_per_record_are_refused() -> None:
    sets = tally_of(np.ones((6, 3)), DiscreteLaplace(Fraction(1)), r=2)
    with pytest.raises(InvalidInput, match="one label per record"):
        learn_from_counts(np.zeros((6, 2)), [Asked(release=sets, owner=np.arange(6))])


def test_releases_about_other_classes_do_not_go_together() -> None:
    two, three = (Asked(release=tally_of(np.ones((6, c)), Normal(1.0)), owner=np.arange(6)) for c in (2, 3))
    with pytest.raises(InvalidInput, match="the same classes"):
        learn_from_counts(np.zeros((6, 2)), [two, three])


def test_a_network_on_top_learns_what_no_line_can() -> None:
    rng = np.random.default_rng(0)
    parts = [rng.uniform(-2, 2, size=(size, 3)).astype(np.float32) for size in (3_000, 20_000, 3_000)]
    labels = [(np.abs(x[:, 0]) + 0.3 * x[:, 1] > 1).astype(np.int64) for x in parts]
    world = World(
        pool=parts[0], records=parts[1], test=parts[2],
        pool_labels=labels[0], record_labels=labels[1], test_labels=labels[2],
    )  # fmt: skip
    asked = asked_of(world, "1", s=60)
    line, curve = (learn_from_counts(world.pool, [asked], hidden=hidden) for hidden in (None, 16))
    assert line.student.network is None and curve.student.network is not None
    assert right(curve, world) > max(0.95, right(line, world) + 0.02)  # the queries around a sample bend it, too
    assert curve.explained is not None and line.explained is not None and curve.explained > line.explained


def test_a_network_that_helps_no_fold_is_not_tried_on_the_others(monkeypatch: pytest.MonkeyPatch) -> None:
    tried = []

    def wild(vectors: Any, base: Any, *given: Any, **more: Any) -> Network:
        tried.append(base)
        signs = np.random.default_rng(len(tried)).normal(size=(1, base.shape[1]))
        return Network(np.vstack([np.zeros((vectors.shape[1], 1)), [9.0]]), 30 * signs)  # one class everywhere

    monkeypatch.setattr(choice, "network", wild)
    learnt = learn_from_counts(WORLD.pool, [asked_of(WORLD, "1")], hidden=4)
    assert learnt.student.network is None and len(tried) == len(choice.NETWORK_PENALTIES)
    learn_from_counts(WORLD.pool, [asked_of(WORLD, "1", s=40)], hidden=4)
    assert len(tried) == len(choice.NETWORK_PENALTIES)  # with few queries none is tried
    monkeypatch.setattr(choice, "PER_CLASS", 31)
    learn_from_counts(WORLD.pool, [asked_of(WORLD, "1")], hidden=4)
    assert len(tried) == len(choice.NETWORK_PENALTIES)  # nor with few for each of its classes


def test_a_network_that_exaggerates_joins_by_half(monkeypatch: pytest.MonkeyPatch) -> None:
    """The line is hidden from the linear parts; a network knows it, and claims twice as much."""
    truth = np.array([0, 0, 0, 0, 2, 0])
    scale = WORLD.pool.std(axis=0)

    def twice(vectors: Any, base: Any, *given: Any, **more: Any) -> Network:
        first = np.vstack([1e-3 * (truth * scale)[:, None], [0.0]])  # so small that tanh is a line
        return Network(first, 1e3 * np.array([[-1.0, 1.0]]))

    blind = np.zeros((7, 2))
    for part in ("discriminant", "labelled", "regression"):
        monkeypatch.setattr(choice, part, lambda *given: blind)
    monkeypatch.setattr(choice, "network", twice)
    queries = asked_of(WORLD, "2")
    material = replace(material_of(queries), without=lambda folds, fold: tables_of([queries]), hidden=1)
    chosen = choice.choose(material, rng=seeded(0, "exaggerating"))
    assert chosen.network_penalty is not None and chosen.network_share == 0.5


@pytest.mark.parametrize(("by_folds", "by_all"), [(0.25, 1.0), (1.0, 0.25)])
def test_the_student_is_no_surer_than_held_out_rows_and_those_that_it_saw_bear_out(
    monkeypatch: pytest.MonkeyPatch, by_folds: float, by_all: float
) -> None:
    """Parts know the whole truth or a quarter of it: whoever knows a quarter asks for much more of them."""
    scale = WORLD.pool.std(axis=0)

    def parts(vectors: Any, tables: Any) -> list[Any]:
        known = by_all if tables[0].counted.all() else by_folds
        truth = known * vectors[:, 4] * scale[4]
        return [np.stack([-truth, truth], axis=1), np.zeros((len(vectors), 2), dtype=np.float32)]

    monkeypatch.setattr(choice, "_decoded", parts)
    monkeypatch.setattr(choice, "CLEARLY", np.inf)  # the table's part stays out
    material = material_of(asked_of(WORLD, "2"))
    assert choice.choose(material, rng=seeded(0, "too unsure folds")).weights[0] == pytest.approx(1, abs=0.15)


def test_the_fewer_queries_a_class_has_the_more_the_rows_that_parts_saw_are_asked(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    shares = []

    def asked(views: Any) -> Any:
        shares.append([view.share for view in views])
        return blend(views)

    monkeypatch.setattr(choice, "blend", asked)
    monkeypatch.setattr(choice, "CLEARLY", np.inf)  # the table's part stays out
    for s in (6, 60):
        learn_from_counts(WORLD.pool, [asked_of(WORLD, "2", s=s)])
    held_out_and_seen = [one for one in shares if len(one) == 2]
    np.testing.assert_allclose(held_out_and_seen, [[1 / 3, 2 / 3], [14 / 15, 1 / 15]])


def test_the_student_is_the_blend_that_was_chosen() -> None:
    material = material_of(asked_of(WORLD, "2"))
    vectors, tables = material.vectors, material.tables
    weights, bias = np.array([0.3, 1.2]), np.array([0.4, -0.1])
    chosen = choice.Choice(
        weights=weights, bias=bias, penalty=None, network_penalty=None, network_share=1.0, strength=10.0, explained=0.0
    )
    parts = [logits_of(vectors, made(vectors, tables)) for made in (discriminant, labelled)]
    blended = View(base=common(tables), parts=parts, tables=tables).mixed(weights, bias)
    np.testing.assert_allclose(logits_of(vectors, counts._linear(material, chosen)[0]), blended, atol=1e-4)


def test_a_discriminant_alone_that_exaggerates_is_believed_the_less(monkeypatch: pytest.MonkeyPatch) -> None:
    """With too few queries for folds, all rows say how much of it goes in."""
    world = mixed_world(weights=(2, 0, 0, 0, 0, 0))
    queries = asked_of(world, "1", s=4)
    alone = learn_from_counts(world.pool, [queries])
    monkeypatch.setattr(counts, "discriminant", lambda *given: 4 * discriminant(*given))
    exaggerating = learn_from_counts(world.pool, [queries])
    assert len(alone.weights) == 1 and exaggerating.weights[0] < 0.5 * alone.weights[0]


def test_where_the_discriminant_misleads_the_labels_are_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    def astray(vectors: Any, tables: Any) -> Any:
        return np.random.default_rng(1).normal(size=(7, 2))

    for module in (choice, counts):
        monkeypatch.setattr(module, "discriminant", astray)
    monkeypatch.setattr(choice, "CLEARLY", np.inf)  # the table's part stays out
    learnt = learn_from_counts(WORLD.pool, [asked_of(WORLD, "1")])
    discriminating, labels = learnt.weights
    assert labels > 10 * discriminating
    assert auc(learnt.student.predict_proba(WORLD.test), WORLD) > 0.8


def test_the_part_that_is_taught_labels_is_the_logistic_regression_of_them() -> None:
    [table] = tables_of([asked_of(WORLD, "1")])
    hard = np.eye(2)[table.prior.argmax(axis=1)]
    owner = table.mean.T.tocsr().indices  # every sample has one query
    vectors = (WORLD.pool / WORLD.pool.std(axis=0)).astype(np.float32)
    found = labelled(vectors, [replace(table, prior=hard)])
    # Two logits with a penalty on both are one with half of it, and twice as large.
    other = LogisticRegression(C=2 / LABEL_PENALTY, tol=1e-6, max_iter=1000).fit(vectors, hard[owner].argmax(axis=1))
    assert np.allclose(2 * found[:-1, 1], other.coef_[0], atol=0.02)
    assert 2 * found[-1, 1] == pytest.approx(other.intercept_[0], abs=0.02)


def test_any_other_student_learns_the_chances_of_the_pool() -> None:
    learnt = learn_from_counts(WORLD.pool, [asked_of(WORLD, "1")])
    other = teach(
        student_from({"name": "mlp", "epochs": 5}, seed=0), WORLD.pool, learnt.probabilities.astype(np.float64)
    )
    assert float(other.score(WORLD.test, WORLD.test_labels)) > right(learnt, WORLD) - 0.03


@pytest.mark.parametrize(("num_classes", "num_queries"), [(1, 5), (2, 2), (3, 12)])
def test_little_and_odd_releases_still_give_a_student(num_classes: int, num_queries: int) -> None:
    """One class; one query per class; queries and samples without each other; fewer samples than dimensions."""
    rng = np.random.default_rng(0)
    pool = np.hstack([rng.normal(size=(20, 30)), np.ones((20, 1))])
    owner = np.concatenate([np.arange(num_queries - 1), rng.integers(-1, num_queries - 1, 21 - num_queries)])
    release = tally_of(rng.normal(size=(num_queries, num_classes)) * 50, DiscreteLaplace(Fraction(30)))
    learnt = learn_from_counts(pool, [Asked(release=release, owner=owner)])
    probabilities = learnt.student.predict_proba(pool)
    assert probabilities.shape == (20, num_classes) and np.allclose(probabilities.sum(axis=1), 1)
    assert np.allclose(learnt.probabilities.sum(axis=1), 1, atol=1e-4)


@pytest.mark.parametrize("num_queries", [1, 12])
def test_samples_that_are_all_the_same_give_a_student(num_queries: int) -> None:
    """Nothing is there to tell them apart by: they get the class shares of all."""
    release = tally_of(np.tile([90.0, 10.0], (num_queries, 1)), DiscreteLaplace(Fraction(1)))
    pool = np.ones((24, 3), dtype=np.float32)
    learnt = learn_from_counts(pool, [Asked(release=release, owner=np.arange(24) % num_queries)])
    assert np.allclose(learnt.student.predict_proba(pool), [0.9, 0.1], atol=0.1)


@pytest.mark.parametrize("num_records", [None, 500])
def test_one_query_that_owns_the_whole_pool_gives_a_student(num_records: int | None) -> None:
    """Where it is held out, no query that has samples is seen."""
    release = tally_of(np.tile([30.0, 10.0], (12, 1)), DiscreteLaplace(Fraction(1)))
    pool = np.random.default_rng(0).normal(size=(24, 3)).astype(np.float32)
    learnt = learn_from_counts(
        pool, [Asked(release=release, owner=np.zeros(24, dtype=np.int64), num_records=num_records)]
    )
    assert np.isfinite(learnt.probabilities).all() and learnt.probabilities[:, 0].min() > 0.5


@pytest.mark.parametrize("width", [1e-1, 1e-4, 1e-7, 0.0])
def test_classes_that_hardly_vary_are_told_apart(width: float) -> None:
    """Their covariance is rounding and nothing else, which must not be divided by."""
    rng = seeded(0, "points")
    truth = np.arange(300) % 3
    pool = np.array([[0.0, 0.0], [3.0, 0.0], [0.0, 3.0]])[truth] + width * rng.normal(size=(300, 2))
    owner = truth + 3 * (np.arange(300) % 2)
    counts = np.zeros((6, 3))
    np.add.at(counts, (owner, truth), 1)
    ballot = Ballot(num_queries=6, num_classes=3)
    protocol = CentralLaplace(ballot=ballot, epsilon=Fraction(50))
    release = Tally(ballot, protocol.guarantee, counts, protocol.law)
    learnt = learn_from_counts(pool, [Asked(release=release, owner=owner, num_records=300)])
    assert (learnt.student.predict(pool) == truth).all()
    assert np.isfinite(learnt.student.predict_proba(pool)).all()


def rare_world(seed: int) -> World:
    """A class of 3 %, two deviations apart in one of six directions."""
    rng, parts = np.random.default_rng(seed), []
    for size in (1_500, 5_000, 4_000):
        label = (rng.random(size) < 0.03).astype(np.int64)
        x = rng.normal(size=(size, 6))
        x[:, 0] += 2 * label
        parts.append((x.astype(np.float32), label))
    (pool, pl), (records, rl), (test, tl) = parts
    return World(pool=pool, records=records, test=test, pool_labels=pl, record_labels=rl, test_labels=tl)


@pytest.mark.parametrize("seed", [0, 3, 5])
def test_few_loud_rows_do_not_make_a_student_sure(seed: int) -> None:
    """The shares of the classes alone have a log-loss of 0.135."""
    world = rare_world(seed)
    learnt = learn_from_counts(world.pool, [asked_of(world, "0.05", s=24, seed=seed)])
    assert surprise_of(learnt.student.predict_proba(world.test), world) < 0.2


def test_weights_that_no_row_speaks_of_are_the_usual_ones() -> None:
    tables = [replace(table, counted=np.zeros(60)) for table in tables_of([asked_of(WORLD, "1")])]
    logits = np.random.default_rng(0).normal(size=(2, len(WORLD.pool), 2)).astype(np.float32)
    weights, bias = blend([View(base=np.log([0.9, 0.1]), parts=list(logits), tables=tables)])
    np.testing.assert_allclose(weights, USUAL[2])
    np.testing.assert_allclose(bias, 0)


def test_a_blend_is_likelier_than_those_nearby() -> None:
    tables = [replace(table, prior=np.zeros((60, 2))) for table in tables_of([asked_of(WORLD, "0.03")])]
    truth = 2 * WORLD.pool[:, 4]
    astray = np.random.default_rng(0).normal(size=len(truth))
    parts = [np.stack([-one, one], axis=1).astype(np.float32) for one in (truth, astray)]
    view = View(base=np.log([0.9, 0.1]), parts=parts, tables=tables)
    found = np.concatenate(blend([view]))

    def cost(values: Any) -> float:
        weights, bias = values[:2], values[2:]
        unusual = ((weights - USUAL[2]) / SPREAD[2]) ** 2
        return loss(view.mixed(weights, bias), tables)[0] + 0.5 * float(unusual.sum() + BIAS * (bias**2).sum())

    for step in 0.02 * np.vstack([np.eye(4), -np.eye(4)]):
        assert cost(found + step) > cost(found)
    other = replace(view, parts=parts[::-1], share=0.0)  # has no say
    np.testing.assert_allclose(np.concatenate(blend([view, other])), found, atol=1e-3)


def test_nothing_of_any_part_leaves_the_class_shares() -> None:
    tables = tables_of([asked_of(WORLD, "1")])
    part = np.ones((len(WORLD.pool), 2), dtype=np.float32)
    answers = softmax(View(base=common(tables), parts=[part], tables=tables).mixed(np.zeros(1), np.zeros(2)))
    shares = tables[0].rates @ tables[0].prior / tables[0].rates.sum()
    np.testing.assert_allclose(answers, np.tile(shares, (len(answers), 1)), atol=1e-6)


def test_no_class_is_ruled_out_by_the_shares() -> None:
    tables = [replace(table, prior=np.tile([1.0, 0.0], (60, 1))) for table in tables_of([asked_of(WORLD, "1")])]
    np.testing.assert_allclose(softmax(common(tables)[None])[0], [1, LEAST_SHARE], rtol=2e-3)


def test_what_a_fold_takes_for_the_class_shares_has_not_seen_its_rows() -> None:
    material = material_of(asked_of(WORLD, "2"))
    trial = choice._Trial.of(material, [np.arange(60) % choice.FOLDS], seeded(0, "unseen shares"))
    base = trial.held(trial.decoded()).base
    for held, out in zip(trial.fitted, trial.held_out, strict=True):
        np.testing.assert_allclose(base[out], np.tile(common(held), (int(out.sum()), 1)), rtol=1e-6)
    assert len(np.unique(base, axis=0)) == choice.FOLDS


def normal_pool(m: int, dim: int) -> Floats:
    return np.random.default_rng(0).normal(size=(m, dim))


ODD_POOLS: dict[str, Floats] = {
    "one sample": normal_pool(1, 2),
    "one dimension": normal_pool(60, 1),
    "more dimensions than samples": normal_pool(60, 100),
    "equal samples": np.ones((60, 3)),
    "a constant column": normal_pool(60, 3) * [1, 0, 1] + [0, 7, 0],
    "huge": 1e30 * normal_pool(60, 3),
    "denormal": 1e-42 * normal_pool(60, 3).astype(np.float32),
    "one far out": np.vstack([np.full((1, 3), 1e37), normal_pool(59, 3)]),
    "huge, and varies by roundings": 1e30 * (1 + 3e-7 * normal_pool(60, 3)),
}


@pytest.mark.parametrize("pool", ODD_POOLS.values(), ids=ODD_POOLS)
@pytest.mark.parametrize("num_records", [None, 10**9, 2**40])
@pytest.mark.parametrize("shape", [(1, 2), (3, 3), (12, 2)])
def test_odd_pools_and_tallies_leave_distributions(
    pool: Floats, num_records: int | None, shape: tuple[int, int]
) -> None:
    """Also of samples that lie farther from the pool than floats reach in its deviations."""
    far = np.full((2, pool.shape[1]), 3e38, dtype=np.float32) * [[1], [-1]]
    owner = np.arange(len(pool)) % shape[0]
    lone = np.where(np.arange(len(pool)) == 0, 0, NOBODY)
    law = DiscreteLaplace(Fraction(2))
    votes = np.eye(shape[1])[np.arange(shape[0]) % shape[1]] * ((num_records or 300) // shape[0])
    for cells, owned in ((votes, owner), (0 * votes, owner), (0 * votes - 9, owner), (votes, lone)):
        asked = Asked(release=tally_of(cells, law), owner=owned, num_records=num_records)
        learnt = learn_from_counts(pool, [asked])
        for found in (learnt.probabilities, *map(learnt.student.predict_proba, (pool, far))):
            np.testing.assert_allclose(found.sum(axis=1), 1, atol=1e-5)
            assert (found >= 0).all()
        assert np.isfinite([*learnt.weights, learnt.slope, learnt.strength, learnt.explained or 0]).all()
