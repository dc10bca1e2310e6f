"""Students of made-up pools, as a run would leave them but for what they were taught."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.dummy import DummyClassifier

from recordwise.data.schema import Schema
from recordwise.encoders import Manner, Scaler, encode_public, encoder_from
from recordwise.published import Published
from recordwise.randomness import seeded
from recordwise.students.counts import TableStudent
from recordwise.students.parts import Network
from recordwise.students.per_class import PerClass
from recordwise.students.shallow import Linear, Mlp
from recordwise.students.within import Regions

RNG = seeded(0, "onnx graph")
POOL = (RNG.normal(size=(300, 7)) * np.arange(1, 8) + 3).astype(np.float32)
TEXTS = [" ".join(RNG.choice(["Straße", "card", "CARD", "naïve", "don't", "x1_y", "a", "été,"], 12)) for _ in range(80)]
NONE: Any = "none"


def taught(kind: str, vectors: Any, num_classes: int) -> Any:
    labels = np.arange(len(vectors)) % num_classes
    dim = vectors.shape[1]
    if kind == "linear":
        return Linear().fit(vectors + labels[:, None], labels)
    if kind == "mlp":
        return Mlp(hidden=(5,), epochs=5).fit(vectors + labels[:, None], labels)
    if kind == "some classes":
        return Linear().fit(vectors, np.array([0, num_classes - 1])[labels % 2])
    if kind == "one class":
        return DummyClassifier(strategy="prior").fit(np.zeros((3, 1)), np.ones(3, dtype=int))
    if kind == "several":
        targets = np.column_stack([np.arange(len(vectors)) % (2 + one) == 0 for one in range(num_classes - 1)])
        return PerClass(Linear()).fit(vectors, np.column_stack([targets, np.ones(len(vectors))]).astype(float))
    network = Network(RNG.normal(size=(dim + 1, 4)), RNG.normal(size=(4, num_classes))) if kind == "network" else None
    coefficients, shift = RNG.normal(size=(dim + 1, num_classes)), RNG.normal(size=num_classes)
    regions = (region(dim, num_classes), region(dim, num_classes)) if kind == "regions" else ()
    return TableStudent(coefficients, Scaler().fit(vectors), shift, network, regions, 0.6)


def region(dim: int, num_classes: int) -> Regions:
    shares = RNG.dirichlet(np.ones(num_classes), size=5)
    return Regions(RNG.normal(size=(dim + 1, 5)), RNG.normal(size=(5, num_classes)), shares)


def published(pool: Any, encoder: Any, kind: str = "table", num_classes: int = 3, **more: Any) -> Published:
    """A student of a pool, as a run would leave it but for what it was taught."""
    schema = more.get("schema") or Schema.of(pool)
    held = schema.pool(pool)
    fitted = encoder_from(encoder, held, seed=0).fit(held)
    student = taught(kind, encode_public(fitted, held), num_classes)
    return Published(
        schema=schema, encoder=fitted, manner=Manner.EXACT, student=student, student_input="vectors",
        classes_=np.arange(num_classes), guarantee_=NONE,
    )  # fmt: skip
