"""A student in the forms that need no Recordwise: ONNX, or skops where ONNX cannot hold it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from recordwise.errors import MissingExtra
from recordwise.handover.example import are_pictures, onnx_example, skops_example
from recordwise.handover.onnx_model import onnx_model
from recordwise.handover.skops_model import skops_model
from recordwise.published import Published
from recordwise.stored import Absent
from recordwise.students.per_class import PerClass


@dataclass(frozen=True, kw_only=True)
class Forms:
    """What can be used without Recordwise.

    Attributes:
      files: The model and an example of its use, by name; none where there is no such form.
      needs: What reads the model.
      left_out: What is not there and why, a line each.
    """

    files: Mapping[str, bytes] = field(default_factory=dict)
    needs: str = ""
    left_out: list[str] = field(default_factory=list)


def forms_of(model: Published) -> Forms:
    """The student with its encoder as ONNX; as skops where ONNX cannot hold them; else the student alone as ONNX."""
    several, encoder = type(model.student) is PerClass, _name(model.encoder)
    file = "model.onnx"
    try:
        content = onnx_model(model)
        if content is not None:
            needs = "ONNX Runtime and Pillow" if are_pictures(model.schema) else "ONNX Runtime"
            return _with(file, content, onnx_example(model.schema, several=several), needs)
        file = "model.skops"
        content = skops_model(model)
        if content is not None:
            example = skops_example(model.schema, [str(one) for one in model.classes_])
            return _with(file, content, example, "skops and scikit-learn")
        file = "model.onnx"
        content = onnx_model(model, of_vectors=True)
        if content is not None:
            example = onnx_example(model.schema, several=several, of_vectors=True)
            without = f"the encoder was left out: ONNX cannot hold {encoder}. {file} takes the vectors it makes"
            return _with(file, content, example, "ONNX Runtime and the encoder, which is not in this folder", without)
    except MissingExtra as missing:
        return Forms(left_out=[f"{file} was left out: {missing}"])
    reason = f"neither ONNX nor skops can hold {encoder} and {_name(model.student)}"
    return Forms(left_out=[f"{reason}: the student is in student.npz alone"])


def _with(name: str, content: bytes, example: str, needs: str, *left_out: str) -> Forms:
    return Forms(files={name: content, "use.py": example.encode()}, needs=needs, left_out=list(left_out))


def _name(part: Any) -> str:
    return part.kind if isinstance(part, Absent) else type(part).__name__
