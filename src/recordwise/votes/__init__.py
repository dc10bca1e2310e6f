"""Step 4: each record votes for its nearest queries."""

from recordwise.votes.ballot import NOBODY, Ballot, Votes
from recordwise.votes.cast import cast_votes
from recordwise.votes.connection import balanced_prices

__all__ = ["NOBODY", "Ballot", "Votes", "balanced_prices", "cast_votes"]
