"""A published student, asked about a file of new samples."""

from __future__ import annotations

import csv
import io
from pathlib import Path

import numpy as np

from recordwise.data.files import is_table, read
from recordwise.data.samples import Kind
from recordwise.errors import InvalidInput
from recordwise.published import Published


def predict_file(model: Published, path: Path, *, probabilities: bool = False) -> str:
    """A CSV table: a line per sample with its number, label and confidence, and each class's probability if asked.

    Columns are found by their names, in whatever order they stand; one that is missing is refused.
    """
    schema = model.schema
    size = (schema.shape[0], schema.shape[1]) if schema.kind == Kind.IMAGES else None
    names = list(schema.names) if schema.names and is_table(path) else None
    answers = model.predict_proba(read(path, samples=names, image_size=size).samples)
    classes = [str(name) for name in np.asarray(model.classes_).tolist()]
    if answers.ndim != 2 or answers.shape[1] != len(classes):
        raise InvalidInput(f"the student must answer with {len(classes)} probabilities, got shape {answers.shape}")
    lines = io.StringIO()
    table = csv.writer(lines, lineterminator="\n")
    table.writerow(["sample", "label", "confidence", *(classes if probabilities else [])])
    for row, answer in enumerate(answers):
        shares = [f"{one:.6g}" for one in answer] if probabilities else []
        table.writerow([row, classes[int(answer.argmax())], f"{answer.max():.4f}", *shares])
    return lines.getvalue()
