"""Irrational constants as fractions, right to more than 1600 bits, and their splitting into floats."""

from __future__ import annotations

from fractions import Fraction

_BITS = 1700


def _inverse(n: int, sign: int) -> int:
    """arctan(1/n) (sign -1) or artanh(1/n) (sign 1), scaled."""
    power = (1 << _BITS + 64) // n
    total, k = power, 1
    while power:
        power //= n * n
        k += 2
        total += (sign if k % 4 == 3 else 1) * power // k
    return total >> 64


PI = Fraction(16 * _inverse(5, -1) - 4 * _inverse(239, -1), 1 << _BITS)
LN2 = Fraction(18 * _inverse(26, 1) - 2 * _inverse(4801, 1) + 8 * _inverse(8749, 1), 1 << _BITS)
LN10 = Fraction(46 * _inverse(31, 1) + 34 * _inverse(49, 1) + 20 * _inverse(161, 1), 1 << _BITS)


def rounded(x: Fraction, digits: int) -> float:
    """x to the nearest float of ``digits`` bits."""
    if x == 0:
        return 0.0
    exponent = abs(x.numerator).bit_length() - x.denominator.bit_length()
    while abs(x) < Fraction(2) ** exponent:
        exponent -= 1
    unit = Fraction(2) ** (exponent - digits + 1)
    return float(round(x / unit) * unit)


def split(x: Fraction, *digits: int) -> tuple[float, ...]:
    """Floats of so many bits each, whose sum is near x."""
    parts = []
    for n in digits:
        parts.append(rounded(x, n))
        x -= Fraction(parts[-1])
    return tuple(parts)
