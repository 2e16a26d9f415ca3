"""NumPy's makers of arrays: inside a trace they give arrays that may be assigned into."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from symgrad.errors import UnsupportedError
from symgrad.frontend.functions.support import (
    Function,
    Value,
    asked_dtype,
    axis_of,
    from_last,
    given,
    implements_numpy,
    node_of,
    present,
    reshaped,
    shape_of,
    static,
    static_int,
    with_known_keywords,
)  # fmt: skip
from symgrad.frontend.tracer import (
    TracedSize,
    Tracer,
    float_operands,
    is_traced,
    size_of,
    value,
    weak_kind,
    wrap,
)
from symgrad.ir.node import Node, constant, size_node
from symgrad.ir.sizes import broadcast_shapes, current
from symgrad.ir.types import DType, Shape, Size, dtype_of, f64, i64
from symgrad.ops import pointwise as p
from symgrad.ops import running, views
from symgrad.ops.kinds import broadcast_to, number, spread

CREATORS: dict[Any, Function] = {}  # what NumPy's protocols cannot reach


def creates(function: Any) -> Callable[[Function], Function]:
    """Enter a maker of arrays, as NumPy's ``function`` also for protocols that reach it (with ``like=``)."""

    def decorate(maker: Function) -> Function:
        checked = with_known_keywords(maker, f"np.{function.__name__}")
        CREATORS[function] = checked
        return checked

    return decorate


def owned(n: Node) -> Tracer:
    """An array that may be assigned into, 0-d ones included."""
    return wrap(n, fixed=False)


# --- from values -----------------------------------------------------------------------------------------------------


@creates(np.array)
def array(object: Value, dtype: Any = None, *, copy: Any = True, order: Any = "K", ndmin: int = 0) -> Tracer:
    n = node_of(object)
    n = p.as_dtype(n, asked_dtype(dtype, n.dtype))
    if n.ndim < ndmin:
        n = reshaped(n, (1,) * (ndmin - n.ndim) + n.shape)
    return owned(n)


def _as_array(function: Any) -> None:
    @creates(function)
    def as_array(a: Value, dtype: Any = None, order: Any = None, *, copy: Any = None) -> Tracer:
        """The same array if it is one of that dtype: assigning into the result changes it."""
        same = is_traced(a) and not a.fixed and (not given(dtype) or dtype_of(dtype) == a.node.dtype)
        return array(a, dtype) if copy or not same else a  # type: ignore[no-any-return]  # a registered function

    as_array.__name__ = function.__name__


for _function in (np.asarray, np.asanyarray, np.ascontiguousarray, np.asfortranarray):
    _as_array(_function)


@creates(np.asarray_chkfinite)
def asarray_chkfinite(a: Value, dtype: Any = None, order: Any = None) -> Tracer:
    raise UnsupportedError("np.asarray_chkfinite: values are not known before the call; use np.asarray")


@implements_numpy(np.copy)
def copy(a: Value, order: Any = "K", subok: bool = False) -> Tracer:
    return owned(node_of(a))


@implements_numpy(*present("astype"), what="np.astype")
def astype(x: Value, dtype: Any, /, *, copy: bool = True, device: Any = None) -> Tracer:
    return wrap(node_of(x, dtype_of(dtype)))


# --- filled ----------------------------------------------------------------------------------------------------------


def filled(shape: Shape, fill: Node) -> Tracer:
    return owned(broadcast_to(fill, shape))


def _constant(function: Any, like: Any, fill: int) -> None:
    @creates(function)
    def make(shape: Any, dtype: Any = None, order: Any = "C") -> Tracer:
        return filled(shape_of(shape), number(fill, asked_dtype(dtype, f64)))

    @implements_numpy(like)
    def make_like(a: Value, dtype: Any = None, order: Any = "K", subok: bool = True, shape: Any = None) -> Tracer:
        n = node_of(a)
        return filled(shape_of(shape) if given(shape) else n.shape, number(fill, asked_dtype(dtype, n.dtype)))

    CREATORS[like] = make_like
    make.__name__, make_like.__name__ = function.__name__, like.__name__


_constant(np.zeros, np.zeros_like, 0)
_constant(np.ones, np.ones_like, 1)
_constant(np.empty, np.empty_like, 0)


@creates(np.full)
def full(shape: Any, fill_value: Value, dtype: Any = None, order: Any = "C") -> Tracer:
    n = node_of(fill_value)
    new = shape_of(shape)
    broadcast_shapes(n.shape, new, what="np.full")
    return filled(new, p.as_dtype(n, asked_dtype(dtype, n.dtype)))


