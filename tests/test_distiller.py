"""The seven steps together, as a scikit-learn user meets them."""

from __future__ import annotations

import doctest
import inspect
import json
import pickle
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from sklearn.base import clone
from sklearn.datasets import load_digits, make_multilabel_classification
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV
from sklearn.utils.estimator_checks import estimator_checks_generator, parametrize_with_checks
from torch import nn

from recordwise import Account, DecoderSettings, QuerySettings, RecordSettings, StudentSettings, TrustSettings
from recordwise.distiller import PrivateDistiller
from recordwise.errors import BudgetExceeded, ChangedInput, InvalidInput
from recordwise.fits import uncounted
from recordwise.labels.argmax import decode_argmax
from recordwise.privacy.guarantee import Neighbours
from recordwise.privacy.ledger import Ledger
from recordwise.privacy.noise import Noise, SeededNoise
from recordwise.protocols.release import Matched, pack
from recordwise.randomness import seeded
from recordwise.students import TorchStudent


def test_the_docstring_s_example_prints_what_it_says() -> None:
    (example,) = doctest.DocTestFinder(recurse=False).find(
        PrivateDistiller, "PrivateDistiller", globs={"PrivateDistiller": PrivateDistiller}
    )
    assert len(example.examples) == 6
    with uncounted():
        assert doctest.DocTestRunner(optionflags=doctest.ELLIPSIS).run(example).failed == 0


class WithPool(PrivateDistiller):
    """scikit-learn's checks call fit(X, y), so this makes a pool near X; a real pool comes from elsewhere."""

    def fit(self, X: Any, y: Any) -> WithPool:
        rng = seeded(0, "pool")
        try:
            near = np.asarray(X.toarray() if hasattr(X, "toarray") else X, dtype=float)
            span = np.ptp(near, axis=0) + 1e-3
            pool = near[rng.integers(len(near), size=200)] + 0.02 * span * rng.normal(size=(200, near.shape[1]))
        except (
            TypeError,
            ValueError,
            IndexError,
            Warning,
        ):  # X is one of the checks' malformed inputs: fit itself is to refuse it
            pool = rng.normal(size=(200, 3))
        return super().fit(X, y, X_public=pool, noise=SeededNoise(0))


EXCLUDED = {
    "check_dtype_object": "columns of objects are a table, which the encoder for tables takes: they are not refused",
    "check_estimators_nan_inf": "a gap is that record's own fault, and to refuse it would tell: the record abstains",
}


# The quickest way from a release to a student, where a test is about what comes before.
QUICK: dict[str, Any] = {"decoder": "argmax", "student": "linear"}


# Noise is seeded above because the checks compare two fits; noise of epsilon 100 is small because they score them.
@parametrize_with_checks([WithPool(100.0, num_queries=30, **QUICK)], expected_failed_checks=lambda estimator: EXCLUDED)
def test_scikit_learn_accepts_the_estimator(estimator: WithPool, check: Any) -> None:
    check(estimator)


PREDICTING = [
    "check_classifiers_classes",
    "check_classifiers_one_label",
    "check_classifiers_train",
    "check_dict_unchanged",
    "check_fit_idempotent",
    "check_methods_sample_order_invariance",
    "check_methods_subset_invariance",
]


def test_scikit_learn_accepts_what_a_student_of_counts_predicts() -> None:
    """The checks that look at predictions, with the student that an estimator has by itself."""
    default = WithPool(100.0, num_queries=30, decoder="argmax")
    checks = {check.func.__name__: check for _, check in estimator_checks_generator(default)}
    for name in PREDICTING:
        checks[name](default)


@pytest.fixture(scope="module")
def digits() -> dict[str, np.ndarray]:
    bunch = load_digits()
    order = seeded(0, "digits").permutation(len(bunch.images))
    pool, records, test = np.split(order, [600, 1500])
    images = bunch.images.astype(np.uint8)
    parts = {"pool": images[pool], "X": images[records], "y": bunch.target[records]}
    return parts | {"test": images[test], "test_y": bunch.target[test], "pool_y": bunch.target[pool]}


def distiller(**settings: Any) -> PrivateDistiller:
    return PrivateDistiller(**{"epsilon": 4.0, "encoder": "pca", "num_queries": 40, **settings})


def fit(one: PrivateDistiller, digits: dict[str, np.ndarray], noise: Noise | None = None) -> PrivateDistiller:
    return one.fit(digits["X"], digits["y"], X_public=digits["pool"], noise=noise)


def paid_by(folder: Path, **more: Any) -> dict[str, Any]:
    return {"ledger": folder / "ledger.sqlite", "budget": "digits", **more}


