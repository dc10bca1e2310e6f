"""Exact noise per second, beside OpenDP's: `python -m benchmarks.noise`.

OpenDP is measured the way it is used: discrete Laplace and Gaussian on a vector of 5,000 cells, noisy max one call per
query (it takes one candidate vector a call). NumPy's float-based samplers stand beside both as the price of exactness,
not as an alternative: on counts their law is not the stated one. All rates are one thread's, from one run.
"""

from __future__ import annotations

import tracemalloc
from collections.abc import Callable
from fractions import Fraction

import numpy as np
import opendp.prelude as dp
from benchmarks import provenance

from recordwise.privacy.noise import (
    DiscreteGaussian,
    DiscreteLaplace,
    NegativeBinomial,
    SystemNoise,
    bernoulli,
    exp,
    permute_and_flip,
)

CELLS = 5_000
DRAWS = 2_000_000
QUERIES, CLASSES = 200_000, 10
CALLS = 3_000
BITS = 400_000

dp.enable_features("contrib")
NOISE = SystemNoise()
VECTOR = dp.vector_domain(dp.atom_domain(T="i64"))


def main() -> None:
    rows = [
        *(laplace(Fraction(scale)) for scale in ("1/10", "20", "2000", "10000000")),
        *(gaussian(Fraction(sigma)) for sigma in ("1", "20", "2000", "10000000")),
        *(noisy_max(Fraction(scale)) for scale in ("20", "2000")),
        coins(),
        shares(),
        memory(),
    ]
    path = provenance.write("noise", rows)
    for row in rows:
        beside = ", ".join(f"{ratio:,.1f} × {peer}" for peer, ratio in row["ratio"].items())
        print(f"{row['name']:<28} {row['size']!s:<48} {row['ours']:>14,.0f} {row['unit']:<10} {beside}")
    print(f"written to {path.relative_to(path.parents[2])}")


def laplace(scale: Fraction) -> provenance.Row:
    law, theirs = DiscreteLaplace(scale), (VECTOR, dp.l1_distance(T="i64")) >> dp.m.then_laplace(float(scale))
    success = -np.expm1(-1 / float(scale))
    generator = np.random.default_rng(0)
    return compare(
        "discrete Laplace",
        {"scale": str(scale)},
        lambda: law.sample(DRAWS, NOISE),
        vector=lambda: theirs([0] * CELLS),
        floats=lambda: generator.geometric(success, DRAWS) - generator.geometric(success, DRAWS),
    )


def gaussian(sigma: Fraction) -> provenance.Row:
    law, theirs = DiscreteGaussian(sigma**2), (VECTOR, dp.l2_distance(T=float)) >> dp.m.then_gaussian(float(sigma))
    generator = np.random.default_rng(0)
    return compare(
        "discrete Gaussian",
        {"sigma": str(sigma)},
        lambda: law.sample(DRAWS, NOISE),
        vector=lambda: theirs([0] * CELLS),
        floats=lambda: np.rint(generator.normal(scale=float(sigma), size=DRAWS)),
    )


def compare(
    name: str,
    size: dict[str, str],
    ours: Callable[[], object],
    *,
    vector: Callable[[], object],
    floats: Callable[[], object],
) -> provenance.Row:
    return provenance.row(
        name,
        size={**size, "draws": DRAWS, "OpenDP draws": CELLS},
        ours=DRAWS / provenance.seconds(ours),
        peers={
            "OpenDP": CELLS / provenance.seconds(vector, repeats=10),
            "NumPy floats (not exact)": DRAWS / provenance.seconds(floats),
        },
        unit="samples/s",
        packages=["opendp"],
    )


def noisy_max(scale: Fraction) -> provenance.Row:
    counts = np.random.default_rng(0).multinomial(60, [0.77] + [0.23 / 9] * 9, size=QUERIES)
    candidates = [row.tolist() for row in counts[:CALLS]]
    domain = (VECTOR, dp.linf_distance(T="i64", monotonic=True))
    theirs = domain >> dp.m.then_noisy_max(dp.max_divergence(), scale=float(scale))
    return provenance.row(
        "permute-and-flip",
        size={"scale": str(scale), "classes": CLASSES, "queries": QUERIES, "OpenDP calls": CALLS},
        ours=QUERIES / provenance.seconds(lambda: permute_and_flip(counts, scale, NOISE)),
        peers={"OpenDP": CALLS / provenance.seconds(lambda: [theirs(row) for row in candidates])},
        unit="queries/s",
        packages=["opendp"],
    )


def coins() -> provenance.Row:
    """Flipping bits with probability 1/(e+1), as randomized response does; OpenDP's flips a whole bit vector a call."""
    flip = 1 / (exp(Fraction(1)) + 1)
    domain = dp.bitvector_domain(max_weight=1)
    theirs = dp.m.make_randomized_response_bitvec(domain, dp.discrete_distance(), f=2 * float(flip))
    bits = bytes(BITS // 8)
    return provenance.row(
        "coins of probability 1/(e+1)",
        size={"draws": 5 * DRAWS, "OpenDP draws": BITS},
        ours=5 * DRAWS / provenance.seconds(lambda: bernoulli(flip, 5 * DRAWS, NOISE)),
        peers={"OpenDP": BITS / provenance.seconds(lambda: theirs(bits))},
        unit="coins/s",
        packages=["opendp"],
    )


def shares() -> provenance.Row:
    law = NegativeBinomial(Fraction(1, 1000), Fraction(20))
    return provenance.row(
        "negative binomial, 1/1000",
        size={"scale": "20", "draws": DRAWS},
        ours=DRAWS / provenance.seconds(lambda: law.sample(DRAWS, NOISE)),
        peers={},
        unit="samples/s",
    )


def memory() -> provenance.Row:
    """Peak memory of ten million draws beyond the 80 MB that hold them."""
    tracemalloc.start()
    draws = DiscreteLaplace(Fraction(20)).sample(10_000_000, NOISE)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    return provenance.row(
        "memory beyond the result",
        size={"law": "discrete Laplace", "draws": draws.size},
        ours=float(peak - draws.nbytes),
        peers={},
        unit="bytes",
    )


if __name__ == "__main__":
    main()
