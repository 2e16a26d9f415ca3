"""Reading and writing at computed positions.

Indices are i64 arrays of one shape, in range: ``checked_index`` makes any integers so, or ends the call.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

import numpy as np

from symgrad.ir.loops import (
    ADD,
    AND,
    LE,
    LT,
    NOT,
    OR,
    Apply,
    Block,
    Choose,
    Const,
    Convert,
    Expr,
    If,
    Let,
    Site,
    const_index,
    extent,
)
from symgrad.ir.node import Node
from symgrad.ir.op import Index, Nest, NestBuilder, Op, Piece, Place, View, register
from symgrad.ir.types import Shape, Size, TensorType, boolean, i64, product
from symgrad.ops import pointwise as p
from symgrad.ops.folds import kept
from symgrad.ops.kinds import number, one_dtype, zeros
from symgrad.ops.running import iota
from symgrad.ops.views import batched, broadcast, reshape, to_front, transpose

Axes = tuple[int, ...]


@functools.cache
def _out_of_bounds(axis: int) -> Site:
    def make(values: Sequence[Any]) -> IndexError:
        index, size = values
        return IndexError(f"index {index} is out of bounds for axis {axis} with size {size}")

    return Site("IndexError", f"index … is out of bounds for axis {axis}", make)


def _checked_build(b: NestBuilder, out: Place, x: Place, *blocked: Place, size: Size, axis: int) -> Block:
    n, left = extent(size), (b.temp(TensorType(i64)), b.temp(TensorType(i64)))
    fail = b.fail_at(_out_of_bounds(axis), left)

    def at(ix: Index) -> Block:
        raw, wrapped = b.fresh("raw", i64), b.fresh("wrapped", i64)
        value = x.load(*ix)
        outside = Apply(OR, (Apply(LT, (wrapped, const_index(0))), Apply(LE, (n, wrapped))))
        hit, given = outside, wrapped  # type: Expr, Expr
        if blocked:  # zero is in range, but for an axis without elements
            empty = Apply(LE, (n, const_index(0)))
            hit = Apply(AND, (outside, Apply(OR, (Apply(NOT, (blocked[0].load(*ix),)), empty))))
            given = Choose(outside, const_index(0), wrapped)
        return (
            Let(raw, value if x.type.dtype == i64 else Convert(value, i64)),
            Let(wrapped, Choose(Apply(LT, (raw, const_index(0))), Apply(ADD, (raw, n)), raw)),
            If(hit, (left[0].store(raw), left[1].store(n), fail)),
            out.store(given, *ix),
        )

    return b.loop(x.type.shape, at)


def _checked_numpy(x: Any, *blocked: Any, size: int, axis: int) -> Any:
    outside = (x < -size) | (x >= size)
    for index in x[outside & ~np.asarray(blocked[0] if blocked and size else False)]:
        raise _out_of_bounds(axis).make([index, size])
    return np.where(outside, 0, np.where(x < 0, x + size, x)).astype(np.int64)


def _checked_batch(lanes: Size, args: Any, dims: Any, /, **attrs: Any) -> tuple[Node, int]:
    return checked_index(*(batched(lanes, a, d) for a, d in zip(args, dims, strict=True)), **attrs), 0


checked_index: Op = register(
    Op(
        name="checked_index",
        doc="Integers as positions along an axis: negative ones count from the end; IndexError when out of range, "
        "or zero where a second operand holds.",
        infer=lambda x, *blocked, size, axis: x.with_dtype(i64),
        numpy=_checked_numpy,
        lower=Nest(_checked_build),
        constant=True,
        batch=_checked_batch,
        examples=lambda: [
            ((np.array([0, -1, 2]),), {"size": 3, "axis": 0}),
            ((np.array([0, 3, 2]), np.array([True, True, True])), {"size": 3, "axis": 1}),
        ],
    )
)


def _gather_infer(x: TensorType, *indices: TensorType, axes: Axes) -> TensorType:
    return x.with_shape((*indices[0].shape, *(x.shape[k] for k in kept(x.ndim, axes))))


def _full_index(axes: Axes, rest: Axes, indices: Any, shape: Any) -> tuple[Any, ...]:
    """NumPy index arrays for ``indices`` along ``axes`` and everything along ``rest``, rest last."""
    lead = indices[0].ndim
    out: list[Any] = [None] * (len(axes) + len(rest))
    for a, i in zip(axes, indices, strict=True):
        out[a] = i.reshape(i.shape + (1,) * len(rest))
    for k, a in enumerate(rest):
        out[a] = np.arange(shape[a]).reshape((1,) * (lead + k) + (-1,) + (1,) * (len(rest) - k - 1))
    return tuple(out)


def _gather_numpy(x: Any, *indices: Any, axes: Axes) -> Any:
    return x[_full_index(axes, kept(x.ndim, axes), indices, x.shape)]


def _position(ndim: int, axes: Axes, found: Sequence[Expr], rest: Index) -> Index:
    """The index ``found`` on ``axes`` and ``rest`` on the others."""
    at = dict(zip((*axes, *kept(ndim, axes)), (*found, *rest), strict=True))
    return tuple(at[k] for k in range(ndim))


def _gather_pieces(ix: Index, read: Any, types: Any, *, axes: Axes) -> tuple[Piece, ...]:
    x, *indices = types
    lead = indices[0].ndim
    found = [read(k + 1, ix[:lead]) for k in range(len(axes))]
    return (Piece(0, _position(x.ndim, axes, found, ix[lead:])),)


def _gather_vjp(ct: Node, y: Node, x: Node, *indices: Node, axes: Axes) -> tuple[Node | None, ...]:
    return (scatter_add(ct, *indices, shape=x.shape, axes=axes), *(None for _ in indices))


def batch_indices(size: Size, indices: Any, dims: Any) -> list[Node]:
    """Batched index arrays with the batch in front, led by the batch's own index."""
    fronts = [batched(size, i, d) for i, d in zip(indices, dims, strict=True)]
    return [broadcast(iota(size=size), shape=fronts[0].shape, axes=(0,)), *fronts]


