"""A student and its encoder as one pipeline of scikit-learn's own parts, in a file of skops.

Recordwise's own parts are written as those of scikit-learn that do the same, so that whoever reads the file needs
scikit-learn alone, and of types that skops trusts: reading it runs no code that it brings.
"""

from __future__ import annotations

from typing import Any

from recordwise.extras.asking import optional

import numpy as np
from sklearn.compose import ColumnTransformer
from sklearn.decomposition import TruncatedSVD
from sklearn.dummy import DummyClassifier
from sklearn.feature_extraction.text import TfidfTransformer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import MinMaxScaler, Normalizer, StandardScaler

from recordwise.data.samples import Kind
from recordwise.encoders import Pca, Scaler, Sharpened, Text
from recordwise.encoders.exact import INPUT_BITS, ExactLinear
from recordwise.encoders.words import Words
from recordwise.published import Published
from recordwise.students.counts import TableStudent
from recordwise.students.shallow import Linear, Mlp


def skops_model(model: Published) -> bytes | None:
    """The file, or None where scikit-learn has no such parts, or skops does not trust them.

    The pipeline takes rows of numbers, or a list of texts, and answers with the number of a class.
    """
    if model.schema.kind not in (Kind.VECTORS, Kind.TEXT):
        return None
    encoder = model.encoder if model.student_input == "vectors" else make_pipeline()
    steps = [step for _, step in encoder.steps] if isinstance(encoder, Pipeline) else [encoder]
    parts = [_parts(step) for step in steps]
    if steps and not _ours(steps[-1]):
        parts.append(_dense(model.student))
    parts.append(_parts(model.student))
    if any(part is None for part in parts):
        return None
    skops = optional("skops.io", "a file of scikit-learn's parts", extra="skops")
    try:
        content: bytes = skops.dumps(make_pipeline(*(one for part in parts for one in part or ())))
        return None if skops.get_untrusted_types(data=content) else content
    except Exception:  # it cannot write this
        return None


def _parts(one: Any) -> list[Any] | None:
    """What does the same in scikit-learn."""
    if type(one) is Scaler:
        return [_scaler(one)]
    if type(one) in (Pca, Sharpened):
        linear = one.projection_
        centred = MinMaxScaler(feature_range=(-linear.limit, linear.limit), clip=True)
        centred.scale_, centred.min_ = np.ones(len(one.mean_)), -one.mean_
        centred.n_features_in_ = len(one.mean_)
        return [centred, _linear(linear)]
    if type(one) in (Text, Words):
        rarity = TfidfTransformer(sublinear_tf=True)
        rarity.idf_, rarity.n_features_in_ = one.rarity_, len(one.rarity_)
        return [one.words_, rarity, _linear(one.linear), Normalizer()]
    if type(one) in (Linear, Mlp):
        plain = type(one).from_state(one.state()).model_  # without its optimizer
        return [_scaler(one.scaler_), plain] if one.threshold is None else None
    if type(one) is TableStudent:
        plain = one.network is None and one.threshold is None and not one.regions
        return [_scaler(one.scaler), _regression(one)] if plain else None
    return None if _ours(one) else [one]


def _ours(one: Any) -> bool:
    return type(one).__module__.startswith("recordwise.")


def _dense(student: Any) -> list[Any]:
    """Recordwise gives a student dense vectors, whatever an encoder made."""
    scaler = getattr(student, "scaler", None)
    dim = getattr(student, "n_features_in_", None) if scaler is None else len(scaler.mean_)
    if dim is None or type(student) is DummyClassifier:  # it looks at nothing
        return []
    every = ColumnTransformer([("every", "passthrough", slice(0, dim))], sparse_threshold=0)
    return [every.fit(np.zeros((1, dim)))]


def _scaler(scaler: Scaler) -> StandardScaler:
    made = StandardScaler()
    made.mean_, made.scale_, made.var_ = scaler.mean_, scaler.scale_, scaler.scale_**2
    made.n_features_in_, made.n_samples_seen_ = len(scaler.mean_), 1
    return made


def _linear(linear: ExactLinear) -> TruncatedSVD:
    made = TruncatedSVD(linear.weights.shape[1])
    made.components_ = (linear.weights * linear.units * 2.0**INPUT_BITS / linear.limit).T
    made.n_features_in_ = len(linear.weights)
    return made


def _regression(student: TableStudent) -> LogisticRegression:
    made = LogisticRegression()
    weights, bias = student.coefficients[:-1].T, student.coefficients[-1] + student.shift
    if len(weights) == 2:  # scikit-learn keeps one logit for two classes
        weights, bias = weights[1:] - weights[:1], bias[1:] - bias[:1]
    made.coef_, made.intercept_, made.classes_ = weights, bias, student.classes_
    made.n_features_in_ = weights.shape[1]
    return made
