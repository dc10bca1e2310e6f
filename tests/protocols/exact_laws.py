"""The exact law of what the real code sends and releases, by walking through every outcome of every draw it makes.

The samplers are proved exact elsewhere (`tests/privacy/noise`: every one of them against its law, bit by bit). Here
they are replaced by choices: the code runs once for each way the choices can fall, and the probabilities along the way
are multiplied. Whatever draws in another way than by these samplers is refused, so that no randomness stays unseen.

Laws on all integers are cut off where little is left of them, and rare paths can be left out. A law then lacks some
mass, and every conclusion from it allows for that: see `spent`.
"""

from __future__ import annotations

import itertools
import math
import sys
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from fractions import Fraction
from functools import cache, lru_cache
from typing import Any

import numpy as np
import pytest

from recordwise.privacy.noise import (
    DiscreteGaussian,
    DiscreteLaplace,
    NegativeBinomial,
    PolyaDifference,
    coins,
    exp,
    integers,
    matching,
)
from recordwise.privacy.noise.real import Real, real
from recordwise.protocols.pairs import Record, as_votes
from recordwise.votes.ballot import Ballot, Votes

Chance = Fraction | float  # exact, but for laws on all integers
Law = dict[Any, Any]  # from outcomes to chances

LAWS = (DiscreteLaplace, DiscreteGaussian, PolyaDifference, NegativeBinomial)
JUDGED = 500  # a ratio is read off where it has this many times the mass that the laws lack: it is off by 1/250 at most


class Rare(Exception):
    """A path that has become too unlikely to be followed."""


class Walk:
    """One run after another: replay the choices made so far, and note those still to be made. A source of noise.

    Attributes:
      cut: A law on all integers is cut off where at most this much of it is left.
      least: Paths less likely than this are left out.
    """

    private = True

    def __init__(self, cut: float = 1e-9, least: float = 0.0) -> None:
        self.cut, self.least = cut, least
        self.path: list[int] = []
        self.options: list[Sequence[Any]] = []
        self.reached: list[Any] = [Fraction(1)]  # the probability of the path up to each choice
        self.start()

    def start(self) -> None:
        self.step = 0

    @property
    def probability(self) -> Any:
        return self.reached[self.step]

    def choose(self, options: Sequence[Any]) -> int:
        if self.step == len(self.path):
            self.path.append(0)
            self.options.append(options)
        taken = self.path[self.step]
        self.step += 1
        if self.step == len(self.reached):
            self.reached.append(self.reached[-1] * options[taken])
        if self.least and self.probability < self.least:
            raise Rare
        return taken

    def advance(self) -> bool:
        del self.path[self.step :], self.options[self.step :]
        while self.path and self.path[-1] + 1 == len(self.options[-1]):
            self.path.pop()
            self.options.pop()
        del self.reached[max(1, len(self.path)) :]
        if self.path:
            self.path[-1] += 1
        return bool(self.path)

    def words(self, count: int) -> Any:
        raise AssertionError("a client must draw by the samplers alone: these words would go unseen")

    # What stands in for the samplers. Each has its sampler's arguments, the noise being this walk.

    def bernoulli(self, probability: Any, size: Any) -> np.ndarray:
        coin = _coin(_fraction(probability))
        return np.array([self.choose(coin) for _ in range(_count(size))], bool).reshape(size)

    def bernoulli_exp(self, numerators: Any, scale: Fraction) -> np.ndarray:
        chances = [_power(int(numerator), scale) for numerator in numerators.ravel()]
        # A coin that always falls the same way is no choice.
        tossed = [True if p == 1 else bool(self.choose(_coin(p))) for p in chances]
        return np.array(tossed, bool).reshape(numerators.shape)

    def uniform_below(self, bound: Any, size: Any) -> np.ndarray:
        bounds = [bound] * _count(size) if isinstance(bound, int) else np.broadcast_to(bound, size).ravel().tolist()
        drawn = [self.choose(_even(b)) for b in bounds]
        return np.array(drawn, dtype=np.int64).reshape(size)

    def permutation(self, n: int) -> np.ndarray:
        """One order for all: whoever uses it looks at what was shuffled, see `contract.batch`."""
        return np.arange(n)[::-1]

    def sample(self, law: Any, size: Any) -> np.ndarray:
        values, chances = _table(law, self.cut)
        return np.array([values[self.choose(chances)] for _ in range(_count(size))], np.int64).reshape(size)


class _Uniform:
    """A uniform real of which only comparisons are asked: it is known to lie in [low, 1) so far."""

    def __init__(self, prefix: int, bits: int, walk: Walk) -> None:
        self.walk, self.low, self.whole = walk, Fraction(0), Fraction(1)

    def __mul__(self, whole: Real) -> _Uniform:
        self.whole = _fraction(whole)
        return self

    def less(self, part: Real) -> bool:
        share = _fraction(part) / self.whole
        below = (share - self.low) / (1 - self.low)
        if self.walk.choose([1 - below, below]):
            return True
        self.low = share
        return False


def _count(size: Any) -> int:
    return size if isinstance(size, int) else math.prod(np.atleast_1d(size).tolist())


@cache
def _coin(p: Fraction) -> tuple[Fraction, Fraction]:
    return 1 - p, p


@cache
def _even(many: int) -> tuple[Fraction, ...]:
    return (Fraction(1, many),) * many


