"""Joining, splitting, repeating and padding arrays."""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any

import numpy as np

from symgrad.errors import ShapeError, UnsupportedError
from symgrad.frontend.functions.elementwise import into
from symgrad.frontend.functions.shapes import ravel
from symgrad.frontend.functions.support import (
    Value,
    as_tracer,
    asked_dtype,
    axis_of,
    flat,
    implements_numpy,
    insert_axis,
    known_array,
    node_of,
    part,
    present,
    reshaped,
    rows_of,
    same_dtype,
    shape_of,
    stacked,
    static,
)  # fmt: skip
from symgrad.frontend.tracer import Tracer, make_size, wrap
from symgrad.ir.node import Node, constant
from symgrad.ir.sizes import current, shown
from symgrad.ir.types import Shape, Size, i64
from symgrad.ops import pointwise as p
from symgrad.ops import views
from symgrad.ops.indexing import gather
from symgrad.ops.kinds import broadcast_to

# --- joining ---------------------------------------------------------------------------------------------------------


def joined(nodes: Sequence[Node], axis: Any, dtype: Any, what: str) -> Node:
    if not nodes:
        raise ValueError("need at least one array to concatenate")
    ndim = nodes[0].ndim
    if not ndim:
        raise ValueError("zero-dimensional arrays cannot be concatenated")
    k = axis_of(axis, ndim, what)
    for n in nodes[1:]:
        if n.ndim != ndim:
            raise ShapeError(
                f"{what}: all arrays must have the same number of dimensions, got "
                + " and ".join(shown(n.shape) for n in nodes)
            )
    nodes = same_dtype(nodes)
    return views.concatenate(*(p.as_dtype(n, asked_dtype(dtype, n.dtype)) for n in nodes), axis=k)


@implements_numpy(np.concatenate, np.concat)
def concatenate(arrays: Value, /, axis: Any = 0, out: Any = None, *, dtype: Any = None) -> Any:
    nodes = rows_of(arrays)
    if axis is None:
        nodes, axis = [flat(n) if n.ndim else insert_axis(n, 0) for n in nodes], 0
    return into(out, wrap(joined(nodes, axis, dtype, "np.concatenate")), "np.concatenate")


@implements_numpy(np.stack)
def stack(arrays: Value, axis: Any = 0, out: Any = None, *, dtype: Any = None) -> Any:
    nodes = rows_of(arrays)
    if not nodes:
        raise ValueError("need at least one array to stack")
    n = stacked(nodes, axis_of(axis, nodes[0].ndim + 1, "np.stack"))
    return into(out, wrap(p.as_dtype(n, asked_dtype(dtype, n.dtype))), "np.stack")


def _raised(nodes: list[Node], ndim: int, grow: Callable[[Shape], Shape]) -> list[Node]:
    return [reshaped(n, grow(n.shape)) if n.ndim < ndim else n for n in nodes]


@implements_numpy(np.hstack)
def hstack(tup: Value, *, dtype: Any = None) -> Tracer:
    nodes = _raised(rows_of(tup), 1, lambda s: (1,))
    return wrap(joined(nodes, 0 if nodes and nodes[0].ndim == 1 else 1, dtype, "np.hstack"))


@implements_numpy(np.vstack)
def vstack(tup: Value, *, dtype: Any = None) -> Tracer:
    return wrap(joined(_raised(rows_of(tup), 2, lambda s: (1, *(s or (1,)))), 0, dtype, "np.vstack"))


@implements_numpy(np.dstack)
def dstack(tup: Value) -> Tracer:
    grow: Callable[[Shape], Shape] = lambda s: (*s, 1) if len(s) == 2 else (1, *(s or (1,)), 1)  # noqa: E731  # one use
    return wrap(joined(_raised(rows_of(tup), 3, grow), 2, None, "np.dstack"))


@implements_numpy(np.column_stack)
def column_stack(tup: Value) -> Tracer:
    return wrap(joined(_raised(rows_of(tup), 2, lambda s: (*(s or (1,)), 1)), 1, None, "np.column_stack"))


@implements_numpy(np.append)
def append(arr: Value, values: Value, axis: Any = None) -> Any:
    if axis is None:
        return concatenate((ravel(arr), ravel(values)))
    return concatenate((arr, values), axis)