@implements_numpy(np.full_like)
def full_like(
    a: Value, fill_value: Value, dtype: Any = None, order: Any = "K", subok: bool = True, shape: Any = None
) -> Tracer:
    n = node_of(a)
    return filled(shape_of(shape) if given(shape) else n.shape, node_of(fill_value, asked_dtype(dtype, n.dtype)))


CREATORS[np.full_like] = full_like

# --- ranges ----------------------------------------------------------------------------------------------------------


def _is_size(x: Any) -> bool:
    return (
        isinstance(x, TracedSize)
        or (isinstance(static(x), int | np.integer))
        or (is_traced(x) and x.weak and x.node.dtype.kind == "i")
    )


@creates(np.arange)
def arange(start: Any = 0, stop: Any = None, step: Any = 1, dtype: Any = None) -> Tracer:
    first, last = (0, start) if stop is None else (start, stop)
    step = 1 if step is None else step
    if all(_is_size(x) for x in (first, last, step)):
        return _integer_range(size_of(first), size_of(last), size_of(step), asked_dtype(dtype, i64))
    bounds = [static(x) for x in (first, last, step)]
    if any(b is None for b in bounds):
        raise UnsupportedError(
            "np.arange: with traced floats the length is not known; use np.linspace with a number of points"
        )
    return owned(constant(np.arange(*bounds, dtype=None if dtype is None else dtype_of(dtype).numpy)))


def _integer_range(first: Size, last: Size, step: Size, dtype: DType) -> Tracer:
    by = step if isinstance(step, int) else current().pin(step)
    if by == 0:
        raise ZeroDivisionError("division by zero")
    span = last - first if by > 0 else first - last
    size: Size = (span + abs(by) - 1) // abs(by)
    size = size if current().le(0, size) else 0
    n = running.iota(size=size)
    n = n * by if by != 1 else n
    n = n + size_node(first) if first != 0 else n
    return owned(p.as_dtype(n, dtype))


@implements_numpy(np.linspace)
def linspace(
    start: Value,
    stop: Value,
    num: Any = 50,
    endpoint: bool = True,
    retstep: bool = False,
    dtype: Any = None,
    axis: Any = 0,
) -> Any:
    a, b = spread(*float_operands(*(x if weak_kind(x) else wrap(node_of(x)) for x in (start, stop))))
    count = size_of(num)
    if not current().le(0, count):
        raise ValueError(f"Number of samples, {num}, must be non-negative.")
    gaps: Size = count - 1 if endpoint else count
    steps = p.as_dtype(running.iota(size=count), a.dtype)
    shape = (*a.shape, count)
    everywhere = views.broadcast(steps, shape=shape, axes=(a.ndim,))
    start_, stop_ = (views.broadcast(n, shape=shape, axes=tuple(range(a.ndim))) for n in (a, b))
    divisor = p.as_dtype(size_node(gaps), a.dtype)
    step = (b - a) / divisor
    out = everywhere * views.broadcast(step, shape=shape, axes=tuple(range(a.ndim))) + start_
    if current().le(count, 1):
        out = start_
    elif endpoint:
        out = p.select(p.eq(everywhere, divisor), stop_, out)
    out = from_last(out, axis_of(axis, out.ndim, "np.linspace"))
    kind = asked_dtype(dtype, a.dtype)
    if not kind.is_float:
        out = p.floor(out)
    result = owned(p.as_dtype(out, kind))
    return (result, wrap(step)) if retstep else result


CREATORS[np.linspace] = linspace


@implements_numpy(np.logspace)
def logspace(
    start: Value,
    stop: Value,
    num: Any = 50,
    endpoint: bool = True,
    base: Value = 10.0,
    dtype: Any = None,
    axis: Any = 0,
) -> Tracer:
    exponents = linspace(start, stop, num, endpoint, axis=axis)
    x, y = spread(*float_operands(base, exponents))
    return owned(p.as_dtype(p.pow_(x, y), asked_dtype(dtype, x.dtype)))


CREATORS[np.logspace] = logspace


