"""Decoding by differences agrees, on every engine, with hashing every point."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from recordwise.errors import MissingExtra
from recordwise.protocols.local import hits as module
from recordwise.protocols.local.hashing import HashFamily
from recordwise.protocols.local.hits import LANES, Engine, count_hits, hits
from recordwise.randomness import seeded


def messages(family: HashFamily, count: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    rng = seeded(seed, "messages")
    return (
        rng.integers(0, family.prime, (count, family.independence)),
        rng.integers(0, family.buckets, count),
    )


@settings(max_examples=40, deadline=None)
@given(
    domain=st.integers(1, 60),
    buckets=st.integers(1, 300),
    independence=st.integers(1, 6),
    count=st.integers(0, 40),
    seed=st.integers(0, 2**32),
)
def test_the_sweep_finds_exactly_the_points_hashed_to_the_reported_bucket(
    domain: int, buckets: int, independence: int, count: int, seed: int
) -> None:
    family = HashFamily(domain=domain, buckets=buckets, independence=independence)
    keys, reported = messages(family, count, seed)
    brute = family.apply(keys, np.arange(domain)[None]) == reported[:, None]
    assert (hits(family, keys, reported) == brute.T).all()
    assert (count_hits(family, keys, reported) == brute.sum(axis=0)).all()


@pytest.mark.parametrize("engine", [Engine.NUMBA, Engine.TORCH])
@pytest.mark.parametrize("independence", [2, 3, 6])
def test_every_engine_counts_the_same(engine: Engine, independence: int) -> None:
    family = HashFamily(domain=37, buckets=5, independence=independence)
    keys, reported = messages(family, LANES + 1_500, seed=independence)
    keys[0], keys[1] = 0, family.prime - 1  # the extremes of the field
    assert (count_hits(family, keys, reported, engine) == count_hits(family, keys, reported)).all()


def test_auto_compiles_only_what_is_worth_it(monkeypatch: pytest.MonkeyPatch) -> None:
    assert Engine.AUTO.settled(10**6) is Engine.NUMPY
    assert Engine.AUTO.settled(10**10) is Engine.NUMBA
    monkeypatch.setattr(module, "find_spec", lambda name: None)
    assert Engine.AUTO.settled(10**10) is Engine.NUMPY
    with pytest.raises(MissingExtra, match="engine 'numba' must be installed"):
        Engine.NUMBA.settled(1)