def test_digits_are_learned_from_private_votes(digits: dict[str, np.ndarray]) -> None:
    fitted = fit(distiller(), digits)
    assert fitted.score(digits["test"], digits["test_y"]) > 0.8
    assert fitted.predict_proba(digits["test"]).shape == (len(digits["test"]), 10)
    assert np.allclose(fitted.predict_proba(digits["test"]).sum(axis=1), 1)
    assert fitted.guarantee_.epsilon == 4 and fitted.guarantee_.is_pure and fitted.guarantee_.private
    assert (fitted.pool_labels_ == digits["pool_y"]).mean() > 0.8


@pytest.mark.parametrize("mechanism", ["laplace", "permute-and-flip", "gaussian"])
@pytest.mark.parametrize("neighbours", ["replace", "add-remove"])
def test_every_central_mechanism_teaches(digits: dict[str, np.ndarray], mechanism: str, neighbours: str) -> None:
    delta = 1e-6 if mechanism == "gaussian" else 0.0
    fitted = fit(distiller(mechanism=mechanism, neighbours=neighbours, delta=delta, epsilon=8.0), digits)
    assert fitted.score(digits["test"], digits["test_y"]) > 0.7
    assert str(fitted.guarantee_.neighbours) == neighbours


def test_matching_teaches_where_the_clusters_are_the_classes(tmp_path: Path) -> None:
    centres = np.array([[0.0, 0], [9, 0], [0, 9]])
    truth = np.arange(600) % 3
    points = centres[truth] + seeded(0, "blobs").normal(size=(600, 2))
    ledger = Ledger.open(tmp_path / "ledger.sqlite")
    ledger.open_budget("blobs", epsilon=1)
    asked: dict[str, Any] = {"mechanism": "matching", "encoder": "scaler", "num_queries": "auto"}
    one = PrivateDistiller(0.5, **asked, account={"ledger": tmp_path / "ledger.sqlite", "budget": "blobs"})
    one.fit(points[:300], truth[:300], X_public=points[300:])
    assert isinstance(one.rounds_[0].release, Matched)
    assert one.rounds_[0].labels.decoder == "assignment"
    assert one.score(points[300:], truth[300:]) > 0.95
    assert one.guarantee_.epsilon == Fraction(1, 2) and one.guarantee_.is_pure
    assert ledger.spent("blobs") == Fraction(1, 2)


def test_two_fits_draw_fresh_noise(digits: dict[str, np.ndarray]) -> None:
    first, second = (fit(distiller(**QUICK), digits).rounds_[0].release for _ in range(2))
    assert pack(first) != pack(second)


def test_seeded_noise_is_marked_not_private_and_no_ledger_pays_for_it(
    digits: dict[str, np.ndarray], tmp_path: Path
) -> None:
    fitted = fit(distiller(**QUICK), digits, SeededNoise(0))
    assert "NOT PRIVATE" in str(fitted.guarantee_)
    assert not fitted.rounds_[0].release.guarantee.private
    ledger = Ledger.open(tmp_path / "ledger.sqlite")
    ledger.open_budget("digits", epsilon=10)
    with pytest.raises(InvalidInput, match="not private"):
        fit(distiller(account=paid_by(tmp_path)), digits, SeededNoise(0))
    assert ledger.spent("digits") == 0


@pytest.mark.parametrize("delta", [0.0, 1e-6])
def test_rounds_share_one_budget_and_use_it_up(digits: dict[str, np.ndarray], delta: float) -> None:
    fitted = fit(distiller(rounds=3, delta=delta, epsilon=1.0, **QUICK), digits)
    assert len(fitted.rounds_) == 3
    assert 0.998 < fitted.guarantee_.epsilon <= 1
    if not delta:
        assert sum(one.release.guarantee.epsilon for one in fitted.rounds_) == 1


def test_the_ledger_pays_once_per_round_and_refuses_before_looking(
    digits: dict[str, np.ndarray], tmp_path: Path
) -> None:
    place = tmp_path / "ledger.sqlite"
    ledger = Ledger.open(place)
    ledger.open_budget("digits", epsilon=1.5)
    fit(distiller(epsilon=1.0, rounds=2, account=paid_by(tmp_path), **QUICK), digits)
    assert ledger.spent("digits") == 1 and len(ledger.history("digits")) == 2
    with pytest.raises(BudgetExceeded, match=r"0\.5"):
        fit(distiller(epsilon=1.0, account=paid_by(tmp_path)), digits)
    assert ledger.spent("digits") == 1


