"""Teaching from counts: a student that explains the whole released table, not only each query's label.

Three ingredients, all post-processing of the release:

- *What the decoder says.* Linear discriminant analysis of the pool with the joint decoder's soft labels, sharpened once
  by the released shares. It needs few votes, and its ceiling is the queries' purity.
- *What the table says.* A softmax regression whose mean predictions over each query's samples are likeliest to have
  given the released cells, under the known law of their noise.
- *What held-out rows say.* Queries are held out in folds; both are fitted without their cells. How strong the penalty
  is, how much of either goes into the student, and its temperature, are whatever predicts those cells best. The table
  joins only where it predicts them clearly better.

The student is linear in the end: a sum of two linear maps. A small network may be tried on top of it, and joins by the
same rule.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassifierMixin
from threadpoolctl import threadpool_limits

from recordwise.arrays import Bools, Doubles, Floats, Ints, Singles, softmax
from recordwise.data.samples import Samples
from recordwise.encoders.vectors import Scaler, flat
from recordwise.errors import InvalidInput, real, whole
from recordwise.labels.held_out import decode_seen
from recordwise.labels.likelihood import cell_law
from recordwise.labels.shares import Contrast, Turnout, contrast, turnout
from recordwise.progress import part
from recordwise.protocols.release import Release, Tally
from recordwise.randomness import seeded
from recordwise.students.choice import FOLDS, choose
from recordwise.students.parts import Network, blend, discriminant, logits_of, network, regression
from recordwise.students.table import CountTable, mean_over, tilted

ClassWeight = str | Mapping[int, float] | Sequence[float] | None

CHOSEN, FITTED = 0.85, 0.95  # of the work, about: settings are chosen, the linear student is fitted
ALONE = 1  # thread: a fit is thousands of small products, in which more of them would only wait for each other
FEW = 3  # queries per class, below which none can be spared for a fold


@dataclass(frozen=True, kw_only=True, eq=False)
class Asked:
    """A release, and whom it was asked about. All public.

    Attributes:
      release: Noisy counts; a record may have one label.
      owner: (m,) the query that each sample of the pool belongs to; -1 for none.
      graph: (s, s) from `query_graph`; None leaves the neighbours out.
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
      student: Has `predict`, `predict_proba` and `classes_`, as in scikit-learn. A `TableStudent`, unless that one
        taught another.
      probabilities: (m, C) of each class for each pool sample, by the student and the release together: what to teach
        any other student (`teach`).
      turnout: How many records vote at each query, one for each release.
      contrast: Whether the classes lie apart, one for each release.
      explained: How much likelier held-out rows are under the student than under equal class shares in all queries, in
        nats per query; None where queries are too few to hold any out.
      penalty: The chosen penalty of the fit to the table; None where the decoder's labels alone were chosen.
      weights: How much of the decoder's and of the table's student went in.
    """

    student: Any
    probabilities: Singles
    turnout: tuple[Turnout, ...]
    contrast: tuple[Contrast, ...]
    explained: float | None
    penalty: float | None
    weights: tuple[float, ...]


class TableStudent(ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """A softmax regression on scaled vectors, perhaps with a network on top, as `learn_from_counts` found them."""

    def __init__(
        self,
        coefficients: Doubles,
        scaler: Scaler,
        shift: Doubles,
        network: Network | None = None,
        threshold: float | None = None,
    ) -> None:
        self.coefficients = coefficients
        self.scaler = scaler
        self.shift = shift
        self.network = network
        self.threshold = threshold

    @property
    def classes_(self) -> Ints:
        return np.arange(self.coefficients.shape[1])

    def __sklearn_is_fitted__(self) -> bool:
        return True

    def predict_proba(self, X: Samples) -> NDArray[np.float64]:
        """(n, C) the probability of each class, in the ballot's order."""
        vectors = self.scaler.transform(flat("samples", X))
        logits = vectors.astype(np.float64) @ self.coefficients[:-1] + self.coefficients[-1] + self.shift
        if self.network is not None:
            logits += self.network.logits(vectors)
        return softmax(logits)

    def predict(self, X: Samples) -> Ints:
        """(n,) the likeliest class; of two, the second where its probability reaches the threshold."""
        probabilities = self.predict_proba(X)
        if self.threshold is not None:
            return (probabilities[:, 1] >= self.threshold).astype(np.int64)
        return np.asarray(probabilities.argmax(axis=1), dtype=np.int64)


