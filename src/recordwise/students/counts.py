"""Teaching from counts: a student that explains the whole released table, not only each query's label.

Three ingredients, all post-processing of the release:

- *What the decoder says.* Linear discriminant analysis of the pool with the joint decoder's soft labels, sharpened once
  by the released shares. It needs few votes, and its ceiling is the queries' purity.
- *What the table says.* A softmax regression whose mean predictions over each query's samples are likeliest to have
  given the released cells, under the known law of their noise.
- *What held-out rows say.* Queries are held out in folds; both are fitted without their cells. How strong the penalty
  is, how much of either goes into the student, and its temperature, are whatever predicts those cells best. The table
  joins only where it predicts them clearly better.

The student is linear in the end: a sum of two linear maps.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize
from sklearn.base import BaseEstimator, ClassifierMixin

from recordwise.arrays import Bools, Floats, Ints
from recordwise.data.samples import Samples
from recordwise.encoders.vectors import Scaler, flat
from recordwise.errors import InvalidInput
from recordwise.labels.held_out import decode_seen
from recordwise.labels.likelihood import cell_law
from recordwise.labels.shares import Separation, Voters, separation, voters
from recordwise.streams import stream
from recordwise.students.table import Table, loss, mean_over, row_log_likelihoods, softmax, tilted
from recordwise.tally import Release, Tally

Doubles = NDArray[np.float64]
Singles = NDArray[np.float32]

FOLDS = 4
FEW = 3  # queries per class, below which none can be spared for a fold
PENALTIES = (0.15, 0.5, 1.5)  # on squared coefficients, per dimension of unit variance
RIDGE = 1e-3  # of the discriminant's covariance, in units of its mean variance
SOLVER_STEPS = 60
TRIAL_SAMPLES = 12_000  # of the pool, for choices among candidates
CLEARLY = 10.0  # nats, and one standard error, by which the table must predict held-out rows better
MOST = 2.0  # weight of a student: noise does not make anybody much surer
BIAS = 50.0  # penalty on the squared shift of a class's logit


@dataclass(frozen=True, kw_only=True, eq=False)
class Asked:
    """A release, and whom it was asked about. All public.

    Attributes:
      release: Noisy counts; a record may have one label.
      owner: (m,) the query that each sample of the pool belongs to; -1 for none.
      graph: (s, s) from `neighbour_graph`; None leaves the neighbours out.
      num_records: Where it is public; None where the release's own sum must do.
    """

    release: Release
    owner: Ints
    graph: Floats | None = None
    num_records: int | None = None


@dataclass(frozen=True, kw_only=True, eq=False)
class Learnt:
    """A student, and what the release says about it.

    Attributes:
      student: Has `predict`, `predict_proba` and `classes_`, as in scikit-learn.
      chances: (m, C) the probability of each class for each pool sample, by the student and the release together: what
        to teach any other student (`teach`).
      voters: How many records vote at each query, one for each release.
      separation: Whether the classes lie apart, one for each release.
      explained: How much likelier held-out rows are under the student than under equal class shares in all queries, in
        nats per query; None where queries are too few to hold any out.
      penalty: The chosen penalty of the fit to the table; None where the decoder's labels alone were chosen.
      weights: How much of the decoder's and of the table's student went in.
    """

    student: TableStudent
    chances: Singles
    voters: tuple[Voters, ...]
    separation: tuple[Separation, ...]
    explained: float | None
    penalty: float | None
    weights: tuple[float, ...]


class TableStudent(ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """A softmax regression on scaled vectors, with coefficients that `learn_from_counts` found."""

    def __init__(self, coefficients: Doubles, scaler: Scaler, shift: Doubles) -> None:
        self.coefficients = coefficients
        self.scaler = scaler
        self.shift = shift

    @property
    def classes_(self) -> Ints:
        return np.arange(self.coefficients.shape[1])

    def __sklearn_is_fitted__(self) -> bool:
        return True

    def predict_proba(self, X: Samples) -> NDArray[np.float64]:
        """(n, C) the probability of each class, in the ballot's order."""
        vectors = self.scaler.transform(flat("samples", X)).astype(np.float64)
        logits = vectors @ self.coefficients[:-1] + self.coefficients[-1] + self.shift
        chances = np.exp(logits - logits.max(axis=1, keepdims=True))
        return np.asarray(chances / chances.sum(axis=1, keepdims=True))

    def predict(self, X: Samples) -> Ints:
        return np.asarray(self.predict_proba(X).argmax(axis=1), dtype=np.int64)


