"""Records and queries on which float32 scores go wrong: ties, near ties, and lengths far from one."""

from __future__ import annotations

import numpy as np
from hypothesis import strategies as st
from numpy.typing import NDArray

from recordwise.randomness import seeded

Problem = tuple[NDArray[np.float32], NDArray[np.float32]]


def hard_problem(seed: int, kind: str, *, num_records: int = 40, num_queries: int = 12, dim: int = 6) -> Problem:
    """Records and queries of one kind; none of them finite only by luck."""
    rng = seeded(seed, "hard", kind)
    records, queries = rng.standard_normal((num_records, dim)), rng.standard_normal((num_queries, dim))
    half = num_queries // 2
    if kind == "grid":  # small integers: exact ties everywhere
        records, queries = rng.integers(-1, 3, (num_records, dim)), rng.integers(-1, 3, (num_queries, dim))
    elif kind == "duplicates":
        queries[half:] = queries[: num_queries - half]
        records[::3] = queries[rng.integers(0, num_queries, len(records[::3]))]
    elif kind == "one ulp":  # queries that differ from another one in the last bit of one coordinate
        single = queries.astype(np.float32)
        single[half:] = single[: num_queries - half]
        towards = np.float32(rng.choice([-np.inf, np.inf]))
        single[half:, 0] = np.nextafter(single[half:, 0], towards)
        queries = single
    elif kind == "midpoints":  # records halfway between two queries
        pairs = rng.integers(0, num_queries, (num_records, 2))
        records = (queries[pairs[:, 0]] + queries[pairs[:, 1]]) / 2
    elif kind == "far":  # a common offset: the distances are the last bits of the scores
        records, queries = records * 1e-2 + 300, queries * 1e-2 + 300
    elif kind == "long":
        records, queries = records * 2.0 ** rng.integers(40, 120), queries * 2.0 ** rng.integers(40, 120)
    elif kind == "short":
        records, queries = records * 2.0 ** -rng.integers(40, 148), queries * 2.0 ** -rng.integers(40, 148)
    elif kind == "mixed":  # every record and every query has its own length
        records = records * 2.0 ** rng.integers(-140, 120, (num_records, 1))
        queries = queries * 2.0 ** rng.integers(-60, 60, (num_queries, 1))
    elif kind == "zeros":
        records[::2] = 0
        records[1::4] = 2.0**-149
    elif kind != "plain":
        raise ValueError(kind)
    return records.astype(np.float32), queries.astype(np.float32)


KINDS = ["plain", "grid", "duplicates", "one ulp", "midpoints", "far", "long", "short", "mixed", "zeros"]
kinds = st.sampled_from(KINDS)
seeds = st.integers(0, 2**32 - 1)
