"""Derivatives of machine-precision functions by differences."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

STEP = 4e-4


def extrapolated(value: Callable[[float], float], step: float) -> float:
    """The derivative at 0 by central differences of three steps, extrapolated twice."""
    a, b, c = ((value(h) - value(-h)) / (2 * h) for h in (4 * step, 2 * step, step))
    first, second = (4 * b - a) / 3, (4 * c - b) / 3
    return (16 * second - first) / 15


def relative(a: float, b: float) -> float:
    """How far two slopes are apart; infinite when one is not a number."""
    return abs(a - b) / max(1.0, abs(a), abs(b)) if np.isfinite(a - b) else np.inf


def richardson(value: Callable[[float], Any], h: float = 2e-2, rows: int = 5) -> Any:
    """The derivative at 0 from central differences of halved steps, extrapolated; the best-agreeing entry."""
    table: list[list[Any]] = []
    best, best_gap = None, np.inf
    for i in range(rows):
        row = [(value(h) - value(-h)) / (2 * h)]
        for j in range(i):
            row.append(row[j] + (row[j] - table[i - 1][j]) / (4 ** (j + 1) - 1))
            gap = max(abs(row[-1] - row[j]), abs(row[-1] - table[i - 1][j]))
            if gap <= best_gap:
                best, best_gap = row[-1], gap
        table.append(row)
        h /= 2
    return table[-1][0] if best is None else best
