"""What a release says about its own labels is what the labels turn out to be."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from markupsafe import escape

from recordwise.distiller import PrivateDistiller
from recordwise.labels import Labels
from recordwise.labels.facts import Facts
from recordwise.privacy.noise import SeededNoise
from recordwise.protocols.release import Release
from recordwise.randomness import seeded
from recordwise.report import summarize
from recordwise.report.page import render
from recordwise.verdict import Level, in_percent

RECORDS, POOL = slice(0, 2000), slice(2000, 2600)


def fitted(apart: float, epsilon: float, *, rare: float = 0.5, **settings: Any) -> tuple[PrivateDistiller, np.ndarray]:
    """Two classes whose means lie `apart`, and the pool's true labels. Noise is replayable: verdicts are about it."""
    rng = seeded(0, "verdict")
    y = (rng.random(2600) < rare).astype(int)
    X = rng.normal(size=(2600, 4))
    X[:, 0] += apart * y
    one = PrivateDistiller(epsilon, **({"num_queries": 12, "classes": [0, 1]} | settings))
    return one.fit(X[RECORDS], y[RECORDS], X_public=X[POOL], noise=SeededNoise(1)), y[POOL]


@pytest.mark.parametrize(
    ("apart", "epsilon", "rare", "level", "says"),
    [
        (6.0, 2.0, 0.5, Level.CLEAR, "Labels are clear: the classes lie apart"),
        (1.3, 2.0, 0.5, Level.FAIR, "Labels are fair: the classes overlap in these vectors"),
        (0.4, 4.0, 0.5, Level.WEAK, "Labels are weak: the classes hardly lie apart in these vectors"),
        (1.5, 4.0, 0.1, Level.WEAK, "Labels are weak: the classes hardly lie apart in these vectors"),
        (0.0, 2.0, 0.5, Level.NOTHING, "Labels may be noise: within the noise"),
        (6.0, 0.005, 0.5, Level.NOTHING, "Labels may be noise: within the noise"),
    ],
)
def test_a_verdict_names_the_level_and_the_reason(
    apart: float, epsilon: float, rare: float, level: Level, says: str
) -> None:
    one, _ = fitted(apart, epsilon, rare=rare)
    assert one.verdict_.level is level and str(one.verdict_).startswith(says)


def avoided(one: PrivateDistiller, truth: np.ndarray) -> float:
    """Of the errors that naming the commonest class makes, the share that the labels avoid."""
    base = np.bincount(truth).max() / len(truth)
    return float(((one.pool_labels_ == truth).mean() - base) / (1 - base))


@pytest.mark.parametrize(
    ("apart", "low", "high", "level"),
    [
        (0.0, -1.0, 0.1, Level.NOTHING),
        (0.6, 0.1, 0.4, Level.WEAK),
        (1.2, 0.3, 0.7, Level.FAIR),
        (3.5, 0.7, 1.0, Level.CLEAR),
    ],
)
def test_hopeless_weak_middling_and_good_labels_are_told_apart(
    apart: float, low: float, high: float, level: Level
) -> None:
    """Four classes that no cut-off was set on; the levels say what the labels turn out to be worth."""
    rng = seeded(1, "verdict")
    y = rng.integers(0, 4, 3600)
    X = rng.normal(size=(3600, 6))
    X[np.arange(3600), y] += apart * np.sqrt(2)
    one = PrivateDistiller(2.0, num_queries=30, classes=range(4))
    one.fit(X[:3000], y[:3000], X_public=X[3000:], noise=SeededNoise(2))
    assert low <= avoided(one, y[3000:]) <= high
    assert one.verdict_.level is level


@pytest.mark.parametrize("student", ["counts", "linear"])
@pytest.mark.parametrize("apart", [1.0, 2.0, 6.0])
def test_as_many_labels_are_right_as_it_expects(apart: float, student: str) -> None:
    one, truth = fitted(apart, 2.0, student=student)
    low, high = one.verdict_.expected or (1.0, 0.0)
    assert low - 0.05 <= (one.pool_labels_ == truth).mean() <= high + 0.12  # a student may exceed what it expects
    assert one.verdict_.commonest == pytest.approx(max(truth.mean(), 1 - truth.mean()), abs=0.08)


