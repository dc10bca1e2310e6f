"""Step 2, ask: the points that private records vote for, from the public pool alone."""

from recordwise.nearest.kmeans import kmeans
from recordwise.queries.clusters import KMeansQueries, UncertainQueries, Uncertainty
from recordwise.queries.queries import Queries
from recordwise.queries.spec import QuerySettings, first_queries, focus_of, queries_from

__all__ = [
    "KMeansQueries",
    "Queries",
    "QuerySettings",
    "UncertainQueries",
    "Uncertainty",
    "first_queries",
    "focus_of",
    "kmeans",
    "queries_from",
]
