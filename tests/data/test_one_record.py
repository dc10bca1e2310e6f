"""A record's votes are a function of that record and of what is public: from a file's bytes, through every reader.

Nothing here is a matter of chance, but for noise at an epsilon so large that there is none (a chance below 1e-1000).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import nullcontext
from numbers import Real
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from PIL import Image
from threadpoolctl import threadpool_limits

from recordwise import records
from recordwise.audit.files import CsvFile, DatasetFolder, Workbook, form_of, replay_files
from recordwise.data import Schema
from recordwise.distiller import PrivateDistiller
from recordwise.encoders import encode, encoder_from
from recordwise.job import read_job
from recordwise.nearest import backend
from recordwise.nearest import search as nearest
from recordwise.nearest.backend import NumpyBackend
from recordwise.privacy.guarantee import Neighbours
from recordwise.progress import Silent
from recordwise.queries import Queries
from recordwise.randomness import seeded
from recordwise.records import Records, Why, as_labels, cast, read_labels
from recordwise.run import run_job
from recordwise.sections import Source
from recordwise.votes import Ballot, Votes

NO_NOISE = 1e6
NUM_POOL, NUM_RECORDS, CLASSES = 40, 37, ["a", "b", "c"]
BALLOT = Ballot(num_queries=6, num_classes=3, votes_per_record=2)


# What was found: one record moved the votes of others. Written against the estimator and job files alone.


def tally(X: Any, y: Any, pool: Any, **settings: Any) -> np.ndarray:
    quick = {"decoder": "argmax", "student": "linear"}
    one = PrivateDistiller(NO_NOISE, num_queries=20, classes=[0, 1, 2], **quick, **settings)
    release = one.fit(X, y, X_public=pool).rounds_[0].release
    return release.estimate  # type: ignore[union-attr, no-any-return]


def moved(X: Any, other: Any, y: Any, pool: Any, **settings: Any) -> float:
    return float(np.abs(tally(X, y, pool, **settings) - tally(other, y, pool, **settings)).sum())


def test_one_word_among_the_wards_of_a_csv_moves_one_record(tmp_path: Path) -> None:
    rng = seeded(0, "wards")
    ages, wards = rng.normal(50, 15, size=1300).round(9), rng.integers(1, 10, size=1300)
    pool = [
        f"{age},{'A' if row % 50 == 0 else ward}"
        for row, (age, ward) in enumerate(zip(ages[1000:], wards[1000:], strict=True))
    ]
    (tmp_path / "pool.csv").write_text("\n".join(["age,ward", *pool]))

    def released(changed: bool) -> np.ndarray:
        rows = [
            f"{age},{ward},{row % 3}" for row, (age, ward) in enumerate(zip(ages[:1000], wards[:1000], strict=True))
        ]
        if changed:
            rows[17] = f"{ages[17]},A,2"
        (tmp_path / "records.csv").write_text("\n".join(["age,ward,y", *rows]))
        name = "after" if changed else "before"
        (tmp_path / f"{name}.toml").write_text(
            '[private]\npath = "records.csv"\nlabels = "y"\n[public]\npath = "pool.csv"\n'
            f"[privacy]\nepsilon = {NO_NOISE}\n[method]\nnum_queries = 40\nclasses = [0, 1, 2]\n"
        )
        release = run_job(read_job(tmp_path / f"{name}.toml"), Silent(), go_on=True).distiller.rounds_[0].release
        return release.estimate  # type: ignore[union-attr, no-any-return]

    assert np.abs(released(False) - released(True)).sum() <= 2


def test_one_gap_in_a_list_of_lists_moves_one_record() -> None:
    rng = seeded(0, "gap")
    X, pool = (
        [[float(a), str(b)] for a, b in zip(rng.normal(size=n), rng.integers(3, size=n), strict=True)]
        for n in (1000, 300)
    )
    other = [list(row) for row in X]
    other[17][0] = None  # type: ignore[call-overload]
    assert moved(X, other, [0, 1] * 500, pool) <= 2


def test_one_gap_in_a_column_of_whole_numbers_moves_one_record() -> None:
    rng = seeded(0, "whole")
    X, pool = (
        pd.DataFrame(
            {"ward": rng.integers(1, 9, size=n), "sex": rng.choice(["f", "m"], size=n), "age": rng.normal(size=n)}
        )
        for n in (1000, 300)
    )
    pool["ward"] = ["A", *pool["ward"].tolist()[1:]]  # words and numbers: categories
    other = X.astype({"ward": float})
    other.loc[17, "ward"] = np.nan
    assert moved(X, other, [0, 1] * 500, pool) <= 2


def test_one_coloured_image_moves_one_record(tmp_path: Path) -> None:
    rng = seeded(0, "pictures")
    pictures = rng.integers(0, 255, size=(60, 16, 16), dtype=np.uint8)
    for row, picture in enumerate(pictures[:30]):
        folder = tmp_path / "records" / "ab"[row % 2]
        folder.mkdir(parents=True, exist_ok=True)
        Image.fromarray(picture).save(folder / f"{row:02}.png")
    (tmp_path / "pool").mkdir()
    for row, picture in enumerate(pictures[30:]):
        Image.fromarray(picture).save(tmp_path / "pool" / f"{row}.png")

    def released(name: str) -> np.ndarray:
        (tmp_path / f"{name}.toml").write_text(
            f'[private]\npath = "records"\n[public]\npath = "pool"\n[privacy]\nepsilon = {NO_NOISE}\n'
            '[method]\nnum_queries = 5\nclasses = ["a", "b"]\nencoder = "pca"\n'
        )
        release = run_job(read_job(tmp_path / f"{name}.toml"), Silent(), go_on=True).distiller.rounds_[0].release
        return release.estimate  # type: ignore[union-attr, no-any-return]

    before = released("before")
    Image.new("RGB", (16, 16), (200, 30, 30)).save(tmp_path / "records" / "a" / "04.png")
    assert np.abs(before - released("after")).sum() <= 2


# The property: every reader × every encoder that takes what it reads × add, remove, replace and reorder × threads.

rng = seeded(0, "one record")
NUMBERS = rng.normal(size=(NUM_POOL + NUM_RECORDS, 3)).round(3)
WORDS = rng.choice(["ward", "fever", "cough", "bone", "fall", "rash"], size=(NUM_POOL + NUM_RECORDS, 4))
PICTURES = rng.integers(0, 255, size=(NUM_POOL + NUM_RECORDS, 16, 16), dtype=np.uint8)
DAYS = [f"2020-01-{1 + day % 28:02}" for day in range(NUM_POOL + NUM_RECORDS)]
LABELS = rng.choice(CLASSES, size=NUM_RECORDS)


def mixed() -> list[list[Any]]:
    return [
        [float(row[0]), str(word[0]), day, int(3 * row[1])] for row, word, day in zip(NUMBERS, WORDS, DAYS, strict=True)
    ]


def csv_of(path: Path, rows: list[list[Any]], labels: list[str] | None) -> None:
    header = [f"c{place}" for place in range(len(rows[0]))] + (["y"] if labels is not None else [])
    lines = [[*row, *([labels[at]] if labels is not None else [])] for at, row in enumerate(rows)]
    path.write_text("\n".join(",".join(map(str, line)) for line in [header, *lines]) + "\n")


def parquet_of(path: Path, rows: list[list[Any]], labels: list[str] | None) -> None:
    columns = {f"c{place}": list(column) for place, column in enumerate(zip(*rows, strict=True))}
    pq.write_table(pa.table(columns | ({} if labels is None else {"y": labels})), path)


SPELLINGS: dict[str, dict[str, Any]] = {
    "semicolons": {"ending": ".csv", "delimiter": ";", "encoding": "latin-1", "decimal": ","},
    "packed": {"ending": ".csv.gz", "delimiter": "|", "encoding": "utf-16"},
    "tabs": {"ending": ".tsv", "encoding": "cp1252"},
    "workbook": {"ending": ".xlsx", "sheet": "Tabelle1"},
    "dataset": {"ending": ""},
}


def spelled_otherwise(content: str, folder: Path) -> tuple[Source, Source]:
    """The same table in a layout that the source declares."""
    how = dict(SPELLINGS[content])
    ending = how.pop("ending")
    parts = []
    for name, rows, labels in (
        ("pool", mixed()[:NUM_POOL], None),
        ("records", mixed()[NUM_POOL:], LABELS.tolist()),
    ):
        path = folder / f"{name}{ending}"
        if not ending:
            path.mkdir()
        source = Source(path=path, labels=None if labels is None else "y", **how)
        header = [f"c{place}" for place in range(4)] + (["y"] if labels is not None else [])
        lines = [[*row, *([labels[at]] if labels is not None else [])] for at, row in enumerate(rows)]
        if how.get("decimal") == ",":
            lines = [[str(line[0]).replace(".", ","), "Größe " + line[1], *line[2:]] for line in lines]
        made: Any = {".xlsx": Workbook, "": DatasetFolder}.get(ending, CsvFile)
        form = made.__new__(made)
        form.source, form.header = source, header
        if made is DatasetFolder:
            form.table = pa.table(dict(zip(header, map(list, zip(*lines, strict=True)), strict=True)))
            lines = list(range(len(lines)))  # type: ignore[arg-type]
        if made is Workbook:
            pytest.importorskip("openpyxl")
        written, _ = form.write(lines, path if path.is_dir() else folder)
        written.path.rename(path)
        parts.append(source)
    return parts[1], parts[0]


def write_files(reader: str, folder: Path) -> tuple[Source, Source]:
    """The records and the pool, as files of this form."""
    form, _, content = reader.partition(" ")
    labels = LABELS.tolist()
    if form == "folder":
        for row, picture in enumerate(PICTURES):
            place = folder / "pool" if row < NUM_POOL else folder / "records" / labels[row - NUM_POOL]
            place.mkdir(parents=True, exist_ok=True)
            Image.fromarray(picture).save(place / f"{row:03}.png")
        return Source(path=folder / "records"), Source(path=folder / "pool")
    if form == "spelled":
        return spelled_otherwise(content, folder)
    if form in ("csv", "parquet"):
        rows = {"table": mixed(), "numbers": NUMBERS.tolist(), "text": [[" ".join(words)] for words in WORDS]}.get(
            content
        )
        write = csv_of if form == "csv" else parquet_of
        if rows is None:
            rows = [[row] for row in NUMBERS.tolist()]
        write(folder / f"pool.{form}", rows[:NUM_POOL], None)
        write(folder / f"records.{form}", rows[NUM_POOL:], labels)
        return Source(path=folder / f"records.{form}", labels="y"), Source(path=folder / f"pool.{form}")
    if form == "txt":
        lines = [" ".join(words) for words in WORDS]
        (folder / "pool.txt").write_text("\n".join(lines[:NUM_POOL]) + "\n")
        (folder / "records.txt").write_text("\n".join(lines[NUM_POOL:]) + "\n")
        (folder / "y.txt").write_text("\n".join(labels) + "\n")
        return Source(path=folder / "records.txt", labels="y.txt"), Source(path=folder / "pool.txt")
    arrays = {"numbers": NUMBERS, "whole": (100 * NUMBERS).astype(np.int32), "pictures": PICTURES}[content]
    if form == "npy":
        np.save(folder / "pool.npy", arrays[:NUM_POOL])
        np.save(folder / "records.npy", arrays[NUM_POOL:])
        np.save(folder / "y.npy", LABELS)
        return Source(path=folder / "records.npy", labels="y.npy"), Source(path=folder / "pool.npy")
    np.savez(folder / "pool.npz", X=arrays[:NUM_POOL])
    np.savez(folder / "records.npz", X=arrays[NUM_POOL:], y=LABELS)
    return Source(path=folder / "records.npz", labels="y"), Source(path=folder / "pool.npz")


ENCODERS = {
    "csv table": ["table"],
    "csv numbers": ["scaler", "pca", "table"],
    "csv text": ["text"],
    "parquet table": ["table"],
    "parquet numbers": ["scaler", "pca", "table"],
    "parquet text": ["text"],
    "parquet vectors": ["scaler", "pca"],
    "npy numbers": ["scaler", "pca", "table"],
    "npy whole": ["scaler", "table"],
    "npz numbers": ["scaler", "pca"],
    "npz pictures": ["pca", "hog", "hog+pca"],
    "txt": ["text"],
    **{f"spelled {name}": ["table"] for name in SPELLINGS},
    "folder": ["pca", "hog", "hog+pca"],
}
PAIRS = [(reader, encoder) for reader, encoders in ENCODERS.items() for encoder in encoders]
# Every pair with one thread; with two, which on busy cores mostly wait for each other, every encoder once: threads
# share out vectors, and a reader's work is done by then.
WITH_TWO = list({encoder: (reader, encoder) for reader, encoder in reversed(PAIRS)}.values())
THREADS = {1: "one thread", 2: "two threads"}


@pytest.fixture(params=THREADS, ids=THREADS.get)
def small_batches(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Batches so small that a record more or less shifts all of them."""
    monkeypatch.setattr(records, "CHUNK", 19)
    monkeypatch.setattr(backend, "SPAN", 8)
    monkeypatch.setattr(records, "NUMPY", NumpyBackend(threads=request.param))
    monkeypatch.setattr(nearest, "_one_blas_thread_each", nullcontext)  # looking for BLAS libraries takes far too long
    with threadpool_limits(request.param):
        yield


