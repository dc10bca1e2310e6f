"""Local trust: mechanisms, their choice, and their messages."""

from recordwise.protocols.local.answers import Answers
from recordwise.protocols.local.collision import Collision
from recordwise.protocols.local.concatenation import Concatenation
from recordwise.protocols.local.hits import Engine
from recordwise.protocols.local.mechanism import LocalMechanism, mechanisms
from recordwise.protocols.local.questions import Questions, Respondents
from recordwise.protocols.local.randomized_response import RandomizedResponse
from recordwise.protocols.local.separation import Separation
from recordwise.protocols.local.subset_selection import SubsetSelection
from recordwise.protocols.local.unary_encoding import UnaryEncoding
from recordwise.protocols.local.wire import Inbox, pack, unpack

__all__ = [
    "Answers",
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
    "mechanisms",
    "pack",
    "unpack",
]
