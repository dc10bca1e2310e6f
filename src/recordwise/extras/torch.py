"""PyTorch, from the extra `torch`."""

from recordwise.extras.asking import ask_for

ask_for("torch", "torch")

import torch  # noqa: E402

__all__ = ["torch"]
