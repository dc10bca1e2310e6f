"""The model of a query that every Bayesian decoder shares: one class owns it, the others share what is left.

A query with label y holds about m records; a share p of them (its *purity*, every value from 1/C to 1 taken to be
equally likely) has class y and the rest is spread evenly over the other classes. m is the query's share of the pool
times the number of records. What is released about the query then has a known law, which turns a release into the
likelihood of each label. A larger count never makes its own class less likely than another, so without neighbours the
likeliest label is the largest cell.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property, singledispatch
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from recordwise.arrays import Doubles
from recordwise.errors import InvalidInput
from recordwise.labels.bounds import chance_of_the_best, chance_of_the_matching
from recordwise.labels.facts import Facts
from recordwise.privacy.noise.law import Law
from recordwise.protocols.release import Choices, Matched, Tally, Undecoded

Real = TypeVar("Real", bound=np.floating)

PURITIES = 9
LEARNING_STEPS = 20
BETWEEN_EQUALS = 1e-9  # of labels that are exactly as likely, as under Laplace noise they can be, the larger cell's
STRENGTHS = np.geomspace(0.25, 16, 7)  # records per query, in scales, that are tried when their number is not known


@dataclass(frozen=True, kw_only=True, eq=False)
class Evidence:
    """What a release says about each query on its own.

    Attributes:
      by_purity: (s, C, R) log-likelihood of the release, for each label and purity that the query may have.
      purities: (R,) the purities tried.
      records: (s,) about how many records voted for the query; None when that is not known.
      class_shares: (C,) about how common each class is among the records.
      class_variance: The variance of `class_shares` that is due to noise.
    """

    by_purity: NDArray[np.float64]
    purities: NDArray[np.float64]
    records: NDArray[np.float64] | None
    class_shares: NDArray[np.float64]
    class_variance: float

    @cached_property
    def log_likelihood(self) -> NDArray[np.float64]:
        """(s, C) of the release, for each label the query may have, purity averaged out."""
        return log_mean_exp(self.by_purity)

    @cached_property
    def purity(self) -> NDArray[np.float64]:
        """(s, C) the expected purity, for each label the query may have."""
        return np.asarray(softmax(self.by_purity) @ self.purities)

    def learned(self, posterior: NDArray[np.float64]) -> Evidence:
        """The same evidence, once it is learned from all queries together how common each purity is.

        Expectation maximisation, with a weight of one query per purity for "equally common".
        """
        log_common = np.zeros(len(self.purities))  # log of how common, beside the average purity
        for _ in range(LEARNING_STEPS):
            counted = np.einsum("scr,sc->r", softmax(self.by_purity + log_common), posterior)
            log_common = np.log((counted + 1) / (counted + 1).mean())
        return replace(self, by_purity=self.by_purity + log_common)

    def posterior(self) -> NDArray[np.float64]:
        """(s, C) probability of each label when all were equally likely before."""
        return softmax(self.log_likelihood)


def mix(posterior: NDArray[np.float64], purity: NDArray[np.float64]) -> NDArray[np.float64]:
    """(s, C) expected class shares of each query's records, given each label's probability and purity."""
    own = posterior * purity
    rest = posterior - own
    others = max(1, posterior.shape[1] - 1)
    return np.asarray(own + (rest.sum(axis=1, keepdims=True) - rest) / others)


def log_mean_exp(logs: NDArray[np.float64]) -> NDArray[np.float64]:
    """Log of the mean of the exponentials along the last axis."""
    top = logs.max(axis=-1)
    return np.asarray(top + np.log(np.exp(logs - top[..., None]).mean(axis=-1)))


def softmax(logits: NDArray[Real]) -> NDArray[Real]:
    """Exponentials, scaled to sum to one along the last axis, in the precision of the logits."""
    # With the short axis first: numpy reduces over it several times faster than over a short last one.
    weights = np.array(np.moveaxis(logits, -1, 0), order="C")
    weights -= weights.max(axis=0)
    np.exp(weights, out=weights)
    weights /= weights.sum(axis=0)
    return np.ascontiguousarray(np.moveaxis(weights, 0, -1))


def tried_purities(num_classes: int) -> NDArray[np.float64]:
    return np.linspace(1 / num_classes, 1, PURITIES + 1)[1:]


def count_variance(records: NDArray[np.float64]) -> NDArray[np.float64]:
    """The variance of a count itself: binomial, so at most a quarter of the records, and a whole number."""
    return np.asarray(records / 4 + 1 / 12)


def cell_log_likelihood(law: Law, residual: NDArray[np.float64], records: NDArray[np.float64]) -> NDArray[np.float64]:
    """Log-likelihood of cells that are off by `residual`, up to a constant for each number of records.

    Two errors add up, the noise and the chance in the counts. The larger one lends the sum its shape: the noise's law,
    or a normal.
    """
    chance = count_variance(records)
    scaled = residual / np.sqrt(law.std**2 + chance)
    return np.where(law.std**2 >= chance, law.log_likelihood(scaled * law.std), -(scaled**2) / 2)


def votes_cast(tally: Tally, facts: Facts) -> float:
    """How many votes the tally counts: k for each record, or, where records are not counted in public, its noisy sum.

    The sum is held at half its own noise at least: it only sets the size of what is looked for.
    """
    if facts.num_records is not None:
        return float(facts.num_records * tally.ballot.votes_per_record)
    noise = tally.law.std * np.sqrt(tally.estimate.size)
    return max(float(tally.estimate.sum()) / tally.ballot.labels_per_record, 0.5 * float(noise), 1.0)


@singledispatch
def evidence(release: Undecoded, facts: Facts) -> Evidence:
    """What the release says about each query on its own."""
    raise InvalidInput(f"release must be a Tally or Choices, got {type(release).__name__}")


@evidence.register
def _(tally: Tally, facts: Facts) -> Evidence:
    total = votes_cast(tally, facts)
    num_queries, num_classes = tally.estimate.shape
    records = total * facts.query_shares
    purity = tried_purities(num_classes)
    expected = records[:, None, None]
    seen = tally.estimate[:, :, None]
    as_own = cell_log_likelihood(tally.law, seen - expected * purity, expected)
    as_other = cell_log_likelihood(tally.law, seen - expected * (1 - purity) / max(1, num_classes - 1), expected)
    larger = BETWEEN_EQUALS * tally.estimate / np.sqrt(tally.law.std**2 + count_variance(records))[:, None]
    return Evidence(
        by_purity=as_other.sum(axis=1, keepdims=True) + as_own - as_other + larger[:, :, None],
        purities=purity,
        records=records,
        class_shares=tally.estimate.sum(axis=0) / total,
        class_variance=num_queries * (tally.law.std / total) ** 2,
    )


@evidence.register
def _(choices: Choices, facts: Facts) -> Evidence:
    num_classes, (records, purities, lead) = choices.ballot.num_classes, _leads(choices, facts)
    right = chance_of_the_best(lead, num_classes)
    wrong = (1 - right) / max(1, num_classes - 1)
    tiny = np.finfo(float).tiny
    return _of_choices(choices, facts, np.log(right + tiny), np.log(wrong + tiny), purities, records)


@evidence.register
def _(matched: Matched, facts: Facts) -> Evidence:
    """The probability of the whole matching, shared out evenly: every query that is wrong costs its own lead.

    All queries' likelihoods then multiply to the exact one where queries are equally large and pure.
    """
    num_classes, (records, purities, lead) = matched.ballot.num_classes, _leads(matched, facts)
    right = np.log(chance_of_the_matching(lead, num_classes)) / num_classes
    return _of_choices(matched, facts, right, right - np.maximum(lead, BETWEEN_EQUALS), purities, records)


def _leads(choices: Choices, facts: Facts) -> tuple[Doubles | None, Doubles, Doubles]:
    """(s,) the queries' records, (R,) purities tried, and (s, R) the lead of a query's class with each, in scales."""
    num_classes, shares, scale = choices.ballot.num_classes, facts.query_shares, float(choices.scale)
    if facts.num_records is not None:
        records = facts.num_records * choices.ballot.votes_per_record * shares
        strengths = (records / scale)[:, None]
    else:
        records = None
        strengths = (shares * len(shares))[:, None] * STRENGTHS
    purity = tried_purities(num_classes)
    lead = strengths[:, :, None] * (purity - (1 - purity) / max(1, num_classes - 1))  # over each rival
    return records, np.tile(purity, strengths.shape[1]), lead.reshape(len(shares), -1)


def _of_choices(
    choices: Choices, facts: Facts, right: Doubles, wrong: Doubles, purities: Doubles, records: Doubles | None
) -> Evidence:
    """Evidence from (s, R) log-likelihoods of what was chosen: if it is the query's label, and if another one is."""
    num_classes, shares = choices.ballot.num_classes, facts.query_shares
    chosen = np.eye(num_classes, dtype=bool)[choices.chosen]
    return Evidence(
        by_purity=np.where(chosen[:, :, None], right[:, None, :], wrong[:, None, :]),
        purities=purities,
        records=records,
        class_shares=shares @ chosen,
        class_variance=float((shares**2).sum()) * (1 - 1 / num_classes) / num_classes,
    )
