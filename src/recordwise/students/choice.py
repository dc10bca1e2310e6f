"""Choices made from the release itself: whatever predicts the cells of held-out queries best.

Queries are held out in folds. Everything is fitted without their cells, the decoder's opinion included, and then asked
for them. Nothing private is looked at, so it costs nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array, hstack

from recordwise.arrays import Ints
from recordwise.students.parts import blend, discriminant, logits_of, mixed, network, regression
from recordwise.students.table import Table, row_log_likelihoods, softmax

Doubles = NDArray[np.float64]
Singles = NDArray[np.float32]

FOLDS = 4
PENALTIES = (0.15, 0.5, 1.5)  # of a regression: on squared coefficients, per dimension of unit variance
NETWORK_PENALTIES = (0.3, 3.0)  # on squared weights
TRIAL_SAMPLES = 12_000  # of the pool, for choices among candidates
CLEARLY = 10.0  # nats, and one standard error, by which a further part must predict held-out rows better

Hidden = Callable[[int], list[Table]]  # the tables without the cells of one fold


@dataclass(frozen=True, kw_only=True, eq=False)
class Choice:
    """What predicted held-out rows best.

    Attributes:
      weights: Of the discriminant and, if chosen, of the regression.
      bias: (C,) added to their logits.
      penalty: Of the regression; None where the discriminant alone was chosen.
      network_penalty: Of the network on top; None where there is none.
      explained: Nats per query beyond equal class shares in all queries.
    """

    weights: Doubles
    bias: Doubles
    penalty: float | None
    network_penalty: float | None
    explained: float


def choose(
    vectors: Singles,
    owners: Sequence[Ints],
    tables: Sequence[Table],
    folds: Sequence[Ints],
    without: Hidden,
    *,
    hidden: int | None,
    rng: np.random.Generator,
) -> Choice:
    """The parts and weights under which held-out rows are likeliest.

    Args:
      owners: For each table (m,) the query of each sample.
      tables: With all cells.
      folds: For each table (s,) the fold in which each query is held out.
      without: The tables as they are when a fold's cells were never seen.
      hidden: Units of a network to try on top of the linear parts; None tries none.
    """
    some = _trial_samples(owners, len(vectors), rng)
    trial = vectors[some]
    fitted = [[table.of_samples(some) for table in without(fold)] for fold in range(FOLDS)]
    # Different releases hold the same sample out in different folds: each has its own copy of the samples.
    judges = _stacked([table.of_samples(some) for table in tables])
    held_out = [
        np.concatenate([(owner[some] >= 0) & (numbers[np.maximum(owner[some], 0)] == fold)
                        for owner, numbers in zip(owners, folds, strict=True)])
        for fold in range(FOLDS)
    ]  # fmt: skip

    def asked_of(by_fold: Sequence[Singles]) -> Singles:
        """Each sample's logits by the fold that did not see its query."""
        found = np.zeros((len(some) * len(owners), by_fold[0].shape[1]), dtype=np.float32)
        for logits, out in zip(by_fold, held_out, strict=True):
            found[out] = np.tile(logits, (len(owners), 1))[out]
        return found

    def judged(every: Sequence[Singles]) -> tuple[Doubles, Doubles, Doubles]:
        weights, bias = blend(every, judges)
        return weights, bias, row_log_likelihoods(softmax(mixed(every, weights, bias)), judges)

    decoded = [logits_of(trial, discriminant(trial, one)) for one in fitted]
    parts, penalty = [decoded], None
    weights, bias, score = judged([asked_of(decoded)])
    tried = []
    starts: list[Doubles | None] = [None] * FOLDS
    for strength in sorted(PENALTIES, reverse=True):
        found = [regression(trial, one, strength, start) for one, start in zip(fitted, starts, strict=True)]
        starts = list(found)
        logits = [logits_of(trial, one) for one in found]
        tried.append((strength, logits, *judged([asked_of(decoded), asked_of(logits)])))
    best = max(tried, key=lambda one: float(one[-1].sum()))
    if _clearly(best[-1] - score):
        penalty, logits, weights, bias, score = best
        parts = [decoded, logits]

    network_penalty = None
    if hidden is not None:
        base = [mixed([part[fold] for part in parts], weights, bias) for fold in range(FOLDS)]
        for strength in NETWORK_PENALTIES:
            nets = [
                one + network(trial, one, table, hidden=hidden, penalty=strength, rng=rng).logits(trial)
                for one, table in zip(base, fitted, strict=True)
            ]
            found_score = row_log_likelihoods(softmax(asked_of(nets)), judges)
            if _clearly(found_score - score):
                network_penalty, score = strength, found_score
    common = np.concatenate([_common(table) for table in judges])
    return Choice(
        weights=weights,
        bias=bias,
        penalty=penalty,
        network_penalty=network_penalty,
        explained=float((score - common).mean()),
    )


def _clearly(gain: Doubles) -> bool:
    return bool(gain.sum() > max(CLEARLY, float(gain.std()) * np.sqrt(len(gain))))


def _common(table: Table) -> Doubles:
    """The counted rows' log-likelihoods when all queries have the same class shares."""
    totals = np.maximum((table.counted[:, None] * table.cells).sum(axis=0), 1e-9)
    fit, _ = table.log_likelihood(np.tile(totals / totals.sum(), (len(table.cells), 1)))
    return np.asarray(fit[table.counted > 0])


def _stacked(tables: Sequence[Table]) -> list[Table]:
    """Tables over as many copies of the samples as there are tables, each with its own copy."""
    width = tables[0].mean.shape[1]
    result = []
    for which, table in enumerate(tables):
        blocks = [table.mean if i == which else csr_array((len(table.cells), width)) for i in range(len(tables))]
        result.append(replace(table, mean=csr_array(hstack(blocks, format="csr")).astype(np.float32)))
    return result


def _trial_samples(owners: Sequence[Ints], num_samples: int, rng: np.random.Generator) -> Ints:
    """Some of the pool, the same share of every query and at least a few samples of each."""
    if num_samples <= TRIAL_SAMPLES:
        return np.arange(num_samples)
    order = rng.permutation(num_samples)
    kept = np.zeros(num_samples, dtype=bool)
    kept[order[:TRIAL_SAMPLES]] = True
    for every in owners:  # the first few of every query, in random order
        owner = every[order]
        by_query = np.argsort(owner, kind="stable")
        ranked = owner[by_query]
        first = np.searchsorted(ranked, ranked, side="left")
        rank = np.empty(num_samples, dtype=np.int64)
        rank[by_query] = np.arange(num_samples) - first
        kept[order[(rank < 5) & (owner >= 0)]] = True
    return np.flatnonzero(kept)
