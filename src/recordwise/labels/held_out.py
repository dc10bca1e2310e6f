"""Joint decoding that leaves some queries' cells unread: their labels follow from their neighbours alone.

What is chosen by how well it predicts held-out cells must not have seen them, and neither may the decoder behind it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from recordwise.arrays import Bools, Floats
from recordwise.labels.decode import decode
from recordwise.labels.facts import Facts
from recordwise.labels.field import each_field, field_marginals
from recordwise.labels.labels import Labels
from recordwise.labels.posterior import labels_from
from recordwise.labels.rehearsal import rehearsed
from recordwise.labels.shares import num_voters
from recordwise.labels.soft import at
from recordwise.protocols.release import Evidence, Tally
from recordwise.protocols.release.purity import mix


def decode_seen(tally: Tally, rates: Floats, graph: Floats | None, seen: Bools) -> Labels:
    """Labels of all queries by the joint decoder, from the cells of the queries that are `seen`.

    Guarantees:
      - the cells of other queries change nothing;
      - where all are seen it is `decode` with the given rates.

    Args:
      rates: (s,) how many votes to expect at each query.
      graph: (s, s) from `query_graph`; None leaves the neighbours out.
    """
    rates = np.asarray(rates, dtype=np.float64)
    num_records = num_voters(rates, tally.ballot)
    if seen.all():
        return decode(tally, sizes=rates, graph=graph, num_records=num_records)
    facts = Facts(sizes=rates, graph=graph, num_records=num_records)
    # Unseen cells are filled with what the seen ones lead to expect, so that sums over all cells stay what they are.
    shares = np.maximum(tally.estimate[seen].sum(axis=0), 0.0) + 1e-9
    filled = np.where(seen[:, None], tally.estimate, rates[:, None] * shares / shares.sum())
    tally = replace(tally, estimate=filled)

    def hidden(known: Evidence) -> Evidence:
        return replace(known, by_purity=np.where(seen[:, None, None], known.by_purity, 0.0))

    def marginals(several: Sequence[Evidence], facts: Facts) -> NDArray[np.float64]:
        return each_field([hidden(known) for known in several], facts)

    known = hidden(tally.evidence(facts.query_shares, facts.num_records))
    posterior = rehearsed(tally, known, facts, field_marginals(known, facts), marginals)
    labels = labels_from(tally, known, posterior, "field")
    soft = np.where(seen[:, None], labels.probabilities, mix(posterior, known.learned(posterior).purity))
    return replace(labels, probabilities=soft, confidence=at(soft, labels.hard))
