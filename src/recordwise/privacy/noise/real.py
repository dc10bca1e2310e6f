"""Real numbers known to any precision, in plain integer arithmetic.

A sampler is exact when every decision it takes is right for the *real* number its law speaks of: exp(-k/scale), say,
and not the float nearest to it. A `Real` encloses such a number between two fractions with denominator 2^bits, for
whatever bits are asked; two different numbers are told apart by asking for enough (`less`). Arithmetic is interval
arithmetic on integers, rounded outward, so an enclosure is a proof.

    keep = exp(epsilon) / (exp(epsilon) + 1)      # a Real, where epsilon is a Fraction
"""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from functools import lru_cache

from recordwise.errors import InvalidInput

Enclosure = tuple[int, int]  # (low, high) at `bits` means low/2^bits <= x <= high/2^bits

MOST_BITS = 1 << 16  # a comparison still open after this many bits compares a number with itself


class Real:
    """A real number, given by its enclosures.

    Args:
      enclose: From a number of bits to `Enclosure`s that shrink towards the number as the bits grow. It raises
        `TooCoarseError` where so few bits say nothing.
    """

    __slots__ = ("_enclose",)

    def __init__(self, enclose: Callable[[int], Enclosure]) -> None:
        self._enclose = enclose

    def bounds(self, bits: int) -> Enclosure:
        """Integers low <= x·2^bits <= high with high - low <= 2."""
        extra = 16
        while bits + extra <= MOST_BITS:
            try:
                low, high = self._enclose(bits + extra)
            except TooCoarseError:
                extra *= 2
                continue
            low, high = low >> extra, _up(high, extra)
            if high - low <= 2:
                return low, high
            extra *= 2
        raise InvalidInput(f"a real number must have an enclosure narrower than 2^-{bits}; this one stays too wide")

    def __float__(self) -> float:
        low, high = self.bounds(128)
        return float(Fraction(low + high, 1 << 129))

    def __add__(self, other: Number) -> Real:
        x, y = self._enclose, real(other)._enclose

        def enclose(bits: int) -> Enclosure:
            (a, b), (c, d) = x(bits), y(bits)
            return a + c, b + d

        return Real(enclose)

    def __neg__(self) -> Real:
        x = self._enclose

        def enclose(bits: int) -> Enclosure:
            low, high = x(bits)
            return -high, -low

        return Real(enclose)

    def __mul__(self, other: Number) -> Real:
        x, y = self._enclose, real(other)._enclose

        def enclose(bits: int) -> Enclosure:
            (a, b), (c, d) = x(bits), y(bits)
            corners = (a * c, a * d, b * c, b * d)
            return min(corners) >> bits, _up(max(corners), bits)

        return Real(enclose)

    def inverse(self) -> Real:
        """1 / x, for x that is not zero."""
        x = self._enclose

        def enclose(bits: int) -> Enclosure:
            low, high = x(bits)
            if low <= 0 <= high:
                raise TooCoarseError
            one = 1 << 2 * bits
            return one // high, -(-one // low)

        return Real(enclose)

    def __sub__(self, other: Number) -> Real:
        return self + -real(other)

    def __truediv__(self, other: Number) -> Real:
        return self * real(other).inverse()

    __radd__ = __add__
    __rmul__ = __mul__

    def __rsub__(self, other: Number) -> Real:
        return -self + other

    def __rtruediv__(self, other: Number) -> Real:
        return self.inverse() * other


Number = Real | Fraction | int


class TooCoarseError(ArithmeticError):
    """An enclosure that still contains zero, where a division or a logarithm needs one that does not."""


