"""Every student with a name: built, taught through a run, a function of its seed, and kept in a folder.

A student gets all this by being registered (`students.spec`). One without a case fails.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from sklearn.base import clone

from recordwise import PrivateDistiller, load, save
from recordwise.errors import InvalidInput
from recordwise.privacy.noise import SeededNoise
from recordwise.randomness import seeded
from recordwise.students import class_probabilities, student_from, teach
from recordwise.students.from_counts import reads_counts
from recordwise.students.spec import _BY_NAME, StudentSettings

# Settings that keep a student small, by its name.
SMALL: dict[str, dict[str, Any]] = {
    "counts": {},
    "linear": {"strength": 10.0},
    "mlp": {"hidden": [64], "epochs": 20},
    "held": {"epochs": 1, "imitate_epochs": 1, "width": 2, "mirror": False, "batch": 56},
}
LABEL_STUDENTS = [name for name in _BY_NAME if not reads_counts(_BY_NAME[name])]


def spec(name: str, **settings: Any) -> dict[str, Any]:
    assert name in SMALL, f"{name} needs settings in {__name__}"
    return {"name": name, **SMALL[name], **settings}


def drawn(count: int, seed: int) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
    """Images that are bright on the left or on the right."""
    rng = seeded(seed, "students")
    label = rng.integers(0, 2, count)
    images = rng.integers(0, 90, (count, 8, 8)).astype(np.uint8)
    images[label == 0, :, :4] += 120
    images[label == 1, :, 4:] += 120
    return images, label


POOL, TEST = drawn(280, 1)[0], drawn(300, 2)


def fitted(student: Any) -> PrivateDistiller:
    model = PrivateDistiller(1.0, num_queries=8, student=student, encoder="pca", random_state=0)
    return model.fit(*drawn(600, 0), X_public=POOL, noise=SeededNoise(0))


@pytest.mark.parametrize("name", _BY_NAME)
def test_a_run_teaches_it_by_name_and_a_folder_keeps_it(name: str, tmp_path: Path) -> None:
    model = fitted(spec(name))
    assert model.score(*TEST) > 0.8 or name == "held"  # one epoch is too few for it; test_held.py gives it more
    chances = model.predict_proba(TEST[0])
    assert chances.shape == (300, 2) and (chances >= 0).all()
    np.testing.assert_allclose(chances.sum(axis=1), 1, atol=1e-6)
    assert (model.classes_[chances.argmax(axis=1)] == model.predict(TEST[0])).all()
    save(model, tmp_path / "kept")
    np.testing.assert_allclose(load(tmp_path / "kept").predict_proba(TEST[0]), chances, atol=1e-6)
    again = fitted(spec(name))  # the same release, pool and seed: nothing else goes in
    np.testing.assert_array_equal(again.predict_proba(TEST[0]), chances)


@pytest.mark.parametrize("name", _BY_NAME)
def test_its_settings_are_its_own_and_its_seed_is_the_runs_unless_it_says_otherwise(name: str) -> None:
    built = student_from(spec(name), seed=7)
    assert isinstance(built, _BY_NAME[name])  # type: ignore[arg-type]
    settings = built.get_params()
    assert SMALL[name].items() <= settings.items()
    assert settings.get("seed", 7) == 7
    if "seed" in settings:
        assert student_from(spec(name, seed=2), seed=7).seed == 2
    assert repr(clone(built)) == repr(built) and student_from(built, seed=1) is not built
    assert StudentSettings.given(spec(name)).input == getattr(built, "own_input", "vectors")
    for own in ("vectors", "samples"):
        assert StudentSettings.given(spec(name, input=own)).input == own
    with pytest.raises(InvalidInput, match=f"student {name!r} has no setting 'wide', it has") as refusal:
        student_from(spec(name, wide=3), seed=0)
    assert "\n" not in str(refusal.value)


QUADRANTS = seeded(0, "quadrants").normal(size=(300, 2)).astype(np.float32)
TRUE = (QUADRANTS[:, 0] > 0).astype(int) + 2 * (QUADRANTS[:, 1] > 0)


@pytest.mark.parametrize("name", LABEL_STUDENTS)
def test_a_student_of_labels_learns_from_weights_and_from_images_and_from_one_class(name: str) -> None:
    def new() -> Any:
        return student_from(spec(name), seed=0)

    answers = np.repeat([0, 1], 150)  # nothing to learn but the classes' weights
    heavy = new().fit(QUADRANTS, answers, sample_weight=np.where(answers == 1, 9.0, 1.0))
    assert heavy.predict_proba(QUADRANTS)[:, 1].mean() > 0.75
    flat, images = (new().fit(samples, TRUE) for samples in (QUADRANTS, QUADRANTS.reshape(300, 1, 2)))
    assert np.array_equal(flat.predict(QUADRANTS), images.predict(QUADRANTS.reshape(300, 1, 2)))
    only = class_probabilities(teach(new(), QUADRANTS, np.eye(4)[np.full(300, 2)]), QUADRANTS, 4)
    assert only.shape == (300, 4) and (only.argmax(axis=1) == 2).all()
