"""Samples to vectors such that a record's vector is its own: the same bits whatever else is encoded with it.

An encoder of ours has that property by construction, if its state is such as its `fit` leaves (`holds`): another state,
which came over a network, could look at where a record stands or at how many there are. Any other one is run on one
thread, in batches of one size, the last of which is filled up; whether a sample then has the same bits at every place
and beside any others is tried out on the public pool. Where it is not so, records are encoded one at a time.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from enum import StrEnum
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.pipeline import Pipeline
from threadpoolctl import threadpool_limits

from recordwise.arrays import as_vectors
from recordwise.data.samples import Samples, rows
from recordwise.encoders.hog import Hog
from recordwise.encoders.numbers import finite_rows
from recordwise.encoders.sharpened import Sharpened
from recordwise.encoders.table import Table
from recordwise.encoders.text import Text
from recordwise.encoders.vectors import Pca, Scaler
from recordwise.encoders.words import Words
from recordwise.errors import InvalidInput, RecordwiseError
from recordwise.privacy.guarantee import one_of
from recordwise.progress import done, part
from recordwise.randomness import seeded

EXACT = (Scaler, Pca, Hog, Text, Table, Sharpened, Words)
BATCH = 64  # samples that an encoder is given at a time if it does not say how many it wants
LARGE, NUMBERS = 4096, 1 << 23  # samples at a time, and numbers, where that makes no difference, but to memory
TRIED, COPIED = 256, 4  # samples of the pool that are tried in other company, and beside copies of themselves


class Manner(StrEnum):
    """Why a record's vector depends on that record alone."""

    EXACT = "exact by construction"
    CHECKED = "checked on the pool"  # in batches of one size: no other place and no other company changed a bit
    ALONE = "one at a time"


def how_encoded(encoder: Any, pool: Samples) -> Manner:
    """The fastest safe way to use a fitted encoder, found out on the public pool; public.

    An encoder that gives a sample of the pool other bits when it is asked again is refused: no way would be safe.
    """
    if _exact(encoder):
        return Manner.EXACT
    tried = np.unique(np.linspace(0, len(pool) - 1, min(len(pool), TRIED)).astype(np.int64))
    if _keeps_its_bits(encoder, rows(pool, tried), Manner.CHECKED):
        return Manner.CHECKED
    if _keeps_its_bits(encoder, rows(pool, tried[:BATCH]), Manner.ALONE):
        return Manner.ALONE
    raise InvalidInput(
        f"encoder must give a sample the same vector every time, {type(encoder).__name__} gives a sample of the pool "
        "another one when asked again"
    )


def encode(
    encoder: Any, samples: Samples, *, manner: Manner | None = None, dim: int | None = None
) -> NDArray[np.float32]:
    """Private samples as vectors (n, dim); a sample that cannot be encoded is a row of NaN, and nothing is raised.

    Guarantees:
      - a row depends on that sample and on public arguments alone: the same bits for any other samples, any order and
        any number of threads; under `Manner.CHECKED` as far as the pool shows;
      - whatever a sample holds, no error, warning or message comes of it.

    Args:
      manner: What `how_encoded` said; None is by construction where the encoder has it so, else one at a time.
      dim: The pool's; None takes that of the first sample that can be encoded.
    """
    manner = _manner(encoder, manner)
    found: list[tuple[slice, NDArray[np.float32]]] = []
    with _one_thread(manner), warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")  # a warning would reveal something about records
        for batch in _batches(encoder, len(samples), manner):
            try:
                parts = [(batch, _run(encoder, samples, batch, manner))]
            except Exception:  # because of one of them, so each is asked for alone, in a batch of the same size
                parts = list(_each_alone(encoder, samples, batch, manner))
            dim = parts[0][1].shape[1] if dim is None and parts else dim
            found += [(some, vectors) for some, vectors in parts if vectors.shape[1] == dim]
            done(batch.stop, len(samples))
    vectors = np.full((len(samples), dim or 0), np.nan, dtype=np.float32)
    for some, held in found:
        vectors[some] = held
    vectors[~finite_rows(vectors)] = np.nan
    return vectors


def encode_public(encoder: Any, samples: Samples, *, manner: Manner | None = None) -> NDArray[np.float32]:
    """Public samples as finite vectors (n, dim), with the bits of `encode`; or one line that says why not."""
    manner = _manner(encoder, manner)
    parts = []
    with _one_thread(manner):
        for batch in _batches(encoder, len(samples), manner):
            try:
                parts.append(_run(encoder, samples, batch, manner))
                done(batch.stop, len(samples))
            except RecordwiseError:
                raise
            except Exception as fault:
                why = str(fault).split("\n")[0]
                raise InvalidInput(f"samples must be such as {type(encoder).__name__} can encode: {why}") from fault
    if not parts:
        raise InvalidInput("samples must hold at least one sample, got 0")
    if len({vectors.shape[1] for vectors in parts}) > 1:
        raise InvalidInput(f"{type(encoder).__name__} must give vectors of one length, it gives several")
    return as_vectors("encoded samples", np.concatenate(parts))