def real(number: Number) -> Real:
    """The number as a Real. Floats are refused: 0.1 is not one tenth, so say `Fraction(1, 10)`."""
    if isinstance(number, Real):
        return number
    if not isinstance(number, Fraction | int):
        raise InvalidInput(f"an exactly known number must be a Fraction, an int or a Real, got {number!r}")
    top, bottom = number.numerator, number.denominator
    return Real(lambda bits: ((top << bits) // bottom, -((-top << bits) // bottom)))


def exp(exponent: Number) -> Real:
    x = real(exponent)._enclose

    def enclose(bits: int) -> Enclosure:
        low, high = x(bits)
        return _exp(low, bits)[0], _exp(high, bits)[1]

    return Real(enclose)


def log(number: Number) -> Real:
    """The natural logarithm of a positive number."""
    x = real(number)._enclose

    def enclose(bits: int) -> Enclosure:
        low, high = x(bits)
        if low <= 0:
            raise TooCoarseError
        return _log(low, bits)[0], _log(high, bits)[1]

    return Real(enclose)


def less(x: Real, y: Real) -> bool:
    """Whether x < y, for numbers that differ."""
    bits = 64
    while bits < MOST_BITS:
        (a, b), (c, d) = x.bounds(bits), y.bounds(bits)
        if b <= c:
            return True
        if d <= a:
            return False
        bits *= 2
    raise InvalidInput(f"two numbers must differ to be compared; these agree in their first {MOST_BITS} bits")


def _up(value: int, shift: int) -> int:
    """value / 2^shift, rounded up."""
    return -(-value >> shift)


def _exp(x: int, bits: int) -> Enclosure:
    """Enclose exp(x / 2^bits)."""
    if x == 0:
        return 1 << bits, 1 << bits
    if x > 0:
        more = bits + 3 * _up(x, bits) + 8  # exp(-x) needs that many bits to be known to `bits` after the division
        if more > MOST_BITS:
            raise InvalidInput(f"an exponent must lie below {MOST_BITS // 3}, got {x >> bits}")
        low, high = _exp(-x << more - bits, more)
        return (1 << bits + more) // high, -(-(1 << bits + more) // low)
    if -x >> bits >= bits:
        return 0, 1  # exp(-bits) < 2^-bits
    # exp(-|x|) = (1 / exp(r))^(2^halvings) with r = |x| / 2^halvings < 2^-4; each squaring loses one bit.
    halvings = max(0, (-x).bit_length() - bits + 4)
    work = bits + halvings + 16
    r = -x << 16
    total, term, j = 1 << work, 1 << work, 0
    while term:
        j += 1
        term = (term * r >> work) // j
        total += term
    # Each of the j terms was rounded down by less than 2, and those left out add up to less than 4.
    low, high = (1 << 2 * work) // (total + 2 * j + 4), -(-(1 << 2 * work) // total)
    for _ in range(halvings):
        low, high = low * low >> work, _up(high * high, work)
    return low >> work - bits, _up(high, work - bits)


def _log(x: int, bits: int) -> Enclosure:
    """Enclose log(x / 2^bits) for x > 0."""
    shift = x.bit_length() - 1
    power = shift - bits  # x / 2^bits = 2^power · z with 1 <= z < 2
    work = bits + 16 + abs(power).bit_length()
    low, high = _double_artanh(x - (1 << shift), x + (1 << shift), work)
    two_low, two_high = _double_artanh(1, 3, work)  # log 2
    low += power * (two_low if power >= 0 else two_high)
    high += power * (two_high if power >= 0 else two_low)
    return low >> work - bits, _up(high, work - bits)


@lru_cache(maxsize=64)
def _double_artanh(top: int, bottom: int, bits: int) -> Enclosure:
    """Enclose 2·artanh(t) = log((1 + t) / (1 - t)) for t = top / bottom in [0, 1/3]."""
    t = (top << bits) // bottom
    square = t * t >> bits
    total, power, j = t, t, 1
    while power:
        j += 2
        power = power * square >> bits
        total += power // j
    # Each of the j/2 terms was rounded down by less than 4, and those left out add up to less than 4.
    return 2 * total, 2 * (total + 2 * j + 4)
