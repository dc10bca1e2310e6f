"""Step 2, ask: the points that private records vote for, from the public pool alone."""

from recordwise.queries.clusters import KMeansQueries, UncertainQueries, Uncertainty
from recordwise.queries.kmeans import kmeans
from recordwise.queries.queries import Queries

__all__ = ["KMeansQueries", "Queries", "UncertainQueries", "Uncertainty", "kmeans"]
