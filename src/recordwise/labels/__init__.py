"""Step 6: labels from a release, by the best inference that public facts allow."""

from recordwise.labels.bounds import (
    accuracy,
    certified,
    chance_of_the_best,
    chance_of_the_matching,
    sufficient_gap,
    sufficient_lead,
)
from recordwise.labels.decode import AUTO, DECODERS, DecoderSettings, decode
from recordwise.labels.graph import neighbour_graph
from recordwise.labels.labels import ABSTAIN, Labels

__all__ = [
    "ABSTAIN",
    "AUTO",
    "DECODERS",
    "DecoderSettings",
    "Labels",
    "accuracy",
    "certified",
    "chance_of_the_best",
    "chance_of_the_matching",
    "decode",
    "neighbour_graph",
    "sufficient_gap",
    "sufficient_lead",
]
