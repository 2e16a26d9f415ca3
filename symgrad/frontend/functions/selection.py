"""Sorting, searching, and picking elements by position."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from symgrad.errors import UnsupportedError
from symgrad.frontend.functions.elementwise import into, is_nan
from symgrad.frontend.functions.joining import picked
from symgrad.frontend.functions.support import (
    Value,
    as_float,
    axes_of,
    axis_of,
    element,
    flat,
    from_last,
    implements_numpy,
    insert_axis,
    kept_dims,
    known_array,
    move_last,
    node_of,
    part,
    permuted,
    positive,
    reshaped,
    shape_of,
)  # fmt: skip
from symgrad.frontend.tracer import Tracer, constant_value, float_operands, operands, weak_kind, wrap
from symgrad.ir.node import Node, constant, size_node
from symgrad.ir.sizes import broadcast_shapes, current, shown
from symgrad.ir.types import DType, Shape, Size, boolean, f64, i8, i64, product, promote
from symgrad.ops import folds, running, sorting, views
from symgrad.ops import pointwise as p
from symgrad.ops.indexing import checked_index, gather
from symgrad.ops.kinds import broadcast_to, number, spread

# --- sorting ---------------------------------------------------------------------------------------------------------


def along_last(n: Node, at: Node) -> Node:
    """Each row of the last axis read at its own positions."""
    lead = [running.iota_along(at.shape, k) for k in range(n.ndim - 1)]
    return gather(n, *lead, at, axes=tuple(range(n.ndim)))


def sorted_last(n: Node) -> Node:
    keys = p.as_dtype(n, i8) if n.dtype == boolean else n
    return along_last(n, sorting.argsort(keys))


def _line_up(a: Value, axis: Any, what: str) -> tuple[Node, int]:
    """The array with the axis in question last; the flat one for None."""
    n = node_of(a)
    if axis is None:
        return (flat(n) if n.ndim else insert_axis(n, 0)), 0
    k = axis_of(axis, n.ndim, what)
    return move_last(n, k), k


@implements_numpy(np.sort)
def sort(a: Value, axis: Any = -1, kind: Any = None, order: Any = None, *, stable: Any = None) -> Tracer:
    n, k = _line_up(a, axis, "np.sort")
    return wrap(from_last(sorted_last(n), k))


@implements_numpy(np.argsort)
def argsort(a: Value, axis: Any = -1, kind: Any = None, order: Any = None, *, stable: Any = None) -> Tracer:
    n, k = _line_up(a, axis, "np.argsort")
    return wrap(from_last(sorting.argsort(p.as_dtype(n, i8) if n.dtype == boolean else n), k))


@implements_numpy(np.partition)
def partition(a: Value, kth: Any, axis: Any = -1, kind: Any = "introselect", order: Any = None) -> Tracer:
    return sort(a, axis)  # type: ignore[no-any-return]  # a sorted array is partitioned everywhere


@implements_numpy(np.argpartition)
def argpartition(a: Value, kth: Any, axis: Any = -1, kind: Any = "introselect", order: Any = None) -> Tracer:
    return argsort(a, axis)  # type: ignore[no-any-return]  # as above


def merged_last(n: Node, axes: tuple[int, ...]) -> Node:
    """Several axes as one, last."""
    rest = [k for k in range(n.ndim) if k not in axes]
    lined_up = permuted(n, [*rest, *axes])
    return reshaped(lined_up, (*(n.shape[k] for k in rest), product(n.shape[k] for k in axes)))


def middle_value(n: Node, ordered: Node, position: Size) -> Node:
    """An order statistic of the last axis whose derivative is shared by all elements that tie for it."""
    last = (n.ndim - 1,)
    at = p.stop(element(ordered, n.ndim - 1, position))
    below = p.le(n, views.broadcast(at, shape=n.shape, axes=tuple(range(n.ndim - 1))))
    return folds.max_(p.select(below, n, -math.inf), axes=last)


@implements_numpy(np.median)
def median(a: Value, axis: Any = None, out: Any = None, overwrite_input: bool = False, keepdims: bool = False) -> Any:
    x = as_float(node_of(a))
    axes = axes_of(axis, x.ndim, "np.median")
    n = merged_last(x, axes)
    size = n.shape[-1]
    if not positive(size):
        return into(
            out,
            wrap(kept_dims(broadcast_to(number(math.nan, x.dtype), n.shape[:-1]), axes, x.shape, keepdims)),
            "np.median",
        )
    ordered = sorted_last(n)
    low = middle_value(n, ordered, (size - 1) // 2)
    odd = isinstance(size, int) and size % 2
    y = low if odd else (low + middle_value(n, ordered, size // 2)) / 2.0
    y = p.select(folds.sum_(is_nan(n), axes=(n.ndim - 1,)), math.nan, y)
    return into(out, wrap(kept_dims(y, axes, x.shape, keepdims)), "np.median")


def quantile_of(x: Node, q: Node, axes: tuple[int, ...], dtype: DType) -> Node:
    """Linear interpolation between order statistics: the shape of q first."""
    n = merged_last(x, axes)
    size = n.shape[-1]
    if not positive(size):
        return broadcast_to(number(math.nan, dtype), (*q.shape, *n.shape[:-1]))
    ordered = permuted(sorted_last(n), [n.ndim - 1, *range(n.ndim - 1)])
    last = p.as_dtype(size_node(size - 1), f64)
    position = p.as_dtype(q, f64) * last
    low = p.clip(p.floor(position), 0.0, last)
    high = p.minimum(low + 1.0, last)
    a, b = (gather(ordered, p.as_dtype(k, i64), axes=(0,)) for k in (low, high))
    t = views.broadcast(p.as_dtype(position - p.stop(low), dtype), shape=a.shape, axes=tuple(range(q.ndim)))
    gap, a, b = (p.as_dtype(v, dtype) for v in (b - a, a, b))
    between = p.select(p.lt(t, 0.5), a + gap * t, b - gap * (1.0 - t))
    top = element(ordered, 0, size - 1)  # nans are sorted to the end
    spoiled = views.broadcast(is_nan(top), shape=a.shape, axes=tuple(range(q.ndim, a.ndim)))
    return p.select(spoiled, math.nan, between)


def _quantile(name: str, scale: float) -> None:
    @implements_numpy(getattr(np, name))
    def quantile(
        a: Value,
        q: Value,
        axis: Any = None,
        out: Any = None,
        overwrite_input: bool = False,
        method: str = "linear",
        keepdims: bool = False,
    ) -> Any:
        if method != "linear":
            raise UnsupportedError(f"np.{name}: method={method!r} is not supported; 'linear' is")
        x, levels = as_float(node_of(a)), node_of(q, f64) * scale if scale != 1.0 else node_of(q, f64)
        known = constant_value(levels)
        if known is not None and not np.all((known >= 0) & (known <= 1)):
            raise ValueError(
                "Percentiles must be in the range [0, 100]"
                if name == "percentile"
                else "Quantiles must be in the range [0, 1]"
            )
        axes = axes_of(axis, x.ndim, f"np.{name}")
        y = quantile_of(x, levels, axes, x.dtype if weak_kind(q) else promote(x.dtype, as_float(node_of(q)).dtype))
        if keepdims:
            y = reshaped(y, (*levels.shape, *(1 if k in axes else s for k, s in enumerate(x.shape))))
        return into(out, wrap(y), f"np.{name}")

    quantile.__name__ = name


_quantile("quantile", 1.0)
_quantile("percentile", 0.01)

# --- searching -------------------------------------------------------------------------------------------------------


def positions(a: Node, v: Node, right: bool) -> Node:
    """How many elements of the sorted ``a`` come before each of ``v``."""
    shape = (*v.shape, a.shape[0])
    table = views.broadcast(a, shape=shape, axes=(v.ndim,))
    points = views.broadcast(v, shape=shape, axes=tuple(range(v.ndim)))
    before = p.le(table, points) if right else p.lt(table, points)
    return folds.sum_(p.as_dtype(before, i64), axes=(v.ndim,))


@implements_numpy(np.searchsorted)
def searchsorted(a: Value, v: Value, side: str = "left", sorter: Any = None) -> Tracer:
    table, points = operands(a, v)
    if table.ndim != 1:
        raise ValueError("object too deep for desired array")
    if sorter is not None:
        table = gather(table, node_of(sorter, i64), axes=(0,))
    return wrap(positions(table, points, side == "right"))


@implements_numpy(np.digitize)
def digitize(x: Value, bins: Value, right: bool = False) -> Tracer:
    known = known_array(bins)
    if known is not None and np.size(known) > 1 and np.asarray(known)[0] > np.asarray(known)[-1]:
        raise UnsupportedError("np.digitize: decreasing bins are not supported; reverse them")
    return searchsorted(bins, x, "left" if right else "right")  # type: ignore[no-any-return]  # a registered function


@implements_numpy(np.interp)
def interp(x: Value, xp: Value, fp: Value, left: Any = None, right: Any = None, period: Any = None) -> Tracer:
    """Piecewise linear; at a knot the right-hand piece holds, at the last one the left-hand one."""
    if period is not None:
        raise UnsupportedError("np.interp: the keyword period is not supported on traced values")
    t, knots, heights = (p.as_dtype(n, f64) for n in float_operands(x, xp, fp))
    if knots.ndim != 1 or heights.ndim != 1 or not current().same(knots.shape[0], heights.shape[0]):
        raise ValueError(
            f"fp and xp are not of the same length: shapes {shown(knots.shape)} and {shown(heights.shape)}"
        )
    size = knots.shape[0]
    if not positive(size):
        raise ValueError("array of sample points is empty")
    first, last = (broadcast_to(reshaped(part(knots, 0, k, 1), ()), t.shape) for k in (0, size - 1))
    low_end, high_end = (broadcast_to(reshaped(part(heights, 0, k, 1), ()), t.shape) for k in (0, size - 1))
    inside = low_end
    if current().le(2, size):
        k = p.clip(positions(knots, t, True) - 1, 0, size_node(size - 2))
        x0, x1, y0, y1 = (gather(n, j, axes=(0,)) for n in (knots, heights) for j in (k, k + 1))
        inside = y0 + (y1 - y0) / (x1 - x0) * (t - x0)
        inside = p.select(p.eq(t, x1), y1 + (y1 - y0) / (x1 - x0) * (t - x1), inside)
    below = low_end if left is None else broadcast_to(node_of(left, f64), t.shape)
    above = high_end if right is None else broadcast_to(node_of(right, f64), t.shape)
    return wrap(p.select(p.lt(t, first), below, p.select(p.lt(last, t), above, inside)))


@implements_numpy(np.isin)
def isin(
    element: Value, test_elements: Value, assume_unique: bool = False, invert: bool = False, *, kind: Any = None
) -> Tracer:
    x, table = operands(element, test_elements)
    table = flat(table) if table.ndim else insert_axis(table, 0)
    shape = (*x.shape, table.shape[0])
    same = p.eq(
        views.broadcast(x, shape=shape, axes=tuple(range(x.ndim))), views.broadcast(table, shape=shape, axes=(x.ndim,))
    )
    found = folds.sum_(same, axes=(x.ndim,))
    return wrap(p.not_(found) if invert else found)


# --- picking ---------------------------------------------------------------------------------------------------------


def index_node(indices: Value, size: Size, mode: str, what: str, axis: int = 0) -> Node:
    """Positions along an axis of ``size``, checked now where they are known, else when the compiled code runs."""
    n = node_of(indices)
    if n.dtype.kind not in "iu":
        raise IndexError(f"{what}: indices must be integers, got {n.dtype}")
    n = p.as_dtype(n, i64)
    length = size_node(size)
    if mode == "wrap":
        return p.mod(n, length)
    if mode == "clip":
        return p.clip(n, 0, length - 1)
    known = known_array(indices)
    if known is None or not isinstance(size, int):
        return checked_index(n, size=size, axis=axis)
    outside = (known < -size) | (known >= size)
    if np.any(outside):
        raise IndexError(f"index {int(known[outside][0])} is out of bounds for axis {axis} with size {size}")
    return constant(np.where(known < 0, known + size, known), i64)


@implements_numpy(np.take)
def take(a: Value, indices: Value, axis: Any = None, out: Any = None, mode: str = "raise") -> Any:
    n = node_of(a)
    n, k = (flat(n), 0) if axis is None else (n, axis_of(axis, n.ndim, "np.take"))
    at = index_node(indices, n.shape[k], mode, "np.take", k)
    y = gather(n, at, axes=(k,))
    order = list(range(at.ndim, y.ndim))
    order[k:k] = range(at.ndim)
    return into(out, wrap(permuted(y, order)), "np.take")


@implements_numpy(np.take_along_axis)
def take_along_axis(arr: Value, indices: Value, axis: Any = -1) -> Tracer:
    n, at = node_of(arr), node_of(indices)
    if axis is None:
        n, k = flat(n), 0
    else:
        k = axis_of(axis, n.ndim, "np.take_along_axis")
    if at.ndim != n.ndim:
        raise ValueError("`indices` and `arr` must have the same number of dimensions")
    at = index_node(indices, n.shape[k], "raise", "np.take_along_axis", k)
    lead = broadcast_shapes(*(s[:k] + s[k + 1 :] for s in (n.shape, at.shape)), what="np.take_along_axis")
    shape: Shape = (*lead[:k], at.shape[k], *lead[k:])
    at = broadcast_to(at, shape)
    everywhere = broadcast_to(n, (*lead[:k], n.shape[k], *lead[k:]))
    each = [at if j == k else running.iota_along(shape, j) for j in range(n.ndim)]
    return wrap(gather(everywhere, *each, axes=tuple(range(n.ndim))))


def _known_mask(condition: Value, what: str) -> np.ndarray[Any, Any]:
    known = known_array(condition)
    if known is None:
        raise UnsupportedError(
            f"{what}: the length of a selection by a traced condition is not known; use np.where or a boolean index"
        )
    return known.astype(bool)


@implements_numpy(np.compress)
def compress(condition: Value, a: Value, axis: Any = None, out: Any = None) -> Any:
    n = node_of(a)
    n, k = (flat(n), 0) if axis is None else (n, axis_of(axis, n.ndim, "np.compress"))
    return into(out, wrap(picked(n, np.flatnonzero(_known_mask(condition, "np.compress")), k)), "np.compress")


@implements_numpy(np.extract)
def extract(condition: Value, arr: Value) -> Tracer:
    return wrap(picked(flat(node_of(arr)), np.flatnonzero(_known_mask(condition, "np.extract")), 0))


@implements_numpy(np.delete)
def delete(arr: Value, obj: Any, axis: Any = None) -> Tracer:
    n = node_of(arr)
    n, k = (flat(n), 0) if axis is None else (n, axis_of(axis, n.ndim, "np.delete"))
    kept = np.delete(np.arange(current().pin(n.shape[k])), obj)
    return wrap(picked(n, kept, k))


@implements_numpy(np.insert)
def insert(arr: Value, obj: Any, values: Value, axis: Any = None) -> Tracer:
    n = node_of(arr)
    n, k = (flat(n), 0) if axis is None else (n, axis_of(axis, n.ndim, "np.insert"))
    if known_array(obj) is None or np.ndim(obj):
        raise UnsupportedError("np.insert: wants one plain int as the position")
    size = n.shape[k]
    at: Size = size + int(obj) if int(obj) < 0 else int(obj)
    new = node_of(values, n.dtype)
    if new.ndim < n.ndim:
        new = new if n.ndim == 1 else insert_axis(broadcast_to(new, (*n.shape[:k], *n.shape[k + 1 :])), k)
    new = new if new.ndim else insert_axis(new, 0)
    new = broadcast_to(new, tuple(new.shape[j] if j == k else s for j, s in enumerate(n.shape)))
    return wrap(views.concatenate(part(n, k, 0, at), new, part(n, k, at, size - at), axis=k))


@implements_numpy(np.choose)
def choose(a: Value, choices: Any, out: Any = None, mode: str = "raise") -> Any:
    index = node_of(a)
    options = spread(index, *operands(*choices))[1:]
    chosen = options[0]
    k = index_node(a, len(options), mode, "np.choose")
    k = broadcast_to(k, chosen.shape)
    for j, o in enumerate(options[1:], 1):
        chosen = p.select(p.eq(k, j), o, chosen)
    return into(out, wrap(chosen), "np.choose")


@implements_numpy(np.ix_)
def ix_(*args: Value) -> tuple[Tracer, ...]:
    lines = [node_of(a) for a in args]
    if any(n.ndim != 1 or n.dtype == boolean for n in lines):
        raise UnsupportedError("np.ix_: wants one-dimensional arrays of integers")
    return tuple(
        wrap(reshaped(n, tuple(n.shape[0] if j == k else 1 for j in range(len(lines))))) for k, n in enumerate(lines)
    )


@implements_numpy(np.unravel_index)
def unravel_index(indices: Value, shape: Any, order: str = "C") -> tuple[Tracer, ...]:
    if order != "C":
        raise UnsupportedError("np.unravel_index: only order='C' is supported")
    rest, out = p.as_dtype(node_of(indices), i64), []
    for s in reversed(shape_of(shape)):
        length = size_node(s)
        out.append(wrap(p.mod(rest, length)))
        rest = p.int_div(rest, length)
    return tuple(reversed(out))


@implements_numpy(np.ravel_multi_index)
def ravel_multi_index(multi_index: Any, dims: Any, mode: str = "raise", order: str = "C") -> Tracer:
    if order != "C" or mode != "raise":
        raise UnsupportedError("np.ravel_multi_index: only order='C' and mode='raise' are supported")
    total: Node | None = None
    for k, (i, s) in enumerate(zip(multi_index, shape_of(dims), strict=True)):
        here = checked_index(p.as_dtype(node_of(i), i64), size=s, axis=k)
        total = here if total is None else total * size_node(s) + here
    return wrap(total if total is not None else number(0, i64))


def _refuse(function: Any, reason: str) -> None:
    def refuse(*args: Any, **keywords: Any) -> Any:
        raise UnsupportedError(f"np.{function.__name__}: {reason}")

    refuse.__name__ = function.__name__
    implements_numpy(function)(refuse)


_LENGTH = "the length of the result depends on traced values; use np.where to keep the full shape"
for _function in (np.nonzero, np.flatnonzero, np.argwhere, np.unique):
    _refuse(_function, _LENGTH)
_refuse(np.piecewise, "is not supported on traced values; use np.where or np.select")
