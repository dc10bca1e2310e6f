"""What every alternative keeps: the shape of an estimator, one paid release, a guarantee that draws cannot refute."""

from __future__ import annotations

import inspect
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.base import clone

from recordwise.audit.bound import lower_bound
from recordwise.baselines import rival, rivals
from recordwise.baselines.estimator import Private, Rival
from recordwise.errors import BudgetExceeded, InvalidInput, OutOfRegime
from recordwise.privacy.guarantee import Neighbours
from recordwise.privacy.ledger import Ledger
from recordwise.privacy.noise import SeededNoise, SystemNoise
from recordwise.randomness import seeded

CLASSES = [0, 1, 2]
CENTRES = 4 * np.eye(3, 5)
NAMES = sorted(rivals())
SMALL = {
    "gnmax": {"teachers": 20},
    "lnmax": {"teachers": 20},
    "ind-knn": {"num_queries": 15},
    "private-knn": {"num_queries": 12},
}


def made(count: int, *path: str) -> tuple[np.ndarray, np.ndarray]:
    rng = seeded(0, *path)
    labels = rng.integers(0, 3, count)
    return CENTRES[labels] + rng.normal(size=(count, 5)), labels


POOL, _ = made(600, "pool")
X, Y = made(600, "records")
TEST, TRUTH = made(200, "test")


def built(name: str, epsilon: float = 8.0, **settings: Any) -> Rival:
    return rival({"name": name, **SMALL.get(name, {}), **settings}, epsilon=epsilon, classes=CLASSES)


