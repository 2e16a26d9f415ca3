"""Formulas with indexed sums: how they are made of a graph, shortened, and checked for small sizes."""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable, Sequence
from typing import Any

import mpmath
import sympy as sp

from symgrad.ir.graph import Graph
from symgrad.symbolic.indexed import Elements, size_expression
from symgrad.symbolic.matrices import matrix_forms
from symgrad.symbolic.precision import DIGITS, MPMATH, real_number
from symgrad.symbolic.report import Check
from symgrad.symbolic.simplify import simplify as shortest

CHECKED = 8  # elements of one gradient
LENGTH = 3  # of the first free size in a check; the next ones are longer


def array_parts(graph: Graph, names: Sequence[str], *, simplify: bool) -> tuple[list[tuple[Any, Any]], dict[str, Any]]:
    """For each result its index and the expression of its element; and the shapes of the arguments that are arrays."""
    matrices = matrix_forms(graph, names)
    shapes = {n: tuple(map(size_expression, p.shape)) for n, p in zip(names, graph.params, strict=True) if p.shape}
    if matrices is not None:
        return [((), e) for e in matrices], shapes
    made, out = Elements(graph, names), []
    for r in graph.results:
        index = made.free_index(r.ndim)
        e = made.element(r, index)
        out.append((index, shorten(e) if simplify else e))
    return out, shapes


def shorten(e: Any) -> Any:
    """Simplify what stands inside of sums, then what stands around them."""
    sums = {s: _without_factors(s.func, shorten(s.function), s.limits) for s in outermost(e)}
    inner = e.xreplace(sums)
    hidden = {s: sp.Dummy(real=True) for s in (*outermost(inner), *inner.atoms(sp.Indexed))}
    shown = {d: s for s, d in hidden.items()}
    return shortest(inner.xreplace(hidden)).xreplace(shown)


def _without_factors(fold: Any, e: Any, limits: Any) -> Any:
    """A sum with what does not depend on its indices in front."""
    if fold is not sp.Sum:
        return fold(e, *limits)
    factor, rest = e.as_independent(*(limit[0] for limit in limits), as_Add=False)
    return factor * sp.Sum(rest, *limits)


def outermost(e: Any) -> list[Any]:
    """Sums and products over indices that stand in no other."""
    found, stack = [], [e]
    while stack:
        part = stack.pop()
        if isinstance(part, (sp.Sum, sp.Product)):
            found.append(part)
        else:
            stack += part.args
    return found


def check_array_gradient(
    title: str, value: Any, grad: Any, index: Sequence[Any], name: str, shapes: dict[str, Any]
) -> Check:
    """Every element of a gradient against sympy's derivative of the value written out, for small sizes."""
    lengths = _lengths([value, grad, *itertools.chain(*shapes.values())], shapes)
    if isinstance(value, sp.MatrixExpr):
        value, grad = value.subs(lengths).as_explicit()[0, 0], grad.subs(lengths).as_explicit()
    written, elements = _written(value.xreplace(lengths))
    shape = [int(s.xreplace(lengths)) for s in shapes.get(name, ())]
    places = list(itertools.product(*map(range, shape)))
    draw = random.Random(0)
    worst, compared = mpmath.mpf(0), 0
    with mpmath.workdps(DIGITS):
        for at in places[:CHECKED]:
            here = _element(grad, index, at, lengths)
            x = elements(_argument(name, at, bool(index), shape)) if at else sp.Symbol(name, real=True)
            claimed, _ = _written(here, elements)
            difference = sp.diff(written, x) - claimed
            symbols = sorted(difference.free_symbols | written.free_symbols, key=str)
            pair = [sp.lambdify(symbols, e, modules=MPMATH) for e in (difference, claimed)]
            for low, high in ((-1.5, 1.5), (0.2, 1.2), (0.2, 1.2)):
                point = [mpmath.mpf(draw.uniform(low, high)) for _ in symbols]
                gap, size = (_value(f, point) for f in pair)
                if mpmath.isfinite(gap):
                    worst, compared = max(worst, abs(gap) / max(1, abs(size))), compared + 1
    inexact = value.has(sp.Float) or grad.has(sp.Float)
    sizes = ", ".join(f"{s} = {k}" for s, k in lengths.items())
    detail = f"largest error {mpmath.nstr(worst, 3)}" if compared else "no point where it is finite"
    passed = bool(compared and worst < (1e-10 if inexact else 1e-25))
    return Check(title, f"compared with sympy's derivative{f' for {sizes}' if sizes else ''}", passed, detail)


def _element(grad: Any, index: Sequence[Any], at: tuple[int, ...], lengths: dict[Any, Any]) -> Any:
    if isinstance(grad, sp.MatrixBase):
        row, column = (*at, 0, 0)[:2]
        return grad[row, column]
    return grad.xreplace(lengths | dict(zip(index, map(sp.Integer, at), strict=bool(index))))


def _argument(name: str, at: tuple[int, ...], indexed: bool, shape: Sequence[int]) -> Any:
    if indexed:
        return sp.IndexedBase(name, real=True)[at]
    return sp.MatrixSymbol(name, *(*shape, 1)[:2])[(*at, 0)[:2]]


def _value(function: Callable[..., Any], point: Sequence[Any]) -> Any:
    try:
        return real_number(function(*point))
    except (ZeroDivisionError, ValueError, OverflowError, TypeError):
        return mpmath.nan


def _lengths(expressions: Sequence[Any], shapes: dict[str, Any]) -> dict[Any, Any]:
    names = sorted({s for e in expressions for s in e.free_symbols if s.is_positive and s.is_integer}, key=str)
    return {s: sp.Integer(LENGTH + k) for k, s in enumerate(names)}


def _written(e: Any, elements: Any = None) -> tuple[Any, Any]:
    """``e`` with its sums carried out and its elements as symbols; and the symbol of each element."""
    full = e.doit()
    known: dict[Any, Any] = {}

    def symbol_of(x: Any) -> Any:
        return known.setdefault(x, sp.Symbol(str(x), real=True))

    symbol_for = elements or symbol_of
    atoms = full.atoms(sp.Indexed, sp.matrices.expressions.matexpr.MatrixElement)
    return full.xreplace({x: symbol_for(x) for x in atoms}), symbol_for
