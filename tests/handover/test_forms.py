"""A student leaves as ONNX, as skops where ONNX cannot hold it, and never without a word where it cannot leave."""

from __future__ import annotations

import io
import json
import runpy
import sys
from contextlib import redirect_stdout
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.ensemble import RandomForestClassifier
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.naive_bayes import GaussianNB
from sklearn.preprocessing import StandardScaler
from tests.handover.students import POOL, TEXTS, published
from typer.testing import CliRunner

from recordwise import PrivateDistiller, load, save
from recordwise.cli.main import app
from recordwise.data.schema import Schema
from recordwise.handover.forms import Forms, forms_of
from recordwise.privacy.noise import SeededNoise
from recordwise.published import Published


def used(forms: Forms, folder: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """What the example prints."""
    for name, content in forms.files.items():
        (folder / name).write_bytes(content)
    monkeypatch.chdir(folder)
    printed = io.StringIO()
    with redirect_stdout(printed):
        runpy.run_path("use.py")
    return printed.getvalue().strip()


def own(model: Published, student: Any, vectors: Any = POOL) -> Published:
    """The same with a classifier of the user's own, on vectors that tell its classes apart."""
    labels = np.arange(len(vectors)) % 3
    return replace(model, student=student.fit(model.encoder.transform(vectors) + labels[:, None], labels))


@pytest.mark.parametrize("num_classes", [2, 3])
@pytest.mark.parametrize(
    ("spec", "kind"),
    [
        *(("scaler", kind) for kind in ("linear", "mlp", "table", "own")),
        *((spec, "table") for spec in ("pca", "sharpened", "scaler+pca")),
        *(("own", kind) for kind in ("table", "own", "one class")),
    ],
)
def test_what_skops_keeps_answers_alike(spec: str, kind: str, num_classes: int) -> None:
    skops = pytest.importorskip("skops.io")
    from recordwise.handover.skops_model import skops_model

    encoder = StandardScaler() if spec == "own" else spec
    model = published(POOL, encoder, "table" if kind == "own" else kind, num_classes)
    if kind == "own":
        model = own(model, GaussianNB())
    content = skops_model(model)
    assert content is not None and not skops.get_untrusted_types(data=content)
    far = POOL * np.where(np.arange(len(POOL)) % 50 == 0, 1e4, 1.0)[:, None].astype(np.float32)
    answers = skops.loads(content).predict_proba(far)
    assert np.allclose(answers, model.student.predict_proba(model.encoder.transform(far)), atol=1e-5)


@pytest.mark.parametrize("kind", ["linear", "mlp", "table"])
def test_skops_has_no_part_for_a_threshold(kind: str) -> None:
    pytest.importorskip("skops.io")
    from recordwise.handover.skops_model import skops_model

    model = published(POOL, "scaler", kind, 2)
    assert skops_model(model) is not None
    model.student.threshold = 0.3
    assert skops_model(model) is None


def test_where_onnx_cannot_hold_it_the_example_reads_skops(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("skops.io")
    names = [f"column {place}" for place in range(7)]
    schema = Schema(kind="vectors", columns=[{"name": name} for name in names])  # type: ignore[arg-type]
    model = own(published(POOL, "scaler", schema=schema), GaussianNB())
    forms = forms_of(model)
    assert sorted(forms.files) == ["model.skops", "use.py"] and not forms.left_out
    lines = [",".join(map(str, row)) for row in [names[::-1], *POOL[:9, ::-1].tolist()]]
    (tmp_path / "new.csv").write_text("\n".join(lines) + "\n")
    assert used(forms, tmp_path, monkeypatch) == str([str(one) for one in model.predict(POOL[:9])])


@pytest.mark.parametrize("kind", ["named vectors", "unnamed table", "several classes"])
def test_the_example_for_onnx_finds_columns_by_their_names(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("onnx")
    pytest.importorskip("onnxruntime")
    names = [f"column {place}" for place in range(7)]
    rows: list[list[Any]] = POOL[:40].astype(float).tolist()
    schema = Schema(kind="vectors", columns=[{"name": name} for name in names])  # type: ignore[arg-type]
    if kind == "unnamed table":
        rows = [[*row[:-1], "ab"[place % 2]] for place, row in enumerate(rows)]
        schema = Schema.of(np.array(rows, dtype=object))
        assert not schema.names
    model = published(
        rows, "scaler" if schema.names else "table", "several" if "several" in kind else "table", schema=schema
    )
    if kind == "unnamed table":  # gaps, however Python would read them
        rows += [[*row[:3], odd, *row[4:]] for row in rows[:20] for odd in ("1_000", "", "nan", "1e999")]
    lines = [",".join(map(str, row)) for row in [names[::-1], *(row[::-1] for row in rows)]]
    (tmp_path / "new.csv").write_text("\n".join(lines) + "\n")
    told = model.predict(rows)
    expected = [str(one) if np.ndim(one) == 0 else [str(at) for at in np.flatnonzero(one)] for one in told]
    assert used(forms_of(model), tmp_path, monkeypatch) == str(expected)


def test_an_encoder_of_text_of_the_user_s_own_goes_with_the_student(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("skops.io")
    model = published(TEXTS, TfidfVectorizer(ngram_range=(1, 2)), "linear")
    forms = forms_of(model)
    assert sorted(forms.files) == ["model.skops", "use.py"]
    (tmp_path / "new.txt").write_text("\n".join(TEXTS[:9]) + "\n")
    assert used(forms, tmp_path, monkeypatch) == str([str(one) for one in model.predict(TEXTS[:9])])


def test_what_neither_can_hold_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("skops.io")
    forest = own(published(POOL, "scaler"), RandomForestClassifier(3))  # skops does not vouch for its trees
    assert forms_of(forest).left_out == [
        "neither ONNX nor skops can hold Scaler and RandomForestClassifier: the student is in student.npz alone"
    ]
    assert not forms_of(forest).files


class Network:
    """An encoder that nobody can write down, as a pretrained network is."""

    def fit(self, pool: Any, y: object = None) -> Network:
        return self

    def transform(self, samples: Any) -> Any:
        return np.array([[len(one), one.count("a")] for one in samples], dtype=np.float32)

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        return {}

    fingerprint = "the same"


def test_without_its_encoder_a_student_takes_the_encoder_s_vectors(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Pretrained networks are handed over by their makers; a run with one is still exported."""
    pytest.importorskip("onnx")
    pytest.importorskip("onnxruntime")
    texts = [("aa" if place % 2 else "b") * (1 + place % 9) for place in range(200)]
    model = PrivateDistiller(4.0, classes=["few", "many"], num_queries=8, encoder=Network())
    labels = np.array(["few", "many"])[np.arange(200) % 2]
    model.fit(texts[:150], labels[:150], X_public=texts[150:], noise=SeededNoise(0))
    save(model, tmp_path / "saved")
    told = CliRunner().invoke(app, ["export", str(tmp_path / "saved"), "--to", str(tmp_path / "given")])
    assert told.exit_code == 0, told.output
    assert "ONNX cannot hold Network. model.onnx takes the vectors it makes" in told.stderr
    np.save(tmp_path / "given" / "vectors.npy", Network().transform(texts[:9]))
    forms = Forms(files={"use.py": (tmp_path / "given" / "use.py").read_bytes()})
    assert used(forms, tmp_path / "given", monkeypatch) == str(model.predict(texts[:9]).tolist())
    assert load(tmp_path / "given", encoder=Network()).predict(texts[:3]).tolist() == model.predict(texts[:3]).tolist()


@pytest.mark.parametrize(("package", "name"), [("onnx", "model.onnx"), ("skops.io", "model.skops")])
def test_a_missing_package_is_named_in_one_line(package: str, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for one in (package, f"{package}.numpy_helper"):
        monkeypatch.setitem(sys.modules, one, None)
    model = published(POOL, "scaler")
    made = forms_of(model if package == "onnx" else own(model, GaussianNB()))
    assert not made.files
    (line,) = made.left_out
    extra = name.partition(".")[2]
    assert line.startswith(f"{name} was left out: ") and line.endswith(f"pip install 'recordwise[{extra}]'")


def test_a_student_that_was_saved_from_python_is_handed_over(tmp_path: Path) -> None:
    pytest.importorskip("skops.io")
    rows = POOL + 9 * (np.arange(300) % 2)[:, None]
    model = PrivateDistiller(4.0, classes=["low", "high"], num_queries=8, student=GaussianNB())
    model.fit(rows[:200], np.array(["low", "high"])[np.arange(200) % 2], X_public=rows[200:], noise=SeededNoise(0))
    save(model, tmp_path / "saved")
    told = CliRunner().invoke(app, ["export", str(tmp_path / "saved"), "--to", str(tmp_path / "given"), "--json"])
    assert told.exit_code == 0, told.output
    names = [Path(one).name for one in json.loads(told.stdout)["written"]]
    assert names == ["student.npz", "README.md", "model.skops", "use.py"]
    card = (tmp_path / "given" / "README.md").read_text()
    assert str(model.guarantee_) in card and "2 classes (low, high)" in card and "not scored here" in card
    assert load(tmp_path / "given").predict(rows[:4]).tolist() == ["low", "high", "low", "high"]
