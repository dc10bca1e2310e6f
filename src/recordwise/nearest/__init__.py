"""Nearest queries by an exact rule: the same picks for any batch, thread, library and device."""

from recordwise.nearest.backend import Backend, NumpyBackend, TorchBackend
from recordwise.nearest.poll import Metric, Poll
from recordwise.nearest.search import nearest_queries

__all__ = ["Backend", "Metric", "NumpyBackend", "Poll", "TorchBackend", "nearest_queries"]
