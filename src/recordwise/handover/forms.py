"""A student in the forms that need no Recordwise: ONNX, or skops where ONNX cannot hold it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from recordwise.data.samples import Kind
from recordwise.errors import MissingExtra
from recordwise.handover.example import onnx_example, skops_example
from recordwise.handover.onnx_model import onnx_model
from recordwise.handover.skops_model import skops_model
from recordwise.published import Published
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
    """The student as ONNX; as skops where ONNX cannot hold it; as neither where both cannot."""
    try:
        content = onnx_model(model)
    except MissingExtra as missing:
        return Forms(left_out=[f"model.onnx was left out: {missing}"])
    if content is not None:
        needs = "ONNX Runtime and Pillow" if model.schema.kind == Kind.IMAGES else "ONNX Runtime"
        example = onnx_example(model.schema, several=type(model.student) is PerClass)
        return Forms(files={"model.onnx": content, "use.py": example.encode()}, needs=needs)
    try:
        content = skops_model(model)
    except MissingExtra as missing:
        return Forms(left_out=[f"model.skops was left out: {missing}"])
    if content is not None:
        example = skops_example(model.schema, [str(one) for one in model.classes_])
        return Forms(files={"model.skops": content, "use.py": example.encode()}, needs="skops and scikit-learn")
    parts = f"{type(model.encoder).__name__} and {type(model.student).__name__}"
    return Forms(left_out=[f"neither ONNX nor skops can hold {parts}: the student is in student.npz alone"])
