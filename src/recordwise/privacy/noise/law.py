"""What every law of noise can say about itself."""

from __future__ import annotations

from typing import Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray


class Law(Protocol):
    """The distribution of a cell's noise Z: symmetric in law only where a subclass says so, with mean zero.

    Laws are frozen values. Those that a mechanism draws from also have `sample(size, noise)`, which is exact.
    """

    @property
    def std(self) -> float: ...

    @property
    def heavy_tailed(self) -> bool:
        """Whether it falls off like a Laplace law, and not like a normal one."""
        ...

    def log_likelihood(self, noise: ArrayLike) -> NDArray[np.float64]:
        """log P(Z = noise), up to a constant that does not depend on `noise`; defined between integers too."""
        ...

    def two_sided_tail(self, distance: float) -> float:
        """An upper bound on P(|Z| >= distance)."""
        ...
