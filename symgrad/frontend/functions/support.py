"""What the functions share: arguments -> nodes, axes and shapes, and the check of keywords.

A function here takes what the user wrote (tracers, plain arrays and numbers, nested lists of them) and gives tracers.
"""

from __future__ import annotations

import functools
import inspect
import operator
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np

from symgrad.errors import ShapeError, UnsupportedError
from symgrad.frontend.tracer import (
    TracedSize,
    Tracer,
    constant_value,
    contains_traced,
    implements,
    size_of,
    spelled,
    value,
    wrap,
)
from symgrad.ir.node import Node, size_node, splat
from symgrad.ir.sizes import current, shown
from symgrad.ir.types import DType, Shape, Size, boolean, check_axis, dtype_of, f64, i64, promote, u64
from symgrad.ops import folds, views
from symgrad.ops import pointwise as p

Value = Any  # a tracer, a plain array or number, or nested lists of them
Function = Callable[..., Any]  # a plain Python function
_HARMLESS = {
    "order": ("K", "C", "A", None),
    "casting": ("same_kind", "safe", "unsafe"),
    "subok": (True, False),
    "copy": (True, False, None),
}


def implements_numpy(*callables: Any, what: str | None = None) -> Callable[[Function], Function]:
    """Register a function as the meaning of NumPy callables; keywords it does not know are errors that name them."""

    def decorate(function: Function) -> Function:
        return implements(*callables)(with_known_keywords(function, what or spelled(callables[0])))

    return decorate


def present(*names: str) -> tuple[Any, ...]:
    """Those of NumPy's functions that this version of NumPy has."""
    return tuple(getattr(np, name) for name in names if hasattr(np, name))


def with_known_keywords(function: Function, what: str) -> Function:
    """``function`` that drops keywords which ask for nothing and refuses others that it does not know."""
    code = function.__code__
    known = code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]
    takes_all = code.co_flags & inspect.CO_VARKEYWORDS

    @functools.wraps(function)
    def call(*args: Any, **keywords: Any) -> Any:
        for name in [k for k in keywords if k not in known and not takes_all]:
            given = keywords.pop(name)
            asks = given is not None and given is not np._NoValue
            if asks and not (name in _HARMLESS and given in _HARMLESS[name]):
                raise UnsupportedError(f"{what}: the keyword {name} is not supported on traced values")
        return function(*args, **keywords)

    return call


def given(x: Any) -> bool:
    """Whether a keyword was given."""
    return x is not None and x is not np._NoValue


# --- arguments -------------------------------------------------------------------------------------------------------


def node_of(x: Value, dtype: DType | None = None) -> Node:
    """A node for anything NumPy takes for an array."""
    if isinstance(x, list | tuple) and contains_traced(x):
        node = stacked([node_of(item) for item in x])
        return node if dtype is None else p.as_dtype(node, dtype)
    return value(x) if dtype is None else p.as_dtype(value(x), dtype)


def listed(xs: Iterable[Value]) -> list[Value]:
    """Nested lists among arguments as arrays."""
    return [wrap(node_of(x)) if isinstance(x, list | tuple) else x for x in xs]


def stacked(nodes: Sequence[Node], axis: int = 0) -> Node:
    """Nodes of one shape along a new axis, of one dtype by NumPy's promotion."""
    nodes = same_dtype(nodes)
    first = nodes[0].shape
    for n in nodes[1:]:
        if n.ndim != len(first) or not all(current().same(a, b) for a, b in zip(n.shape, first, strict=True)):
            raise ShapeError(
                f"all input arrays must have the same shape, got {' and '.join(shown(n.shape) for n in nodes)}"
            )
    return views.concatenate(*(insert_axis(n, axis) for n in nodes), axis=axis)


def as_tracer(a: Value) -> Tracer:
    """The traced array itself, or a fresh one."""
    return a if isinstance(a, Tracer) else wrap(node_of(a))


def same_dtype(nodes: Iterable[Node]) -> list[Node]:
    """All as the dtype that they promote to."""
    nodes = list(nodes)
    dtype = promote(*(n.dtype for n in nodes))
    return [p.as_dtype(n, dtype) for n in nodes]


def as_float(n: Node) -> Node:
    """Integers and bools as f64."""
    return n if n.dtype.is_float else p.as_dtype(n, f64)


def as_bool(n: Node) -> Node:
    """The truth of each element."""
    return n if n.dtype == boolean else p.ne(n, 0)


def wide(dtype: DType) -> DType:
    """What NumPy adds up integers of ``dtype`` in."""
    return dtype if dtype.is_float else u64 if dtype.kind == "u" else i64


def asked_dtype(dtype: Any, otherwise: DType) -> DType:
    return dtype_of(dtype) if given(dtype) else otherwise


