"""What devices send under local trust: one row of bytes per record, randomized, safe for anybody to see."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from recordwise.errors import InvalidInput

ID_BYTES = 16


@dataclass(frozen=True, eq=False)
class Answers:
    """A batch of randomized messages, in no particular order.

    Attributes:
      bodies: (n, message_size) bytes.
      ids: (n, ID_BYTES) what tells senders apart, where identity exists; None where it does not.
      private: False when the randomness came from a seed, in which case the messages protect nothing.
    """

    bodies: NDArray[np.uint8]
    ids: NDArray[np.uint8] | None = None
    private: bool = True

    def __post_init__(self) -> None:
        if self.bodies.ndim != 2 or self.bodies.dtype != np.uint8:
            raise InvalidInput(f"bodies must be bytes of shape (n, size), got {self.bodies.dtype} {self.bodies.shape}")
        if self.ids is not None and (self.ids.shape != (len(self), ID_BYTES) or self.ids.dtype != np.uint8):
            raise InvalidInput(f"ids must be bytes of shape ({len(self)}, {ID_BYTES}), got {self.ids.shape}")

    def __len__(self) -> int:
        return len(self.bodies)

    def __repr__(self) -> str:
        return f"Answers({len(self):,} messages of {self.bodies.shape[1]} bytes)"
