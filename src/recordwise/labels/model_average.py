"""As many queries as classes, when nobody knows whether the clusters found the classes.

If they did, every class has its own query and a joint assignment is right; if some class has two clusters and another
none, it is wrong. Both stories predict the release, and the release says which of them predicts it better: labels are
averaged over the two by Bayes' rule. The second story is the `field` without neighbours: with one query per class,
neighbours have different labels.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from recordwise.labels.assignment import all_assignments
from recordwise.labels.facts import Facts
from recordwise.labels.field import field_marginals
from recordwise.labels.labels import Labels
from recordwise.labels.posterior import labels_from
from recordwise.protocols.release import Evidence, Undecoded

ONE_EACH = 0.1  # the probability, before the release is seen, that the clusters are the classes


def decode_model_average(release: Undecoded, facts: Facts) -> Labels:
    """Labels that use every class once as far as the release supports that; needs s = C."""
    known = release.evidence(facts.query_shares, facts.num_records)
    return labels_from(release, known, average_marginals(known, facts), "model-average")


def average_marginals(known: Evidence, facts: Facts) -> NDArray[np.float64]:
    """(C, C) probability of each label of each query."""
    num_classes = len(known.log_likelihood)
    one_each, log_permanent = all_assignments(known.log_likelihood)
    if_one_each = log_permanent - math.lgamma(num_classes + 1)
    if_any = np.logaddexp.reduce(known.log_likelihood, axis=1).sum() - num_classes * math.log(num_classes)
    prior_odds = (1 - ONE_EACH) / ONE_EACH
    weight = 1 / (1 + prior_odds * math.exp(min(700.0, if_any - if_one_each)))
    return np.asarray(weight * one_each + (1 - weight) * field_marginals(known, facts))
