"""Samples and labels from files, the public schema that says what they mean, named data sets and their splits."""

from recordwise.data.files import read
from recordwise.data.named import NAMES, DataSet, load
from recordwise.data.overlap import copies
from recordwise.data.samples import Kind, Loaded, Samples, kind_of, rows, taken
from recordwise.data.schema import Column, Read, Schema
from recordwise.data.source import VARIABLE, find_data
from recordwise.data.splits import Parts, Rule, Split, parts_of, split_of

__all__ = [
    "NAMES",
    "VARIABLE",
    "Column",
    "DataSet",
    "Kind",
    "Loaded",
    "Parts",
    "Read",
    "Rule",
    "Samples",
    "Schema",
    "Split",
    "copies",
    "find_data",
    "kind_of",
    "load",
    "parts_of",
    "read",
    "rows",
    "split_of",
    "taken",
]
