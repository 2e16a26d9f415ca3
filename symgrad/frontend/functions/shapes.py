"""NumPy's changes of shape: views where NumPy gives views."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from symgrad.errors import ShapeError, UnsupportedError
from symgrad.frontend.functions.support import (
    Value,
    as_tracer,
    axes_of,
    axis_of,
    flat,
    implements_numpy,
    listed,
    node_of,
    part,
    positive,
    reshaped,
    shape_of,
    static_int,
)  # fmt: skip
from symgrad.frontend.tracer import Tracer, view_of, wrap
from symgrad.ir.node import Node
from symgrad.ir.sizes import broadcast_shapes, current, shown
from symgrad.ir.types import Shape, Size, product
from symgrad.ops import views
from symgrad.ops.kinds import broadcast_to
from symgrad.ops.views import inverse

Read = Callable[[Node], Node]


def rearranged(a: Value, read: Read, back: Read) -> Tracer:
    """A view that shows all elements of ``a`` in another arrangement, undone by ``back``."""
    (a,) = listed((a,))
    return view_of(a, read, lambda base, new: back(new))


def reshape_view(a: Value, shape: Shape) -> Tracer:
    old = node_of(a).shape
    return rearranged(a, lambda n: reshaped(n, shape), lambda n: reshaped(n, old))


def transpose_view(a: Value, perm: Sequence[int]) -> Tracer:
    order = tuple(perm)
    back = inverse(order)
    return rearranged(a, lambda n: views.transpose(n, perm=order), lambda n: views.transpose(n, perm=back))


# --- shapes ----------------------------------------------------------------------------------------------------------


def full_shape(shape: Shape, old: Shape) -> Shape:
    """A shape argument with its -1 worked out."""
    unknown = [k for k, s in enumerate(shape) if s == -1]
    if not unknown:
        return shape
    total, rest = product(old), product(s for s in shape if s != -1)
    fits = len(unknown) == 1 and rest != 0 and current().same((total // rest) * rest, total)
    if not fits:
        raise ShapeError(f"cannot reshape array of shape {shown(old)} into shape {shown(shape)}")
    return tuple(total // rest if s == -1 else s for s in shape)


@implements_numpy(np.reshape)
def reshape(a: Value, /, shape: Any = None, order: Any = "C", *, newshape: Any = None, copy: Any = None) -> Tracer:
    if order not in ("C", "A", "F"):
        raise UnsupportedError(f"np.reshape: order={order!r} is not supported")
    n = node_of(a)
    new = full_shape(shape_of(shape if shape is not None else newshape), n.shape)
    if order != "F":
        return reshape_view(a, new)
    flipped = transpose_view(a, range(n.ndim)[::-1])
    return transpose_view(reshape_view(flipped, new[::-1]), range(len(new))[::-1])


@implements_numpy(np.ravel)
def ravel(a: Value, order: Any = "C") -> Any:
    return reshape(a, -1, order)


@implements_numpy(np.transpose, np.permute_dims)
def transpose(a: Value, axes: Any = None) -> Tracer:
    n = node_of(a)
    if axes is None:
        return transpose_view(a, range(n.ndim)[::-1])
    perm = tuple(axis_of(k, n.ndim, "np.transpose") for k in axes)
    if sorted(perm) != list(range(n.ndim)):
        raise ShapeError(f"np.transpose: axes {axes} do not match an array of {n.ndim} dimensions")
    return transpose_view(a, perm)


@implements_numpy(np.matrix_transpose, np.linalg.matrix_transpose)
def matrix_transpose(x: Value) -> Tracer:
    n = node_of(x).ndim
    if n < 2:
        raise ShapeError(f"np.matrix_transpose: wants at least 2 dimensions, got {n}")
    return transpose_view(x, (*range(n - 2), n - 1, n - 2))


@implements_numpy(np.swapaxes)
def swapaxes(a: Value, axis1: Any, axis2: Any) -> Tracer:
    ndim = node_of(a).ndim
    i, j = axis_of(axis1, ndim, "np.swapaxes"), axis_of(axis2, ndim, "np.swapaxes")
    perm = list(range(ndim))
    perm[i], perm[j] = j, i
    return transpose_view(a, perm)


@implements_numpy(np.moveaxis)
def moveaxis(a: Value, source: Any, destination: Any) -> Tracer:
    ndim = node_of(a).ndim
    pairs = []
    for axes in (source, destination):
        several = axes if isinstance(axes, tuple | list) else (axes,)
        pairs.append([axis_of(k, ndim, "np.moveaxis") for k in several])
    if len(pairs[0]) != len(pairs[1]):
        raise ValueError("`source` and `destination` arguments must have the same number of elements")
    order = [k for k in range(ndim) if k not in pairs[0]]
    for to, frm in sorted(zip(pairs[1], pairs[0], strict=True)):
        order.insert(to, frm)
    return transpose_view(a, order)


@implements_numpy(np.rollaxis)
def rollaxis(a: Value, axis: Any, start: int = 0) -> Tracer:
    ndim = node_of(a).ndim
    k, to = axis_of(axis, ndim, "np.rollaxis"), start + ndim if start < 0 else start
    order = [j for j in range(ndim) if j != k]
    order.insert(to - (k < to), k)
    return transpose_view(a, order)


@implements_numpy(np.squeeze)
def squeeze(a: Value, axis: Any = None) -> Tracer:
    shape = node_of(a).shape
    if axis is None:
        gone = tuple(k for k, s in enumerate(shape) if s == 1 or current().pinned_to_one(s))
    else:
        gone = axes_of(axis, len(shape), "np.squeeze")
        if not all(current().same(shape[k], 1) for k in gone):
            raise ShapeError(
                f"cannot select an axis to squeeze out which has size not equal to one: shape {shown(shape)}"
            )
    return reshape_view(a, tuple(s for k, s in enumerate(shape) if k not in gone))


@implements_numpy(np.expand_dims)
def expand_dims(a: Value, axis: Any) -> Tracer:
    old = node_of(a).shape
    several = axis if isinstance(axis, tuple | list) else (axis,)
    ndim = len(old) + len(several)
    new = axes_of(several, ndim, "np.expand_dims")
    rest = iter(old)
    return reshape_view(a, tuple(1 if k in new else next(rest) for k in range(ndim)))


def _at_least(ndim: int, function: Any, grow: Callable[[Shape], Shape]) -> None:
    @implements_numpy(function)
    def at_least(*arys: Value) -> Any:
        out = []
        for a in arys:
            shape = node_of(a).shape
            out.append(
                reshape_view(a, grow(shape))
                if len(shape) < ndim
                else wrap(node_of(a))
                if not isinstance(a, Tracer)
                else a
            )
        return out[0] if len(out) == 1 else tuple(out)


_at_least(1, np.atleast_1d, lambda s: (1,))
_at_least(2, np.atleast_2d, lambda s: (1, *s) if s else (1, 1))
_at_least(3, np.atleast_3d, lambda s: (*s, 1) if len(s) == 2 else (1, *s, 1) if s else (1, 1, 1))


@implements_numpy(np.broadcast_to)
def broadcast_to_(array: Value, shape: Any) -> Tracer:
    n, new = node_of(array), shape_of(shape)
    if n.ndim > len(new):
        raise ShapeError(
            f"input operand has more dimensions than allowed by the axis remapping: {shown(n.shape)} to {shown(new)}"
        )
    if len(broadcast_shapes(n.shape, new, what="np.broadcast_to")) != len(new) or not _fits(n.shape, new):
        raise ShapeError(f"np.broadcast_to: an array of shape {shown(n.shape)} does not broadcast to {shown(new)}")
    (array,) = listed((array,))
    return view_of(array, lambda x: broadcast_to(x, new), None)


def _fits(old: Shape, new: Shape) -> bool:
    return all(s == 1 or current().same(s, t) for s, t in zip(old, new[len(new) - len(old) :], strict=True))


@implements_numpy(np.broadcast_arrays)
def broadcast_arrays(*args: Value) -> tuple[Tracer, ...]:
    shape = broadcast_shapes(*(node_of(a).shape for a in args), what="np.broadcast_arrays")
    return tuple(view_of(a, lambda x: broadcast_to(x, shape), None) for a in listed(args))


# --- turning ---------------------------------------------------------------------------------------------------------


@implements_numpy(np.flip)
def flip(m: Value, axis: Any = None) -> Any:
    a = as_tracer(m)
    axes = axes_of(axis, a.node.ndim, "np.flip")
    return a[tuple(slice(None, None, -1) if k in axes else slice(None) for k in range(a.node.ndim))]


@implements_numpy(np.fliplr)
def fliplr(m: Value) -> Any:
    return flip(m, 1)


@implements_numpy(np.flipud)
def flipud(m: Value) -> Any:
    return flip(m, 0)


@implements_numpy(np.rot90)
def rot90(m: Value, k: int = 1, axes: Any = (0, 1)) -> Any:
    a, turns = as_tracer(m), static_int(k, "np.rot90: k") % 4
    i, j = (axis_of(x, a.node.ndim, "np.rot90") for x in axes)
    if turns == 0:
        return a
    if turns == 2:
        return flip(flip(a, i), j)
    return swapaxes(flip(a, j), i, j) if turns == 1 else flip(swapaxes(a, i, j), j)


def rolled(n: Node, shift: int, axis: int) -> Node:
    size = n.shape[axis]
    if not positive(size):
        return n
    if not current().le(abs(shift) + 1, size):
        shift = shift % current().pin(size)
    if shift == 0:
        return n
    start: Size = size - shift if shift > 0 else -shift
    return views.concatenate(part(n, axis, start, size - start), part(n, axis, 0, start), axis=axis)


@implements_numpy(np.roll)
def roll(a: Value, shift: Any, axis: Any = None) -> Tracer:
    n = node_of(a)
    if axis is None:
        return wrap(reshaped(rolled(flat(n), static_int(shift, "np.roll: shift"), 0), n.shape)) if n.ndim else wrap(n)
    axes = axis if isinstance(axis, tuple | list) else (axis,)
    shifts = shift if isinstance(shift, tuple | list) else (shift,) * len(axes)
    for k, s in zip(axes if len(axes) == len(shifts) else axes * len(shifts), shifts, strict=True):
        n = rolled(n, static_int(s, "np.roll: shift"), axis_of(k, n.ndim, "np.roll"))
    return wrap(n)
