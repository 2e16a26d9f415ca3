"""Expression -> an equal one that is shorter, for reading.

A rewrite is kept only if it is shorter, brings no new function, agrees with the original at 50 digits and more, is
finite at the same points, and is no worse in float64 at ordinary and extreme arguments. Work is bounded: larger
expressions get the cheap rewrites or none, and every rewrite has a time-out.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from typing import Any

import mpmath
import sympy as sp

from symgrad.symbolic.patience import within
from symgrad.symbolic.precision import is_extreme, machine_function, points, precise_function

SMALL, LARGE = 120, 500  # nodes up to which all rewrites, the cheap rewrites are tried
SECONDS = 3.0  # for one expression altogether
ROUNDS = 4

Rewrite = Callable[[Any], Any]


def flatten_cases(e: Any) -> Any:
    """Cases inside of cases as one list."""

    def merged(pieces: Any) -> Any:
        out = []
        for value, condition in pieces.args:
            inner = value.args if isinstance(value, sp.Piecewise) else ((value, sp.true),)
            out += [(v, sp.And(condition, c).simplify()) for v, c in inner]
        return sp.Piecewise(*out)

    return e.replace(lambda f: isinstance(f, sp.Piecewise), merged)


CHEAP: tuple[Rewrite, ...] = (sp.factor_terms, sp.powsimp, sp.powdenest)
THOROUGH: tuple[Rewrite, ...] = (
    sp.factor,
    sp.cancel,
    lambda e: sp.factor(sp.together(e)),
    lambda e: sp.powsimp(sp.factor(sp.together(e))),
    sp.trigsimp,
    sp.radsimp,
    sp.expand,
    lambda e: sp.powsimp(sp.expand(e)),
    lambda e: sp.expand(sp.factor(e), deep=False),
    lambda e: sp.simplify(e, ratio=1),
)


def size(e: Any) -> int:
    """Nodes of the expression's tree."""
    return sum(1 for _ in sp.preorder_traversal(e))


def length(e: Any) -> int:
    """What a reader has to go through: operations, and the cases of piecewise functions."""
    cases = sum(len(f.args) for f in e.atoms(sp.Piecewise)) + len(e.atoms(sp.core.relational.Relational))
    return int(sp.count_ops(e)) + cases


def simplify(e: Any, *, seconds: float = SECONDS, thorough: bool = True) -> Any:
    """The shortest of what the rewrites give, over some rounds; ``e`` itself when nothing helps."""
    if not isinstance(e, sp.Expr) or length(e) < 2:
        return e
    deadline = time.monotonic() + seconds
    if e.has(sp.Piecewise):
        return _simplify_cases(e, deadline, thorough)
    return _improved(e, deadline, thorough)


def _improved(e: Any, deadline: float, thorough: bool) -> Any:
    nodes = size(e)
    rewrites = CHEAP + THOROUGH if nodes <= SMALL and thorough else CHEAP if nodes <= LARGE else ()
    best = e
    for _ in range(ROUNDS):
        shorter = _shorter(best, e, rewrites, deadline)
        if shorter is None:
            return best
        best = shorter
    return best


def _simplify_cases(e: Any, deadline: float, thorough: bool) -> Any:
    """Piecewise functions: the value of each case by itself, then what stands around them."""
    if size(e) > LARGE:
        return e
    flat = within(max(0.0, deadline - time.monotonic()), lambda: flatten_cases(e))
    if flat is None or length(flat) > length(e):
        flat = e
    outermost: dict[Any, Any] = {}

    def hide(f: Any) -> Any:
        cases = ((_improved(v, deadline, thorough) if not v.has(sp.Piecewise) else v, c) for v, c in f.args)
        return outermost.setdefault(sp.Piecewise(*cases), sp.Dummy(real=True))

    around = hide(flat) if isinstance(flat, sp.Piecewise) else flat.replace(lambda f: isinstance(f, sp.Piecewise), hide)
    out = _improved(around, deadline, thorough).xreplace({dummy: f for f, dummy in reversed(outermost.items())})
    out = out.xreplace({dummy: f for f, dummy in outermost.items()})
    return out if length(out) < length(e) and acceptable(e, out) else e


def _shorter(e: Any, original: Any, rewrites: Iterable[Rewrite], deadline: float) -> Any:
    """The shortest acceptable rewrite of ``e``, or None."""
    candidates: dict[Any, int] = {}
    for rewrite in rewrites:
        left = deadline - time.monotonic()
        if left <= 0:
            break
        new = within(left, lambda rewrite=rewrite: rewrite(e))  # type: ignore[misc]  # a default argument binds early
        if new is not None and isinstance(new, sp.Expr) and length(new) < length(e):
            candidates[new] = length(new)
    for new in sorted(candidates, key=lambda c: (candidates[c], str(c))):
        if acceptable(original, new):
            return new
    return None


def functions(e: Any) -> set[Any]:
    return {f.func for f in e.atoms(sp.Function) if not isinstance(f, sp.Piecewise)}


def acceptable(old: Any, new: Any) -> bool:
    """Whether ``new`` may stand for ``old``: no new functions, equal, the same domain, no worse in float64."""
    if not functions(new) <= functions(old) or not new.free_symbols <= old.free_symbols:
        return False
    symbols = sorted(old.free_symbols, key=str)
    f, g = precise_function(symbols, old), precise_function(symbols, new)
    f64, g64 = machine_function(symbols, old), machine_function(symbols, new)
    for point in points(len(symbols)):
        with mpmath.workdps(1000 if is_extreme(point) else 60):
            args = [mpmath.mpf(v) for v in point]
            a, b = f(*args), g(*args)
            if mpmath.isfinite(a) != mpmath.isfinite(b):
                return False
            if not mpmath.isfinite(a):
                continue
            scale = max(abs(a), abs(b))
            if abs(a - b) > scale * _tolerance(old) + mpmath.mpf(10) ** (-mpmath.mp.dps // 2):
                return False
            if _error(g64, point, a) > 1e3 * _error(f64, point, a) + mpmath.mpf(1e-12):
                return False
    return True


def _tolerance(e: Any) -> Any:
    """Floats in an expression are rounded to 17 digits by every rewrite."""
    return mpmath.mpf(1e-13) if e.has(sp.Float) else mpmath.mpf(10) ** -30


def _error(function: Callable[..., float], point: tuple[float, ...], exact: Any) -> Any:
    """The relative error of a float64 evaluation; results beyond the range of floats count as exact."""
    try:
        value = mpmath.mpf(function(*point))
    except (ArithmeticError, ValueError, TypeError, NameError):
        return mpmath.inf
    if not mpmath.isfinite(value):
        return mpmath.mpf(0) if abs(exact) > 1e308 else mpmath.inf
    if max(abs(value), abs(exact)) < 1e-300:
        return mpmath.mpf(0)
    return abs(value - exact) / max(abs(exact), mpmath.mpf(1e-300))
