"""Confidence that has been rehearsed.

Mean field settles on one labelling of many that noise leaves possible, and is too sure of it when noise is loud. How
much too sure can be tried out, for free: draw labels from the stated probabilities and a release from those labels by
the known law, decode it, and see how often the stated confidence comes true. Where it promises too much, all
probabilities are tempered until it does not. They are never sharpened.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from recordwise.arrays import softmax
from recordwise.labels.facts import Facts
from recordwise.protocols.release import Evidence, Undecoded
from recordwise.protocols.release.purity import mix
from recordwise.randomness import seeded

REHEARSALS = 4
HOTTEST = 100.0

Marginals = Callable[[Sequence[Evidence], Facts], NDArray[np.float64]]  # (r, s, C) of r releases, each on its own


def rehearsed(
    release: Undecoded, known: Evidence, facts: Facts, posterior: NDArray[np.float64], decode: Marginals
) -> NDArray[np.float64]:
    """(s, C) the stated probabilities, tempered until rehearsals confirm their mean confidence.

    Deterministic: the rehearsals' randomness is seeded, and has nothing to do with the release's noise.
    """
    if known.records is None:
        return posterior
    rng = seeded(0, "rehearsal")
    purity = known.learned(posterior).purity
    drawn, heard = [], []
    for _ in range(REHEARSALS):
        labels = _draw(posterior, rng)
        shares = mix(np.eye(posterior.shape[1])[labels], purity)
        counts = rng.poisson(known.records[:, None] * shares).astype(np.float64)
        drawn.append(labels)
        heard.append(release.simulated(counts, rng).evidence(facts.query_shares, facts.num_records))
    stated = decode(heard, facts)
    right = float((stated.argmax(axis=2) == np.array(drawn)).mean())
    return tempered(posterior, _temperature(np.concatenate(stated), right))


def tempered(posterior: NDArray[np.float64], temperature: float) -> NDArray[np.float64]:
    return softmax(_logs(posterior) / temperature)


def _logs(posterior: NDArray[np.float64]) -> NDArray[np.float64]:
    return np.log(np.maximum(posterior, np.finfo(float).tiny))


def _draw(posterior: NDArray[np.float64], rng: np.random.Generator) -> NDArray[np.int64]:
    """One label per query, from its probabilities."""
    passed = posterior.cumsum(axis=1) < rng.random((len(posterior), 1))
    return np.asarray(np.minimum(passed.sum(axis=1), posterior.shape[1] - 1), dtype=np.int64)


def _temperature(stated: NDArray[np.float64], right: float) -> float:
    """The least temperature, from 1 up, at which the mean confidence is no more than the share that was right."""
    logs = _logs(stated)

    def confidence(temperature: float) -> float:
        return float(softmax(logs / temperature).max(axis=1).mean())

    low, high = 0.0, float(np.log(HOTTEST))
    if confidence(1.0) <= right:
        return 1.0
    for _ in range(20):
        middle = (low + high) / 2
        if confidence(float(np.exp(middle))) > right:
            low = middle
        else:
            high = middle
    return float(np.exp(high))
