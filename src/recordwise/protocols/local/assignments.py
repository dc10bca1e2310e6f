"""Which class has which query, from answers to yes-or-no questions; and what to ask next.

The model: every class has one query, and it is public how large queries are; a record of a query has the query's class,
but for a share of records whose class is any, all alike. A question is a set of cells (query, class), and the share of
yes among its answers depends on the assignment through the cells of the set that the assignment goes through. All of
this is post-processing of answers that are private already, and its randomness is public.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from recordwise.arrays import Bools, Doubles, Ints

CHAINS = 64
CANDIDATES = 8  # sets drawn for each that is asked about
SHARES = np.linspace(0.3, 1.0, 8)  # of records that have their query's class for sure: every value equally likely
HOTTEST = 2.0  # a walk begins at this temperature, and is down to one at a quarter of its way
STRIDE = 10  # steps between draws of the share, and between counts
SUREST = 1 - 1e-6  # no answer is taken to be beyond doubt, whatever epsilon is


@dataclass(frozen=True, eq=False)
class Answered:
    """Questions and what was answered: public.

    Attributes:
      sets: (d, C, C) the cells (query, class) that each question was about.
      yes: (d,) how many answered yes.
      asked: (d,) of how many.
      gap: How much likelier a record says yes if its cell is in the set.
      sizes: (C,) the share of all records that each query has.
    """

    sets: Bools
    yes: Ints
    asked: Ints
    gap: float
    sizes: Doubles

    @classmethod
    def nothing(cls, gap: float, sizes: Doubles) -> Answered:
        none = np.zeros(0, dtype=np.int64)
        return cls(np.zeros((0, len(sizes), len(sizes)), dtype=np.bool_), none, none, gap, sizes)

    def joined(self, sets: Bools, yes: Ints, asked: Ints) -> Answered:
        """These answers and more."""
        return replace(
            self,
            sets=np.concatenate([self.sets, sets]),
            yes=np.concatenate([self.yes, yes]),
            asked=np.concatenate([self.asked, asked]),
        )

    def log_likelihood(self, lean: Doubles) -> Doubles:
        """(...) of all answers, if records' cells lean to the sets by (..., d): share inside less share outside."""
        tilt = min(self.gap, SUREST) * lean
        yes, no = self.yes.astype(np.float64), (self.asked - self.yes).astype(np.float64)
        return np.asarray(np.log1p(tilt) @ yes + np.log1p(-tilt) @ no)


@dataclass(frozen=True, eq=False)
class Walk:
    """A sample of assignments, and what was counted on the way to it.

    Attributes:
      assignments: (CHAINS, C) the class of each query, where the chains stand.
      shares: (CHAINS,) where they stand in SHARES.
      probabilities: (C, C) how often each query had each class in the second half of the walk.
      share: The mean share in the second half of the walk.
    """

    assignments: Ints
    shares: Ints
    probabilities: Doubles
    share: float

    @property
    def best(self) -> Ints:
        """(C,) the assignment with the most expected pairs right: the Hungarian one of the probabilities."""
        from scipy.optimize import linear_sum_assignment

        return np.asarray(linear_sum_assignment(self.probabilities, maximize=True)[1], dtype=np.int64)


def anywhere(num_classes: int, rng: np.random.Generator) -> Walk:
    """Before any answer: all assignments are equally likely."""
    assignments = rng.permuted(np.tile(np.arange(num_classes), (CHAINS, 1)), axis=1)
    even = np.full((num_classes, num_classes), 1 / num_classes)
    return Walk(assignments, np.arange(CHAINS) % len(SHARES), even, float(SHARES.mean()))


