"""Running sums, linear recurrences and running products along an axis, and the index along it."""

from __future__ import annotations

from typing import Any

import numpy as np

from symgrad.ir.loops import (
    ADD,
    LT,
    MUL,
    Apply,
    Block,
    Expr,
    If,
    const_index,
    extent,
    sub,
)
from symgrad.ir.loops import add as plus
from symgrad.ir.node import Node, size_node
from symgrad.ir.op import Generate, Index, Nest, NestBuilder, Op, Place, register
from symgrad.ir.types import Shape, Size, TensorType, i64
from symgrad.ops import pointwise as p
from symgrad.ops.kinds import number, one_dtype
from symgrad.ops.views import batched, broadcast, place, slice_


def _lines(b: NestBuilder, type: TensorType, axis: int, reverse: bool, body: Any) -> Block:
    """Loops over all positions: ``body(index, previous, first)``, with ``previous`` one step before on ``axis``."""

    def at(ix: Index) -> Block:
        k = ix[axis]
        here = sub(extent(type.shape[axis] - 1), k) if reverse else k
        before = plus(here, const_index(1 if reverse else -1))
        index = (*ix[:axis], here, *ix[axis + 1 :])
        previous = (*ix[:axis], before, *ix[axis + 1 :])
        statements: Block = body(index, previous, Apply(LT, (k, const_index(1))))
        return statements

    return b.loop(type.shape, at)


def _cumsum_build(b: NestBuilder, out: Place, x: Place, *, axis: int, reverse: bool) -> Block:
    def body(ix: Index, previous: Index, first: Expr) -> Block:
        return (
            If(
                first, (out.store(x.load(*ix), *ix),), (out.store(Apply(ADD, (out.load(*previous), x.load(*ix))), *ix),)
            ),
        )

    return _lines(b, out.type, axis, reverse, body)


def along_axis_batch(op: Any) -> Any:
    def batch(size: Size, args: Any, dims: Any, *, axis: int, **attrs: Any) -> tuple[Node, int]:
        fronts = (batched(size, a, d) for a, d in zip(args, dims, strict=True))
        return op()(*fronts, axis=axis + 1, **attrs), 0

    return batch


def _cumsum_numpy(x: Any, *, axis: int, reverse: bool) -> Any:
    y = np.flip(x, axis) if reverse else x
    y = np.logical_or.accumulate(y, axis) if x.dtype == bool else np.cumsum(y, axis, dtype=x.dtype)
    return np.flip(y, axis) if reverse else y


cumsum: Op = register(
    Op(
        name="cumsum",
        doc="Running sums along an axis, from the end with ``reverse``.",
        infer=lambda x, *, axis, reverse: x,
        numpy=_cumsum_numpy,
        lower=Nest(_cumsum_build),
        vjp=lambda ct, y, x, *, axis, reverse: (cumsum(ct, axis=axis, reverse=not reverse),),
        linear=True,
        structural=True,
        batch=along_axis_batch(lambda: cumsum),
        examples=lambda: [(((4,),), {"axis": 0, "reverse": False}), (((3, 2),), {"axis": 0, "reverse": True})],
    )
)


def _recurrence_infer(a: TensorType, b: TensorType, *, axis: int, reverse: bool) -> TensorType:
    one_dtype((a, b), "recurrence")
    return b


def _recurrence_numpy(a: Any, b: Any, *, axis: int, reverse: bool) -> Any:
    a, b = np.moveaxis(a, axis, 0), np.moveaxis(b, axis, 0)
    out = np.empty_like(b)
    order = range(len(b))[:: -1 if reverse else 1]
    for step, k in enumerate(order):
        out[k] = a[k] * out[order[step - 1]] + b[k] if step else b[k]
    return np.moveaxis(out, 0, axis)


def _recurrence_build(b: NestBuilder, out: Place, a: Place, c: Place, *, axis: int, reverse: bool) -> Block:
    def body(ix: Index, previous: Index, first: Expr) -> Block:
        step = Apply(ADD, (Apply(MUL, (a.load(*ix), out.load(*previous))), c.load(*ix)))
        return (If(first, (out.store(c.load(*ix), *ix),), (out.store(step, *ix),)),)

    return _lines(b, out.type, axis, reverse, body)


def shifted(x: Node, axis: int, reverse: bool) -> Node:
    """Each element's predecessor along ``axis`` (its successor with ``reverse``), zero at the start."""
    n = x.shape[axis]
    rest = tuple(n - 1 if k == axis else s for k, s in enumerate(x.shape))
    ones = (1,) * x.ndim
    part = slice_(x, starts=tuple(1 if k == axis and reverse else 0 for k in range(x.ndim)), sizes=rest, steps=ones)
    return place(
        part, shape=x.shape, starts=tuple(1 if k == axis and not reverse else 0 for k in range(x.ndim)), steps=ones
    )


def _recurrence_vjp(ct: Node, y: Node, a: Node, b: Node, *, axis: int, reverse: bool) -> tuple[Node, Node]:
    if y.shape[axis] == 0:
        return ct, ct
    s = recurrence(shifted(a, axis, not reverse), ct, axis=axis, reverse=not reverse)
    return s * shifted(y, axis, reverse), s


def _recurrence_jvp(
    tangents: tuple[Node | None, ...], y: Node, a: Node, b: Node, *, axis: int, reverse: bool
) -> Node | None:
    ta, tb = tangents
    if ta is None and tb is None:
        return None
    if y.shape[axis] == 0:
        return tb if tb is not None else ta
    drive = None if ta is None else ta * shifted(y, axis, reverse)
    total = tb if drive is None else drive if tb is None else drive + tb
    assert total is not None
    return recurrence(a, total, axis=axis, reverse=reverse)


recurrence: Op = register(
    Op(
        name="recurrence",
        doc="y[k] = a[k]*y[k-1] + b[k] along an axis with y[-1] = 0; from the end with ``reverse``. a[0] is not read.",
        infer=_recurrence_infer,
        numpy=_recurrence_numpy,
        lower=Nest(_recurrence_build),
        vjp=_recurrence_vjp,
        jvp=_recurrence_jvp,
        batch=along_axis_batch(lambda: recurrence),
        examples=lambda: [(((4,), (4,)), {"axis": 0, "reverse": r}) for r in (False, True)],
    )
)


def cumprod(x: Node, *, axis: int, reverse: bool = False) -> Node:
    """Running products as a linear recurrence, whose derivative is right when there are zeros."""
    if x.shape[axis] == 0:
        return x
    n = x.shape[axis]
    edge = n - 1 if reverse else 0
    first = p.eq(iota_along(x.shape, axis), size_node(edge))
    return recurrence(x, p.select(first, x, number(0, x.dtype)), axis=axis, reverse=reverse)


iota: Op = register(
    Op(
        name="iota",
        doc="0, 1, 2, … as i64.",
        infer=lambda *, size: TensorType(i64, (size,)),
        numpy=lambda *, size: np.arange(size),
        lower=Generate(lambda index, *, size: index[0]),
        constant=True,
        examples=lambda: [((), {"size": 5})],
    )
)


def iota_along(shape: Shape, axis: int) -> Node:
    """The index along ``axis`` everywhere in an array of ``shape``."""
    return broadcast(iota(size=shape[axis]), shape=shape, axes=(axis,))
