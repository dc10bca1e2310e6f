"""A student and its encoder as one ONNX graph, from numbers to probabilities, where both are made of linear maps."""

from __future__ import annotations

from typing import Any

from recordwise.extras.asking import optional

import numpy as np
from numpy.typing import NDArray
from sklearn.pipeline import Pipeline

from recordwise.data.samples import Kind
from recordwise.encoders import Pca, Scaler
from recordwise.published import Published
from recordwise.students.counts import TableStudent
from recordwise.students.shallow import Linear, Mlp

INPUT, LABEL, PROBABILITIES = "samples", "label", "probabilities"
OPSET, IR = 17, 8  # old enough for every runtime of the last years


class Graph:
    """Nodes in a row, each fed by the one before."""

    def __init__(self, onnx: Any) -> None:
        self.onnx = onnx
        self.nodes: list[Any] = []
        self.weights: list[Any] = []
        self.last = INPUT

    def constant(self, values: NDArray[Any]) -> str:
        name = f"c{len(self.weights)}"
        self.weights.append(self.onnx.numpy_helper.from_array(np.ascontiguousarray(values), name))
        return name

    def add(self, operation: str, *more: str, output: str | None = None, first: str | None = None, **how: Any) -> str:
        """One operation on what came last (or on `first`) and on constants."""
        made = output or f"n{len(self.nodes)}"
        inputs = [self.last if first is None else first, *more]
        self.nodes.append(self.onnx.helper.make_node(operation, inputs, [made], **how))
        self.last = made
        return made

    def affine(self, weights: NDArray[Any], bias: NDArray[Any]) -> None:
        self.add("MatMul", self.constant(weights.astype(np.float32)))
        self.add("Add", self.constant(bias.astype(np.float32)))


def onnx_model(model: Published) -> bytes | None:
    """The graph, or None where the encoder or the student is none that it can hold.

    Samples are rows of numbers, or images flattened into rows, as float32; numbers, not cells of a table or text.
    """
    steps = _steps(model.encoder) if model.student_input == "vectors" else []
    known = all(type(step) in (Scaler, Pca) for step in steps) and type(model.student) in (TableStudent, Linear, Mlp)
    if not known or model.schema.kind not in (Kind.VECTORS, Kind.IMAGES):
        return None
    optional("onnx.numpy_helper", "an ONNX file", extra="onnx")
    onnx = optional("onnx", "an ONNX file", extra="onnx")
    graph = Graph(onnx)
    for step in steps:
        _encode(graph, step)
    _student(graph, model.student)
    _label(graph, getattr(model.student, "threshold", None))
    width = len((steps[0] if steps else model.student.scaler_).mean_)
    made, kinds = onnx.helper, onnx.TensorProto
    content = made.make_model(
        made.make_graph(
            graph.nodes,
            "recordwise",
            [made.make_tensor_value_info(INPUT, kinds.FLOAT, ["n", width])],
            [
                made.make_tensor_value_info(LABEL, kinds.INT64, ["n"]),
                made.make_tensor_value_info(PROBABILITIES, kinds.FLOAT, ["n", len(model.classes_)]),
            ],
            graph.weights,
        ),
        opset_imports=[made.make_opsetid("", OPSET)],
        producer_name="recordwise",
    )
    content.ir_version = IR
    made.set_model_props(content, {"classes": "\n".join(map(str, model.classes_)), "guarantee": str(model.guarantee_)})
    onnx.checker.check_model(content)
    packed: bytes = content.SerializeToString()
    return packed


def _label(graph: Graph, threshold: float | None) -> None:
    """The likeliest class; of two, the second where its probability reaches the threshold, if there is one."""
    if threshold is None:
        graph.add("ArgMax", output=LABEL, first=PROBABILITIES, axis=1, keepdims=0)
        return
    graph.add("Gather", graph.constant(np.array([1], dtype=np.int64)), first=PROBABILITIES, axis=1)
    graph.add("Squeeze", graph.constant(np.array([1], dtype=np.int64)))
    graph.add("GreaterOrEqual", graph.constant(np.array(threshold, dtype=np.float32)))
    graph.add("Cast", output=LABEL, to=graph.onnx.TensorProto.INT64)


def _steps(encoder: Any) -> list[Any]:
    return [step for _, step in encoder.steps] if type(encoder) is Pipeline else [encoder]


def _encode(graph: Graph, step: Any) -> None:
    if type(step) is Scaler:
        _scale(graph, step)
        return
    linear = step.projection_
    graph.add("Sub", graph.constant(step.mean_.astype(np.float32)))
    reach = np.float32(linear.limit)
    graph.add("Clip", graph.constant(np.array(-reach)), graph.constant(np.array(reach)))
    unit = linear.units * 2.0**25 / linear.limit  # the grid's whole numbers back to what they stand for
    graph.add("MatMul", graph.constant((linear.weights * unit).astype(np.float32)))


def _scale(graph: Graph, scaler: Scaler) -> None:
    graph.add("Sub", graph.constant(scaler.mean_.astype(np.float32)))
    graph.add("Div", graph.constant(scaler.scale_.astype(np.float32)))


def _student(graph: Graph, student: Any) -> None:
    if type(student) is TableStudent:
        _table_student(graph, student)
        return
    _scale(graph, student.scaler_)
    if type(student) is Linear:
        layers = [(student.model_.coef_.T, student.model_.intercept_)]
    else:
        layers = list(zip(student.model_.coefs_, student.model_.intercepts_, strict=True))
    for place, (weights, bias) in enumerate(layers):
        graph.affine(weights, bias)
        if place + 1 < len(layers):
            graph.add("Relu")
    if layers[-1][0].shape[1] > 1:
        graph.add("Softmax", output=PROBABILITIES, axis=1)
        return
    right = graph.add("Sigmoid")  # scikit-learn keeps one logit for two classes
    one = graph.constant(np.ones((), dtype=np.float32))
    wrong = graph.add("Sub", right, first=one)
    graph.add("Concat", right, output=PROBABILITIES, first=wrong, axis=1)


def _table_student(graph: Graph, student: TableStudent) -> None:
    _scale(graph, student.scaler)
    vectors = graph.last
    graph.affine(student.coefficients[:-1], student.coefficients[-1])
    if student.network is not None:
        linear, net = graph.last, student.network
        graph.last = vectors
        graph.affine(net.first[:-1], net.first[-1])
        graph.add("Tanh")
        graph.add("MatMul", graph.constant(net.second.astype(np.float32)))
        graph.add("Add", linear)
    logits, shares = graph.last, None
    for one in student.regions:
        graph.last = vectors
        graph.affine(one.nearness[:-1], one.nearness[-1])
        region = graph.add("ArgMax", axis=1, keepdims=0)
        there = graph.add("Gather", region, first=graph.constant(one.offsets.astype(np.float32)), axis=0)
        logits = graph.add("Add", there, first=logits)
        part = graph.add("Gather", region, first=graph.constant((one.weight * one.shares).astype(np.float32)), axis=0)
        shares = part if shares is None else graph.add("Add", part, first=shares)
    own = 1 - sum(one.weight for one in student.regions)
    graph.add("Softmax", first=logits, axis=1)
    mixed = graph.add("Mul", graph.constant(np.array(own, dtype=np.float32)))
    if shares is not None:
        mixed = graph.add("Add", shares)
    odds = graph.add("Mul", graph.constant(np.exp(student.shift - student.shift.max()).astype(np.float32)), first=mixed)
    total = graph.add("ReduceSum", graph.constant(np.array([1], dtype=np.int64)), keepdims=1)
    graph.add("Div", total, output=PROBABILITIES, first=odds)
