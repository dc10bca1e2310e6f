"""The page a privacy officer reads, and the summary it is made from."""

from recordwise.report.page import render, write_report
from recordwise.report.summary import Summary, summarize

__all__ = ["Summary", "render", "summarize", "write_report"]