def learn_from_counts(
    pool: Samples, asked: Sequence[Asked], *, class_weight: str | Mapping[int, float] | None = None, seed: int = 0
) -> Learnt:
    """The linear student that best explains what was released.

    Guarantees:
      - a function of the pool, the releases and the seed: post-processing, at no cost in privacy;
      - what is held out for a choice is hidden from everything it is held out from, the decoder included.

    Args:
      pool: The m samples, encoded.
      asked: One or more releases, over the same or over different partitions of the pool.
      class_weight: As in scikit-learn: None, "balanced", or a weight for each class; odds are multiplied by it.
      seed: Of the folds, and of the samples that choices are tried on.
    """
    releases = _tallies(asked)
    num_classes = releases[0].ballot.num_classes
    scaler = Scaler().fit(flat("pool", pool))
    vectors = scaler.transform(flat("pool", pool))
    for one in asked:
        if np.asarray(one.owner).shape != (len(vectors),):
            raise InvalidInput(f"owner must name the query of each of {len(vectors)} samples, got {one.owner.shape}")
    everything = [np.ones(release.ballot.num_queries, dtype=bool) for release in releases]
    who = tuple(_voters(one, seen) for one, seen in zip(asked, everything, strict=True))
    tables = _tables(asked, everything)
    decoded = _discriminant(vectors, tables)
    rng = stream(seed, "teaching from counts")
    folds = [rng.permutation(len(seen)) % FOLDS for seen in everything]
    parts, penalty, explained = [decoded], None, None
    if all(len(seen) >= FEW * num_classes for seen in everything):
        weights, bias, penalty, explained = _chosen(vectors, asked, tables, folds, rng)
    if penalty is None:  # one slope, fitted to all rows: too little to overfit
        weights, bias = _blend([_logits(vectors, decoded)], tables)
    else:
        parts.append(_to_table(vectors, tables, penalty))
    coefficients = sum((w * part for w, part in zip(weights, parts, strict=True)), np.zeros_like(decoded))
    coefficients[-1] += bias
    chances = tilted(softmax(_logits(vectors, coefficients)), tables)
    return Learnt(
        student=TableStudent(coefficients, scaler, _shift(class_weight, chances)),
        chances=chances,
        voters=who,
        separation=tuple(separation(release, voted.rates) for release, voted in zip(releases, who, strict=True)),
        explained=explained,
        penalty=penalty,
        weights=tuple(float(w) for w in weights),
    )


def _tallies(asked: Sequence[Asked]) -> list[Tally]:
    """The releases; or one line on one that has no counts to learn from."""
    if not asked:
        raise InvalidInput("asked must hold at least one release")
    tallies = []
    for one in asked:
        if not isinstance(one.release, Tally):
            raise InvalidInput(
                f"release must hold counts, got {type(one.release).__name__}: decode it and teach its labels"
            )
        if one.release.ballot.labels_per_record > 1:
            raise InvalidInput("release must have one label per record: decode sets of labels and teach them")
        tallies.append(one.release)
    classes = {one.release.ballot.num_classes for one in asked}
    if len(classes) > 1:
        raise InvalidInput(f"releases must be about the same classes, got {sorted(classes)} of them")
    return tallies


def _voters(one: Asked, seen: Bools) -> Voters:
    assert isinstance(one.release, Tally)
    sizes = np.bincount(one.owner[one.owner >= 0], minlength=one.release.ballot.num_queries)
    return voters(one.release, sizes, num_records=one.num_records, seen=seen)


def _tables(asked: Sequence[Asked], seen: Sequence[Bools]) -> list[Table]:
    """What the seen rows of each release say, the decoder's opinion included."""
    tables = []
    for one, known in zip(asked, seen, strict=True):
        release = one.release
        assert isinstance(release, Tally)
        sizes = np.bincount(one.owner[one.owner >= 0], minlength=release.ballot.num_queries)
        rates = _voters(one, known).rates
        tables.append(
            Table(
                mean=mean_over(one.owner, len(sizes)),
                cells=release.estimate,
                law=cell_law(release.law),
                rates=rates,
                grain=1 / np.maximum(sizes, 1),
                prior=decode_seen(release, rates, one.graph, known).soft,
                counted=(known & (sizes > 0)).astype(np.float64),
            )
        )
    return tables


def _logits(vectors: Singles, coefficients: Doubles) -> Singles:
    single = coefficients.astype(np.float32)
    return np.asarray(vectors @ single[:-1] + single[-1], dtype=np.float32)


def _centred(coefficients: Doubles) -> Doubles:
    return np.asarray(coefficients - coefficients.mean(axis=1, keepdims=True))