@pytest.fixture(params=NAMES)
def name(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def test_it_learns_what_is_easy(name: str) -> None:
    model = built(name).fit(X, Y, X_public=POOL, noise=SeededNoise(0))
    assert model.score(TEST, TRUTH) > 0.8
    probabilities = model.predict_proba(TEST)
    assert probabilities.shape == (200, 3)
    np.testing.assert_allclose(probabilities.sum(axis=1), 1, rtol=1e-5)


def test_it_is_an_estimator_with_settings_and_a_sentence(name: str) -> None:
    model = built(name, 2.0)
    assert clone(model).get_params() == model.get_params()
    assert "epsilon" in inspect.signature(type(model)).parameters
    model.fit(X, Y, X_public=POOL)
    assert model.guarantee_.epsilon == 2
    assert model.guarantee_.neighbours is Neighbours.REPLACE
    assert "replacing any one record" in str(model.guarantee_)
    assert "NOT PRIVATE" in str(built(name).fit(X, Y, X_public=POOL, noise=SeededNoise(0)).guarantee_)
    for text in vars(model.facts).values():
        assert text


def test_it_is_paid_once_and_given_again_for_free(name: str, tmp_path: Path) -> None:
    account = {
        "ledger": tmp_path / "ledger.sqlite",
        "budget": "b",
        "budget_epsilon": 2.5,
        "budget_delta": 2e-5,
        "run_dir": tmp_path / "run",
    }
    first = built(name, 2.0, account=account).fit(X, Y, X_public=POOL)
    again = built(name, 2.0, account=account).fit(X, Y, X_public=POOL)
    assert np.array_equal(first.predict_proba(TEST), again.predict_proba(TEST))
    (entry,) = Ledger.open(tmp_path / "ledger.sqlite").history("b")
    assert entry.guarantee == first.guarantee_
    with pytest.raises(BudgetExceeded):
        built(name, 2.0, account={**account, "run_dir": tmp_path / "another"}).fit(X, Y, X_public=POOL)


def test_a_record_that_cannot_be_read_takes_no_part_and_raises_nothing(name: str) -> None:
    broken = X.copy()
    broken[:5] = np.nan
    labels = [*Y[:-5].tolist(), "?", None, 99, -1, "x"]
    fitted = built(name).fit(broken, labels, X_public=POOL, noise=SeededNoise(0))
    assert fitted.score(TEST, TRUTH) > 0.8


def test_mistakes_in_what_is_public_are_one_line(name: str) -> None:
    with pytest.raises(InvalidInput, match="delta"):
        built(name, delta=2.0).fit(X, Y, X_public=POOL)
    with pytest.raises(InvalidInput, match=r"records\.expected"):
        built(name, neighbours="add-remove").fit(X, Y, X_public=POOL)
    with pytest.raises(InvalidInput, match="account has no setting"):
        built(name, account={"legder": "x"}).fit(X, Y, X_public=POOL)
    with pytest.raises(InvalidInput, match="no setting"):
        built(name, learning_rat=2)


def test_students_of_rivals_weigh_classes_by_name_and_have_a_threshold() -> None:
    student = {"name": "linear", "class_weight": {str(CLASSES[2]): 50, str(CLASSES[0]): 1}}
    plain, heavy = (
        built("lnmax", student=one).fit(X, Y, X_public=POOL, noise=SeededNoise(0)) for one in ("linear", student)
    )
    assert heavy.student_.class_weights_.tolist() == [1, 1, 50]
    assert (heavy.predict(TEST) == CLASSES[2]).sum() > (plain.predict(TEST) == CLASSES[2]).sum()
    wrong = built("lnmax", student={"name": "linear", "class_weight": {"nobody": 2}})
    with pytest.raises(InvalidInput, match="'nobody' is none of"):
        wrong.fit(X, Y, X_public=POOL, noise=SeededNoise(0))
    assert not hasattr(wrong, "released_")
    two = rival(
        {"name": "lnmax", **SMALL.get("lnmax", {}), "student": {"name": "linear", "threshold": 0.01}},
        epsilon=8.0, classes=CLASSES[:2],
    ).fit(X, Y, X_public=POOL, noise=SeededNoise(0))  # fmt: skip
    chances = two.predict_proba(TEST)[:, 1]
    assert ((two.predict(TEST) == CLASSES[1]) == (chances >= 0.01)).all() and (chances[chances >= 0.01] < 0.5).any()


def test_methods_that_label_a_pool_need_one() -> None:
    with pytest.raises(InvalidInput, match="X_public"):
        built("gnmax").fit(X, Y)
    assert built("dp-linear").fit(X / 10, Y).score(TEST / 10, TRUTH) > 0.8
    assert built("noisy-sgd-1").fit(X / 10, Y).score(TEST / 10, TRUTH) > 0.8


def test_without_a_pool_records_of_words_are_refused() -> None:
    """What their columns mean could be read off the records alone."""
    with pytest.raises(InvalidInput, match="rows of numbers"):
        built("dp-linear").fit(np.array([["a", "b"]] * 4, dtype=object), [0, 1, 2, 0])


@pytest.mark.parametrize("threshold", [None, 0.5])
def test_gnmax_publishes_a_data_dependent_epsilon_beside_the_worst_case(threshold: float | None) -> None:
    settings = {"teachers": 100, "num_queries": 30, "data_dependent": True, "threshold": threshold, "order": 12.0}
    model = built("gnmax", 4.0, **settings).fit(X, Y, X_public=POOL, noise=SeededNoise(0))
    assert model.guarantee_.epsilon == 4 == model.event.epsilon
    assert 0 < model.data_dependent_.epsilon <= 4
    plain = built("gnmax", 4.0, **{**settings, "data_dependent": False}).fit(X, Y, X_public=POOL)
    assert model.sigma2_ > plain.sigma2_  # publishing it is paid for with noise on the votes
    assert plain.data_dependent_ is None
    with pytest.raises(OutOfRegime, match="data-dependent"):
        built("gnmax", 0.1, **settings).fit(X, Y, X_public=POOL)


def test_an_unknown_method_is_refused() -> None:
    with pytest.raises(InvalidInput, match="method must be one of recordwise"):
        rival("magic", epsilon=1)


# Audits. Two neighbours, many releases of each, and what their difference proves. A healthy method is never refuted;
# its twin, which claims the same with a twentieth of the noise or less, is.

EPSILON, FAILURE = 1.0, 1e-9
# Of each neighbour. Where a twin tells nearly every draw apart, 200 draws that count prove an epsilon near 2.
DRAWS = {"gnmax": 400, "knn": 400, "lnmax": 400, "objective-perturbation": 400}
OTHERS_DRAWS = 1000


def _neighbours() -> tuple[Private, Private]:
    """One record, with either label: whatever is counted goes from one class to the other."""
    vector = np.array([[1, 0]], dtype=np.float32)
    return tuple(Private(vectors=vector, labels=np.array([label]), count=1) for label in (0, 1))  # type: ignore[return-value]


AUDITED = {
    "dp-linear": {},
    "noisy-sgd-1": {"steps": 2, "batch_rate": 0.9},
    "noisy-sgd-2": {"steps": 2, "batch_rate": 0.9, "hidden": 2},
    "objective-perturbation": {},
    "knn": {"num_queries": 2, "neighbours_asked": 3},
    "private-knn": {"num_queries": 2, "neighbours_asked": 3, "sample_rate": 0.9, "threshold": None},
    "ind-knn": {"num_queries": 2, "allowance": 2},
    "gnmax": {"num_queries": 2, "teachers": 1},
    "lnmax": {"num_queries": 2, "teachers": 1},
}


def _prepared(name: str) -> Rival:
    model = rival(
        {"name": name, **AUDITED[name]}, epsilon=EPSILON, delta=1e-5, classes=[0, 1], encoder="scaler", random_state=1
    )
    pool = np.array([[1, 0], [0, 1]] * 20, dtype=np.float32) + seeded(0, "pool").normal(size=(40, 2)) * 0.01
    one, _ = _neighbours()
    return model.fit(one.vectors, one.labels, X_public=pool.astype(np.float32), noise=SeededNoise(0))


def _scores(model: Rival, private: Private) -> np.ndarray:
    rows = []
    for _ in range(DRAWS.get(model.name, OTHERS_DRAWS)):
        released = model.release(private, SystemNoise())
        if "labels" in released:
            rows.append([float((released["labels"] == 0).sum())])
        else:
            last = list(released.values())[-1]
            apart = last[:, 0] - last[:, 1]
            found = [float(apart[-1]), float(apart.sum())]
            if len(apart) == 3:  # a row for each column of the record and one for the intercept
                found.append(float(model.scale_(private.vectors)[0] @ apart))
            rows.append(found)
    return np.array(rows)


# The noise that a twin has, as a part of what is due: less where the worst neighbours are farther apart than these two.
PART = {"objective-perturbation": 40}


def _weakened(model: Rival) -> Rival:
    """The twin: as `model`, with a twentieth of the noise or less."""
    part = PART.get(model.name, 20)
    if hasattr(model, "noise_multiplier_"):
        model.noise_multiplier_ /= part
    elif hasattr(model, "sigma2_"):
        model.sigma2_ /= part**2
    else:
        model.scale_ /= part
    return model


@pytest.mark.parametrize("name", sorted(AUDITED))
def test_draws_do_not_refute_the_guarantee_but_do_refute_its_twin(name: str) -> None:
    """A healthy method fails this with probability at most 1e-9."""
    one, other = _neighbours()
    healthy, twin = _prepared(name), _weakened(_prepared(name))
    kept = lower_bound(_scores(healthy, one), _scores(healthy, other), delta=1e-5, failure=FAILURE)
    broken = lower_bound(_scores(twin, one), _scores(twin, other), delta=1e-5, failure=FAILURE)
    assert kept.epsilon <= EPSILON < broken.epsilon


def test_private_values_do_not_show_themselves() -> None:
    one, _ = _neighbours()
    assert repr(one) == "Private()"
    assert replace(one, count=3).count == 3


@pytest.mark.parametrize("pool", [POOL, None], ids=["pool", "no pool"])
def test_no_records_are_a_number_of_records_like_any_other(name: str, pool: np.ndarray | None) -> None:
    """Where their number is private, nothing may fail for want of them; where it is public, they are refused."""
    if pool is None and rivals()[name].needs_pool:
        return
    model = built(name, neighbours="add-remove", records={"expected": 600}).fit(X[:0], Y[:0], X_public=pool)
    assert model.predict_proba(TEST).shape == (200, 3)
    with pytest.raises(InvalidInput, match="at least one sample"):
        built(name).fit(X[:0], Y[:0], X_public=pool)
