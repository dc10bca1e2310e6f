from __future__ import annotations

import json
import sys
from pathlib import Path

import numpy as np
import pytest
from experiments.labelling import HERE, answers, ask, grid, label, linear_student, right, write
from experiments.neighbours import DECODERS
from experiments.rows import CLASSES, Setting, named, result_row
from experiments.sources import Features, Source, as_in_the_paper, read_features, sources
from experiments.together import clusters_of, members_of

from experiments import compact, labelling, together
from recordwise.data import Rule

FEATURES = HERE / "features"


@pytest.fixture(scope="module")
def mnist() -> Features:
    return read_features(Source(data="mnist", way="together", rule=Rule.CLEAN), "all", FEATURES)


@pytest.fixture(scope="module")
def cifar10() -> Features:
    return read_features(Source(data="cifar10", way="", rule=Rule.CLEAN), "11", FEATURES)


def committed(features: Features, setting: Setting) -> tuple[float, float]:
    """Label and test accuracy of the first draw, as they stand in the repository."""
    rows = json.loads((HERE / "results" / f"{features.source.data}.json").read_text())
    wanted = {
        "setting": setting.name,
        "student": "linear",
        "split": str(features.source.rule),
        "way": features.source.way or "alone",
    }
    row = next(row for row in rows if wanted.items() <= row.items() and f"{features.seed}/0" in row["seeds"])
    at = row["seeds"].index(f"{features.seed}/0")
    return row["label_accuracy"][at], row["test_accuracy"][at]


@pytest.mark.parametrize(
    "setting",
    [Setting(s=10, epsilon=0.01), Setting(s=40, epsilon=0.1), Setting(s=10, epsilon=0.1, protocol="distributed")],
)
def test_committed_features_give_the_committed_accuracies(mnist: Features, setting: Setting):
    labels = label(mnist, setting, draw=0)
    found = right(labels, mnist.labels["public"]), right(linear_student(mnist, labels), mnist.labels["test"])
    assert found == pytest.approx(committed(mnist, setting), abs=2e-3)  # rounding may move a few images


def test_cifar10_at_a_hundredth_is_as_committed(cifar10: Features):
    setting = Setting(s=10, epsilon=0.01)
    accuracy = right(label(cifar10, setting, draw=0), cifar10.labels["public"])
    assert accuracy == pytest.approx(committed(cifar10, setting)[0], abs=2e-3)
    assert accuracy > 0.86


def test_neighbours_make_up_for_noise_as_committed(mnist: Features):
    rows = json.loads((HERE / "results" / "neighbours.json").read_text())
    setting, truth = Setting(s=100, epsilon=0.01), mnist.labels["public"]
    found = {name: right(label(mnist, setting, draw=0, decoder=decoder), truth) for name, decoder in DECODERS.items()}
    for row in rows:
        if (row["data"], row["setting"]) == ("mnist", setting.name):
            assert found.pop(row["decoder"]) == pytest.approx(row["label_accuracy"][0], abs=2e-3)
    assert not found
    for alone, joint in zip(rows[::2], rows[1::2], strict=True):
        assert (alone["decoder"], joint["decoder"], alone["setting"]) == ("argmax", "joint", joint["setting"])
        if alone["epsilon"] == 0.01 and alone["s"] <= 100 and alone["data"] != "svhn":
            assert np.mean(joint["label_accuracy"]) > np.mean(alone["label_accuracy"]) + 0.05


def test_ten_queries_are_the_clusters_of_the_network(mnist: Features):
    classes = answers(mnist, Setting(s=10, epsilon=1000.0), draw=0)
    assert np.array_equal(ask(mnist, 10)[0].owner, mnist.clusters["public"])
    assert len(classes) == CLASSES
    assert right(classes[mnist.clusters["public"]], mnist.labels["public"]) > 0.97


def test_the_papers_split_of_cifar10_moves_test_images_to_the_records(cifar10: Features):
    paper = as_in_the_paper(cifar10)
    for parts in (paper.vectors, paper.clusters, paper.labels):
        assert [len(parts[part]) for part in compact.PARTS] == [30_000, 29_000, 1_000]
    assert paper.vectors["public"] is cifar10.vectors["public"]
    everything = np.concatenate([paper.vectors["private"], paper.vectors["test"]])
    assert np.array_equal(
        np.unique(everything, axis=0),
        np.unique(np.concatenate([cifar10.vectors["private"], cifar10.vectors["test"]]), axis=0),
    )


