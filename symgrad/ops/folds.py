"""Reductions, running reductions, argmax and sorting.

``sum`` of bools means "any": the masks that travel with adjoints go through the same rules as the adjoints.
"""

from __future__ import annotations

import math
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
    sub,
)
from symgrad.ir.loops import add as plus
from symgrad.ir.node import Node, size_node
from symgrad.ir.op import REGISTRY, Expand, Fold, Generate, Index, Nest, NestBuilder, Op, Place, register
from symgrad.ir.types import DType, Shape, Size, TensorType, boolean, dtype_of, i64, product
from symgrad.ops import pointwise as p
from symgrad.ops.kinds import FLOATS, broadcast_to, number, one_dtype, same_types
from symgrad.ops.views import batched, broadcast, concatenate, place, reshape, slice_, to_front, transpose

Axes = tuple[int, ...]


def kept(ndim: int, axes: Axes) -> Axes:
    return tuple(k for k in range(ndim) if k not in axes)


def _reduced(x: TensorType, *, axes: Axes) -> TensorType:
    return x.with_shape(x.shape[k] for k in kept(x.ndim, axes))


def _reduced_floats(name: str) -> Any:
    return lambda x, *, axes: _reduced(same_types([x], name, FLOATS), axes=axes)


def expand_over(y: Node, like: Node, axes: Axes) -> Node:
    """A reduced value repeated along the axes it was reduced over."""
    return broadcast(y, shape=like.shape, axes=kept(like.ndim, axes))


def spread_mask(mask: Node, y: Node, x: Node, *, axes: Axes) -> tuple[Node]:
    """All elements that went into a reduced value contribute where it does."""
    return (expand_over(mask, x, axes),)


def fold_batch(op_name: str) -> Any:
    """Under vmap a reduction keeps its batch axis in front."""

    def batch(size: Size, args: Any, dims: Any, *, axes: Axes) -> tuple[Node, int]:
        return REGISTRY[op_name](to_front(args[0], dims[0]), axes=tuple(a + 1 for a in axes)), 0

    return batch


def _examples() -> list[tuple[tuple[Any, ...], dict[str, Any]]]:
    return [(((3, 4),), {"axes": (1,)}), (((3, 4),), {"axes": (0,)}), (((2, 3, 2),), {"axes": (0, 1, 2)})]


def _sum_numpy(x: Any, *, axes: Axes) -> Any:
    return np.any(x, axis=axes) if x.dtype == bool else np.sum(x, axis=axes, dtype=x.dtype)


sum_: Op = register(
    Op(
        name="sum",
        doc="The sum over axes; of bools, whether any is true.",
        infer=_reduced,
        numpy=_sum_numpy,
        lower=Fold(ADD, lambda dtype: False if dtype == boolean else 0),
        vjp=lambda ct, y, x, *, axes: (expand_over(ct, x, axes),),
        linear=True,
        structural=True,
        batch=fold_batch("sum"),
        examples=_examples,
    )
)


def sum_to(x: Node, shape: Shape) -> Node:
    """Sum ``x`` down to ``shape``, from which it was broadcast."""
    lead = x.ndim - len(shape)
    axes = tuple(k for k in range(x.ndim) if k < lead or (shape[k - lead] == 1 and x.shape[k] != 1))
    return reshape(sum_(x, axes=axes), shape=shape) if axes else x


# --- extremes --------------------------------------------------------------------------------------------------------


def _extreme_masks(y: Node, x: Node, *, axes: Axes) -> tuple[Node]:
    return (p.eq(x, expand_over(y, x, axes)),)


def _shares(y: Node, x: Node, axes: Axes) -> Node:
    """1/k at each of k ties, else 0."""
    (tied,) = _extreme_masks(y, x, axes=axes)
    count = sum_(p.cast(tied, dtype=x.dtype), axes=axes)
    return p.select(tied, expand_over(1.0 / count, x, axes), 0.0)


def _extreme_vjp(ct: Node, y: Node, x: Node, *, axes: Axes) -> tuple[Node]:
    return (expand_over(ct, x, axes) * _shares(y, x, axes),)


def _extreme_jvp(tangents: tuple[Node | None, ...], y: Node, x: Node, *, axes: Axes) -> Node | None:
    (t,) = tangents
    if t is None:
        return None
    (tied,) = _extreme_masks(y, x, axes=axes)
    return sum_(p.select(tied, t * _shares(y, x, axes), 0.0), axes=axes)


def lowest(dtype: DType) -> float | int | bool:
    """The identity of max."""
    if dtype.is_float:
        return -math.inf
    return False if dtype == boolean else int(np.iinfo(dtype.numpy.str).min)


def highest(dtype: DType) -> float | int | bool:
    """The identity of min."""
    if dtype.is_float:
        return math.inf
    return True if dtype == boolean else int(np.iinfo(dtype.numpy.str).max)


def _extreme(name: str, numpy: Any, fn: Any, start: Any) -> Op:
    return register(
        Op(
            name=name,
            doc=f"The {name}imum over axes; nan spreads; 1/k of the derivative to each of k ties.",
            infer=_reduced,
            numpy=lambda x, *, axes: numpy(x, axis=axes, initial=start(dtype_of(x.dtype))),
            lower=Fold(fn, start),
            vjp=_extreme_vjp,
            jvp=_extreme_jvp,
            masks=_extreme_masks,
            carry=spread_mask,
            batch=fold_batch(name),
            examples=_examples,
        )
    )


