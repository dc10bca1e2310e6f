"""Job files, carried out: what a first user does, gets wrong, mends and runs again."""

from __future__ import annotations

import csv
import inspect
import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from recordwise.data import Schema, read
from recordwise.distiller import PrivateDistiller
from recordwise.encoders.pretrained import pretrained
from recordwise.errors import BudgetExceeded, ChangedInput, InvalidInput, LedgerFault, RecordwiseError
from recordwise.hashing import fingerprint
from recordwise.job import JobFile, read_job
from recordwise.privacy.ledger import Ledger
from recordwise.progress import Silent
from recordwise.randomness import seeded
from recordwise.report import summarize
from recordwise.run import Outcome, run_job
from recordwise.vision.resnet import ResNet
from recordwise.vision.saved import save_weights
from recordwise.vision.steps import fresh_weights

NUM_RECORDS, DIM = 300, 4


@pytest.fixture
def blobs(tmp_path: Path) -> dict[str, np.ndarray]:
    rng = seeded(0, "job")
    y = rng.integers(3, size=NUM_RECORDS + 120)
    X = rng.normal(size=(len(y), DIM)) + 4 * y[:, None]
    made = {"X": X[:NUM_RECORDS], "y": y[:NUM_RECORDS], "pool": X[NUM_RECORDS:]}
    save(tmp_path, **made)
    return made


def save(folder: Path, *, X: Any, y: Any, pool: Any) -> None:
    np.savez(folder / "records.npz", X=X, y=y)
    np.savez(folder / "pool.npz", X=pool)


def run(
    folder: Path,
    privacy: str = "epsilon = 2.0",
    method: str = "num_queries = 12",
    account: str = "",
    records: str = "",
    name: str = "job",
) -> Outcome:
    if "classes" not in method:
        method = f"classes = [0, 1, 2]\n{method}"
    (folder / f"{name}.toml").write_text(
        f"""
[private]
path = "records.npz"
labels = "y"
samples = "X"
[public]
path = "pool.npz"
[privacy]
{privacy}
[account]
{account}
[records]
{records}
[method]
{method}
"""
    )
    return run_job(read_job(folder / f"{name}.toml"), Silent(), go_on=True)  # what a budget buys is no matter here


def test_a_job_without_a_ledger_gets_one_of_exactly_its_epsilon(tmp_path: Path, blobs: dict[str, np.ndarray]) -> None:
    done = run(tmp_path)
    ledger = Ledger.open(done.folder / "ledger.sqlite", read_only=True)
    assert ledger.spent("default") == 2 == ledger.budget("default").epsilon
    assert [entry.note for entry in ledger.history("default")] == ["job"]
    again = run(tmp_path)
    assert again.summary.rounds[0]["tally"] == done.summary.rounds[0]["tally"]