@pytest.mark.parametrize("name", ["mnist", "cifar10", "svhn"])
def test_committed_features_are_small_and_fit_their_labels(name: str):
    assert 0 < sum(path.stat().st_size for path in FEATURES.glob(f"{name}*.npz")) <= 10_000_000
    for source in sources(name, FEATURES):
        for seed in source.seeds(FEATURES):
            features = read_features(source, seed, FEATURES)
            for part, vectors in features.vectors.items():
                assert len(vectors) == len(features.labels[part])
                assert np.isfinite(vectors).all()


def test_seeds_side_by_side_are_what_the_script_makes_of_them(cifar10: Features):
    width = cifar10.vectors["test"].shape[1]
    for way, seed in (("together", "all"), ("one-less", "12"), ("one-less", "11")):
        found = read_features(Source(data="cifar10", way=way, rule=Rule.CLEAN), seed, FEATURES)
        members = members_of("cifar10")[f"cifar10-{way}" + (f"-{seed}" if seed != "all" else "")]
        assert found.vectors["test"].shape[1] == width * len(members) == width * (4 if way == "together" else 3)
        begins_with_11 = np.array_equal(found.vectors["test"][:, :width], cifar10.vectors["test"])
        assert begins_with_11 == (seed != "11")
        made = clusters_of([compact.read(FEATURES / f"{member}.npz")[1] for member in members], None)
        assert all(np.array_equal(made[part], found.clusters[part]) for part in compact.PARTS)


def test_disputed_digits_go_where_their_agreed_neighbours_are():
    rng = np.random.default_rng(0)
    truth = {part: np.arange(200) % 10 for part in compact.PARTS}
    images = {part: (10 * np.eye(10)[truth[part]] + rng.normal(size=(200, 10))).astype(np.float32) for part in truth}
    wrong = [
        {part: np.where(np.arange(200) < 20, shift, numbers) for part, numbers in truth.items()} for shift in (3, 4)
    ]
    assert all(np.array_equal(clusters_of(wrong, images)[part], truth[part]) for part in truth)


def test_features_keep_their_distances(tmp_path: Path):
    rng = np.random.default_rng(0)
    features = {part: rng.normal(size=(400, 6)).astype(np.float32) * [9, 5, 3, 2, 1, 0.1] for part in compact.PARTS}
    clusters = {part: rng.integers(0, 10, 400) for part in compact.PARTS}
    compact.write(tmp_path / "features.npz", features, clusters, dims=5)
    vectors, numbers = compact.read(tmp_path / "features.npz")
    assert all(np.array_equal(numbers[part], clusters[part]) for part in compact.PARTS)
    whole, kept = (x["public"] - x["public"].mean(0) for x in (features, vectors))
    apart, found = (np.linalg.norm(x[:, None] - x[None], axis=2) for x in (whole, kept))
    assert np.abs(apart - found).max() < 0.05 * apart.max()
    # Rounding to a step of max/15 adds step²/12 to a column's variance: a hundredth where the largest of 400 values is
    # three deviations out.
    assert np.square(kept).sum() == pytest.approx(np.square(whole).sum(), rel=0.01)


def test_settings_have_one_name_each(mnist: Features):
    settings = grid(mnist)
    assert len({setting.name for setting in settings}) == len(settings)
    assert [named(setting.name) for setting in settings] == settings
    assert named("truth") is None


def test_rows_take_the_place_of_their_like_and_leave_the_others(tmp_path: Path):
    def row(setting: Setting, accuracy: float) -> dict[str, object]:
        measured = {"test_accuracy": [accuracy], "label_accuracy": [accuracy], "nonprivate_accuracy": 1.0}
        made = {"versions": {}, "hardware": {}, "command": ""}
        return result_row(
            setting, data="mnist", split="clean", encoder="", queries="", student="linear", seeds=["1/0"], way="alone",
            **measured, **made,
        )  # fmt: skip

    def kept() -> list[tuple[float, list[float]]]:
        return [(row["epsilon"], row["test_accuracy"]) for row in json.loads(path.read_text())]

    path, few, many = tmp_path / "rows.json", Setting(s=10, epsilon=0.1), Setting(s=40, epsilon=1.0)
    path.write_text("[]")
    write(path, [row(few, 0.1), row(many, 0.2)], by=("split", "way"))
    assert kept() == [(1.0, [0.2]), (0.1, [0.1])]
    write(path, [row(few, 0.3)], by=("split", "way", "setting"))
    assert kept() == [(1.0, [0.2]), (0.1, [0.3])]
    write(path, [row(few, 0.4)], by=("split", "way"))
    assert kept() == [(0.1, [0.4])]


