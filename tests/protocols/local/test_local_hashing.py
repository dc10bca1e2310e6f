"""The hash family: exact independence, on families small enough to list every key of."""

from __future__ import annotations

import itertools
from collections import Counter
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import chi2

from recordwise.errors import InvalidInput
from recordwise.privacy.noise import SystemNoise
from recordwise.protocols.local import Collision
from recordwise.protocols.local.hashing import ANSWER_BYTES, PRIMES, HashFamily
from recordwise.votes.ballot import Ballot

FALSE_FAILURE = 1e-9


class TinyFamily(HashFamily):
    """The same code over the field of seven elements, with every key at hand."""

    prime = 7  # type: ignore[assignment]

    def every_key(self) -> np.ndarray:
        return np.array(list(itertools.product(range(self.prime), repeat=self.independence)))


@pytest.mark.parametrize(("size", "prime"), PRIMES.items())
def test_the_field_is_the_largest_that_fits_its_bytes(size: int, prime: int) -> None:
    def is_prime(number: int) -> bool:
        return all(number % divisor for divisor in range(2, int(number**0.5) + 1))

    assert is_prime(prime)
    assert prime < 256**size
    assert not any(is_prime(number) for number in range(prime + 1, 256**size))


@pytest.mark.parametrize(("independence", "points"), [(2, (0, 3)), (2, (5, 6)), (3, (0, 1, 2)), (3, (1, 4, 6))])
def test_any_points_up_to_the_independence_are_hashed_independently(independence: int, points: tuple[int, ...]) -> None:
    family = TinyFamily(domain=7, buckets=3, independence=independence)
    keys = family.every_key()
    at = np.array([points])
    together = Counter(map(tuple, family.values(keys, at).tolist()))
    assert set(together.values()) == {1}  # every tuple of field elements comes from exactly one key
    assert len(together) == 7**independence
    sizes = family.size(np.arange(3))
    buckets = Counter(map(tuple, family.apply(keys, at).tolist()))
    for hit in itertools.product(range(3), repeat=independence):
        assert buckets[hit] == np.prod(sizes[list(hit)])


def test_three_points_of_a_pairwise_family_are_not_independent() -> None:
    family = TinyFamily(domain=7, buckets=3, independence=2)
    all_equal = sum(len(set(row)) == 1 for row in family.apply(family.every_key(), np.array([[0, 1, 2]])).tolist())
    independent = sum(int(size) ** 3 for size in family.size(np.arange(3))) / 7
    assert all_equal > 1.2 * independent


@given(
    domain=st.integers(1, 10**6),
    buckets=st.integers(1, 50_000),
    independence=st.integers(1, 9),
    data=st.data(),
)
def test_hashing_is_the_polynomial_it_says(domain: int, buckets: int, independence: int, data: st.DataObject) -> None:
    family = HashFamily(domain=domain, buckets=buckets, independence=independence)
    key = data.draw(st.lists(st.integers(0, family.prime - 1), min_size=independence, max_size=independence))
    point = data.draw(st.integers(0, domain - 1))
    value = sum(coefficient * point**power for power, coefficient in enumerate(reversed(key))) % family.prime
    bucket = family.apply(np.array([key]), np.array([[point]]))[0, 0]
    assert bucket == value * buckets // family.prime
    assert family.start(np.array([bucket]))[0] <= value < family.start(np.array([bucket + 1]))[0]


@given(buckets=st.integers(1, 60_000), domain=st.sampled_from([10, 5_000, 70_000, 20_000_000]))
def test_buckets_share_the_field_as_evenly_as_they_can(buckets: int, domain: int) -> None:
    family = HashFamily(domain=domain, buckets=buckets, independence=3)
    sizes = family.size(np.arange(buckets))
    assert sizes.sum() == family.prime
    assert sizes.max() - sizes.min() <= 1
    assert family.prime >= max(domain, buckets)


def test_every_message_has_a_key_of_its_own() -> None:
    family = HashFamily(domain=100, buckets=3, independence=2)
    keys = family.draw(100_000, SystemNoise())
    assert len(np.unique(keys, axis=0)) == len(keys)  # two of 2^64 equal: a chance of 3e-10
    assert 8 * family.word_bytes * family.independence >= 64
    # Coefficients are uniform: 64 equal ranges of the field, each expected to be hit 3,125 times.
    counts = np.bincount(keys.ravel() * 64 // family.prime, minlength=64)
    assert chi2.sf(((counts - 3125) ** 2 / 3125).sum(), 63) > FALSE_FAILURE


@pytest.mark.parametrize("epsilon", ["1/10", "1", "3", "8"])
@pytest.mark.parametrize(("k", "r"), [(1, 1), (2, 1), (1, 2), (3, 1), (2, 2), (5, 1), (3, 2)])
def test_a_collision_answer_fits_in_sixteen_bytes(k: int, r: int, epsilon: str) -> None:
    ballot = Ballot(num_queries=200, num_classes=50, votes_per_record=k, labels_per_record=r)
    mechanism = Collision(ballot=ballot, epsilon=Fraction(epsilon))
    assert mechanism.message_size <= ANSWER_BYTES
    assert 8 * mechanism.channel.family.word_bytes * mechanism.channel.independence >= 64


def test_many_votes_cost_two_bytes_each_rather_than_exactness() -> None:
    ballot = Ballot(num_queries=200, num_classes=50, votes_per_record=10, labels_per_record=2)
    mechanism = Collision(ballot=ballot, epsilon=Fraction(1))
    assert mechanism.message_size == 2 * 21 + 1
    assert mechanism.channel.independence == 21


def test_a_domain_beyond_the_largest_field_is_refused() -> None:
    with pytest.raises(InvalidInput, match="must be <= 4294967291"):
        HashFamily(domain=2**32, buckets=3, independence=2)
