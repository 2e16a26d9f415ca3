"""Python's own functions on traced values: ``math.*`` and builtins. They give Python numbers, which are weak."""

from __future__ import annotations

import builtins
import functools
import math
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from symgrad.errors import DTypeError, ShapeError, UnsupportedError
from symgrad.frontend.functions import elementwise, reductions
from symgrad.frontend.functions.support import Function, Value, as_bool, node_of, static_int
from symgrad.frontend.tracer import (
    FUNCTIONS,
    TracedSize,
    Tracer,
    contains_traced,
    is_traced,
    operands,
    value,
    weak_kind,
    wrap,
)
from symgrad.ir.node import Node
from symgrad.ir.types import boolean, dtype_of, f64, i64
from symgrad.ops import folds, special
from symgrad.ops import pointwise as p

PYTHON: dict[Any, Function] = {}


def replaces(function: Any) -> Callable[[Function], Function]:
    """Enter a version of a Python function for traced arguments; on others the original is called."""

    def decorate(version: Function) -> Function:
        @functools.wraps(function, updated=())
        def call(*args: Any, **keywords: Any) -> Any:
            args = tuple(list(x) if isinstance(x, Iterator) else x for x in args)
            if not any(contains_traced(x) for x in (*args, *keywords.values())):
                return function(*args, **keywords)
            return version(*args, **keywords)

        PYTHON[function] = call
        return call

    return decorate


def scalar(x: Value, what: str) -> Node:
    """A number as f64; TypeError for arrays of several elements, as Python has it."""
    n = node_of(x)
    if n.ndim and n.shape != (1,) * n.ndim:
        raise ShapeError(
            f"{what}: only arrays of one element can be converted to Python numbers; use np.{what.split('.')[-1]}"
        )
    return p.as_dtype(n if not n.ndim else folds.sum_(n, axes=tuple(range(n.ndim))), f64)


def number_of(n: Node) -> Tracer:
    """A Python number."""
    return wrap(n, weak=True)


# --- math ------------------------------------------------------------------------------------------------------------

_MATH: dict[str, Callable[..., Node]] = {
    "sin": p.sin, "cos": p.cos, "tan": p.tan, "asin": p.arcsin, "acos": p.arccos, "atan": p.arctan, "atan2": p.arctan2,
    "sinh": p.sinh, "cosh": p.cosh, "tanh": p.tanh, "asinh": p.arcsinh, "acosh": p.arccosh, "atanh": p.arctanh,
    "exp": p.exp,
    "exp2": p.exp2, "expm1": p.expm1, "log1p": p.log1p, "log2": p.log2, "log10": p.log10, "sqrt": p.sqrt,
    "cbrt": p.cbrt,
    "fabs": p.abs_, "fmod": p.fmod, "erf": special.erf, "erfc": special.erfc, "gamma": special.gamma,
    "lgamma": special.gammaln,
    "degrees": lambda x: x * (180 / math.pi), "radians": lambda x: x * (math.pi / 180),
    "isnan": lambda x: p.ne(x, x), "isinf": lambda x: p.eq(p.abs_(x), math.inf),
    "isfinite": lambda x: p.lt(p.abs_(x), math.inf),
    "copysign": lambda x, y: p.select(elementwise.sign_bit(y), -p.abs_(x), p.abs_(x)),
    "remainder": lambda x, y: x - p.rint(x / y) * y, "fma": lambda x, y, z: x * y + z,
}  # fmt: skip


def _enter_math(name: str, op: Callable[..., Node]) -> None:
    @replaces(getattr(math, name))
    def call(*xs: Value) -> Tracer:
        return number_of(op(*(scalar(x, f"math.{name}") for x in xs)))


for _name, _op in _MATH.items():
    if hasattr(math, _name):  # some are newer than the oldest Python we run on
        _enter_math(_name, _op)


def _whole(name: str, rounding: Callable[[Node], Node]) -> None:
    @replaces(getattr(math, name))
    def call(x: Value) -> Any:
        if isinstance(x, TracedSize):
            return x
        n = node_of(x)
        return number_of(
            p.as_dtype(rounding(scalar(x, f"math.{name}")) if n.dtype.is_float else scalar_integer(n), i64)
        )


def scalar_integer(n: Node) -> Node:
    return p.as_dtype(n if not n.ndim else folds.sum_(n, axes=tuple(range(n.ndim))), i64)


for _name, _op in (("floor", p.floor), ("ceil", p.ceil), ("trunc", p.trunc)):
    _whole(_name, _op)


@replaces(math.log)
def log(x: Value, base: Value = None) -> Tracer:
    n = p.log(scalar(x, "math.log"))
    return number_of(n if base is None else n / p.log(scalar(base, "math.log")))


@replaces(math.pow)
def pow_(x: Value, y: Value) -> Tracer:
    return number_of(
        value(
            FUNCTIONS[np.power](
                number_of(scalar(x, "math.pow")), y if weak_kind(y) else number_of(scalar(y, "math.pow"))
            )
        )
    )


@replaces(math.hypot)
def hypot(*xs: Value) -> Tracer:
    nodes = [scalar(x, "math.hypot") for x in xs]
    if len(nodes) == 1:
        return number_of(p.abs_(nodes[0]))
    return number_of(functools.reduce(p.hypot, nodes))


@replaces(math.dist)
def dist(a: Value, b: Value) -> Tracer:
    x, y = (p.as_dtype(node_of(v), f64) for v in (a, b))
    return number_of(folds.norm2(x - y, axes=(0,)))


@replaces(math.fsum)
def fsum(xs: Value) -> Tracer:
    return number_of(folds.sum_(p.as_dtype(node_of(xs), f64), axes=(0,)))