def _discriminant(vectors: Singles, tables: Sequence[Table]) -> Doubles:
    """Linear discriminant analysis of the decoder's soft labels, and once more of what it makes of them."""
    opinion = np.zeros((len(vectors), tables[0].prior.shape[1]), dtype=np.float32)
    for table in tables:
        opinion += (table.mean.T > 0).astype(np.float32) @ table.prior.astype(np.float32)
    taught = opinion.sum(axis=1) > 0
    chances = opinion[taught] / opinion[taught].sum(axis=1, keepdims=True)
    scatter = (vectors.T @ vectors).astype(np.float64) / len(vectors)
    first = _lda(vectors[taught], chances, scatter)
    return _lda(vectors, tilted(softmax(_logits(vectors, first)), tables), scatter)


def _lda(vectors: Singles, chances: Singles, scatter: Doubles) -> Doubles:
    """(dim + 1, C) coefficients of Gaussian classes that share one covariance."""
    mass = chances.sum(axis=0, dtype=np.float64) + 1e-6
    centre = (chances.T @ vectors).astype(np.float64) / mass[:, None]
    share = mass / mass.sum()
    within = scatter - (centre.T * share) @ centre
    within += RIDGE * np.trace(within) / len(within) * np.eye(len(within))
    slope = np.linalg.solve(within, centre.T)
    return _centred(np.vstack([slope, -0.5 * (centre.T * slope).sum(axis=0) + np.log(share)]))


def _to_table(vectors: Singles, tables: Sequence[Table], penalty: float, start: Doubles | None = None) -> Doubles:
    """(dim + 1, C) coefficients of the softmax regression that explains the tables best, by L-BFGS."""
    dim, num_classes = vectors.shape[1], tables[0].prior.shape[1]
    weight = penalty * dim

    def objective(flat_coefficients: Doubles) -> tuple[float, Doubles]:
        coefficients = flat_coefficients.reshape(dim + 1, num_classes)
        value, by_logit = loss(_logits(vectors, coefficients), tables)
        gradient = np.empty_like(coefficients)
        gradient[:-1] = vectors.T @ by_logit + weight * coefficients[:-1]
        gradient[-1] = by_logit.sum(axis=0, dtype=np.float64)
        return value + 0.5 * weight * float((coefficients[:-1] ** 2).sum()), gradient.ravel()

    first = np.zeros((dim + 1, num_classes)) if start is None else start
    return _centred(_solved(objective, first.ravel(), SOLVER_STEPS).reshape(dim + 1, num_classes))


def _solved(objective: Callable[[Doubles], tuple[float, Doubles]], start: Doubles, steps: int, **more: Any) -> Doubles:
    found = minimize(
        objective, start, jac=True, method="L-BFGS-B", options={"maxiter": steps, "maxcor": 20, "ftol": 1e-7}, **more
    )
    return np.asarray(found.x, dtype=np.float64)


def _blend(every: Sequence[Singles], tables: Sequence[Table]) -> tuple[Doubles, Doubles]:
    """Weights >= 0 of several students' (m, C) logits, and a shift for each class, that explain the tables best.

    The tables alone: the decoder's opinion is in the students already, and would blur them a second time.
    """
    count, num_classes = len(every), every[0].shape[1]
    tables = [replace(table, prior=np.zeros_like(table.prior)) for table in tables]

    def objective(values: Doubles) -> tuple[float, Doubles]:
        weights, bias = values[:count].astype(np.float32), values[count:]
        mixed = sum((w * logits for w, logits in zip(weights, every, strict=True)), np.zeros_like(every[0]))
        value, by_logit = loss(mixed + bias.astype(np.float32), tables)
        by_weight = [float((by_logit * logits).sum(dtype=np.float64)) for logits in every]
        by_bias = by_logit.sum(axis=0, dtype=np.float64) + BIAS * bias
        return value + 0.5 * BIAS * float((bias**2).sum()), np.append(by_weight, by_bias)

    start = np.append(np.full(count, 0.5 / count), np.zeros(num_classes))
    bounds = [(1e-3, MOST)] + [(0.0, MOST)] * (count - 1) + [(None, None)] * num_classes
    found = _solved(objective, start, SOLVER_STEPS, bounds=bounds)
    return found[:count], found[count:]


