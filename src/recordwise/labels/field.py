"""All labels together: queries that lie between the same pool samples usually share a label.

A Markov random field on the public graph (a Potts model). The prior of a labelling z is

    exp( J · sum over pairs of affinity[i, j]·[z_i = z_j]  +  sum over queries of h[z_i] ),

the likelihood of each label is that of `purity`, under the known law of the noise. Mean field finds its marginals,

    posterior[i, y]  ∝  likelihood[i, y] · exp( h[y] + J · sum over j of affinity[i, j]·posterior[j, y] ),

iterated from "no idea" while the coupling grows to J, which keeps noise from freezing in before neighbours have spoken.

Nothing is tuned on private data. J is in units of the coupling at which such a field would order by itself. h holds
the classes' shares near equal as far as the release itself leaves that possible, or near public shares when given.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from recordwise.arrays import softmax
from recordwise.errors import InvalidInput
from recordwise.labels.facts import Facts
from recordwise.labels.labels import Labels
from recordwise.labels.posterior import labels_from
from recordwise.labels.rehearsal import rehearsed
from recordwise.protocols.release import Evidence, Undecoded

COUPLING = 1.5  # in units of the critical coupling
STEPS = 60  # of which the first half raises the coupling
BALANCE_STEP = 0.3
MOST_SURPLUS = 10.0  # a class far too common is pushed down in steps
GIVE = 0.1  # shares may always differ a little from what is expected


def decode_field(release: Undecoded, facts: Facts) -> Labels:
    """Labels of all queries jointly."""
    known = release.evidence(facts.query_shares, facts.num_records)
    posterior = rehearsed(release, known, facts, field_marginals(known, facts), each_field)
    return labels_from(release, known, posterior, "field")


def critical_coupling(num_classes: int) -> float:
    """The coupling at which a mean field of C classes orders without any data (Wu, The Potts model, 1982)."""
    others = num_classes - 1
    return 2.0 if others <= 1 else 2 * others * math.log(others) / (others - 1)


def field_marginals(known: Evidence, facts: Facts, *, coupling: float = COUPLING) -> NDArray[np.float64]:
    """(s, C) probability of each label of each query."""
    return np.asarray(each_field([known], facts, coupling=coupling)[0])


def each_field(several: Sequence[Evidence], facts: Facts, *, coupling: float = COUPLING) -> NDArray[np.float64]:
    """(r, s, C) the same for r releases about the same queries, to the last bit; together they take less time."""
    from scipy.sparse import block_diag, csr_array

    likelihood = np.stack([known.log_likelihood for known in several])
    num_releases, num_queries, num_classes = likelihood.shape
    strength = csr_array(coupling * critical_coupling(num_classes) * facts.affinity)  # few queries are neighbours
    if num_queries <= num_classes:
        strength = 0 * strength  # one query per class, or less: neighbours have different labels
    if num_releases > 1:
        strength = block_diag([strength] * num_releases, format="csr")
    expected, give = map(np.array, zip(*(_expected_shares(known, facts) for known in several), strict=True))
    damped = 1 + BALANCE_STEP * give[:, None]
    tilt = np.zeros((num_releases, num_classes))
    posterior = np.full(likelihood.shape, 1 / num_classes)
    for step in range(STEPS):
        grown = min(1.0, 2 * (step + 1) / STEPS)
        neighbours = (strength @ posterior.reshape(-1, num_classes)).reshape(likelihood.shape)
        posterior = (posterior + softmax(likelihood + tilt[:, None] + grown * neighbours)) / 2
        shares = facts.query_shares @ posterior
        lacking = np.maximum(1 - shares / expected, -MOST_SURPLUS)
        tilt = (tilt + BALANCE_STEP * lacking) / damped
        tilt -= np.add.reduce(tilt, axis=1, keepdims=True) / num_classes
    return posterior


def _expected_shares(known: Evidence, facts: Facts) -> tuple[NDArray[np.float64], float]:
    """The class shares to expect, and how much they give.

    Public shares when there are any. Else equal shares, with as much variance around them as the release shows beyond
    its noise: a release that is too noisy to contradict equal shares is read as if they were, one that clearly does
    is left alone. Either way they give more the less noise there is beside the grain of the queries, each of which
    has one label: exact counts need no such help.
    """
    num_queries, num_classes = known.log_likelihood.shape
    even = 1 / num_classes
    grain = float((facts.query_shares**2).sum()) * even * (1 - even)
    give = GIVE * (1 + grain / max(known.class_variance, np.finfo(float).tiny))
    if facts.class_shares is not None:
        shares = np.asarray(facts.class_shares, dtype=np.float64)
        if len(shares) != num_classes:
            raise InvalidInput(f"class_shares must have {num_classes} classes, got {len(shares)}")
        return shares, give
    seen = known.class_shares
    variance = ((seen - seen.mean()) ** 2).sum() / max(1, num_classes - 1) - known.class_variance
    return np.full(num_classes, even), give + num_queries * num_classes * max(0.0, float(variance))