def test_releases_without_counts_and_sets_of_labels_have_a_verdict_too() -> None:
    chosen = fitted(6.0, 2.0, mechanism="permute-and-flip")[0].verdict_
    assert chosen.level is Level.UNKNOWN and "holds no counts" in str(chosen)
    unsure = fitted(6.0, 0.002, decoder={"min_confidence": 1.0})[0]
    assert unsure.verdict_.level is Level.NOTHING and "min_confidence" in str(unsure.verdict_)
    assert "one class" in str(fitted(6.0, 2.0, classes=[0])[0].verdict_)
    sets = fitted_sets(labelled=True)
    assert sets.pool_labels_.any() and sets.verdict_.level is Level.CLEAR and "sets of labels" in str(sets.verdict_)
    assert sets.verdict_.commonest is None


def fitted_sets(*, labelled: bool) -> PrivateDistiller:
    """Three labels that a record has or not, each by a column of its own; or records without any."""
    X = seeded(4, "verdict").normal(size=(2600, 3)) * 3
    carried = ((X > 0) & labelled).astype(int)
    one = PrivateDistiller(8.0, num_queries=12, classes=["a", "b", "c"], records={"labels_per_record": 3})
    return one.fit(X[RECORDS], carried[RECORDS], X_public=X[POOL], noise=SeededNoise(1))


def test_records_without_any_label_make_no_clear_verdict() -> None:
    """That every set is empty is 99 % sure, and says nothing."""
    one = fitted_sets(labelled=False)
    assert not one.pool_labels_.any() and one.verdict_.level is Level.NOTHING
    assert str(one.verdict_).startswith("Labels say nothing: no sample of the pool has one")
    assert one.verdict_.expected is None


def test_a_share_is_never_said_to_be_all() -> None:
    assert in_percent(0.8, 0.999) == "80 to 99 %" and in_percent(1.0, 1.0) == "99 %" and in_percent(0.5, 0.5) == "50 %"


def test_labels_of_the_pool_have_the_classes_names() -> None:
    one, truth = fitted(6.0, 2.0, classes=np.array([1, 0]))
    assert one.pool_labels_.dtype == one.classes_.dtype and (one.pool_labels_ == truth).mean() > 0.95
    assert (one.classes_[one.pool_places_] == one.pool_labels_).all()
    unsure, _ = fitted(1.0, 2.0, decoder={"min_confidence": 0.9})
    silent = unsure.pool_places_ < 0
    assert silent.any() and not silent.all()
    assert all(label is None for label in unsure.pool_labels_[silent])
    assert set(unsure.pool_labels_[~silent]) == {0, 1}


def test_a_notebook_shows_what_is_promised_and_what_came_of_it() -> None:
    bare = PrivateDistiller(2.0)._repr_html_()
    assert "sk-top-container" in bare and "Labels" not in bare
    one, _ = fitted(6.0, 2.0)
    shown = one._repr_html_()
    for said in (str(one.verdict_), "NOT PRIVATE", "Nothing limits what"):
        assert said.replace("'", "&#x27;") in shown
    assert "sk-top-container" in shown and str(one.verdict_)[:40] in one._repr_mimebundle_()["text/html"]


def placed(apart: float, **settings: Any) -> tuple[PrivateDistiller, np.ndarray]:
    """Three classes of unequal size whose means lie `apart`; zero is labels at random."""
    rng = seeded(2, "verdict")
    y = rng.choice(3, 4500, p=[0.5, 0.3, 0.2])
    X = rng.normal(size=(4500, 5))
    X[np.arange(4500), y] += apart
    one = PrivateDistiller(1.0, **({"num_queries": 60, "classes": range(3)} | settings))
    return one.fit(X[:2500], y[:2500], X_public=X[2500:], noise=SeededNoise(3)), y[2500:]


