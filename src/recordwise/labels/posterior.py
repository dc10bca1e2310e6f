"""Each query's label by Bayes' rule under the known noise: the same labels as argmax, with honest soft labels."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from recordwise.labels.facts import Facts
from recordwise.labels.labels import Labels
from recordwise.labels.soft import at, soft_labels
from recordwise.protocols.release import Evidence, Undecoded


def decode_posterior(release: Undecoded, facts: Facts) -> Labels:
    """Labels of single queries under the model of `purity`, in which all classes are equally likely before."""
    known = release.evidence(facts.query_shares, facts.num_records)
    return labels_from(release, known, known.posterior(), "posterior")


def labels_from(release: Undecoded, known: Evidence, posterior: NDArray[np.float64], decoder: str) -> Labels:
    """The likeliest label of each query, its probability, and soft labels, from (s, C) probabilities of the labels."""
    hard, shares = posterior.argmax(axis=1).astype(np.int64), soft_labels(release, known, posterior)
    return Labels(
        hard=hard,
        probabilities=shares,
        confidence=at(shares, hard),
        leads=posterior.max(axis=1),
        decoder=decoder,
    )
