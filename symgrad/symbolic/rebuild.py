"""sympy -> nodes, through a table read off the declarations; a function without a primitive is an error naming it."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from typing import Any

import sympy as sp

import symgrad.ops.special  # noqa: F401  # its primitives belong into the table
from symgrad.errors import UnsupportedError
from symgrad.ir.node import Node, constant
from symgrad.ir.op import REGISTRY, Op
from symgrad.ir.types import DType, f64
from symgrad.ops import pointwise as p

Value = Any  # a Node, or a Python number until it meets one


def from_sympy(expr: Any, env: dict[Any, Node]) -> Node:
    """``expr`` in primitives; each distinct subexpression is made once."""
    value = rebuild(expr, env)
    if isinstance(value, Node):
        return value
    return constant(value, _dtype(env))


def _dtype(env: dict[Any, Node]) -> DType:
    return next((n.dtype for n in env.values()), f64)


def rebuild(expr: Any, env: dict[Any, Node]) -> Value:
    """As ``from_sympy``, but a number stays a Python number."""
    done: dict[Any, Value] = dict(env)
    stack = [expr]
    while stack:
        e = stack[-1]
        if e in done:
            stack.pop()
            continue
        if _is_number(e):
            done[e] = float(e.evalf(20)) if not e.is_infinite else math.inf * int(sp.sign(e))
            continue
        if e.is_Symbol:
            raise UnsupportedError(f"the symbol {e} stands for no value")
        if e in (sp.true, sp.false):
            done[e] = bool(e)
            continue
        waiting = [a for a in _operands(e) if a not in done]
        if waiting:
            stack.extend(waiting)
            continue
        done[e] = _build(e, done)
    return done[expr]


def _is_number(e: Any) -> bool:
    return isinstance(e, sp.Expr) and not e.free_symbols and bool(e.is_number)


def _operands(e: Any) -> Sequence[Any]:
    match e:
        case sp.Piecewise():
            return tuple(part for pair in e.args for part in pair.args)
        case sp.Add() | sp.Mul():
            return tuple(part for term in e.args for part in _parts(e, term))
        case sp.Pow() if _fixed_power(e.exp):
            return (e.base,)
        case sp.polygamma() | sp.DiracDelta():
            return (e.args[-1],)
        case _:
            args: tuple[Any, ...] = e.args
            return args


def _parts(e: Any, term: Any) -> tuple[Any, ...]:
    """What a term contributes: the other factors of a negative one, the base of a quotient."""
    if isinstance(e, sp.Add):
        return (-term,) if term.could_extract_minus_sign() else (term,)
    if isinstance(term, sp.Pow) and term.exp.is_number and term.exp.is_negative:
        return (1 / term,)
    return (term,)


def _fixed_power(power: Any) -> bool:
    return bool(power.is_Integer or (power.is_Rational and power.q == 2 and abs(power.p) < 8))


def _build(e: Any, done: dict[Any, Value]) -> Value:
    match e:
        case sp.Add():
            return _sum(e, done)
        case sp.Mul():
            return _product(e, done)
        case sp.Pow():
            return _power(e, done)
        case sp.Piecewise():
            return _piecewise(e, done)
        case sp.Heaviside():
            x = done[e.args[0]]
            return p.select(p.lt(0.0, x), 1.0, p.select(p.eq(x, 0.0), _like(0.5, x), _like(0.0, x)))
        case sp.DiracDelta():
            return 0.0  # zero but at one point, where a derivative is one-sided
        case sp.polygamma() if e.args[0].is_Integer:
            return REGISTRY["polygamma_n"](done[e.args[1]], n=int(e.args[0]))
        case sp.Not():
            return p.not_(done[e.args[0]])
    return _applied(e, [done[a] for a in e.args])


def _like(value: float, x: Node) -> Node:
    return constant(value, x.dtype)


def _sum(e: Any, done: dict[Any, Value]) -> Value:
    plus = [done[t] for t in e.args if not t.could_extract_minus_sign()]
    minus = [done[-t] for t in e.args if t.could_extract_minus_sign()]
    if not plus:
        return -functools.reduce(lambda a, b: a + b, minus)
    return functools.reduce(lambda a, b: a - b, minus, functools.reduce(lambda a, b: a + b, plus))


def _product(e: Any, done: dict[Any, Value]) -> Value:
    above = [done[t] for t in e.args if _parts(e, t) == (t,)]
    below = [done[1 / t] for t in e.args if _parts(e, t) != (t,)]
    negative = any(v == -1.0 for v in above if not isinstance(v, Node))
    above = [v for v in above if isinstance(v, Node) or v != -1.0]
    top = functools.reduce(lambda a, b: a * b, above) if above else 1.0
    out = top if not below else top / functools.reduce(lambda a, b: a * b, below)
    return -out if negative else out


def _power(e: Any, done: dict[Any, Value]) -> Value:
    base = done[e.base]
    if e.exp.is_Integer:
        return p.ipow(base, n=int(e.exp))
    if not _fixed_power(e.exp):
        return p.pow_(base, done[e.exp])
    root, n = p.sqrt(base), int(e.exp.p)
    return root if n == 1 else 1.0 / root if n == -1 else p.ipow(root, n=n)


def _piecewise(e: Any, done: dict[Any, Value]) -> Value:
    out: Value = math.nan
    for value, condition in reversed(e.args):
        if condition == sp.true:
            out = done[value]
            continue
        where = done[condition]
        new = done[value]
        if not isinstance(new, Node) and not isinstance(out, Node):
            like = next(n for n in where.args if n.dtype.is_float)
            new, out = _like(new, like), _like(out, like)
        out = p.select(where, new, out)
    return out


def _applied(e: Any, args: list[Value]) -> Value:
    build = _table().get(e.func)
    if build is None:
        raise UnsupportedError(f"{e.func.__name__} has no primitive")
    return build(*args)


@functools.cache
def _table() -> dict[Any, Callable[..., Value]]:
    """sympy function -> primitive, from every declaration whose form is one function of its arguments in some order."""
    symbols = sp.symbols("x0:3", real=True)
    table: dict[Any, Callable[..., Value]] = {
        sp.StrictLessThan: p.lt, sp.LessThan: p.le, sp.Eq: p.eq, sp.Ne: p.ne,
        sp.StrictGreaterThan: lambda x, y: p.lt(y, x), sp.GreaterThan: lambda x, y: p.le(y, x),
        sp.Max: _folded(p.maximum), sp.Min: _folded(p.minimum), sp.And: _folded(p.and_), sp.Or: _folded(p.or_),
    }  # fmt: skip
    for op in list(REGISTRY.values()):
        for head, build in _read_off(op, symbols):
            table.setdefault(head, build)
    return table


def _folded(op: Op) -> Callable[..., Value]:
    return lambda *args: functools.reduce(lambda a, b: op(a, b), args)


def _read_off(op: Op, symbols: Any) -> list[tuple[Any, Callable[..., Value]]]:
    if isinstance(op.sympy, str):
        return [(getattr(sp, op.sympy), op)]
    if op.sympy is None or op.prepare is None:
        return []
    for arity in (1, 2, 3):
        try:
            e = op.sympy(sp, *symbols[:arity])
        except TypeError:
            continue  # another arity, or attributes
        places = [symbols.index(a) for a in e.args if a in symbols]
        if isinstance(e, sp.Function) and sorted(places) == list(range(len(e.args))) and len(places) == arity:
            return [(e.func, _reordered(op, places))]
    return []


def _reordered(op: Op, places: list[int]) -> Callable[..., Value]:
    return lambda *args: op(*(args[places.index(k)] for k in range(len(args))))
