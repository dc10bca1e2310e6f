"""ONNX Runtime, set to give the same bits every time."""

from __future__ import annotations

from typing import Any

from recordwise.extras.asking import optional

from recordwise.errors import InvalidInput, first_line


def open_session(content: bytes) -> Any:
    """A model's session, from the content of its file."""
    onnxruntime = optional("onnxruntime", "an ONNX file", extra="onnx")
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1  # the order of sums is that of one thread
    options.use_deterministic_compute = True
    try:
        return onnxruntime.InferenceSession(content, options)
    except Exception as fault:  # of no particular type
        raise InvalidInput(f"an ONNX file could not be opened: {first_line(fault)}") from fault
