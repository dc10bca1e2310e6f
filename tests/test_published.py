"""What is stored comes back as it was, or whoever reads it is told in one line what to bring."""

from __future__ import annotations

import sys
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.decomposition import PCA
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.random_projection import GaussianRandomProjection
from torch import nn

from recordwise import PrivateDistiller, load, save, stored
from recordwise.arrays import softmax
from recordwise.encoders import TorchEncoder
from recordwise.encoders.pretrained import pretrained
from recordwise.errors import ChangedInput, InvalidInput, MissingExtra
from recordwise.hashing import fingerprint
from recordwise.privacy.guarantee import Guarantee, exact
from recordwise.privacy.ledger import Ledger
from recordwise.published import FILE
from recordwise.randomness import seeded
from recordwise.students import TorchStudent
from recordwise.vision.resnet import ResNet
from recordwise.vision.saved import save_weights
from recordwise.vision.steps import fresh_weights

RNG = seeded(0, "published")
TRUTH = np.arange(160) % 3
POINTS = 7.0 * np.eye(3)[TRUTH] + RNG.normal(size=(160, 3))
POOL, X, Y, TEST = POINTS[:60], POINTS[60:120], TRUTH[60:120], POINTS[120:]
NAMES = np.array(["oak", "ash", "elm"])


def fitted(pool: Any = POOL, samples: Any = X, labels: Any = None, **settings: Any) -> PrivateDistiller:
    labels = NAMES[Y] if labels is None else labels
    asked = {"num_queries": 6, "classes": list(NAMES), **settings}
    return PrivateDistiller(50.0, **asked).fit(samples, labels, X_public=pool)


class Shifted(TransformerMixin, BaseEstimator):  # type: ignore[misc]
    """A transformer of the user's own, which nobody else can build."""

    def __init__(self, how: str = "same") -> None:
        self.how = how

    def fit(self, pool: Any, y: object = None) -> Shifted:
        self.mean_ = np.asarray(pool).mean(axis=0)
        if self.how == "another every time":
            self.mean_ = self.mean_ + np.random.default_rng().normal()
        return self

    def transform(self, samples: Any) -> np.ndarray:
        return np.asarray(samples) - self.mean_


STUDENTS: dict[str, dict[str, Any]] = {
    "counts": {},
    "counts with a network": {"student": {"name": "counts", "hidden": 4}},
    "linear": {"student": "linear"},
    "mlp": {"student": {"name": "mlp", "hidden": [8, 4], "epochs": 5}},
    "of samples": {"student": {"name": "linear", "input": "samples"}},
    "of projections": {"encoder": "pca", "queries": {"metric": "cosine"}},
}


@pytest.mark.parametrize("name", STUDENTS)
def test_a_student_comes_back_as_it_was(tmp_path: Path, name: str) -> None:
    one = fitted(**STUDENTS[name])
    assert save(one, tmp_path / "new" / "folder") == tmp_path / "new" / "folder" / FILE
    back = load(tmp_path / "new" / "folder")
    assert np.array_equal(back.predict_proba(TEST), one.predict_proba(TEST))
    assert list(back.predict(TEST)) == list(one.predict(TEST))
    assert back.score(TEST, NAMES[TRUTH[120:]]) == one.score(TEST, NAMES[TRUTH[120:]])
    assert str(back.guarantee_) == str(one.guarantee_)
    assert (tmp_path / "new" / "folder" / FILE).read_bytes() == save(back, tmp_path / "again").read_bytes()


def test_a_student_of_before_regions_predicts_as_it_did(tmp_path: Path) -> None:
    one = fitted()
    older = one.published()
    assert older.student.regions
    del older.student.__dict__["regions"]  # and so it was written
    save(older, tmp_path)
    again = load(tmp_path)
    vectors = older.student.scaler.transform(older.encoder.transform(TEST)).astype(np.float64)
    logits = vectors @ older.student.coefficients[:-1] + older.student.coefficients[-1] + older.student.shift
    assert again.predict_proba(TEST) == pytest.approx(softmax(logits))


def test_a_student_whose_regions_meant_something_else_is_refused() -> None:
    [regions] = fitted().published().student.regions
    regions.__dict__["weight"] = 0.5  # they had one, and were mixed in by it
    with pytest.raises(InvalidInput, match="of this version, its Regions is of another: teach it again, which is free"):
        stored.from_bytes(stored.to_bytes(regions))


def test_two_classes_and_several_labels_come_back(tmp_path: Path) -> None:
    two = fitted(labels=Y % 2, classes=[0, 1], student={"name": "mlp", "hidden": [4], "epochs": 5})
    both = np.column_stack([Y > 0, Y > 1]).astype(int)
    several = fitted(labels=both, classes=["a", "b"], records={"labels_per_record": 2}, student="linear")
    for one in (two, several):
        save(one, tmp_path)
        assert np.array_equal(load(tmp_path).predict(TEST), one.predict(TEST))


def test_tables_and_text_come_back(tmp_path: Path) -> None:
    table = pd.DataFrame({"a": POOL[:, 0], "b": [None, *"xyz" * 20][:60]})
    words = [f"{NAMES[label]} leaf {NAMES[label]} tree number{i % 7}" for i, label in enumerate(TRUTH[:60])]
    for pool in (table, words):
        one = fitted(pool=pool, samples=pool, labels=NAMES[TRUTH[:60]])
        save(one, tmp_path)
        assert list(load(tmp_path).predict(pool)) == list(one.predict(pool))