def voting(schema: Schema, pool: Any, encoder_name: str) -> Callable[[Any, Any], tuple[Votes, Any]]:
    typed = schema.pool(pool)
    encoder = encoder_from(encoder_name, typed, seed=0).fit(typed)
    vectors = encode(encoder, typed)[:: NUM_POOL // 6][:6]
    queries = Queries(vectors=vectors, owner=np.arange(6))

    def votes(samples: Any, labels: Any) -> tuple[Votes, Any]:
        numbers, why = read_labels(as_labels(labels, len(samples)), CLASSES, 1)
        held = Records(samples, numbers, why, pool=typed)
        found, unread, _ = cast(held, schema=schema, encoder=encoder, manner=None, queries=queries, ballot=BALLOT)
        return found, np.where(unread == 0, why, unread)

    return votes


@pytest.mark.parametrize(
    ("small_batches", "reader", "encoder"),
    [
        pytest.param(threads, *pair, id=f"{told}-{' · '.join(pair)}")
        for threads, told in THREADS.items()
        for pair in (PAIRS if threads == 1 else WITH_TWO)
    ],
    indirect=["small_batches"],
)
@pytest.mark.usefixtures("small_batches")
def test_no_record_of_a_file_moves_another(reader: str, encoder: str, tmp_path: Path) -> None:
    private, public = write_files(reader, tmp_path)
    loaded = public.read("public")
    schema = Schema.of_loaded(loaded)
    votes = voting(schema, loaded.samples, encoder)

    def votes_of(source: Source) -> list[Votes]:
        held = source.read("private", schema)
        return [votes(held.samples, held.labels)[0]]

    assert (votes_of(private)[0].queries != -1).all(), "an ordinary record votes"
    result = replay_files(private, votes_of, Neighbours.REPLACE, ())
    assert not result.violated, result.as_text()
    relations = {change.allowed for change in result.changes}
    assert relations == {0, 2, 4} and len(result.changes) >= 5 + 3 * 3
    assert max(change.moved or 0 for change in result.changes) >= 2, "no change was seen at all: the check is idle"


class Unspeakable(Real):  # type: ignore[misc]  # a number that is none, and no array either
    def _says_no(self, *args: Any, **named: Any) -> Any:
        raise RuntimeError

    __float__ = __repr__ = __array__ = _says_no


Unspeakable.__abstractmethods__ = frozenset()  # type: ignore[attr-defined]

TABLE = mixed()
HOLDERS: dict[str, tuple[Any, str]] = {
    "list of lists": (TABLE, "table"),
    "list of tuples": ([tuple(row) for row in TABLE], "table"),
    "object array": (np.array(TABLE, dtype=object), "table"),
    "frame": (pd.DataFrame(TABLE, columns=list("pqrs")), "table"),
    "float64": (NUMBERS, "scaler"),
    "float32": (NUMBERS.astype(np.float32), "scaler"),
    "float16": (NUMBERS.astype(np.float16), "scaler"),
    "int16": ((100 * NUMBERS).astype(np.int16), "scaler"),
    "lists of numbers": (NUMBERS.tolist(), "pca"),
    "frame of numbers": (pd.DataFrame(NUMBERS, columns=list("pqr")), "scaler"),
    "strings": ([" ".join(words) for words in WORDS], "text"),
    "array of strings": (np.array([" ".join(words) for words in WORDS], dtype=object), "text"),
    "series": (pd.Series([" ".join(words) for words in WORDS]), "text"),
    "pictures": (PICTURES, "hog"),
    "list of pictures": (list(PICTURES), "hog"),
    "list of Pillow's pictures": ([Image.fromarray(one) for one in PICTURES], "hog"),
    "floating pictures": (PICTURES / 255, "hog"),
}
ONE_EACH = list({encoder: holder for holder, (_, encoder) in HOLDERS.items()}.values())  # of every encoder


def doubtful() -> Image.Image:
    """An image of which Pillow warns."""
    image = Image.new("P", (16, 16))
    image.info["transparency"] = b"\x00\x01"
    return image


CELLS: list[Any] = [
    None,
    np.nan,
    np.inf,
    -1e300,
    10**400,
    "",
    "A",
    "2",
    b"\xff",
    "\udcff",
    True,
    [1],
    {},
    object(),
    pd.NA,
    pd.NaT,
    *[cell for cell in (10**5000, np.complex128(1 + 2j), np.datetime64(2**62, "s"), Unspeakable()) for _ in "ab"],
]
STRANGE: dict[str, list[Any]] = {
    "rows": [[cell] * (3 + number % 2) for number, cell in enumerate(CELLS)]
    + [None, [], [1.0], "text", 5, np.zeros((2, 2)), np.array(5.0), pd.Series([1, "a"])],
    "text": [None, "", np.nan, 5, b"\xff", b"good", "\udcff", "word " * 5000, ["a", "b"], object(), np.array("x")],
    "pictures": [
        None,
        "text",
        np.zeros((16, 16, 3), np.uint8),
        np.zeros((16, 16, 4), np.uint8),
        np.zeros((3, 100), np.uint8),
        np.full((16, 16), np.nan),
        np.full((16, 16), 1000),
        np.zeros((0, 16), np.uint8),
        np.zeros((16, 16, 7), np.uint8),
        Image.new("CMYK", (5, 9)),
        Image.new("I;16", (16, 16)),
        doubtful(),
        np.full((16, 16, 3), (np.inf, -np.inf, 1.0)),
        np.full((9, 9), 1e300),
        np.full((9, 9), 2**63 - 1),
        Unspeakable(),
        object(),
    ],
}
ODD_LABELS: list[Any] = [None, "", "nobody", np.nan, 2, b"\xff", ["a"], object(), 10**5000, np.complex64(1j), "a"]


def as_list(samples: Any) -> list[Any]:
    return samples.to_numpy(dtype=object).tolist() if hasattr(samples, "iloc") else list(samples)


@pytest.mark.parametrize(
    ("small_batches", "holder"),
    [
        pytest.param(threads, holder, id=f"{told}-{holder}")
        for threads, told in THREADS.items()
        for holder in (HOLDERS if threads == 1 else ONE_EACH)
    ],
    indirect=["small_batches"],
)
@pytest.mark.usefixtures("small_batches")
def test_no_record_in_memory_moves_another(holder: str) -> None:
    samples, encoder = HOLDERS[holder]
    pool, held = (
        (samples[:NUM_POOL], samples[NUM_POOL:])
        if not hasattr(samples, "iloc")
        else (samples.iloc[:NUM_POOL], samples.iloc[NUM_POOL:])
    )
    votes = voting(Schema.of(pool), pool, encoder)
    before, why = votes(held, LABELS)
    assert (why == Why.VOTES).all()
    kind = "text" if encoder == "text" else "pictures" if encoder == "hog" else "rows"
    plain, labels = as_list(held), LABELS.tolist()
    again, _ = votes(plain, labels)
    assert np.array_equal(again.cells(), before.cells()), "what holds the records is no part of them"
    for number, strange in enumerate(STRANGE[kind]):
        odd = ODD_LABELS[number % len(ODD_LABELS)]
        at = number % NUM_RECORDS
        replaced, _ = votes([*plain[:at], strange, *plain[at + 1 :]], [*labels[:at], odd, *labels[at + 1 :]])
        rest = np.delete(np.arange(NUM_RECORDS), at)
        assert np.array_equal(replaced.cells()[rest], before.cells()[rest])
        added, _ = votes([strange, *plain], [odd, *labels])
        assert np.array_equal(added.cells()[1:], before.cells())
        removed, _ = votes(plain[:at] + plain[at + 1 :], labels[:at] + labels[at + 1 :])
        assert np.array_equal(removed.cells(), before.cells()[rest])
    turned, _ = votes(plain[::-1], labels[::-1])
    assert np.array_equal(turned.cells()[::-1], before.cells())


# A replay that could not find anything would prove nothing: readers that look around are caught.


def test_a_reader_that_lets_records_decide_is_caught(tmp_path: Path) -> None:
    """Each file's own rows decide what a column, or an image, is: as it was before the pool did."""
    for reader, encoder in (("csv table", "table"), ("folder", "pca"), ("parquet vectors", "scaler")):
        folder = tmp_path / reader
        folder.mkdir()
        private, public = write_files(reader, folder)
        loaded = public.read("public")
        votes = voting(Schema.of_loaded(loaded), loaded.samples, encoder)

        def votes_of(source: Source, votes: Any = votes) -> list[Votes]:
            held = source.read("private")
            decided = Schema.of_loaded(held)
            return [votes(list(decided.read(held.samples).samples), held.labels)[0]]

        result = replay_files(private, votes_of, Neighbours.REPLACE, ())
        assert result.violated, reader


def test_every_form_of_file_gives_back_its_records(tmp_path: Path) -> None:
    for reader in ENCODERS:
        folder = tmp_path / reader
        folder.mkdir()
        private, _ = write_files(reader, folder)
        form = form_of(private)
        (folder / "copy").mkdir()
        copy, place = form.write(form.items, folder / "copy")
        assert len(form.items) == NUM_RECORDS and place == list(range(NUM_RECORDS)), reader
        assert copy.read("private").labels.tolist() == private.read("private").labels.tolist()  # type: ignore[union-attr]