def test_a_run_folder_gives_the_same_release_again_without_a_second_charge(
    digits: dict[str, np.ndarray], tmp_path: Path
) -> None:
    place = tmp_path / "ledger.sqlite"
    Ledger.open(place).open_budget("digits", epsilon=4)
    settings: dict[str, Any] = {"account": paid_by(tmp_path, run_dir=tmp_path / "run"), **QUICK}
    first, again = (fit(distiller(**settings), digits) for _ in range(2))
    assert pack(first.rounds_[0].release) == pack(again.rounds_[0].release)
    assert Ledger.open(place).spent("digits") == 4
    with pytest.raises(ChangedInput, match="pool"):
        distiller(**settings).fit(digits["X"], digits["y"], X_public=digits["pool"][1:])
    with pytest.raises(ChangedInput, match="num_queries"):
        fit(distiller(**{**settings, "num_queries": 41}), digits)
    assert Ledger.open(place).spent("digits") == 4


def test_a_run_begun_before_a_setting_existed_goes_on_as_it_was(digits: dict[str, np.ndarray], tmp_path: Path) -> None:
    Ledger.open(tmp_path / "ledger.sqlite").open_budget("digits", epsilon=4)
    settings: dict[str, Any] = {"rounds": 2, "account": paid_by(tmp_path, run_dir=tmp_path / "run")}
    first = fit(distiller(**settings), digits)
    manifest = tmp_path / "run" / "run.json"
    begun = json.loads(manifest.read_text())
    del begun["facts"]["queries.focus"]
    manifest.write_text(json.dumps(begun))
    again = fit(distiller(**settings), digits)
    assert [pack(one.release) for one in again.rounds_] == [pack(one.release) for one in first.rounds_]
    with pytest.raises(ChangedInput, match=r"queries\.focus was 0\.5"):
        fit(distiller(**settings, queries={"focus": 0.0}), digits)


@pytest.mark.parametrize("rounds", [1, 2])
def test_a_run_goes_on_with_the_number_of_queries_that_was_recommended_when_it_began(
    digits: dict[str, np.ndarray], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, rounds: int
) -> None:
    Ledger.open(tmp_path / "ledger.sqlite").open_budget("digits", epsilon=4)
    settings: dict[str, Any] = {"num_queries": "auto", "rounds": rounds, **QUICK}
    settings["account"] = paid_by(tmp_path, run_dir=tmp_path / "run")
    fitted = []
    for recommended in (20, 30):  # by another version, or another machine
        monkeypatch.setattr("recordwise.run_settings.recommend_queries", lambda *_, s=recommended, **__: s)
        fitted.append(fit(distiller(**settings), digits))
    first, again = ([pack(one.release) for one in model.rounds_] for model in fitted)
    assert first == again and len(first) == rounds and len(fitted[1].rounds_[0].queries) == 20
    assert Ledger.open(tmp_path / "ledger.sqlite").spent("digits") == 4


def test_a_fitted_distiller_survives_pickling_and_holds_no_votes(digits: dict[str, np.ndarray]) -> None:
    fitted = fit(distiller(), digits)
    content = pickle.dumps(fitted.published())
    assert b"Votes" not in content and b"ExactCounts" not in content
    assert (pickle.loads(content).predict(digits["test"]) == fitted.predict(digits["test"])).all()


def test_parameters_are_cloned_and_searched_like_any_estimators(digits: dict[str, np.ndarray]) -> None:
    assert clone(distiller(epsilon=0.5)).get_params()["epsilon"] == 0.5
    flat = digits["X"].reshape(len(digits["X"]), -1).astype(float)
    search = GridSearchCV(WithPool(8.0, num_queries=30), {"student": ["linear", LogisticRegression()]}, cv=2)
    assert search.fit(flat[:400], digits["y"][:400]).best_score_ > 0.5


def test_records_may_have_several_labels() -> None:
    X, Y = make_multilabel_classification(n_samples=3000, n_features=8, n_classes=4, n_labels=2, random_state=0)
    keep = Y.sum(axis=1) <= 2
    X, Y = X[keep] + seeded(0, "jitter").normal(scale=0.01, size=(keep.sum(), 8)), Y[keep]
    half = len(X) // 2
    fitted = PrivateDistiller(20.0, records={"labels_per_record": 2}, num_queries=30).fit(
        X[:half], Y[:half], X_public=X[half:]
    )
    right = (fitted.predict(X[half:]) == Y[half:]).mean()
    assert right > max((Y[half:] == guess).mean() for guess in (0, 1)) + 0.05
    Y[0] = 1  # more than two: the record abstains, and nobody is told
    PrivateDistiller(20.0, records={"labels_per_record": 2}, num_queries=30).fit(X[:half], Y[:half], X_public=X[half:])
    with pytest.raises(InvalidInput, match="classes must be as many as its columns"):
        PrivateDistiller(20.0, records={"labels_per_record": 2}, classes=list("abc")).fit(
            X[:half], Y[:half], X_public=X[half:]
        )