@implements_numpy(np.block)
def block(arrays: Value) -> Tracer:
    depth = _depth(arrays)
    nodes = _map_nested(arrays, node_of)
    ndim = max(depth, _largest_rank(nodes))

    def join(x: Any, level: int) -> Node:
        if isinstance(x, list):
            return joined([join(item, level + 1) for item in x], level - depth, None, "np.block")
        node: Node = x
        return reshaped(node, (1,) * (ndim - node.ndim) + node.shape)

    return wrap(join(nodes, 0))


def _depth(x: Any) -> int:
    return 1 + max((_depth(item) for item in x), default=0) if isinstance(x, list) else 0


def _map_nested(x: Any, f: Callable[[Any], Any]) -> Any:
    return [_map_nested(item, f) for item in x] if isinstance(x, list) else f(x)


def _largest_rank(x: Any) -> int:
    return max(map(_largest_rank, x)) if isinstance(x, list) else int(x.ndim)


# --- splitting -------------------------------------------------------------------------------------------------------


def _cuts(ary: Tracer, bounds: Sequence[Any], axis: int) -> list[Any]:
    lead = (slice(None),) * axis
    return [ary[(*lead, slice(a, b))] for a, b in pairwise(bounds)]


@implements_numpy(np.split)
def split(ary: Value, indices_or_sections: Any, axis: Any = 0) -> list[Any]:
    a = as_tracer(ary)
    k = axis_of(axis, a.node.ndim, "np.split")
    sections = static(indices_or_sections)
    if isinstance(sections, int | np.integer):
        size = a.node.shape[k]
        step = size // int(sections)
        if not current().same(step * int(sections), size):
            raise ValueError("array split does not result in an equal division")
        lead = (slice(None),) * k
        return [a[(*lead, slice(make_size(step * j), make_size(step * (j + 1))))] for j in range(int(sections))]
    return array_split(a, indices_or_sections, axis)  # type: ignore[no-any-return]  # a registered function


