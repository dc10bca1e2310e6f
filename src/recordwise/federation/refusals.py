"""Why a party does not answer: one of a few sentences, none of which depends on records."""

from __future__ import annotations

from enum import StrEnum

from recordwise.errors import BudgetExceeded, ChangedInput, ProtocolFault


class Refusal(StrEnum):
    """All that a refusal says to the other side; the operator's own log says more."""

    NONE = ""
    RULES = "the request is malformed, comes out of turn, or breaks a rule of this party"
    CAP = "the plan does not fit what is left under this silo's cap"
    CHANGED = "something else was asked or accepted under this name before, and it cannot change"
    FAILED = "this party could not answer; its operator sees why"


class Failed(Exception):
    """An answer from records could not be made. It says nothing more, on purpose, and it has been paid for."""


def refusal(error: Exception) -> Refusal:
    """A refusal as the other side may see it."""
    match error:
        case BudgetExceeded():
            return Refusal.CAP
        case ChangedInput():
            return Refusal.CHANGED
        case ProtocolFault():
            return Refusal.RULES
    return Refusal.FAILED
