"""Choices made from the release itself: whatever predicts the cells of held-out queries best.

Queries are held out in folds. Everything is fitted without their cells, the decoder's opinion included, and then asked
for them. Nothing private is looked at, so it costs nothing.

How far the chosen student is believed within queries is found the same way, with neighbours held out together.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
from scipy.sparse import csr_array, hstack

from recordwise.arrays import Bools, Doubles, Ints, Singles, softmax
from recordwise.progress import done, part
from recordwise.students.parts import View, blend, common, discriminant, labelled, logits_of, network, regression
from recordwise.students.table import CountTable, row_log_likelihoods
from recordwise.students.within import believable, folds_of, strength_of

FOLDS = 4
MISSED = 2.0  # queries of each class: so much less than the student do the parts know that miss a fold
PENALTIES = (0.15, 0.5, 1.5)  # of a regression: on squared coefficients, per dimension of unit variance
NETWORK_PENALTIES = (0.3, 3.0)  # on squared weights
NETWORK_SHARES = (0.0, 0.25, 0.5, 0.75, 1.0)  # of its logits
NETWORK_QUERIES, PER_CLASS = 50, 10  # below which no network is tried: so few rows do not tell a curve from chance
TRIAL_SAMPLES = 12_000  # of the pool, for choices among candidates
CLEARLY = 10.0  # nats, and one standard error, by which the table's part must predict held-out rows better
NETWORK_CLEARLY = 3.0  # the same of a network, which only many queries let in

Without = Callable[[Sequence[Ints], int], list[CountTable]]  # the tables without the cells of one fold


@dataclass(frozen=True, kw_only=True, eq=False)
class Choice:
    """What predicted held-out rows best.

    Attributes:
      weights: Of the discriminant, of the regression on labels and, if chosen, of the one that explains the table.
      bias: (C,) added to their logits.
      penalty: Of the regression that explains the table; None where it was left out.
      network_penalty: Of the network on top; None where there is none.
      network_share: What of the network's logits is added.
      strength: As `strength_of` finds it.
      explained: Nats per query beyond equal class shares in all queries, at the weights that suit held-out rows.
    """

    weights: Doubles
    bias: Doubles
    penalty: float | None
    network_penalty: float | None
    network_share: float
    strength: float
    explained: float


@dataclass(frozen=True, kw_only=True, eq=False)
class Material:
    """What choices are made with.

    Attributes:
      vectors: (m, dim) the pool.
      owners: For each table (m,) the query of each sample.
      tables: With all cells.
      without: The tables as they are when a fold's cells were never seen, given every query's fold.
      hidden: Units of a network to try on top of the linear parts; None tries none.
    """

    vectors: Singles
    owners: Sequence[Ints]
    tables: Sequence[CountTable]
    without: Without
    hidden: int | None

    @property
    def network_units(self) -> int | None:
        """Of the network that is tried; None where queries are few."""
        queries, classes = sum(len(table.cells) for table in self.tables), self.tables[0].cells.shape[1]
        return self.hidden if queries >= max(NETWORK_QUERIES, PER_CLASS * classes) else None


def choose(material: Material, *, rng: np.random.Generator) -> Choice:
    """The parts and weights under which held-out rows are likeliest."""
    folds = [rng.permutation(len(table.cells)) % FOLDS for table in material.tables]
    hidden = material.network_units
    linear = 1.0 if hidden is None else 0.5  # of the work, about
    with part(0.0, 0.2 * linear):
        trial = _Trial.of(material, folds, rng)
    decoded = trial.decoded()
    parts, penalty = decoded, None
    weights, bias, score = trial.judged(parts)
    with part(0.2 * linear, linear):
        tried = [(weight, logits, trial.judged([*decoded, logits])) for weight, logits in _regressions(trial)]
    weight, logits, blended = max(tried, key=lambda one: float(one[2][2].sum()))
    if _clearly(blended[2] - score, CLEARLY):
        penalty, parts, (weights, bias, score) = weight, [*decoded, logits], blended
    else:  # the score stays that of the held-out rows' own weights: a network that only undoes the change gains nothing
        weights, bias = trial.settled(decoded)
    network_penalty, share = None, 1.0
    base = trial.mixed(parts, weights, bias)
    answers = trial.answers(base)
    if hidden is not None:
        with part(linear, 1.0):
            for number, weight in enumerate(NETWORK_PENALTIES):
                with part(number, number + 1, len(NETWORK_PENALTIES)):
                    some, joined = _with_network(trial, base, hidden, weight, rng)
                found = trial.scored(joined)
                if _clearly(found - score, NETWORK_CLEARLY):
                    network_penalty, share, answers, score = weight, some, joined, found
    alike = np.concatenate([_all_alike(table) for table in trial.judges])
    return Choice(
        weights=weights,
        bias=bias,
        penalty=penalty,
        network_penalty=network_penalty,
        network_share=share,
        strength=strength_of(trial.shares(answers), trial.judges),
        explained=float((score - alike).mean()),
    )


def slope_within(material: Material, choice: Choice, mates: Sequence[Ints], *, rng: np.random.Generator) -> float:
    """How far the chosen student is believed within queries: it is fitted again without pairs of neighbours.

    Args:
      mates: For each table (s,) the neighbour that each query is held out with.
    """
    trial = _Trial.of(material, [folds_of(mate, FOLDS, rng) for mate in mates], rng)
    parts = trial.decoded()
    if choice.penalty is not None:
        fits = [regression(trial.vectors, held, choice.penalty) for held in trial.fitted]
        parts.append([logits_of(trial.vectors, one) for one in fits])
    logits = trial.mixed(parts, choice.weights, choice.bias)
    if choice.network_penalty is not None and material.hidden is not None:
        penalty = choice.network_penalty
        for fold, held in enumerate(trial.fitted):
            net = network(trial.vectors, logits[fold], held, hidden=material.hidden, penalty=penalty, rng=rng)
            logits[fold] = logits[fold] + choice.network_share * net.logits(trial.vectors)
    return believable(trial.shares(trial.answers(logits)), trial.judges, mates)


def _with_network(
    trial: _Trial, base: list[Singles], hidden: int, penalty: float, rng: np.random.Generator
) -> tuple[float, Singles]:
    """What of a network's logits predicts held-out rows best when added to the base, and the logits that it gives."""
    own = [np.zeros_like(logits) for logits in base]
    alone = trial.answers(base)
    share = 0.0
    for fold, held in enumerate(trial.fitted):
        with part(fold, fold + 1, FOLDS):
            own[fold] = network(trial.vectors, base[fold], held, hidden=hidden, penalty=penalty, rng=rng).logits(
                trial.vectors
            )
        more = trial.answers(own)
        share = max(NETWORK_SHARES, key=lambda some: float(trial.scored(alone + np.float32(some) * more).sum()))
        if share == 0:  # no fold after it is worth the time
            break
    return share, alone + np.float32(share) * more


