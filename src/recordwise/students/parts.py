"""What a student from counts is made of: three linear maps, a small network, and how they are blended."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import count
from typing import Any

import numpy as np
from scipy.optimize import minimize

from recordwise.arrays import Bools, Doubles, Floats, Singles, softmax
from recordwise.progress import done, part
from recordwise.students.table import CountTable, loss, tilted

RIDGE = 1e-3  # of the discriminant's covariance, in units of its mean variance
FLOOR = 1e-4  # the least of it, in units of the vectors' own variance
LABEL_PENALTY = 10.0  # of a regression on labels: on squared coefficients
SOLVER_STEPS = 60
NETWORK_STEPS = 150
# Weights of the discriminant, of the regression on labels and of the one that explains the table:
MOST = (2.0, 4.0, 2.0)  # noise does not make anybody much surer; but labels of mixed queries leave one far too unsure
USUAL = {1: (1.0,), 2: (0.25, 0.75), 3: (0.0, 0.0, 1.0)}  # of so many parts, before anything is seen
SPREAD = {1: (0.5,), 2: (0.5, 0.75), 3: (0.5, 0.75, 0.25)}  # the deviation of a weight from what is usual
LEAST_SHARE = 1e-3  # of a class, where nothing can be told: noise alone rules none out
BIAS = 50.0  # penalty on the squared shift of a class's logit


def logits_of(vectors: Singles, coefficients: Doubles) -> Singles:
    single = coefficients.astype(np.float32)
    return np.asarray(vectors @ single[:-1] + single[-1], dtype=np.float32)


def _centred(coefficients: Doubles) -> Doubles:
    return np.asarray(coefficients - coefficients.mean(axis=1, keepdims=True))


def _decoded(tables: Sequence[CountTable]) -> tuple[Singles, Bools]:
    """The decoder's soft labels of the samples that have any, and (m,) which those are."""
    opinion = np.zeros((tables[0].mean.shape[1], tables[0].prior.shape[1]), dtype=np.float32)
    for table in tables:
        opinion += (table.mean.T > 0).astype(np.float32) @ table.prior.astype(np.float32)
    taught = opinion.sum(axis=1) > 0
    return opinion[taught] / opinion[taught].sum(axis=1, keepdims=True), taught


def discriminant(vectors: Singles, tables: Sequence[CountTable]) -> Doubles:
    """Linear discriminant analysis of the decoder's soft labels, and once more of what it makes of them."""
    labels, taught = _decoded(tables)
    scatter = (vectors.T @ vectors).astype(np.float64) / len(vectors)
    first = _lda(vectors[taught], labels, scatter)
    return _lda(vectors, tilted(softmax(logits_of(vectors, first)), tables), scatter)


def labelled(vectors: Singles, tables: Sequence[CountTable]) -> Doubles:
    """(dim + 1, C) coefficients of the softmax regression on the decoder's soft labels, by L-BFGS."""
    labels, taught = _decoded(tables)
    samples = vectors[taught]
    shape = vectors.shape[1] + 1, labels.shape[1]

    def objective(flat_coefficients: Doubles) -> tuple[float, Doubles]:
        coefficients = flat_coefficients.reshape(shape)
        chances = softmax(logits_of(samples, coefficients))
        value = -float((labels * np.log(np.maximum(chances, 1e-30))).sum(dtype=np.float64))
        off = chances - labels
        gradient = np.empty(shape)
        gradient[:-1] = samples.T @ off + LABEL_PENALTY * coefficients[:-1]
        gradient[-1] = off.sum(axis=0, dtype=np.float64)
        return value + 0.5 * LABEL_PENALTY * float((coefficients[:-1] ** 2).sum()), gradient.ravel()

    with part(0.0, 0.0):  # quick beside what explains the tables
        return _centred(_solved(objective, np.zeros(shape).ravel(), SOLVER_STEPS).reshape(shape))


def _lda(vectors: Singles, probabilities: Singles, scatter: Doubles) -> Doubles:
    """(dim + 1, C) coefficients of Gaussian classes that share one covariance."""
    mass = probabilities.sum(axis=0, dtype=np.float64) + 1e-6
    centre = (probabilities.T @ vectors).astype(np.float64) / mass[:, None]
    share = mass / mass.sum()
    within = scatter - (centre.T * share) @ centre
    # Where classes hardly vary, what is left of the scatter is rounding: the floor keeps it from being believed. A
    # scatter in about as many directions as there are samples is chance: it is not believed either.
    ridge = max(RIDGE, (len(within) / len(vectors)) ** 3)
    variance = max(ridge * np.trace(within), FLOOR * np.trace(scatter)) / len(within)
    within += (variance or 1.0) * np.eye(len(within))  # of samples that are all the same there is nothing to tell
    slope = np.linalg.solve(within, centre.T)
    return _centred(np.vstack([slope, -0.5 * (centre.T * slope).sum(axis=0) + np.log(share)]))


def regression(vectors: Singles, tables: Sequence[CountTable], penalty: float, start: Doubles | None = None) -> Doubles:
    """(dim + 1, C) coefficients of the softmax regression that explains the tables best, by L-BFGS."""
    dim, num_classes = vectors.shape[1], tables[0].prior.shape[1]
    weight = penalty * dim

    def objective(flat_coefficients: Doubles) -> tuple[float, Doubles]:
        coefficients = flat_coefficients.reshape(dim + 1, num_classes)
        value, by_logit = loss(logits_of(vectors, coefficients), tables)
        gradient = np.empty_like(coefficients)
        gradient[:-1] = vectors.T @ by_logit + weight * coefficients[:-1]
        gradient[-1] = by_logit.sum(axis=0, dtype=np.float64)
        return value + 0.5 * weight * float((coefficients[:-1] ** 2).sum()), gradient.ravel()

    first = np.zeros((dim + 1, num_classes)) if start is None else start
    return _centred(_solved(objective, first.ravel(), SOLVER_STEPS).reshape(dim + 1, num_classes))


