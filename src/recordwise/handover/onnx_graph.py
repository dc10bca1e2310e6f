"""An ONNX graph that is put together one operation at a time, and packed in the end."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from recordwise.extras.asking import optional

import numpy as np
from numpy.typing import NDArray

OPSET, OPSET_ML, IR = 17, 2, 8  # old enough for every runtime of the last years
TYPES: dict[type, int] = {np.float32: 1, np.int64: 7, np.str_: 8, np.float64: 11}  # what ONNX calls them


class Graph:
    """Operations, each on inputs, on constants or on what other operations made.

    Args:
      reserved: Names that inputs may take: nothing else is called so.
    """

    def __init__(self, reserved: Collection[str] = ()) -> None:
        self._inputs: dict[str, tuple[int, list[int | str]]] = {}
        self._nodes: list[tuple[str, tuple[str, ...], str, dict[str, Any]]] = []
        self._constants: dict[str, NDArray[Any]] = {}
        self._reserved, self._own = reserved, "_"
        while any(name.startswith(self._own) for name in reserved):
            self._own += "_"

    def take(self, name: str, kind: type, *sides: int | str) -> str:
        """An input with so many numbers, or text, for each of n samples."""
        self._inputs[name] = TYPES[kind], ["n", *sides]
        return name

    def constant(self, values: Any, kind: type = np.float64) -> str:
        name = f"{self._own}c{len(self._constants)}"
        self._constants[name] = np.array(values, dtype=kind, order="C")
        return name

    def add(self, operation: str, *inputs: str, output: str | None = None, **how: Any) -> str:
        """One operation; the name of what it makes."""
        made = output or f"{self._own}n{len(self._nodes)}"
        self._nodes.append((operation, inputs, made, how))
        return made

    def cast(self, value: str, kind: type, output: str | None = None) -> str:
        return self.add("Cast", value, output=output, to=TYPES[kind])

    def affine(self, value: str, weights: NDArray[Any], bias: NDArray[Any]) -> str:
        return self.add("Add", self.add("MatMul", value, self.constant(weights)), self.constant(bias))

    def packed(self, outputs: Mapping[str, tuple[str, type, list[int]]], told: Mapping[str, str]) -> bytes:
        """The file.

        Args:
          outputs: What is handed out under each name: a value, its type, and its shape after the number of samples.
          told: Metadata.
        """
        optional("onnx.numpy_helper", "an ONNX file", extra="onnx")
        onnx = optional("onnx", "an ONNX file", extra="onnx")
        info, given = onnx.helper.make_tensor_value_info, []
        for name, (value, kind, sides) in outputs.items():
            free = name + "_" * (name in self._reserved)
            self.cast(value, kind, output=free)
            given.append(info(free, TYPES[kind], ["n", *sides]))
        content = onnx.helper.make_model(
            onnx.helper.make_graph(
                [onnx.helper.make_node(one, inputs, [made], **how) for one, inputs, made, how in self._nodes],
                "recordwise",
                [info(name, kind, shape) for name, (kind, shape) in self._inputs.items()],
                given,
                [onnx.numpy_helper.from_array(values, name) for name, values in self._constants.items()],
            ),
            opset_imports=[onnx.helper.make_opsetid("", OPSET), onnx.helper.make_opsetid("ai.onnx.ml", OPSET_ML)],
            producer_name="recordwise",
        )
        content.ir_version = IR
        onnx.helper.set_model_props(content, dict(told))
        onnx.checker.check_model(content)
        packed: bytes = content.SerializeToString()
        return packed