@pytest.mark.parametrize("apart", [0.0, 1.5, 4.0])
@pytest.mark.parametrize("settings", [{}, {"decoder": "argmax"}, {"rounds": 2}, {"student": "mlp"}], ids=repr)
def test_a_sample_is_labelled_right_as_often_as_its_confidence_says(apart: float, settings: dict[str, Any]) -> None:
    """The deviation of 2,000 labels is 0.011; before, labels at random were said to be 97 % sure."""
    one, truth = placed(apart, **({"student": "linear"} | settings))
    assert abs((one.pool_labels_ == truth).mean() - one.pool_confidence_.mean()) < 0.05
    labels, owner = one.rounds_[0].labels, one.rounds_[0].queries.owner
    if "rounds" not in settings:  # half a budget is louder
        assert abs((labels.hard[owner] == truth).mean() - labels.confidence[owner].mean()) < 0.05


def test_a_sample_has_the_label_of_its_query() -> None:
    one, _ = placed(0.0, student="linear", num_queries=150)
    labels = one.rounds_[0].labels
    assert (one.pool_places_ == labels.hard[one.rounds_[0].queries.owner]).all()
    assert (labels.probabilities.argmax(axis=1) != labels.hard).any()  # of shares so noisy, the largest is another


def test_over_several_rounds_a_sample_has_the_label_of_its_surer_queries_likeliest_or_not() -> None:
    one, _ = placed(0.0, student="linear", num_queries=150, rounds=2)
    said = [(each.labels.hard[each.queries.owner], each.labels.leads[each.queries.owner]) for each in one.rounds_]
    (first, sure), (second, surer) = said
    assert (one.pool_places_ == np.where((first == second) | (sure > surer), first, second)).all()
    unlike = one.pool_probabilities_.argmax(axis=1) != one.pool_places_
    assert unlike.any() and "need not be the" in (PrivateDistiller.__doc__ or "")
    own = one.pool_probabilities_[np.arange(len(unlike)), one.pool_places_]
    assert one.pool_confidence_ == pytest.approx(own)


@pytest.mark.parametrize("settings", [{"mechanism": "permute-and-flip"}, {"mechanism": "matching", "num_queries": 3}])
@pytest.mark.parametrize("apart", [0.0, 4.0])
def test_without_counts_nothing_is_claimed_of_how_many_labels_are_right(apart: float, settings: dict[str, Any]) -> None:
    one, _ = placed(apart, **settings)
    assert one.verdict_.level is Level.UNKNOWN and one.verdict_.expected is None
    assert "the release cannot tell" in str(one.verdict_)
    assert ("if each class has a query of its own" in str(one.verdict_)) == (settings["mechanism"] == "matching")
    # Any purity from a third to one is as likely: two thirds in the middle, whatever the noise.
    assert one.pool_confidence_.mean() == pytest.approx(2 / 3, abs=0.02)


@pytest.mark.parametrize("neighbours", ["replace", "add-remove"])
@pytest.mark.parametrize("settings", [{"mechanism": "permute-and-flip"}, {"mechanism": "matching", "num_queries": 3}])
def test_without_counts_labels_are_left_out_by_what_noise_did(settings: dict[str, Any], neighbours: str) -> None:
    """Their confidence is a guess of purity, 0.67 or less, however little noise there is."""
    plain, _ = placed(4.0, **settings, neighbours=neighbours)
    leads = plain.rounds_[0].labels.leads
    asked = float(np.median(leads))
    kept = placed(4.0, **settings, neighbours=neighbours, decoder={"min_confidence": asked})[0].rounds_[0].labels
    assert kept.answered.any() and kept.answered.tolist() == (leads >= asked).tolist()
    assert (kept.confidence[kept.answered] < asked).all()


