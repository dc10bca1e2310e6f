"""Step 2, ask: the points that private records vote for, from the public pool alone."""

from recordwise.queries.clusters import KMeansQueries, UncertainQueries, Uncertainty
from recordwise.queries.kmeans import kmeans
from recordwise.queries.queries import Queries
from recordwise.queries.spec import check_queries, first_queries

__all__ = [
    "KMeansQueries",
    "Queries",
    "UncertainQueries",
    "Uncertainty",
    "check_queries",
    "first_queries",
    "kmeans",
]