def walked(start: Walk, answered: Answered, steps: int, rng: np.random.Generator) -> Walk:
    """A sample from the posterior: Metropolis steps that swap two queries' classes, all chains side by side.

    The walk warms up what it starts from, a little, and cools down; what it settles on is counted in its second half.
    """
    signs = np.where(answered.sets, 1.0, -1.0) * answered.sizes[:, None]
    by_cell = np.ascontiguousarray(signs.transpose(1, 2, 0))  # (C, C, d)
    everywhere = signs.mean(axis=2).sum(axis=1)
    num_classes, chains = len(by_cell), np.arange(CHAINS)
    assignments, shares = start.assignments.copy(), start.shares.copy()
    own = by_cell[np.arange(num_classes), assignments].sum(axis=1)  # (CHAINS, d) how the queries' own cells lean

    def likelihood(own: Doubles, share: Doubles) -> Doubles:
        return answered.log_likelihood(everywhere + share[..., None] * (own - everywhere))

    now = likelihood(own, SHARES[shares])
    counts, met = np.zeros((num_classes, num_classes)), []
    for step in range(steps):
        temperature = max(1.0, HOTTEST * (1 - 2 * step / steps))
        one = rng.integers(num_classes, size=CHAINS)
        other = (one + rng.integers(1, max(2, num_classes), size=CHAINS)) % num_classes
        a, b = assignments[chains, one], assignments[chains, other]
        moved = own + by_cell[one, b] - by_cell[one, a] + by_cell[other, a] - by_cell[other, b]
        then = likelihood(moved, SHARES[shares])
        taken = np.flatnonzero(np.log(rng.random(CHAINS)) < (then - now) / temperature)
        assignments[taken, one[taken]], assignments[taken, other[taken]] = b[taken], a[taken]
        own[taken], now[taken] = moved[taken], then[taken]
        if (step + 1) % STRIDE == 0:
            by_share = likelihood(own[:, None], np.broadcast_to(SHARES, (CHAINS, len(SHARES))))
            shares = (by_share / temperature + rng.gumbel(size=by_share.shape)).argmax(axis=1)
            now = by_share[chains, shares]
            if 2 * step >= steps:
                np.add.at(counts, (np.arange(num_classes), assignments), 1)
                met.append(SHARES[shares].mean())
    return Walk(assignments, shares, counts / (len(met) * CHAINS), float(np.mean(met)))


def next_sets(assignments: Ints, sizes: Doubles, count: int, worth: float, rng: np.random.Generator) -> Bools:
    """(count, C, C) sets whose share of yes the sampled assignments disagree about most, one after the other.

    A set is a sign for every cell. The assignments' shares of yes vary by the quadratic form of their covariance: signs
    of a random mixture of the centred assignments make it large, and one step of ascent, every sign by itself, larger.
    Of some such sets the one that makes it largest is taken, and the next one is about what its answer will leave in
    doubt. Cells that all assignments agree about are drawn by a fair coin.

    Args:
      sizes: (C,) the share of all records that each query has.
      worth: The precision (one over the variance) with which a question's answer will tell how far its set is yes.
    """
    num_classes = len(sizes)
    doubt = (np.eye(num_classes)[assignments] * sizes[:, None]).reshape(len(assignments), -1)
    doubt -= doubt.mean(axis=0)
    sets = []
    for _ in range(count):
        coins = rng.choice([-1.0, 1.0], (CANDIDATES, num_classes**2))
        signs = _signs(rng.normal(size=(CANDIDATES, len(doubt))) @ doubt, coins)
        signs = _signs(signs @ doubt.T @ doubt - (doubt**2).sum(axis=0) * signs, signs)
        answer = signs @ doubt.T
        best = (answer**2).sum(axis=1).argmax()
        sets.append(signs[best] > 0)
        doubt = _left(doubt, answer[best], worth)
    return np.array(sets).reshape(count, num_classes, num_classes)


def _left(doubt: Doubles, answer: Doubles, worth: float) -> Doubles:
    """A sample with the covariance that stays when `answer`, a sum of its columns, is known with that precision."""
    square = float(answer @ answer)
    shrunk = 1 - (1 + worth * square / len(doubt)) ** -0.5
    return np.asarray(doubt - np.outer(answer, answer @ doubt) * (shrunk / max(square, 1e-100)))


def _signs(values: Doubles, otherwise: Doubles) -> Doubles:
    """Those of the values, or others where a value is zero but for rounding."""
    return np.where(np.abs(values) < 1e-12, otherwise, np.where(values > 0, 1.0, -1.0))
