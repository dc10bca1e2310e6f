"""Local trust: mechanisms, their choice, and their messages."""

from recordwise.protocols.local.answers import Answers
from recordwise.protocols.local.choose import Choice, choose
from recordwise.protocols.local.collision import Collision
from recordwise.protocols.local.concatenation import Concatenation
from recordwise.protocols.local.matching import Engine
from recordwise.protocols.local.mechanism import LocalMechanism
from recordwise.protocols.local.questions import Questions, Respondents
from recordwise.protocols.local.randomized_response import RandomizedResponse
from recordwise.protocols.local.separation import Separation
from recordwise.protocols.local.several import (
    answer_for_every_record,
    answer_for_one_record,
    client_cost,
    sampled_guarantee,
)
from recordwise.protocols.local.subset_selection import SubsetSelection
from recordwise.protocols.local.unary_encoding import UnaryEncoding
from recordwise.protocols.local.wire import Inbox, pack, unpack

__all__ = [
    "Answers",
    "Choice",
    "Collision",
    "Concatenation",
    "Engine",
    "Inbox",
    "LocalMechanism",
    "Questions",
    "RandomizedResponse",
    "Respondents",
    "Separation",
    "SubsetSelection",
    "UnaryEncoding",
    "answer_for_every_record",
    "answer_for_one_record",
    "choose",
    "client_cost",
    "pack",
    "sampled_guarantee",
    "unpack",
]
