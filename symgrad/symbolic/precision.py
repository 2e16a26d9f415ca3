"""Expressions as functions on mpmath numbers and on machine floats, and points to compare them at."""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable, Sequence
from typing import Any

import mpmath
import numpy as np
import sympy as sp

from symgrad.errors import UnsupportedError

DIGITS = 50
EXTREME = 1e3
MPMATH: list[Any] = [{"erfcinv": lambda x: mpmath.erfinv(1 - x)}, "mpmath"]


def precise_function(symbols: Sequence[Any], expr: Any) -> Callable[..., Any]:
    """``expr`` on mpmath numbers at the precision in force; nan where it is not a real number."""
    function = sp.lambdify(list(symbols), expr, modules=MPMATH, cse=True)

    def real(*args: Any) -> Any:
        try:
            return real_number(function(*args))
        except NameError as e:
            raise UnsupportedError(f"mpmath lacks a function of {expr}: {e}") from e
        except (ZeroDivisionError, ValueError, OverflowError, TypeError):
            return mpmath.nan

    return real


def real_number(value: Any) -> Any:
    """``value`` as an mpf; nan when it is complex."""
    if isinstance(value, bool):
        return value
    if isinstance(value, mpmath.mpc):
        return value.real if value.imag == 0 else mpmath.nan
    return mpmath.mpf(value)


def machine_function(symbols: Sequence[Any], expr: Any) -> Callable[..., float]:
    """``expr`` in float64, as NumPy computes it."""
    function = sp.lambdify(list(symbols), expr, modules=["scipy", "numpy"])

    def rounded(*args: float) -> float:
        with np.errstate(all="ignore"):
            return float(function(*(np.float64(a) for a in args)))

    return rounded


def points(count: int, *, seed: int = 0) -> list[tuple[float, ...]]:
    """Where expressions of ``count`` arguments are compared: ordinary points, the axes, and extremes."""
    draw = random.Random(seed)
    ordinary = [tuple(draw.uniform(-2, 2) for _ in range(count)) for _ in range(5)]
    positive = [tuple(draw.uniform(0.1, 3) for _ in range(count)) for _ in range(3)]
    inside = [tuple(draw.uniform(0.05, 0.95) for _ in range(count)) for _ in range(2)]
    special = [tuple([v] * count) for v in (0.0, 1.0, -1.0, EXTREME, -EXTREME)]
    corners = itertools.islice(itertools.product((-EXTREME, 1e-3, EXTREME), repeat=count), 27)
    return [*ordinary, *positive, *inside, *special, *corners]


def is_extreme(point: Sequence[float]) -> bool:
    return any(abs(v) >= EXTREME for v in point)
