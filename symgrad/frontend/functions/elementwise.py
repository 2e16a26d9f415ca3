"""NumPy's ufuncs and their kin: arguments of any dtype -> pointwise primitives on one dtype.

Each entry is a function of what the user wrote that gives a node; ``elementwise`` adds ``dtype``, selections by masks
and the registration. (``out`` and ``where`` of ufuncs are stored by the protocol.)
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from symgrad.errors import DTypeError, TraceError, UnsupportedError
from symgrad.frontend.functions.support import (
    Function,
    Value,
    as_bool,
    as_float,
    given,
    implements_numpy,
    listed,
    node_of,
    static,
)  # fmt: skip
from symgrad.frontend.tracer import FUNCTIONS, Tracer, float_operands, lift_masked, operands, store, value, wrap
from symgrad.ir.node import Node
from symgrad.ir.types import boolean, dtype_of, f64, i8, i64
from symgrad.ops import pointwise as p
from symgrad.ops import special
from symgrad.ops.kinds import broadcast_to, number, spread, zeros

Compute = Callable[..., Node]
MAX_POWER = 64


def elementwise(*callables: Any) -> Callable[[Compute], Function]:
    """Register a function from arguments to a node as the meaning of ufuncs."""

    def decorate(compute: Compute) -> Function:
        def call(*xs: Value, dtype: Any = None) -> Any:
            if given(dtype):
                xs = tuple(wrap(node_of(x, dtype_of(dtype))) for x in xs)
            return lift_masked(lambda *full: wrap(compute(*full)), *listed(xs))

        call.__name__ = call.__qualname__ = callables[0].__name__
        call.__doc__ = compute.__doc__
        return implements_numpy(*callables)(call)

    return decorate


def into(out: Any, result: Any, what: str) -> Any:
    """A result as it is, or stored into ``out``."""
    if out is None:
        return result
    if type(out) is not Tracer:
        raise TraceError(f"{what}: out= wants an array made inside the compiled function")
    return store(out, result, what)


def unary(op: Compute) -> Compute:
    return lambda x: op(*float_operands(x))


def floats(op: Compute) -> Compute:
    return lambda x, y: op(*spread(*float_operands(x, y)))


def numbers(op: Compute) -> Compute:
    return lambda x, y: op(*spread(*operands(x, y)))


def truths(op: Compute) -> Compute:
    return lambda x, y: op(*spread(*(as_bool(value(a)) for a in (x, y))))


UNARY: dict[Any, Compute] = {
    np.exp: p.exp, np.exp2: p.exp2, np.expm1: p.expm1, np.log: p.log, np.log2: p.log2, np.log10: p.log10,
    np.log1p: p.log1p,
    np.sqrt: p.sqrt, np.cbrt: p.cbrt, np.sin: p.sin, np.cos: p.cos, np.tan: p.tan, np.arcsin: p.arcsin,
    np.arccos: p.arccos,
    np.arctan: p.arctan, np.sinh: p.sinh, np.cosh: p.cosh, np.tanh: p.tanh, np.arcsinh: p.arcsinh,
    np.arccosh: p.arccosh,
    np.arctanh: p.arctanh, np.rint: p.rint, np.fabs: p.abs_, np.sinc: special.sinc,
    np.deg2rad: lambda x: x * (math.pi / 180), np.radians: lambda x: x * (math.pi / 180),
    np.rad2deg: lambda x: x * (180 / math.pi), np.degrees: lambda x: x * (180 / math.pi),
}  # fmt: skip
BINARY: dict[Any, Compute] = {
    np.true_divide: floats(p.div), np.arctan2: floats(p.arctan2), np.hypot: floats(p.hypot),
    np.logaddexp: floats(p.logaddexp),
    np.logaddexp2: floats(lambda x, y: p.logaddexp(x * p.LN2, y * p.LN2) * (1 / p.LN2)),
    np.copysign: floats(lambda x, y: p.select(sign_bit(y), -p.abs_(x), p.abs_(x))),
    np.heaviside: floats(lambda x, h: step(x, h)),
    np.add: numbers(p.add), np.multiply: numbers(p.mul), np.maximum: numbers(p.maximum), np.minimum: numbers(p.minimum),
    np.fmax: numbers(lambda x, y: p.select(is_nan(x), y, p.select(is_nan(y), x, p.maximum(x, y)))),
    np.fmin: numbers(lambda x, y: p.select(is_nan(x), y, p.select(is_nan(y), x, p.minimum(x, y)))),
    np.less: numbers(p.lt), np.less_equal: numbers(p.le), np.equal: numbers(p.eq), np.not_equal: numbers(p.ne),
    np.greater: numbers(lambda x, y: p.lt(y, x)), np.greater_equal: numbers(lambda x, y: p.le(y, x)),
    np.bitwise_and: numbers(p.and_), np.bitwise_or: numbers(p.or_),
    np.bitwise_xor: numbers(lambda x, y: exclusive_or(x, y)),
    np.logical_and: truths(p.and_), np.logical_or: truths(p.or_), np.logical_xor: truths(p.ne),
}  # fmt: skip


# --- what the table refers to ----------------------------------------------------------------------------------------


def is_nan(x: Node) -> Node:
    return p.ne(x, x)


def sign_bit(x: Node) -> Node:
    """Whether a float is negative or -0.0."""
    return p.or_(p.lt(x, 0.0), p.and_(p.eq(x, 0.0), p.lt(1.0 / x, 0.0)))


def step(x: Node, at_zero: Node) -> Node:
    """0 for negative, 1 for positive numbers."""
    return p.select(p.eq(x, 0.0), at_zero, p.select(is_nan(x), x, p.as_dtype(p.lt(0.0, x), x.dtype)))


def exclusive_or(x: Node, y: Node) -> Node:
    return p.ne(x, y) if x.dtype == boolean else p.or_(x, y) - p.and_(x, y)


def integral(*nodes: Node) -> tuple[Node, ...]:
    """Bools as i8, which division works on."""
    return tuple(p.as_dtype(n, i8) if n.dtype == boolean else n for n in spread(*nodes))


def if_float(op: Compute) -> Compute:
    """``op`` of floats; integers and bools stay as they are."""

    def compute(x: Value) -> Node:
        n = value(x)
        return op(n) if n.dtype.is_float else n

    return compute


def float_test(test: Compute, otherwise: bool) -> Compute:
    """A test of floats that has one answer for all integers."""

    def compute(x: Value) -> Node:
        n = value(x)
        return test(n) if n.dtype.is_float else broadcast_to(number(otherwise, boolean), n.shape)

    return compute


UNARY_NUMBERS: dict[Any, Compute] = {
    np.floor: if_float(p.floor), np.ceil: if_float(p.ceil), np.trunc: if_float(p.trunc), np.fix: if_float(p.trunc),
    np.positive: value, np.conjugate: value, np.real: value, np.sign: lambda x: p.sign(value(x)),
    np.isnan: float_test(is_nan, False), np.isinf: float_test(lambda x: p.eq(p.abs_(x), math.inf), False),
    np.isposinf: float_test(lambda x: p.eq(x, math.inf), False),
    np.isneginf: float_test(lambda x: p.eq(x, -math.inf), False),
    np.isfinite: float_test(lambda x: p.lt(p.abs_(x), math.inf), True),
    np.logical_not: lambda x: p.not_(as_bool(value(x))),
}  # fmt: skip

for _ufunc, _op in UNARY.items():
    elementwise(_ufunc)(unary(_op))
for _ufunc, _op in (BINARY | UNARY_NUMBERS).items():
    elementwise(_ufunc)(_op)

# --- arithmetic ------------------------------------------------------------------------------------------------------


@elementwise(np.subtract)
def subtract(x: Value, y: Value) -> Node:
    a, b = spread(*operands(x, y))
    if a.dtype == boolean:
        raise DTypeError(
            "numpy boolean subtract, the `-` operator, is not supported, use the bitwise_xor, the `^` operator"
        )
    return a - b


@elementwise(np.negative)
def negative(x: Value) -> Node:
    n = value(x)
    if n.dtype == boolean:
        raise DTypeError("numpy boolean negative, the `-` operator, is not supported, use the `~` operator")
    return -n


@elementwise(np.imag)
def imag(x: Value) -> Node:
    n = value(x)
    return zeros(n.shape, n.dtype)


@elementwise(np.absolute)
def absolute(x: Value) -> Node:
    n = value(x)
    return n if n.dtype == boolean else p.abs_(n)


@elementwise(np.square)
def square(x: Value) -> Node:
    n = value(x)
    return n if n.dtype == boolean else n * n


@elementwise(np.reciprocal)
def reciprocal(x: Value) -> Node:
    n = value(x)
    return 1.0 / n if n.dtype.is_float else p.int_div(*integral(*spread(number(1, n.dtype), n)))


@elementwise(np.floor_divide)
def floor_divide(x: Value, y: Value) -> Node:
    a, b = integral(*operands(x, y))
    if not a.dtype.is_float:
        return p.int_div(a, b)
    rest = p.fmod(a, b)
    crossed = p.and_(p.ne(rest, 0.0), p.ne(p.lt(rest, 0.0), p.lt(b, 0.0)))
    quotient = (a - rest) / b - p.as_dtype(crossed, a.dtype)
    return p.stop(p.select(p.eq(b, 0.0), a / b, p.rint(quotient)))


@elementwise(np.remainder)
def remainder(x: Value, y: Value) -> Node:
    return p.mod(*integral(*operands(x, y)))


@elementwise(np.fmod)
def fmod(x: Value, y: Value) -> Node:
    a, b = integral(*operands(x, y))
    if a.dtype.is_float:
        return p.fmod(a, b)
    size = p.mod(p.abs_(a), p.abs_(b))
    return p.select(p.lt(a, 0), -size, size)


@implements_numpy(np.divmod)
def divmod_(x: Value, y: Value) -> tuple[Any, Any]:
    return FUNCTIONS[np.floor_divide](x, y), FUNCTIONS[np.remainder](x, y)


@implements_numpy(np.modf)
def modf(x: Value) -> tuple[Tracer, Tracer]:
    (n,) = float_operands(x)
    whole = p.trunc(n)
    return wrap(p.select(p.eq(p.abs_(n), math.inf), 0.0, n - whole)), wrap(whole)


@elementwise(np.power)
def power(x: Value, y: Value) -> Node:
    """Integer exponents that are written out become products, 0.5 a square root, so that derivatives are exact."""
    n = static(y)
    exponent = n.item() if isinstance(n, np.ndarray | np.generic) and np.ndim(n) == 0 else n
    a, b = operands(x, y)
    if a.dtype == boolean:
        a, b = p.as_dtype(a, i8), p.as_dtype(b, i8)
    if (
        isinstance(exponent, int | float)
        and not isinstance(exponent, bool)
        and float(exponent).is_integer()
        and abs(exponent) <= MAX_POWER
    ):
        if exponent < 0 and not a.dtype.is_float:
            return negative_power(x, a, int(exponent))
        return broadcast_to(p.ipow(a, n=int(exponent)), spread(a, b)[0].shape)
    if exponent == 0.5:
        return p.sqrt(a)
    return p.pow_(*spread(a, b)) if a.dtype.is_float else integer_power(*spread(a, b))


def negative_power(x: Value, n: Node, exponent: int) -> Node:
    """A Python int to a negative power is a float; an array of integers has none."""
    if isinstance(x, int) or (isinstance(x, Tracer) and x.weak):
        return p.ipow(p.as_dtype(n, f64), n=exponent)
    raise ValueError("Integers to negative integer powers are not allowed.")


def integer_power(x: Node, y: Node) -> Node:
    """Repeated squaring over the bits of the exponents."""
    out, y = number(1, x.dtype), p.as_dtype(y, i64)
    for k in range(62):
        taken = p.ne(p.and_(y, 1 << k), 0)
        out = p.select(taken, out * x, out)
        x = x * x
    return out


@elementwise(np.float_power)
def float_power(x: Value, y: Value) -> Node:
    n = static(y)
    return node_of(
        FUNCTIONS[np.power](wrap(node_of(x, f64)), float(n) if isinstance(n, int | float) else wrap(node_of(y, f64)))
    )


@elementwise(np.invert)
def invert(x: Value) -> Node:
    n = value(x)
    return p.not_(n) if n.dtype == boolean else -n - 1


def _shift(x: Value, by: Value, left: bool) -> Node:
    k = static(by)
    if not isinstance(k, int | np.integer) or k < 0:
        raise UnsupportedError(f"np.{'left' if left else 'right'}_shift: wants a plain non-negative int to shift by")
    a, _ = operands(x, by)
    factor = number(1 << min(int(k), 62), a.dtype)
    return a * factor if left else p.int_div(a, factor)


@elementwise(np.left_shift)
def left_shift(x: Value, by: Value) -> Node:
    return _shift(x, by, True)


@elementwise(np.right_shift)
def right_shift(x: Value, by: Value) -> Node:
    return _shift(x, by, False)


# --- tests of floats -------------------------------------------------------------------------------------------------


@elementwise(np.signbit)
def signbit(x: Value) -> Node:
    n = value(x)
    return sign_bit(n) if n.dtype.is_float else p.lt(n, 0)


# --- choices ---------------------------------------------------------------------------------------------------------


@implements_numpy(np.clip)
def clip(a: Value, a_min: Any = None, a_max: Any = None, out: Any = None, *, min: Any = None, max: Any = None) -> Any:
    low, high = (min if given(min) else a_min), (max if given(max) else a_max)

    def compute(x: Value) -> Tracer:
        bounds = [b for b in listed((low, high)) if given(b)]
        n, *limits = spread(*operands(x, *bounds))
        if not limits:
            return wrap(n)
        if len(limits) == 2:
            return wrap(p.clip(n, *limits))
        if n.dtype.is_float:
            return wrap(p.clip(n, limits[0], math.inf) if given(low) else p.clip(n, -math.inf, limits[0]))
        return wrap((p.maximum if given(low) else p.minimum)(n, limits[0]))

    return into(out, lift_masked(compute, *listed((a,))), "np.clip")


@implements_numpy(np.round, np.around)
def round_(a: Value, decimals: int = 0, out: Any = None) -> Any:
    digits = int(decimals)

    def compute(x: Value) -> Tracer:
        n = value(x)
        if n.dtype == boolean or (not n.dtype.is_float and digits >= 0):
            return wrap(n)
        f, scale = as_float(n), 10.0 ** abs(digits)
        rounded = p.rint(f) if digits == 0 else p.rint(f * scale) / scale if digits > 0 else p.rint(f / scale) * scale
        return wrap(p.as_dtype(rounded, n.dtype))

    return into(out, lift_masked(compute, *listed((a,))), "np.round")


@implements_numpy(np.where)
def where(condition: Value, *choices: Value) -> Any:
    if not choices:
        raise UnsupportedError("np.where: with one argument the result has a length that is not known before the call")
    if len(choices) != 2:
        raise ValueError("either both or neither of x and y should be given")

    def compute(c: Value, x: Value, y: Value) -> Tracer:
        return wrap(p.select(as_bool(value(c)), *operands(x, y)))

    return lift_masked(compute, *listed((condition, *choices)))


@implements_numpy(np.select)
def select(condlist: Any, choicelist: Any, default: Value = 0) -> Tracer:
    if len(condlist) != len(choicelist):
        raise ValueError("list of cases must be same length as list of conditions")
    if not condlist:
        raise ValueError("select with an empty condition list is not possible")
    *choices, out = operands(*listed(choicelist), *listed((default,)))
    for c, chosen in zip(reversed(list(condlist)), reversed(choices), strict=True):
        condition = node_of(c)
        if condition.dtype != boolean:
            raise DTypeError("np.select: the conditions must be bool arrays")
        out = p.select(condition, chosen, out)
    return wrap(out)


@implements_numpy(np.nan_to_num)
def nan_to_num(x: Value, copy: bool = True, nan: Any = 0.0, posinf: Any = None, neginf: Any = None) -> Any:
    def compute(v: Value) -> Tracer:
        n = value(v)
        if not n.dtype.is_float:
            return wrap(n)
        info = np.finfo(n.dtype.numpy.str)
        high, low = (float(b if d is None else d) for d, b in ((posinf, info.max), (neginf, info.min)))
        finite = p.select(p.eq(n, math.inf), high, p.select(p.eq(n, -math.inf), low, n))
        return wrap(p.select(is_nan(n), float(nan), finite))

    return lift_masked(compute, *listed((x,)))


@implements_numpy(np.isclose)
def isclose(a: Value, b: Value, rtol: float = 1e-5, atol: float = 1e-8, equal_nan: bool = False) -> Tracer:
    x, y = spread(*(as_float(n) for n in operands(*listed((a, b)))))
    near = p.le(p.abs_(x - y), p.abs_(y) * rtol + atol)
    finite = p.lt(p.abs_(y), math.inf)
    close = p.or_(p.and_(near, finite), p.eq(x, y))
    return wrap(p.or_(close, p.and_(is_nan(x), is_nan(y))) if equal_nan else close)


@implements_numpy(np.real_if_close)
def real_if_close(a: Value, tol: float = 100) -> Tracer:
    return wrap(node_of(a))


@implements_numpy(np.angle)
def angle(z: Value, deg: bool = False) -> Tracer:
    n = as_float(node_of(z))
    return wrap(p.select(is_nan(n), n, p.select(p.lt(n, 0.0), 180.0 if deg else math.pi, number(0.0, n.dtype))))


@implements_numpy(np.iscomplexobj)
def iscomplexobj(x: Value) -> bool:
    return False


@implements_numpy(np.isrealobj)
def isrealobj(x: Value) -> bool:
    return True


@implements_numpy(np.result_type)
def result_type(*xs: Any) -> np.dtype[np.generic]:
    return operands(*(x for x in xs if not isinstance(x, np.dtype | type)))[0].dtype.numpy
