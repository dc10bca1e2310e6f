from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import norm

from recordwise.errors import InvalidInput
from recordwise.privacy.noise import Normal


def test_the_law_describes_itself_correctly():
    law, values = Normal(2.5), np.array([-3.0, 0.0, 0.5, 7.0])
    expected = norm.logpdf(values, scale=2.5) - norm.logpdf(0, scale=2.5)
    np.testing.assert_allclose(law.log_likelihood(values), expected)
    for distance in (-1.0, 0.0, 1.0, 20.0):
        assert min(1.0, 2 * norm.sf(distance, scale=2.5)) <= law.two_sided_tail(distance) <= 1


def test_it_makes_no_noise():
    assert not hasattr(Normal(1.0), "sample")


@pytest.mark.parametrize("std", [0.0, -1.0, float("nan")])
def test_a_deviation_that_is_not_positive_is_refused(std):
    with pytest.raises(InvalidInput, match="std must be > 0"):
        Normal(std)
