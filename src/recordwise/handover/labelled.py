"""Samples with their labels as a table to hand over, in CSV or Parquet, under the names that the samples have."""

from __future__ import annotations

import csv
import io
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from recordwise.extras.asking import optional

from recordwise.data.cells import decoded, word_of
from recordwise.data.samples import Loaded
from recordwise.durable import write_whole
from recordwise.errors import InvalidInput
from recordwise.formats import csv_file

ROW, LABEL, CONFIDENCE = "sample", "label", "confidence"
PARQUET, CSV = ".parquet", ".csv"


@dataclass(frozen=True, kw_only=True)
class Labelled:
    """A row per sample.

    Attributes:
      name: Of the first column.
      ids: What the samples are called: text, or their numbers from 0 where they have no names.
      confidence: How sure each label is.
      probabilities: Of each class, by its name; may be left out.
    """

    name: str = ROW
    ids: Sequence[str] | Sequence[int]
    labels: Sequence[str]
    confidence: Sequence[float]
    probabilities: Mapping[str, Sequence[float]] = field(default_factory=dict)

    def as_csv(self) -> str:
        lines = io.StringIO()
        table = csv.writer(lines, lineterminator="\n")
        table.writerow([self.name, LABEL, CONFIDENCE, *self.probabilities])
        sure = [f"{one:.4f}" for one in self.confidence]
        columns = [[f"{one:.6g}" for one in column] for column in self.probabilities.values()]
        table.writerows(zip(self.ids, self.labels, sure, *columns, strict=True))
        return lines.getvalue()

    def as_parquet(self) -> bytes:
        pa, pq = (optional(module, "Parquet", extra="parquet") for module in ("pyarrow", "pyarrow.parquet"))
        numbers = all(isinstance(one, int) for one in self.ids)
        columns = {
            self.name: pa.array(list(self.ids), type=pa.int64() if numbers else pa.string()),
            LABEL: pa.array(list(self.labels), type=pa.string()),
            CONFIDENCE: pa.array(list(self.confidence), type=pa.float64()),
            **{name: pa.array(list(column), type=pa.float64()) for name, column in self.probabilities.items()},
        }
        file = io.BytesIO()
        pq.write_table(pa.table(columns), file)
        return file.getvalue()

    def write(self, path: Path) -> None:
        """Into a file, by its ending."""
        if path.suffix.lower() not in (PARQUET, CSV):
            raise InvalidInput(f"labels are written as {CSV} or {PARQUET}, got {str(path)!r}")
        write_whole(path, self.as_parquet() if path.suffix.lower() == PARQUET else self.as_csv().encode())

    def as_dict(self) -> dict[str, Any]:
        rows = [
            {self.name: one, LABEL: label, CONFIDENCE: sure}
            for one, label, sure in zip(self.ids, self.labels, self.confidence, strict=True)
        ]
        for place, row in enumerate(rows):
            if self.probabilities:
                row["probabilities"] = {name: column[place] for name, column in self.probabilities.items()}
        return {"samples": rows}


def names_of(samples: Loaded | None, count: int) -> dict[str, Any]:
    """What samples are called, as `Labelled` takes it: as their file names them, by their numbers otherwise."""
    if samples is None or samples.ids is None:
        return {"ids": range(count)}
    held = samples.ids.tolist()
    named = samples.ids_name if samples.ids_name not in (LABEL, CONFIDENCE) else ROW
    return {"name": named, "ids": [_name(one) for one in held]}


def _name(cell: Any) -> str:
    if isinstance(cell, str | bytes):
        return decoded(cell) or ""
    return str(cell) if isinstance(cell, int) else word_of(cell) or ""  # a long number keeps all its digits


def read_labelled(path: Path) -> Labelled:
    """A CSV file that `Labelled` wrote."""
    header, rows = csv_file(path)
    if header[1:3] != [LABEL, CONFIDENCE] or any(len(row) != len(header) for row in rows):
        raise InvalidInput(f"{path} must be a table of labels, it is not")
    columns = list(zip(*rows, strict=True)) or [()] * len(header)
    numbered = columns[0] == tuple(map(str, range(len(rows))))
    try:
        sure = [float(cell) for cell in columns[2]]
    except ValueError as fault:
        raise InvalidInput(f"{path} must hold numbers as confidence, it does not") from fault
    return Labelled(
        name=header[0], ids=range(len(rows)) if numbered else columns[0], labels=columns[1], confidence=sure
    )
