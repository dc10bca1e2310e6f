"""The largest cell of each query, on its own: simple, and never wrong when the lead is large."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from recordwise.labels.facts import Facts
from recordwise.labels.labels import Labels
from recordwise.labels.soft import at, soft_labels
from recordwise.privacy.noise.distribution import distribution
from recordwise.privacy.noise.law import Law
from recordwise.protocols.release import Undecoded


def decode_argmax(release: Undecoded, facts: Facts) -> Labels:
    """Hard labels from single queries; the released class itself when there are no counts.

    Soft labels are those of `purity`: a projection of the noisy shares would be too sure of the largest. `leads`
    assumes nothing about the counts: had every table of them been equally likely, the label would be the largest true
    cell with this probability. Where there are no counts to judge by, it is the posterior of `purity`.
    """
    known = release.evidence(facts.query_shares, facts.num_records)
    posterior, tally = known.posterior(), release.tally
    hard, shares = release.scores().argmax(axis=1).astype(np.int64), soft_labels(release, known, posterior)
    return Labels(
        hard=hard,
        probabilities=shares,
        confidence=at(shares, hard),
        leads=at(posterior, hard) if tally is None else chance_of_leading(tally.estimate, hard, tally.law),
        decoder="argmax",
    )


def chance_of_leading(estimate: NDArray[np.float64], label: NDArray[np.int64], law: Law) -> NDArray[np.float64]:
    """(s,) P(estimate - noise is largest at `label`) for independent noise of this law in each cell.

    The law is read between the integers, so ties have no weight.
    """
    noise, below = distribution(law)
    steps = np.diff(below) / 2
    weight = np.append(steps, 0.0) + np.append(0.0, steps)
    lead = at(estimate, label)[:, None] - estimate
    chance = np.ones((len(estimate), len(noise)))
    for other in range(estimate.shape[1]):
        # label leads other when its noise exceeds other's by less than the noisy lead
        beaten = 1 - np.interp(noise[None, :] - lead[:, other, None], noise, below)
        chance *= np.where((label == other)[:, None], 1.0, beaten)
    return np.asarray(np.clip(chance @ weight, 0.0, 1.0))
