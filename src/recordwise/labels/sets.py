"""Several labels per record: for each query, the labels that more than half of its records carry.

A cell is read on its own: any share of the query's records may carry the label, and the noise's law says how likely the
released count then is. Each label is a field of its own on the public graph, as in `field`, with two states: more than
half, or not; what a neighbour says is how much likelier than expected it is to carry the label. Before anything is seen
a label is expected at r/C of the queries, and at no more than half of them.
"""

from __future__ import annotations

import numpy as np

from recordwise.labels.facts import Facts
from recordwise.labels.field import COUPLING, STEPS, critical_coupling
from recordwise.labels.labels import Labels
from recordwise.protocols.release import Tally
from recordwise.protocols.release.purity import cell_log_likelihood, log_mean_exp

SHARES = 40  # of a query's records, tried for each cell


def decode_sets(tally: Tally, facts: Facts) -> Labels:
    """At most r labels per query.

    Where the number of records is not public, every record is taken to carry r labels.
    """
    num_labels = tally.ballot.labels_per_record
    records = tally.votes_cast(facts.num_records) * facts.query_shares
    share = (np.arange(SHARES) + 0.5) / SHARES
    expected = records[:, None, None]
    likelihood = cell_log_likelihood(tally.law, tally.estimate[:, :, None] - expected * share, expected)
    common = share > 0.5
    evidence = log_mean_exp(likelihood[:, :, common]) - log_mean_exp(likelihood[:, :, ~common])

    density = min(0.5, num_labels / tally.ballot.num_classes)
    prior = np.log(density / (1 - density))
    strength = COUPLING * critical_coupling(2) * facts.affinity
    marginals = np.full(tally.estimate.shape, density)
    for step in range(STEPS):
        grown = min(1.0, 2 * (step + 1) / STEPS)
        log_odds = evidence + prior + grown * (strength @ (2 * (marginals - density)))
        marginals = (marginals + 1 / (1 + np.exp(-np.clip(log_odds, -500, 500)))) / 2

    rank = np.argsort(np.argsort(-marginals, axis=1, kind="stable"), axis=1, kind="stable")
    sets = (marginals > 0.5) & (rank < num_labels)
    sure = np.where(sets, marginals, 1 - marginals).prod(axis=1)
    return Labels(
        hard=marginals.argmax(axis=1).astype(np.int64),
        probabilities=marginals,
        confidence=sure,
        leads=sure,
        decoder="sets",
        sets=sets,
    )