def learn_from_counts(
    pool: Samples,
    asked: Sequence[Asked],
    *,
    hidden: int | None = None,
    class_weight: ClassWeight = None,
    threshold: float | None = None,
    seed: int = 0,
) -> Learnt:
    """The student that best explains what was released.

    Guarantees:
      - a function of the pool, the releases and the seed: post-processing, at no cost in privacy;
      - what is held out for a choice is hidden from everything that is fitted for it, the decoder included.

    Args:
      pool: The m samples, encoded.
      asked: One or more releases, over the same or over different partitions of the pool.
      hidden: Units of a small network to try on top of the linear student; None tries none.
      class_weight: As in scikit-learn: None, "balanced", or a weight for each class; odds are multiplied by it.
      threshold: Of two classes, the second is the answer where its probability is at least this; None answers the
        likelier one.
      seed: Of the folds, of the samples that choices are tried on, and of a network's first weights.
    """
    releases = _tallies(asked)
    if hidden is not None:
        whole(hidden=hidden)
    check_threshold(threshold, releases[0].ballot.num_classes)
    scaler = Scaler().fit(flat("pool", pool))
    vectors = scaler.transform(flat("pool", pool))
    for one in asked:
        if np.asarray(one.owner).shape != (len(vectors),):
            raise InvalidInput(f"owner must name the query of each of {len(vectors)} samples, got {one.owner.shape}")
    everything = [np.ones(release.ballot.num_queries, dtype=bool) for release in releases]
    who = tuple(_turnout(*each) for each in zip(asked, releases, everything, strict=True))
    tables = _tables(asked, everything)
    parts, choice = [discriminant(vectors, tables)], None
    rng = seeded(seed, "teaching from counts")
    if all(len(seen) >= FEW * releases[0].ballot.num_classes for seen in everything):
        folds = [rng.permutation(len(seen)) % FOLDS for seen in everything]
        with part(0.0, CHOSEN), threadpool_limits(ALONE):
            choice = choose(
                vectors,
                [one.owner for one in asked],
                tables,
                folds,
                lambda fold: _tables(asked, [numbers != fold for numbers in folds]),
                hidden=hidden,
                rng=rng,
            )
    if choice is None or choice.penalty is None:  # one slope, fitted to all rows: too little to overfit
        weights, bias = blend([logits_of(vectors, parts[0])], tables)
    else:
        weights, bias = choice.weights, choice.bias
        with part(CHOSEN, FITTED), threadpool_limits(ALONE):
            parts.append(regression(vectors, tables, choice.penalty))
    coefficients = sum((w * one for w, one in zip(weights, parts, strict=True)), np.zeros_like(parts[0]))
    coefficients[-1] += bias
    logits, net = logits_of(vectors, coefficients), None
    if choice is not None and choice.network_penalty is not None and hidden is not None:
        with part(FITTED, 1.0), threadpool_limits(ALONE):
            net = network(vectors, logits, tables, hidden=hidden, penalty=choice.network_penalty, rng=rng)
        logits = logits + net.logits(vectors)
    probabilities = tilted(softmax(logits), tables)
    return Learnt(
        student=TableStudent(coefficients, scaler, class_shift(class_weight, probabilities), net, threshold),
        probabilities=probabilities,
        turnout=who,
        contrast=tuple(
            contrast(release, voted.rates, one.graph) for one, release, voted in zip(asked, releases, who, strict=True)
        ),
        explained=None if choice is None else choice.explained,
        penalty=None if choice is None else choice.penalty,
        weights=tuple(float(w) for w in weights),
    )


def _tallies(asked: Sequence[Asked]) -> list[Tally]:
    """The releases; or one line on one that has no counts to learn from."""
    if not asked:
        raise InvalidInput("asked must hold at least one release")
    tallies = []
    for one in asked:
        tally = one.release.tally
        if tally is None:
            raise InvalidInput(
                f"release must hold counts, got {type(one.release).__name__}: decode it and teach its labels"
            )
        if one.release.ballot.labels_per_record > 1:
            raise InvalidInput("release must have one label per record: decode sets of labels and teach them")
        tallies.append(tally)
    classes = {one.release.ballot.num_classes for one in asked}
    if len(classes) > 1:
        raise InvalidInput(f"releases must be about the same classes, got {sorted(classes)} of them")
    return tallies


def tables_of(asked: Sequence[Asked]) -> list[CountTable]:
    """What each release says, row by row, and the decoder's opinion of it."""
    return _tables(asked, [np.ones(release.ballot.num_queries, dtype=bool) for release in _tallies(asked)])


def _turnout(one: Asked, tally: Tally, seen: Bools) -> Turnout:
    sizes = np.bincount(one.owner[one.owner >= 0], minlength=tally.ballot.num_queries)
    return turnout(tally, sizes, num_records=one.num_records, seen=seen)


def _tables(asked: Sequence[Asked], seen: Sequence[Bools]) -> list[CountTable]:
    """What the seen rows of each release say, the decoder's opinion included."""
    tables = []
    for one, tally, known in zip(asked, _tallies(asked), seen, strict=True):
        sizes = np.bincount(one.owner[one.owner >= 0], minlength=tally.ballot.num_queries)
        rates = _turnout(one, tally, known).rates
        tables.append(
            CountTable(
                mean=mean_over(one.owner, len(sizes)),
                cells=tally.estimate,
                law=cell_law(tally.law),
                rates=rates,
                grain=1 / np.maximum(sizes, 1),
                prior=decode_seen(tally, rates, one.graph, known).probabilities,
                counted=(known & (sizes > 0)).astype(np.float64),
            )
        )
    return tables


def class_shift(class_weight: ClassWeight, probabilities: Floats) -> Doubles:
    """(C,) what to add to the logits for these class weights, where classes have these (m, C) probabilities."""
    num_classes = probabilities.shape[1]
    if class_weight is None:
        return np.zeros(num_classes)
    if isinstance(class_weight, str):
        if class_weight != "balanced":
            raise InvalidInput(f"class_weight must be None, 'balanced' or weights of classes, got {class_weight!r}")
        share = np.asarray(probabilities.mean(axis=0, dtype=np.float64))
        return np.asarray(-np.log(np.maximum(share * num_classes, 1e-9)))
    given = class_weight if isinstance(class_weight, Mapping) else dict(enumerate(class_weight))
    partial = isinstance(class_weight, Mapping) or len(given) == num_classes
    weights = np.array([given.get(label, 1.0) for label in range(num_classes)], dtype=np.float64)
    if not (partial and set(given) <= set(range(num_classes)) and ((weights > 0) & np.isfinite(weights)).all()):
        raise InvalidInput(f"class_weight must be > 0 for classes in [0, {num_classes}), got {class_weight!r}")
    return np.log(weights)


def check_threshold(threshold: float | None, num_classes: int) -> None:
    """Refuse a threshold that does not part two classes."""
    if threshold is None:
        return
    real(threshold=threshold)
    if num_classes != 2 or not 0 < threshold < 1:
        raise InvalidInput(f"threshold must lie in (0, 1) and needs two classes, got {threshold!r} and {num_classes}")