max_: Op = _extreme("max", np.max, p.MAXIMUM, lowest)
min_: Op = _extreme("min", np.min, p.MINIMUM, highest)


# --- products, norms, log of a sum of exponentials --------------------------------------------------------------------


def _others(x: Node, axes: Axes) -> Node:
    """For each element the product of all others along ``axes``, right when there are zeros."""
    order = (*kept(x.ndim, axes), *axes)
    front = tuple(x.shape[k] for k in kept(x.ndim, axes))
    rows = reshape(transpose(x, perm=order), shape=(*front, product(x.shape[k] for k in axes)))
    both = exclusive_product(rows, reverse=False) * exclusive_product(rows, reverse=True)
    back = reshape(both, shape=tuple(x.shape[k] for k in order))
    return transpose(back, perm=tuple(int(k) for k in np.argsort(order)))


def exclusive_product(x: Node, *, reverse: bool) -> Node:
    """Products of all earlier (later, with ``reverse``) elements along the last axis."""
    n, axis = x.shape[-1], x.ndim - 1
    if n == 0:
        return x
    part = slice_(
        x, starts=(0,) * axis + (1 if reverse else 0,), sizes=(*x.shape[:-1], n - 1), steps=(1,) * x.ndim
    )  # fmt: skip
    one = broadcast_to(number(1, x.dtype), (*x.shape[:-1], 1))
    shifted = concatenate(part, one, axis=axis) if reverse else concatenate(one, part, axis=axis)
    return cumprod(shifted, axis=axis, reverse=reverse)


def _prod_jvp(tangents: tuple[Node | None, ...], y: Node, x: Node, *, axes: Axes) -> Node | None:
    (t,) = tangents
    return None if t is None else sum_(t * _others(x, axes), axes=axes)


prod: Op = register(
    Op(
        name="prod",
        doc="The product over axes; its derivative is the product of the others, also with zeros.",
        infer=_reduced,
        numpy=lambda x, *, axes: np.prod(x, axis=axes, dtype=x.dtype),
        lower=Fold(MUL, lambda dtype: 1),
        vjp=lambda ct, y, x, *, axes: (expand_over(ct, x, axes) * _others(x, axes),),
        jvp=_prod_jvp,
        carry=spread_mask,
        batch=fold_batch("prod"),
        examples=_examples,
    )
)


def _norm2_direction(y: Node, x: Node, axes: Axes) -> Node:
    length = expand_over(y, x, axes)
    return p.select(p.eq(length, 0.0), 0.0, x / length)


def _norm2_jvp(tangents: tuple[Node | None, ...], y: Node, x: Node, *, axes: Axes) -> Node | None:
    (t,) = tangents
    return None if t is None else sum_(t * _norm2_direction(y, x, axes), axes=axes)


norm2: Op = register(
    Op(
        name="norm2",
        doc="The Euclidean norm over axes; derivative 0 at 0.",
        infer=_reduced_floats("norm2"),
        numpy=lambda x, *, axes: np.sqrt(np.sum(x * x, axis=axes)),
        lower=Expand(lambda x, *, axes: p.sqrt(sum_(x * x, axes=axes))),
        vjp=lambda ct, y, x, *, axes: (expand_over(ct, x, axes) * _norm2_direction(y, x, axes),),
        jvp=_norm2_jvp,
        carry=spread_mask,
        batch=fold_batch("norm2"),
        examples=_examples,
    )
)


def _shift(x: Node, axes: Axes) -> Node:
    """A finite stand-in for the maximum, constant for differentiation."""
    m = p.stop(max_(x, axes=axes))
    return p.select(p.lt(p.abs_(m), math.inf), m, 0.0)


def _exponentials(x: Node, axes: Axes) -> tuple[Node, Node, Node]:
    m = _shift(x, axes)
    e = p.exp(x - expand_over(m, x, axes))
    return m, e, sum_(e, axes=axes)


def softmax(x: Node, *, axes: Axes) -> Node:
    """exp(x) over its sum; 0 where the sum is empty of weight."""
    _, e, s = _exponentials(x, axes)
    inverse = p.select(p.eq(s, 0.0), 0.0, 1.0 / s)
    return e * expand_over(inverse, x, axes)


def _logsumexp_expansion(x: Node, *, axes: Axes) -> Node:
    m, _, s = _exponentials(x, axes)
    return p.log(s) + m


def _logsumexp_jvp(tangents: tuple[Node | None, ...], y: Node, x: Node, *, axes: Axes) -> Node | None:
    (t,) = tangents
    return None if t is None else sum_(t * softmax(x, axes=axes), axes=axes)


logsumexp: Op = register(
    Op(
        name="logsumexp",
        doc="log(sum(exp(x))) without overflow; -inf with derivative 0 when all are -inf.",
        infer=_reduced_floats("logsumexp"),
        numpy=lambda x, *, axes: np.logaddexp.reduce(x, axis=axes),
        lower=Expand(_logsumexp_expansion),
        vjp=lambda ct, y, x, *, axes: (expand_over(ct, x, axes) * softmax(x, axes=axes),),
        jvp=_logsumexp_jvp,
        carry=spread_mask,
        batch=fold_batch("logsumexp"),
        examples=lambda: [(((3, 4),), {"axes": (1,)}), (((5,),), {"axes": (0,)})],
    )
)

# --- running sums and linear recurrences ------------------------------------------------------------------------------


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


# --- positions -------------------------------------------------------------------------------------------------------


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
