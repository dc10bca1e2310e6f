"""Samples and labels from files, named data sets and their splits, and a check that pool and records are disjoint."""

from recordwise.data.files import read
from recordwise.data.named import NAMES, DataSet, load
from recordwise.data.overlap import copies, refuse_overlap
from recordwise.data.samples import Kind, Loaded, Samples, kind_of, rows
from recordwise.data.source import VARIABLE, find_data
from recordwise.data.splits import Parts, Rule, Split, parts_of, split_of

__all__ = [
    "NAMES",
    "VARIABLE",
    "DataSet",
    "Kind",
    "Loaded",
    "Parts",
    "Rule",
    "Samples",
    "Split",
    "copies",
    "find_data",
    "kind_of",
    "load",
    "parts_of",
    "read",
    "refuse_overlap",
    "rows",
    "split_of",
]
