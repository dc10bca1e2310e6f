"""Teaching from counts: a student that explains the whole released table, not only each query's label.

Three ingredients, all post-processing of the release:

- *What the decoder says.* Linear discriminant analysis of the pool with the joint decoder's soft labels, sharpened once
  by the released shares, and a softmax regression on those labels. They need few votes, and their ceiling is the
  queries' purity.
- *What the table says.* A softmax regression whose mean predictions over each query's samples are likeliest to have
  given the released cells, under the known law of their noise.
- *What held-out rows say.* Queries are held out in folds; all are fitted without their cells. How strong the penalty
  is, how much of each goes into the student, and its temperature, are whatever predicts those cells best. The table
  joins only where it predicts them clearly better. Few rows say little: what they leave open is as usual.

They make a sum of linear maps, beyond the class shares of the whole release. A small network may be tried on top of it,
and joins by a like rule. Counts do not say how well a student tells a query's samples apart, so it is believed there as
far as it predicts how neighbouring queries differ (`within`), and a sample's probabilities lie around the class shares
that are believed of its query. How far those follow the released ones, noise and all, is measured by how far held-out
ones stray from the student's.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassifierMixin
from threadpoolctl import threadpool_limits

from recordwise.arrays import NOBODY, Bools, Doubles, Floats, Ints, Singles, softmax
from recordwise.data.samples import Samples
from recordwise.encoders.vectors import Scaler, flat
from recordwise.errors import InvalidInput, shown, whole
from recordwise.labels.held_out import decode_seen
from recordwise.labels.likelihood import cell_law
from recordwise.labels.shares import Contrast, Turnout, contrast, turnout
from recordwise.progress import part
from recordwise.protocols.release import Release, Tally
from recordwise.randomness import seeded
from recordwise.students.choice import Choice, Material, choose, slope_within
from recordwise.students.parts import (
    Network,
    View,
    blend,
    common,
    discriminant,
    labelled,
    logits_of,
    network,
    regression,
)
from recordwise.students.table import STRENGTH, CountTable, mean_over, tilted
from recordwise.students.weights import ClassWeight, check_threshold, class_weights
from recordwise.students.within import FEW_QUERIES, Regions, mates_of, regions_of, with_regions

CHOSEN, FITTED = 0.65, 0.8  # of the work, about: settings are chosen, the student is fitted
ALONE = 1  # thread: a fit is thousands of small products, in which more of them would only wait for each other
FARTHEST = 1e6  # deviations from the pool's mean: no column that varies gets there, and squares are floats up to it
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
      explained: How much likelier held-out rows are under the student's parts, at the weights that suit them, than
        under equal class shares in all queries, in nats per query; None where queries are too few to hold any out.
      penalty: The chosen penalty of the fit to the table; None where the decoder's labels alone were chosen.
      weights: How much of the decoder's two students and of the table's went in.
      slope: How far the student is believed within queries, from 0 to 1; the rest is the queries' class shares.
      strength: Samples' worth of belief in what the student says of a query, beside what was released.
    """

    student: Any
    probabilities: Singles
    turnout: tuple[Turnout, ...]
    contrast: tuple[Contrast, ...]
    explained: float | None
    penalty: float | None
    weights: tuple[float, ...]
    slope: float
    strength: float


