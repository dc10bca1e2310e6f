"""The order in which the numbers of images and of convolutions lie in memory.

Channels last is what the tensor cores of a GPU like best. On a CPU it is not safe: PyTorch 2.13's kernels for
processors with AVX2 and without AVX-512 write outside their memory in a strided 1×1 convolution of fewer than eight
channels whose images or weights lie channels last. So a CPU gets PyTorch's own order, also where a module comes
channels last from elsewhere.
"""

from __future__ import annotations

from typing import TypeVar

from recordwise.extras.torch import torch

from torch import Tensor, nn

Module = TypeVar("Module", bound=nn.Module)
Foreign = TypeVar("Foreign", nn.Module, Tensor)


def layout(device: str | torch.device, *, on_gpu: torch.memory_format = torch.channels_last) -> torch.memory_format:
    """`on_gpu` on a GPU, and the order that is safe everywhere on anything else."""
    return on_gpu if torch.device(device).type == "cuda" else torch.contiguous_format


def laid_out(images: Tensor) -> Tensor:
    """The images in the order of the device that holds them."""
    return images.contiguous(memory_format=layout(images.device))


def ready(module: Module, device: str | torch.device) -> Module:
    """A network of ours on the device, its weights in that device's order."""
    return module.to(device, memory_format=layout(device))  # type: ignore[call-overload, no-any-return]


def safe(foreign: Foreign, device: str | torch.device) -> Foreign:
    """A module or an input of the user's on the device: as it came on a GPU, in the safe order elsewhere."""
    order = layout(device, on_gpu=torch.preserve_format)
    return foreign.to(device, memory_format=order)  # type: ignore[call-overload, no-any-return]
