from __future__ import annotations

from fractions import Fraction
from math import isqrt

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from tests.nearest.hard import hard_problem, kinds, seeds

from recordwise.nearest import Metric
from recordwise.nearest.certificate import SINGLE, Certificate, gamma
from recordwise.nearest.poll import Poll, unit_rows
from recordwise.randomness import seeded


def in_any_order(left: NDArray[np.float32], right: NDArray[np.float32], rng: np.random.Generator) -> np.float32:
    """A float32 dot product, its terms added up in a random tree."""
    with np.errstate(all="ignore"):
        terms = list(left * right)
        while len(terms) > 1:
            first, second = sorted(rng.choice(len(terms), 2, replace=False))
            terms.append(np.float32(terms.pop(second) + terms.pop(first)))
    return np.float32(terms[0])


def exact_length(record: NDArray[np.float32]) -> Fraction:
    total = sum(Fraction(float(value)) ** 2 for value in record)
    return Fraction(isqrt(int(total * 2**600)), 2**300)  # to 300 binary places


@given(seed=seeds, kind=kinds, metric=st.sampled_from(Metric))
@settings(max_examples=60, deadline=None)
def test_no_order_of_summation_leaves_the_slack(seed: int, kind: str, metric: Metric) -> None:
    records, queries = hard_problem(seed, kind, num_records=6, num_queries=4)
    queries = queries[queries.any(axis=1)]
    prices = seeded(seed, "prices").standard_normal(len(queries))
    poll = Poll.open(queries, 1, metric, None, prices)
    certificate = Certificate.of(poll)
    with np.errstate(all="ignore"):
        lifted = np.concatenate([records, np.zeros((len(records), 2), dtype=np.float32)], axis=1)
        squares, t = certificate.lift(lifted)
        slack = certificate.slack(squares.astype(np.float64), t.astype(np.float64))
    rng, cheapest = seeded(seed, "order"), Fraction(prices.min())
    for row, record in enumerate(records):
        if not np.isfinite(slack[row]):
            continue
        canonical = unit_rows(record[None])[0] if metric is Metric.COSINE else record
        # The real number the score stands for: t/2 · cost, with the rule's x, and t = |x| for cosine.
        length = exact_length(record) if metric is Metric.COSINE else 1
        here = [Fraction(float(value)) for value in canonical]
        for query in range(len(queries)):
            asked = [Fraction(float(value)) for value in poll.queries[query]]
            real = sum((a - b) ** 2 for a, b in zip(here, asked, strict=True)) + Fraction(prices[query]) - cheapest
            score = in_any_order(lifted[row], certificate.lifted[:, query], rng)
            assert abs(Fraction(float(score)) - length * real / 2) <= 2 * Fraction(slack[row])


@pytest.mark.parametrize("dim", [16, 128, 784])
def test_the_slack_is_not_idle(dim: int) -> None:
    """Summing upwards from the smallest of one-sided terms uses a fair part of it."""
    records, queries = np.full((1, dim), 1.1, dtype=np.float32), np.full((1, dim), 1.3, dtype=np.float32)
    certificate = Certificate.of(Poll.open(queries, 1, Metric.EUCLIDEAN, None, None))
    lifted = np.concatenate([records, np.ones((1, 2), dtype=np.float32)], axis=1)
    squares, t = certificate.lift(lifted)
    total = np.float32(0)
    for a, b in zip(lifted[0], certificate.lifted[:, 0], strict=True):
        total = np.float32(total + a * b)
    exact = lifted[0].astype(np.float64) @ certificate.lifted[:, 0].astype(np.float64)
    assert certificate.slack(squares.astype(np.float64), t.astype(np.float64))[0] < 400 * abs(float(total) - exact)


def test_gamma_is_the_textbook_constant_and_gives_up_where_it_says_nothing() -> None:
    assert gamma(1, SINGLE) == pytest.approx(2.0**-24, rel=1e-6)
    assert gamma(128, SINGLE) == pytest.approx(128 * 2.0**-24, rel=1e-4)
    assert gamma(2**23, SINGLE) == np.inf
