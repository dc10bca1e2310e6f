from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
import trainings
from torch import nn
from trainings import TRAININGS, network

from recordwise.vision.layout import laid_out, layout, safe


@pytest.fixture
def convolutions() -> Iterator[list[bool]]:
    """For each convolution that runs: whether its images and its weights lie in PyTorch's own order."""
    seen: list[bool] = []

    def look(module: nn.Module, inputs: tuple[Any, ...]) -> None:
        if isinstance(module, nn.Conv2d):
            seen.append(inputs[0].is_contiguous() and module.weight.is_contiguous())

    hook = nn.modules.module.register_module_forward_pre_hook(look)
    yield seen
    hook.remove()


@pytest.mark.parametrize("training", TRAININGS, ids=lambda training: training.__name__)
def test_no_training_on_a_cpu_runs_convolutions_channels_last(
    training: Callable[[], None], convolutions: list[bool]
) -> None:
    training()
    assert len(convolutions) > 2 and all(convolutions)


@pytest.mark.slow  # those kernels fail on images that lie channels last: the test above sees that none do
def test_training_works_with_the_kernels_of_a_cpu_without_avx512() -> None:
    old_cpu = os.environ | {"ONEDNN_MAX_CPU_ISA": "AVX2"}  # read when PyTorch starts, so in a process of its own
    done = subprocess.run([sys.executable, trainings.__file__], env=old_cpu, capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (0, "all trained\n"), done.stderr[-2000:]


def test_a_gpu_gets_channels_last_for_our_networks_and_leaves_others_as_they_came() -> None:
    assert layout("cuda:1") is torch.channels_last
    assert layout("cuda", on_gpu=torch.preserve_format) is torch.preserve_format
    assert layout("cpu", on_gpu=torch.preserve_format) is torch.contiguous_format


def test_the_order_in_memory_changes_no_number() -> None:
    images = torch.randn(2, 3, 4, 5).contiguous(memory_format=torch.channels_last)
    assert not images.is_contiguous() and laid_out(images).is_contiguous()
    assert torch.equal(laid_out(images), images) and torch.equal(safe(images, "cpu"), images)
    before, after = network(), safe(network(), "cpu")
    for one, other in zip(before.parameters(), after.parameters(), strict=True):
        assert other.is_contiguous() and torch.equal(one, other)


def test_what_is_no_image_passes() -> None:
    assert torch.equal(safe(torch.arange(6).view(2, 3), "cpu"), torch.arange(6).view(2, 3))
    volume = nn.Conv3d(1, 2, 3)
    assert safe(volume, "cpu") is volume