def test_without_counts_a_decoder_of_ones_own_says_what_noise_did() -> None:
    def own(release: Release, facts: Facts) -> Labels:
        chosen = release.scores().argmax(axis=1)
        sure = np.where(np.arange(len(chosen)) % 2 == 0, 0.95, 0.5)
        guess = np.full(len(chosen), 0.6)
        return Labels(hard=chosen, probabilities=np.eye(3)[chosen], confidence=guess, leads=sure, decoder="own")

    one, _ = placed(4.0, mechanism="permute-and-flip", decoder={"name": own, "min_confidence": 0.9})
    assert one.rounds_[0].labels.answered.tolist() == [True, False] * 30
    counted, _ = placed(4.0, decoder={"name": own, "min_confidence": 0.6})  # counts show it: confidence is no guess
    assert counted.rounds_[0].labels.answered.all()


def test_without_counts_labels_that_are_all_the_same_or_drawn_by_noise_say_little() -> None:
    same, _ = fitted(1.0, 2.0, rare=0.02, mechanism="permute-and-flip")
    assert same.verdict_.level is Level.NOTHING and "every query has the same one" in str(same.verdict_)
    loud, _ = fitted(6.0, 0.002, mechanism="permute-and-flip", decoder="posterior")
    assert loud.verdict_.level is Level.WEAK and "noise is about as large" in str(loud.verdict_)


def test_a_report_says_where_confidences_rest_on_a_guess() -> None:
    one, _ = fitted(6.0, 2.0)
    chosen, _ = fitted(6.0, 2.0, mechanism="permute-and-flip")
    pages = [render(summarize(each, np.zeros((600, 4)), name="x")) for each in (one, chosen)]
    assert ["rests on a guess of how pure queries are" in page for page in pages] == [False, True]
    made = summarize(chosen, np.zeros((600, 4)), name="x")
    shown = [{**each, "shows_purity": True} for each in made.rounds]  # as a release of another package may
    assert [each["shows_purity"] for each in made.rounds] == [False]
    assert "rests on a guess" not in render(replace(made, rounds=shown))


def test_a_report_says_that_confidence_is_of_a_whole_set() -> None:
    rng = seeded(4, "verdict")
    X = rng.normal(size=(400, 3))
    one = PrivateDistiller(20.0, num_queries=10, records={"labels_per_record": 3}, classes=["x", "y", "z"])
    one.fit(X[:300], (X[:300] > 0).astype(int), X_public=X[300:], noise=SeededNoise(0))
    page = render(summarize(one, X[300:], name="x"))
    assert "whole set of classes is what most of its records carry" in page
    assert "right for one of the query" not in page


def test_records_that_lie_elsewhere_or_did_not_vote_and_classes_without_votes_are_told() -> None:
    rng = seeded(3, "verdict")
    y = rng.integers(0, 2, 4000)
    X = rng.normal(size=(4000, 4)) + 3 * y[:, None]

    def told(records: np.ndarray, classes: list[Any], labels: np.ndarray) -> PrivateDistiller:
        one = PrivateDistiller(1.0, num_queries=50, classes=classes)
        return one.fit(records, labels, X_public=X[2000:], noise=SeededNoise(1))

    clean = told(X[:2000], [0, 1], y[:2000])
    assert clean.verdict_.notices == () and "\n" not in str(clean.verdict_)
    metres = told(100 * X[:2000] + 1000, [0, 1], y[:2000])
    assert metres.verdict_.level in (Level.NOTHING, Level.WEAK) and metres.verdict_.expected is None
    assert "the records lie elsewhere than the pool" in metres.verdict_.headline and "noise is" not in str(
        metres.verdict_
    )
    assert metres.verdict_.notices[0].startswith("The votes gather in about 1 of 50 queries")
    names = np.array(["healthy", "ill"])[y[:2000]]
    typo = told(X[:2000], ["healty", "ill"], names)
    assert len(typo.verdict_.notices) == 2 and typo.verdict_.notices[0].startswith("Class 'healty' has no votes")
    assert "of 2,000 records voted" in typo.verdict_.notices[1]
    lines = summarize(typo, X[2000:], name="typo")
    assert all(notice in lines.as_text().splitlines() for notice in typo.verdict_.notices)
    assert all(f'<p class="more">{escape(notice)}</p>' in render(lines) for notice in typo.verdict_.notices)