@lru_cache(maxsize=4096)
def _fraction(number: Any) -> Fraction:
    low, high = real(number).bounds(200)
    return Fraction(low + high, 1 << 201)


@cache
def _power(numerator: int, scale: Fraction) -> Fraction:
    return _fraction(exp(-numerator / scale)) if numerator else Fraction(1)


@cache
def _table(law: Any, cut: float) -> tuple[list[int], list[float]]:
    """The values of an integer law, but for a mass of `cut`, and their probabilities, the likeliest first.

    Floats will do: what was cut off exceeds their rounding by far.
    """
    reach = next(distance for distance in itertools.count() if law.two_sided_tail(distance + 1) <= cut)
    values = np.arange(0 if isinstance(law, NegativeBinomial) else -reach, reach + 1)
    likeliest_first = values[np.argsort(-law.pmf(values), kind="stable")]
    return likeliest_first.tolist(), law.pmf(likeliest_first).tolist()


def exact_law(run: Callable[[Walk], Any], *, cut: float = 1e-9, least: float = 0.0) -> Law:
    """What `run` returns, with which probability, when it draws from the walk that it is given."""
    walk, law = Walk(cut, least), defaultdict(Fraction)
    with pytest.MonkeyPatch.context() as patch:
        _replace_samplers(patch)
        while True:
            walk.start()
            try:
                seen = run(walk)
                law[seen] += walk.probability
            except Rare:
                pass
            if not walk.advance():
                return dict(law)


def _replace_samplers(patch: pytest.MonkeyPatch) -> None:
    """In every module that took one in."""
    functions = {
        coins.bernoulli: lambda probability, size, noise: noise.bernoulli(probability, size),
        coins.bernoulli_exp: lambda numerators, scale, noise: noise.bernoulli_exp(numerators, scale),
        integers.uniform_below: lambda bound, size, noise: noise.uniform_below(bound, size),
        integers.permutation: lambda n, noise: noise.permutation(n),
    }
    for module in [module for name, module in sys.modules.items() if _draws(name)]:
        for name, value in list(vars(module).items()):
            if callable(value) and getattr(value, "__hash__", None) and value in functions:
                patch.setattr(module, name, functions[value])
    for law in LAWS:
        patch.setattr(law, "sample", lambda self, size, noise: noise.sample(self, size))
    patch.setattr(matching, "Uniform", _Uniform)
    patch.setattr(matching, "less", lambda threshold, part: threshold.less(part))


def _draws(name: str) -> bool:
    return name.startswith(("recordwise.protocols", "recordwise.privacy.noise")) or name == "twins"


# What a record can say


def every_record(ballot: Ballot) -> list[Record]:
    """All that one record can vote for: up to k queries with up to r classes, none included."""
    return [
        Record(queries, labels)
        for queries in _subsets(ballot.num_queries, ballot.votes_per_record)
        for labels in _subsets(ballot.num_classes, ballot.labels_per_record)
    ]


def every_vote(ballot: Ballot) -> Iterator[Votes]:
    """The votes of all of these, each by itself."""
    return (as_votes(ballot, [record]) for record in every_record(ballot))


def _subsets(domain: int, most: int) -> list[tuple[int, ...]]:
    return [chosen for size in range(most + 1) for chosen in itertools.combinations(range(domain), size)]


# What two laws give away


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


def spent(laws: Sequence[Law], delta: Fraction) -> tuple[float, float]:
    """The epsilon at `delta` that any two of these laws spend against each other: a lower and an upper bound.

    They agree where no mass is lacking. Where some is, it may belong to any outcome of any law.
    """
    lacking = max(0, *(1 - sum(law.values()) for law in laws))
    outcomes = list(set().union(*laws))
    if delta == 0:
        return _largest_loss([[law.get(outcome, 0) for law in laws] for outcome in outcomes], lacking)
    table = np.array([[float(law.get(outcome, 0)) for outcome in outcomes] for law in laws])
    slack = float(lacking)

    def excess(at: float) -> float:
        return max(float(np.maximum(p - math.exp(at) * q, 0).sum()) for p, q in itertools.permutations(table, 2))

    def epsilon(allowed: Callable[[float], float]) -> float:
        """The least epsilon at which the excess is allowed."""
        low, high = 0.0, 50.0
        if excess(low) <= allowed(low):
            return 0.0
        if excess(high) > allowed(high):
            return math.inf
        while high - low > 1e-6:
            middle = (low + high) / 2
            low, high = (middle, high) if excess(middle) > allowed(middle) else (low, middle)
        return low

    return epsilon(lambda at: float(delta) + math.exp(at) * slack), epsilon(lambda at: float(delta) - slack)


def _largest_loss(table: list[list[Any]], lacking: Chance) -> tuple[float, float]:
    """From below over all outcomes; from above over those that have far more mass than is lacking.

    All outcomes have, where nothing is lacking. Further out than that, laws on all integers show nothing new: discrete
    Laplace loses the same factor with every step, and the sum of shares no more than it (`privacy.shares`).
    """
    low = max(_log(max(chances), min(chances) + lacking) for chances in table)
    common = (chances for chances in table if min(chances) > JUDGED * lacking)
    high = max((_log(max(chances) + lacking, min(chances)) for chances in common), default=math.inf)
    return low, max(low, high)


def _log(top: Chance, bottom: Chance) -> float:
    """The logarithm of their ratio; fractions may be too small to be floats."""
    return math.inf if bottom == 0 else math.log(top / bottom)