MISTAKES: list[tuple[dict[str, Any], str]] = [
    ({"epsilon": 0.0}, "epsilon must be > 0"),
    ({"epsilon": float("nan")}, "epsilon must be a finite number, got nan"),
    ({"delta": 1.0}, "delta"),
    ({"votes_per_record": 41}, "k must be <="),
    ({"num_queries": 0}, "num_queries"),
    ({"num_queries": 601}, "num_queries"),
    ({"rounds": 0}, "rounds"),
    ({"neighbours": "swap"}, "neighbours"),
    ({"trust": "nobody"}, "trust"),
    ({"mechanism": "magic"}, "mechanism"),
    ({"mechanism": "gaussian"}, "delta > 0"),
    ({"mechanism": "matching"}, "s must be the 10 classes, got 40"),
    ({"queries": {"metric": "manhattan"}}, "queries.metric must be one of"),
    ({"decoder": "oracle"}, "decoder"),
    ({"student": "genius"}, "student"),
    ({"encoder": "magic"}, "encoder"),
    ({"student": {"name": "linear", "input": "pixels"}}, "student.input must be"),
    ({"student": nn.Sequential(nn.AdaptiveAvgPool1d(4), nn.Linear(4, 3))}, "logit for each of the 10 classes, got 3"),
    ({"records": {"overlap": "refuse"}}, "overlap must be 'vote' or 'abstain', got 'refuse'"),
    ({"records": {"schema": {"kind": "images", "shape": [8]}}}, "a schema of images must have a shape of 2 or 3 sides"),
    ({"records": {"schema": {"kind": "pictures"}}}, "a schema's kind must be one of"),
    ({"trust": "shuffle", "delta": 1e-4, "neighbours": "add-remove", "mechanism": "multi-message"}, "records.expected"),
    ({"num_queries": "auto", "neighbours": "add-remove"}, "records.expected"),
    ({"decoder": {"min_confidence": 2.0}}, "decoder.min_confidence must lie"),
    ({"decoder": {"min_confidence": "high"}}, "min_confidence must be a number, got 'high'"),
    ({"queries": {"max_distance": "far"}}, "max_distance must be a number, got 'far'"),
    ({"votes_per_record": "1", "num_queries": "auto"}, "votes_per_record must be a whole number"),
    ({"records": {"labels_per_record": "1"}}, "labels_per_record must be a whole number"),
    ({"student": {"name": "mlp", "epochs": -1}}, "student must learn from 600 of the pool's samples, it failed: .*-1"),
    ({"student": {"name": "linear", "strength": -1}}, "it failed: .*'C' parameter"),
    ({"student": LogisticRegression(C=-1)}, "it failed: .*'C' parameter"),
    ({"student": LogisticRegression}, "student must be a name"),
    ({"student": {"model": LogisticRegression(), "input": "samples"}}, "it failed: .*dim 3"),  # takes no images
    ({"student": TorchStudent(nn.Linear(64, 10), epochs=-1)}, "epochs must be a whole number"),
    ({"trust": {"name": "distributed", "senders": 3}}, "trust has no setting 'senders', it has name, parties, coll"),
    ({"trust": {"parties": 0}}, "trust.parties must be a whole number >= 1, got 0"),
    ({"queries": {"name": "kmeans", "sides": 3}}, "queries has no setting 'sides'"),
    ({"decoder": {"confidence": 1}}, "decoder has no setting 'confidence', it has name, min_confidence"),
    ({"decoder": None}, "decoder must be a name, settings or DecoderSettings, got None"),
    ({"student": {"name": "linear", "inputs": "samples"}}, "student 'linear' has no setting 'inputs'"),
    ({"records": {"number": 3}}, "records has no setting 'number', it has schema, overlap, categorical, expected, lab"),
    ({"records": "records.csv"}, "records must be settings or RecordSettings, got 'records.csv'"),
]


@pytest.mark.parametrize(("settings", "message"), MISTAKES, ids=[message for _, message in MISTAKES])
def test_a_mistake_is_one_line_and_spends_nothing(
    digits: dict[str, np.ndarray], tmp_path: Path, settings: dict[str, Any], message: str
) -> None:
    ledger = Ledger.open(tmp_path / "ledger.sqlite")
    neighbours = Neighbours.ADD_REMOVE if settings.get("neighbours") == "add-remove" else Neighbours.REPLACE
    ledger.open_budget("digits", epsilon=100, delta=1e-3, neighbours=neighbours)
    with pytest.raises(InvalidInput, match=message) as caught:
        fit(distiller(**settings, account=paid_by(tmp_path)), digits)
    assert "\n" not in str(caught.value)
    assert ledger.spent("digits") == 0


def test_bytes_beside_other_pixels_are_refused() -> None:
    pool = np.zeros((20, 16, 16), dtype=np.uint8)
    for records in (pool.astype(np.int64), pool.astype(np.float32)):
        with pytest.raises(InvalidInput, match=f"records must have pixels like the pool's uint8, got {records.dtype}"):
            PrivateDistiller(1.0).fit(records, np.zeros(20, dtype=int), X_public=pool)