MISTAKES: dict[str, tuple[dict[str, str], str]] = {
    "too few queries": ({"method": "num_queries = 2\nvotes_per_record = 3"}, "k must be <= the 2 queries"),
    "too many queries": ({"method": "num_queries = 121"}, "num_queries must be <= the pool's 120 samples"),
    "epsilon zero": ({"privacy": "epsilon = 0"}, "epsilon must be > 0, got 0$"),
    "epsilon nan": ({"privacy": "epsilon = nan"}, "finite number, got nan"),
    "decoder": ({"method": 'num_queries = 12\ndecoder = "x"'}, "decoder must be one of"),
    "encoder": ({"method": 'num_queries = 12\nencoder = "x"'}, "encoder must be"),
    "distance": ({"method": "num_queries = 12\nqueries = {max_distance = nan}"}, "max_distance must be >= 0"),
    "seed": ({"method": "num_queries = 12\nrandom_state = -1"}, "random_state must be"),
    "unknown setting": ({"account": "bugdet = 1"}, "account has no setting 'bugdet', it has ledger, budget, "),
    "unknown trust": ({"privacy": 'epsilon = 1.0\ntrust = {name = "nobody"}'}, "trust must be one of 'central'"),
    "two folders": ({"account": 'run_dir = "here"'}, "the folder of a run is `out`, not account.run_dir"),
    "no classes": ({"method": "num_queries = 12\nclasses = []"}, "classes must name"),
    "expected records": ({"records": "expected = 0"}, "records: records.expected must be a whole number >= 1, got 0$"),
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_mistake_is_one_line_and_leaves_no_folder(tmp_path: Path, blobs: dict[str, np.ndarray], mistake: str) -> None:
    settings, message = MISTAKES[mistake]
    with pytest.raises(InvalidInput, match=message) as caught:
        run(tmp_path, **settings)
    assert "\n" not in str(caught.value)
    assert not (tmp_path / "runs").exists()


BAD_DATA: dict[str, tuple[dict[str, Any], str]] = {
    "NaN in the pool": ({"pool": np.full((120, DIM), np.nan)}, r"\[public\] samples must be finite, row 0"),
    "labels in columns": ({"y": np.zeros((NUM_RECORDS, 2))}, r"y must have shape \(n,\)"),
    "complex": ({"X": np.ones((NUM_RECORDS, DIM), dtype=complex)}, "Complex data not supported"),
    "one dimension": ({"X": np.arange(NUM_RECORDS) * 1.0}, "shape"),
    "other dimensions": ({"X": np.ones((NUM_RECORDS, DIM + 1))}, "records must have the pool's 4 dimensions, got 5"),
    "no records": ({"X": np.ones((0, DIM)), "y": np.ones(0, dtype=int)}, "X must hold at least one sample"),
    "no pool": ({"pool": np.ones((0, DIM))}, "X_public must hold at least one sample"),
}


@pytest.mark.parametrize("fault", BAD_DATA)
def test_bad_data_is_one_line_and_leaves_no_folder(tmp_path: Path, blobs: dict[str, np.ndarray], fault: str) -> None:
    changed, message = BAD_DATA[fault]
    save(tmp_path, **(blobs | changed))
    with pytest.raises(RecordwiseError, match=message) as caught:
        run(tmp_path)
    assert "\n" not in str(caught.value)
    assert not (tmp_path / "runs").exists()


def test_what_was_refused_can_be_mended_and_run_again(tmp_path: Path, blobs: dict[str, np.ndarray]) -> None:
    """Epsilon may be thought over as long as nothing is spent, although the run has a folder by then."""
    Ledger.open(tmp_path / "small.sqlite").open_budget("us", epsilon=3.5)
    payer = 'ledger = "small.sqlite"\nbudget = "us"'
    with pytest.raises(BudgetExceeded, match="needs epsilon 4"):
        run(tmp_path, privacy="epsilon = 4.0", account=payer)
    assert (tmp_path / "runs" / "job" / "run.json").exists()
    assert run(tmp_path, privacy="epsilon = 3.0", account=payer).summary.guarantee["epsilon"] == 3.0
    with pytest.raises(ChangedInput, match=r"^epsilon was 3\.0"):
        run(tmp_path, privacy="epsilon = 4.0", account=payer)


def test_records_and_classes_that_changed_are_noticed_on_resuming(tmp_path: Path, blobs: dict[str, np.ndarray]) -> None:
    run(tmp_path)
    with pytest.raises(ChangedInput, match="classes"):
        run(tmp_path, method="num_queries = 12\nclasses = [0, 1, 7]")
    save(tmp_path, **(blobs | {"X": blobs["X"][1:], "y": blobs["y"][1:]}))
    with pytest.raises(ChangedInput, match="records"):
        run(tmp_path)


def test_a_job_may_open_its_budget_and_another_job_find_it_spent(tmp_path: Path, blobs: dict[str, np.ndarray]) -> None:
    shared = 'ledger = "shared.sqlite"\nbudget = "us"\nbudget_epsilon = 3.0'
    run(tmp_path, account=shared)
    with pytest.raises(BudgetExceeded, match="needs epsilon 2 but 1 of 3 is left"):
        run(tmp_path, account=shared, name="second")
    with pytest.raises(InvalidInput, match="has no budget 'them'"):
        run(tmp_path, account='ledger = "shared.sqlite"\nbudget = "them"', name="third")
    with pytest.raises(LedgerFault, match=r"sheared.sqlite does not exist"):
        run(tmp_path, account='ledger = "sheared.sqlite"\nbudget = "us"', name="fourth")
    assert not (tmp_path / "sheared.sqlite").exists()


@pytest.mark.parametrize("privacy", ["epsilon = 2.0", "epsilon = 1e9", "epsilon = 1e-6"])
@pytest.mark.parametrize("classes", [1, 3])
def test_a_paid_release_always_reaches_the_page(
    tmp_path: Path, blobs: dict[str, np.ndarray], privacy: str, classes: int
) -> None:
    save(tmp_path, **(blobs | {"y": blobs["y"] % classes}))
    assert "<svg" in (run(tmp_path, privacy=privacy).folder / "report.html").read_text()


def test_labels_are_a_table_whatever_the_classes_are_called(tmp_path: Path, blobs: dict[str, np.ndarray]) -> None:
    names = np.array(['a, "b"', "c\nd", "plain"])
    save(tmp_path, **(blobs | {"y": names[blobs["y"]]}))
    declared = "num_queries = 12\nclasses = " + json.dumps(names.tolist())
    with (run(tmp_path, method=declared).folder / "labels.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == len(blobs["pool"]) and {row["label"] for row in rows} <= set(names)


def test_a_page_of_several_rounds_does_not_claim_to_show_them_all(tmp_path: Path, blobs: dict[str, np.ndarray]) -> None:
    page = (run(tmp_path, method="num_queries = 12\nrounds = 2").folder / "report.html").read_text()
    assert "released 2 such tables" in page and "This is all" not in page


def table_job(folder: Path, records: list[str], extra: str = "", **sections: str) -> Outcome:
    """A job on CSV files: wards that look like numbers in the pool, ages, and a class."""
    pool = [f"{i % 7},{20 + i % 50}.5" for i in range(100)]
    (folder / "pool.csv").write_text("\n".join(["ward,age", *pool]))
    (folder / "records.csv").write_bytes("\n".join(["age,ward,y", *records]).encode("utf-8", "surrogateescape"))
    (folder / "job.toml").write_text(
        '[private]\npath = "records.csv"\nlabels = "y"\n[public]\npath = "pool.csv"\n[privacy]\nepsilon = 1.0\n'
        f"[method]\nnum_queries = 5\nclasses = [0, 1]\n{extra}"
    )
    return run_job(read_job(folder / "job.toml"), Silent(), go_on=True)


def test_columns_of_a_table_are_matched_by_name(tmp_path: Path) -> None:
    (tmp_path / "pool.csv").write_text("age,income\n" + "\n".join(f"{i}.5,{i * 1000}" for i in range(20)))
    for header, row in (
        ("income,age,y", "{1},{0},{2}"),
        ("age,income,y", "{0},{1},{2}"),
        ("y,n,age,income", "{2},a,{0},{1}"),
    ):
        name = header.replace(",", "-")
        lines = [row.format(i, i * 1000, i % 2) for i in range(20)]
        (tmp_path / f"{name}.csv").write_text("\n".join([header, *lines]))

    def read(name: str) -> Any:
        job = JobFile.model_validate(
            {
                "private": {"path": tmp_path / f"{name}.csv", "labels": "y"},
                "public": {"path": tmp_path / "pool.csv"},
                "privacy": {"epsilon": 1.0},
                "method": {"classes": [0, 1]},
            }
        )
        schema, _ = job.read_pool()
        return schema.read(job.private.read("private", schema).samples).samples

    assert np.array_equal(read("income-age-y"), read("age-income-y"))
    assert np.array_equal(read("y-n-age-income"), read("age-income-y"))
    (tmp_path / "lacking.csv").write_text("age,y\n1,0\n")
    with pytest.raises(InvalidInput, match=r"\[private\] lacking.csv has no column 'income'"):
        read("lacking")


def test_records_at_fault_abstain_and_nothing_published_tells(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    ordinary = [f"{20 + i % 50},{i % 7},{i % 2}" for i in range(200)]
    hostile = [
        "31,A,1",
        "31,3",
        "31,3,1,9",
        ",,",
        "x,3,1",
        "31,3,7",
        "31,3,",
        "1e999,3,1",
        "3\udcff1,3,0",
        '"' + "9" * 200_000 + '",3,1',
    ]
    done = table_job(tmp_path, [*ordinary, *hostile])
    shown = "".join(
        path.read_text(errors="replace") for path in done.folder.rglob("*") if path.suffix in (".json", ".html", ".csv")
    )
    for word in ("abstain:", "for the holder", "cannot read", "not declared"):
        assert word not in shown + done.summary.as_text()
    assert done.summary.reading["columns"] == [{"name": "ward", "kind": "number"}, {"name": "age", "kind": "number"}]
    assert done.summary.hashes["schema"] in (done.folder / "report.html").read_text()
    assert capsys.readouterr().out == ""


def test_a_table_with_gaps_in_its_pool_is_a_table(tmp_path: Path) -> None:
    (tmp_path / "d.csv").write_text("a,b\n1,2\n,3\n")
    pq.write_table(pa.table({"a": [1, None], "b": [2, 3]}), tmp_path / "d.parquet")
    schemas = {Schema.of_loaded(read(tmp_path / name)) for name in ("d.csv", "d.parquet")}
    assert [schema.kind for schema in schemas] == ["table"]


BROKEN = np.where(np.arange(5 * DIM).reshape(5, DIM) == 2 * DIM, np.nan, 1.0)
TESTS: dict[str, tuple[dict[str, Any], str]] = {
    "width": ({"X": np.ones((5, DIM + 1))}, r"\[test\] records must have the pool's 4 dimensions, got 5"),
    "names": ({"y": np.array(list("abcab"))}, "declared classes, row 0 holds"),
    "matrix": ({"y": np.ones((5, 3), dtype=int)}, r"\[test\] y must have shape \(n,\)"),
    "a gap": ({"X": BROKEN}, r"\[test\] samples must be finite, row 2"),
    "a label's gap": ({"y": BROKEN[:, 0]}, "declared classes, row 2 holds"),
    "a class nobody declared": ({"y": np.array([0, 1, 7, 2, 7])}, "declared classes, row 2 holds .*7"),
    "nothing": ({"X": np.ones((0, DIM)), "y": np.ones(0, dtype=int)}, "at least one sample"),
}


@pytest.mark.parametrize("fault", TESTS)
def test_a_test_set_that_cannot_be_scored_is_refused_before_spending(
    tmp_path: Path, blobs: dict[str, np.ndarray], fault: str
) -> None:
    changed, message = TESTS[fault]
    np.savez(tmp_path / "test.npz", **({"X": np.ones((5, DIM)), "y": np.ones(5, dtype=int)} | changed))
    declared = "num_queries = 12\nclasses = [0, 1, 2]"
    with pytest.raises(InvalidInput, match=message) as caught:
        run(tmp_path, method=declared + '\n[test]\npath = "test.npz"\nsamples = "X"\nlabels = "y"')
    assert "\n" not in str(caught.value)
    assert not (tmp_path / "runs").exists()


def test_what_is_done_with_a_release_may_be_thought_over_for_free(tmp_path: Path, blobs: dict[str, np.ndarray]) -> None:
    unsure = "epsilon = 0.01"
    method = 'num_queries = 12\nstudent = "linear"\ndecoder = {{min_confidence = 1.0}}\nrounds = {rounds}'
    for rounds in (1, 2):
        with pytest.raises(InvalidInput, match="nothing to teach"):
            run(tmp_path, method=method.format(rounds=rounds), name=f"job{rounds}", privacy=unsure)
    mended = run(
        tmp_path, method='num_queries = 12\nstudent = "mlp"\ndecoder = "posterior"', name="job1", privacy=unsure
    )
    assert mended.summary.ledger is not None and mended.summary.ledger["budgets"]["default"]["spent"] == 0.01
    again = 'num_queries = 12\nstudent = "linear"\ndecoder = {min_confidence = 0.0}\nrounds = 2'
    with pytest.raises(ChangedInput, match="min_confidence"):  # what is asked next depends on it
        run(tmp_path, method=again, name="job2", privacy=unsure)


def test_a_list_of_classes_read_off_the_labels_is_said_to_be_unprotected(
    tmp_path: Path, blobs: dict[str, np.ndarray]
) -> None:
    for classes, said in ((None, True), ([0, 1, 2], False)):
        fitted = PrivateDistiller(2.0, num_queries=12, classes=classes)
        fitted.fit(blobs["X"], blobs["y"], X_public=blobs["pool"])
        assert ("not protected" in summarize(fitted, blobs["pool"], name="x").as_text()) == said
    (tmp_path / "bare.toml").write_text(
        '[private]\npath = "a.npz"\n[public]\npath = "b.npz"\n[privacy]\nepsilon = 1\n[method]\nrounds = 1\n'
    )
    with pytest.raises(InvalidInput, match=r"method\.classes: Field required"):
        read_job(tmp_path / "bare.toml")


def test_a_job_asks_in_the_words_of_the_estimator(tmp_path: Path, blobs: dict[str, np.ndarray]) -> None:
    """Every parameter, and nothing else; a table says what the mapping says."""
    (tmp_path / "schema.toml").write_text('kind = "vectors"\nshape = [4]\n')
    (tmp_path / "job.toml").write_text(
        """
[private]
path = "records.npz"
labels = "y"
samples = "X"
[public]
path = "pool.npz"
[privacy]
epsilon = 2.0
[privacy.trust]
name = "distributed"
parties = 3
[method]
classes = [0, 1, 2]
num_queries = 12
queries = {metric = "cosine", max_distance = 1.5}
decoder = {min_confidence = 0.1}
student = {name = "mlp", hidden = [8], input = "samples"}
[records]
schema = "schema.toml"
overlap = "abstain"
[account]
ledger = "ledger.sqlite"
budget_epsilon = 2.0
"""
    )
    job = read_job(tmp_path / "job.toml")
    assert set(job.settings()) == set(inspect.signature(PrivateDistiller).parameters)
    written = PrivateDistiller(
        2.0,
        trust={"name": "distributed", "parties": 3},
        classes=[0, 1, 2],
        num_queries=12,
        queries={"metric": "cosine", "max_distance": 1.5},
        decoder={"min_confidence": 0.1},
        student={"name": "mlp", "hidden": [8], "input": "samples"},
        records={"schema": tmp_path / "schema.toml", "overlap": "abstain"},
        account={"ledger": str(tmp_path / "ledger.sqlite"), "budget_epsilon": 2.0},
    )
    assert PrivateDistiller(**job.settings()).settings.values() == written.settings.values()
    done = run_job(job, Silent(), go_on=True)
    assert done.summary.settings["trust.parties"] == 3 and done.summary.guarantee["trust"] == "distributed"


def test_encoders_and_students_take_settings(tmp_path: Path, blobs: dict[str, np.ndarray]) -> None:
    method = 'num_queries = 12\nencoder = { name = "pca", dim = 2 }\nstudent = { name = "mlp", hidden = [8] }'
    done = run(tmp_path, method=method)
    assert done.distiller.rounds_[0].queries.vectors.shape == (12, 2)
    assert type(done.distiller.student_).__name__ == "Mlp"
    with pytest.raises(InvalidInput, match="no setting 'dims'"):
        run(tmp_path, method='num_queries = 12\nencoder = { name = "pca", dims = 2 }', name="other")


def test_a_network_on_disk_encodes_and_its_hash_stands_in_the_report(tmp_path: Path) -> None:
    rng = seeded(0, "pictures")
    labels = rng.integers(2, size=200)
    images = rng.integers(0, 100, size=(200, 8, 8), dtype=np.uint8)
    images[labels == 1] += 150
    save(tmp_path, X=images[:140], y=labels[:140], pool=images[140:])
    with fresh_weights(0):
        backbone = ResNet(mean=[0.5], deviation=[0.3], width=2)
    save_weights(backbone, tmp_path / "backbone.safetensors")
    method = 'num_queries = 4\nencoder = "backbone.safetensors"'
    done = run(tmp_path, method=method)
    sha = fingerprint(pretrained(tmp_path / "backbone.safetensors"))
    assert done.summary.hashes["encoder"] == sha
    page = (done.folder / "report.html").read_text()
    assert sha in page
    assert (
        str(tmp_path) not in page + (done.folder / "summary.json").read_text() + (done.folder / "run.json").read_text()
    )

    run(tmp_path, method=method)  # the same file: the run is taken up
    backbone.norm.bias.data[1] += 1e-6
    save_weights(backbone, tmp_path / "backbone.safetensors")
    with pytest.raises(ChangedInput, match=r"encoder was .*Sequential, SHA-256"):
        run(tmp_path, method=method)
    changed = run(tmp_path, method=method, name="anew")
    assert changed.summary.hashes["encoder"] == fingerprint(pretrained(tmp_path / "backbone.safetensors")) != sha


def test_several_labels_of_a_sample_share_a_line(tmp_path: Path) -> None:
    rng = seeded(0, "several")
    y = rng.integers(2, size=(420, 2))
    X = 6.0 * y + rng.normal(size=(420, 2))  # two independent labels: four corners
    save(tmp_path, X=X[:300], y=y[:300], pool=X[300:])
    method = 'num_queries = 8\nclasses = ["hot", "wet"]'
    done = run(tmp_path, "epsilon = 20.0", method, records="labels_per_record = 2")
    with (done.folder / "labels.csv").open() as file:
        found = [row["label"] for row in csv.DictReader(file)]
    expected = [";".join(name for name, on in zip(("hot", "wet"), row, strict=True) if on) for row in y[300:]]
    assert set(found) == {"", "hot", "wet", "hot;wet"}
    assert np.mean([ours == theirs for ours, theirs in zip(found, expected, strict=True)]) > 0.8