@implements_numpy(np.geomspace)
def geomspace(
    start: Value, stop: Value, num: Any = 50, endpoint: bool = True, dtype: Any = None, axis: Any = 0
) -> Tracer:
    """The points between as powers, the ends as they are."""
    a, b = float_operands(start, stop)
    if a.ndim or b.ndim:
        raise UnsupportedError("np.geomspace: wants numbers for start and stop")
    t = value(linspace(0.0, 1.0, num, endpoint))
    shape = t.shape
    a, b = (broadcast_to(n, shape) for n in (a, b))
    out = a * p.pow_(b / a, p.as_dtype(t, a.dtype))
    out = p.select(p.eq(t, 0.0), a, out)
    out = p.select(p.eq(t, 1.0), b, out) if endpoint else out
    return owned(p.as_dtype(out, asked_dtype(dtype, out.dtype)))


CREATORS[np.geomspace] = geomspace

# --- matrices --------------------------------------------------------------------------------------------------------


def _ones_where(rows: Size, columns: Size, dtype: DType, test: Callable[[Node], Node]) -> Tracer:
    """Ones where a test of the difference between column and row holds."""
    shape = (rows, columns)
    return owned(p.as_dtype(test(running.iota_along(shape, 1) - running.iota_along(shape, 0)), dtype))


@creates(np.eye)
def eye(N: Any, M: Any = None, k: int = 0, dtype: Any = float, order: Any = "C") -> Tracer:
    rows = size_of(N)
    offset = static_int(k, "np.eye: k")
    return _ones_where(rows, size_of(M) if M is not None else rows, dtype_of(dtype), lambda d: p.eq(d, offset))


@creates(np.identity)
def identity(n: Any, dtype: Any = None) -> Tracer:
    size = size_of(n)
    return _ones_where(size, size, asked_dtype(dtype, f64), lambda d: p.eq(d, 0))


@creates(np.tri)
def tri(N: Any, M: Any = None, k: int = 0, dtype: Any = float) -> Tracer:
    rows = size_of(N)
    offset = static_int(k, "np.tri: k")
    return _ones_where(rows, size_of(M) if M is not None else rows, dtype_of(dtype), lambda d: p.le(d, offset))


@creates(np.indices)
def indices(dimensions: Sequence[Any], dtype: Any = int, sparse: bool = False) -> Any:
    shape = shape_of(tuple(dimensions))
    if sparse:
        return tuple(
            owned(
                reshaped(
                    p.as_dtype(running.iota(size=s), dtype_of(dtype)),
                    tuple(s if j == k else 1 for j in range(len(shape))),
                )
            )
            for k, s in enumerate(shape)
        )
    grids = [reshaped(running.iota_along(shape, k), (1, *shape)) for k in range(len(shape))]
    return owned(p.as_dtype(views.concatenate(*grids, axis=0), dtype_of(dtype)))


@implements_numpy(np.meshgrid)
def meshgrid(*xi: Value, copy: bool = True, sparse: bool = False, indexing: str = "xy") -> tuple[Tracer, ...]:
    if indexing not in ("xy", "ij"):
        raise ValueError("Valid values for `indexing` are 'xy' and 'ij'.")
    lines = [node_of(x) for x in xi]
    lines = [reshaped(n, (n.shape[0] if n.ndim else 1,)) for n in lines]
    axes = list(range(len(lines)))
    if indexing == "xy" and len(lines) > 1:
        axes[:2] = [1, 0]
    shape: list[Size] = [1] * len(lines)
    for n, k in zip(lines, axes, strict=True):
        shape[k] = n.shape[0]
    if sparse:
        return tuple(
            owned(reshaped(n, tuple(n.shape[0] if j == k else 1 for j in range(len(shape)))))
            for n, k in zip(lines, axes, strict=True)
        )
    return tuple(owned(views.broadcast(n, shape=tuple(shape), axes=(k,))) for n, k in zip(lines, axes, strict=True))


def _one_dimensional(name: str) -> None:
    def refuse(*args: Any, **keywords: Any) -> Any:
        raise UnsupportedError(f"np.{name}: is not available in a compiled function; use np.array")

    CREATORS[getattr(np, name)] = refuse


for _name in ("fromiter", "fromfunction", "frombuffer", "fromstring"):
    _one_dimensional(_name)

# --- questions -------------------------------------------------------------------------------------------------------


@implements_numpy(np.shape)
def shape(a: Value) -> tuple[Any, ...]:
    return wrap(node_of(a)).shape


@implements_numpy(np.ndim)
def ndim(a: Value) -> int:
    return node_of(a).ndim


@implements_numpy(np.size)
def size(a: Value, axis: Any = None) -> Any:
    tracer = wrap(node_of(a))
    if axis is None:
        return tracer.size
    out = 1
    for k in axis if isinstance(axis, tuple) else (axis,):
        out = out * tracer.shape[axis_of(k, tracer.ndim, "np.size")]
    return out
