"""Every encoder: a record's vector and votes are functions of that record and of what is public, bit by bit.

Every encoder that has a name or counts as exact, and encoders of others in the way they are used, meet the same
neighbours: one record is removed or replaced by something hostile, all are put in another order or cut up otherwise, on
one thread and on two. Every other record keeps its bits. An encoder that is registered and has no case here fails.
Nothing here is a matter of chance.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from sklearn.decomposition import PCA, TruncatedSVD
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, StandardScaler
from threadpoolctl import threadpool_limits
from torch import nn

from recordwise.data.samples import rows
from recordwise.encoders import Hog, Manner, Pca, Scaler, Table, Text, encode, encode_public, encoder_from, how_encoded
from recordwise.encoders.encoding import EXACT
from recordwise.encoders.joined import Joined
from recordwise.encoders.sentences import Sentences
from recordwise.encoders.sharpened import Sharpened
from recordwise.encoders.spec import _BY_NAME
from recordwise.encoders.words import Words
from recordwise.federation.encoder_bytes import from_bytes, to_bytes
from recordwise.hashing import fingerprint
from recordwise.nearest import NumpyBackend
from recordwise.randomness import seeded
from recordwise.vision.resnet import ResNet
from recordwise.votes import NOBODY, Ballot, cast_votes

RNG = seeded(0, "record by record")
RECORDS = 700  # more than two chunks of every encoder of ours, and no multiple of one
VECTORS_OF_WORDS = Path(__file__).with_name("words.vec")
WORDS = np.array([f"word{number}" for number in range(300)])


class Case(NamedTuple):
    encoder: Callable[[], Any]
    pool: Any
    records: Any
    hostile: list[Any]


def texts(count: int) -> list[str]:
    return [" ".join(RNG.choice(WORDS, RNG.integers(1, 40))) for _ in range(count)]


def table(count: int) -> NDArray[Any]:
    cells = np.empty((count, 4), dtype=object)
    cells[:, 0], cells[:, 2] = RNG.normal(size=count), RNG.integers(0, 90, count)
    cells[:, 1], cells[:, 3] = RNG.choice(list("abcde"), count), RNG.choice(["yes", "no", None], count)
    return cells


VECTORS = RNG.normal(size=(RECORDS + 300, 300)).astype(np.float32)  # wide enough for BLAS to block the sums
WIDE = VECTORS @ RNG.normal(size=(300, 300)).astype(np.float32)
IMAGES = RNG.integers(0, 256, (RECORDS + 100, 16, 16), dtype=np.uint8)
COLOURED = RNG.random((RECORDS + 100, 16, 20, 3), dtype=np.float32)
BAD = [math.nan, math.inf, -math.inf, 3e38, 1e-45, 0.0]


def numbers(encoder: Callable[[], Any], samples: NDArray[Any], pool: int) -> Case:
    hostile = [np.full(samples.shape[1:], value) for value in BAD]
    return Case(encoder, samples[:pool], samples[pool:], hostile)


SHIPPED = {
    "scaler": numbers(Scaler, WIDE, 300),
    "pca": numbers(lambda: Pca(dim=64), WIDE, 300),
    "pca whitened": numbers(lambda: Pca(dim=64, whiten=True), WIDE, 300),
    "sharpened": numbers(lambda: Sharpened(clusters=8), WIDE[:, :64], 300),
    "hog": numbers(Hog, IMAGES.astype(np.float32), 100),
    "hog of colours": numbers(lambda: Hog(cell=3, block=3, orientations=7), COLOURED, 100),
    "hog+pca": numbers(
        lambda: encoder_from([{"name": "hog", "cell": 4}, "pca"], IMAGES, seed=0), IMAGES.astype(np.float32), 100
    ),
    "text": Case(lambda: Text(dim=40), texts(300), texts(RECORDS), ["", "word1 " * 5000, "\ud800\x00", "wörd", " "]),
    "words": Case(
        lambda: Words(VECTORS_OF_WORDS), texts(300), texts(RECORDS), ["", "word1 " * 5000, "\ud800\x00", " "]
    ),
    "table": Case(
        Table,
        table(200),
        table(RECORDS),
        [np.array(row, dtype=object) for row in ([None] * 4, ["A", 2, "?", 7], [math.nan, "a", 1e300, b"yes"])],
    ),
}
OTHERS = {
    "their PCA": numbers(lambda: PCA(20), WIDE, 300),
    "their scaler": numbers(StandardScaler, WIDE, 300),
    "their text": Case(
        lambda: make_pipeline(TfidfVectorizer(), TruncatedSVD(20, random_state=0)),
        texts(300),
        texts(RECORDS),
        SHIPPED["text"].hostile,
    ),
    "a batch's own mean": numbers(lambda: FunctionTransformer(lambda X: X - X.mean(axis=0)), WIDE[:, :20], 300),
    "a network": numbers(lambda: network(1), IMAGES[:300].astype(np.float32)[..., None] / 255, 100),
    "a network and pca": numbers(
        lambda: make_pipeline(network(1), Pca(dim=8)), IMAGES[:300].astype(np.float32)[..., None] / 255, 100
    ),
    "two encoders side by side": Case(
        lambda: Joined([Text(dim=20), Words(VECTORS_OF_WORDS)]), texts(300), texts(RECORDS), SHIPPED["text"].hostile
    ),
    "a text network": Case(lambda: Sentences(TinyNetwork()), texts(50), texts(90), ["", "word1 " * 700, " ", None]),
    "a linear layer": numbers(lambda: encoder_from(linear(), WIDE, seed=0), WIDE, 300),
}


class TinyNetwork:
    """Attention over a few tokens, with sums that depend on the shape of the batch if that were not fixed."""

    name, fingerprint, longest, filler = "tiny", "0" * 64, 64, 0

    def __init__(self) -> None:
        torch.manual_seed(0)
        self.words = nn.Embedding(310, 96)
        self.layer = nn.TransformerEncoderLayer(96, 4, 192, dropout=0.0, batch_first=True).eval()

    def tokens(self, text: str) -> list[int]:
        return [1, *(2 + int(word.removeprefix("word") or 0) for word in text.split())][: self.longest]

    def vectors(self, tokens: NDArray[np.int64], mask: NDArray[np.int64]) -> NDArray[np.float32]:
        with torch.no_grad():
            kept = torch.from_numpy(mask)[:, :, None]
            states = self.layer(self.words(torch.from_numpy(tokens)), src_key_padding_mask=kept[:, :, 0] == 0)
            return ((states * kept).sum(1) / kept.sum(1)).numpy()


class Narrow(TinyNetwork):
    longest = 50

    def vectors(self, tokens: NDArray[np.int64], mask: NDArray[np.int64]) -> NDArray[np.float32]:
        assert tokens.shape[1] <= self.longest, "there is no place for so many tokens"
        return super().vectors(tokens, mask)


def test_a_text_is_never_filled_up_beyond_what_its_network_reads() -> None:
    long = ["word1 " * count for count in (3, 40, 49, 700)]
    assert np.isfinite(encode(Sentences(Narrow()), long)).all()


def network(channels: int) -> Any:
    torch.manual_seed(0)
    return encoder_from(ResNet(mean=[0.5] * channels, deviation=[0.3] * channels, width=8), IMAGES, seed=0)


def linear() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(300, 200), nn.ReLU(), nn.Linear(200, 30))


def bits(vectors: NDArray[np.float32]) -> NDArray[np.uint32]:
    return np.ascontiguousarray(vectors).view(np.uint32)


@contextmanager
def threads(number: int) -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(number)
    try:
        with threadpool_limits(number):
            yield
    finally:
        torch.set_num_threads(before)


def put(samples: Any, row: int, sample: Any) -> Any:
    if not isinstance(samples, np.ndarray):
        return [*samples[:row], sample, *samples[row + 1 :]]
    changed = samples.copy()
    changed[row] = sample
    return changed


def parts(samples: Any, sizes: list[int]) -> Iterator[Any]:
    start = 0
    while start < len(samples):
        step = sizes[start % len(sizes)]
        yield rows(samples, slice(start, start + step))
        start += step


def check_bits(case: Case, encoder: Any, manner: Manner) -> None:
    """Every record has the same bits in any company."""
    dim = encode_public(encoder, case.pool, manner=manner).shape[1]

    def encoded(samples: Any) -> NDArray[np.uint32]:
        return bits(encode(encoder, samples, manner=manner, dim=dim))

    count = len(case.records)
    with threads(1):
        expected = encoded(case.records)
    assert np.isfinite(expected.view(np.float32)).all()
    with threads(2):
        assert np.array_equal(encoded(case.records), expected)
        assert np.array_equal(encoded(rows(case.records, slice(1, None))), expected[1:])
    order = seeded(1, "order").permutation(count)
    assert np.array_equal(encoded(rows(case.records, order)), expected[order])
    cut = np.concatenate([encoded(some) for some in parts(case.records, [1, 3, 130, 64, 7, 257])])
    assert np.array_equal(cut, expected)
    others = np.arange(count) != 5
    for sample in case.hostile:
        changed = encoded(put(case.records, 5, sample))
        assert np.array_equal(changed[others], expected[others])
        assert np.array_equal(changed[5:6], encoded(rows(put(case.records, 5, sample), slice(5, 6))))


@pytest.mark.parametrize("name", [*SHIPPED, *OTHERS])
def test_a_record_has_the_same_bits_in_any_company(name: str) -> None:
    case = (SHIPPED | OTHERS)[name]
    encoder = case.encoder().fit(case.pool)
    manner = how_encoded(encoder, case.pool)
    assert (manner is Manner.EXACT) == (name in SHIPPED)
    check_bits(case, encoder, manner)


class Centred(Scaler):  # type: ignore[misc]
    """A broken twin: it takes the mean of whoever comes together."""

    def transform(self, samples: Any) -> NDArray[np.float32]:
        vectors = super().transform(samples)
        return (vectors - vectors.mean(axis=0)).astype(np.float32)


class Counting(Scaler):  # type: ignore[misc]
    """A broken twin: one hostile record takes all others with it."""

    def transform(self, samples: Any) -> NDArray[np.float32]:
        vectors = super().transform(samples)
        return vectors if np.isfinite(vectors).all() else np.full_like(vectors, np.nan)


@pytest.mark.filterwarnings("ignore:invalid value")
@pytest.mark.parametrize("twin", [Centred, Counting])
def test_a_twin_that_looks_around_is_caught(twin: Any) -> None:
    case = SHIPPED["scaler"]
    with pytest.raises(AssertionError):
        check_bits(case, twin().fit(case.pool), Manner.EXACT)


def test_every_encoder_with_a_name_and_every_one_that_claims_to_be_exact_is_tried_here() -> None:
    tried = {type(case.encoder()) for case in SHIPPED.values()}
    assert tried >= {*_BY_NAME.values(), *EXACT}


@pytest.mark.parametrize("name", SHIPPED)
def test_samples_of_another_type_or_shape_are_not_encoded_and_change_no_other(name: str) -> None:
    case = SHIPPED[name]
    encoder = case.encoder().fit(case.pool)
    few = list(case.records[:40])
    expected = bits(encode(encoder, rows(case.records, slice(0, 40))))
    others = np.arange(40) != 7
    strange = [None, "nan", object(), [[1.0]], 1 + 2j, {"a": 1}, [None], np.zeros((2, 2, 2, 2)), 10**400, b"\xff"]
    for sample in strange if name != "table" else [[None] * 4]:
        if name in ("text", "words") and isinstance(sample, str):
            continue
        changed = encode(encoder, [*few[:7], sample, *few[8:]], dim=expected.shape[1])
        assert np.array_equal(bits(changed)[others], expected[others])
        assert np.isnan(changed[7]).all() or name == "table"


@pytest.mark.parametrize("name", SHIPPED)
def test_an_encoder_is_a_function_of_its_pool_and_arrives_at_a_silo_as_it_left(name: str) -> None:
    case = SHIPPED[name]
    left, again = (case.encoder().fit(case.pool) for _ in range(2))
    arrived = from_bytes(to_bytes(left))
    assert fingerprint(arrived) == fingerprint(left) == fingerprint(again)
    few = rows(case.records, slice(0, 40))
    assert np.array_equal(bits(encode(arrived, few)), bits(encode(left, few)))


def test_integers_too_long_for_float64_are_read_alike_in_every_array() -> None:
    whole = np.array([[2**53 + 1, 5], [2**62 + 3, 7], [1, 2]])
    encoder = Scaler().fit(np.array([[0.0, 0.0], [1.0, 3.0]]))
    expected = bits(encoder.transform(whole))
    mixed = np.array([*whole.tolist(), [None, 1]], dtype=object)
    assert np.array_equal(bits(encoder.transform(mixed))[:3], expected)
    assert np.array_equal(bits(encoder.transform(whole.tolist())), expected)
    assert np.array_equal(bits(encoder.transform(whole.astype(np.float64))), expected)


def near_ties(vectors: NDArray[np.float32], count: int) -> NDArray[np.float32]:
    """Pairs of queries between which the last bits of some record decide: mirror images, in float32, around records."""
    rng = seeded(2, "near ties")
    middle = vectors[rng.choice(len(vectors), count // 2, replace=False)].astype(np.float64)
    apart = rng.normal(size=middle.shape) * 1e-3
    return np.concatenate([middle + apart, middle - apart]).astype(np.float32)


@pytest.mark.parametrize("name", ["pca", "hog+pca", "text", "their PCA", "a linear layer"])
def test_a_record_added_or_removed_moves_the_tally_by_one_vote_where_queries_nearly_tie(name: str) -> None:
    case = (SHIPPED | OTHERS)[name]
    encoder = case.encoder().fit(case.pool)
    manner = how_encoded(encoder, case.pool)
    vectors = encode(encoder, case.records, manner=manner)
    queries = near_ties(vectors, 400)
    ballot = Ballot(num_queries=len(queries), num_classes=2)
    labels = np.arange(RECORDS) % 2

    def voted(left_out: int | None, workers: int) -> NDArray[np.int32]:
        keep = np.arange(RECORDS) != (-1 if left_out is None else left_out)
        with threads(workers):
            seen = encode(encoder, rows(case.records, np.flatnonzero(keep)), manner=manner)
            return cast_votes(seen, labels[keep], queries, ballot, backend=NumpyBackend(threads=workers)).cells()

    def tally(cells: NDArray[np.int32]) -> NDArray[np.int64]:
        return np.bincount(cells[cells != NOBODY], minlength=ballot.num_cells)

    everyone = voted(None, 1)
    for left_out in (0, 1, 350, RECORDS - 1):
        for workers in (1, 2):
            rest = voted(left_out, workers)
            assert np.array_equal(rest, np.delete(everyone, left_out, axis=0))
            assert np.abs(tally(everyone.ravel()) - tally(rest.ravel())).sum() == 1
