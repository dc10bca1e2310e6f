from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest
from scipy.stats import binomtest
from tape import FALSE_FAILURE

import recordwise.privacy.noise as package
from recordwise.privacy.noise import SeededNoise, SystemNoise


def test_only_the_operating_systems_entropy_is_private():
    assert SystemNoise().private
    assert not SeededNoise(1).private


def test_system_noise_takes_no_seed():
    with pytest.raises(TypeError):
        SystemNoise(42)
    assert (SystemNoise().words(1000) != SystemNoise().words(1000)).all()


def test_seeded_noise_replays():
    np.testing.assert_array_equal(SeededNoise(3).words(10), SeededNoise(3).words(10))
    assert (SeededNoise(3).words(10) != SeededNoise(4).words(10)).any()


@pytest.mark.parametrize("noise", [SystemNoise(), SeededNoise(0)], ids=["system", "seeded"])
def test_every_bit_of_a_word_is_fair(noise):
    words = noise.words(100_000)
    assert words.dtype == np.uint64
    for bit in range(64):
        ones = int(((words >> np.uint64(bit)) & np.uint64(1)).sum())
        assert binomtest(ones, 100_000, 0.5).pvalue > FALSE_FAILURE / 64


def test_the_package_exports_what_it_says():
    assert sorted(package.__all__) == package.__all__
    assert all(hasattr(package, name) for name in package.__all__)


def test_importing_noise_loads_numpy_and_nothing_heavier():
    check = "import sys, recordwise.privacy.noise; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", check], capture_output=True, text=True, check=True)
    loaded = set(done.stdout.split())
    assert "numpy" in loaded
    assert not loaded & {"scipy", "mpmath", "torch", "sklearn", "opendp", "dp_accounting"}