def _chosen(
    vectors: Singles, asked: Sequence[Asked], tables: Sequence[Table], folds: Sequence[Ints], rng: np.random.Generator
) -> tuple[Doubles, Doubles, float | None, float]:
    """Weights, class shifts, penalty (None: the decoder's labels alone) and score, by held-out rows."""
    some = _trial_samples(asked, len(vectors), rng)
    trial = vectors[some]
    num_classes = tables[0].prior.shape[1]
    names: tuple[float | None, ...] = (None, *PENALTIES)
    held = [[np.zeros((len(some), num_classes), dtype=np.float32) for _ in asked] for _ in names]
    unseen = [table.of_samples(some) for table in tables]
    for fold in range(FOLDS):
        fitted = [table.of_samples(some) for table in _tables(asked, [numbers != fold for numbers in folds])]
        coefficients = [_discriminant(trial, fitted)]
        for penalty in reversed(PENALTIES):
            coefficients.append(_to_table(trial, fitted, penalty, coefficients[-1] if len(coefficients) > 1 else None))
        coefficients[1:] = reversed(coefficients[1:])
        for which, (one, numbers) in enumerate(zip(asked, folds, strict=True)):
            owner = one.owner[some]
            out = (owner >= 0) & (numbers[np.maximum(owner, 0)] == fold)
            for logits, found in zip(held, coefficients, strict=True):
                logits[which][out] = _logits(trial[out], found)
    # Different releases hold the same sample out in different folds: each has its own copy of the samples.
    stacked = _stacked(unseen)
    logits = [np.vstack(each) for each in held]
    scores, blends = [], []
    for which in range(len(names)):
        used = [logits[0]] if which == 0 else [logits[0], logits[which]]
        weights, bias = _blend(used, stacked)
        mixed = sum((np.float32(w) * z for w, z in zip(weights, used, strict=True)), np.zeros_like(used[0]))
        scores.append(row_log_likelihoods(softmax(mixed + bias.astype(np.float32)), stacked))
        blends.append((weights, bias))
    best = 1 + int(np.argmax([score.sum() for score in scores[1:]]))
    gain = scores[best] - scores[0]
    if not gain.sum() > max(CLEARLY, float(gain.std()) * np.sqrt(len(gain))):
        best = 0
    common = np.concatenate([_common(table) for table in stacked])
    return *blends[best], names[best], float((scores[best] - common).mean())


def _common(table: Table) -> Doubles:
    """The counted rows' log-likelihoods when all queries have the same class shares."""
    totals = np.maximum((table.counted[:, None] * table.cells).sum(axis=0), 1e-9)
    fit, _ = table.log_likelihood(np.tile(totals / totals.sum(), (len(table.cells), 1)))
    return np.asarray(fit[table.counted > 0])


def _stacked(tables: Sequence[Table]) -> list[Table]:
    """Tables over as many copies of the samples as there are tables, each with its own copy."""
    from scipy.sparse import csr_array, hstack

    width = tables[0].mean.shape[1]
    result = []
    for which, table in enumerate(tables):
        blocks = [table.mean if i == which else csr_array((len(table.cells), width)) for i in range(len(tables))]
        result.append(replace(table, mean=csr_array(hstack(blocks, format="csr")).astype(np.float32)))
    return result


def _trial_samples(asked: Sequence[Asked], num_samples: int, rng: np.random.Generator) -> Ints:
    """Some of the pool, the same share of every query and at least a few samples of each."""
    if num_samples <= TRIAL_SAMPLES:
        return np.arange(num_samples)
    order = rng.permutation(num_samples)
    kept = np.zeros(num_samples, dtype=bool)
    kept[order[:TRIAL_SAMPLES]] = True
    for one in asked:  # the first few of every query, in random order
        owner = one.owner[order]
        by_query = np.argsort(owner, kind="stable")
        ranked = owner[by_query]
        first = np.searchsorted(ranked, ranked, side="left")
        rank = np.empty(num_samples, dtype=np.int64)
        rank[by_query] = np.arange(num_samples) - first
        kept[order[(rank < 5) & (owner >= 0)]] = True
    return np.flatnonzero(kept)


def _shift(class_weight: str | Mapping[int, float] | None, chances: Singles) -> Doubles:
    """(C,) what to add to the logits for these class weights."""
    num_classes = chances.shape[1]
    if class_weight is None:
        return np.zeros(num_classes)
    if class_weight == "balanced":
        share = np.asarray(chances.mean(axis=0, dtype=np.float64))
        return np.asarray(-np.log(np.maximum(share * num_classes, 1e-9)))
    if isinstance(class_weight, str):
        raise InvalidInput(f"class_weight must be None, 'balanced' or a weight for each class, got {class_weight!r}")
    weights = np.array([class_weight.get(label, 1.0) for label in range(num_classes)], dtype=np.float64)
    if not ((weights > 0) & np.isfinite(weights)).all() or not set(class_weight) <= set(range(num_classes)):
        raise InvalidInput(f"class_weight must be > 0 for classes in [0, {num_classes}), got {dict(class_weight)!r}")
    return np.log(weights)