def test_records_of_another_form_are_refused_before_anything_is_spent(
    digits: dict[str, np.ndarray], tmp_path: Path
) -> None:
    flat = digits["X"].reshape(len(digits["X"]), -1).astype(float)
    pool = digits["pool"].reshape(len(digits["pool"]), -1).astype(float)
    place = tmp_path / "ledger.sqlite"
    ledger = Ledger.open(place)
    ledger.open_budget("digits", epsilon=100)

    def attempt(X: Any, y: Any, X_public: Any) -> None:
        PrivateDistiller(1.0, num_queries=20, account=paid_by(tmp_path)).fit(X, y, X_public=X_public)

    with pytest.raises(InvalidInput, match="one label for each"):
        attempt(flat, digits["y"][1:], pool)
    with pytest.raises(InvalidInput, match="the pool's 63 dimensions, got 64"):
        attempt(flat, digits["y"], pool[:, :-1])
    with pytest.raises(InvalidInput, match="Reshape your data"):
        attempt(digits["X"], digits["y"], pool)
    with pytest.raises(InvalidInput, match="X_public must be finite, row 3"):
        attempt(flat, digits["y"], np.where(np.arange(len(pool))[:, None] == 3, np.nan, pool))
    assert ledger.spent("digits") == 0


FAULTS: dict[str, tuple[Any, Any, str]] = {
    "a gap": (np.nan, 0, "1 with a sample that the schema cannot read"),
    "beyond any number": (np.inf, 0, "1 with a sample that the schema cannot read"),
    "a class nobody declared": (0.0, 7, "1 with a class that is not declared"),
    "a label of another kind": (0.0, "flu", "1 with a class that is not declared"),
    "no label": (0.0, None, "1 without a readable label"),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_record_at_fault_abstains_and_only_its_holder_is_told(
    fault: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    from recordwise.report import summarize, write_report

    value, label, says = FAULTS[fault]
    X, pool = (seeded(0, name).normal(size=(60, 2)) for name in ("X", "pool"))
    y = np.arange(60) % 3
    plain: dict[str, Any] = {"num_queries": 4, "classes": [0, 1, 2]}

    def public(changed: bool, folder: Path) -> tuple[str, str]:
        samples, labels = X.copy(), y.astype(object)
        if changed:
            samples[5, 0], labels[5] = value, label
        one = PrivateDistiller(1e6, **plain, account={"run_dir": folder})
        fitted = one.fit(samples, labels, X_public=pool, noise=SeededNoise(0))
        summary = summarize(fitted, pool, name="x")
        write_report(summary, folder / "report.html")
        told = [path.read_bytes() for path in folder.rglob("*") if path.is_file()]
        assert not any(b"abstain:" in part or says.encode() in part for part in told)
        assert not any(word in summary.to_json() for word in ("NaN", "flu", "Infinity"))
        # The verdict and the student follow the release, which is the records' own at this epsilon.
        said = [line for line in summary.as_text().splitlines() if not line.startswith(("verdict: ", "student: "))]
        return str(fitted.rounds_[0].release.estimate.sum()), "\n".join(said)  # type: ignore[union-attr]

    (all_votes, before), (one_fewer, after) = (public(changed, tmp_path / str(changed)) for changed in (False, True))
    assert (float(all_votes), float(one_fewer)) == (60, 59)  # epsilon is so large that there is no noise
    assert before == after
    assert [record.getMessage() for record in caplog.records] == [
        f"for the holder only: 1 of 60 records abstain: {says}"
    ]


class Fickle(LogisticRegression):  # type: ignore[misc]
    fits = 0

    def fit(self, X: np.ndarray, y: np.ndarray, sample_weight: np.ndarray | None = None) -> Fickle:
        Fickle.fits += 1
        if Fickle.fits == 2:  # the first one is the rehearsal
            raise MemoryError("enough")
        return super().fit(X, y, sample_weight)  # type: ignore[no-any-return]


def test_a_release_outlives_a_student_that_cannot_be_taught(digits: dict[str, np.ndarray]) -> None:
    one = distiller(student=Fickle())
    with pytest.raises(MemoryError, match="enough"):
        fit(one, digits)
    (paid,) = one.rounds_
    assert paid.release.guarantee == one.guarantee_ and len(paid.labels) == len(paid.queries)


def test_the_number_of_records_is_not_used_when_it_is_private(digits: dict[str, np.ndarray]) -> None:
    one = distiller(neighbours="add-remove", num_queries="auto", records={"expected": 900}, classes=range(10), **QUICK)
    planned = [
        len(one.fit(digits["X"][:n], digits["y"][:n], X_public=digits["pool"][:100]).rounds_[0].queries)
        for n in (1, 200)
    ]
    assert planned[0] == planned[1] > 10


@pytest.mark.parametrize(
    ("settings", "says"),
    [
        ({"trust": {"name": "distributed", "parties": 5}}, "nobody sees a party's votes"),
        ({"trust": "local", "epsilon": 8.0, "num_queries": 10}, "nobody is trusted"),
        ({"trust": "shuffle", "delta": 1e-4}, "the shuffler is trusted"),
        ({"trust": "shuffle", "delta": 1e-4, "mechanism": "multi-message"}, "the shuffler is trusted"),
    ],
    ids=["distributed", "local", "shuffle, one message", "shuffle, many messages"],
)
def test_every_trust_teaches_and_is_paid_for(
    digits: dict[str, np.ndarray], tmp_path: Path, settings: dict[str, Any], says: str
) -> None:
    ledger = Ledger.open(tmp_path / "ledger.sqlite")
    ledger.open_budget("digits", epsilon=10, delta=1e-3)
    fitted = fit(distiller(**settings, account=paid_by(tmp_path)), digits)
    assert says in str(fitted.guarantee_)
    assert fitted.score(digits["test"], digits["test_y"]) > 0.5
    assert 0.9 * fitted.guarantee_.epsilon < ledger.spent("digits") <= fitted.guarantee_.epsilon


def test_records_that_abstain_do_not_pay(digits: dict[str, np.ndarray], tmp_path: Path) -> None:
    """Four rounds of epsilon 1 fit a cap of 2: a record votes while it can pay, and the ledger is charged the cap."""
    place = tmp_path / "ledger.sqlite"
    ledger = Ledger.open(place)
    ledger.open_budget("digits", epsilon=2)
    paid = paid_by(tmp_path, round_epsilon=1.0, run_dir=tmp_path / "run")
    fitted = fit(distiller(epsilon=2.0, rounds=4, account=paid, **QUICK), digits)
    assert fitted.guarantee_.epsilon == 2 and ledger.spent("digits") == 2 and len(ledger.history("digits")) == 4
    votes = [float(one.release.estimate.sum()) for one in fitted.rounds_]  # type: ignore[union-attr]
    noise = 6 * fitted.rounds_[0].release.law.std * 20  # type: ignore[union-attr]  # of a sum of 400 cells, six sigma
    assert min(votes[:2]) > 900 - noise and max(map(abs, votes[2:])) < noise  # nobody can pay a third time
    with pytest.raises(InvalidInput, match="round_epsilon"):
        fit(distiller(account={"round_epsilon": 1.0}, trust="local"), digits)
    for refused in ({"delta": 1e-6}, {"mechanism": "permute-and-flip"}):
        with pytest.raises(InvalidInput, match=r"charges vote by vote: laplace \(central trust\)$"):
            fit(distiller(account={"round_epsilon": 1.0}, **refused), digits)
    with pytest.raises(InvalidInput, match=r"round_epsilon must lie in \(0, 4\], got 9"):
        fit(distiller(account={"round_epsilon": 9.0}), digits)


@pytest.mark.parametrize("trust", ["shuffle", "distributed"])
def test_a_release_does_not_tell_how_many_records_there_are_under_add_remove(
    digits: dict[str, np.ndarray], trust: str
) -> None:
    """Everything but the noisy counts must be the same whatever the number of records is."""
    settings = {"neighbours": "add-remove", "records": {"expected": 1000}, "num_queries": 10, "trust": trust}
    settings |= {"epsilon": 8.0, **QUICK}
    if trust == "shuffle":
        settings |= {"delta": 1e-6, "mechanism": "multi-message"}
    releases = [
        distiller(**settings).fit(digits["X"][:n], digits["y"][:n], X_public=digits["pool"]).rounds_[0].release
        for n in (900, 800)
    ]
    first, second = releases
    assert first.law == second.law and first.guarantee == second.guarantee  # type: ignore[union-attr]


def test_a_run_is_not_taken_up_with_another_weight_in_its_encoder(
    digits: dict[str, np.ndarray], tmp_path: Path
) -> None:
    module = nn.Sequential(nn.Flatten(), nn.Linear(64, 8))
    settings = {"encoder": [module, "scaler"], "account": {"run_dir": tmp_path / "run"}, **QUICK}
    first, again = (fit(distiller(**settings), digits) for _ in range(2))
    assert pack(first.rounds_[0].release) == pack(again.rounds_[0].release)
    assert first.hashes_["encoder"] == again.hashes_["encoder"]
    with torch.no_grad():
        module[1].bias[3] += 1e-3
    with pytest.raises(ChangedInput, match=r"encoder was .*TorchEncoder"):
        fit(distiller(**settings), digits)
    changed = fit(distiller(encoder=[module, "scaler"], **QUICK), digits)
    assert changed.hashes_["encoder"] != first.hashes_["encoder"]


def test_a_run_folder_without_a_ledger_releases_once(digits: dict[str, np.ndarray], tmp_path: Path) -> None:
    first, again = (fit(distiller(account={"run_dir": tmp_path / "run"}, **QUICK), digits) for _ in range(2))
    assert pack(first.rounds_[0].release) == pack(again.rounds_[0].release)
    with pytest.raises(ChangedInput, match="private"):
        fit(distiller(account={"run_dir": tmp_path / "run"}, **QUICK), digits, SeededNoise(0))


def test_columns_are_matched_by_name() -> None:
    import pandas as pd

    rng = seeded(0, "columns")
    records, pool = (pd.DataFrame(rng.normal(size=(50, 2)), columns=["age", "income"]) for _ in range(2))
    one = PrivateDistiller(1.0, num_queries=5, **QUICK)

    def released(frame: Any) -> bytes:
        fitted = clone(one).fit(frame, [0, 1] * 25, X_public=pool, noise=SeededNoise(0))
        return pack(fitted.rounds_[0].release)

    assert released(records) == released(records[["income", "age"]]) == released(records.assign(name="x"))
    with pytest.raises(InvalidInput, match=r"pool's columns \(age, income\), it lacks income"):
        one.fit(records[["age"]], [0, 1] * 25, X_public=pool)


def test_a_pool_of_fewer_samples_than_classes_still_gets_its_queries_chosen() -> None:
    X = seeded(0, "few").normal(size=(60, 2))
    fitted = PrivateDistiller(1.0).fit(X, np.arange(60) % 3, X_public=X[:2] + 0.5)
    assert len(fitted.rounds_[0].queries) == 2


def test_records_that_lie_in_the_pool_vote_or_abstain(
    digits: dict[str, np.ndarray], caplog: pytest.LogCaptureFixture
) -> None:
    pool = np.concatenate([digits["pool"], digits["X"][:200]])
    for overlap, votes in (("vote", 900), ("abstain", 700)):
        one = distiller(epsilon=1e6, records={"overlap": overlap}, **QUICK)
        fitted = one.fit(digits["X"], digits["y"], X_public=pool, noise=SeededNoise(0))
        assert fitted.rounds_[0].release.estimate.sum() == votes  # type: ignore[union-attr]
    voting, abstaining = (record.getMessage() for record in caplog.records)
    assert "200 of 900 records also lie in the pool, and vote" in voting
    assert "200 of 900 records abstain: 200 that also lie in the pool" in abstaining


@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"account": {"round_epsilon": 60.0}},
        {"trust": {"name": "distributed", "parties": 3}},
        {"trust": "shuffle", "delta": 1e-4, "mechanism": "multi-message"},
    ],
)
def test_any_number_of_records_is_taken_where_it_is_private(
    digits: dict[str, np.ndarray], settings: dict[str, Any]
) -> None:
    """More than expected, fewer, and none at all: every record votes, and the release's law says nothing of them."""
    settings = {"neighbours": "add-remove", "records": {"expected": 100}, "num_queries": 10, **QUICK, **settings}
    laws = set()
    for n in (0, 1, 101):
        one = distiller(**settings, epsilon=60.0, classes=range(10))
        release = one.fit(digits["X"][:n], digits["y"][:n], X_public=digits["pool"][:100]).rounds_[0].release
        assert release.estimate.sum() == n  # type: ignore[union-attr]  # but for a chance of 100 cells · 2e^-54
        laws.add((repr(release.law), str(release.guarantee)))  # type: ignore[union-attr]
    assert len(laws) == 1
    with pytest.raises(InvalidInput, match="at least one sample"):
        distiller(classes=range(10)).fit(digits["X"][:0], [], X_public=digits["pool"])


