"""One reader per format. Whatever a file or a message holds, a reader gives a value or an `InvalidInput` of one line.

Nothing is allocated that a size, a count or a depth has not allowed before, nothing that is read runs, and nothing but
a regular file is waited for. Every parse in Recordwise goes through here; a test looks for others.

These limits are about containers: a file, an archive, a header. What a single record holds is never refused, here or
later (`data.schema`).
"""

from recordwise.formats.arrays import Archive, array_file, array_from
from recordwise.formats.documents import json_file, json_from, toml_file, toml_from
from recordwise.formats.files import content_of, ending, lines_of, opened, text_of, understood, unpacked
from recordwise.formats.layouts import Layout, guessed, text_lines
from recordwise.formats.pictures import picture_file, picture_from, picture_size
from recordwise.formats.tables import arrow_folder, csv_file, features_of, is_dataset, parquet_file
from recordwise.formats.workbooks import excel_file

__all__ = [
    "Archive",
    "Layout",
    "array_file",
    "array_from",
    "arrow_folder",
    "content_of",
    "csv_file",
    "ending",
    "excel_file",
    "features_of",
    "guessed",
    "is_dataset",
    "json_file",
    "json_from",
    "lines_of",
    "opened",
    "parquet_file",
    "picture_file",
    "picture_from",
    "picture_size",
    "text_lines",
    "text_of",
    "toml_file",
    "toml_from",
    "understood",
    "unpacked",
]
