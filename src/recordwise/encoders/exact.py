"""Linear maps that round nothing while they add: a row's result is a function of that row alone, to the last bit.

A matrix product in floating point adds up its terms in an order that depends on how many rows it is given, on where a
row stands, on the number of threads and on the BLAS library, and so do the last bits of every row. Here inputs and
weights are rounded to whole numbers first, by public grids: inputs to at most 2^25, and every column of weights such
that its absolute values add up to at most 2^28. Then every partial sum of every order is a whole number of at most
2^53, which a float64 holds exactly, and all orders give the same sum.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from recordwise.hashing import digest

INPUT_BITS, COLUMN_BITS = 25, 28  # together the 53 bits of a float64


def are_numbers(value: Any, sides: int) -> bool:
    """Whether a value is a float64 array of so many dimensions, as a fitted encoder holds them."""
    return isinstance(value, np.ndarray) and value.dtype == np.float64 and value.ndim == sides


@dataclass(frozen=True, eq=False)
class ExactLinear:
    """A matrix on a public grid, for inputs on another.

    Attributes:
      weights: (inputs, outputs) whole numbers.
      units: (outputs,) powers of two: what one unit of the whole-number result is worth in each output.
      limit: A power of two: inputs beyond it, on either side, count as the limit.
    """

    weights: NDArray[np.float64]
    units: NDArray[np.float64]
    limit: float

    @classmethod
    def of(cls, matrix: NDArray[Any], *, limit: float) -> Self:
        """The map x ↦ x @ matrix.

        Args:
          matrix: (inputs, outputs), finite.
          limit: The largest absolute value that an input is expected to have; rounded up to a power of two.
        """
        exact = np.asarray(matrix, dtype=np.float64)
        limit = float(np.ldexp(1.0, np.frexp(limit)[1])) if limit > 0 else 1.0
        shift = COLUMN_BITS - np.frexp(np.abs(exact).sum(axis=0))[1]
        shift -= np.abs(np.rint(np.ldexp(exact, shift))).sum(axis=0) > 2**COLUMN_BITS  # rounding went over the edge
        return cls(np.rint(np.ldexp(exact, shift)), np.ldexp(limit, -INPUT_BITS - shift), limit)

    def __call__(self, inputs: Any) -> NDArray[np.float64]:
        """(n, outputs) for finite float64 inputs (n, inputs), an array or a sparse matrix, which are overwritten."""
        values = inputs if isinstance(inputs, np.ndarray) else inputs.data
        np.clip(values, -self.limit, self.limit, out=values)
        np.multiply(values, 2.0**INPUT_BITS / self.limit, out=values)
        np.rint(values, out=values)
        sums: NDArray[np.float64] = inputs @ self.weights
        return sums * self.units + 0.0  # a zero has one sign, whatever the order of its terms

    def holds(self) -> bool:
        """Whether these are numbers such as `of` makes; with others the order of adding could change bits."""
        weights, units = self.weights, self.units
        return bool(
            are_numbers(weights, 2)
            and are_numbers(units, 1)
            and units.shape == weights.shape[1:]
            and type(self.limit) is float
            and np.frexp(self.limit)[0] == 0.5
            and (weights == np.rint(weights)).all()
            and (np.abs(weights).sum(axis=0) <= 2**COLUMN_BITS).all()
        )

    @property
    def fingerprint(self) -> str:
        return f"{digest(self.weights)} {digest(self.units)} {self.limit!r}"
