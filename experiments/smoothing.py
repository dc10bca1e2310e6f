"""Smoothing: noisy counts averaged over the queries' public neighbour graph. The field decoder is never worse.

Every class's shares over the queries are taken to be smooth on the graph (a Gaussian prior with precision
ROUGHNESS · ((1 + LEASH)·1 - affinity) around 1/C), and what is observed is records·share plus noise of known variance.
The smoothed shares are the posterior mean, one linear system for all classes:

    (D·records + Q) (f - 1/C) = D (counts - records/C),      D = diag(records / (noise variance + records/4)).

The weight of the neighbours thus follows from the known noise and public sizes: it vanishes for exact counts.
"""

from __future__ import annotations

import numpy as np

from recordwise.errors import InvalidInput
from recordwise.labels.argmax import chance_of_leading
from recordwise.labels.facts import Facts
from recordwise.labels.labels import Labels
from recordwise.labels.soft import project
from recordwise.privacy.noise.normal import Normal
from recordwise.protocols.release import Undecoded
from recordwise.protocols.release.purity import count_variance, mix

ROUGHNESS = 24.0  # one over the variance of a class share given the neighbours' shares
LEASH = 0.1  # pulls towards equal shares what no count holds in place


def decode_smoothing(release: Undecoded, facts: Facts) -> Labels:
    """Hard labels from smoothed counts, or from smoothed choices, which are counted as one vote each."""
    known = release.evidence(facts.query_shares, facts.num_records)
    num_queries, num_classes = known.log_likelihood.shape
    tally = release.tally
    if tally is None:
        precision = np.ones(num_queries)
        pull = mix(known.posterior(), known.purity) - 1 / num_classes
    else:
        if known.records is None:
            raise InvalidInput("smoothing a tally needs the number of records")
        records, variance = known.records, tally.law.std**2 + count_variance(known.records)
        precision = records**2 / variance
        pull = (records / variance)[:, None] * (tally.estimate - records[:, None] / num_classes)
    prior = ROUGHNESS * ((1 + LEASH) * np.eye(num_queries) - facts.affinity)
    covariance = np.linalg.inv(np.diag(precision) + prior)
    shares = 1 / num_classes + covariance @ pull
    hard = shares.argmax(axis=1).astype(np.int64)
    std = np.sqrt(np.diag(covariance))[:, None]
    return Labels(
        hard=hard,
        probabilities=project(shares),
        confidence=project(shares).max(axis=1),
        leads=chance_of_leading(shares / std, hard, Normal(1.0)),
        decoder="smoothing",
    )
