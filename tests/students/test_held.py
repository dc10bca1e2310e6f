"""A network on images as a student by name: taught, checkpointed, stored."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from recordwise import PrivateDistiller, load, save
from recordwise.errors import InvalidInput
from recordwise.privacy.noise import SeededNoise
from recordwise.students.held_network import CountsNetwork

SMALL = {"name": "held", "epochs": 10, "imitate_epochs": 4, "width": 4, "mirror": False, "batch": 56}


def drawn(count: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Images that are bright on the left or on the right."""
    rng = np.random.default_rng(seed)
    label = rng.integers(0, 2, count)
    images = rng.integers(0, 90, (count, 8, 8)).astype(np.uint8)
    images[label == 0, :, :4] += 120
    images[label == 1, :, 4:] += 120
    return images, label


def fitted(student: object, **more: object) -> PrivateDistiller:
    records, labels = drawn(600, 0)
    model = PrivateDistiller(1.0, num_queries=8, student=student, encoder="pca", random_state=0, **more)
    return model.fit(records, labels, X_public=drawn(280, 1)[0], noise=SeededNoise(0))


def test_a_network_is_a_student_by_name_and_sees_the_images_themselves():
    heard: list[int] = []
    model = fitted(SMALL | {"progress": lambda epoch, value: heard.append(epoch)})
    test, wanted = drawn(300, 2)
    assert isinstance(model.student_, CountsNetwork)
    assert model.score(test, wanted) > 0.9
    assert heard == list(range(10))


def test_where_a_release_has_no_counts_the_answers_of_a_linear_student_begin():
    records, labels = drawn(2000, 0)
    model = PrivateDistiller(
        4.0, num_queries=2, student=SMALL, encoder="pca", random_state=0, mechanism="permute-and-flip"
    )
    model.fit(records, labels, X_public=drawn(280, 1)[0], noise=SeededNoise(0))
    test, wanted = drawn(300, 2)
    assert isinstance(model.student_, CountsNetwork)
    assert model.score(test, wanted) > 0.9


def test_a_killed_run_finds_its_checkpoints_and_a_student_can_be_kept(tmp_path: Path):
    model = fitted(SMALL | {"checkpoint": str(tmp_path / "run")})
    assert {path.name for path in (tmp_path / "run").iterdir()} == {"imitate.pt", "held.pt"}
    again = fitted(SMALL | {"checkpoint": str(tmp_path / "run")})  # nothing is left to train
    test, _ = drawn(50, 2)
    np.testing.assert_allclose(again.predict_proba(test), model.predict_proba(test), atol=1e-6)
    save(model, tmp_path / "given")
    kept = load(tmp_path / "given")
    np.testing.assert_allclose(kept.predict_proba(test), model.predict_proba(test), atol=1e-6)


def test_what_is_no_image_is_refused_before_anything_is_paid():
    with pytest.raises(InvalidInput, match=r"student\.input must be 'samples'"):
        fitted(SMALL | {"input": "vectors"})
    with pytest.raises(InvalidInput, match="device"):
        fitted(SMALL | {"device": "abacus"})
    with pytest.raises(InvalidInput, match="epochs"):
        fitted(SMALL | {"epochs": 0})