def _manner(encoder: Any, asked: Manner | None) -> Manner:
    if asked is not None:
        return one_of(Manner, manner=asked)
    return Manner.EXACT if _exact(encoder) else Manner.ALONE


def _exact(encoder: Any) -> bool:
    if type(encoder) is Pipeline:
        return all(_exact(step) for _, step in encoder.steps)
    return type(encoder) in EXACT and _holds(encoder)


def _holds(encoder: Any) -> bool:
    try:
        return bool(type(encoder).holds(encoder))
    except Exception:  # a state with holes is none that `fit` leaves
        return False


def _size(encoder: Any) -> int:
    """How many samples the encoder, or the first of its steps that has a wish, wants at a time."""
    steps = [step for _, step in encoder.steps] if isinstance(encoder, Pipeline) else [encoder]
    wishes = (getattr(step, "batch_size", None) for step in steps)
    return next((wish for wish in wishes if isinstance(wish, int) and wish > 0), BATCH)


def _batches(encoder: Any, count: int, manner: Manner) -> Iterator[slice]:
    few = max(1, min(LARGE, NUMBERS // max(1, _width(encoder))))
    size = {Manner.EXACT: few, Manner.CHECKED: _size(encoder), Manner.ALONE: 1}[manner]
    return (slice(start, min(start + size, count)) for start in range(0, count, size))


def _width(part: Any) -> int:
    """At least as many numbers as any step of an encoder of ours makes of one sample."""
    if isinstance(part, np.ndarray):
        return part.shape[-1] if part.ndim else 1
    if isinstance(part, list | tuple):
        return sum(map(_width, part))
    if isinstance(part, Hog):
        return part.width
    if isinstance(part, Pipeline):
        return sum(_width(step) for _, step in part.steps)
    ours = type(part).__module__.startswith("recordwise.encoders.")
    return sum(map(_width, vars(part).values())) if ours and hasattr(part, "__dict__") else 1


def _run(encoder: Any, samples: Samples, batch: slice, manner: Manner) -> NDArray[np.float32]:
    """A batch's vectors; where batches have one size it is filled up with its last sample."""
    count = batch.stop - batch.start
    if manner is Manner.CHECKED:
        places = np.minimum(np.arange(batch.start, batch.start + _size(encoder)), batch.stop - 1)
        given = rows(samples, places)
    else:
        places, given = np.arange(batch.start, batch.stop), rows(samples, batch)
    vectors = encoder.transform(given)
    dense = np.asarray(vectors.toarray() if hasattr(vectors, "toarray") else vectors)
    if dense.ndim != 2 or len(dense) != len(places):
        raise InvalidInput(f"{type(encoder).__name__} must give (n, dim) vectors, got {dense.shape} for {len(places)}")
    with np.errstate(over="ignore"):
        return dense[:count].astype(np.float32)


def _each_alone(
    encoder: Any, samples: Samples, batch: slice, manner: Manner
) -> Iterator[tuple[slice, NDArray[np.float32]]]:
    for row in range(batch.start, batch.stop):
        alone = slice(row, row + 1)
        try:
            yield alone, _run(encoder, samples, alone, manner)
        except Exception:  # this sample cannot be encoded; what it held stays here
            continue


def _keeps_its_bits(encoder: Any, samples: Samples, manner: Manner) -> bool:
    """Whether no other order changes a bit, and in batches of one size no company of copies either."""
    with part(0, 1, 4):
        expected = encode_public(encoder, samples, manner=manner)
    everyone = np.arange(len(expected))
    orders = (everyone[::-1], np.roll(everyone, 1), seeded(0, "encoding").permutation(len(everyone)))
    for number, order in enumerate(orders, start=1):
        with part(number, number + 1, 4):
            again = encode_public(encoder, rows(samples, order), manner=manner)
        if again.shape != expected.shape or not np.array_equal(_bits(again), _bits(expected[order])):
            return False
    few = everyone[:: max(1, len(everyone) // COPIED)][:COPIED]
    copies = [encode_public(encoder, rows(samples, few[at : at + 1]), manner=manner) for at in range(len(few))]
    return np.array_equal(_bits(np.concatenate(copies)), _bits(expected[few]))


def _bits(vectors: NDArray[np.float32]) -> NDArray[np.uint32]:
    return np.ascontiguousarray(vectors).view(np.uint32)


@contextmanager
def _one_thread(manner: Manner) -> Iterator[None]:
    """More threads would share the work of one product, and add it up in another order."""
    if manner is Manner.EXACT:
        yield
        return
    with threadpool_limits(1):
        yield
