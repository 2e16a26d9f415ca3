"""Floats <-> exact sympy numbers."""

from __future__ import annotations

import functools
import math
from fractions import Fraction
from typing import Any

import sympy as sp

SHORT = 12  # significant digits up to which a decimal is taken at its word


def exact(value: Any) -> Any:
    """The number a literal stands for: 0.1 is 1/10, 0.693… the logarithm of 2; other floats keep their 53 bits."""
    if isinstance(value, bool):
        return sp.true if value else sp.false
    if isinstance(value, int):
        return sp.Integer(value)
    if math.isnan(value):
        return sp.nan
    if math.isinf(value):
        return sp.oo if value > 0 else -sp.oo
    if value.is_integer() and abs(value) < 2**53:
        return sp.Integer(int(value))
    digits = len(repr(value).split("e")[0].replace(".", "").strip("-0"))
    if digits <= SHORT:
        return sp.Rational(repr(value))
    small = Fraction(value).limit_denominator(1000)
    if float(small) == value:
        return sp.Rational(small.numerator, small.denominator)
    return _named(value) or sp.Float(value, max(digits, 16))


def _named(value: float) -> Any:
    """A small multiple of a well-known constant that rounds to ``value``."""
    for name, known in _constants():
        ratio = Fraction(value / known).limit_denominator(64)
        if ratio and abs(ratio.numerator) <= 64 and float(ratio) * known == value:
            return sp.Rational(ratio.numerator, ratio.denominator) * name
    return None


@functools.cache
def _constants() -> tuple[tuple[Any, float], ...]:
    pi, two = sp.pi, sp.Integer(2)
    names = [
        pi, sp.E, sp.log(2), sp.log(10), sp.log(3), sp.sqrt(2), sp.sqrt(3), sp.sqrt(5), sp.sqrt(pi), 1 / sp.sqrt(pi),
        sp.sqrt(two / pi), sp.sqrt(2 * pi), 1 / sp.sqrt(2 * pi), sp.log(pi), sp.log(2 * pi), 1 / pi, pi**2,
        1 / sp.log(2), 1 / sp.log(10), sp.EulerGamma,
    ]  # fmt: skip
    return tuple((n, float(n.evalf(30))) for n in names)
