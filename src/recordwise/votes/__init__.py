"""Step 4: each record votes for its nearest queries."""

from recordwise.votes.backend import Backend, NumpyBackend, TorchBackend
from recordwise.votes.ballot import NOBODY, Ballot, Votes
from recordwise.votes.cast import cast_votes, count_votes
from recordwise.votes.connection import balanced_prices
from recordwise.votes.nearest import nearest_queries
from recordwise.votes.poll import Metric

__all__ = [
    "NOBODY",
    "Backend",
    "Ballot",
    "Metric",
    "NumpyBackend",
    "TorchBackend",
    "Votes",
    "balanced_prices",
    "cast_votes",
    "count_votes",
    "nearest_queries",
]
