"""Positions: of the largest and smallest element, and of the elements in order."""

from __future__ import annotations

from typing import Any

import numpy as np

from symgrad.ir.loops import (
    ADD,
    AND,
    EQ,
    LT,
    MIN,
    MUL,
    NE,
    NOT,
    OR,
    Apply,
    Assign,
    Block,
    Choose,
    Const,
    Declare,
    Expr,
    For,
    If,
    Let,
    While,
    const_index,
    extent,
)
from symgrad.ir.op import Index, Nest, NestBuilder, Op, Place, register
from symgrad.ir.types import TensorType, boolean, i64
from symgrad.ops.running import along_axis_batch
from symgrad.ops.views import to_front


def _arg_build(b: NestBuilder, out: Place, x: Place, *, axis: int, largest: bool) -> Block:
    """The first position of the extreme, or of the first nan."""

    def at(ix: Index) -> Block:
        best, where, k = b.fresh("best", x.type.dtype), b.fresh("where", i64), b.fresh("k", i64)
        here = b.fresh("here", x.type.dtype)
        full = (*ix[:axis], k, *ix[axis:])
        order = (best, here) if largest else (here, best)
        better: Expr = Apply(LT, order)
        if x.type.dtype.is_float:
            is_nan = Apply(NE, (here, here))
            best_is_number = Apply(EQ, (best, best))
            better = Apply(AND, (best_is_number, Apply(OR, (better, is_nan))))
        start = x.load(*ix[:axis], const_index(0), *ix[axis:])
        return (
            Declare(best, start),
            Declare(where, const_index(0)),
            For(
                k,
                const_index(1),
                extent(x.type.shape[axis]),
                (Let(here, x.load(*full)), If(better, (Assign(best, here), Assign(where, k)))),
            ),
            out.store(where, *ix),
        )

    return b.loop(out.type.shape, at)


def _arg(name: str, numpy: Any, largest: bool) -> Op:
    return register(
        Op(
            name=name,
            doc=f"The first position of the {name[3:]}imum along an axis, as i64.",
            infer=lambda x, *, axis: TensorType(i64, (*x.shape[:axis], *x.shape[axis + 1 :])),
            numpy=lambda x, *, axis: numpy(x, axis=axis),
            lower=Nest(lambda b, out, x, *, axis: _arg_build(b, out, x, axis=axis, largest=largest)),
            constant=True,
            batch=along_axis_batch(lambda: argmax if largest else argmin),
            examples=lambda: [(((3, 4),), {"axis": 1}), (((3, 4),), {"axis": 0})],
        )
    )


argmax: Op = _arg("argmax", np.argmax, True)
argmin: Op = _arg("argmin", np.argmin, False)


def _argsort_build(b: NestBuilder, out: Place, x: Place) -> Block:
    """A bottom-up merge sort of positions, row by row; stable, nans last."""
    n = extent(x.type.shape[-1])
    row = TensorType(i64, (x.type.shape[-1],))
    source, target = b.temp(row), b.temp(row)

    def one_row(ix: Index) -> Block:
        k, j, width, low = (b.fresh(name, i64) for name in ("k", "j", "width", "low"))

        def key(position: Expr) -> Expr:
            return x.load(*ix, position)

        merge = _merge(b, source, target, key, low, width, n)
        chunks = While(
            (), Apply(LT, (low, n)), (*merge, Assign(low, Apply(ADD, (low, Apply(MUL, (width, const_index(2)))))))
        )  # fmt: skip
        copy = For(j, const_index(0), n, (source.store(target.load(j), j),))
        return (
            For(k, const_index(0), n, (source.store(k, k),)),
            Declare(width, const_index(1)),
            While(
                (),
                Apply(LT, (width, n)),
                (Declare(low, const_index(0)), chunks, copy, Assign(width, Apply(MUL, (width, const_index(2))))),
            ),
            *b.loop((x.type.shape[-1],), lambda i: (out.store(source.load(*i), *ix, *i),)),
        )

    return b.loop(x.type.shape[:-1], one_row)


def _merge(b: NestBuilder, source: Place, target: Place, key: Any, low: Expr, width: Expr, n: Expr) -> Block:
    """Merge source[low:mid] and source[mid:high] into target[low:high], the left one first at ties."""
    mid, high, i, j, k = (b.fresh(name, i64) for name in ("mid", "high", "i", "j", "o"))
    left, right = b.fresh("left", i64), b.fresh("right", i64)
    take = b.fresh("take", boolean)
    one = const_index(1)
    right_first = _before(key(right), key(left))
    safe_i, safe_j = (
        Apply(MIN, (i, Apply(ADD, (n, const_index(-1))))),
        Apply(MIN, (j, Apply(ADD, (n, const_index(-1))))),
    )
    left_done, right_done = Apply(NOT, (Apply(LT, (i, mid)),)), Apply(NOT, (Apply(LT, (j, high)),))
    step = (
        Let(left, source.load(safe_i)),
        Let(right, source.load(safe_j)),
        Let(take, Choose(left_done, Const(True, boolean), Choose(right_done, Const(False, boolean), right_first))),
        target.store(Choose(take, right, left), k),
        Assign(i, Choose(take, i, Apply(ADD, (i, one)))),
        Assign(j, Choose(take, Apply(ADD, (j, one)), j)),
    )
    return (
        Let(mid, Apply(MIN, (Apply(ADD, (low, width)), n))),
        Let(high, Apply(MIN, (Apply(ADD, (mid, width)), n))),
        Declare(i, low),
        Declare(j, mid),
        For(k, low, high, step),
    )


def _before(a: Expr, b: Expr) -> Expr:
    """Whether a sorts strictly before b, nans last."""
    less: Expr = Apply(LT, (a, b))
    if not a.dtype.is_float:
        return less
    number_before_nan = Apply(AND, (Apply(EQ, (a, a)), Apply(NE, (b, b))))
    return Apply(OR, (less, number_before_nan))


argsort: Op = register(
    Op(
        name="argsort",
        doc="Positions that sort the last axis; stable, nans last.",
        infer=lambda x: x.with_dtype(i64),
        numpy=lambda x: np.argsort(x, axis=-1, kind="stable"),
        lower=Nest(_argsort_build),
        constant=True,
        batch=lambda size, args, dims: (argsort(to_front(args[0], dims[0])), 0),
        examples=lambda: [(((7,),), {}), (((2, 5),), {})],
    )
)
