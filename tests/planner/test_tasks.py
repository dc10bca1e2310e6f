"""Plausible tasks agree with all that is publicly known."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import binomtest
from sklearn.datasets import make_moons
from sklearn.linear_model import LogisticRegression
from tests.planner.worlds import World, blobs

from recordwise.nearest import Metric
from recordwise.nearest.kmeans import kmeans
from recordwise.planner.shapes import Seen, View, seen_shapes
from recordwise.planner.tasks import CHANCE, LEVELS, Known, Wish, as_good_by_chance, plausible, tasks_like
from recordwise.randomness import seeded


@pytest.fixture(scope="module")
def world() -> World:
    return blobs(4, 1.5)


def known(world: World, count: int, **more: object) -> Known:
    vectors = world.pool[:count].astype(np.float32)
    return Known(num_classes=4, seen=Seen(vectors, vectors, world.pool_labels[:count]), **more)  # type: ignore[arg-type]


def test_a_task_is_as_hard_as_declared_and_has_the_declared_shares(world: World) -> None:
    shares = np.array([0.4, 0.3, 0.2, 0.1])
    told = Known(num_classes=4, class_shares=shares, attainable=0.8)
    pool = world.pool.astype(np.float32)
    wishes = plausible(pool, pool, told, 0)
    assert len(wishes) == LEVELS and {wish.level for wish in wishes} == {0.8}
    for task in tasks_like(wishes, pool, pool, told, 0):
        assert task.attainable == pytest.approx(0.8, abs=0.02)
        assert task.probabilities.mean(axis=0) == pytest.approx(shares, abs=0.04)
        assert task.probabilities.sum(axis=1) == pytest.approx(np.ones(len(pool)))


@pytest.mark.parametrize("apart", [0.6, 1.2, 3.0])
def test_labelled_samples_tell_how_hard_a_task_is(apart: float) -> None:
    world = blobs(4, apart, seed=1)
    truth = LogisticRegression().fit(world.pool, world.pool_labels).score(world.test, world.test_labels)
    pool = world.pool.astype(np.float32)
    wishes = plausible(pool, pool, known(world, 250), 0)
    assert float(np.mean([wish.level for wish in wishes])) == pytest.approx(truth, abs=0.1)
    tasks = tasks_like(wishes, pool, pool, known(world, 250), 0)
    _, owner = kmeans(pool, 40, metric=Metric.EUCLIDEAN, seed=1)
    shares = [[task.probabilities[owner == one].sum(axis=0) for one in range(40)] for task in tasks]
    purities = [float(np.max(each, axis=1).sum() / len(pool)) for each in shares]
    ease = [(task.attainable + purity) / 2 for task, purity in zip(tasks, purities, strict=True)]
    assert ease == pytest.approx(sorted(ease), abs=0.02)  # from hard to easy


def test_a_class_may_be_several_clumps() -> None:
    """Three classes of four clumps each that nearly touch, two labelled samples in each: no other shape has them."""
    rng = seeded(0, "clumps")
    centres = 1.6 * rng.normal(size=(12, 8))
    clump = np.concatenate([np.repeat(np.arange(12), 2), rng.integers(12, size=876)])
    pool = (centres[clump] + rng.normal(size=(900, 8))).astype(np.float32)
    seen = Seen(pool[:24], pool[:24], clump[:24] % 3)
    right = [(shape.logits.argmax(axis=1) == clump % 3).mean() for shape in seen_shapes(View(pool, pool), seen, 3, 0)]
    assert right[-1] > 0.85 > 0.75 > max(right[:-2])


def test_a_level_is_what_a_student_reaches_where_least_squares_would_miss_classes() -> None:
    """Six classes in a row: least squares never names those in the middle, a linear student names all of them."""
    rng = seeded(0, "row of classes")
    labels = np.repeat(np.arange(6), 60)
    pool = np.column_stack([labels + 0.2 * rng.normal(size=360), rng.normal(size=360)]).astype(np.float32)
    view = View(pool, pool)
    chosen = view._taught(np.eye(6)[labels]).argmax(axis=1)
    wide = np.column_stack([pool, np.ones(len(pool))])
    squares = (wide @ np.linalg.lstsq(wide, np.eye(6)[labels], rcond=None)[0]).argmax(axis=1)
    assert (chosen == labels).mean() > 0.95 > 0.7 > (squares == labels).mean()


def test_classes_spread_from_labelled_samples_along_the_pool() -> None:
    """Two half moons, five labels each: no line parts them, and neighbours of neighbours do."""
    pool, labels = make_moons(300, noise=0.05, random_state=0)
    pool = pool.astype(np.float32)
    some = np.concatenate([np.flatnonzero(labels == label)[:5] for label in (0, 1)])
    told = View(pool, pool).spread(pool[some], labels[some], 2).argmax(axis=1)
    assert (told == labels).mean() > 0.95 > LogisticRegression().fit(pool, labels).score(pool, labels)
    known = Known(num_classes=2, seen=Seen(pool[::3], pool[::3], labels[::3]))
    crooked = [wish for wish in plausible(pool, pool, known, 0) if wish.shape >= 2]
    tasks = tasks_like(crooked, pool, pool, known, 0)
    assert tasks and all((task.probabilities.argmax(axis=1) == labels).mean() > 0.95 for task in tasks)


def test_with_nothing_known_tasks_go_from_hard_to_easy(world: World) -> None:
    pool = world.pool.astype(np.float32)
    levels = [wish.level for wish in plausible(pool, pool, Known(num_classes=4), 0)]
    assert levels == sorted(levels) and levels[0] < 0.65 and levels[-1] > 0.98


def test_the_same_wish_on_more_samples_is_as_hard(world: World) -> None:
    told = Known(num_classes=4)
    wish = [Wish(0, 0.75)]
    for count in (200, 400):
        pool = world.pool[:count].astype(np.float32)
        [task] = tasks_like(wish, pool, pool, told, 0)
        assert task.attainable == pytest.approx(0.75, abs=0.02)


FALSE_FAILURE = 1e-9


def by_chance(pool: np.ndarray, labels: np.ndarray, seed: int = 0) -> float | None:
    vectors = pool.astype(np.float32)
    return as_good_by_chance(vectors, Seen(vectors, vectors, labels), seed)


def test_random_labels_are_taken_for_real_ones_as_rarely_as_stated() -> None:
    """Also where one class is rare. A test that took a fifth of them for real would fail."""
    rng = seeded(5, "planner", "chance")
    pool, rare = rng.normal(size=(150, 5)), (np.arange(150) < 8).astype(np.int64)
    runs = 300
    found = [by_chance(pool, rng.permutation(rare), seed) for seed in range(runs)]
    taken = sum(one is not None and one <= CHANCE for one in found)
    assert None not in found and binomtest(taken, runs, CHANCE).pvalue > FALSE_FAILURE
    assert binomtest(taken, runs, 4 * CHANCE).pvalue < FALSE_FAILURE


@pytest.mark.parametrize("shape", ["line", "rare", "xor", "many"])
def test_labels_that_samples_tell_are_never_as_good_by_chance(shape: str) -> None:
    rng = seeded(6, "planner", "chance")
    pool = rng.normal(size=(200, 4))
    labels = {
        "line": pool[:, 0] > 0,
        "rare": pool[:, 0] > 1.9,
        "xor": (pool[:, 0] > 0) ^ (pool[:, 1] > 0),  # no line tells these apart
        "many": np.floor(4 * pool[:, 0]) - np.floor(4 * pool[:, 0].min()),
    }[shape].astype(np.int64)
    told = by_chance(pool, labels)
    assert told is not None and told <= 0.01 and told == by_chance(pool, labels)


@pytest.mark.parametrize(("count", "rare"), [(19, 9), (200, 2)])
def test_few_labelled_samples_say_nothing(count: int, rare: int) -> None:
    pool = seeded(7, "planner", "chance").normal(size=(count, 4))
    assert by_chance(pool, (np.arange(count) < rare).astype(np.int64)) is None
