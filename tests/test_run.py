"""Job files, carried out: what a first user does, gets wrong, mends and runs again."""

from __future__ import annotations

import csv
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from recordwise.encoders.pretrained import pretrained
from recordwise.errors import BudgetExceeded, ChangedInput, InvalidInput, LedgerFault, RecordwiseError
from recordwise.hashing import fingerprint
from recordwise.job import read_job
from recordwise.privacy.ledger import Ledger
from recordwise.progress import Silent
from recordwise.randomness import seeded
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


def run(folder: Path, privacy: str = "epsilon = 2.0", method: str = "num_queries = 12", name: str = "job") -> Outcome:
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
[method]
{method}
"""
    )
    return run_job(read_job(folder / f"{name}.toml"), Silent())


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
    "distance": ({"method": "num_queries = 12\nmax_distance = nan"}, "max_distance must be >= 0"),
    "seed": ({"method": "num_queries = 12\nrandom_state = -1"}, "random_state must be"),
    "no classes": ({"method": "num_queries = 12\nclasses = []"}, "classes must name"),
    "expected records": ({"method": "num_queries = 12\nexpected_records = 0"}, "expected_records must be"),
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_mistake_is_one_line_and_leaves_no_folder(tmp_path: Path, blobs: dict[str, np.ndarray], mistake: str) -> None:
    settings, message = MISTAKES[mistake]
    with pytest.raises(InvalidInput, match=message) as caught:
        run(tmp_path, **settings)
    assert "\n" not in str(caught.value)
    assert not (tmp_path / "runs").exists()


BAD_DATA: dict[str, tuple[dict[str, Any], str]] = {
    "NaN": ({"X": np.full((NUM_RECORDS, DIM), np.nan)}, r"\[private\] samples must be finite, row 0"),
    "NaN in the pool": ({"pool": np.full((120, DIM), np.nan)}, r"\[public\] samples must be finite, row 0"),
    "labels NaN": ({"y": np.full(NUM_RECORDS, np.nan)}, "NaN"),
    "labels not whole": ({"y": np.linspace(0, 1, NUM_RECORDS)}, "label type"),
    "one dimension": ({"X": np.arange(NUM_RECORDS) * 1.0}, "shape"),
    "other dimensions": ({"X": np.ones((NUM_RECORDS, DIM + 1))}, "records must have the pool's 4 dimensions, got 5"),
    "no records": ({"X": np.ones((0, DIM)), "y": np.ones(0, dtype=int)}, "0 sample"),
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
    payer = '\nledger = "small.sqlite"\nbudget = "us"'
    with pytest.raises(BudgetExceeded, match="needs epsilon 4"):
        run(tmp_path, privacy="epsilon = 4.0" + payer)
    assert (tmp_path / "runs" / "job" / "run.json").exists()
    assert run(tmp_path, privacy="epsilon = 3.0" + payer).summary.guarantee["epsilon"] == 3.0
    with pytest.raises(ChangedInput, match=r"^epsilon was 3\.0"):
        run(tmp_path, privacy="epsilon = 4.0" + payer)


def test_records_and_classes_that_changed_are_noticed_on_resuming(tmp_path: Path, blobs: dict[str, np.ndarray]) -> None:
    run(tmp_path)
    save(tmp_path, **(blobs | {"y": np.where(blobs["y"] == 2, 7, blobs["y"])}))
    with pytest.raises(ChangedInput, match="classes"):
        run(tmp_path)
    save(tmp_path, **(blobs | {"X": blobs["X"][1:], "y": blobs["y"][1:]}))
    with pytest.raises(ChangedInput, match="records"):
        run(tmp_path)


def test_a_job_may_open_its_budget_and_another_job_find_it_spent(tmp_path: Path, blobs: dict[str, np.ndarray]) -> None:
    shared = 'epsilon = 2.0\nledger = "shared.sqlite"\nbudget = "us"\nbudget_epsilon = 3.0'
    run(tmp_path, privacy=shared)
    with pytest.raises(BudgetExceeded, match="needs epsilon 2 but 1 of 3 is left"):
        run(tmp_path, privacy=shared, name="second")
    with pytest.raises(InvalidInput, match="has no budget 'them'"):
        run(tmp_path, privacy='epsilon = 1.0\nledger = "shared.sqlite"\nbudget = "them"', name="third")
    with pytest.raises(LedgerFault, match=r"sheared.sqlite does not exist"):
        run(tmp_path, privacy='epsilon = 1.0\nledger = "sheared.sqlite"\nbudget = "us"', name="fourth")
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
    with (run(tmp_path).folder / "labels.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == len(blobs["pool"]) and {row["label"] for row in rows} <= set(names)


def test_a_page_of_several_rounds_does_not_claim_to_show_them_all(tmp_path: Path, blobs: dict[str, np.ndarray]) -> None:
    page = (run(tmp_path, method="num_queries = 12\nrounds = 2").folder / "report.html").read_text()
    assert "the like of 1 more" in page and "This is all" not in page


def test_columns_in_another_order_are_refused(tmp_path: Path) -> None:
    """Numbers alone would be taken for each other without a word."""
    (tmp_path / "records.csv").write_text("income,age,y\n" + "\n".join(f"{i * 1000},{i},{i % 2}" for i in range(20)))
    (tmp_path / "pool.csv").write_text("age,income\n" + "\n".join(f"{i}.5,{i * 1000}" for i in range(20)))
    (tmp_path / "job.toml").write_text(
        '[private]\npath = "records.csv"\nlabels = "y"\n[public]\npath = "pool.csv"\n[privacy]\nepsilon = 1.0\n'
    )
    with pytest.raises(InvalidInput, match=r"pool's columns in its order \(age, income\), got income, age"):
        run_job(read_job(tmp_path / "job.toml"), Silent())
    assert not (tmp_path / "runs").exists()


BROKEN = np.where(np.arange(5 * DIM).reshape(5, DIM) == 2 * DIM, np.nan, 1.0)
TESTS: dict[str, tuple[dict[str, Any], str]] = {
    "width": ({"X": np.ones((5, DIM + 1))}, "shape"),
    "names": ({"y": np.array(list("abcab"))}, "labels must be of the kind"),
    "matrix": ({"y": np.ones((5, 3), dtype=int)}, "labels must be of the kind"),
    "a gap": ({"X": BROKEN}, r"\[test\] samples must be finite, row 2"),
    "a label's gap": ({"y": BROKEN[:, 0]}, "labels must have no gaps"),
    "a class nobody declared": ({"y": np.array([0, 1, 7, 2, 7])}, "declared classes, row 2 holds 7"),
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


def test_a_test_table_with_words_among_the_pool_s_numbers_is_refused_before_spending(tmp_path: Path) -> None:
    for name in ("records", "pool", "test"):
        rows = [f"{i}.{len(name)},{'AB'[i % 2]},{i % 2}" for i in range(20)]
        (tmp_path / f"{name}.csv").write_text("crp,ward,y\n" + "\n".join(rows + ["n/a,A,1"] * (name == "test")))
    section = '[{0}]\npath = "{1}.csv"\nsamples = ["crp", "ward"]\nlabels = "y"\n'
    sections = [("private", "records"), ("public", "pool"), ("test", "test")]
    job = "".join(section.format(*names) for names in sections) + "[privacy]\nepsilon = 1.0\n"
    (tmp_path / "job.toml").write_text(job)
    with pytest.raises(InvalidInput, match=r"\[test\] column 'crp' must hold numbers"):
        run_job(read_job(tmp_path / "job.toml"), Silent())
    assert not (tmp_path / "runs").exists()


def test_what_is_done_with_a_release_may_be_thought_over_for_free(tmp_path: Path, blobs: dict[str, np.ndarray]) -> None:
    unsure = "epsilon = 0.01"
    method = "num_queries = 12\nmin_confidence = 1.0\nrounds = {rounds}"
    for rounds in (1, 2):
        with pytest.raises(InvalidInput, match="nothing to teach"):
            run(tmp_path, method=method.format(rounds=rounds), name=f"job{rounds}", privacy=unsure)
    mended = run(
        tmp_path, method='num_queries = 12\nstudent = "mlp"\ndecoder = "posterior"', name="job1", privacy=unsure
    )
    assert mended.summary.ledger is not None and mended.summary.ledger["budgets"]["default"]["spent"] == 0.01
    with pytest.raises(ChangedInput, match="min_confidence"):  # what is asked next depends on it
        run(tmp_path, method="num_queries = 12\nmin_confidence = 0.0\nrounds = 2", name="job2", privacy=unsure)


def test_a_list_of_classes_read_off_the_labels_is_said_to_be_unprotected(
    tmp_path: Path, blobs: dict[str, np.ndarray]
) -> None:
    assert "not protected" in run(tmp_path).summary.as_text()
    declared = run(tmp_path, method="num_queries = 12\nclasses = [0, 1, 2]", name="declared")
    assert "not protected" not in declared.summary.as_text()


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
    done = run(tmp_path, "epsilon = 20.0", 'num_queries = 8\nlabels_per_record = 2\nclasses = ["hot", "wet"]')
    with (done.folder / "labels.csv").open() as file:
        found = [row["label"] for row in csv.DictReader(file)]
    expected = [";".join(name for name, on in zip(("hot", "wet"), row, strict=True) if on) for row in y[300:]]
    assert set(found) == {"", "hot", "wet", "hot;wet"}
    assert np.mean([ours == theirs for ours, theirs in zip(found, expected, strict=True)]) > 0.8