@dataclass(frozen=True, eq=False)
class Network:
    """One hidden layer: tanh(x · first) · second.

    Attributes:
      first: (dim + 1, hidden), the last row is the bias.
      second: (hidden, C).
    """

    first: Doubles
    second: Doubles

    def logits(self, vectors: Singles) -> Singles:
        hidden = np.tanh(logits_of(vectors, self.first))
        return np.asarray(hidden @ self.second.astype(np.float32), dtype=np.float32)


def network(
    vectors: Singles,
    base: Singles,
    tables: Sequence[CountTable],
    *,
    hidden: int,
    penalty: float,
    rng: np.random.Generator,
) -> Network:
    """The network that, added to the (m, C) logits `base`, explains the tables best; by L-BFGS from small weights."""
    dim, num_classes = vectors.shape[1], base.shape[1]
    size = (dim + 1) * hidden

    def split(values: Doubles) -> tuple[Doubles, Doubles]:
        return values[:size].reshape(dim + 1, hidden), values[size:].reshape(hidden, num_classes)

    def objective(values: Doubles) -> tuple[float, Doubles]:
        first, second = split(values)
        active = np.tanh(logits_of(vectors, first))
        value, by_logit = loss(base + active @ second.astype(np.float32), tables)
        inner = (by_logit @ second.T.astype(np.float32)) * (1 - active * active)
        by_first = np.vstack([vectors.T @ inner, inner.sum(axis=0)]).astype(np.float64)
        gradient = np.concatenate([by_first.ravel(), (active.T @ by_logit).astype(np.float64).ravel()])
        return value + 0.5 * penalty * float((values**2).sum()), gradient + penalty * values

    start = np.concatenate([rng.normal(size=size) / np.sqrt(dim), 0.01 * rng.normal(size=hidden * num_classes)])
    return Network(*split(_solved(objective, start, NETWORK_STEPS)))


def _solved(objective: Callable[[Doubles], tuple[float, Doubles]], start: Doubles, steps: int, **more: Any) -> Doubles:
    taken = count(1)
    found = minimize(
        objective,
        start,
        jac=True,
        method="L-BFGS-B",
        options={"maxiter": steps, "maxcor": 20, "ftol": 1e-7},
        callback=lambda _: done(next(taken), steps),
        **more,
    )
    return np.asarray(found.x, dtype=np.float64)


def common(tables: Sequence[CountTable]) -> Doubles:
    """(C,) logits of the student that tells nothing: every sample has the class shares of the whole release."""
    shares = sum((table.rates @ table.prior for table in tables), np.zeros(tables[0].prior.shape[1]))
    return np.asarray(np.log(np.maximum(shares / shares.sum(), LEAST_SHARE)))


@dataclass(frozen=True, kw_only=True, eq=False)
class View:
    """Some students of a pool, and the tables that they are to explain.

    Attributes:
      base: (C,) or (m, C) logits of the student that tells nothing.
      parts: (m, C) logits of each student.
      tables: Over the same samples.
      share: Of what is to be explained, beside other views.
    """

    base: Floats
    parts: Sequence[Singles]
    tables: Sequence[CountTable]
    share: float = 1.0

    def mixed(self, weights: Doubles, bias: Doubles) -> Singles:
        """(m, C) the base, and so much of what each student says beyond it."""
        total = (1 - weights.sum()) * self.base + bias
        own = sum((np.float32(w) * one for w, one in zip(weights, self.parts, strict=True)), np.float32(0))
        return np.asarray(own + total.astype(np.float32), dtype=np.float32)


def blend(views: Sequence[View]) -> tuple[Doubles, Doubles]:
    """Weights >= 0 of the views' students, and a shift for each class, that explain their tables best.

    Few rows say little about weights: what is usual is a normal prior of them. The tables alone are explained: the
    decoder's opinion is in the students already, and would blur them a second time.
    """
    count, num_classes = len(views[0].parts), views[0].parts[0].shape[1]
    views = [
        replace(view, tables=[replace(one, prior=np.zeros_like(one.prior)) for one in view.tables]) for view in views
    ]
    usual, spread = np.array(USUAL[count]), np.array(SPREAD[count])

    def objective(values: Doubles) -> tuple[float, Doubles]:
        weights, bias = values[:count], values[count:]
        off = (weights - usual) / spread
        total = 0.5 * BIAS * float((bias**2).sum()) + 0.5 * float((off**2).sum())
        gradient = np.append(off / spread, BIAS * bias)
        for view in views:
            value, by_logit = loss(view.mixed(weights, bias), view.tables)
            by_weight = [float((by_logit * (one - view.base)).sum(dtype=np.float64)) for one in view.parts]
            total += view.share * value
            gradient += view.share * np.append(by_weight, by_logit.sum(axis=0, dtype=np.float64))
        return total, gradient

    start = np.append(usual, np.zeros(num_classes))
    bounds = [*[(0.0, most) for most in MOST[:count]], *[(None, None)] * num_classes]
    with part(0.0, 0.0):  # quick beside what it blends
        found = _solved(objective, start, SOLVER_STEPS, bounds=bounds)
    return found[:count], found[count:]