def _gather_batch(size: Size, args: Any, dims: Any, *, axes: Axes) -> tuple[Node, int]:
    (x, *indices), (dx, *di) = args, dims
    up = tuple(a + 1 for a in axes)
    if all(d is None for d in di):
        return gather(to_front(x, dx), *indices, axes=up), indices[0].ndim
    if dx is None:
        fronts = batch_indices(size, indices, di)[1:]
        return gather(x, *fronts, axes=axes), 0
    return gather(to_front(x, dx), *batch_indices(size, indices, di), axes=(0, *up)), 0


gather: Op = register(
    Op(
        name="gather",
        doc="x read at index arrays along ``axes``: their shape first, then the other axes of x.",
        infer=_gather_infer,
        numpy=_gather_numpy,
        lower=View(_gather_pieces),
        structural=True,
        covers=False,
        vjp=_gather_vjp,
        jvp=lambda ts, y, x, *indices, axes: None if ts[0] is None else gather(ts[0], *indices, axes=axes),
        batch=_gather_batch,
        examples=lambda: [
            (((3, 4), np.array([0, 2, 0])), {"axes": (0,)}),
            (((3, 4), np.array([[0], [2]]), np.array([[1], [1]])), {"axes": (0, 1)}),
        ],
    )
)


def _scatter_place(out: Place, indices: tuple[Place, ...], axes: Axes, lead: int) -> Any:
    def position(ix: Index) -> Index:
        return _position(out.type.ndim, axes, [i.load(*ix[:lead]) for i in indices], ix[lead:])

    return position


def _scatter_add_build(b: NestBuilder, out: Place, v: Place, *indices: Place, shape: Shape, axes: Axes) -> Block:
    position = _scatter_place(out, indices, axes, indices[0].type.ndim)
    zero = Const(False if out.type.dtype == boolean else 0, out.type.dtype)

    def at(ix: Index) -> Block:
        where = position(ix)
        return (out.store(Apply(ADD, (out.load(*where), v.load(*ix))), *where),)

    return (*b.loop(shape, lambda ix: (out.store(zero, *ix),)), *b.loop(v.type.shape, at))


def _scatter_add_numpy(v: Any, *indices: Any, shape: Any, axes: Axes) -> Any:
    out = np.zeros(shape, v.dtype)
    ufunc = np.logical_or if v.dtype == bool else np.add
    ufunc.at(out, _full_index(axes, kept(len(shape), axes), indices, shape), v)
    return out


def _scatter_add_batch(size: Size, args: Any, dims: Any, *, shape: Shape, axes: Axes) -> tuple[Node, int]:
    (v, *indices), (dv, *di) = args, dims
    up = tuple(a + 1 for a in axes)
    if all(d is None for d in di):
        lead, front = indices[0].ndim, to_front(v, dv)
        beside = transpose(front, perm=(*range(1, lead + 1), 0, *range(lead + 1, front.ndim)))
        return scatter_add(beside, *indices, shape=(size, *shape), axes=up), 0
    return scatter_add(batched(size, v, dv), *batch_indices(size, indices, di), shape=(size, *shape), axes=(0, *up)), 0


