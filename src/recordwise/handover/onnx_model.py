"""A student and its encoder as one ONNX file, from what a sample is to the probabilities of its classes."""

from __future__ import annotations

import json
from typing import Any

import numpy as np

from recordwise.data.samples import Kind
from recordwise.data.schema import Schema
from recordwise.handover.onnx_encoders import encoded, given, input_name
from recordwise.handover.onnx_graph import Graph
from recordwise.handover.onnx_students import answered
from recordwise.published import Published


def _with_names(schema: Schema) -> dict[str, Any]:
    """The schema, with the columns of a table as the inputs are called."""
    told = schema.as_dict()
    for place, column in enumerate(told.get("columns", []) if schema.kind == Kind.TABLE else []):
        column.setdefault("name", input_name(place))
    return told


def onnx_model(model: Published, *, of_vectors: bool = False) -> bytes | None:
    """The file, or None where ONNX cannot hold the encoder or the student.

    It computes in float64 where Recordwise does, so that both answer alike. What it takes depends on what a sample is:

    - of a table: an input for each column, by its name. Numbers are float64, NaN where there is a gap. Dates are days
      since 1970, for ONNX has no dates. Categories are text without blanks around it, empty where there is a gap;
    - of text: `words`, (n, most words), each sample's words in lower case, with empty ones to fill up. How text is cut
      into words is scikit-learn's rule, which ONNX cannot spell;
    - of vectors and images: `samples`, float32.

    It gives `label`, the number of a class (or a zero or a one for each class, where a sample may have several), and
    `probabilities`. Its metadata hold `classes` and `schema` as JSON, and the guarantee.

    Args:
      of_vectors: Leave the encoder out: it takes `vectors`, what the encoder makes of samples, as float32.
    """
    graph = Graph({column.name for column in model.schema.columns})
    vectors = given(graph, model) if of_vectors else encoded(graph, model)
    found = None if vectors is None else answered(graph, vectors, model.student, len(model.classes_))
    if found is None:
        return None
    each = [len(model.classes_)]
    outputs = {
        "label": (found.label, np.int64, each if found.several else []),
        "probabilities": (found.probabilities, np.float32, each),
    }
    told = {
        "classes": json.dumps([str(one) for one in model.classes_], ensure_ascii=False),
        "schema": json.dumps(_with_names(model.schema), ensure_ascii=False),
        "guarantee": str(model.guarantee_),
    }
    return graph.packed(outputs, told)
