"""The exact law of what the real client code sends, by walking through every outcome of every coin it tosses.

`bernoulli` and `uniform_below` are proved exact elsewhere. Here they are replaced by choices: the code runs once for
each way the choices can fall, and the probabilities along the way are multiplied.
"""

from __future__ import annotations

import itertools
import math
from collections import defaultdict
from collections.abc import Callable, Iterator
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from recordwise.privacy.noise.real import real
from recordwise.protocols.local import LocalMechanism, bits, channel, hashing, questions, subset_selection
from recordwise.votes.ballot import NOBODY, Ballot, Votes

Law = dict[Any, Fraction]


class _Walk:
    """One run after another: replay the choices made so far, and note those still to be made."""

    def __init__(self) -> None:
        self.path: list[int] = []
        self.options: list[list[Fraction]] = []

    def start(self) -> None:
        self.step, self.probability = 0, Fraction(1)

    def choose(self, options: list[Fraction]) -> int:
        if self.step == len(self.path):
            self.path.append(0)
            self.options.append(options)
        taken = self.path[self.step]
        self.probability *= options[taken]
        self.step += 1
        return taken

    def advance(self) -> bool:
        while self.path and self.path[-1] + 1 == len(self.options[-1]):
            self.path.pop()
            self.options.pop()
        if self.path:
            self.path[-1] += 1
        return bool(self.path)

    def bernoulli(self, probability: Any, size: Any, noise: Any) -> np.ndarray:
        low, high = real(probability).bounds(200)
        p = Fraction(low + high, 1 << 201)
        return np.array([self.choose([1 - p, p]) for _ in range(math.prod(np.atleast_1d(size)))], bool).reshape(size)

    def uniform_below(self, bound: Any, size: Any, noise: Any) -> np.ndarray:
        bounds = np.broadcast_to(np.asarray(bound), size).ravel()
        drawn = [self.choose([Fraction(1, int(b))] * int(b)) for b in bounds]
        return np.array(drawn, dtype=np.int64).reshape(size)


def exact_law(run: Callable[[], Any]) -> Law:
    """What `run` returns, with which probability."""
    walk, law = _Walk(), defaultdict(Fraction)
    with pytest.MonkeyPatch.context() as patch:
        for module in (bits, channel, hashing, questions, subset_selection):
            for name in ("bernoulli", "uniform_below"):
                if hasattr(module, name):
                    patch.setattr(module, name, getattr(walk, name))
        while True:
            walk.start()
            law[run()] += walk.probability
            if not walk.advance():
                return dict(law)


def every_vote(ballot: Ballot) -> Iterator[Votes]:
    """All that one record can vote for: up to k queries with up to r classes, none included."""
    for queries in _subsets(ballot.num_queries, ballot.votes_per_record):
        for labels in _subsets(ballot.num_classes, ballot.labels_per_record):
            yield Votes(ballot, np.array([queries], np.int32), np.array([labels], np.int32))


def _subsets(domain: int, most: int) -> Iterator[list[int]]:
    for size in range(most + 1):
        for chosen in itertools.combinations(range(domain), size):
            yield [*chosen, *[NOBODY] * (most - size)]


def message_law(mechanism: LocalMechanism, votes: Votes, keys: list[np.ndarray]) -> Law:
    """The law of the message given the hash keys, which are drawn before the votes are looked at."""
    with pytest.MonkeyPatch.context() as patch:
        rounds = itertools.cycle(keys)
        patch.setattr(hashing.HashFamily, "draw", lambda family, count, noise: next(rounds))
        return exact_law(lambda: mechanism.randomize(votes, None).tobytes())  # type: ignore[arg-type]


def largest_ratio(laws: list[Law]) -> float:
    """The largest factor between the probabilities of one output under two of these laws."""
    outputs = set().union(*laws)
    worst = 1.0
    for output in outputs:
        chances = [law.get(output, Fraction(0)) for law in laws]
        if min(chances) == 0:
            return math.inf
        worst = max(worst, float(max(chances) / min(chances)))
    return worst
