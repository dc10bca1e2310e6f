"""In a pipeline: what other steps learn from private records, nobody protects."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import sklearn
from sklearn.base import BaseEstimator, ClassifierMixin, clone
from sklearn.compose import ColumnTransformer
from sklearn.frozen import FrozenEstimator
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import FeatureUnion, Pipeline, make_pipeline
from sklearn.preprocessing import StandardScaler

from recordwise.distiller import PrivateDistiller
from recordwise.errors import InvalidInput
from recordwise.hashing import fingerprint
from recordwise.privacy.noise import SeededNoise
from recordwise.randomness import seeded

CENTRES = 1e4 * np.array([[0.0, 0.0], [3.0, 0.0], [0.0, 3.0]])  # of columns on scales that need scaling
TRUTH = np.arange(300) % 3
POINTS = (CENTRES[TRUTH] + seeded(0, "points").normal(size=(300, 2))) * [1, 1e-4]
POOL, X, Y = POINTS[:150], POINTS[150:], TRUTH[150:]


def distiller(**settings: Any) -> PrivateDistiller:
    return PrivateDistiller(50.0, num_queries=6, classes=[0, 1, 2], **settings)


class Around(ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """Somebody's own estimator around ours."""

    def __init__(self, inner: Any = None) -> None:
        self.inner = inner

    def fit(self, X: Any, y: Any, X_public: Any = None) -> Around:
        self.inner_ = clone(self.inner).fit(X, y, X_public=X_public)
        self.classes_ = self.inner_.classes_
        return self


@pytest.mark.parametrize(
    ("made", "step"),
    [
        (lambda: Pipeline([("scale", StandardScaler()), ("us", distiller())]), "scale"),
        (lambda: Pipeline([("scale", StandardScaler()), ("us", distiller())], memory=None, verbose=False), "scale"),
        (lambda: Pipeline([("ice", frozen()), ("scale", StandardScaler()), ("us", distiller())]), "scale"),
        (lambda: Pipeline([("outer", StandardScaler()), ("us", make_pipeline(frozen(), distiller()))]), "outer"),
        (lambda: Pipeline([("before", make_pipeline(StandardScaler())), ("us", distiller())]), "before"),
        (lambda: Pipeline([("some", FeatureUnion([("scale", StandardScaler())])), ("us", distiller())]), "some"),
        (lambda: Pipeline([("some", ColumnTransformer([("a", StandardScaler(), [0])])), ("us", distiller())]), "some"),
        (lambda: Pipeline([("scale", StandardScaler()), ("us", Around(distiller()))]), "scale"),
    ],
    ids=["plain", "options", "after a frozen one", "nested", "nested before", "union", "columns", "wrapped"],
)
def test_a_step_fitted_on_private_records_is_refused_with_the_cure(made: Any, step: str) -> None:
    last = "us__privatedistiller" if step == "outer" else "us"
    with pytest.raises(InvalidInput, match=rf"step '{step}' is fitted on private records.*encoder.*FrozenEstimator"):
        made().fit(X, Y, **{f"{last}__X_public": POOL})


def test_make_pipeline_and_a_grid_search_around_it_are_refused() -> None:
    made = make_pipeline(StandardScaler(), distiller())
    with pytest.raises(InvalidInput, match="step 'standardscaler' is fitted on private records"):
        made.fit(X, Y, privatedistiller__X_public=POOL)
    search = GridSearchCV(made, {"privatedistiller__epsilon": [1.0, 2.0]}, cv=2, error_score="raise")
    with pytest.raises(InvalidInput, match="step 'standardscaler' is fitted on private records"):
        search.fit(X, Y, privatedistiller__X_public=POOL)


def frozen() -> Any:
    return FrozenEstimator(StandardScaler().fit(POOL))


def test_a_frozen_step_may_stand_before_us_and_the_pool_is_given_as_it_makes_it() -> None:
    scaler = frozen()
    for made in (
        make_pipeline(scaler, distiller()),
        make_pipeline("passthrough", scaler, distiller()),
        make_pipeline(make_pipeline(scaler), distiller()),
    ):
        made.fit(X, Y, privatedistiller__X_public=scaler.transform(POOL), privatedistiller__noise=SeededNoise(0))
        assert made.score(X, Y) > 0.9
    search = GridSearchCV(make_pipeline(scaler, distiller()), {"privatedistiller__epsilon": [50.0]}, cv=2)
    given = {"X_public": scaler.transform(POOL), "noise": SeededNoise(0)}
    search.fit(X, Y, **{f"privatedistiller__{name}": value for name, value in given.items()})
    assert search.best_score_ > 0.9


def test_scikit_learn_passes_the_pool_through_frozen_steps_when_told_to() -> None:
    with sklearn.config_context(enable_metadata_routing=True):
        ours = distiller(encoder="pca").set_fit_request(X_public=True, noise=True)
        made = Pipeline([("scale", frozen()), ("us", ours)], transform_input=["X_public"])
        made.fit(X, Y, X_public=POOL, noise=SeededNoise(0))
    assert made.score(X, Y) > 0.9
    assert made[-1].hashes_["pool"] == fingerprint(frozen().transform(POOL))


def test_a_pipeline_of_us_alone_and_no_pipeline_are_fine() -> None:
    alone = make_pipeline(distiller())
    alone.fit(X, Y, privatedistiller__X_public=POOL, privatedistiller__noise=SeededNoise(0))
    ours = distiller(encoder=StandardScaler()).fit(X, Y, X_public=POOL, noise=SeededNoise(0))
    assert alone.score(X, Y) > 0.9 and ours.score(X, Y) > 0.9
