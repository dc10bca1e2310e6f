"""Class weights by name or in order, for every student that takes them; they are the same weights in scikit-learn."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from sklearn.feature_selection import VarianceThreshold
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC
from sklearn.utils.class_weight import compute_class_weight

from recordwise import PrivateDistiller, load, save
from recordwise.errors import InvalidInput
from recordwise.privacy.noise import SeededNoise
from recordwise.randomness import seeded
from recordwise.students import FromCounts, Linear, Mlp
from recordwise.students.spec import placed
from recordwise.students.weights import rules_in_words, unweighted, weights_in_order, weights_of

CLASSES = ["none", "event"]


def drawn(size: int) -> tuple[Any, Any]:
    """A rare class that overlaps with the common one."""
    rng = seeded(size, "weights")
    rare = rng.random(size) < 0.15
    return (rng.normal(size=(size, 3)) + 1.2 * rare[:, None]).astype(np.float32), np.array(CLASSES)[rare.astype(int)]


RECORDS, POOL, TEST = drawn(3000), drawn(500)[0], drawn(1000)[0]


def fitted(student: Any, classes: Any = CLASSES, labels: Any = None, **more: Any) -> PrivateDistiller:
    model = PrivateDistiller(2.0, **({"num_queries": 12, "classes": classes, "student": student} | more))
    return model.fit(RECORDS[0], RECORDS[1] if labels is None else labels, X_public=POOL, noise=SeededNoise(0))


@pytest.mark.parametrize("classes", [["a", "b", "c"], [3, 1, 2]])
def test_weights_go_by_name_as_in_scikit_learn_or_in_the_order_of_classes(classes: list[Any]) -> None:
    named = {classes[2]: 5.0, classes[0]: 2}
    expected = compute_class_weight(named, classes=np.array(classes), y=np.array(classes))
    assert weights_in_order(named, classes).tolist() == expected.tolist() == [2.0, 1.0, 5.0]
    in_a_file = {str(name): weight for name, weight in named.items()}  # TOML has no other keys
    assert weights_in_order(in_a_file, classes).tolist() == expected.tolist()
    assert weights_in_order(np.array([2, 1, 5]), classes).tolist() == expected.tolist()


MISTAKES: list[tuple[Any, str]] = [
    ({"none": 1, "evnt": 10}, r"must name declared classes, 'evnt' is none of \['none', 'event'\]"),
    ({0: 1, 1: 10}, "must name declared classes, 0 is none of"),
    ({"event": 2, " event": 3}, "must name each class once, ' event' is there twice"),
    ([1], r"one weight for each of \['none', 'event'\], in this order: 'event' has none"),
    ([1, 10, 7], "one weight for each of .*: 7 is left over"),
    ({"event": 0}, "class_weight of 'event' must be a number > 0, .* got 0"),
    ([float("nan"), 1], "class_weight of 'none' must be a number > 0, .* got nan"),
    ({"event": float("inf")}, "class_weight of 'event' must be .* got inf"),
    ({"event": -1e-300}, "class_weight of 'event' must be"),
    ({"event": "10"}, "class_weight of 'event' must be .* got '10'"),
    ("heavy", "class_weight must be 'balanced', weights by class or a list of them, got 'heavy'"),
    (7, "class_weight must be 'balanced', .* got 7"),
]


@pytest.mark.parametrize(("weights", "rule"), MISTAKES, ids=[rule for _, rule in MISTAKES])
@pytest.mark.parametrize("name", ["counts", "linear", "mlp"])
def test_a_mistake_names_the_class_before_anything_is_paid(name: str, weights: Any, rule: str) -> None:
    for classes in (CLASSES, None) if name == "counts" and not isinstance(weights, list) else (CLASSES,):
        model = PrivateDistiller(2.0, num_queries=12, classes=classes, student={"name": name, "class_weight": weights})
        with pytest.raises(InvalidInput, match=rule if classes else "class_weight") as caught:
            model.fit(*RECORDS, X_public=POOL, noise=SeededNoise(0))
        assert "\n" not in str(caught.value) and not hasattr(model, "released_") and not getattr(model, "rounds_", ())


@pytest.mark.parametrize(
    "student",
    [
        {"name": "counts", "hidden": None},
        FromCounts(hidden=None),
        {"name": "linear"},
        {"name": "mlp", "hidden": [16]},
        {"name": "counts", "teaches": {"name": "linear"}},
        FromCounts(teaches=Linear()),
        make_pipeline(StandardScaler(), LogisticRegression()),
    ],
    ids=lambda one: str(one)[:50],
)
def test_every_student_takes_them_by_name_whatever_the_order_of_classes(student: Any) -> None:
    def weighed(class_weight: Any) -> Any:
        if isinstance(student, dict):
            taught = student.get("teaches")
            own = {"class_weight": class_weight}
            return {**student, **({"teaches": {**taught, **own}} if taught else own)}
        setting = next(name for name in reversed([*student.get_params()]) if name.endswith("class_weight"))
        nested = "teaches__class_weight" if getattr(student, "teaches", None) is not None else setting
        return type(student)(**student.get_params(deep=False)).set_params(**{nested: class_weight})

    plain, by_name = (fitted(weighed(one)) for one in (None, {"event": 8}))
    assert (by_name.predict(TEST) == "event").mean() > (plain.predict(TEST) == "event").mean() + 0.1
    turned = fitted(weighed({"event": 8, "none": 1}), classes=CLASSES[::-1])
    assert (turned.predict(TEST) == "event").mean() > (plain.predict(TEST) == "event").mean() + 0.1
    read_off = fitted(weighed({"event": 8}), classes=None)  # classes are read off the labels: event, none
    assert (read_off.predict(TEST) == turned.predict(TEST)).mean() > 0.95


def test_numbers_that_name_classes_are_names_and_not_places() -> None:
    labels = np.where(RECORDS[1] == "event", 1, 0)
    for weights in ({1: 8}, {"1": 8}, [8, 1]):
        model = fitted({"name": "counts", "hidden": None, "class_weight": weights}, classes=[1, 0], labels=labels)
        assert model.student_.class_weights_ == pytest.approx([8, 1])


@pytest.mark.parametrize(
    ("student", "setting"),
    [
        ({"name": "counts", "class_weight": {"event": 4}}, "class_weight"),
        ({"name": "counts", "threshold": 0.3}, "threshold"),
        ({"name": "counts", "teaches": {"name": "linear", "class_weight": "balanced"}}, "class_weight"),
        (FromCounts(teaches=Mlp(threshold=0.3)), "threshold"),
        ({"name": "linear", "class_weight": [1, 4]}, "class_weight"),
        ({"name": "mlp", "threshold": 0.3}, "threshold"),
        (make_pipeline(StandardScaler(), LogisticRegression(class_weight="balanced")), "class_weight"),
        (make_pipeline(StandardScaler(), Linear(threshold=0.3)), "threshold"),
    ],
    ids=repr,
)
@pytest.mark.parametrize("more", [{"mechanism": "permute-and-flip"}, {"mechanism": "matching", "num_queries": 2}])
def test_without_counts_weights_and_thresholds_are_refused_before_anything_is_paid(
    student: Any, setting: str, more: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Soft labels of choices are two thirds or so of one class, whatever the records: weights would make it all one."""
    monkeypatch.setattr("recordwise.distiller.vote", lambda *_: pytest.fail("the records were looked at"))
    with pytest.raises(InvalidInput, match=rf"student\.{setting} needs a mechanism that releases counts") as told:
        fitted(student, **more)
    assert "\n" not in str(told.value)


