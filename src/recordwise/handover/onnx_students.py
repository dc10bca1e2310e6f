"""Students as ONNX: probabilities of all classes, and the label that the student answers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.dummy import DummyClassifier

from recordwise.handover.onnx_encoders import scaled
from recordwise.handover.onnx_graph import Graph
from recordwise.students.counts import FARTHEST, TableStudent
from recordwise.students.per_class import PerClass
from recordwise.students.shallow import Linear, Mlp
from recordwise.students.within import DOUBT, LEAST


@dataclass(frozen=True, kw_only=True)
class Answered:
    """Names of what a student answers.

    Attributes:
      probabilities: (n, C) of each class.
      label: (n,) the number of a class; (n, C) zeros and ones where a sample may have several.
      several: Whether it may.
    """

    probabilities: str
    label: str
    several: bool = False


def answered(graph: Graph, vectors: str, student: Any, num_classes: int) -> Answered | None:
    """What the student makes of vectors; None where it is none that ONNX can hold."""
    if type(student) is PerClass:
        return _several(graph, vectors, student)
    known = _probabilities(graph, vectors, student)
    if known is None:
        return None
    taught = np.asarray(student.classes_, dtype=np.int64)
    if len(taught) < num_classes:  # those that it was never taught have probability zero
        known = graph.add("MatMul", known, graph.constant(np.eye(num_classes)[taught]))
    threshold = getattr(student, "threshold", None)
    if threshold is None:
        return Answered(probabilities=known, label=graph.add("ArgMax", known, axis=1, keepdims=0))
    second = graph.add("Gather", known, graph.constant(1, np.int64), axis=1)
    return Answered(probabilities=known, label=graph.add("GreaterOrEqual", second, graph.constant(threshold)))


def _several(graph: Graph, vectors: str, student: PerClass) -> Answered | None:
    columns = []
    for one in student.students_:
        known = _probabilities(graph, vectors, one)
        if known is None:
            return None
        applies = (np.asarray(one.classes_) == 1).astype(np.float64)[:, None]
        columns.append(graph.add("MatMul", known, graph.constant(applies)))
    every = graph.add("Concat", *columns, axis=1)
    return Answered(probabilities=every, label=graph.add("Greater", every, graph.constant(0.5)), several=True)


def _probabilities(graph: Graph, vectors: str, student: Any) -> str | None:
    """(n, classes that the student was taught)."""
    if type(student) is TableStudent:
        return _from_counts(graph, vectors, student)
    if type(student) is DummyClassifier and student.strategy == "prior":
        some = graph.add("Slice", vectors, *(graph.constant([at], np.int64) for at in (0, 1, 1)))
        none = graph.add("Mul", graph.cast(some, np.float64), graph.constant(0.0))
        return graph.add("Add", none, graph.constant(np.atleast_1d(student.class_prior_)))
    if type(student) not in (Linear, Mlp):
        return None
    value = graph.cast(scaled(graph, vectors, student.scaler_), np.float64)
    if type(student) is Linear:
        layers = [(student.model_.coef_.T, student.model_.intercept_)]
    else:
        layers = list(zip(student.model_.coefs_, student.model_.intercepts_, strict=True))
    for place, (weights, bias) in enumerate(layers):
        value = graph.affine(value if not place else graph.add("Relu", value), weights, bias)
    if layers[-1][0].shape[1] > 1:
        return graph.add("Softmax", value, axis=1)
    right = graph.add("Sigmoid", value)  # scikit-learn keeps one logit for two classes
    return graph.add("Concat", graph.add("Sub", graph.constant(1.0), right), right, axis=1)


def _from_counts(graph: Graph, vectors: str, student: TableStudent) -> str:
    value = graph.cast(scaled(graph, vectors, student.scaler), np.float64)
    value = graph.add("Clip", value, graph.constant(-FARTHEST), graph.constant(FARTHEST))
    logits = graph.affine(value, student.coefficients[:-1], student.coefficients[-1])
    if student.network is not None:
        hidden = graph.add("Tanh", graph.affine(value, student.network.first[:-1], student.network.first[-1]))
        logits = graph.add("Add", logits, graph.add("MatMul", hidden, graph.constant(student.network.second)))
    known = _with_regions(graph, value, logits, student)
    odds = graph.add("Mul", known, graph.constant(np.exp(student.shift - student.shift.max())))
    return graph.add("Div", odds, graph.add("ReduceSum", odds, graph.constant([1], np.int64), keepdims=1))


def _with_regions(graph: Graph, vectors: str, logits: str, student: TableStudent) -> str:
    """As `recordwise.students.within.with_regions`, but that rows need not sum to one."""
    if not student.regions:
        return graph.add("Softmax", logits, axis=1)
    around = graph.constant(0.0)
    for one in student.regions:
        near = graph.add("Softmax", graph.affine(vectors, one.nearness[:-1], one.nearness[-1]), axis=1)
        logits = graph.add("Add", logits, graph.add("MatMul", near, graph.constant(one.offsets)))
        shares = graph.add("MatMul", near, graph.constant(one.shares / len(student.regions)))
        around = graph.add("Add", around, shares)
    around = graph.add("Max", around, graph.constant(LEAST))
    own = graph.add("Mul", graph.add("Softmax", logits, axis=1), graph.constant(1 - DOUBT))
    own = graph.add("Add", own, graph.add("Mul", around, graph.constant(DOUBT)))
    own, rest = (
        graph.add("Pow", odds, graph.constant(power))
        for odds, power in ((own, student.slope), (around, 1 - student.slope))
    )
    return graph.add("Mul", own, rest)