@replaces(math.prod)
def prod(xs: Value, *, start: Value = 1) -> Any:
    out = start
    for x in xs if isinstance(xs, list | tuple) else (reductions.prod(xs, axis=0),):
        out = out * x
    return out


@replaces(math.isclose)
def isclose(a: Value, b: Value, *, rel_tol: float = 1e-09, abs_tol: float = 0.0) -> Tracer:
    x, y = scalar(a, "math.isclose"), scalar(b, "math.isclose")
    near = p.le(p.abs_(x - y), p.maximum(p.maximum(p.abs_(x), p.abs_(y)) * rel_tol, abs_tol))
    finite = p.and_(p.lt(p.abs_(x), math.inf), p.lt(p.abs_(y), math.inf))
    return number_of(p.or_(p.eq(x, y), p.and_(near, finite)))


# --- builtins --------------------------------------------------------------------------------------------------------


@replaces(builtins.float)
def float_(x: Value) -> Tracer:
    return number_of(scalar(x, "float"))


@replaces(builtins.int)
def int_(x: Value) -> Any:
    if isinstance(x, TracedSize):
        return x
    n = node_of(x)
    return number_of(p.as_dtype(p.trunc(scalar(x, "int")), i64) if n.dtype.is_float else scalar_integer(n))


@replaces(builtins.len)
def len_(x: Value) -> Any:
    if not is_traced(x) or not x.ndim:
        return builtins.len(x)
    return x.shape[0]


@replaces(builtins.round)
def round_(x: Value, ndigits: Any = None) -> Any:
    return x.__round__() if ndigits is None else x.__round__(static_int(ndigits, "round: ndigits"))


@replaces(builtins.pow)
def power(base: Value, exp: Value, mod: Value = None) -> Any:
    return base**exp if mod is None else base**exp % mod


@replaces(builtins.divmod)
def divmod_(x: Value, y: Value) -> tuple[Any, Any]:
    return x // y, x % y


@replaces(builtins.abs)
def abs_(x: Value) -> Any:
    return x.__abs__()


def _numbers(args: tuple[Any, ...], what: str) -> list[Any]:
    """What min and max choose from."""
    items: Any = args if len(args) > 1 else args[0]
    if is_traced(items):
        if items.ndim != 1:
            raise ShapeError(f"{what}: the truth of an array is ambiguous; use np.{what}(x)")
        return [items]
    if not items:
        raise ValueError(f"{what}() iterable argument is empty")
    if any(is_traced(x) and x.ndim for x in items):
        raise ShapeError(f"{what}: the truth of an array is ambiguous; use np.{what}imum(x, y)")
    return list(items)


def chosen(a: Value, b: Value, largest: bool) -> Any:
    """Python's choice between two, which keeps the first one when nan is there; a tie shares the derivative."""
    if isinstance(a, TracedSize | int) and isinstance(b, TracedSize | int) and not (is_traced(a) or is_traced(b)):
        return b if (b > a if largest else b < a) else a
    nodes = operands(a, b)
    x, y = nodes
    pick = (p.maximum if largest else p.minimum)(x, y)
    if x.dtype.is_float:
        pick = p.select(p.eq(y, y), p.select(p.eq(x, x), pick, x), x)
    return wrap(pick, weak=nodes.weak)


def _extreme(name: str, largest: bool) -> None:
    @replaces(getattr(builtins, name))
    def extreme(*args: Any, key: Any = None, default: Any = None) -> Any:
        if key is not None:
            raise UnsupportedError(f"{name}: the keyword key is not supported on traced values")
        items = _numbers(args, name)
        if len(items) == 1 and is_traced(items[0]) and items[0].ndim:
            return (reductions.max_ if largest else reductions.min_)(items[0])
        return functools.reduce(lambda a, b: chosen(a, b, largest), items)


_extreme("max", True)
_extreme("min", False)


@replaces(builtins.sum)
def sum_(iterable: Any, /, start: Value = 0) -> Any:
    if is_traced(iterable):
        total = reductions.sum_(iterable, axis=0, dtype=None if iterable.node.dtype != boolean else int)
        return total if isinstance(start, int) and not contains_traced(start) and start == 0 else start + total
    out = start
    for x in iterable:
        out = out + x
    return out


def _truth(name: str, fold: Function, stop: bool) -> None:
    """any stops at a True, all at a False."""

    def truth(iterable: Any, /) -> Any:
        """Of traced arrays and numbers a traced bool; nothing is decided before the call."""
        if is_traced(iterable):
            if iterable.ndim > 1:
                raise ShapeError(f"{name}: the truth of an array is ambiguous; use np.{name}(x)")
            return wrap(value(fold(iterable)), weak=True)
        truths: list[Node] = []
        for x in iterable:
            if is_traced(x):
                truths.append(as_bool(value(x)))
            elif bool(x) is stop:
                return stop
        return wrap(functools.reduce(p.or_ if stop else p.and_, truths), weak=True) if truths else not stop

    PYTHON[getattr(builtins, name)] = truth


_truth("any", reductions.any_, True)
_truth("all", reductions.all_, False)


@replaces(builtins.complex)
def complex_(*args: Any) -> Any:
    raise DTypeError("complex: traced values are real")


# --- NumPy's scalar types --------------------------------------------------------------------------------------------


def _scalar_type(kind: type[np.generic]) -> None:
    dtype = dtype_of(kind)

    @replaces(kind)
    def cast(x: Value = 0) -> Tracer:
        return wrap(node_of(x, dtype)) if is_traced(x) and not x.weak else wrap(p.as_dtype(node_of(x), dtype))


for _kind in (
    np.float64,
    np.float32,
    np.int64,
    np.int32,
    np.int16,
    np.int8,
    np.uint64,
    np.uint32,
    np.uint16,
    np.uint8,
    np.bool_,
):
    _scalar_type(_kind)
