"""Shuffle trust: one message per sender or several, and the shuffler between senders and server."""

from recordwise.protocols.shuffle.multi import Increments, ShuffleMulti
from recordwise.protocols.shuffle.sealing import Opener, Sealer
from recordwise.protocols.shuffle.single import ShuffleSingle

__all__ = ["Increments", "Opener", "Sealer", "ShuffleMulti", "ShuffleSingle"]
