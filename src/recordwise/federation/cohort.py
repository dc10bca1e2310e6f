"""Tens of millions of one-record devices without tens of millions of messages on a wire: for planning and experiments.

What is simulated is the released tally, in distribution the one that real devices' messages give:

  - mechanisms that set every bit on its own: the number of ones in a cell is a sum of two binomials, cell by cell
    independent, so it is drawn as such, whatever the number of devices;
  - every other local mechanism: the cells of one message depend on each other through its hash or its subset, so each
    device's message is made and decoded, by the mechanism's own code, a block of devices at a time;
  - distributed trust: the sum of all devices' shares of noise has one known law.

Randomness is seeded, so a simulated tally is marked not private.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import singledispatch
from typing import Any

import numpy as np
from numpy.typing import NDArray

from recordwise.errors import InvalidInput
from recordwise.privacy.noise import SeededNoise
from recordwise.protocols.distributed import DistributedLaplace
from recordwise.protocols.local import Answers, LocalMechanism, RandomizedResponse, UnaryEncoding
from recordwise.protocols.protocol import Protocol
from recordwise.protocols.shuffle import ShuffleSingle
from recordwise.streams import stream
from recordwise.tally import Tally
from recordwise.votes.ballot import Votes

BLOCK = 1 << 18  # devices at a time


@singledispatch
def simulate_cohort(protocol: Protocol[Any], counts: NDArray[np.int64], *, seed: int) -> Tally:
    """The tally that a cohort's messages would give.

    Guarantees:
      - its law is that of `protocol.server` on the messages of these devices (tested, per mechanism);
      - it is marked not private.

    Args:
      counts: (s, C) how many devices vote for each cell, one record and one vote each.
    """
    raise InvalidInput(f"a cohort runs a local, shuffled or distributed protocol, got {type(protocol).__name__}")


@simulate_cohort.register
def _(protocol: LocalMechanism, counts: NDArray[np.int64], *, seed: int) -> Tally:
    _check(protocol, counts)
    noise = SeededNoise(seed)
    return protocol.server(_messages(protocol, counts.ravel(), noise), noise)


@simulate_cohort.register(RandomizedResponse)
@simulate_cohort.register(UnaryEncoding)
def _(protocol: RandomizedResponse | UnaryEncoding, counts: NDArray[np.int64], *, seed: int) -> Tally:
    _check(protocol, counts)
    devices, rng, indicator = int(counts.sum()), stream(seed, "cohort"), protocol.indicator
    ones = rng.binomial(counts, float(indicator.hit)) + rng.binomial(devices - counts, float(indicator.miss))
    estimate = (ones.astype(np.float64) - devices * float(indicator.miss)) / indicator.gap
    return Tally(protocol.ballot, replace(protocol.guarantee, private=False), estimate, protocol.law(devices))


@simulate_cohort.register
def _(protocol: ShuffleSingle, counts: NDArray[np.int64], *, seed: int) -> Tally:
    if int(counts.sum()) < protocol.fewest:
        raise InvalidInput(f"a cohort must have >= {protocol.fewest:,} devices as planned, got {int(counts.sum()):,}")
    tally = simulate_cohort(protocol.local, counts, seed=seed)  # the order of messages changes no sum
    return replace(tally, guarantee=replace(protocol.guarantee, private=False))


@simulate_cohort.register
def _(protocol: DistributedLaplace, counts: NDArray[np.int64], *, seed: int) -> Tally:
    _check(protocol, counts)
    devices = int(counts.sum())
    if not protocol.fewest <= devices <= protocol.parties:
        raise InvalidInput(
            f"a cohort must have {protocol.fewest:,} to {protocol.parties:,} devices as planned, got {devices:,}"
        )
    law = protocol.law(devices)
    estimate = (counts + law.sample(counts.shape, SeededNoise(seed))).astype(np.float64)
    return Tally(protocol.ballot, replace(protocol.guarantee, private=False), estimate, law)


def _messages(protocol: LocalMechanism, counts: NDArray[np.int64], noise: SeededNoise) -> Iterator[Answers]:
    """Every device's message, the devices in the order of their cells: decoding sums, so no order matters."""
    borders = np.cumsum(counts)
    for start in range(0, int(borders[-1]), BLOCK):
        devices = np.arange(start, min(start + BLOCK, int(borders[-1])))
        queries, classes = np.divmod(np.searchsorted(borders, devices, side="right"), protocol.ballot.num_classes)
        votes = Votes(protocol.ballot, queries.astype(np.int32)[:, None], classes.astype(np.int32)[:, None])
        yield protocol.client(votes, noise)


def _check(protocol: Protocol[Any], counts: NDArray[np.int64]) -> None:
    ballot = protocol.ballot
    if ballot.cells_per_record != 1:
        raise InvalidInput(f"a device of a cohort casts one vote, so k·r must be 1, got {ballot.cells_per_record}")
    if counts.shape != (ballot.num_queries, ballot.num_classes) or not (counts >= 0).all() or not counts.sum() > 0:
        raise InvalidInput(f"counts must be ({ballot.num_queries}, {ballot.num_classes}) numbers >= 0, not all zero")
