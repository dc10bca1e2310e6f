"""How to use what is handed over without Recordwise: a few lines of Python, written for the samples at hand."""

from __future__ import annotations

import json
from collections.abc import Sequence

from recordwise.data.samples import Kind
from recordwise.data.schema import Schema

OPEN = """
model = onnxruntime.InferenceSession("model.onnx")
told = model.get_modelmeta().custom_metadata_map
classes, schema = json.loads(told["classes"]), json.loads(told["schema"])
"""
ONE = "print([classes[label] for label in labels])\n"
SEVERAL = "print([[name for name, applies in zip(classes, row) if applies] for row in labels])\n"

ROWS = """with open("new.csv", newline="", encoding="utf-8") as file:
    rows = list(csv.DictReader(file, skipinitialspace=True))
"""
UNNAMED = """with open("new.csv", newline="") as file:
    samples = np.array(list(csv.reader(file))[1:], dtype=np.float32)
"""
NAMED = f"""{ROWS}names = [column["name"] for column in schema["columns"]]
samples = np.array([[row[name] for name in names] for row in rows], dtype=np.float32)
"""
ENCODED = """vectors = np.load("vectors.npy").astype(np.float32)  # what the encoder makes of new samples
"""
ARRAYS = """samples = np.load("new.npy").astype(np.float32)
"""
PICTURES = """height, width = schema["shape"][:2]
files = sorted(Path("new").iterdir())
images = [Image.open(file).convert("{mode}").resize((width, height), Image.Resampling.BICUBIC) for file in files]
samples = np.array([np.asarray(image) for image in images], dtype=np.float32)
"""
LINES = """with open("new.txt", encoding="utf-8") as file:
    texts = list(file)
"""
CELLS = f"""{ROWS}texts = [row[schema["columns"][0]["name"]] for row in rows]
"""
WORDS = """words = [re.findall(r"\\b\\w\\w+\\b", text.lower()) for text in texts]
most = max([1, *map(len, words)])
words = np.array([one + [""] * (most - len(one)) for one in words], dtype=object)
"""
NUMBER = """

def number(cell):
    with suppress(ValueError):
        if "_" not in cell:  # 1_000 is Python's spelling alone
            return float(cell)  # of cell.replace(",", ".") where numbers are written 3,14
    return np.nan  # a gap
"""
DAYS = '''

def days(cell, formats):
    """A date as days since 1970."""
    for form in formats:
        with suppress(ValueError):
            when = datetime.strptime(cell, form)
            return (when.replace(tzinfo=when.tzinfo or UTC) - datetime(1970, 1, 1, tzinfo=UTC)) / timedelta(days=1)
    return np.nan  # a gap
'''
READ = {"number": "number(cell)", "date": 'days(cell, column["formats"])'}
COLUMN = """    if column["kind"] == "{kind}":
        cells = [{read} for cell in cells]
"""
INPUTS = """inputs = {{}}
for column in schema["columns"]:
    cells = [row[column["name"]].strip() for row in rows]
{by_kind}    inputs[column["name"]] = np.array(cells)
"""


def onnx_example(schema: Schema, *, several: bool = False, of_vectors: bool = False) -> str:
    """`use.py` for `model.onnx`.

    Args:
      several: Whether a sample may have several classes.
      of_vectors: Whether the encoder is left out.
    """
    standard, packages, functions = ["import json"], ["import numpy as np", "import onnxruntime"], ""
    given = '{"samples": samples}'
    match Kind(schema.kind):
        case _ if of_vectors:
            read, given = ENCODED, '{"vectors": vectors}'
        case Kind.TABLE:
            kinds = [kind for kind in READ if kind in {column.kind for column in schema.columns}]
            standard = ["import csv", *standard, *["from contextlib import suppress"] * bool(kinds)]
            standard += ["from datetime import UTC, datetime, timedelta"] * ("date" in kinds)
            functions = NUMBER * ("number" in kinds) + DAYS * ("date" in kinds) + "\n" * bool(kinds)
            by_kind = "".join(COLUMN.format(kind=kind, read=READ[kind]) for kind in kinds)
            read, given = ROWS + INPUTS.format(by_kind=by_kind), "inputs"
        case Kind.TEXT:
            standard = ["import csv"] * bool(schema.names) + [*standard, "import re"]
            read, given = (CELLS if schema.names else LINES) + WORDS, '{"words": words}'
        case Kind.VECTORS:
            standard, read = ["import csv", *standard], NAMED if schema.names else UNNAMED
        case Kind.IMAGES if are_pictures(schema):
            standard, packages = [*standard, "from pathlib import Path"], [*packages, "from PIL import Image"]
            read = PICTURES.format(mode="RGB" if schema.shape[2:] else "L")
        case _:
            read = ARRAYS
    answer = f"labels, probabilities = model.run(None, {given})\n" + (SEVERAL if several else ONE)
    return "\n".join([*standard, "", *packages]) + f"\n{functions}{OPEN}{read}{answer}"


def skops_example(schema: Schema, classes: Sequence[str]) -> str:
    """`use.py` for `model.skops`."""
    standard, packages, known = ["import csv"], ["import numpy as np", "import skops.io"], ""
    if schema.kind == Kind.TEXT:
        standard, packages = (standard, packages[1:]) if schema.names else ([], packages[1:])
        read, given = CELLS if schema.names else LINES, "texts"
    else:
        read, given = NAMED if schema.names else UNNAMED, "samples"
    if schema.names:
        known = f"schema = {json.dumps(schema.as_dict(), ensure_ascii=False)}\n"
    head = "\n".join([*standard, *[""] * bool(standard), *packages])
    return (
        f'{head}\n\nmodel = skops.io.load("model.skops")\nclasses = {json.dumps([*classes], ensure_ascii=False)}\n'
        f"{known}{read}labels = model.predict({given})\n{ONE}"
    )


def are_pictures(schema: Schema) -> bool:
    """Whether samples are images such as files hold, which Pillow reads."""
    return schema.kind == Kind.IMAGES and schema.numbers == "uint8" and schema.shape[2:] in ((), (3,))
