"""Step 6: labels from a release, by the best inference that public facts allow."""

from recordwise.labels.bounds import (
    accuracy,
    certified,
    sufficient_gap,
    sufficient_lead,
)
from recordwise.labels.decode import DECODERS, DecoderSettings, decode
from recordwise.labels.graph import query_graph
from recordwise.labels.labels import ABSTAIN, Labels
from recordwise.labels.shares import voters_at
from recordwise.privacy.noise import chance_of_the_best, chance_of_the_matching

__all__ = [
    "ABSTAIN",
    "DECODERS",
    "DecoderSettings",
    "Labels",
    "accuracy",
    "certified",
    "chance_of_the_best",
    "chance_of_the_matching",
    "decode",
    "query_graph",
    "sufficient_gap",
    "sufficient_lead",
    "voters_at",
]
