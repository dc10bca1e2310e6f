"""A folder becomes one to hand over: student, labels, report and a card that says what they are."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from recordwise.durable import make_folder, write_whole
from recordwise.errors import InvalidInput, MissingExtra
from recordwise.formats import content_of
from recordwise.handover.card import model_card
from recordwise.handover.forms import forms_of
from recordwise.handover.labelled import read_labelled
from recordwise.published import FILE as STUDENT
from recordwise.published import as_stored, save
from recordwise.report import Summary

SAME = ("labels.csv", "report.html", "summary.json")


@dataclass(frozen=True, kw_only=True)
class HandedOver:
    """What was written, in order, and a line on each thing that was left out."""

    written: list[Path]
    left_out: list[str]


def hand_over(run: Path, to: Path) -> HandedOver:
    """Write what may be published into a new folder: of a finished run, or of a student that was saved from Python.

    The student is there as `student.npz`, which Recordwise reads, and in a form for those without it: `model.onnx`, or
    `model.skops` where ONNX cannot hold it, with an example in `use.py`. Of a run its labels are there, too, as CSV and
    as Parquet where pyarrow is installed.
    """
    if to.exists() and (not to.is_dir() or any(to.iterdir())):
        raise InvalidInput(f"--to must be a new or an empty folder, {str(to)!r} is not")
    saved = (run / STUDENT).exists() and not any((run / name).exists() for name in SAME)
    summary = None if saved else Summary.read(run / "summary.json")
    model = as_stored(run)
    contents = {} if saved else {name: _read(run / name) for name in SAME}
    forms = forms_of(model)
    name = to.resolve().name if summary is None else summary.name
    contents |= {"README.md": model_card(name, model, forms, summary).encode(), **forms.files}
    make_folder(to)
    written, left_out = [save(model, to)], list(forms.left_out)
    if not saved:
        try:
            contents["labels.parquet"] = read_labelled(run / "labels.csv").as_parquet()
        except MissingExtra as missing:
            left_out.append(f"labels.parquet was left out: {missing}")
    for one, content in contents.items():
        write_whole(to / one, content)
        written.append(to / one)
    return HandedOver(written=written, left_out=left_out)


def _read(path: Path) -> bytes:
    try:
        return content_of(path)
    except InvalidInput as fault:
        raise InvalidInput(f"{path.parent} holds no finished run: {fault}") from fault