@pytest.mark.parametrize(("stem", "kept"), [("svhn-12", []), ("svhn", ["alone"])])
def test_one_of_several_seeds_writes_no_row(stem: str, kept: list[str], monkeypatch: pytest.MonkeyPatch):
    written: list[str] = []
    row = {"student": "linear", "way": "alone", "label_accuracy": [1.0], "test_accuracy": [1.0]}
    monkeypatch.setattr(labelling, "grid", lambda features: [Setting(s=500, epsilon=0.1)])
    monkeypatch.setattr(labelling, "measure", lambda every, setting: [row])
    monkeypatch.setattr(labelling, "write", lambda path, rows, by: written.extend(row["way"] for row in rows))
    monkeypatch.setattr(sys, "argv", ["labelling", "svhn", "--stem", stem])
    labelling.main()
    assert written == kept


@pytest.mark.parametrize(("queries", "asked"), [("clusters", 10), ("k-means", 40)])
def test_settings_of_one_kind_of_query_leave_the_others_rows(queries: str, asked: int, monkeypatch: pytest.MonkeyPatch):
    written: list[tuple[int, tuple[str, ...]]] = []
    row = {"student": "linear", "way": "together", "label_accuracy": [1.0], "test_accuracy": [1.0]}
    monkeypatch.setattr(labelling, "grid", lambda features: [Setting(s=s, epsilon=0.1) for s in (10, 40)])
    monkeypatch.setattr(labelling, "measure", lambda every, setting: [{**row, "s": setting.s}])
    monkeypatch.setattr(labelling, "write", lambda path, rows, by: written.extend((row["s"], by) for row in rows))
    monkeypatch.setattr(sys, "argv", ["labelling", "mnist", "--stem", "mnist-together", "--queries", queries])
    labelling.main()
    assert written == [(asked, ("split", "way", "queries"))]


@pytest.mark.parametrize(
    ("given", "told"),
    [
        (["--stem", "svhn-99"], "no features are called svhn-99; there are svhn-together, "),
        (["--only", "central-s500-k1-eps0.1", "nonsense"], "no such setting is measured: nonsense\n"),
        (["--features", "nowhere"], "no features of svhn in nowhere\n"),
    ],
)
def test_what_is_not_there_is_refused_in_one_line(
    given: list[str], told: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    monkeypatch.setattr(labelling, "grid", lambda features: [Setting(s=500, epsilon=0.1)])
    monkeypatch.setattr(labelling, "measure", lambda every, setting: pytest.fail("measured"))
    monkeypatch.setattr(sys, "argv", ["labelling", "svhn", *given])
    with pytest.raises(SystemExit) as ended:
        labelling.main()
    assert ended.value.code == 2
    assert told in capsys.readouterr().err


def test_side_by_side_says_what_is_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    for seed in (12, 14):
        (tmp_path / f"svhn-{seed}.npz").symlink_to(FEATURES / f"svhn-{seed}.npz")
    monkeypatch.setattr(together, "HERE", tmp_path)
    monkeypatch.setattr(together, "SEEDS", {"svhn": ("svhn-12", "svhn-14")})
    monkeypatch.setattr(sys, "argv", ["together", "svhn"])
    together.main()
    assert capsys.readouterr().out.splitlines() == [
        "svhn-together.npz: svhn-12, svhn-14", "svhn-one-less-12.npz: svhn-14", "svhn-one-less-14.npz: svhn-12"
    ]  # fmt: skip
    assert (tmp_path / "svhn-together.npz").exists()


@pytest.mark.parametrize("name", ["mnist", "cifar10", "svhn"])
def test_rows_say_how_they_were_made(name: str):
    for row in json.loads(Path(HERE / "results" / f"{name}.json").read_text()):
        assert len(row["seeds"]) == len(row["test_accuracy"]) == len(row["label_accuracy"]) >= 5
        assert {"protocol", "s", "k", "epsilon", "delta", "neighbours", "versions", "hardware", "command"} <= row.keys()