def test_a_round_that_costs_the_whole_allowance_is_one_that_every_record_can_pay() -> None:
    """Where two records must share cells, a vote is a larger part of what neighbours change, not of the allowance."""
    points = 100.0 * (np.arange(40) % 2)[:, None] + seeded(0, "allowance").normal(size=(40, 2))
    several = np.tile([1, 1, 0], (40, 1))
    settings: dict[str, Any] = {"num_queries": 2, "votes_per_record": 2, "classes": [0, 1, 2]}
    settings |= {"records": {"labels_per_record": 2}, "account": {"round_epsilon": 500.0}}
    one = PrivateDistiller(500.0, **settings)
    release = one.fit(points, several, X_public=points + 0.5).rounds_[0].release
    assert release.estimate.tolist() == [[40, 40, 0]] * 2  # type: ignore[union-attr]  # but for a chance of 12e^-62
    assert one.guarantee_.epsilon == 500


def test_a_written_schema_reads_the_records_and_belongs_to_the_run(tmp_path: Path) -> None:
    import json

    pool = [["1", "1990"], ["2", "2001"], ["1", "1975"], ["3", "1960"]] * 5
    written = {
        "kind": "table",
        "columns": [
            {"name": "ward", "kind": "category", "categories": ["1", "2", "3"]},
            {"name": "year", "kind": "number", "range": [1900, 2030]},
        ],
    }
    (tmp_path / "schema.json").write_text(json.dumps(written))
    settings: dict[str, Any] = {"num_queries": 3, "classes": [0, 1], "account": {"run_dir": tmp_path / "run"}}

    def read_by(schema: Any) -> PrivateDistiller:
        one = PrivateDistiller(1.0, records={"schema": schema}, **settings)
        return one.fit(pool, [0, 1] * 10, X_public=pool)

    first = read_by(tmp_path / "schema.json")
    assert first.published().schema == first.schema_
    assert first.schema_.as_dict() == written and first.encoder_.transform([[1.0, 1990]]).shape == (1, 4)
    assert json.loads((tmp_path / "run" / "run.json").read_text())["facts"]["schema"] == written
    read_by(written)
    written["columns"][1]["range"] = [1900, 2031]  # type: ignore[index]
    with pytest.raises(ChangedInput, match=r"^schema was"):
        read_by(written)