def test_an_encoder_of_the_user_s_own_is_brought_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    one = fitted(encoder=Shifted())
    save(one, tmp_path)
    with pytest.raises(InvalidInput, match=r"a 'Shifted', was not stored: load\(folder, encoder=...\) must bring it"):
        load(tmp_path)
    with pytest.raises(InvalidInput, match="must be the one that the student learned with"):
        load(tmp_path, encoder=Shifted().fit(POOL + 1))
    assert list(load(tmp_path, encoder=Shifted().fit(POOL)).predict(TEST)) == list(one.predict(TEST))


def test_a_network_s_weights_are_stored_and_its_layers_are_brought_again(tmp_path: Path) -> None:
    one = fitted(student=TorchStudent(nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.Linear(4, 3)), epochs=3))
    save(one, tmp_path)
    with pytest.raises(InvalidInput, match=r"needs load\(folder, student=...\) to bring its network"):
        load(tmp_path)
    with pytest.raises(InvalidInput, match="network of the same layers"):
        load(tmp_path, student=nn.Linear(3, 3))
    back = load(tmp_path, student=nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.Linear(4, 3)))
    assert np.array_equal(back.predict_proba(TEST), one.predict_proba(TEST))


def test_a_network_of_a_file_is_stored_whole(tmp_path: Path) -> None:
    images = RNG.integers(0, 255, size=(60, 8, 8), dtype=np.uint8)
    with fresh_weights(0):
        save_weights(ResNet(mean=[0.5], deviation=[0.3], width=2), tmp_path / "backbone.safetensors")
    encoder = pretrained(tmp_path / "backbone.safetensors")
    one = fitted(pool=images, samples=images, labels=NAMES[TRUTH[:60]], encoder=encoder)
    save(one, tmp_path)
    (tmp_path / "backbone.safetensors").unlink()
    back = load(tmp_path)
    assert fingerprint(back.encoder) == fingerprint(one.encoder_)
    assert np.array_equal(back.predict_proba(images), one.predict_proba(images))


def test_a_network_that_announces_more_than_it_brings_is_refused_before_it_is_built() -> None:
    network = {"stem.weight": np.zeros((40_000, 1, 1, 1), dtype=np.float32)}  # would have 10^12 weights
    parts = {"side": None, "mean": [0.0], "deviation": [1.0], "network": network}
    with pytest.raises(InvalidInput, match="must hold this module's weights"):
        TorchEncoder.from_state({"parts": parts, "device": "cpu", "batch_size": 1})


@pytest.mark.parametrize("delta", [5e-324, 1e-300, "1/3", Fraction(1, 10**4299)], ids=lambda one: str(one)[:8])
def test_a_promise_comes_back_however_small_its_delta(delta: Any) -> None:
    """What can be paid for can be published: it must not fail once the release is made."""
    promise = Guarantee(epsilon=Fraction(1), delta=exact(delta))
    assert stored.from_bytes(stored.to_bytes(promise)) == promise


def test_what_no_fitting_leaves_is_refused(tmp_path: Path) -> None:
    one = fitted(student="linear")
    one.student_.model_.coef_ = one.student_.model_.coef_[:, :2]
    save_anyway = stored.to_bytes({"format": "recordwise-student-1", **vars(one.published())})
    (tmp_path / FILE).write_bytes(save_anyway)
    with pytest.raises(InvalidInput, match="such as fitting leaves it"):
        load(tmp_path)


def test_an_encoder_that_cannot_be_kept_is_made_again_and_compared(tmp_path: Path) -> None:
    place = tmp_path / "ledger.sqlite"
    settings = {"account": {"ledger": place, "budget_epsilon": 99.0, "run_dir": tmp_path / "run"}}
    with pytest.raises(InvalidInput, match="must come out the same when it is fitted again, for a 'Shifted'") as caught:
        fitted(encoder=Shifted("another every time"), **settings)
    assert "\n" not in str(caught.value)
    assert "default" not in [budget.name for budget in Ledger.open(place).budgets()]  # nothing was paid
    first = fitted(encoder=Shifted(), **settings)
    assert fingerprint(first.encoder_) == fingerprint(fitted(encoder=Shifted(), **settings).encoder_)
    monkey = Shifted.fit
    try:
        Shifted.fit = lambda self, pool, y=None: monkey(self, np.asarray(pool) + 1)  # type: ignore[method-assign]
        with pytest.raises(ChangedInput, match="came out otherwise when it was made again"):
            fitted(encoder=Shifted(), **settings)
    finally:
        Shifted.fit = monkey  # type: ignore[method-assign]
    assert len(Ledger.open(place).history("default")) == 1


def test_without_skops_a_classifier_of_the_user_s_own_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    one = fitted(student=LogisticRegression())
    monkeypatch.setitem(sys.modules, "skops.io", None)
    with pytest.raises(InvalidInput, match="student LogisticRegression cannot be written down as data"):
        save(one, tmp_path)
    with pytest.raises(InvalidInput, match="a student could not be read from"):
        load(tmp_path)


def test_with_skops_scikit_learn_comes_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("skops")
    encoder = make_pipeline(GaussianRandomProjection(2), PCA(2))  # another one every time it is fitted
    settings: dict[str, Any] = {"encoder": encoder, "account": {"run_dir": tmp_path / "run"}}
    one = fitted(student=LogisticRegression(), **settings)
    assert fingerprint(fitted(student=LogisticRegression(), **settings).encoder_) == fingerprint(one.encoder_)
    save(one, tmp_path)
    assert np.array_equal(load(tmp_path).predict_proba(TEST), one.predict_proba(TEST))
    with monkeypatch.context() as without:
        without.setitem(sys.modules, "skops.io", None)
        with pytest.raises(MissingExtra, match=r"recordwise\[skops\]"):
            load(tmp_path)
    forest = fitted(student=RandomForestClassifier(3))  # skops does not vouch for its trees
    with pytest.raises(InvalidInput, match="cannot be written down"):
        save(forest, tmp_path)
