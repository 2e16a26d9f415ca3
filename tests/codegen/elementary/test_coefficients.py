"""What the comments of the coefficients claim: how far each polynomial is from its function, in weighted error."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import mpmath as mp
import pytest

from symgrad.codegen.elementary import coefficients
from symgrad.codegen.elementary.coefficients import COEFFICIENTS

CLAIM = re.compile(r'\("(\w+)", (\d+)\): \(  # degree (\d+) on \[(\S+), (\S+)\], weighted error 2\*\*([-.\d]+)')
CLAIMS = {(name, int(bits)): rest for name, bits, *rest in CLAIM.findall(Path(coefficients.__file__).read_text())}
CENTRE = mp.mpf("1.5")  # of the tail of erf
Number = Any


def root(of: Callable[[Number], Number], series: tuple[Number, ...]) -> Callable[[Number], Number]:
    """A function of z = s**2 by s; near zero by the first terms of its series."""
    return lambda z: of(mp.sqrt(z)) if z > 1e-10 else series[0] + series[1] * z


def scaled_erfc(t: Number) -> Number:
    """erfc(x) exp(x**2) (1 + 2 x) at t = (x - 4) / (x + 4), after Shepherd and Laframboise."""
    x = 4 * (1 + t) / (1 - t)
    return mp.erfc(x) * mp.exp(x * x) * (1 + 2 * x)


def one(_: Number) -> Number:
    return mp.mpf(1)


# The function that a polynomial stands for, and the weight of its error in the value of the elementary function.
with mp.workdps(60):  # the constants are exact enough, too
    TARGETS: dict[str, tuple[Callable[[Number], Number], Callable[[Number], Number]]] = {
        "exp": (lambda r: (mp.expm1(r) - r) / r**2 if abs(r) > 1e-10 else mp.mpf(1) / 2 + r / 6, abs),
        "log": (root(lambda s: (2 * mp.atanh(s) / s - 2) / s**2, (mp.mpf(2) / 3, mp.mpf(2) / 5)), lambda z: z / 2),
        "log3": (
            root(lambda s: (2 * mp.atanh(s) / s - 2 - 2 * s**2 / 3) / s**4, (mp.mpf(2) / 5, mp.mpf(2) / 7)),
            lambda z: z**2 / 2,
        ),
        "sin": (root(lambda s: (mp.sin(s) / s - 1) / s**2, (-mp.mpf(1) / 6, mp.mpf(1) / 120)), lambda z: z),
        "cos": (root(lambda s: (mp.cos(s) - 1 + s**2 / 2) / s**4, (mp.mpf(1) / 24, -mp.mpf(1) / 720)), lambda z: z**2),
        "erf": (root(lambda s: mp.erf(s) / s - 1, (2 / mp.sqrt(mp.pi) - 1, -2 / mp.sqrt(mp.pi) / 3)), one),
        "erft": (lambda t: -mp.log(mp.erfc(t + CENTRE)), lambda t: mp.erfc(t + CENTRE)),
        "erfcx": (scaled_erfc, one),
        "atan": (root(lambda s: (mp.atan(s) / s - 1) / s**2, (-mp.mpf(1) / 3, mp.mpf(1) / 5)), lambda z: z),
        "asin": (root(lambda s: (mp.asin(s) / s - 1) / s**2, (mp.mpf(1) / 6, mp.mpf(3) / 40)), lambda z: z),
        "rcbrt": (lambda m: m ** (-mp.mpf(1) / 3), lambda m: mp.cbrt(m)),
    }


def largest_error(name: str, bits: int, low: Number, high: Number) -> Number:
    """The weighted error of the polynomial as it is stored, at the extrema of a Chebyshev polynomial and more."""
    function, weight = TARGETS[name]
    stored = [mp.mpf(c) for c in COEFFICIENTS[name, bits]]
    stored[0] += mp.mpf(COEFFICIENTS.get((f"{name}_lo", bits), (0.0,))[0])
    middle, half = (low + high) / 2, (high - low) / 2
    at = [middle + half * mp.cos(mp.pi * k / 400) for k in range(401)]
    return max(abs((mp.polyval(stored[::-1], z) - function(z)) * weight(z)) for z in at)


def test_there_is_a_claim_for_every_polynomial() -> None:
    assert {key for key in COEFFICIENTS if not key[0].endswith("_lo")} == set(CLAIMS)


@pytest.mark.parametrize("key", CLAIMS, ids=lambda key: f"{key[0]}-{key[1]}")
def test_the_error_is_what_the_comment_says(key: tuple[str, int]) -> None:
    degree, low, high, claim = CLAIMS[key]
    assert len(COEFFICIENTS[key]) == int(degree) + 1
    with mp.workdps(60):
        error = mp.log(largest_error(*key, mp.mpf(low), mp.mpf(high)), 2)
    assert abs(float(error) - float(claim)) < 0.11