def rows_of(arrays: Value) -> list[Node]:
    """The arrays of a sequence, or along the first axis of an array."""
    if isinstance(arrays, list | tuple):
        return [node_of(a) for a in arrays]
    n = node_of(arrays)
    return [element(n, 0, k) for k in range(current().pin(n.shape[0]))]


def static(x: Any) -> Any:
    """The plain value of an argument that is no tracer, or a tracer of a literal; else None."""
    if isinstance(x, Tracer):
        return splat(x.node)
    if isinstance(x, TracedSize) or contains_traced(x):
        return None
    return x


def known_array(x: Any) -> np.ndarray[Any, Any] | None:
    """The numbers of an array that are known while tracing, also of one made inside the function; else None."""
    if isinstance(x, Tracer):
        return constant_value(x.node)
    return None if contains_traced(x) else np.asarray(x)


def static_int(x: Any, what: str) -> int:
    """An argument that Python needs as an int."""
    try:
        return operator.index(x)
    except TypeError:
        raise UnsupportedError(f"{what}: wants a plain int, got {x!r}") from None


# --- axes and shapes -------------------------------------------------------------------------------------------------


def axis_of(axis: Any, ndim: int, what: str) -> int:
    return check_axis(static_int(axis, f"{what}: axis"), ndim, what)


def axes_of(axis: Any, ndim: int, what: str) -> tuple[int, ...]:
    """Distinct non-negative axes, all of them for None."""
    if axis is None:
        return tuple(range(ndim))
    axes = tuple(axis_of(a, ndim, what) for a in (axis if isinstance(axis, tuple | list) else (axis,)))
    if len(set(axes)) != len(axes):
        raise ShapeError(f"{what}: repeated axis in {axis}")
    return tuple(sorted(axes))


def shape_of(shape: Any) -> Shape:
    """A shape argument: one size or several."""
    if isinstance(shape, list | tuple):
        return tuple(size_of(s) for s in shape)
    if isinstance(shape, np.ndarray) and shape.ndim == 1:
        return tuple(size_of(s) for s in shape)
    return (size_of(shape),)


def insert_axis(n: Node, axis: int) -> Node:
    return views.reshape(n, shape=(*n.shape[:axis], 1, *n.shape[axis:]))


def flat(n: Node) -> Node:
    """The elements in row-major order."""
    if n.ndim == 1:
        return n
    size: Size = 1
    for s in n.shape:
        size = size * s
    return reshaped(n, (size,))


def reshaped(n: Node, shape: Shape) -> Node:
    return n if n.shape == shape else views.reshape(n, shape=shape)


def permuted(n: Node, perm: Sequence[int]) -> Node:
    return n if tuple(perm) == tuple(range(n.ndim)) else views.transpose(n, perm=tuple(perm))


def move_last(n: Node, axis: int) -> Node:
    """``axis`` as the last one."""
    return permuted(n, [*(k for k in range(n.ndim) if k != axis), axis])


def from_last(n: Node, axis: int) -> Node:
    """The last axis back at ``axis``."""
    order = list(range(n.ndim - 1))
    order.insert(axis, n.ndim - 1)
    return permuted(n, order)


def part(n: Node, axis: int, start: Size, size: Size, step: int = 1) -> Node:
    """``size`` elements along one axis."""
    starts, steps = [0] * n.ndim, [1] * n.ndim  # type: tuple[list[Size], list[int]]
    starts[axis], steps[axis] = start, step
    sizes = tuple(size if k == axis else s for k, s in enumerate(n.shape))
    return views.slice_(n, starts=tuple(starts), sizes=sizes, steps=tuple(steps))


def element(n: Node, axis: int, position: Size) -> Node:
    """The elements at one position of an axis, which goes."""
    return reshaped(part(n, axis, position, 1), (*n.shape[:axis], *n.shape[axis + 1 :]))


def kept_dims(n: Node, axes: tuple[int, ...], shape: Shape, keepdims: Any) -> Node:
    """A reduced value with its axes as ones if asked for."""
    if not given(keepdims) or not keepdims:
        return n
    return reshaped(n, tuple(1 if k in axes else s for k, s in enumerate(shape)))


def over(n: Node, like: Node, axes: tuple[int, ...]) -> Node:
    """A reduced value against what it was reduced from."""
    return folds.expand_over(n, like, axes)


def count_of(shape: Shape, axes: Iterable[int], dtype: DType) -> Node:
    """How many elements a reduction is over, as ``dtype``."""
    size: Size = 1
    for k in axes:
        size = size * shape[k]
    return p.as_dtype(size_node(size), dtype)


def positive(size: Size) -> bool:
    """Whether a size is at least one, guarded when it is symbolic."""
    return current().le(1, size)
