"""The largest cell of each query, on its own: simple, and never wrong when the lead is large."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from recordwise.labels.facts import Facts
from recordwise.labels.labels import Labels
from recordwise.labels.soft import project
from recordwise.privacy.noise.distribution import distribution
from recordwise.privacy.noise.law import Law
from recordwise.protocols.release import Undecoded
from recordwise.protocols.release.purity import mix


def decode_argmax(release: Undecoded, facts: Facts) -> Labels:
    """Hard labels from single queries; the released class itself when there are no counts.

    The confidence assumes nothing about the counts: had every table of counts been equally likely, the label would be
    the largest true cell with this probability. Where there are no counts to judge by, it is the posterior of
    `purity`.
    """
    known = release.evidence(facts.query_shares, facts.num_records)
    hard = release.scores().argmax(axis=1).astype(np.int64)
    tally = release.tally
    if tally is None:
        posterior = known.posterior()
        return Labels(
            hard=hard, probabilities=mix(posterior, known.purity), confidence=_at(posterior, hard), decoder="argmax"
        )
    assert known.records is not None
    return Labels(
        hard=hard,
        probabilities=project(tally.estimate / np.maximum(known.records, 1.0)[:, None]),
        confidence=chance_of_leading(tally.estimate, hard, tally.law),
        decoder="argmax",
    )


def chance_of_leading(estimate: NDArray[np.float64], label: NDArray[np.int64], law: Law) -> NDArray[np.float64]:
    """(s,) P(estimate - noise is largest at `label`) for independent noise of this law in each cell.

    The law is read between the integers, so ties have no weight.
    """
    noise, below = distribution(law)
    steps = np.diff(below) / 2
    weight = np.append(steps, 0.0) + np.append(0.0, steps)
    lead = _at(estimate, label)[:, None] - estimate
    chance = np.ones((len(estimate), len(noise)))
    for other in range(estimate.shape[1]):
        # label leads other when its noise exceeds other's by less than the noisy lead
        beaten = 1 - np.interp(noise[None, :] - lead[:, other, None], noise, below)
        chance *= np.where((label == other)[:, None], 1.0, beaten)
    return np.asarray(np.clip(chance @ weight, 0.0, 1.0))


def _at(rows: NDArray[np.float64], column: NDArray[np.int64]) -> NDArray[np.float64]:
    return np.asarray(np.take_along_axis(rows, column[:, None], axis=1)[:, 0])