def test_without_counts_students_that_weigh_nothing_and_cuts_of_columns_are_taught() -> None:
    student = make_pipeline(VarianceThreshold(threshold=0.01), LogisticRegression())
    assert fitted(student, mechanism="permute-and-flip").student_ is not None
    assert isinstance(fitted("counts", mechanism="permute-and-flip").student_, Linear)


def test_the_student_of_labels_has_the_weights_and_the_threshold_where_purity_is_known() -> None:
    student = {"name": "counts", "class_weight": {"event": 4}, "threshold": 0.3}
    taught = fitted(student, trust="local", mechanism="questions", num_queries=2).student_
    assert isinstance(taught, Linear) and taught.threshold == 0.3 and taught.class_weights_.tolist() == [1, 4]


def test_a_plan_knows_the_names_too() -> None:
    for name in ("counts", "linear"):
        model = PrivateDistiller(
            2.0, classes=CLASSES, num_queries=12, student={"name": name, "class_weight": {"event": 4}}
        )
        assert model.plan(POOL, num_records=3000).considered
        with pytest.raises(InvalidInput, match="'evnt' is none of"):
            model.set_params(student={"name": name, "class_weight": {"evnt": 4}}).plan(POOL, num_records=3000)


@pytest.mark.parametrize("setting", [{"class_weight": "balanced"}, {"threshold": 0.3}])
def test_several_labels_have_neither_weights_nor_a_threshold(setting: Any) -> None:
    both = np.column_stack([RECORDS[1] == "none", RECORDS[1] == "event"]).astype(int)
    with pytest.raises(InvalidInput, match=r"student\.\w+ needs one label per record"):
        fitted({"name": "linear", **setting}, labels=both, records={"labels_per_record": 2})
    forest = LogisticRegression(class_weight={0: 1, 1: 3})  # here it learns yes or no
    assert placed(forest, np.array(CLASSES), several=True) is forest


