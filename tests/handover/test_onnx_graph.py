"""Every encoder and student that ONNX can hold answers alike in both forms."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from recordwise.data.samples import Kind
from recordwise.encoders import Pca, Scaler, encoder_from
from recordwise.handover.onnx_graph import onnx_model
from recordwise.randomness import seeded
from recordwise.students.counts import TableStudent
from recordwise.students.parts import Network
from recordwise.students.shallow import Linear, Mlp
from recordwise.students.within import Regions

runtime = pytest.importorskip("onnxruntime")
pytest.importorskip("onnx")
RNG = seeded(0, "onnx graph")
POOL = (RNG.normal(size=(300, 7)) * np.arange(1, 8) + 3).astype(np.float32)


def taught(kind: str, vectors: Any, num_classes: int) -> Any:
    labels = np.arange(len(vectors)) % num_classes
    dim = vectors.shape[1]
    if kind == "linear":
        return Linear().fit(vectors + labels[:, None], labels)
    if kind == "mlp":
        return Mlp(hidden=(5,), epochs=5).fit(vectors + labels[:, None], labels)
    network = Network(RNG.normal(size=(dim + 1, 4)), RNG.normal(size=(4, num_classes))) if kind == "network" else None
    coefficients, shift = RNG.normal(size=(dim + 1, num_classes)), RNG.normal(size=num_classes)
    regions = (_region(dim, num_classes), _region(dim, num_classes)) if kind == "regions" else ()
    return TableStudent(coefficients, Scaler().fit(vectors), shift, network, regions)


def _region(dim: int, num_classes: int) -> Regions:
    shares = RNG.dirichlet(np.ones(num_classes), size=5)
    return Regions(RNG.normal(size=(dim + 1, 5)), RNG.normal(size=(5, num_classes)), shares, 0.2)


@pytest.mark.parametrize("num_classes", [2, 4])
@pytest.mark.parametrize("kind", ["linear", "mlp", "table", "network", "regions"])
@pytest.mark.parametrize("spec", ["scaler", "pca", "scaler+pca"])
def test_both_forms_answer_alike(spec: str, kind: str, num_classes: int) -> None:
    encoder = encoder_from(spec, POOL, seed=0).fit(POOL)
    student = taught(kind, encoder.transform(POOL), num_classes)
    model: Any = SimpleNamespace(
        schema=SimpleNamespace(kind=Kind.VECTORS), encoder=encoder, student=student, student_input="vectors",
        classes_=np.arange(num_classes), guarantee_="none",
    )  # fmt: skip
    content = onnx_model(model)
    assert content is not None
    session = runtime.InferenceSession(content)
    labels, probabilities = session.run(None, {"samples": POOL})
    expected = student.predict_proba(encoder.transform(POOL))
    assert np.allclose(probabilities, expected, atol=1e-4)
    sure = np.sort(expected, axis=1)[:, -1] - np.sort(expected, axis=1)[:, -2] > 1e-3
    assert np.array_equal(labels[sure], expected.argmax(axis=1)[sure])


def test_a_threshold_goes_with_the_file() -> None:
    encoder = encoder_from("scaler", POOL, seed=0).fit(POOL)
    student = taught("table", encoder.transform(POOL), 2)
    student.threshold = 0.9
    model: Any = SimpleNamespace(
        schema=SimpleNamespace(kind=Kind.VECTORS), encoder=encoder, student=student, student_input="vectors",
        classes_=np.arange(2), guarantee_="none",
    )  # fmt: skip
    labels, probabilities = runtime.InferenceSession(onnx_model(model)).run(None, {"samples": POOL})
    assert np.array_equal(labels, probabilities[:, 1] >= 0.9) and labels.sum() < (probabilities[:, 1] > 0.5).sum()


def test_what_onnx_cannot_hold_is_left_to_the_other_file() -> None:
    model: Any = SimpleNamespace(
        schema=SimpleNamespace(kind=Kind.TABLE), encoder=Pca(), student=Linear(), student_input="vectors"
    )
    assert onnx_model(model) is None