@dataclass(frozen=True, kw_only=True, eq=False)
class _Trial:
    """Some of the pool, and every fold's tables over it.

    Attributes:
      vectors: (t, dim) the samples that are tried.
      fitted: For each fold, the tables without its cells.
      tables: With all cells.
      judges: The tables with all cells, over as many copies of the samples as there are tables: different releases
        hold the same sample out in different folds.
      held_out: For each fold (t · tables,) the copies whose query it holds out.
    """

    vectors: Singles
    fitted: list[list[CountTable]]
    tables: list[CountTable]
    judges: list[CountTable]
    held_out: list[Bools]

    @classmethod
    def of(cls, material: Material, folds: Sequence[Ints], rng: np.random.Generator) -> _Trial:
        """Of queries that are held out in these folds."""
        some = _trial_samples(material.owners, len(material.vectors), rng)
        # Samples of no query get no fold.
        fold_of = np.concatenate([
            np.where(owner[some] >= 0, fold[owner[some]], -1)
            for owner, fold in zip(material.owners, folds, strict=True)
        ])  # fmt: skip
        fitted = []
        for fold in range(FOLDS):
            fitted.append([table.of_samples(some) for table in material.without(folds, fold)])
            done(fold + 1, FOLDS)
        tables = [table.of_samples(some) for table in material.tables]
        return cls(
            vectors=material.vectors[some],
            fitted=fitted,
            tables=tables,
            judges=_stacked(tables),
            held_out=[fold_of == fold for fold in range(FOLDS)],
        )

    def decoded(self) -> list[list[Singles]]:
        """Each fold's logits by the decoder's two parts."""
        return [list(both) for both in zip(*(_decoded(self.vectors, held) for held in self.fitted), strict=True)]

    def mixed(self, parts: Sequence[Sequence[Singles]], weights: Doubles, bias: Doubles) -> list[Singles]:
        """Each fold's logits by all parts together."""
        return [
            View(base=common(held), parts=[logits[fold] for logits in parts], tables=held).mixed(weights, bias)
            for fold, held in enumerate(self.fitted)
        ]

    def answers(self, by_fold: Sequence[Singles]) -> Singles:
        """(t · tables, C) the logits of each copy, by the fold that did not see its query."""
        found = np.zeros((len(self.held_out[0]), by_fold[0].shape[1]), dtype=np.float32)
        for logits, out in zip(by_fold, self.held_out, strict=True):
            found[out] = np.tile(logits, (len(self.judges), 1))[out]
        return found

    def shares(self, logits: Singles) -> list[Doubles]:
        """For each table (s, C) the class shares that held-out queries are predicted to have."""
        answers = softmax(logits)
        return [(one.mean @ answers).astype(np.float64) for one in self.judges]

    def scored(self, logits: Singles) -> Doubles:
        """The log-likelihood of every held-out row."""
        return row_log_likelihoods(softmax(logits), self.judges)

    def held(self, parts: Sequence[Sequence[Singles]]) -> View:
        """What the parts say of queries that they did not see."""
        base = [np.tile(common(held).astype(np.float32), (len(self.vectors), 1)) for held in self.fitted]
        return View(base=self.answers(base), parts=[self.answers(part) for part in parts], tables=self.judges)

    def judged(self, parts: Sequence[Sequence[Singles]]) -> tuple[Doubles, Doubles, Doubles]:
        """The weights and class shifts with which the parts predict held-out rows best, and how well they do."""
        view = self.held(parts)
        weights, bias = blend([view])
        return weights, bias, self.scored(view.mixed(weights, bias))

    def settled(self, decoded: Sequence[Sequence[Singles]]) -> tuple[Doubles, Doubles]:
        """The weights and class shifts of the decoder's parts, by held-out rows and by those that they have seen.

        Parts that miss a fold know less than the student will, the more so the fewer queries a class has; parts that
        saw a row know too much of it. Both are asked. A query that was held out is foreign to its fold, which is too
        unsure of it: so the student is never surer than the rows that it has seen bear out.
        """
        queries, classes = sum(len(table.cells) for table in self.tables), self.tables[0].cells.shape[1]
        missed = min(1.0, MISSED * classes / queries)
        parts = _decoded(self.vectors, self.tables)
        seen = View(base=common(self.tables), parts=parts, tables=self.tables, share=missed)
        weights, bias = blend([replace(self.held(decoded), share=1 - missed), seen])
        whole = seen.mixed(weights, np.zeros_like(bias))
        scale, _ = blend([View(base=seen.base, parts=[whole], tables=self.tables)])
        return min(1.0, float(scale[0])) * weights, bias