@pytest.mark.parametrize("class_weight", ["balanced", {0: 1.0, 1: 10.0}])
def test_linear_weighs_as_logistic_regression_does(class_weight: Any) -> None:
    x, y = RECORDS[0], (RECORDS[1] == "event").astype(int)
    ours = Linear(strength=1.0, class_weight=class_weight).fit(x, y)
    scaler = StandardScaler().fit(x)
    theirs = LogisticRegression(C=1.0, class_weight=class_weight).fit(scaler.transform(x), y)
    np.testing.assert_allclose(ours.predict_proba(TEST), theirs.predict_proba(scaler.transform(TEST)), atol=1e-3)


@pytest.mark.parametrize("kind", [Linear, Mlp])
def test_without_its_weights_a_student_gives_chances_again(kind: Any) -> None:
    x, y = RECORDS[0], (RECORDS[1] == "event").astype(int)
    plain, heavy = (kind(class_weight=weights).fit(x, y) for weights in (None, [1, 6]))
    moved = heavy.predict_proba(TEST)
    assert moved[:, 1].mean() > plain.predict_proba(TEST)[:, 1].mean() + 0.15
    assert unweighted(heavy, moved)[:, 1].mean() == pytest.approx(plain.predict_proba(TEST)[:, 1].mean(), abs=0.03)
    assert unweighted(plain, moved) == pytest.approx(moved)


def test_weights_are_undone_where_probabilities_are_known_to_have_them() -> None:
    x, y = RECORDS[0][:600], (RECORDS[1][:600] == "event").astype(int)
    given = LogisticRegression(class_weight={1: 6.0}).fit(x, y)
    assert weights_of(given).tolist() == [1, 6]
    plain = LogisticRegression().fit(x, y).predict_proba(TEST)
    assert unweighted(given, given.predict_proba(TEST)) == pytest.approx(plain, abs=0.1)
    for other in (
        LogisticRegression(class_weight="balanced"),
        make_pipeline(StandardScaler(), LogisticRegression(class_weight={1: 6.0})),
        SVC(class_weight={1: 6.0}),  # its probabilities are fitted to answers, without weights
    ):
        assert weights_of(other.fit(x, y)) is None and "class weights" in rules_in_words(other, CLASSES)
    assert rules_in_words(LogisticRegression().fit(x, y), CLASSES) == {}


def test_of_sets_a_classifier_weighs_yes_and_no() -> None:
    both = np.column_stack([RECORDS[1] == "none", RECORDS[1] == "event"]).astype(int)
    model = fitted(LogisticRegression(class_weight={0: 1, 1: 3}), labels=both, records={"labels_per_record": 2})
    assert rules_in_words(model.student_, CLASSES) == {"class weights": "no 1, yes 3"}


@pytest.mark.parametrize("kind", [Linear, Mlp])
def test_a_threshold_moves_the_answers_of_two_classes_alone(kind: Any) -> None:
    x, y = RECORDS[0], (RECORDS[1] == "event").astype(int)
    eager = kind(threshold=0.1).fit(x, y)
    assert (eager.predict(TEST) == (eager.predict_proba(TEST)[:, 1] >= 0.1)).all()
    assert eager.predict(TEST).mean() > kind().fit(x, y).predict(TEST).mean()
    with pytest.raises(InvalidInput, match=r"threshold must lie in \(0, 1\) and needs two classes"):
        fitted({"name": kind.__name__.lower(), "threshold": 0.3}, classes=["none", "event", "other"])


@pytest.mark.parametrize("name", ["linear", "mlp"])
def test_weights_and_threshold_are_kept_and_a_student_of_before_them_is_read(name: str, tmp_path: Any) -> None:
    model = fitted({"name": name, "class_weight": {"event": 5}, "threshold": 0.4})
    save(model, tmp_path)
    again = load(tmp_path)
    assert (again.predict(TEST) == model.predict(TEST)).all()
    assert again.student.class_weights_.tolist() == [1, 5] and again.student.threshold == 0.4
    kind = type(model.student_)
    before = fitted({"name": name}).student_
    state = {key: value for key, value in before.state().items() if key not in ("class_weight", "threshold")}
    read = kind.from_state(state)
    assert read.threshold is None and (read.predict(TEST) == before.predict(TEST)).all()
    for broken in ({"class_weight": [1.0]}, {"class_weight": [1.0, -1.0]}, {"threshold": 2.0}):
        with pytest.raises(InvalidInput):
            kind.from_state({**before.state(), **broken})
