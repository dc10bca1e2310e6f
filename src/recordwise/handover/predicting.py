"""A published student, asked about a file of new samples."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from recordwise.data.files import is_table, read
from recordwise.data.samples import Kind
from recordwise.errors import InvalidInput
from recordwise.formats import Layout, guessed
from recordwise.handover.labelled import Labelled, names_of
from recordwise.progress import Progress, step
from recordwise.published import Published
from recordwise.students.weights import unweighted


def predict_file(
    model: Published,
    path: Path,
    *,
    ids: str | None = None,
    layout: Layout | None = None,
    probabilities: bool = False,
    progress: Progress | None = None,
) -> Labelled:
    """Each sample's label and confidence, and each class's probability if asked.

    Columns are found by their names, in whatever order they stand; one that is missing is refused. Labels are what the
    student answers, which class weights and a threshold of its own may decide; several for one sample are joined by
    semicolons. The confidence is the chance of that label, without class weights where they are known
    (`students.weights.weights_of`); probabilities are with them.

    Args:
      ids: The column that names the samples; files of images have names, and other samples are numbered.
      layout: How the file spells its cells; None looks at the file, for nothing is released of it.
    """
    schema = model.schema
    size = (schema.shape[0], schema.shape[1]) if schema.kind == Kind.IMAGES else None
    names = list(schema.names) if schema.names and is_table(path) else None
    if layout is None:
        layout = guessed(path) if path.is_file() else Layout()
    with step(progress, "read"):
        loaded = read(path, samples=names, ids=ids, image_size=size, layout=layout)
    with step(progress, "predict"):
        named, answers = model.answers(loaded.samples)
    classes = [str(name) for name in np.asarray(model.classes_).tolist()]
    if answers.ndim != 2 or answers.shape[1] != len(classes):
        raise InvalidInput(f"the student must answer with {len(classes)} probabilities, got shape {answers.shape}")
    chances = unweighted(model.student, answers)
    return Labelled(
        **names_of(loaded, len(loaded)),
        labels=[str(one) if np.ndim(one) == 0 else ";".join(np.array(classes)[one > 0]) for one in named],
        confidence=(chances.max(axis=1) if named.ndim == 2 else chances[named[:, None] == model.classes_]).tolist(),
        probabilities=dict(zip(classes, answers.T.tolist(), strict=True)) if probabilities else {},
    )