def _decoded(vectors: Singles, tables: Sequence[CountTable]) -> list[Singles]:
    """The logits by the decoder's two parts."""
    return [logits_of(vectors, made(vectors, tables)) for made in (discriminant, labelled)]


def _regressions(trial: _Trial) -> Iterator[tuple[float, list[Singles]]]:
    """Each penalty, and the logits that each fold's regression then has; a stronger one starts the next."""
    found: list[Doubles | None] = [None] * FOLDS
    for number, penalty in enumerate(sorted(PENALTIES, reverse=True)):
        for fold, tables in enumerate(trial.fitted):
            at = number * FOLDS + fold
            with part(at, at + 1, FOLDS * len(PENALTIES)):
                found[fold] = regression(trial.vectors, tables, penalty, found[fold])
        yield penalty, [logits_of(trial.vectors, one) for one in found if one is not None]


def _clearly(gain: Doubles, nats: float) -> bool:
    return bool(gain.sum() > max(nats, float(gain.std()) * np.sqrt(len(gain))))


def _all_alike(table: CountTable) -> Doubles:
    """The counted rows' log-likelihoods when all queries have the same class shares."""
    totals = np.maximum((table.counted[:, None] * table.cells).sum(axis=0), 1e-9)
    fit, _ = table.log_likelihood(np.tile(totals / totals.sum(), (len(table.cells), 1)))
    return np.asarray(fit[table.counted > 0])


def _stacked(tables: Sequence[CountTable]) -> list[CountTable]:
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
    for owner_of in owners:  # the first few of every query, in random order
        owner = owner_of[order]
        by_query = np.argsort(owner, kind="stable")
        ranked = owner[by_query]
        first = np.searchsorted(ranked, ranked, side="left")
        rank = np.empty(num_samples, dtype=np.int64)
        rank[by_query] = np.arange(num_samples) - first
        kept[order[(rank < 5) & (owner >= 0)]] = True
    return np.flatnonzero(kept)