class TableStudent(ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """A softmax regression on scaled vectors, perhaps with a network on top, and what is believed of regions.

    Args:
      coefficients: (dim + 1, C) of the regression.
      scaler: Of the samples.
      shift: (C,) the logarithms of what the odds of each class are multiplied by in the end.
      network: On top of the regression, or None.
      regions: As `learn_from_counts` found them; none leaves the student's own probabilities.
      slope: How far the regression and the network are believed beside the regions.
      threshold: Of two classes, the second is the answer where its probability is at least this.
    """

    def __init__(
        self,
        coefficients: Doubles,
        scaler: Scaler,
        shift: Doubles,
        network: Network | None = None,
        regions: tuple[Regions, ...] = (),
        slope: float = 1.0,
        threshold: float | None = None,
    ) -> None:
        self.coefficients = coefficients
        self.scaler = scaler
        self.shift = shift
        self.network = network
        self.regions = regions
        self.slope = slope
        self.threshold = threshold

    @property
    def classes_(self) -> Ints:
        return np.arange(self.coefficients.shape[1])

    @property
    def class_weights_(self) -> Doubles:
        """(C,) what the odds of each class were multiplied by."""
        return np.exp(self.shift)

    def __sklearn_is_fitted__(self) -> bool:
        return True

    def predict_proba(self, X: Samples) -> NDArray[np.float64]:
        """(n, C) the probability of each class, in the ballot's order."""
        vectors = _scaled(self.scaler, flat("samples", X))
        logits = vectors.astype(np.float64) @ self.coefficients[:-1] + self.coefficients[-1]
        if self.network is not None:
            logits += self.network.logits(vectors)
        odds = with_regions(vectors, logits, self.regions, self.slope) * np.exp(self.shift - self.shift.max())
        return np.asarray(odds / odds.sum(axis=1, keepdims=True))

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
      class_weight: As in scikit-learn: None, "balanced", or weights by class, here a number from zero on, as a mapping
        or as a list; odds are multiplied by them.
      threshold: Of two classes, the second is the answer where its probability is at least this; None answers the
        likelier one.
      seed: Of the folds, of the samples that choices are tried on, and of a network's first weights.
    """
    _refuse_mistakes(pool, asked, hidden, class_weight, threshold)
    scaler = Scaler().fit(flat("pool", pool))
    vectors = _scaled(scaler, flat("pool", pool))
    material = Material(
        vectors=vectors, owners=[one.owner for one in asked], tables=tables_of(asked), without=partial(_without, asked),
        hidden=hidden,
    )  # fmt: skip
    tables, rng = material.tables, seeded(seed, "teaching from counts")
    with threadpool_limits(ALONE):
        with part(0.0, CHOSEN):
            choice = choose(material, rng=rng) if _enough(tables) else None
        with part(CHOSEN, FITTED):
            coefficients, weights = _linear(material, choice)
            logits = logits_of(vectors, coefficients)
            net = _network(material, choice, logits, rng)
        with part(FITTED, 1.0):
            slope = _slope(material, choice, scaler, seed)
    if net is not None:
        logits = logits + net.logits(vectors)
    strength = STRENGTH if choice is None else choice.strength
    tables = [replace(table, strength=strength) for table in tables]
    regions = regions_of(vectors, scaler.scale_, softmax(logits), tables)
    probabilities = tilted(with_regions(vectors, logits, regions, slope).astype(np.float32), tables)
    share = np.asarray(probabilities.mean(axis=0, dtype=np.float64))
    shift = np.log(class_weights(class_weight, range(len(share)), share))
    who = tuple(_turnout(one, _all(_tally(one))) for one in asked)
    return Learnt(
        student=TableStudent(coefficients, scaler, shift, net, regions, slope, threshold),
        probabilities=probabilities,
        turnout=who,
        contrast=tuple(contrast(_tally(one), voted.rates, one.graph) for one, voted in zip(asked, who, strict=True)),
        explained=None if choice is None else choice.explained,
        penalty=None if choice is None else choice.penalty,
        weights=tuple(float(w) for w in weights),
        slope=slope,
        strength=strength,
    )


def _scaled(scaler: Scaler, vectors: Singles) -> Singles:
    """The vectors in the pool's deviations; what lies farther out than `FARTHEST` is taken to lie there."""
    scaled = scaler.transform(vectors)
    return np.clip(scaled, -FARTHEST, FARTHEST, out=scaled)


def _refuse_mistakes(
    pool: Samples,
    asked: Sequence[Asked],
    hidden: int | None,
    class_weight: ClassWeight,
    threshold: float | None,
) -> None:
    num_classes = _tallies(asked)[0].ballot.num_classes
    if hidden is not None:
        whole(hidden=hidden)
    class_weights(class_weight, range(num_classes), np.ones(num_classes))
    check_threshold(threshold, num_classes)
    vectors = flat("pool", pool)
    if not vectors.shape[1]:
        raise InvalidInput(f"pool must have at least one dimension, got {vectors.shape}")
    for one in asked:
        owner, last = np.asarray(one.owner), one.release.ballot.num_queries - 1
        if owner.shape != (len(pool),):
            raise InvalidInput(f"owner must name the query of each of {len(pool)} samples, got {owner.shape}")
        if not isinstance(one.owner, np.ndarray) or owner.dtype.kind not in "iu":
            raise InvalidInput(f"owner must be an array of whole numbers, got {shown(one.owner)}")
        if not ((owner >= NOBODY) & (owner <= last)).all():
            raise InvalidInput(f"owner must lie in [0, {last}], or be {NOBODY}, got {owner.min()} to {owner.max()}")
        if not (owner >= 0).any():
            raise InvalidInput(f"owner must give a sample to one query at least, got {NOBODY} for all of {len(pool)}")


def _enough(tables: Sequence[CountTable]) -> bool:
    """Whether queries can be spared for folds."""
    return all(len(table.cells) >= FEW * table.cells.shape[1] for table in tables)


def _linear(material: Material, choice: Choice | None) -> tuple[Doubles, Doubles]:
    """(dim + 1, C) coefficients of the parts together, and their weights."""
    vectors, tables = material.vectors, material.tables
    base, parts = common(tables), [discriminant(vectors, tables)]
    if choice is None:
        weights, bias = blend([View(base=base, parts=[logits_of(vectors, parts[0])], tables=tables)])
    else:
        weights, bias = choice.weights, choice.bias
        parts.append(labelled(vectors, tables))
        if choice.penalty is not None:
            parts.append(regression(vectors, tables, choice.penalty))
    coefficients = np.tensordot(weights, np.stack(parts), axes=1)
    coefficients[-1] += bias + (1 - weights.sum()) * base
    return coefficients, weights


def _network(material: Material, choice: Choice | None, base: Singles, rng: np.random.Generator) -> Network | None:
    """The network on top of the (m, C) logits `base`, where one was chosen."""
    if choice is None or choice.network_penalty is None or material.hidden is None:
        return None
    found = network(
        material.vectors, base, material.tables, hidden=material.hidden, penalty=choice.network_penalty, rng=rng
    )
    return replace(found, second=choice.network_share * found.second)


def _slope(material: Material, choice: Choice | None, scaler: Scaler, seed: int) -> float:
    """How far the student is believed within queries."""
    if choice is None:
        return FEW_QUERIES
    mates = [mates_of((table.mean @ material.vectors) * scaler.scale_) for table in material.tables]
    return slope_within(material, choice, mates, rng=seeded(seed, "neighbours held out together"))


def _tally(one: Asked) -> Tally:
    """Its counts; or one line where it has none to learn from."""
    tally = one.release.tally
    if tally is None:
        raise InvalidInput(
            f"release must hold counts, got {type(one.release).__name__}: decode it and teach its labels"
        )
    if one.release.ballot.labels_per_record > 1:
        raise InvalidInput("release must have one label per record: decode sets of labels and teach them")
    return tally


def _tallies(asked: Sequence[Asked]) -> list[Tally]:
    """The counts of each, all about the same classes."""
    if not asked:
        raise InvalidInput("asked must hold at least one release")
    tallies = [_tally(one) for one in asked]
    classes = {one.release.ballot.num_classes for one in asked}
    if len(classes) > 1:
        raise InvalidInput(f"releases must be about the same classes, got {sorted(classes)} of them")
    return tallies


def tables_of(asked: Sequence[Asked]) -> list[CountTable]:
    """What each release says, row by row, and the decoder's opinion of it."""
    return _tables(asked, [_all(tally) for tally in _tallies(asked)])


def _all(tally: Tally) -> Bools:
    return np.ones(tally.ballot.num_queries, dtype=bool)


def _without(asked: Sequence[Asked], folds: Sequence[Ints], fold: int) -> list[CountTable]:
    """What the rows outside one fold say."""
    return _tables(asked, [numbers != fold for numbers in folds])


def _turnout(one: Asked, seen: Bools) -> Turnout:
    tally = _tally(one)
    sizes = np.bincount(one.owner[one.owner >= 0], minlength=tally.ballot.num_queries)
    return turnout(tally, sizes, num_records=one.num_records, seen=seen)


def _tables(asked: Sequence[Asked], seen: Sequence[Bools]) -> list[CountTable]:
    """What the seen rows of each release say, the decoder's opinion included."""
    tables = []
    for one, tally, known in zip(asked, _tallies(asked), seen, strict=True):
        sizes = np.bincount(one.owner[one.owner >= 0], minlength=tally.ballot.num_queries)
        rates = _turnout(one, known).rates
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
