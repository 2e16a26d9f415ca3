"""Graph -> its value in mpmath arithmetic: what the machine's numbers are measured against."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import mpmath
import numpy as np
import sympy as sp

from symgrad.errors import UnsupportedError
from symgrad.ir.graph import Graph
from symgrad.ir.op import Op
from symgrad.ir.types import DType, TensorType
from symgrad.symbolic.bridge import form
from symgrad.symbolic.elements import elementwise, evaluate_elements
from symgrad.symbolic.precision import DIGITS, precise_function


class _Precise:
    """Floats are mpmath numbers; integers and bools stay machine arrays."""

    def literal(self, value: Any, dtype: DType) -> Any:
        return mpmath.mpf(value.item()) if dtype.is_float else value

    def function(self, op: Op, attrs: dict[str, Any], types: Sequence[TensorType]) -> Callable[..., Any] | None:
        if op.name == "cast":
            return _cast(attrs["dtype"])
        if op.name == "select":
            return lambda p, a, b: a if p else b
        if op.name == "div":
            return _divide
        if not any(t.dtype.is_float for t in types):
            return functools.partial(op.numpy, **attrs)
        return None if op.sympy is None else _pointwise(op, len(types), tuple(sorted(attrs.items())))

    def array(self, values: Any, dtype: DType) -> Any:
        if not dtype.is_float:
            return np.asarray(values).astype(dtype.numpy)
        array = np.asarray(values)
        if array.dtype != object and array.size:
            raise TypeError("the reference computes in machine floats")
        return elementwise(_number, array)

    def positions(self, values: Any) -> Any:
        return values


PRECISE = _Precise()


def _number(value: Any) -> Any:
    return value if isinstance(value, mpmath.mpf) else mpmath.mpf(value)


def _divide(x: Any, y: Any) -> Any:
    if y != 0:
        return x / y
    return mpmath.nan if x == 0 or mpmath.isnan(x) else mpmath.inf * mpmath.sign(x)


def _cast(target: DType) -> Callable[[Any], Any]:
    if target.is_float:
        return lambda x: x if isinstance(x, mpmath.mpf) else mpmath.mpf(int(x))
    return (lambda x: bool(x)) if target.kind == "b" else (lambda x: int(x))


@functools.cache
def _pointwise(op: Op, arity: int, attrs: tuple[tuple[str, Any], ...]) -> Callable[..., Any]:
    symbols = [sp.Dummy(f"x{k}", real=True) for k in range(arity)]
    return precise_function(symbols, form(op, *symbols, **dict(attrs)))


def to_elements(array: Any, dtype: DType) -> Any:
    """A NumPy array as an array of elements."""
    values = np.asarray(array)
    return elementwise(lambda v: mpmath.mpf(v.item()), values) if dtype.is_float else values


def evaluate_precisely(graph: Graph, args: Sequence[Any], *, digits: int = DIGITS) -> list[Any]:
    """The results of ``graph`` on arrays of elements. UnsupportedError names a primitive that cannot be done."""
    with mpmath.workdps(digits):
        try:
            return evaluate_elements(graph, args, PRECISE)
        except (ZeroDivisionError, OverflowError) as e:
            raise UnsupportedError(f"the value is not a number: {e}") from e


def central_difference(graph: Graph, args: Sequence[Any], directions: Sequence[Any], *, digits: int = DIGITS) -> Any:
    """The derivative of the first result, a scalar, along one direction for each argument."""
    with mpmath.workdps(digits):
        h = mpmath.mpf(10) ** (-digits // 3)
        ends = []
        for sign in (1, -1):
            moved = [a if d is None else _moved(a, d, sign * h) for a, d in zip(args, directions, strict=True)]
            ends.append(evaluate_precisely(graph, moved, digits=digits)[0][()])
        return (ends[0] - ends[1]) / (2 * h)


def _moved(a: Any, d: Any, step: Any) -> Any:
    return elementwise(lambda x, t: x + step * t, a, d)
