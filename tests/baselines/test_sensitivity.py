"""One record moves what is counted by no more than each method's accounting says; twins move more."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from recordwise.arrays import softmax
from recordwise.baselines import KNN, GNMax, IndKNN
from recordwise.baselines.estimator import Private
from recordwise.baselines.exact_nearest import Grid, nearest
from recordwise.baselines.noisy_sgd import first_weights, forward, gradient_sums
from recordwise.baselines.public_scale import PublicScale
from recordwise.baselines.teachers import teacher_votes
from recordwise.errors import OutOfRegime
from recordwise.privacy.noise import SeededNoise
from recordwise.randomness import seeded

CLASSES = 3


def records(seed: int, count: int) -> tuple[np.ndarray, np.ndarray]:
    rng = seeded(seed, "records")
    return np.rint(rng.normal(size=(count, 2)) * 2).astype(np.float32), rng.integers(0, CLASSES, count)


def moved(before: np.ndarray, after: np.ndarray) -> np.ndarray:
    """Per query, the square of the change."""
    return ((before - after) ** 2).sum(axis=1)


@given(seed=st.integers(0, 10_000), k=st.integers(1, 6), at=st.integers(0, 11))
@settings(max_examples=200)
def test_a_record_takes_one_place_among_the_nearest(seed: int, k: int, at: int) -> None:
    """Ties are many: the vectors are whole numbers."""
    vectors, labels = records(seed, 12)
    grid = Grid.of(vectors)
    queries = vectors[:4]

    def votes(x: np.ndarray, y: np.ndarray) -> np.ndarray:
        far = grid.squared_distances(x, queries)
        return np.array([np.bincount(y[nearest(row, k)], minlength=CLASSES) for row in far])

    all_of_them = votes(vectors, labels)
    fewer = votes(np.delete(vectors, at, axis=0), np.delete(labels, at))
    assert moved(all_of_them, fewer).max() <= 2
    other, label = vectors.copy(), labels.copy()
    other[at], label[at] = seeded(seed, "other").normal(size=2) * 3, (labels[at] + 1) % CLASSES
    assert moved(all_of_them, votes(other, label)).max() <= 2


def test_distances_are_whole_numbers_that_company_does_not_change() -> None:
    vectors = seeded(0, "x").normal(size=(500, 40)).astype(np.float32)
    grid = Grid.of(vectors)
    together = grid.squared_distances(vectors, vectors[:7])
    alone = np.hstack([grid.squared_distances(vectors[i : i + 1], vectors[:7]) for i in range(500)])
    assert np.array_equal(together, alone)
    assert np.array_equal(together, np.rint(together))
    with pytest.raises(OutOfRegime, match="dimensions"):
        Grid.of(np.zeros((3, 3000), np.float32))


@given(seed=st.integers(0, 10_000), at=st.integers(0, 29))
@settings(max_examples=50)
def test_a_record_changes_one_teacher(seed: int, at: int) -> None:
    vectors, labels = records(seed, 30)
    scale = PublicScale.of(vectors, 2, whiten=0.5)
    asked = vectors[:5]

    def votes(x: np.ndarray, y: np.ndarray) -> np.ndarray:
        held = Private(vectors=x, labels=y, count=30)
        return teacher_votes(held, asked, scale, teachers=6, num_classes=CLASSES, noise=SeededNoise(seed))

    other, label = vectors.copy(), labels.copy()
    other[at], label[at] = (9, -9), (labels[at] + 1) % CLASSES
    assert moved(votes(vectors, labels), votes(other, label)).max() <= 2
    # The last record gone, the others keep their teachers: each was drawn for itself.
    assert moved(votes(vectors, labels), votes(vectors[:-1], labels[:-1])).max() <= 2
    assert votes(vectors, labels).sum(axis=1).tolist() == [6] * 5


def test_a_teacher_is_taught_apart_from_others_to_the_last_bit() -> None:
    """Here a vector depends on its company as a product of floats does, but so much that it shows."""
    vectors, labels = records(0, 60)

    def votes(x: np.ndarray) -> np.ndarray:
        def scale(some: np.ndarray) -> np.ndarray:
            return some.astype(np.float64) - (some.sum(axis=0) if len(some) else 0)

        held = Private(vectors=x, labels=labels, count=60)
        return teacher_votes(held, vectors[:5], scale, teachers=6, num_classes=CLASSES, noise=SeededNoise(0))  # type: ignore[arg-type]

    for at in range(60):
        other = vectors.copy()
        other[at] = (90, -90)
        assert moved(votes(vectors), votes(other)).max() <= 2


@pytest.mark.parametrize("pool", [True, False], ids=["pool", "no pool"])
def test_vectors_and_gradients_are_those_of_a_record_alone(pool: bool) -> None:
    vectors = seeded(0, "x").normal(size=(300, 40)).astype(np.float32)
    scale = PublicScale.of(vectors if pool else None, 40, whiten=0.5)
    together = scale(vectors)
    assert np.array_equal(together, np.vstack([scale(vectors[i : i + 1]) for i in range(300)]))
    weights = [*first_weights(40, (16,), CLASSES, 0)[:1], seeded(0, "w").normal(size=(17, CLASSES))]
    for at, scores in enumerate(forward(weights, together)):
        alone = [forward(weights, together[i : i + 1])[at] for i in range(300)]
        assert np.array_equal(scores, np.vstack(alone))


def test_probabilities_are_those_of_a_record_alone_however_many_classes() -> None:
    """NumPy adds eight and more numbers in another order where they are all there is."""
    for num_classes in (2, 8, 16, 40, 100):
        scores = 3 * seeded(0, "scores").normal(size=(100, num_classes))
        together = softmax(scores)
        assert np.allclose(together.sum(axis=1), 1)
        assert np.array_equal(together, np.vstack([softmax(scores[i : i + 1]) for i in range(100)]))


def test_shards_cut_by_place_would_change_every_teacher() -> None:
    """The twin: cut into runs of five, a record that goes moves all that follow."""

    def votes(y: np.ndarray) -> np.ndarray:
        majority = [np.bincount(y[i : i + 5], minlength=CLASSES).argmax() for i in range(0, len(y), 5)]
        return np.bincount(majority, minlength=CLASSES)[None]

    every = [records(seed, 30)[1] for seed in range(20)]
    assert max(moved(votes(y), votes(np.delete(y, at)))[0] for y in every for at in range(30)) > 2


@given(seed=st.integers(0, 10_000), at=st.integers(0, 29), allowance=st.integers(1, 4))
@settings(max_examples=15)
def test_a_record_votes_within_its_allowance(seed: int, at: int, allowance: int) -> None:
    vectors, labels = records(seed, 30)
    model = IndKNN(5.0, num_queries=8, allowance=allowance, reach=4.0, classes=range(CLASSES), encoder="scaler")
    model.fit(vectors, labels, X_public=vectors + 0.01 * seeded(0, "j").normal(size=(30, 2)).astype(np.float32))
    seen: list[np.ndarray] = []

    class Law:
        @staticmethod
        def sample(shape: tuple[int, ...], noise: object) -> np.ndarray:
            return np.zeros(shape, dtype=np.int64)

    def votes(x: np.ndarray, y: np.ndarray) -> np.ndarray:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr("recordwise.baselines.ind_knn.DiscreteGaussian", lambda sigma2: Law)
            patch.setattr("recordwise.baselines.ind_knn.noisy_max", lambda v, law, noise: seen.append(v) or v[:, 0])
            held = Private(vectors=x, labels=y, count=30)
            model.answer(held, SeededNoise(0))
        return seen[-1]

    everyone = votes(model.encoder_.transform(vectors), labels)
    fewer = votes(np.delete(model.encoder_.transform(vectors), at, axis=0), np.delete(labels, at))
    assert moved(everyone, fewer).sum() <= allowance == model.cells_ / 2
    assert set((everyone - fewer).ravel()) <= {0, 1}


@given(seed=st.integers(0, 10_000), hidden=st.sampled_from([(), (4,), (4, 3)]), clip=st.sampled_from([0.1, 1.0]))
@settings(max_examples=60)
def test_gradients_of_all_layers_together_are_shortened_to_clip(seed: int, hidden: tuple, clip: float) -> None:
    rng = seeded(seed, "x")
    inputs = np.hstack([rng.normal(size=(5, 3)) * 20, np.ones((5, 1))])
    labels = rng.integers(0, CLASSES, 5)
    weights = [layer + rng.normal(size=layer.shape) for layer in first_weights(3, hidden, CLASSES, seed)]
    every = gradient_sums(weights, inputs, labels, clip=clip)
    fewer = gradient_sums(weights, inputs[1:], labels[1:], clip=clip)
    square = sum(int(cell) ** 2 for a, b in zip(every, fewer, strict=True) for cell in (a - b).ravel())
    assert square <= (clip * 2**26) ** 2


def test_gradients_are_those_of_the_loss() -> None:
    """Against differences of the loss, where nothing is clipped."""
    rng = seeded(3, "x")
    inputs = np.hstack([rng.normal(size=(4, 3)), np.ones((4, 1))])
    labels = rng.integers(0, CLASSES, 4)
    weights = [layer + rng.normal(size=layer.shape) for layer in first_weights(3, (5,), CLASSES, 0)]

    def loss() -> float:
        units = np.hstack([np.tanh(inputs @ weights[0]), np.ones((4, 1))])
        scores = units @ weights[1]
        return float((np.log(np.exp(scores).sum(axis=1)) - scores[np.arange(4), labels]).sum())

    found = gradient_sums(weights, inputs, labels, clip=1e4)
    for layer, place in ((0, (1, 2)), (0, (3, 4)), (1, (2, 1)), (1, (5, 0))):
        step = 1e-5
        weights[layer][place] += step
        up = loss()
        weights[layer][place] -= 2 * step
        down = loss()
        weights[layer][place] += step
        assert found[layer][place] / 2**26 == pytest.approx((up - down) / (2 * step), abs=2e-3)


def test_costs_of_labelling_grow_with_queries_and_ours_do_not() -> None:
    few = KNN(1.0, num_queries=10)
    many = KNN(1.0, num_queries=40)
    for model in (few, many):
        model.check(1000, 5, 3)
    assert many.sigma2_ / few.sigma2_ == pytest.approx(4, rel=0.1)
    one, two = IndKNN(1.0, num_queries=10), IndKNN(1.0, num_queries=40)
    for other in (one, two):
        other.check(1000, 5, 3)
    assert one.sigma2_ == two.sigma2_
    teachers = GNMax(1.0, num_queries=10)
    teachers.check(1000, 5, 3)
    assert teachers.sigma2_ == few.sigma2_  # one moved vote per query, whoever casts it