scatter_add: Op = register(
    Op(
        name="scatter_add",
        doc="Zeros of ``shape`` with v added at index arrays; repeated positions add. The transpose of gather.",
        infer=lambda v, *indices, shape, axes: v.with_shape(shape),
        numpy=_scatter_add_numpy,
        lower=Nest(_scatter_add_build),
        structural=True,
        fills=True,
        vjp=lambda ct, y, v, *indices, shape, axes: (gather(ct, *indices, axes=axes), *(None for _ in indices)),
        jvp=lambda ts, y, v, *indices, shape, axes: (
            None if ts[0] is None else scatter_add(ts[0], *indices, shape=shape, axes=axes)
        ),
        batch=_scatter_add_batch,
        examples=lambda: [(((3, 4), np.array([0, 2, 0])), {"axes": (0,), "shape": (3, 4)})],
    )
)


def _scatter_set_infer(x: TensorType, v: TensorType, *indices: TensorType, axes: Axes) -> TensorType:
    one_dtype((x, v), "scatter_set")
    return x


def _scatter_set_build(b: NestBuilder, out: Place, x: Place, v: Place, *indices: Place, axes: Axes) -> Block:
    position = _scatter_place(out, indices, axes, indices[0].type.ndim)
    copy = b.loop(x.type.shape, lambda ix: (out.store(x.load(*ix), *ix),))
    return (*copy, *b.loop(v.type.shape, lambda ix: (out.store(v.load(*ix), *position(ix)),)))


def _scatter_set_numpy(x: Any, v: Any, *indices: Any, axes: Axes) -> Any:
    out = x.copy()
    index = np.broadcast_arrays(*_full_index(axes, kept(x.ndim, axes), indices, x.shape))
    for at in np.ndindex(v.shape):
        out[tuple(i[at] for i in index)] = v[at]
    return out


def last_writers(x: Node, v: Node, indices: tuple[Node, ...], axes: Axes) -> Node:
    """Which elements of v are still there after the assignment: of repeated positions the last one."""
    lead = indices[0].shape
    order = reshape(iota(size=product(lead)), shape=lead)
    board = zeros(tuple(x.shape[a] for a in axes), i64)
    everywhere = tuple(range(len(axes)))
    written = scatter_set(board, order, *indices, axes=everywhere)
    alive = p.eq(gather(written, *indices, axes=everywhere), order)
    return broadcast(alive, shape=v.shape, axes=tuple(range(len(lead))))


def _scatter_set_vjp(ct: Node, y: Node, x: Node, v: Node, *indices: Node, axes: Axes) -> tuple[Node | None, ...]:
    empty = number(0, ct.dtype)
    dx = scatter_set(ct, broadcast(empty, shape=v.shape, axes=()), *indices, axes=axes)
    dv = p.select(last_writers(x, v, indices, axes), gather(ct, *indices, axes=axes), empty)
    return (dx, dv, *(None for _ in indices))


def _scatter_set_jvp(ts: Any, y: Node, x: Node, v: Node, *indices: Node, axes: Axes) -> Node | None:
    tx, tv, *_ = ts
    if tx is None and tv is None:
        return None
    dtype = (tx or tv).dtype  # bool where masks are pushed forward
    tx, tv = (zeros(n.shape, dtype) if t is None else t for t, n in ((tx, x), (tv, v)))
    return scatter_set(tx, tv, *indices, axes=axes)


def _scatter_set_batch(size: Size, args: Any, dims: Any, *, axes: Axes) -> tuple[Node, int]:
    (x, v, *indices), (dx, dv, *di) = args, dims
    fx, fv = batched(size, x, dx), batched(size, v, dv)
    return scatter_set(fx, fv, *batch_indices(size, indices, di), axes=(0, *(a + 1 for a in axes))), 0


scatter_set: Op = register(
    Op(
        name="scatter_set",
        doc="x with v stored at index arrays, in row-major order: of repeated positions the last one stays.",
        infer=_scatter_set_infer,
        numpy=_scatter_set_numpy,
        lower=Nest(_scatter_set_build),
        structural=True,
        covers=False,
        vjp=_scatter_set_vjp,
        jvp=_scatter_set_jvp,
        batch=_scatter_set_batch,
        examples=lambda: [(((4, 2), (3, 2), np.array([0, 2, 0])), {"axes": (0,)})],
    )
)
