"""A run's folder becomes one to hand over: student, labels, report and a card that says what they are."""

from __future__ import annotations

from pathlib import Path

from recordwise.durable import make_folder, write_whole
from recordwise.errors import InvalidInput, MissingExtra
from recordwise.formats import content_of
from recordwise.handover.card import USE, model_card
from recordwise.handover.labelled import read_labelled
from recordwise.handover.onnx_graph import onnx_model
from recordwise.published import load, save
from recordwise.report import Summary

SAME = ("labels.csv", "report.html", "summary.json")


def hand_over(run: Path, to: Path) -> list[Path]:
    """Write what a finished run may publish into a new folder; what was written, in order.

    The student is there as `student.npz`, which Recordwise reads, and as `model.onnx` where encoder and student are
    made of linear maps and onnx is installed. Labels are CSV, and Parquet where pyarrow is installed.
    """
    if to.exists() and (not to.is_dir() or any(to.iterdir())):
        raise InvalidInput(f"--to must be a new or an empty folder, {str(to)!r} is not")
    summary, model = Summary.read(run / "summary.json"), load(run)
    contents = {name: _read(run / name) for name in SAME}
    try:
        graph = onnx_model(model)
    except MissingExtra:
        graph = None
    make_folder(to)
    written = [save(model, to)]
    contents["README.md"] = model_card(summary, onnx=graph is not None).encode()
    if graph is not None:
        contents |= {"model.onnx": graph, "use.py": USE.encode()}
    parquet = _parquet(run / "labels.csv")
    if parquet is not None:
        contents["labels.parquet"] = parquet
    for name, content in contents.items():
        write_whole(to / name, content)
        written.append(to / name)
    return written


def _read(path: Path) -> bytes:
    try:
        return content_of(path)
    except InvalidInput as fault:
        raise InvalidInput(f"{path.parent} holds no finished run: {fault}") from fault


def _parquet(table: Path) -> bytes | None:
    """The labels as Parquet; None where pyarrow is not installed."""
    try:
        return read_labelled(table).as_parquet()
    except MissingExtra:
        return None
