"""Clients that hold several records: answer for each of them, or for one drawn at random.

Answering for every record protects *a record* at epsilon; what a client with m records reveals about all of them
together is m·epsilon. Answering for one protects *the whole client* at epsilon, at the price of the other records: the
tally then counts clients, each represented by one of its records.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from recordwise.errors import whole
from recordwise.privacy.guarantee import Guarantee, Unit
from recordwise.privacy.noise import Noise, uniform_below
from recordwise.protocols.local.answers import Answers
from recordwise.protocols.local.mechanism import LocalMechanism
from recordwise.votes.ballot import NOBODY, Votes


def answer_for_every_record(mechanism: LocalMechanism, votes: Votes, noise: Noise) -> Answers:
    """One message per record.

    Guarantees:
      - `mechanism.guarantee` covers one record; `client_cost` states what the messages of one client cost together.
    """
    return mechanism.client(votes, noise)


def client_cost(mechanism: LocalMechanism, most_records: int) -> Guarantee:
    """What a client that answers for each of at most `most_records` records is promised as a whole."""
    whole(most_records=most_records)
    return replace(mechanism.guarantee, epsilon=most_records * mechanism.epsilon, unit=Unit.CLIENT)


def answer_for_one_record(mechanism: LocalMechanism, votes: Votes, noise: Noise) -> Answers:
    """One message for one record drawn uniformly, or for none where the client holds none.

    Guarantees:
      - whatever the client holds, how many records included, the message is epsilon-DP for all of it together:
        `sampled_guarantee`.
    """
    if len(votes):
        drawn = uniform_below(len(votes), 1, noise)
        sample = Votes(votes.ballot, votes.queries[drawn], votes.labels[drawn])
    else:
        ballot = votes.ballot
        nothing = (
            np.full((1, width), NOBODY, np.int32) for width in (ballot.votes_per_record, ballot.labels_per_record)
        )
        sample = Votes(ballot, *nothing)
    return mechanism.client(sample, noise)


def sampled_guarantee(mechanism: LocalMechanism) -> Guarantee:
    """What a client that answers for one of its records is promised."""
    return replace(mechanism.guarantee, unit=Unit.CLIENT)