@implements_numpy(np.array_split)
def array_split(ary: Value, indices_or_sections: Any, axis: Any = 0) -> list[Any]:
    a = as_tracer(ary)
    k = axis_of(axis, a.node.ndim, "np.array_split")
    try:
        parts = operator.index(indices_or_sections)
    except TypeError:
        return _cuts(a, [0, *list(indices_or_sections), None], k)
    size = current().pin(a.node.shape[k])
    if parts <= 0:
        raise ValueError("number sections must be larger than 0.")
    lengths = [size // parts + (j < size % parts) for j in range(parts)]
    return _cuts(a, [0, *np.cumsum(lengths).tolist()], k)


def _directed(function: Any, axis: Callable[[int], int]) -> None:
    @implements_numpy(function)
    def directed(ary: Value, indices_or_sections: Any) -> list[Any]:
        out: list[Any] = split(ary, indices_or_sections, axis(node_of(ary).ndim))
        return out


_directed(np.vsplit, lambda ndim: 0)
_directed(np.hsplit, lambda ndim: min(ndim - 1, 1))
_directed(np.dsplit, lambda ndim: 2)


@implements_numpy(*present("unstack"), what="np.unstack")
def unstack(x: Value, /, *, axis: Any = 0) -> tuple[Any, ...]:
    a = as_tracer(x)
    k = axis_of(axis, a.node.ndim, "np.unstack")
    return tuple(a[(*(slice(None),) * k, j)] for j in range(current().pin(a.node.shape[k])))


# --- repeating -------------------------------------------------------------------------------------------------------


@implements_numpy(np.repeat)
def repeat(a: Value, repeats: Any, axis: Any = None) -> Tracer:
    n = node_of(a)
    n, k = (flat(n), 0) if axis is None else (n, axis_of(axis, n.ndim, "np.repeat"))
    counts = known_array(repeats) if np.ndim(repeats) else None
    if counts is not None and np.size(counts) != 1:
        size = current().pin(n.shape[k])
        index = np.repeat(np.arange(size), np.asarray(counts))
        return wrap(picked(n, index, k))
    times = shape_of(repeats)[0]
    wide = broadcast_to(insert_axis(n, k + 1), (*n.shape[: k + 1], times, *n.shape[k + 1 :]))
    return wrap(views.reshape(wide, shape=(*n.shape[:k], n.shape[k] * times, *n.shape[k + 1 :])))


def picked(n: Node, index: Any, axis: int) -> Node:
    """``n`` at known positions of one axis."""
    out = gather(n, constant(index, i64), axes=(axis,))
    order = list(range(1, n.ndim))
    order.insert(axis, 0)
    return views.transpose(out, perm=tuple(order)) if axis else out


@implements_numpy(np.tile)
def tile(A: Value, reps: Any) -> Tracer:
    n, times = node_of(A), shape_of(reps)
    ndim = max(n.ndim, len(times))
    shape, times = (1,) * (ndim - n.ndim) + n.shape, (1,) * (ndim - len(times)) + times
    wide: list[Size] = [s for pair in zip(times, shape, strict=True) for s in pair]
    spread_out = views.broadcast(reshaped(n, shape), shape=tuple(wide), axes=tuple(range(1, 2 * ndim, 2)))
    return wrap(views.reshape(spread_out, shape=tuple(t * s for t, s in zip(times, shape, strict=True))))


# --- padding ---------------------------------------------------------------------------------------------------------


def _pairs(x: Any, ndim: int) -> list[tuple[Any, Any]]:
    """(before, after) for each axis from any form that np.pad takes."""
    if isinstance(x, Tracer) or not isinstance(x, list | tuple | np.ndarray):
        return [(x, x)] * ndim
    rows = list(x)
    if len(rows) == 1 and not isinstance(rows[0], list | tuple | np.ndarray):
        return [(rows[0], rows[0])] * ndim
    if not isinstance(rows[0], list | tuple | np.ndarray):
        return [(rows[0], rows[1])] * ndim
    pairs = [(r[0], r[-1]) for r in rows]
    return pairs * ndim if len(pairs) == 1 else pairs


@implements_numpy(np.pad)
def pad(array: Value, pad_width: Any, mode: Any = "constant", **keywords: Any) -> Tracer:
    n = node_of(array)
    if isinstance(pad_width, dict):
        pad_width = [pad_width.get(k, pad_width.get(k - n.ndim, 0)) for k in range(n.ndim)]
        pad_width = [w if isinstance(w, tuple | list) else (w, w) for w in pad_width]
    widths = [(shape_of(a)[0], shape_of(b)[0]) for a, b in _pairs(pad_width, n.ndim)]
    values = _pairs(keywords.pop("constant_values", 0), n.ndim)
    if keywords:
        raise UnsupportedError(f"np.pad: the keyword {next(iter(keywords))} is not supported on traced values")
    if mode not in ("constant", "edge", "reflect", "symmetric", "wrap"):
        raise UnsupportedError(
            f"np.pad: mode={mode!r} is not supported; constant, edge, reflect, symmetric and wrap are"
        )
    if mode == "constant" and all(isinstance(v, int | float) and v == 0 for pair in values for v in pair):
        shape = tuple(s + a + b for s, (a, b) in zip(n.shape, widths, strict=True))
        return wrap(views.place(n, shape=shape, starts=tuple(a for a, _ in widths), steps=(1,) * n.ndim))
    for k, (width, value) in enumerate(zip(widths, values, strict=True)):
        if width != (0, 0):
            n = _padded_constant(n, k, width, value) if mode == "constant" else _padded(n, k, width, mode)
    return wrap(n)


def _padded_constant(n: Node, axis: int, width: tuple[Size, Size], value: tuple[Any, Any]) -> Node:
    sides = [
        broadcast_to(node_of(v, n.dtype), tuple(w if k == axis else s for k, s in enumerate(n.shape)))
        for w, v in zip(width, value, strict=True)
    ]
    return views.concatenate(sides[0], n, sides[1], axis=axis)


def _padded(n: Node, axis: int, width: tuple[Size, Size], mode: str) -> Node:
    """One axis continued from its own elements."""
    size, (before, after) = n.shape[axis], width
    if isinstance(size, int) and isinstance(before, int) and isinstance(after, int):
        return picked(n, np.pad(np.arange(size), (before, after), mode), axis)  # type: ignore[call-overload]  # one of its modes
    if mode == "edge":
        first, last = part(n, axis, 0, 1), part(n, axis, size - 1, 1)
        shapes = [tuple(w if k == axis else s for k, s in enumerate(n.shape)) for w in width]
        return views.concatenate(broadcast_to(first, shapes[0]), n, broadcast_to(last, shapes[1]), axis=axis)
    skip = 1 if mode == "reflect" else 0
    if not all(current().le(w + skip, size) for w in width):
        raise UnsupportedError(f"np.pad: mode={mode!r} with a width beyond the array's length needs a known length")
    if mode == "wrap":
        return views.concatenate(part(n, axis, size - before, before), n, part(n, axis, 0, after), axis=axis)
    left = part(n, axis, before - 1 + skip, before, -1)
    right = part(n, axis, size - 1 - skip, after, -1)
    return views.concatenate(left, n, right, axis=axis)