def test_a_run_the_budget_cannot_pay_for_is_refused_before_any_work(
    digits: dict[str, np.ndarray], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ledger = Ledger.open(tmp_path / "ledger.sqlite")
    ledger.open_budget("digits", epsilon=1)
    monkeypatch.setattr("recordwise.pipeline.how_encoded", lambda encoder, pool: pytest.fail("work was done"))
    with pytest.raises(BudgetExceeded, match=r"needs epsilon 1\.5 but 1 of 1 is left"):
        fit(distiller(epsilon=1.5, rounds=3, account=paid_by(tmp_path)), digits)
    assert ledger.spent("digits") == 0


def test_one_process_that_plays_all_parties_says_so(digits: dict[str, np.ndarray]) -> None:
    from recordwise.report import summarize

    for trust, simulated in (("central", False), ("distributed", True)):
        fitted = fit(distiller(trust={"name": trust, "parties": 3 if simulated else 1}, **QUICK), digits)
        assert ("played by one process" in summarize(fitted, digits["pool"], name="x").as_text()) == simulated


def test_the_constructor_has_sixteen_parameters_and_settings_come_in_three_forms(digits: dict[str, np.ndarray]) -> None:
    """A name, a mapping and an object say the same, and scikit-learn copies each of them."""
    assert len(inspect.signature(PrivateDistiller).parameters) == 16
    objects: dict[str, Any] = {
        "trust": TrustSettings("distributed", parties=3),
        "queries": QuerySettings(metric="cosine", max_distance=1.5),  # type: ignore[arg-type]
        "decoder": DecoderSettings("posterior", min_confidence=0.1),
        "student": StudentSettings("linear", input="vectors"),
        "records": RecordSettings(overlap="abstain", expected=900),
        "account": Account(budget="digits"),
    }
    mappings: dict[str, Any] = {
        "trust": {"name": "distributed", "parties": 3},
        "queries": {"metric": "cosine", "max_distance": 1.5},
        "decoder": {"name": "posterior", "min_confidence": 0.1},
        "student": {"name": "linear"},
        "records": {"overlap": "abstain", "expected": 900},
        "account": {"budget": "digits"},
    }
    as_objects, as_mappings = (distiller(**form) for form in (objects, mappings))
    said = as_objects.settings.values() | {"student": "linear"}
    assert said == as_mappings.settings.values() | {"student": "linear"}
    for one in (as_objects, as_mappings):
        assert clone(one).settings.values() == one.settings.values()
        assert fit(clone(one), digits, SeededNoise(0)).score(digits["test"], digits["test_y"]) > 0.5
    named = distiller(trust="local", decoder="posterior", student="mlp").settings
    assert (named.terms.trust, named.decoder.name, named.student.model) == ("local", "posterior", "mlp")


def test_a_decoder_of_one_s_own_is_asked(digits: dict[str, np.ndarray]) -> None:
    seen = []

    def own(release: Any, facts: Any) -> Any:
        seen.append(len(facts.sizes))
        return decode_argmax(release, facts)

    fitted = fit(distiller(decoder=own, student="linear"), digits)
    assert set(seen) == {40} and fitted.score(digits["test"], digits["test_y"]) > 0.7


def test_later_rounds_ask_in_the_metric_and_reach_of_the_first(digits: dict[str, np.ndarray]) -> None:
    fitted = fit(distiller(rounds=2, queries={"metric": "cosine", "max_distance": 1.25}, **QUICK), digits)
    assert [(one.queries.metric, one.queries.max_distance) for one in fitted.rounds_] == [("cosine", 1.25)] * 2
