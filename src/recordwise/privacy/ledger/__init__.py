"""The durable account of what was released about whose records, and at what cost."""

from recordwise.privacy.ledger.entries import Budget, Entry
from recordwise.privacy.ledger.ledger import Ledger, forget

__all__ = ["Budget", "Entry", "Ledger", "forget"]
